"""Completion time: the mean of every cell with its interval, and every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, Table
from storagelab.report.drawing.chart import Chart, Figure, Row, figure_of_cells, place_of, table_of_cells
from storagelab.report.drawing.layers import Axis, axis_of, dodged_rows, in_panels, means
from storagelab.report.drawing.vega import Sheet, Spec, finished
from storagelab.report.words import compared
from storagelab.words import numbers

MAX_RUNS_DRAWN = 1_500
_RUNS_LISTED = 50


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """One row per cell (`mean`, `low`, `high`) and one point per run (`elapsed_s`)."""
    timed = compared.timed(findings)
    cells = {cell.cell_id: cell for cell in findings.cells if timed and cell.elapsed_s is not None}
    data = figure_of_cells(findings, list(cells.values()), _row)
    points = [point for row in data.rows for point in _points(cells[str(row["cell_id"])], data)]
    too_many = len(points) > MAX_RUNS_DRAWN
    return replace(data, points=[] if too_many else points, hidden_points=len(points) if too_many else 0)


def _row(cell: CellSummary) -> Row:
    assert cell.elapsed_s is not None
    mean, runs = cell.elapsed_s.mean, cell.elapsed_s.points
    values = [f"{run.value:.4g}" for run in runs[:_RUNS_LISTED]] + ["…"] * (len(runs) > _RUNS_LISTED)
    return {
        "mean": mean.value, "low": mean.low, "high": mean.high, "runs": "  ".join(values),
        "tip": f"{cell.name}: mean {numbers.seconds_estimate(mean)}, {numbers.plural(len(runs), 'run')}",
    }  # fmt: skip


def _points(cell: CellSummary, data: Figure) -> list[Row]:
    assert cell.elapsed_s is not None
    return [
        place_of(cell, data.arrangement) | {
            "elapsed_s": point.value,
            "tip": f"{cell.name}, repetition {point.repetition}: {numbers.seconds(point.value)}",
        }
        for point in cell.elapsed_s.points
    ]  # fmt: skip


def _draw(data: Figure, sheet: Sheet) -> Spec:
    axis = time_axis(data)
    y = {"type": "quantitative", "scale": axis.scale, **axis.ticks}
    layers = means(data, sheet, y, f"completion time, s ({sheet.where})")
    note = "; mean with 95 % interval" + (", and every run" if data.points else "") + axis.note
    return in_panels(finished(sheet, note, layers, dodged_rows(data), data.panels), apart=axis.apart)


def time_axis(data: Figure) -> Axis:
    """The axis of times: those of the cells, and of their runs if they are drawn."""
    return axis_of(data, "s")


def _caption(data: Figure, _findings: Findings) -> str:
    axis = time_axis(data)
    parts = [
        f"Mean with its 95 % interval; {numbers.count(data.hidden_points)} single runs are too many to draw."
        if data.hidden_points else "Mean with its 95 % interval; small marks are single runs.",
        axis.says,
        f"Each step to the right doubles the {data.arrangement.x_title}." if data.arrangement.doubles else "",
        "All panels have the same axes." if data.panels[1:] and not axis.apart else "",
        data.on_hidden_lines,
        data.on_hidden_panels,
    ]  # fmt: skip
    return " ".join(part for part in parts if part)


def _table(data: Figure, _findings: Findings) -> Table:
    columns = {
        "mean": Heading("mean, s"), "low": Heading("95 % from, s"), "high": Heading("to, s"),
        "runs": Heading("every run, s", "prose"),
    }  # fmt: skip
    return table_of_cells(data, columns)


def _words(data: Figure, _findings: Findings) -> str:
    fastest, slowest = (pick(data.rows, key=lambda row: float(row["mean"] or 0)) for pick in (min, max))
    return f"Shortest mean: {fastest['tip']}. Longest mean: {slowest['tip']}."


CHART = Chart("completion-time", "completion-time", "Completion time", _rows, _draw, _caption, _table, words=_words)
