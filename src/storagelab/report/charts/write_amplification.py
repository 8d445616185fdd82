"""Write amplification: how much a drive wrote for each page that it was given, with the same axes and panels as the
completion times.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from storagelab.findings.model import CellSummary, DriveState, Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, Table
from storagelab.report.drawing.arrange import in_order
from storagelab.report.drawing.chart import ENDS, Chart, Figure, Row, figure_of_cells, table_of_cells
from storagelab.report.drawing.layers import means_with_intervals
from storagelab.report.drawing.vega import Sheet, Spec
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
    return {
        "drive": drive, "mean": mean.value, "low": mean.low, "high": mean.high,
        "tip": f"{cell.name}: write amplification of drive {drive} {mean.value:.2f}{interval}{utilised}{time}",
    }  # fmt: skip


def _draw(data: Figure, sheet: Sheet) -> Spec:
    note = f"; drive {data.rows[0]['drive']}, mean with 95 % interval"
    return means_with_intervals(data, sheet, "write amplification", also=1.0, note=note)


def _caption(_data: Figure, _findings: Findings) -> str:
    return (
        "Flash pages that the drive wrote for each page it was given, in the places of the completion times above: "
        "where both rise together, the drive's state may explain the time."
    )


def _table(data: Figure, _findings: Findings) -> Table:
    columns = {"drive": Heading("drive", "text"), "mean": Heading("write amplification"), **ENDS}
    return table_of_cells(data, columns)


CHART = Chart("write-amplification", "drives", "What the drive wrote", _rows, _draw, _caption, _table)
