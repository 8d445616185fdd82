"""Transactions a second of every cell whose runs have a set time."""

from __future__ import annotations

from storagelab.findings.model import CellSummary, Findings
from storagelab.report.drawing.chart import Chart, Figure, Row, figure_of_cells
from storagelab.report.drawing.layers import Axis, axis_of, means_with_intervals
from storagelab.report.words import compared
from storagelab.report.words.table import Heading, Table, bare
from storagelab.words import numbers
from storagelab.words.names import cell_entry

_FIELDS = ("mean", "low", "high")
UNIT = numbers.RATES["transactions"]


def of_set_time(findings: Findings) -> list[CellSummary]:
    """The cells whose runs did as many transactions as they could, or as they were sent, in a set time."""
    if findings.unit != "transactions" or compared.timed(findings):
        return []
    return [cell for cell in findings.cells if cell.rows_per_s is not None]


def _row(cell: CellSummary) -> Row:
    assert cell.rows_per_s is not None
    mean = cell.rows_per_s.mean
    tip = f"{cell.name}: {numbers.rows_per_s_estimate(mean, UNIT)}"
    return {"mean": mean.value, "low": mean.low, "high": mean.high, "tip": tip}


def _axis(data: Figure) -> Axis:
    return axis_of(data, _FIELDS, always_zero=True)


def _caption(data: Figure, _findings: Findings) -> str:
    return " ".join(filter(None, ["Mean with its 95 % interval.", _axis(data).says, data.on_hidden_panels]))


def _table(data: Figure, _findings: Findings) -> Table:
    headings = [Heading("cell", "prose"), Heading(f"mean, {UNIT}"), Heading("95 % from"), Heading("to")]
    return Table(
        headings, [[cell_entry(row["cell_id"], row["cell"]), *(bare(row[key]) for key in _FIELDS)] for row in data.rows]
    )


CHART = Chart(
    name="throughput",
    part="completion-time",
    place=5,
    title="Throughput",
    rows=lambda findings, _runs: figure_of_cells(findings, of_set_time(findings), _row),
    draw=lambda data, sheet: means_with_intervals(
        data, sheet, _FIELDS, UNIT, axis=_axis(data), note="; mean with 95 % interval"
    ),
    caption=_caption,
    table=_table,
)
