"""How long runs will take, learned from those that are done. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from storagelab.model.config import Config
from storagelab.model.plan import Plan, PlannedRun
from storagelab.model.values import Frozen


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

    That is set-up + rows x seconds per row, both learned where cells of different sizes are done. Before, it is the first
    guess for its engine, as much longer or shorter as finished runs took than guessed. `finished` holds (cell_id, wall
    seconds).
    """
    configs = {cell.cell_id: cell.config for cell in plan.cells}
    walls: dict[str, list[float]] = {}
    for cell_id, wall_s in finished:
        if cell_id in configs:
            walls.setdefault(cell_id, []).append(wall_s)
    known = {cell_id: fmean(of_cell) for cell_id, of_cell in walls.items()}
    done = [(configs[cell_id], wall_s) for cell_id, of_cell in walls.items() for wall_s in of_cell]
    seconds_of = _seconds_of(done)
    return lambda run: known[id_] if (id_ := run.cell_id) in known else seconds_of(configs[id_])


def _seconds_of(done: Sequence[tuple[Config, float]]) -> Callable[[Config], float]:
    """Wall seconds of a run, from those of finished runs."""
    if not done:
        return _guess
    by_rows = [(config.workload.rows, wall_s) for config, wall_s in done]
    if len({rows for rows, _ in by_rows}) == 1:
        scale = fmean(wall_s / _guess(config) for config, wall_s in done)
        return lambda config: scale * _guess(config)
    setup_s, s_per_row = _line(by_rows)
    return lambda config: setup_s + config.workload.rows * s_per_row


def _guess(config: Config) -> float:
    kind = config.target.kind
    return kind.setup_s + config.workload.rows / config.target.world_scale / kind.rows_per_s


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
