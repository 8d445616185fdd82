"""Estimates how long runs will take from finished ones. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from storagelab.model.config import Config
from storagelab.model.plan import Plan, PlannedRun
from storagelab.model.values import Frozen
from storagelab.model.workload import GeneratedLoad


class TimeEstimate(Frozen):
    """Seconds that the runs will take; learned from `learned_from` finished runs (0 = a guess)."""

    seconds: float
    learned_from: int


def estimate(plan: Plan, runs: Sequence[PlannedRun], finished: Iterable[tuple[str, float]]) -> TimeEstimate:
    """Time for `runs`, one after the other: the sum of what `learned` gives for each."""
    durations = list(finished)
    seconds_of = learned(plan, durations)
    known = {cell.cell_id for cell in plan.cells}
    return TimeEstimate(
        seconds=sum(map(seconds_of, runs)), learned_from=sum(cell_id in known for cell_id, _ in durations)
    )


def learned(plan: Plan, finished: Iterable[tuple[str, float]]) -> Callable[[PlannedRun], float]:
    """Seconds of a run: the average of its cell's finished runs, else an estimate from its work.

    The estimate is set-up + work x seconds per unit, both learned once cells with different amounts of work are done. Before
    that, it is the first guess for its engine, scaled by how much longer or shorter finished runs took than guessed. Work
    counted in one unit teaches nothing about work in another. `finished` holds (cell_id, wall seconds).
    """
    configs = {cell.cell_id: cell.config for cell in plan.cells}
    walls: dict[str, list[float]] = {}
    for cell_id, wall_s in finished:
        if cell_id in configs:
            walls.setdefault(cell_id, []).append(wall_s)
    known = {cell_id: fmean(of_cell) for cell_id, of_cell in walls.items()}
    done = [(configs[cell_id], wall_s) for cell_id, of_cell in walls.items() for wall_s in of_cell]
    units = {config.workload.work.unit for config in configs.values()}
    seconds_of = {unit: _seconds_of([one for one in done if one[0].workload.work.unit == unit]) for unit in units}

    def seconds(run: PlannedRun) -> float:
        config = configs[run.cell_id]
        return known[run.cell_id] if run.cell_id in known else seconds_of[config.workload.work.unit](config)

    return seconds


def _seconds_of(done: Sequence[tuple[Config, float]]) -> Callable[[Config], float]:
    """Wall seconds of a run, from those of finished runs."""
    if not done:
        return _guess
    by_work = [(config.workload.work.amount, wall_s) for config, wall_s in done]
    if len({amount for amount, _ in by_work}) == 1:
        scale = fmean(wall_s / _guess(config) for config, wall_s in done)
        return lambda config: scale * _guess(config)
    setup_s, s_each = _line(by_work)
    return lambda config: setup_s + config.workload.work.amount * s_each


def _guess(config: Config) -> float:
    kind, scale = config.kind, config.target.world_scale if config.simulated else 1
    if isinstance(config.workload, GeneratedLoad) and config.workload.work.unit == "ms":
        return kind.setup_s + config.workload.longest_warm_up_s + config.workload.duration_s
    return kind.setup_s + config.workload.work.amount / scale / kind.work_per_s


def _line(done: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Set-up seconds and seconds per unit of work, by least squares, neither below 0."""
    mean_amount, mean_s = fmean(amount for amount, _ in done), fmean(wall_s for _, wall_s in done)
    s_each = sum((amount - mean_amount) * (wall_s - mean_s) for amount, wall_s in done) / sum(
        (amount - mean_amount) ** 2 for amount, _ in done
    )
    if s_each <= 0:
        return mean_s, 0.0
    setup_s = mean_s - s_each * mean_amount
    if setup_s >= 0:
        return setup_s, s_each
    return 0.0, sum(amount * wall_s for amount, wall_s in done) / sum(amount**2 for amount, _ in done)
