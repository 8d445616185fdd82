"""Converts stored runs to a matrix of times, with a row for each cell of a plan and a column for each round. The
functions are pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple, cast

import numpy as np

from storagelab.findings.model import CellSummary, Compared, Estimate, Findings, Sample
from storagelab.model.engines import Provenances
from storagelab.model.loads.base import Unit
from storagelab.model.measurement import BIN_ERROR, Latency, Measurement, Run, merged
from storagelab.model.plan import Plan
from storagelab.stats.fit import Matrix
from storagelab.stats.intervals import ALPHA, CONFIDENCE, FURTHEST, VALUES_LEAST, t_point


class TimedRun(NamedTuple):
    """The data of a run that are needed to judge it by its time. `elapsed_s` is None if the run has no figures.
    `latency_s` has the figures of the run's latency, by name. `began_s` is the start in seconds since 1970.
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
    return TimedRun(
        run.cell_id, run.repetition, run.attempt, elapsed_s, work, run.wall_s,
        {} if latency is None else figures_s(latency), _since_1970(run.started_at),
    )  # fmt: skip


def _since_1970(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:  # another program stored the run
        return 0.0


def wall_time_s(runs: Iterable[TimedRun]) -> float:
    """The time (s) in which at least one run was in progress. If runs were made in parallel, their common time counts
    once."""
    total, until = 0.0, -math.inf
    for run in sorted(runs, key=lambda run: run.began_s):
        end = run.began_s + run.wall_s
        total += max(0.0, end - max(until, run.began_s))
        until = max(until, end)
    return total


def log_times(plan: Plan, runs: Iterable[TimedRun], compared: Compared) -> tuple[tuple[int, ...], Matrix]:
    """Returns the rounds and the log times as a matrix of cells x rounds. Each time is a run's elapsed time, its time
    per unit of work, or a latency, as `compared` says. It is NaN if there is no run.

    A round is a repetition. Within a block of the plan, a round is complete, and its runs are close in time. Across
    blocks, neither is true, so cells of different blocks may not be tested against each other.
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
    """The number of the block in which each cell of the plan runs."""
    block = {run.cell_id: run.block for run in plan.runs}
    return tuple(block.get(cell.cell_id, 0) for cell in plan.cells)


def blocks_judged(plan: Plan, *, in_stretches: bool, simulated: bool) -> Sequence[int]:
    """The number of the period in which each cell ran. Only cells of one period may be compared. All simulated cells
    have the same period, because each run is simulated anew with its own seed, so blocks don't drift. `simulated` says
    that all cells are simulated. If `in_stretches` is true, each measured cell has its own period.
    """
    if simulated:
        return (0,) * len(plan.cells)
    pairs = list(zip(plan.cells, range(len(plan.cells)) if in_stretches else blocks_of(plan), strict=True))
    shared = min((stretch for cell, stretch in pairs if cell.config.simulated), default=0)
    return [shared if cell.config.simulated else stretch for cell, stretch in pairs]


def provenance_of(measurements: Iterable[Measurement]) -> Provenances | None:
    """Whether the runs are measured, simulated or mixed; None if there are no runs."""
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
    """Whether the spec sets the length of runs. Such runs differ in the amount of their work."""
    return any(cell.config.workload.work.unit == "ms" for cell in plan.cells)


def latency_of(compared: Compared) -> str | None:
    """The name of the latency figure by which cells are compared; None if they are compared by another quantity."""
    return compared.removeprefix("latency-") if compared.startswith("latency-") else None


def judged_by(cell: CellSummary, compared: Compared) -> Sample | None:
    """The sample of the quantity by which a cell is compared: its time, its rate (if cells do different amounts of
    work), or a latency."""
    if latency_of(compared):
        return cell.judged
    return cell.elapsed_s if compared == "elapsed" else cell.work_per_s


def time_s(cell: CellSummary) -> float:
    """The mean time (s) of a cell's runs; if the spec sets the length of runs, the mean time of a transaction. 0 if
    there is no run."""
    return cell.each_s or (0.0 if cell.elapsed_s is None else cell.elapsed_s.mean.value)


def unit_of(plan: Plan) -> Unit:
    """The unit of the work of a plan's runs. If the spec sets the length of runs, the unit is requests or
    transactions."""
    config = plan.cells[0].config
    unit = config.workload.work.unit
    return unit if unit != "ms" else "transactions" if config.generated else "requests"


def usable_runs(plan: Plan, runs: Sequence[Run]) -> dict[str, dict[int, Run]]:
    """Maps each cell id of the plan, in the plan's order, to the cell's runs by repetition. Each run is the latest
    attempt that has figures. Burn-in runs are left out."""
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
# A percentile of a cell is calculated from the merged histogram of its runs. Operations of one run share the run's
# effect, so they don't scatter independently. So the interval is calculated from the runs: each run is left out once,
# and the scatter of the logarithms of the resulting percentiles gives the standard error (the delete-one jackknife over
# runs, Efron 1982; Student's t with one degree of freedom fewer than runs). The longest latency has no interval,
# because it grows with the number of runs.

PERCENTILES: Mapping[str, float] = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}
FIGURES = ("mean", *PERCENTILES, "max")
"""The names of the figures that are calculated from a histogram."""


SYNCS, WITH_SYNC = "sync_latency_mean_s", "with_sync_mean_s"
"""Figures of raw I/O: the mean time of the syncs that follow writes, and of a write with its sync."""


def with_syncs(counters: Mapping[str, float]) -> Mapping[str, float]:
    """The counters of a run of raw I/O, and the mean time of a write with its sync. This time is unknown if some
    requests are reads, which no sync follows.
    """
    if SYNCS not in counters or "reads_per_s" in counters:
        return counters
    return {**counters, WITH_SYNC: counters["latency_mean_s"] + counters[SYNCS]}


def is_synced(cells: Iterable[CellSummary]) -> bool:
    """Whether an fsync or fdatasync follows each write of some cells. The latency of a request does not include it."""
    return any(SYNCS in cell.raw_io for cell in cells)


def figures_beside(findings: Findings, cell: CellSummary) -> dict[str, Estimate]:
    """A cell's figures of latency and of raw I/O, by name. If syncs follow the writes of some cells, the mean with sync
    is that of the request itself in cells without such syncs.
    """
    found = {f"latency_{name}_s": estimate for name, estimate in cell.latency.items()}
    found |= {counter: sample.mean for counter, sample in cell.raw_io.items()}
    if is_synced(findings.cells) and SYNCS not in cell.raw_io and "latency_mean_s" in found:
        found[WITH_SYNC] = found["latency_mean_s"]
    return found


def figure_s(latency: Latency, name: str) -> float | None:
    """One figure of a histogram in seconds. None for a percentile if the histogram has too few operations above it,
    because the percentile would then be the longest latency.
    """
    if name == "mean":
        return latency.mean_s
    if name == "max":
        return latency.longest_ns / 1e9
    per_cent = PERCENTILES[name]
    return latency.percentile_s(per_cent) if latency.operations * (100 - per_cent) >= 100 else None


def figures_s(latency: Latency) -> dict[str, float]:
    """The figures of a histogram in seconds, by name. Figures for which it has too few operations are left out."""
    found = {name: figure_s(latency, name) for name in FIGURES}
    return {name: value for name, value in found.items() if value is not None}


def figures_of_cell(runs: Sequence[Latency]) -> dict[str, Estimate]:
    """The latency figures over all operations of a cell's runs, by name. If there are three runs or more, all figures
    except the longest latency have a 95 % interval."""
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
    """The ids of two cells: `fastest` has the most throughput, but `lowest` has the lowest latency. `fastest_s` and
    `lowest_s` are their 99th percentiles, whose intervals don't overlap.
    """

    fastest: str
    lowest: str
    fastest_s: Estimate
    lowest_s: Estimate


def disagreement(cells: Sequence[CellSummary], told_apart: Collection[frozenset[str]]) -> Disagreement | None:
    """The two cells that throughput and the 99th percentile favour, if these surely differ; otherwise None.

    `told_apart` has the pairs of cells whose difference the verdict states. Only these pairs are used, so a false
    disagreement is as rare as a false verdict.
    """
    if is_synced(cells):
        return None  # latencies differ in whether they include the sync
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
    # A percentile is reported as the middle of a bin. The true percentile may be anywhere in this bin.
    half = t_point(runs - 1, ALPHA) * error + (BIN_ERROR if name in PERCENTILES else 0.0)
    if half > FURTHEST:
        return Estimate(value=value)
    return Estimate(value=value, low=value * math.exp(-half), high=value * math.exp(half), confidence=CONFIDENCE)
