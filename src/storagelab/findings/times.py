"""Stored runs -> times as a matrix, a row for each cell of a plan and a column for each round. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, cast

import numpy as np

from storagelab.findings.model import CellSummary, Compared, Estimate, Sample
from storagelab.model.engines import Provenances
from storagelab.model.loads.base import Unit
from storagelab.model.measurement import BIN_ERROR, Latency, Measurement, Run, merged
from storagelab.model.plan import Plan
from storagelab.stats.fit import Matrix
from storagelab.stats.intervals import ALPHA, CONFIDENCE, FURTHEST, VALUES_LEAST, t_point


class TimedRun(NamedTuple):
    """The data of a run that judging by time needs. `elapsed_s` is None if the run has no figures; `latency_s` has the
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
    latency_s = {} if latency is None else figures_s(latency)
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
    """The time in which any run was in progress: the time of parallel runs counts once."""
    total, until = 0.0, -math.inf
    for run in sorted(runs, key=lambda run: run.began_s):
        end = run.began_s + run.wall_s
        total += max(0.0, end - max(until, run.began_s))
        until = max(until, end)
    return total


def log_times(plan: Plan, runs: Iterable[TimedRun], compared: Compared) -> tuple[tuple[int, ...], Matrix]:
    """The rounds, and log times as cells x rounds: elapsed time of the run or per unit of work, or a latency.

    A round is a repetition: within a block of the plan it is complete, and close in time. Across blocks a round is
    neither, so cells of different blocks may not be tested against each other.
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
    """For each cell, the period in which it ran. Only cells of one period may be compared. All simulated cells share a
    period without measured cells: each run is simulated anew with its own seed, so there is no drift between blocks.
    `simulated`: all cells are simulated.
    """
    if simulated:
        return (0,) * len(plan.cells)
    stretches = range(len(plan.cells)) if in_stretches else blocks_of(plan)
    pairs = list(zip(plan.cells, stretches, strict=True))
    shared = min((stretch for cell, stretch in pairs if cell.config.simulated), default=0)
    return [shared if cell.config.simulated else stretch for cell, stretch in pairs]


def provenance_of(measurements: Iterable[Measurement]) -> Provenances | None:
    """Whether the runs are measured, simulated or mixed; None without runs."""
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


def judged_by(cell: CellSummary, compared: Compared) -> Sample | None:
    """The figure by which a cell is compared: its time, its rate if cells do different work, or a latency."""
    if latency_of(compared):
        return cell.judged
    return cell.elapsed_s if compared == "elapsed" else cell.work_per_s


def time_s(cell: CellSummary) -> float:
    """The mean time of a run, or of a transaction if runs have a set time; 0 without a run."""
    return cell.each_s or (0.0 if cell.elapsed_s is None else cell.elapsed_s.mean.value)


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


# --- latencies of a cell ----------------------------------------------------------------------------------------------
# A percentile of a cell comes from the merged histogram of its runs. Operations of one run share the run's effect, so
# they don't scatter independently. So the interval comes from the runs: each is left out once, and the scatter of the
# logarithms of the resulting percentiles gives the standard error (the delete-one jackknife over runs, Efron 1982;
# Student's t with one degree of freedom fewer than runs). The longest latency has no interval, since with more runs it
# is longer.

PERCENTILES: Mapping[str, float] = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}
FIGURES = ("mean", *PERCENTILES, "max")
"""The figures of a histogram, by name."""


def figure_s(latency: Latency, name: str) -> float | None:
    """One figure of a histogram in seconds; None for a percentile that no operation exceeds, which would just be the
    longest latency.
    """
    if name == "mean":
        return latency.mean_s
    if name == "max":
        return latency.longest_ns / 1e9
    per_cent = PERCENTILES[name]
    return latency.percentile_s(per_cent) if latency.operations * (100 - per_cent) >= 100 else None


def figures_s(latency: Latency) -> dict[str, float]:
    """All figures of a histogram for which it has enough operations."""
    found = {name: figure_s(latency, name) for name in FIGURES}
    return {name: value for name, value in found.items() if value is not None}


def figures_of_cell(runs: Sequence[Latency]) -> dict[str, Estimate]:
    """The latency figures over all operations of a cell's runs. From three runs on, each has a 95 % interval."""
    whole = merged(runs)
    if whole is None:
        return {}
    enough = len(runs) >= VALUES_LEAST
    without_one = [merged([*runs[:place], *runs[place + 1 :]]) for place in range(len(runs))] if enough else []
    return {
        name: _estimate(name, value, [one for one in without_one if one is not None])
        for name, value in figures_s(whole).items()
    }


class Disagreement(NamedTuple):
    """The cell with the most throughput is not the cell with the lowest latency (cell ids). `fastest_s` and
    `lowest_s` are their 99th percentiles; the intervals don't overlap.
    """

    fastest: str
    lowest: str
    fastest_s: Estimate
    lowest_s: Estimate


def disagreement(cells: Sequence[CellSummary], told_apart: Collection[frozenset[str]]) -> Disagreement | None:
    """Whether throughput and the 99th percentile surely favour different cells; None if not, or if that is unknown.

    Only cells that the verdict has `told_apart` can disagree. So a false disagreement is as rare as a false verdict.
    """
    known = [(cell, cell.work_per_s, cell.latency["p99"]) for cell in cells if "p99" in cell.latency]
    rated = [(cell, rate.mean.value, latency) for cell, rate, latency in known if rate is not None]
    if len(rated) < 2:
        return None
    fastest, _, of_fastest = max(rated, key=lambda one: one[1])
    lowest, _, of_lowest = min(rated, key=lambda one: one[2].value)
    if of_lowest.high is None or of_fastest.low is None or of_lowest.high >= of_fastest.low:
        return None
    if frozenset((fastest.cell_id, lowest.cell_id)) not in told_apart:
        return None
    return Disagreement(fastest.cell_id, lowest.cell_id, of_fastest, of_lowest)


def _estimate(name: str, value: float, without_one: Sequence[Latency]) -> Estimate:
    others = [figure for one in without_one if (figure := figure_s(one, name)) is not None and figure > 0]
    if name == "max" or value <= 0 or len(others) < VALUES_LEAST or len(others) < len(without_one):
        return Estimate(value=value)
    logs = [math.log(one) for one in others]
    centre, runs = math.fsum(logs) / len(logs), len(logs)
    error = math.sqrt((runs - 1) / runs * math.fsum((one - centre) ** 2 for one in logs))
    # A percentile is the middle of a bin; the true one may be anywhere in it.
    half = t_point(runs - 1, ALPHA) * error + (BIN_ERROR if name in PERCENTILES else 0.0)
    if half > FURTHEST:
        return Estimate(value=value)
    return Estimate(value=value, low=value * math.exp(-half), high=value * math.exp(half), confidence=CONFIDENCE)
