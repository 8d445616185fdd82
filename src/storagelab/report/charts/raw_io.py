"""Raw I/O: requests and megabytes a second of every cell."""

from __future__ import annotations

from storagelab.findings.model import CellSummary, Findings
from storagelab.report.drawing.chart import Chart, Figure, Row, figure_of_cells
from storagelab.report.drawing.layers import Axis, axis_of, means_with_intervals
from storagelab.report.words import compared
from storagelab.report.words.table import Heading, Table, bare
from storagelab.words.names import cell_entry

_FIELDS = ("mean", "low", "high")


def _chart(name: str, title: str, counter: str, unit: str, divisor: float) -> Chart:
    """A chart of a run's `counter`. The unit of the chart is `divisor` times the counter's own."""

    def row(cell: CellSummary) -> Row:
        mean = cell.raw_io[counter].mean
        value, low, high = (None if one is None else one / divisor for one in (mean.value, mean.low, mean.high))
        interval = "" if low is None or high is None else f" (95 % CI {low:,.4g} to {high:,.4g})"
        tip = f"{cell.name}: {value:,.4g} {unit}{interval}"
        return {"mean": value, "low": low, "high": high, "tip": tip}

    def cells(findings: Findings) -> list[CellSummary]:
        return [cell for cell in findings.cells if compared.of_raw_io(findings) and counter in cell.raw_io]

    return Chart(
        name=name,
        part="completion-time",
        place=2,
        title=title,
        rows=lambda findings, _runs: figure_of_cells(findings, cells(findings), row),
        draw=lambda data, sheet: means_with_intervals(
            data, sheet, _FIELDS, unit, axis=_axis(data), note="; mean with 95 % interval"
        ),
        caption=lambda data, _findings: f"Mean with its 95 % interval. {_axis(data).says}".strip(),
        table=_table,
    )


def _axis(data: Figure) -> Axis:
    return axis_of(data, _FIELDS, always_zero=True)


def _table(data: Figure, _findings: Findings) -> Table:
    headings = [Heading("cell", "prose"), Heading("mean"), Heading("95 % from"), Heading("to")]
    return Table(
        headings, [[cell_entry(row["cell_id"], row["cell"]), *(bare(row[key]) for key in _FIELDS)] for row in data.rows]
    )


CHARTS = (
    _chart("requests", "Requests a second", "ios_per_s", "IO/s", 1.0),
    _chart("megabytes", "Megabytes a second", "bytes_per_s", "MB/s", 1e6),
)
