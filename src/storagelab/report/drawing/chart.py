"""Defines a chart: its rows, drawing and caption, and its content as a table and as text.

Chart(...)                  one chart, in a module of `charts`
chart.of(findings, runs)    the chart of one experiment, or None if it has no data
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from storagelab.findings.model import CellSummary, Estimate, Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, Table, bare
from storagelab.report.drawing.arrange import MAX_LINES, MAX_PANELS, Arrangement, arrange, choose, in_order, must_show
from storagelab.report.drawing.arrange import recommended as recommended_in
from storagelab.report.drawing.vega import FORMS, Sheet, Spec
from storagelab.report.words import compared
from storagelab.report.words.ladder import verdict_of
from storagelab.words.names import cell_entry, group_text
from storagelab.words.numbers import keep_together, plural

Row = dict[str, str | float | int | bool | None]
"""The data of a mark, as Vega-Lite takes them. `tip` is the row as text: the tooltip, and the mark's label in the SVG.
`pick`: whether the mark belongs to a recommended layout.
"""
Part = Literal["answer", "cells", "drives", "effects", "waits", "over-time"]
"""The position of a chart on the page, in reading order."""
MOST_NAMED = 12
STAR = "★"
HOLLOW = "Hollow marks have no interval: too few runs, or not tested."


@dataclass(frozen=True)
class Figure:
    """The content of one chart: its rows, their order, and a sentence on cells that did not fit. `names`: the column
    that names layouts, if the marks alone don't show which layout a row belongs to.
    """

    rows: Sequence[Row]
    arrangement: Arrangement = field(default_factory=lambda: Arrangement(x=None, lines=(), panels=()))
    x_levels: Sequence[str] = ()
    lines: Sequence[str] = ()
    panels: Sequence[str] = ()
    points: Sequence[Row] = ()
    colours: Mapping[str, str] = field(default_factory=dict)
    legend: str = ""
    hidden: str = ""
    names: str = ""

    def starred(self, names: Iterable[str]) -> dict[str, str]:
        """Maps each name to its label, which has a star if the layout is recommended."""
        picked = {row[self.names] for row in self.rows if row.get("pick")} if self.names else set()
        return {name: f"{STAR} {name}" if name in picked else name for name in names}


@dataclass(frozen=True)
class Chart:
    """One chart, for any experiment.

    `place`: its order within the charts of its part, the smallest first. `rows` returns no rows if the chart does not
    apply. `finding` says in a sentence what the chart shows, and `marks` what its marks mean. `is_headed`: it has its
    own heading on the page. A chart over time gives the ends of its axes and its unit, so that the page's script can
    read values at any point of its lines.
    """

    name: str
    part: Part
    title: str | Callable[[Findings], str]
    rows: Callable[[Findings, Sequence[Run]], Figure]
    draw: Callable[[Figure, Sheet], Spec]
    finding: Callable[[Figure, Findings], str]
    marks: Callable[[Figure, Findings], str]
    table: Callable[[Figure, Findings], Table]
    place: int = 0
    is_headed: bool = True
    ends: Callable[[Figure], tuple[float, Sequence[float]]] | None = None
    time_unit: str = ""

    def of(self, findings: Findings, runs: Sequence[Run], recommended: Iterable[str] | None = None) -> Drawn | None:
        """The chart of one experiment; None if there is nothing to draw. `recommended`: ids of cells, if known."""
        data = self.rows(findings, runs)
        if not data.rows:
            return None
        picks = frozenset(recommended_in(findings) if recommended is None else recommended)
        return Drawn(self, findings, data).with_each(lambda row: {"pick": row.get("cell_id") in picks})


@dataclass(frozen=True)
class Drawn:
    """A chart of one experiment."""

    chart: Chart
    findings: Findings
    data: Figure

    @property
    def name(self) -> str:
        return self.chart.name

    @property
    def title(self) -> str:
        title = self.chart.title
        return title if isinstance(title, str) else title(self.findings)

    @property
    def where(self) -> str:
        return self.findings.provenance or "nothing measured yet"

    @property
    def finding(self) -> str:
        return self.chart.finding(self.data, self.findings)

    def specs(self) -> dict[str, Spec]:
        """The chart in both widths as Vega-Lite: "wide" and "narrow"."""
        subtitle = [keep_together(self.finding), f"{self.findings.experiment} · {self.where}", self.star]
        sheets = {name: Sheet(form, self.title, subtitle, self.where) for name, form in FORMS.items()}
        return {name: self.chart.draw(self.data, sheet) for name, sheet in sheets.items()}

    def with_each(self, more: Callable[[Row], Row]) -> Drawn:
        """This chart with more columns, from each row and point."""
        rows, points = ([row | more(row) for row in part] for part in (self.data.rows, self.data.points))
        return replace(self, data=replace(self.data, rows=rows, points=points))

    @property
    def whole(self) -> Drawn | None:
        """This chart with also the rows for which paper has no room, in their order; None if there are no such rows."""
        if all(row.get("drawn", True) for row in self.data.rows):
            return None
        return self.with_each(lambda _row: {"drawn": True})

    @property
    def with_ids(self) -> Drawn:
        """This chart with marks that are labelled with the ids of cells instead of their names."""
        names = {cell.cell_id: cell.name for cell in self.findings.cells}

        def short(row: Row) -> Row:
            cell_id = str(row.get("cell_id"))
            return {"tip": str(row["tip"]).replace(names[cell_id], cell_id)} if cell_id in names else {}

        return self.with_each(short)

    @property
    def said(self) -> str:
        """What the chart shows, and what its marks mean."""
        marks = self.chart.marks(self.data, self.findings)
        hollow = HOLLOW if any(row.get("hollow") for row in self.data.rows) else ""
        return " ".join(filter(None, (self.finding, marks, hollow)))

    @property
    def caption(self) -> str:
        """What the chart shows, what its marks mean, and what is recommended."""
        return f"{self.said} {self.star}." if self.star else self.said

    @property
    def star(self) -> str:
        """What the star means, if there is one: "default" unless the layout is surely the fastest, as in the ladder."""
        of: dict[str, list[CellSummary]] = {}
        for cell_id in in_order(str(row["cell_id"]) for row in self.data.rows if row["pick"]):
            word = "recommended" if verdict_of(self.findings, cell_id).kind == "fastest" else "default"
            of.setdefault(word, []).append(self.findings.cell(cell_id))
        texts = (f"{word}: {group_text([one.levels for one in of[word]], self.findings.factors)}" for word in of)
        return f"{STAR} {'; '.join(texts)}" if of else ""

    @property
    def table(self) -> Table:
        return self.chart.table(self.data, self.findings)

    @property
    def label(self) -> str:
        """The chart's label for screen readers: what it shows, and what the table below it contains."""
        table = self.table
        holds = "; ".join(heading.text for heading in table.headings)
        rows = plural(len(table.rows), "row")
        return f"Chart: {self.title.lower()} ({self.where}). {self.finding} Its table has {rows}: {holds}."


def scaled(estimate: Estimate, times: float = 1.0, zero: float = 0.0) -> Row:
    """A mean and the ends of its interval, each multiplied by `times` and counted from `zero`; `hollow` if the estimate
    has no interval.
    """
    ends = {"mean": estimate.value, "low": estimate.low, "high": estimate.high}
    known = {name: None if value is None else times * value + zero for name, value in ends.items()}
    return {**known, "hollow": estimate.half_width is None}


def compared_axis(findings: Findings) -> str:
    """The figure by which cells are compared, with its unit."""
    unit = compared.unit(findings)
    return unit if compared.by_rate(findings) else f"{compared.quantity(findings)}, {unit}"


def figure_of_cells(
    findings: Findings,
    cells: Sequence[CellSummary],
    row: Callable[[CellSummary], Row],
    places: Arrangement | None = None,
) -> Figure:
    """A row for each of `cells` at its place by `places` (default: the usual arrangement). If there are too many lines
    or panels, those of the cells that must be shown are kept.
    """
    places = places or arrange(findings)
    must = must_show(findings)
    all_lines, all_panels = in_order(map(places.line_of, cells)), in_order(map(places.panel_of, cells))
    lines = choose(all_lines, map(places.line_of, must), MAX_LINES)
    panels = choose(all_panels, map(places.panel_of, must), MAX_PANELS)
    shown = [cell for cell in cells if places.line_of(cell) in lines and places.panel_of(cell) in panels]
    return Figure(
        rows=[place_of(cell, places) | row(cell) for cell in shown],
        arrangement=places,
        x_levels=places.x_levels(cells),
        lines=lines,
        panels=panels,
        hidden=not_drawn(
            len(cells) - len(shown), [one for one in (*all_panels, *all_lines) if one not in (*panels, *lines)]
        ),
    )


def not_drawn(cells: int, names: Sequence[str] = ()) -> str:
    """A sentence on how many cells are not drawn, with the `names` of the lines or panels left out; "" for none."""
    if not cells:
        return ""
    named = f": {'; '.join(names[:MOST_NAMED])}{'; …' * (len(names) > MOST_NAMED)}" if names else ""
    return f"{plural(cells, 'more cell is', 'more cells are')} not drawn{named}. The report's table has every cell."


ENDS = {"low": Heading("95 % from"), "high": Heading("to")}
"""The columns of an interval."""


def table_of(data: Figure, columns: Mapping[str, Heading]) -> Table:
    """A row for each row of a chart: the `columns`, which are keys of the chart's rows."""
    return Table(list(columns.values()), [[_entry(row[name]) for name in columns] for row in data.rows])


def table_of_cells(data: Figure, columns: Mapping[str, Heading]) -> Table:
    """As `table_of`, with the cell's name before each row's columns."""
    named = [row | {"entry": cell_entry(row["cell_id"], row["cell"])} for row in data.rows]
    return table_of(replace(data, rows=named), {"entry": Heading("cell", "prose"), **columns})


def _entry(value: str | float | int | None) -> str:
    return bare(value) if value is None or isinstance(value, float) else str(value)


def place_of(cell: CellSummary, places: Arrangement) -> Row:
    """The columns of a row that give its cell and the cell's place."""
    return {
        "x": places.x_of(cell), "line": places.line_of(cell), "panel": places.panel_of(cell), "cell_id": cell.cell_id,
        "cell": cell.text,
    }  # fmt: skip
