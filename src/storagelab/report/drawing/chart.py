"""Defines what a chart is: its rows, drawing and caption, and its content as a table and as text.

Chart(...)                  defines one chart, in a module of `charts`
chart.of(findings, runs)    returns the chart of one experiment, or None if it has no data
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
"""The data of a mark for Vega-Lite. `tip`: the text of the tooltip, and of the mark's label in the SVG. `pick`: whether
the mark belongs to a recommended layout.
"""
Part = Literal["answer", "cells", "drives", "effects", "waits", "over-time"]
"""The part of the page in which a chart is, in reading order."""
MOST_NAMED = 12
STAR = "★"
HOLLOW = "Hollow marks have no interval: too few runs, or not tested."


@dataclass(frozen=True)
class Figure:
    """The content of one chart: its rows, the order of levels, lines and panels, and `points` for single runs.

    `hidden`: a sentence on cells that did not fit; "" if all fit. `names`: the column of texts that get a star if their
    layout is recommended; "" if the marks themselves are stars.
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
        """Maps each name to its label. The label has a star if the layout is recommended."""
        picked = {row[self.names] for row in self.rows if row.get("pick")} if self.names else set()
        return {name: f"{STAR} {name}" if name in picked else name for name in names}


@dataclass(frozen=True)
class Chart:
    """The definition of one chart, for any experiment.

    `place`: charts of the same part are sorted by this number. `rows` returns no rows if the chart does not apply.
    `finding` says in a sentence what the chart shows. `marks` says what its marks mean. `is_headed`: whether the chart
    has its own heading on the page. `ends` and `time_unit`: the ends of the axes and the unit of a chart over time. The
    page's script needs both to compute the value at any point of a line.
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
        """Returns the chart of one experiment; None if there is nothing to draw. `recommended` has the ids of the
        recommended cells; None if they are still to be found.
        """
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
        return self.findings.provenance or "no result yet"

    @property
    def finding(self) -> str:
        return self.chart.finding(self.data, self.findings)

    def specs(self) -> dict[str, Spec]:
        """Returns the Vega-Lite specifications of both widths, "wide" and "narrow"."""
        subtitle = [keep_together(self.finding), f"{self.findings.experiment} · {self.where}", self.star]
        sheets = {name: Sheet(form, self.title, subtitle, self.where) for name, form in FORMS.items()}
        return {name: self.chart.draw(self.data, sheet) for name, sheet in sheets.items()}

    def with_each(self, more: Callable[[Row], Row]) -> Drawn:
        """Returns this chart with the columns that `more` computes from each row and point."""
        rows, points = ([row | more(row) for row in part] for part in (self.data.rows, self.data.points))
        return replace(self, data=replace(self.data, rows=rows, points=points))

    @property
    def whole(self) -> Drawn | None:
        """This chart with all rows, also those that have no room on paper. None if all rows are already drawn."""
        if all(row.get("drawn", True) for row in self.data.rows):
            return None
        return self.with_each(lambda _row: {"drawn": True})

    @property
    def with_ids(self) -> Drawn:
        """This chart with the ids of cells instead of their names in the labels of marks."""
        names = {cell.cell_id: cell.name for cell in self.findings.cells}

        def short(row: Row) -> Row:
            cell_id = str(row.get("cell_id"))
            return {"tip": str(row["tip"]).replace(names[cell_id], cell_id)} if cell_id in names else {}

        return self.with_each(short)

    @property
    def said(self) -> str:
        """A text on what the chart shows, and what its marks mean."""
        marks = self.chart.marks(self.data, self.findings)
        hollow = HOLLOW if any(row.get("hollow") for row in self.data.rows) else ""
        return " ".join(filter(None, (self.finding, marks, hollow)))

    @property
    def caption(self) -> str:
        """A text on what the chart shows, what its marks mean, and which layouts are recommended."""
        return f"{self.said} {self.star}." if self.star else self.said

    @property
    def star(self) -> str:
        """A text on the layouts with a star; "" if there are none. A layout is "recommended" if it is surely the
        fastest, else it is the "default", as in the ladder.
        """
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
        """The chart's label for screen readers. It says what the chart shows, and what the table below it contains."""
        table = self.table
        holds = "; ".join(heading.text for heading in table.headings)
        rows = plural(len(table.rows), "row")
        return f"Chart: {self.title.lower()} ({self.where}). {self.finding} Its table has {rows}: {holds}."


def scaled(estimate: Estimate, times: float = 1.0, zero: float = 0.0) -> Row:
    """Returns a mean and the ends of its interval, each multiplied by `times` and then increased by `zero`. `hollow` is
    true if the estimate has no interval.
    """
    ends = {"mean": estimate.value, "low": estimate.low, "high": estimate.high}
    known = {name: None if value is None else times * value + zero for name, value in ends.items()}
    return {**known, "hollow": estimate.half_width is None}


def compared_axis(findings: Findings) -> str:
    """Returns the name of the compared figure, with its unit."""
    unit = compared.unit(findings)
    return unit if compared.by_rate(findings) else f"{compared.quantity(findings)}, {unit}"


def figure_of_cells(
    findings: Findings,
    cells: Sequence[CellSummary],
    row: Callable[[CellSummary], Row],
    places: Arrangement | None = None,
) -> Figure:
    """Returns a figure with a row for each of `cells`. `places` decides on their lines and panels; by default, it is
    the usual arrangement. If there are too many lines or panels, those with cells that must be shown are kept.
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
    """Says how many cells are not drawn; "" if all are drawn. `names` are the lines or panels that are left out."""
    if not cells:
        return ""
    named = f": {'; '.join(names[:MOST_NAMED])}{'; …' * (len(names) > MOST_NAMED)}" if names else ""
    return f"{plural(cells, 'more cell is', 'more cells are')} not drawn{named}. The report's table has all cells."


ENDS = {"low": Heading("95 % from"), "high": Heading("to")}
"""The columns of an interval."""


def table_of(data: Figure, columns: Mapping[str, Heading]) -> Table:
    """Returns a table with a row for each row of a chart. `columns` maps keys of the chart's rows to headings."""
    return Table(list(columns.values()), [[_entry(row[name]) for name in columns] for row in data.rows])


def table_of_cells(data: Figure, columns: Mapping[str, Heading]) -> Table:
    """Returns the same table as `table_of`, with the name of the cell as the first column."""
    named = [row | {"entry": cell_entry(row["cell_id"], row["cell"])} for row in data.rows]
    return table_of(replace(data, rows=named), {"entry": Heading("cell", "prose"), **columns})


def _entry(value: str | float | int | None) -> str:
    return bare(value) if value is None or isinstance(value, float) else str(value)


def place_of(cell: CellSummary, places: Arrangement) -> Row:
    """Returns the columns of a row that name its cell and the cell's place."""
    return {
        "x": places.x_of(cell), "line": places.line_of(cell), "panel": places.panel_of(cell), "cell_id": cell.cell_id,
        "cell": cell.text,
    }  # fmt: skip
