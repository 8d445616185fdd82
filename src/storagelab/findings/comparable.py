"""Decides from the records of runs whether runs may be compared: odd runs that the machine caused, runs with parts of
the server's checkpoint cycles, and steady state. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Literal, NamedTuple

import numpy as np

from storagelab.findings.times import measured
from storagelab.model.measurement import AWAKE, CLOCK, CYCLES, Measurement, Run, held_back
from storagelab.model.volume import SLICE_S

# --- odd runs whose cause is the machine's ----------------------------------------------------------------------------
# If the record of an odd run shows no cause outside its layout, it may be a stall of the layout, so it counts.

MachineCause = Literal["clock", "asleep", "others", "quota"]
SHARE_MOST = 0.10
"""The share of the machine's CPU time, or of the run, above which lost time explains an odd run."""
TIMES_USUAL = 2.0
"""If a cell's other runs lose as much, the loss does not explain an odd run."""


def others_share(run: Measurement) -> float | None:
    """The fraction of the machine's CPU time that other processes or the hypervisor took; None if unknown. A load
    average can't be used, because it includes the server under test. The fraction is relative to the time in the same
    counters, because these cover slightly more than the run.
    """
    return _cpu_share(run, "others_s", "steal_s")


def steal_share(run: Measurement) -> float:
    """The hypervisor's part of this fraction; 0 if unknown."""
    return _cpu_share(run, "steal_s") or 0.0


def _cpu_share(run: Measurement, *names: str) -> float | None:
    spent = run.counters.get("cpu", {})
    of_names, all_s = (
        sum(spent.get(name, 0.0) for name in part) for part in (names, ("busy_s", "idle_s", "iowait_s", "steal_s"))
    )
    return of_names / all_s if "others_s" in spent and all_s > 0 else None


def held_share(run: Measurement) -> float | None:
    """The share of the run in which a CPU quota throttled the server or its load; None if unknown."""
    shares = [share for _, share in held_back(run.counters.get("cpu", {}), run.elapsed_s).values()]
    return max(shares, default=0.0) if "cpu" in run.counters else None


def cause_of(odd: Measurement, beside: Sequence[Measurement], ratio: float) -> MachineCause | None:
    """Why a run took `ratio` times as long as expected, if its record shows the cause; `beside` are its cell's other
    runs."""
    failed = {check.name for check in odd.unverified if check.ok is False}
    if CLOCK in failed:
        return "clock"
    if AWAKE in failed:
        return "asleep"
    shares: Mapping[MachineCause, Callable[[Measurement], float | None]] = {"others": others_share, "quota": held_share}
    for cause, share_of in shares.items():
        usual = [share for run in beside if (share := share_of(run)) is not None]
        limit = max(SHARE_MOST, TIMES_USUAL * median(usual)) if usual else SHARE_MOST
        if ratio > 1 and (share_of(odd) or 0.0) > limit:
            return cause
    return None


# --- runs that are short against the slices of time in which the kernel admits the requests of a throttled group ------

SHARE_LEAST = 0.02


def short_cells(runs: Mapping[str, Iterable[Measurement]]) -> dict[str, float]:
    """The median time of each cell with throttled runs, if a slice is more than 2 % of it."""
    times_s = {cell_id: [one.elapsed_s for one in of_cell if _is_throttled(one)] for cell_id, of_cell in runs.items()}
    middle_s = {cell_id: median(of_cell) for cell_id, of_cell in times_s.items() if of_cell}
    return {cell_id: one_s for cell_id, one_s in middle_s.items() if 0 < one_s * SHARE_LEAST < SLICE_S}


def slice_share(runs: Mapping[str, Iterable[Measurement]]) -> float:
    """The largest error of the time of such a run; 0 if there is none."""
    shortest_s = min(short_cells(runs).values(), default=None)
    return 0.0 if shortest_s is None else min(1.0, SLICE_S / shortest_s)


def _is_throttled(measurement: Measurement) -> bool:
    volumes = measurement.environment.get("volumes")
    facts = volumes.values() if isinstance(volumes, Mapping) else ()
    return any(
        isinstance(one, Mapping) and isinstance(one.get("throttle"), Mapping) and one["throttle"] for one in facts
    )


# --- checkpoint cycles that runs hold in parts ------------------------------------------------------------------------

ENOUGH = 5
"""From this many checkpoints on, a partial cycle hardly matters: if throughput differs by 20 % between the halves of a
cycle, the error is 1 %."""
_MOST_RUNS = 0.75
"""A cell has a property if this share of its runs has the property."""

Told = Mapping[str, float]
"""The facts that one run stores about checkpoints."""


def told_of(used: Mapping[str, Mapping[int, Run]]) -> dict[str, list[Told]]:
    """The checkpoints in the runs of each cell, if recorded."""
    told: dict[str, list[Told]] = {
        cell_id: [run.counters[CYCLES] for _, run in measured(runs) if CYCLES in run.counters]
        for cell_id, runs in used.items()
    }
    return {cell_id: runs for cell_id, runs in told.items() if runs}


def nothing_seen(told: Mapping[str, Sequence[Told]]) -> bool:
    """Whether no cell saw a checkpoint in most of its runs."""
    return all(_most(lambda run: run["in_warm_up"] + run["while_counted"] == 0, runs) for runs in told.values())


def in_parts(told: Mapping[str, Sequence[Told]]) -> tuple[str, ...]:
    """The cells whose runs contain parts of cycles, or no checkpoint although runs of other cells have some."""
    if nothing_seen(told):
        return ()
    return tuple(cell_id for cell_id, runs in told.items() if not _most(_whole, runs))


def withheld(used: Mapping[str, Mapping[int, Run]]) -> tuple[str, ...]:
    """The cells that are not compared, because their runs should contain whole cycles, and do not."""
    found = in_parts(told_of(used))
    return tuple(one for one in found if any(run.config.workload.warm_up_is_found for run in used[one].values()))


def _most(what: Callable[[Told], bool], runs: Sequence[Told]) -> bool:
    return sum(map(what, runs)) >= _MOST_RUNS * len(runs)


def _whole(run: Told) -> bool:
    return run["whole"] > 0 or run["while_counted"] >= ENOUGH


def log_rates(runs: Iterable[Run]) -> dict[str, float]:
    """The bytes of log that a cell's runs wrote in a second, by cell, where their servers count them."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.usable and run.measurement is not None and run.measurement.elapsed_s > 0:
            counters = run.measurement.counters
            written = counters.get("wal", {}).get("wal_bytes", counters.get("log", {}).get("innodb_lsn_current"))
            if written is not None:
                found[run.cell_id].append(written / run.measurement.elapsed_s)
    return {cell_id: fmean(rates) for cell_id, rates in found.items()}


# --- steady state -----------------------------------------------------------------------------------------------------
# The storage industry's rule (SNIA, Solid State Storage Performance Test Specification): over five rounds the rate
# stays within 20 % of its mean, and the fitted line changes by at most 10 % of it.

ROUNDS = 5
MOST_EXCURSION = 0.20
MOST_SLOPE = 0.10
_ROUNDS_OF_A_RUN = 10
RATE = "requests_per_s"
"""The column of a run's series that is judged."""


class Steadiness(NamedTuple):
    """The range of the rate in five rounds, and the change of the fitted line, as shares of their mean."""

    excursion: float
    slope: float

    @property
    def steady(self) -> bool:
        return self.excursion <= MOST_EXCURSION and self.slope <= MOST_SLOPE


def steadiness(rates: Sequence[float]) -> Steadiness | None:
    """The steadiness of the last five rounds; None if there are fewer rounds, or no work was done in them."""
    window = np.asarray(rates[-ROUNDS:], dtype=float)
    if len(window) < ROUNDS or window.mean() <= 0:
        return None
    line = float(np.polyfit(np.arange(ROUNDS), window, 1)[0])
    return Steadiness(float(np.ptp(window) / window.mean()), abs(line) * (ROUNDS - 1) / float(window.mean()))


def rounds_of(run: Measurement) -> list[float]:
    """The rounds of one run: tenths of its series, or single seconds of a short one. The remainder at its beginning
    does not count.
    """
    rates = [rate or 0.0 for rate in run.series.columns.get(RATE, ())]
    length = max(1, len(rates) // _ROUNDS_OF_A_RUN)
    whole = len(rates) // length * length
    return (
        [float(part.mean()) for part in np.split(np.asarray(rates[len(rates) - whole :]), whole // length)]
        if whole
        else []
    )


def is_steady(runs: Sequence[Measurement]) -> bool | None:
    """Whether each run of a cell ended in steady state; for runs without a series, whether the repetitions did. None if
    there are fewer than five rounds. For simulated runs, repetitions are used first: a drive keeps its state from run
    to run, and at a small scale its rate changes in steps within a run.
    """
    simulated = any(one.provenance == "simulated" for one in runs)
    first, then = (_by_repetitions, _by_series) if simulated else (_by_series, _by_repetitions)
    judged = first(runs)
    return then(runs) if judged is None else judged


def _by_series(runs: Sequence[Measurement]) -> bool | None:
    of_runs = [steadiness(rounds_of(run)) for run in runs]
    return all(one is not None and one.steady for one in of_runs) if of_runs and None not in of_runs else None


def _by_repetitions(runs: Sequence[Measurement]) -> bool | None:
    over_runs = steadiness([run.work_per_s or 0.0 for run in runs])
    return None if over_runs is None else over_runs.steady
