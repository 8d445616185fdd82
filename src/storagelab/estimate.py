"""How long runs will take, learned from those that are done. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from storagelab.model import Plan, PlannedRun
from storagelab.values import Frozen

_FIRST_GUESS_ROWS_PER_S = 50_000.0
_FIRST_GUESS_SETUP_S = 2.0


class TimeEstimate(Frozen):
    """Seconds that the runs will take; `learned_from` finished runs, 0 = a guess."""

    seconds: float
    learned_from: int


def estimate(plan: Plan, runs: Sequence[PlannedRun], finished: Iterable[tuple[str, float]]) -> TimeEstimate:
    """Time for `runs`: each as long as its cell's finished runs on average, else as long as all did, scaled by rows.

    Before the first it is a guess at 50,000 rows/s. `finished` holds (cell_id, wall seconds).
    """
    rows = {cell.cell_id: cell.config.workload.rows for cell in plan.cells}
    by_cell: dict[str, list[float]] = {}
    for cell_id, wall_s in finished:
        by_cell.setdefault(cell_id, []).append(wall_s)
    known = {cell_id: fmean(walls) for cell_id, walls in by_cell.items() if cell_id in rows}
    s_per_row = fmean(wall_s / rows[cell_id] for cell_id, wall_s in known.items()) if known else None

    def one(cell_id: str) -> float:
        if cell_id in known:
            return known[cell_id]
        if s_per_row is not None:
            return rows[cell_id] * s_per_row
        return rows[cell_id] / _FIRST_GUESS_ROWS_PER_S + _FIRST_GUESS_SETUP_S

    return TimeEstimate(
        seconds=sum(one(planned.cell_id) for planned in runs),
        learned_from=sum(len(by_cell[cell_id]) for cell_id in known),
    )
