"""Decides from the records of runs which runs may be compared. Finds odd runs that the machine caused, runs that
contain parts of checkpoint cycles, and runs that are not in steady state. The functions are pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Literal, NamedTuple

import numpy as np

from storagelab.findings.times import measured
from storagelab.model.measurement import AWAKE, CLOCK, CYCLES, Measurement, Run, held_back
from storagelab.model.volume import SLICE_S

# --- odd runs that the machine caused ---------------------------------------------------------------------------------
# If the record of an odd run shows no cause outside its layout, the layout may have stalled. Such a run counts.

MachineCause = Literal["clock", "asleep", "others", "quota"]
SHARE_MOST = 0.10
"""If more than this share of the machine's CPU time, or of the run, was lost, the loss explains an odd run."""
TIMES_USUAL = 2.0
"""The loss must also be larger than the median loss of the cell's other runs, multiplied by this factor."""


def others_share(run: Measurement) -> float | None:
    """The share of the machine's CPU time that other processes or the hypervisor took; None if unknown. A load average
    can't be used, because it includes the server under test. The share is of the CPU time in the same counters, because
    they cover slightly more time than the run.
    """
    return _cpu_share(run, "others_s", "steal_s")


def steal_share(run: Measurement) -> float:
    """The share of the machine's CPU time that the hypervisor took; 0 if unknown."""
    return _cpu_share(run, "steal_s") or 0.0


def _cpu_share(run: Measurement, *names: str) -> float | None:
    spent = run.counters.get("cpu", {})
    of_names, all_s = (
        sum(spent.get(name, 0.0) for name in part) for part in (names, ("busy_s", "idle_s", "iowait_s", "steal_s"))
    )
    return of_names / all_s if "others_s" in spent and all_s > 0 else None


def held_share(run: Measurement) -> float | None:
    """The share of the run's time in which a CPU quota throttled the server or its load; None if unknown."""
    shares = [share for _, share in held_back(run.counters.get("cpu", {}), run.elapsed_s).values()]
    return max(shares, default=0.0) if "cpu" in run.counters else None


def cause_of(odd: Measurement, beside: Sequence[Measurement], ratio: float) -> MachineCause | None:
    """The cause why a run took `ratio` times as long as expected; None if its record shows no cause. `beside` has the
    other runs of its cell."""
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


# --- runs that are too short for the kernel's throttling --------------------------------------------------------------
# The kernel admits the requests of a throttled control group in slices of time.

SHARE_LEAST = 0.02


def short_cells(runs: Mapping[str, Iterable[Measurement]]) -> dict[str, float]:
    """The median time (s) of the throttled runs of each cell, by cell. Only cells for which a slice is more than 2 % of
    this time."""
    times_s = {cell_id: [one.elapsed_s for one in of_cell if _is_throttled(one)] for cell_id, of_cell in runs.items()}
    middle_s = {cell_id: median(of_cell) for cell_id, of_cell in times_s.items() if of_cell}
    return {cell_id: one_s for cell_id, one_s in middle_s.items() if 0 < one_s * SHARE_LEAST < SLICE_S}


def slice_share(runs: Mapping[str, Iterable[Measurement]]) -> float:
    """The length of a slice, as a share of the shortest time that `short_cells` finds; 0 if it finds none. The error of
    such a time is at most this share."""
    shortest_s = min(short_cells(runs).values(), default=None)
    return 0.0 if shortest_s is None else min(1.0, SLICE_S / shortest_s)


def _is_throttled(measurement: Measurement) -> bool:
    volumes = measurement.environment.get("volumes")
    facts = volumes.values() if isinstance(volumes, Mapping) else ()
    return any(
        isinstance(one, Mapping) and isinstance(one.get("throttle"), Mapping) and one["throttle"] for one in facts
    )


# --- runs that contain parts of checkpoint cycles ---------------------------------------------------------------------

ENOUGH = 5
"""If a run contains at least this many checkpoints, a partial cycle hardly matters: if throughput differs by 20 %
between the halves of a cycle, the error is 1 %."""
_MOST_RUNS = 0.75
"""A cell has a property if at least this share of its runs has the property."""

Told = Mapping[str, float]
"""The facts that one run stores about checkpoints."""


def told_of(used: Mapping[str, Mapping[int, Run]]) -> dict[str, list[Told]]:
    """The facts about checkpoints that the runs of each cell stored, by cell. Cells without such facts are left out."""
    told: dict[str, list[Told]] = {
        cell_id: [run.counters[CYCLES] for _, run in measured(runs) if CYCLES in run.counters]
        for cell_id, runs in used.items()
    }
    return {cell_id: runs for cell_id, runs in told.items() if runs}


def nothing_seen(told: Mapping[str, Sequence[Told]]) -> bool:
    """Whether, in each cell, most runs contain no checkpoint."""
    return all(_most(lambda run: run["in_warm_up"] + run["while_counted"] == 0, runs) for runs in told.values())


def in_parts(told: Mapping[str, Sequence[Told]]) -> tuple[str, ...]:
    """The cells in which too few runs contain whole checkpoint cycles. Empty if no cell's runs contain checkpoints."""
    if nothing_seen(told):
        return ()
    return tuple(cell_id for cell_id, runs in told.items() if not _most(_whole, runs))


def withheld(used: Mapping[str, Mapping[int, Run]]) -> tuple[str, ...]:
    """The cells that are not compared because their runs should contain whole checkpoint cycles, but do not."""
    found = in_parts(told_of(used))
    return tuple(one for one in found if any(run.config.workload.warm_up_is_found for run in used[one].values()))


def _most(what: Callable[[Told], bool], runs: Sequence[Told]) -> bool:
    return sum(map(what, runs)) >= _MOST_RUNS * len(runs)


def _whole(run: Told) -> bool:
    return run["whole"] > 0 or run["while_counted"] >= ENOUGH


def log_rates(runs: Iterable[Run]) -> dict[str, float]:
    """The mean rate (bytes/s) at which the runs of each cell wrote the log, by cell. Only cells whose servers count
    these bytes."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.usable and run.measurement is not None and run.measurement.elapsed_s > 0:
            counters = run.measurement.counters
            written = counters.get("wal", {}).get("wal_bytes", counters.get("log", {}).get("innodb_lsn_current"))
            if written is not None:
                found[run.cell_id].append(written / run.measurement.elapsed_s)
    return {cell_id: fmean(rates) for cell_id, rates in found.items()}


# --- steady state -----------------------------------------------------------------------------------------------------
# The rule of SNIA's Solid State Storage Performance Test Specification: over five rounds, the range of the rate is at
# most 20 % of its mean, and a fitted line changes by at most 10 % of the mean.

ROUNDS = 5
MOST_EXCURSION = 0.20
MOST_SLOPE = 0.10
_ROUNDS_OF_A_RUN = 10
RATE = "requests_per_s"
"""The column of a run's time series from which steady state is judged."""


class Steadiness(NamedTuple):
    """`excursion` is the range of the rate over five rounds, and `slope` the change of the fitted line. Both are shares
    of the mean rate."""

    excursion: float
    slope: float

    @property
    def steady(self) -> bool:
        return self.excursion <= MOST_EXCURSION and self.slope <= MOST_SLOPE


def steadiness(rates: Sequence[float]) -> Steadiness | None:
    """The steadiness of the last five rounds; None if there are fewer rounds, or if no work was done in them."""
    window = np.asarray(rates[-ROUNDS:], dtype=float)
    if len(window) < ROUNDS or window.mean() <= 0:
        return None
    line = float(np.polyfit(np.arange(ROUNDS), window, 1)[0])
    return Steadiness(float(np.ptp(window) / window.mean()), abs(line) * (ROUNDS - 1) / float(window.mean()))


def rounds_of(run: Measurement) -> list[float]:
    """The mean rates of one run's rounds. A round is a tenth of the run's time series, or one second if the series is
    short. If the series can't be divided evenly, the first seconds are left out.
    """
    rates = [rate or 0.0 for rate in run.series.columns.get(RATE, ())]
    length = max(1, len(rates) // _ROUNDS_OF_A_RUN)
    whole = len(rates) // length * length
    if not whole:
        return []
    return [float(part.mean()) for part in np.split(np.asarray(rates[len(rates) - whole :]), whole // length)]


def is_steady(runs: Sequence[Measurement]) -> bool | None:
    """Whether each run of a cell ended in steady state. If runs have no time series, the repetitions are the rounds.
    None if there are fewer than five rounds. For simulated runs, repetitions are tried first, because a simulated drive
    keeps its state from run to run, and because at a small scale its rate changes in steps within a run.
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
