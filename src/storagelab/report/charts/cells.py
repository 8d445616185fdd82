"""Two charts. One shows the mean of the compared figure, its interval, and each run, for every cell along the axis. The
other shows the latency of cells whose runs have a set time, by connections, rate or another factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storagelab.findings.model import CellSummary, Findings, Sample
from storagelab.findings.times import WITH_SYNC, figures_beside, is_synced, latency_of
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, Table, bare
from storagelab.report.drawing import chart
from storagelab.report.drawing.arrange import Arrangement, arrange, in_order
from storagelab.report.drawing.layers import axis_of, means_with_intervals
from storagelab.report.drawing.vega import Sheet, Spec
from storagelab.report.words import compared
from storagelab.report.words.answer import headline
from storagelab.spec.factors import is_load
from storagelab.words import numbers
from storagelab.words.names import repetition_text

MAX_RUNS_DRAWN = 1_500
_RUNS_LISTED = 50


def _title(findings: Findings) -> str:
    along = f" by {arrange(findings).x_title}" if findings.factors else ""
    return f"Every cell{along}: {chart.compared_axis(findings).partition(',')[0]}"


def _rows(findings: Findings, _runs: Sequence[Run]) -> chart.Figure:
    """Returns a row for each cell (`mean`, `low`, `high`) and a point for each run (`value`)."""
    samples = {cell.cell_id: sample for cell in findings.cells if (sample := compared.judged(findings, cell))}
    cells = [cell for cell in findings.cells if cell.cell_id in samples]
    data = chart.figure_of_cells(findings, cells, lambda cell: _row(findings, cell, samples[cell.cell_id]))
    data = replace(data, legend=chart.compared_axis(findings))
    shown = {row["cell_id"] for row in data.rows}
    drawn = [cell for cell in cells if cell.cell_id in shown]
    number = sum(len(samples[cell.cell_id].points) for cell in drawn)
    if number > MAX_RUNS_DRAWN:
        said = f"The {numbers.count(number)} single runs are too many to draw."
        return replace(data, hidden=f"{said} {data.hidden}".strip())
    return replace(data, points=[one for cell in drawn for one in _points(findings, data, cell, samples[cell.cell_id])])


def _row(findings: Findings, cell: CellSummary, sample: Sample) -> chart.Row:
    runs = sample.points
    values = [bare(compared.times(findings) * run.value) for run in runs[:_RUNS_LISTED]]
    values += ["…"] * (len(runs) > _RUNS_LISTED)
    tip = f"{cell.name}: mean {compared.judged_text(findings, cell)}, {numbers.plural(len(runs), 'run')}"
    return chart.scaled(sample.mean, compared.times(findings)) | {"runs": "  ".join(values), "tip": tip}


def _points(findings: Findings, data: chart.Figure, cell: CellSummary, sample: Sample) -> list[chart.Row]:
    shown = [(run.repetition, compared.times(findings) * run.value) for run in sample.points]
    return [
        chart.place_of(cell, data.arrangement)
        | {"value": value, "tip": f"{cell.name}, {repetition_text(repetition)}: {bare(value)} {_unit(data)}"}
        for repetition, value in shown
    ]


def _unit(data: chart.Figure) -> str:
    return data.legend.rpartition(", ")[2]


def _draw(data: chart.Figure, sheet: Sheet) -> Spec:
    return means_with_intervals(replace(data, legend=""), sheet, data.legend, axis_of(data, _unit(data)))


def _marks(data: chart.Figure, _findings: Findings) -> str:
    axis = axis_of(data, _unit(data))
    words = [
        "Large marks are means with their 95 % intervals.",
        "Small marks are runs." if data.points else "",
        axis.says,
        f"Each step to the right doubles the {data.arrangement.x_title}." if data.arrangement.doubles else "",
        "All panels have the same axes." if data.panels[1:] and not axis.apart else "",
    ]
    return " ".join(filter(None, words))


def _table(data: chart.Figure, _findings: Findings) -> Table:
    unit = _unit(data)
    return chart.table_of_cells(
        data, {"mean": Heading(f"mean, {unit}"), **chart.ENDS, "runs": Heading(f"every run, {unit}", "prose")}
    )


_CELLS = chart.Chart(
    "cells", "cells", _title, _rows, _draw,
    lambda data, findings: headline(findings, default=not any(row["pick"] for row in data.rows)), _marks, _table,
)  # fmt: skip


# --- latency ----------------------------------------------------------------------------------------------------------
_PANELS = {"latency_p50_s": "p50", "latency_p95_s": "p95", "latency_p99_s": "p99"}
_SYNCED = {
    WITH_SYNC: "mean with sync", "sync_latency_p50_s": "sync p50", "sync_latency_p99_s": "sync p99",
    **{figure: f"{name} of the request itself" for figure, name in _PANELS.items()},
}  # fmt: skip
"""The panels if syncs follow writes. The first one is the same for all kinds of sync; fio has no percentiles of it."""


def _by_load(findings: Findings) -> Arrangement:
    """Returns the arrangement by load. If a load varies, it is the axis; otherwise, the axis is that of other charts.
    All other factors make lines.
    """
    varied = [factor for factor in findings.factors if len(factor.levels) > 1] or list(findings.factors[:1])
    x = next(filter(is_load, varied), None) or arrange(findings).x
    return Arrangement(x=x, lines=tuple(factor for factor in varied if factor is not x), panels=())


def _latencies(findings: Findings, _runs: Sequence[Run]) -> chart.Figure:
    """Returns a row for each cell and percentile, in milliseconds. Each percentile has a panel. There are rows only if
    runs have a set time and count transactions or requests.
    """
    if findings.unit not in ("transactions", "requests") or compared.timed(findings):
        return chart.Figure(rows=[])
    panels = _SYNCED if is_synced(findings.cells) else _PANELS
    known = {cell.cell_id: figures_beside(findings, cell) for cell in findings.cells if cell.work_per_s is not None}
    cells = [cell for cell in findings.cells if panels.keys() & known.get(cell.cell_id, {}).keys()]
    placed = chart.figure_of_cells(findings, cells, lambda cell: {"tip": cell.name}, _by_load(findings))
    rows = [
        place
        | chart.scaled(figure, 1e3)
        | {"panel": panel, "tip": f"{place['tip']}: {panel} {compared.milliseconds(figure)}"}
        for name, panel in panels.items() for place in placed.rows
        if (figure := known[str(place["cell_id"])].get(name)) is not None
    ]  # fmt: skip
    legend = panels.get(WITH_SYNC) or latency_of(findings.compared) or "p99"
    return replace(placed, rows=rows, panels=in_order(str(row["panel"]) for row in rows), legend=legend)


def _lowest(data: chart.Figure, _findings: Findings) -> str:
    """Names the cell with the lowest latency, by the mean with syncs, the compared percentile, or p99."""
    rows = [row for row in data.rows if row["panel"] == data.legend] or data.rows
    return f"Lowest: {min(rows, key=lambda row: float(row['mean'] or 0))['tip']}."


def _percentiles_said(data: chart.Figure, findings: Findings) -> str:
    synced = (
        "A request itself ends before its fsync or fdatasync begins; with dsync, it includes the sync. Only the mean "
        "with sync compares them."
    )
    words = [
        f"p50: half of all {findings.unit} took at most this time; p95 and p99: 95 and 99 of 100 did.",
        synced if data.legend == _SYNCED[WITH_SYNC] else "",
        "Means over runs, with 95 % intervals.",
        axis_of(data, "ms").says,
    ]
    return " ".join(filter(None, words))


_LATENCY = chart.Chart(
    "latency", "cells", "Latency", _latencies, place=2,
    draw=lambda data, sheet: means_with_intervals(replace(data, legend=""), sheet, "latency, ms", axis_of(data, "ms")),
    finding=_lowest,
    marks=_percentiles_said,
    table=lambda data, _findings: chart.table_of_cells(
        data, {"panel": Heading("percentile", "text"), "mean": Heading("ms"), **chart.ENDS}
    ),
)  # fmt: skip

CHARTS = (_CELLS, _LATENCY)
