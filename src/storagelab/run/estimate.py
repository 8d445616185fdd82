"""Estimates how long runs will take from finished ones. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from storagelab.model import prepared
from storagelab.model.config import Config
from storagelab.model.plan import Plan, PlannedRun
from storagelab.model.values import Frozen

_COPIED_PER_S = 1_500_000
"""How many rows of a template are copied in a second, measured on two slow cores: 1.5 million of pgbench's, 460 MB."""


class TimeEstimate(Frozen):
    """Seconds that the runs will take, learned from `learned_from` finished runs (0 = a guess)."""

    seconds: float
    learned_from: int


def estimate(plan: Plan, runs: Sequence[PlannedRun], finished: Iterable[tuple[str, float]]) -> TimeEstimate:
    """The time for `runs`, one after the other: what `learned` gives for each, plus the time to make each template
    that they copy.
    """
    durations = list(finished)
    seconds_of = learned(plan, durations)
    known = {cell.cell_id: cell.config for cell in plan.cells}
    templates = prepared.distinct(known[run.cell_id] for run in runs)
    return TimeEstimate(
        seconds=sum(map(seconds_of, runs)) + sum(map(_making_s, templates)),
        learned_from=sum(cell_id in known for cell_id, _ in durations),
    )


def learned(plan: Plan, finished: Iterable[tuple[str, float]]) -> Callable[[PlannedRun], float]:
    """Seconds of a run: the average of its cell's finished runs, else an estimate from its work.

    The estimate is set-up + work x seconds per unit; both are learned once cells with different amounts of work are
    done. Before that, it is the first guess for its engine, multiplied by the ratio of finished runs' times to their
    guesses. Work counted in one unit tells nothing about work in another. `finished` holds (cell_id, wall seconds).
    """
    configs = {cell.cell_id: cell.config for cell in plan.cells}
    walls: dict[str, list[float]] = {}
    made = set[str]()
    for cell_id, wall_s in finished:
        if cell_id in configs:
            walls.setdefault(cell_id, []).append(_without_making(configs[cell_id], wall_s, made))
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


def _without_making(config: Config, wall_s: float, made: set[str]) -> float:
    """A finished run's time without making its template, which the first run did. `made` has the names of templates
    made before.
    """
    if not prepared.wanted(config) or (name := prepared.name_of(config)) in made:
        return wall_s
    made.add(name)
    return max(wall_s - _making_s(config), _guess(config))


def _guess(config: Config) -> float:
    kind, scale = config.kind, config.target.world_scale if config.simulated else 1
    work_s = config.workload.work.amount / scale / kind.work_per_s
    if not config.generated:
        return kind.setup_s + work_s
    if config.workload.longest_s is not None:
        work_s = config.workload.longest_s
    data_s = config.workload.rows_made / _COPIED_PER_S if prepared.wanted(config) else _making_s(config)
    return kind.setup_s + data_s + work_s


def _making_s(config: Config) -> float:
    """A first guess at how long a generator takes to make its tables."""
    return config.workload.rows_made / config.workload.rows_made_per_s


def _line(done: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Set-up seconds and seconds per unit of work, by least squares; neither is below 0."""
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
