"""Latency of every cell whose runs have a set time: by connections, rate or another factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storagelab.findings.model import CellSummary, Findings
from storagelab.findings.times import latency_of
from storagelab.model.measurement import Run
from storagelab.report.document import Heading
from storagelab.report.drawing.arrange import Arrangement, arrange, in_order
from storagelab.report.drawing.chart import ENDS, Chart, Figure, Row, figure_of_cells, scaled, table_of_cells
from storagelab.report.drawing.layers import Axis, means_with_intervals
from storagelab.report.words import compared
from storagelab.spec.factors import is_load

PERCENTILES = ("p50", "p95", "p99")


def _by_load(findings: Findings) -> Arrangement:
    """The load along the axis if one varies, else what other charts have there; all else are lines."""
    varied = [factor for factor in findings.factors if len(factor.levels) > 1] or list(findings.factors[:1])
    x = next(filter(is_load, varied), None) or arrange(findings).x
    return Arrangement(x=x, lines=tuple(factor for factor in varied if factor is not x), panels=())


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """A row for each cell and percentile, in milliseconds; a panel for each percentile. The cells are those whose runs
    did as many transactions as they could, or as they were sent, in a set time.
    """
    if findings.unit != "transactions" or compared.timed(findings):
        return Figure(rows=[])
    cells = [cell for cell in findings.cells if cell.work_per_s is not None and cell.latency]
    placed = figure_of_cells(findings, cells, lambda _cell: {}, _by_load(findings))

    def of(name: str, cell: CellSummary) -> Row:
        tip = f"{cell.name}: {name} {compared.milliseconds(cell.latency[name])}"
        return scaled(cell.latency[name], 1e3) | {"panel": name, "tip": tip}

    by_id = {cell.cell_id: cell for cell in cells}
    shown = [(place, by_id[str(place["cell_id"])]) for place in placed.rows]
    rows = [place | of(name, cell) for name in PERCENTILES for place, cell in shown if name in cell.latency]
    legend = latency_of(findings.compared) or "p99"
    return replace(placed, rows=rows, panels=in_order(str(row["panel"]) for row in rows), legend=legend)


def _lowest(data: Figure, _findings: Findings) -> str:
    """The row of the lowest latency, in a sentence: of the figure that is judged, else of p99."""
    rows = [row for row in data.rows if row["panel"] == data.legend] or data.rows
    return f"Lowest: {min(rows, key=lambda row: float(row['mean'] or 0))['tip']}."


CHART = Chart(
    "latency",
    "cells",
    "Latency",
    _rows,
    draw=lambda data, sheet: means_with_intervals(
        replace(data, legend=""), sheet, "latency, ms", Axis({"scale": {"zero": True}}, apart=True)
    ),
    finding=_lowest,
    marks=lambda _data, _findings: (
        "p50: half of all transactions took no longer; p95 and p99: 95 and 99 of 100. Mean with 95 % interval over "
        "runs. Each panel has its own axis."
    ),
    table=lambda data, _findings: table_of_cells(
        data, {"panel": Heading("percentile", "text"), "mean": Heading("ms"), **ENDS}
    ),
    place=2,
)
