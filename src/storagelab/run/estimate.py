"""Estimates from finished runs how long the remaining runs will take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, linear_regression, median_low
from types import MappingProxyType
from typing import NamedTuple

from storagelab.model.config import Config
from storagelab.model.plan import Plan, PlannedRun, one_of_each_template, template_name, wants_template
from storagelab.model.values import Frozen
from storagelab.model.volume import effective

_COPIED_PER_S = 1_500_000
"""The number of a template's rows that are copied per second, measured on two slow cores with 1.5 million rows of
pgbench (460 MB)."""
_REQUESTS_A_COMMIT = 2
"""The number of requests that a limit counts for a commit. These are the write and the flush after it, as measured on
ext4.
"""
_PLAIN = 0.5
"""If making a template takes more than this share of a run's time, it can be distinguished from the scatter of runs."""


class TimeEstimate(Frozen):
    """An estimate of the time that runs will take, in seconds. It was learned from `learned_from` finished runs (0
    means a guess). `set_up` is the share of this time outside the measurement: for servers, tables, copies, warm-ups
    and clean-up. It is None if unknown."""

    seconds: float
    learned_from: int
    set_up: float | None = None


def estimate(
    plan: Plan,
    runs: Sequence[PlannedRun],
    finished: Iterable[tuple[str, float]],
    set_up: float | None = None,
    least_s: Mapping[str, float] = MappingProxyType({}),
) -> TimeEstimate:
    """Estimates the time for `runs`, which are made one after the other. The estimate adds the `learned` time of each
    run and the time to make each template that the runs copy. `set_up` is the share of set-up in finished runs. It is
    used if not all runs have a set time. `least_s` is the shortest measured time of each cell's runs, if known."""
    durations = list(finished)
    seconds_of = learned(plan, durations)
    known = {cell.cell_id: cell.config for cell in plan.cells}
    templates = one_of_each_template(known[run.cell_id] for run in runs)
    making = _making(known, durations)
    least = {cell_id: one_s + known[cell_id].kind.setup_s for cell_id, one_s in least_s.items()}
    seconds = sum(max(seconds_of(run), least.get(run.cell_id, 0.0)) for run in runs)
    seconds += sum(making.ratio * _making_s(one) for one in templates)
    loads = [known[run.cell_id].workload for run in runs]
    if runs and all(one.generated and one.longest_s is not None for one in loads):  # they measure for a set time
        set_up = max(0.0, 1 - sum(one.work.amount / 1000 for one in loads) / seconds)
    return TimeEstimate(seconds=seconds, learned_from=sum(cell_id in known for cell_id, _ in durations), set_up=set_up)


def learned(plan: Plan, finished: Iterable[tuple[str, float]]) -> Callable[[PlannedRun], float]:
    """Returns a function that estimates the seconds of a run. If runs of its cell are finished, the estimate is their
    mean. Otherwise it comes from the run's work.

    This estimate is set-up + work x seconds per unit of work. Both are learned when cells with different amounts of
    work are finished. Before that, the estimate is the engine's first guess, multiplied by the ratio of finished runs'
    times to their guesses. Work in different units is estimated separately. If runs have a set time, only the
    additional time is learned. `finished` holds (cell_id, wall seconds).
    """
    configs = {cell.cell_id: cell.config for cell in plan.cells}
    walls = _by_cell(_making(configs, list(finished)).without)
    known = {cell_id: fmean(of_cell) for cell_id, of_cell in walls.items()}
    done = [(configs[cell_id], wall_s) for cell_id, of_cell in walls.items() for wall_s in of_cell]
    units = {config.workload.work.unit for config in configs.values()}
    seconds_of = {unit: _seconds_of([one for one in done if one[0].workload.work.unit == unit]) for unit in units}

    def seconds(run: PlannedRun) -> float:
        config = configs[run.cell_id]
        return known[run.cell_id] if run.cell_id in known else seconds_of[config.workload.work.unit](config)

    return seconds


def _seconds_of(done: Sequence[tuple[Config, float]]) -> Callable[[Config], float]:
    """Returns a function that estimates the wall seconds of a run from those of finished runs."""
    if not done:
        return _guess
    if all(config.workload.longest_s is not None for config, _ in done):
        added = _ratio((wall_s - _set_s(config), _guess(config) - _set_s(config)) for config, wall_s in done)
        return lambda config: _set_s(config) + added * (_guess(config) - _set_s(config))
    by_work = [(config.workload.work.amount, wall_s) for config, wall_s in done]
    if len({amount for amount, _ in by_work}) == 1:
        scale = fmean(wall_s / _guess(config) for config, wall_s in done)
        return lambda config: scale * _guess(config)
    setup_s, s_each = _line(by_work)
    return lambda config: setup_s + config.workload.work.amount * s_each


class _Making(NamedTuple):
    """What finished runs tell about the making of templates. `ratio` is the actual time divided by the guessed time.
    `without` has (cell_id, seconds) of finished runs, without the time of making templates.
    """

    ratio: float
    without: list[tuple[str, float]]


def _making(configs: Mapping[str, Config], finished: Iterable[tuple[str, float]]) -> _Making:
    """Separates the time of making templates from the time of runs. The first run that uses a template also made it.
    The time for this is the difference between this run and the later runs of its cell. If there are no later runs yet,
    the ratio comes from all additional times of the runs and from their guesses."""
    made, first, others = set[str](), list[tuple[str, float]](), list[tuple[str, float]]()
    for cell_id, wall_s in finished:
        config = configs.get(cell_id)
        if config is None:
            continue
        name = template_name(config) if wants_template(config) else ""
        (first if name and name not in made else others).append((cell_id, wall_s))
        made.add(name)
    others = _made_once(configs, first, others)
    of_cell = _by_cell(others)
    known = [(configs[cell_id], wall_s - fmean(of_cell[cell_id])) for cell_id, wall_s in first if cell_id in of_cell]
    if known:
        ratio = _ratio((took_s, _making_s(config)) for config, took_s in known)
    else:
        alone = [(configs[cell_id], wall_s) for cell_id, wall_s in first]
        ratio = _ratio((wall_s - _set_s(one), _guess(one) - _set_s(one) + _making_s(one)) for one, wall_s in alone)
    rest = [(cell_id, wall_s) for cell_id, wall_s in first if cell_id not in of_cell]
    without = [(cell_id, max(wall_s - ratio * _making_s(configs[cell_id]), 0.0)) for cell_id, wall_s in rest]
    return _Making(ratio, [*without, *others])


def _made_once(
    configs: Mapping[str, Config], first: list[tuple[str, float]], others: list[tuple[str, float]]
) -> list[tuple[str, float]]:
    """Returns the other runs without those that made a template again, such as the first run after an interruption. A
    run counts as such a run if it took longer than its cell's usual run by more than half of the earlier time of making
    the template.
    """
    usual = {cell_id: median_low(walls) for cell_id, walls in _by_cell(others).items()}
    making_s = {
        template_name(configs[cell_id]): wall_s - usual[cell_id] for cell_id, wall_s in first if cell_id in usual
    }

    def made_again(cell_id: str, wall_s: float) -> bool:
        took_s = making_s.get(template_name(configs[cell_id]), 0.0)
        return took_s > _PLAIN * usual[cell_id] and wall_s - usual[cell_id] > took_s / 2

    return [one for one in others if not made_again(*one)]


def _by_cell(runs: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    of_cell = defaultdict[str, list[float]](list)
    for cell_id, wall_s in runs:
        of_cell[cell_id].append(wall_s)
    return of_cell


def _ratio(took_and_guessed: Iterable[tuple[float, float]]) -> float:
    """Returns the ratio of the actual times to the guessed times, or 1 if it is unknown."""
    pairs = list(took_and_guessed)
    guessed_s = sum(guess_s for _, guess_s in pairs)
    return max(0.0, sum(took_s for took_s, _ in pairs)) / guessed_s if guessed_s > 0 else 1.0


def _set_s(config: Config) -> float:
    """Returns the time of a run that the spec sets: the longest warm-up, the measured part, and the pause."""
    return (config.workload.longest_s or 0.0) + config.between_runs.pause_s


def _guess(config: Config) -> float:
    kind, scale = config.kind, config.target.world_scale if config.simulated else 1
    work_s = config.workload.work.amount / scale / kind.work_per_s
    work_s = max(work_s, _commits_s(config)) + config.between_runs.pause_s
    if not config.generated:
        return kind.setup_s + work_s
    if config.workload.longest_s is not None:
        work_s = _set_s(config)
    data_s = config.workload.rows_made / _COPIED_PER_S if wants_template(config) else _making_s(config)
    return kind.setup_s + data_s + work_s


def _commits_s(config: Config) -> float:
    """Returns the shortest time, in seconds, for the successive commits of a connection, if the log's volume has a
    limit. Otherwise returns 0.
    """
    volume = config.volumes.get(config.log_volume or "")
    limit = None if volume is None or volume.limit is None else volume.limit.write_iops
    if limit is None:
        return 0.0
    return config.workload.commits_in_turn * _REQUESTS_A_COMMIT / effective("write_iops", limit)


def _making_s(config: Config) -> float:
    """Returns a first guess at how long a generator takes to make its tables, in seconds."""
    return config.workload.rows_made / config.workload.rows_made_per_s


def _line(done: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Returns set-up seconds and seconds per unit of work, by least squares. Neither is below 0."""
    s_each, setup_s = linear_regression(*zip(*done, strict=True))
    if s_each <= 0:
        return fmean(wall_s for _, wall_s in done), 0.0
    if setup_s >= 0:
        return setup_s, s_each
    return 0.0, linear_regression(*zip(*done, strict=True), proportional=True).slope
