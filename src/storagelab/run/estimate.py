"""How long runs will take, learned from those that are done. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from storagelab.model.plan import Plan, PlannedRun
from storagelab.model.values import Frozen

_FIRST_GUESS_ROWS_PER_S = 50_000.0
_FIRST_GUESS_SETUP_S = 2.0
_FIRST_GUESS_SIMULATED_ROWS_PER_S = 3_000_000.0
"""Rows of the scaled world, by one core."""
_DEFAULT_SCALE = 64


class TimeEstimate(Frozen):
    """Seconds that the runs will take; `learned_from` finished runs, 0 = a guess."""

    seconds: float
    learned_from: int


def estimate(plan: Plan, runs: Sequence[PlannedRun], finished: Iterable[tuple[str, float]]) -> TimeEstimate:
    """Time for `runs`, one after the other: the sum of what `learned` says."""
    durations = list(finished)
    seconds_of = learned(plan, durations)
    known = {cell.cell_id for cell in plan.cells}
    return TimeEstimate(
        seconds=sum(map(seconds_of, runs)), learned_from=sum(cell_id in known for cell_id, _ in durations)
    )


def learned(plan: Plan, finished: Iterable[tuple[str, float]]) -> Callable[[PlannedRun], float]:
    """Seconds of a run: as long as its cell's finished runs on average, else as its number of rows lets expect.

    That is set-up + rows x seconds per row, both learned where cells of different sizes are done. Before, it is a guess
    of 2 s and 50,000 rows/s, as much longer or shorter as finished runs took than guessed. `finished` holds
    (cell_id, wall seconds).
    """
    rows = {cell.cell_id: cell.config.workload.work.amount for cell in plan.cells}
    by_cell: dict[str, list[float]] = {}
    for cell_id, wall_s in finished:
        if cell_id in rows:
            by_cell.setdefault(cell_id, []).append(wall_s)
    known = {cell_id: fmean(walls) for cell_id, walls in by_cell.items()}
    seconds_of = _seconds_of([(rows[cell_id], wall_s) for cell_id, walls in by_cell.items() for wall_s in walls])
    if plan.simulated and not known:
        seconds_of = _guess_simulated(plan)
    return lambda run: known[id_] if (id_ := run.cell_id) in known else seconds_of(rows[id_])


def _seconds_of(done: Sequence[tuple[int, float]]) -> Callable[[int], float]:
    """Rows -> wall seconds, from (rows, wall seconds) of finished runs."""
    if not done:
        return _guess
    if len({rows for rows, _ in done}) == 1:
        scale = fmean(wall_s for _, wall_s in done) / _guess(done[0][0])
        return lambda rows: scale * _guess(rows)
    setup_s, s_per_row = _line(done)
    return lambda rows: setup_s + rows * s_per_row


def _guess_simulated(plan: Plan) -> Callable[[int], float]:
    scale = min(cell.config.target.scale or _DEFAULT_SCALE for cell in plan.cells)
    return lambda rows: rows / scale / _FIRST_GUESS_SIMULATED_ROWS_PER_S


def _guess(rows: int) -> float:
    return _FIRST_GUESS_SETUP_S + rows / _FIRST_GUESS_ROWS_PER_S


def _line(done: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Set-up seconds and seconds per row by least squares, neither below 0."""
    mean_rows, mean_s = fmean(rows for rows, _ in done), fmean(wall_s for _, wall_s in done)
    s_per_row = sum((rows - mean_rows) * (wall_s - mean_s) for rows, wall_s in done) / sum(
        (rows - mean_rows) ** 2 for rows, _ in done
    )
    if s_per_row <= 0:
        return mean_s, 0.0
    setup_s = mean_s - s_per_row * mean_rows
    if setup_s >= 0:
        return setup_s, s_per_row
    return 0.0, sum(rows * wall_s for rows, wall_s in done) / sum(rows**2 for rows, _ in done)
