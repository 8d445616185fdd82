"""Defines a chart: its rows, drawing and caption, and its content as a table and in words.

Chart(...)                  one chart, in a module of `charts`
chart.of(findings, runs)    the chart of one experiment, or None if it has no data
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, Table, bare
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import MAX_LINES, MAX_PANELS, Arrangement, arrange, choose, in_order, must_show
from storagelab.report.drawing.vega import NARROW, WIDE, Sheet, Spec
from storagelab.words.names import cell_entry
from storagelab.words.numbers import plural

Row = dict[str, str | float | int | bool | None]
"""A mark, as Vega-Lite takes it. Its `tip` is the row in words: the tooltip, and the mark's name in the SVG."""
Part = Literal["completion-time", "drives", "effects", "waits", "over-time"]
"""The position of a chart on the page, in reading order."""
MAX_ROWS_IN_WORDS = 8


@dataclass(frozen=True)
class Figure:
    """What one chart shows: its rows, their order, and how much did not fit."""

    rows: list[Row]
    arrangement: Arrangement
    x_levels: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    panels: list[str] = field(default_factory=list)
    points: list[Row] = field(default_factory=list)
    colours: dict[str, str] = field(default_factory=dict)
    hidden_panels: int = 0
    hidden_lines: int = 0
    hidden_points: int = 0
    legend: str = ""

    @property
    def on_hidden_lines(self) -> str:
        """How many lines are not drawn, in a sentence; "" if all are."""
        left = self.hidden_lines
        return f"{plural(left, 'more line is', 'more lines are')} not drawn." if left else ""

    @property
    def on_hidden_panels(self) -> str:
        """How many panels are not drawn, in a sentence; "" if all are."""
        left = self.hidden_panels
        are = plural(left, "more panel is", "more panels are")
        return f"{are} not drawn; the report's table has every cell." if left else ""


def rows_in_words(data: Figure, _findings: Findings) -> str:
    """A chart's marks in words: all if there are few, else the extremes."""
    if len(data.rows) <= MAX_ROWS_IN_WORDS:
        return "; ".join(str(row["tip"]) for row in data.rows) + "."
    low, high = (pick(data.rows, key=lambda row: float(row.get("mean") or 0)) for pick in (min, max))
    return f"Lowest: {low['tip']}. Highest: {high['tip']}."


@dataclass(frozen=True)
class Chart:
    """One chart, for any experiment.

    `place`: within the charts of its part, the smallest comes first. `rows` returns no rows if the chart does not
    apply. `words` describes it for readers who can't see it. `is_headed`: it has its own heading on the page. A chart
    over time says where its axes end and what it counts, so that the page's script can read values at any point of its
    lines.
    """

    name: str
    part: Part
    title: str | Callable[[Findings], str]
    rows: Callable[[Findings, Sequence[Run]], Figure]
    draw: Callable[[Figure, Sheet], Spec]
    caption: Callable[[Figure, Findings], str]
    table: Callable[[Figure, Findings], Table]
    words: Callable[[Figure, Findings], str] = rows_in_words
    place: int = 0
    is_headed: bool = True
    ends: Callable[[Figure], tuple[float, Sequence[float]]] | None = None
    time_unit: str = ""

    def of(self, findings: Findings, runs: Sequence[Run]) -> Drawn | None:
        """The chart of one experiment; None if there is nothing to draw."""
        data = self.rows(findings, runs)
        return Drawn(self, findings, data) if data.rows else None


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

    def specs(self) -> dict[str, Spec]:
        """The chart in both widths as Vega-Lite: "wide" and "narrow"."""
        subtitle = f"{self.findings.experiment} · {self.where}"
        sheets = {"wide": WIDE, "narrow": NARROW}
        return {
            name: self.chart.draw(self.data, Sheet(form, self.title, subtitle, self.where))
            for name, form in sheets.items()
        }

    @property
    def caption(self) -> str:
        return self.chart.caption(self.data, self.findings)

    @property
    def table(self) -> Table:
        return self.chart.table(self.data, self.findings)

    @property
    def label(self) -> str:
        """A description of the chart for readers who can't see it."""
        along = f" by {self.data.arrangement.x_title}" if self.data.x_levels and self.data.arrangement.x else ""
        words = self.chart.words(self.data, self.findings)
        return f"Chart: {self.title.lower()}{along} ({self.where}). {words}"


def figure_of_cells(
    findings: Findings,
    cells: Sequence[CellSummary],
    row: Callable[[CellSummary], Row],
    places: Arrangement | None = None,
) -> Figure:
    """A row for each of `cells`, in its place among `places`, the usual ones if none are given. If there are too many
    lines and panels, the fastest and slowest cells are kept.
    """
    places = places or arrange(findings)
    must = must_show(findings)
    all_lines, all_panels = in_order(map(places.line_of, cells)), in_order(map(places.panel_of, cells))
    lines = choose(all_lines, [places.line_of(cell) for cell in must], MAX_LINES)
    panels = choose(all_panels, [places.panel_of(cell) for cell in must], MAX_PANELS)
    shown = [cell for cell in cells if places.line_of(cell) in lines and places.panel_of(cell) in panels]
    return Figure(
        rows=[place_of(cell, places) | {"cell_id": cell.cell_id, "cell": cell.text} | row(cell) for cell in shown],
        arrangement=places,
        x_levels=places.x_levels(cells),
        lines=lines,
        panels=panels,
        colours=dict(zip(lines, palette.LINES, strict=False)),
        hidden_lines=len(all_lines) - len(lines),
        hidden_panels=len(all_panels) - len(panels),
    )


ENDS = {"low": Heading("95 % from"), "high": Heading("to")}
"""The columns of an interval."""


def table_of_cells(data: Figure, columns: Mapping[str, Heading]) -> Table:
    """A row for each row of a chart: its cell, then the `columns`, which are keys of the chart's rows."""
    rows = [[cell_entry(row["cell_id"], row["cell"]), *(_entry(row[name]) for name in columns)] for row in data.rows]
    return Table([Heading("cell", "prose"), *columns.values()], rows)


def _entry(value: str | float | int | None) -> str:
    return bare(value) if value is None or isinstance(value, float) else str(value)


def place_of(cell: CellSummary, places: Arrangement) -> Row:
    return {"x": places.x_of(cell), "line": places.line_of(cell), "panel": places.panel_of(cell)}
