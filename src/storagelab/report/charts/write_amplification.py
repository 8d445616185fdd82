"""Write amplification: how much a drive wrote for each page that it was given, in the places of the chart of cells."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from storagelab.findings.model import CellSummary, DriveState, Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading
from storagelab.report.drawing.arrange import in_order
from storagelab.report.drawing.chart import (
    ENDS,
    Chart,
    Figure,
    Row,
    extremes,
    figure_of_cells,
    scaled,
    table_of_cells,
)
from storagelab.report.drawing.layers import axis_of, means_with_intervals
from storagelab.words import numbers

MAX_DRIVES = 2
STATE_MOVES_LEAST = 0.02
"""If a drive's write amplification differs by less than this between cells, it needs no chart."""


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """Rows `mean`, `low`, `high` per cell; with several drives, of the one that differs most between cells. None if
    all cells are alike.
    """
    moves = {drive: _range(findings.cells, drive) for drive in drives(findings)}
    drive = max(moves, key=lambda name: moves[name], default="")
    drive = drive if drive and moves[drive] >= STATE_MOVES_LEAST else ""
    cells = [cell for cell in findings.cells if drive and state_of(cell, drive, "write_amplification") is not None]
    return figure_of_cells(findings, cells, partial(_row, drive))


def drives(findings: Findings) -> list[str]:
    """The drives whose state is known, by name; if there are many, those that differ most."""
    names = in_order(state.drive for cell in findings.cells for state in cell.drive_states)
    moving = sorted(names, key=lambda name: -_range(findings.cells, name))[:MAX_DRIVES]
    return [name for name in names if name in moving]


def state_of(cell: CellSummary, drive: str, quantity: str) -> DriveState | None:
    return next((one for one in cell.drive_states if (one.drive, one.quantity) == (drive, quantity)), None)


def _range(cells: Sequence[CellSummary], drive: str) -> float:
    known = [state.mean.value for cell in cells if (state := state_of(cell, drive, "write_amplification")) is not None]
    return max(known, default=0.0) - min(known, default=0.0)


def _row(drive: str, cell: CellSummary) -> Row:
    written, used = (state_of(cell, drive, name) for name in ("write_amplification", "utilisation"))
    assert written is not None
    mean = written.mean
    interval = numbers.ends_in_brackets(mean, "{:.2f}".format, "95 % CI ")
    utilised = f", utilisation {numbers.percent(used.mean.value)}" if used is not None else ""
    time = f", mean time {numbers.seconds(cell.elapsed_s.mean.value)}" if cell.elapsed_s is not None else ""
    tip = f"{cell.name}: write amplification of drive {drive} {mean.value:.2f}{interval}{utilised}{time}"
    return scaled(mean) | {"drive": drive, "tip": tip}


CHART = Chart(
    "write-amplification",
    "drives",
    "What the drive wrote",
    _rows,
    draw=lambda data, sheet: means_with_intervals(data, sheet, "pages written per page given", axis_of(data, "", 1.0)),
    finding=lambda data, _findings: extremes(data),
    marks=lambda data, _findings: (
        "Flash pages that the drive wrote for each page it was given, mean with 95 % interval. Where they rise with "
        f"the times, the drive's state may explain the time. {axis_of(data, '', 1.0).says}"
    ).strip(),
    table=lambda data, _findings: table_of_cells(
        data, {"drive": Heading("drive", "text"), "mean": Heading("write amplification"), **ENDS}
    ),
)
