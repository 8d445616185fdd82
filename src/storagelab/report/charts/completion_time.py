"""Completion time: the mean of every cell with its interval, and every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.report.drawing.chart import Chart, Figure, Row, figure_of_cells, place_of
from storagelab.report.drawing.layers import Axis, axis_of, dodged_rows, in_panels, means
from storagelab.report.drawing.vega import Sheet, Spec, finished
from storagelab.report.words import compared
from storagelab.report.words.table import Heading, Table, bare
from storagelab.words import numbers
from storagelab.words.names import cell_entry

MAX_RUNS_DRAWN = 1_500
_RUNS_LISTED = 50
_FIELDS = ("mean_s", "low_s", "high_s")


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """One row per cell (`mean_s`, `low_s`, `high_s`) and one point per run (`elapsed_s`)."""
    timed = compared.timed(findings)
    cells = {cell.cell_id: cell for cell in findings.cells if timed and cell.elapsed_s is not None}
    data = figure_of_cells(findings, list(cells.values()), _row)
    points = [
        point for row in data.rows for point in _points(cells[str(row["cell_id"])], data)
    ]  # fmt: skip
    too_many = len(points) > MAX_RUNS_DRAWN
    return replace(data, points=[] if too_many else points, hidden_points=len(points) if too_many else 0)


def _row(cell: CellSummary) -> Row:
    assert cell.elapsed_s is not None
    mean, runs = cell.elapsed_s.mean, numbers.plural(len(cell.elapsed_s.points), "run")
    return {
        "mean_s": mean.value, "low_s": mean.low, "high_s": mean.high,
        "tip": f"{cell.name}: mean {numbers.seconds_estimate(mean)}, {runs}",
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
    layers = means(data, sheet, _FIELDS, y, f"completion time, s ({sheet.where})", "elapsed_s")
    note = "; mean with 95 % interval" + (", and every run" if data.points else "") + axis.note
    spec = finished(
        sheet, note, layers, dodged_rows(data, _FIELDS), data.panels, sheet.form.height_of(len(data.panels))
    )
    return in_panels(axis, spec)


def time_axis(data: Figure) -> Axis:
    """The axis of times: those of the cells, and of their runs if they are drawn."""
    return axis_of(data, (*_FIELDS, "elapsed_s"), "s")


def _caption(data: Figure, _findings: Findings) -> str:
    axis = time_axis(data)
    parts = [
        f"Mean with its 95 % interval; {numbers.count(data.hidden_points)} single runs are too many to draw."
        if data.hidden_points else "Mean with its 95 % interval; small marks are single runs.",
        axis.says,
        f"Each step to the right doubles the {data.arrangement.x_title}." if data.arrangement.doubles else "",
        "All panels have the same axes." if data.panels[1:] and not axis.apart else "",
        f"{numbers.plural(data.hidden_lines, 'more line is', 'more lines are')} not drawn."
        if data.hidden_lines
        else "",
        data.on_hidden_panels,
    ]  # fmt: skip
    return " ".join(part for part in parts if part)


def _table(data: Figure, findings: Findings) -> Table:
    points = {cell.cell_id: cell.elapsed_s.points for cell in findings.cells if cell.elapsed_s is not None}
    headings = [Heading("cell", "prose"), Heading("mean, s"), Heading("95 % from, s"), Heading("to, s"),
                Heading("every run, s", "prose")]  # fmt: skip
    rows = []
    for row in data.rows:
        runs = points[str(row["cell_id"])]
        values = [f"{point.value:.4g}" for point in runs[:_RUNS_LISTED]] + ["…"] * (len(runs) > _RUNS_LISTED)
        rows.append([cell_entry(row["cell_id"], row["cell"]), *(bare(row[key]) for key in _FIELDS), "  ".join(values)])
    return Table(headings, rows)


def _words(data: Figure, _findings: Findings) -> str:
    fastest, slowest = (pick(data.rows, key=lambda row: float(row["mean_s"] or 0)) for pick in (min, max))
    return f"Shortest mean: {fastest['tip']}. Longest mean: {slowest['tip']}."


CHART = Chart("completion-time", "completion-time", "Completion time", _rows, _draw, _caption, _table, words=_words)
