"""Stored runs -> times as a matrix, a row for each cell of a plan and a column for each round. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, cast

import numpy as np

from storagelab.findings import latencies
from storagelab.findings.model import Compared
from storagelab.model.engines import Provenances
from storagelab.model.loads.base import Unit
from storagelab.model.measurement import Measurement, Run
from storagelab.model.plan import Plan
from storagelab.stats.fit import Matrix


class TimedRun(NamedTuple):
    """What judging by time needs of a run. `elapsed_s` is None if the run has no figures; `latency_s` has the
    figures of its latency by name; `began_s` counts from 1970.
    """

    cell_id: str
    repetition: int
    attempt: int
    elapsed_s: float | None
    work: float
    wall_s: float
    latency_s: Mapping[str, float] = MappingProxyType({})
    began_s: float = 0.0


def timed(run: Run) -> TimedRun:
    measured = run.measurement if run.usable else None
    elapsed_s, work = (None, 0) if measured is None else (measured.elapsed_s, measured.unwatched_work)
    latency = None if measured is None else measured.latency
    latency_s = {} if latency is None else latencies.figures_s(latency)
    return TimedRun(
        run.cell_id, run.repetition, run.attempt, elapsed_s, work, run.wall_s,
        latency_s, _since_1970(run.started_at),
    )  # fmt: skip


def _since_1970(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:  # stored by something else than storagelab
        return 0.0


def wall_time_s(runs: Iterable[TimedRun]) -> float:
    """The time in which any run was in progress: runs made side by side count once."""
    total, until = 0.0, -math.inf
    for run in sorted(runs, key=lambda run: run.began_s):
        end = run.began_s + run.wall_s
        total += max(0.0, end - max(until, run.began_s))
        until = max(until, end)
    return total


def log_times(plan: Plan, runs: Iterable[TimedRun], compared: Compared) -> tuple[tuple[int, ...], Matrix]:
    """The rounds, and log times as cells x rounds: elapsed time of the run or per unit of work, or a latency.

    A round is a repetition: within a block of the plan it is complete, and close in time. Across blocks it is neither,
    so cells of different blocks may not be tested against each other.
    """
    figure = latency_of(compared)
    times = ((run, run.elapsed_s if figure is None else run.latency_s.get(figure)) for run in runs)
    timed = [(run, time_s) for run, time_s in times if time_s is not None]
    rounds = sorted({run.repetition for run, _ in timed})
    row = {cell.cell_id: index for index, cell in enumerate(plan.cells)}
    column = {repetition: index for index, repetition in enumerate(rounds)}
    log_s = np.full((len(plan.cells), len(rounds)), np.nan)
    for run, elapsed_s in timed:
        share = 1 if compared == "elapsed" or figure is not None else max(run.work, 1)
        log_s[row[run.cell_id], column[run.repetition]] = math.log(max(elapsed_s, 1e-9) / share)
    return tuple(rounds), log_s


def blocks_of(plan: Plan) -> tuple[int, ...]:
    """The block in which each cell of the plan runs."""
    block = {run.cell_id: run.block for run in plan.runs}
    return tuple(block.get(cell.cell_id, 0) for cell in plan.cells)


def blocks_judged(plan: Plan, *, in_stretches: bool, simulated: bool) -> Sequence[int]:
    """For each cell, the stretch of time in which it ran. Only cells of one stretch may be compared.

    All simulated cells share one: a simulation has a seed per run and no drift from one block to the next, because its
    world is made anew. No measured cell is in it. `simulated`: all cells are simulated.
    """
    if simulated:
        return (0,) * len(plan.cells)
    stretches = range(len(plan.cells)) if in_stretches else blocks_of(plan)
    pairs = list(zip(plan.cells, stretches, strict=True))
    shared = min((stretch for cell, stretch in pairs if cell.config.simulated), default=0)
    return [shared if cell.config.simulated else stretch for cell, stretch in pairs]


def provenance_of(measurements: Iterable[Measurement]) -> Provenances | None:
    """Where the figures come from; None without any."""
    found = sorted({one.provenance for one in measurements})
    return "measured and simulated" if len(found) > 1 else next(iter(found), None)


def compared_of(plan: Plan) -> Compared:
    """The quantity by which cells are compared."""
    configs = [cell.config for cell in plan.cells]
    generated = any(config.generated for config in configs)
    if generated and configs[0].measure.judge != "throughput":
        return cast(Compared, f"latency-{configs[0].measure.judge}")
    if all(config.workload.paced for config in configs):
        return "latency-mean"
    if of_set_time(plan):
        return "time-per-transaction" if generated else "time-per-request"
    if len({config.workload.work for config in configs}) < 2:
        return "elapsed"
    return "time-per-transaction" if generated else "time-per-row"


def of_set_time(plan: Plan) -> bool:
    """Whether runs last as long as the spec says, so that they differ in the work that they do."""
    return any(cell.config.workload.work.unit == "ms" for cell in plan.cells)


def latency_of(compared: Compared) -> str | None:
    """The figure of latency by which cells are compared, by its name in `latencies`; None if they are compared by
    something else.
    """
    return compared.removeprefix("latency-") if compared.startswith("latency-") else None


def unit_of(plan: Plan) -> Unit:
    """The unit of the work of a plan's runs. A run of set time does requests or transactions."""
    config = plan.cells[0].config
    unit = config.workload.work.unit
    return unit if unit != "ms" else "transactions" if config.generated else "requests"


def usable_runs(plan: Plan, runs: Sequence[Run]) -> dict[str, dict[int, Run]]:
    """cell_id -> repetition -> the latest attempt with figures, for every cell of the plan, in its order."""
    used: dict[str, dict[int, Run]] = {cell.cell_id: {} for cell in plan.cells}
    for run in sorted(runs, key=lambda run: (run.repetition, run.attempt)):
        if run.usable and not run.burn_in and run.cell_id in used:
            used[run.cell_id][run.repetition] = run
    return used


def measured(runs: Mapping[int, Run]) -> Iterator[tuple[int, Measurement]]:
    """The runs of a cell that have figures, by repetition."""
    for repetition, run in runs.items():
        if run.measurement is not None:
            yield repetition, run.measurement
