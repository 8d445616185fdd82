"""Finds volumes that were at their limit. Pure.

If control groups throttle a volume, its limit is known. The limit gives the least time that a run's requests to this
volume take. If the run takes hardly longer, the volume sets the pace. Then each wait is a wait in the volume's queue,
even if the engine reports a wait for the log, for a page, or for a lock whose holder is in that queue.

A constant rate alone does not prove a limit, because a load that is limited by CPUs has a constant rate, too. So if no
limit is known, the answer names none.
bounds(runs)                      the limits of a cell's volumes, and the time that the requests take at each limit
volume_at_limit(pairs, change_s)  the volume whose limit explains a change of time
between_ends(findings)            the same for the fastest and the slowest cell
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from storagelab.findings.basis import table_in, volumes_of
from storagelab.findings.cell import Bound, LimitedRate
from storagelab.findings.model import CellSummary, Estimate, Findings
from storagelab.findings.times import time_s
from storagelab.model.measurement import Measurement
from storagelab.model.volume import effective
from storagelab.stats.intervals import ALPHA, change, estimate, leaves_out_zero, mean

AT_LIMIT = 0.85
"""A volume sets the pace if its requests, served at its limit, take at least this share of the slower runs' time. The
remaining time is the start, the end, and moments in which no session had a request for the volume.
"""
WAITING = 0.5
"""A volume sets the pace only if connections wait for something other than a CPU in at least this fraction of their
time."""
MOST_OF_A_CHANGE = 0.5
"""The limit must explain at least this fraction of a change of time. Otherwise there may be another reason, too."""
_COUNTERS: dict[LimitedRate, str] = {
    "read_iops": "reads", "write_iops": "writes", "read_bytes_per_s": "read_bytes", "write_bytes_per_s": "write_bytes",
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What a cell's runs requested from their volumes
# ---------------------------------------------------------------------------------------------------------------------


def bounds(runs: Sequence[tuple[Measurement, float]]) -> tuple[Bound, ...]:
    """The limits that are equal in all runs, if each run counted the requests. Each run is given with the number by
    which its seconds and the seconds of its waits are divided.
    """
    of_runs = [{(volume, rate): (limit, s / by) for volume, rate, limit, s in _of_run(one)} for one, by in runs]
    if not of_runs:
        return ()
    found = []
    for key, (limit, _) in of_runs[0].items():
        if all(key in of_run and of_run[key][0] == limit for of_run in of_runs):
            found.append(Bound(*key, limit, tuple(of_run[key][1] for of_run in of_runs)))
    return tuple(found)


def _of_run(measurement: Measurement) -> Iterator[tuple[str, LimitedRate, float, float]]:
    """For each limit: the volume, the limited rate, the limit, and the seconds that the run's requests take at this
    limit."""
    counted = measurement.counters.get("volumes", {})
    for name, facts in volumes_of(measurement):
        limits = table_in(facts, "throttle")
        for rate, counter in _COUNTERS.items():
            limit = limits.get(rate)
            amount = counted.get(f"volume.{name}.throttled_{counter}")
            if isinstance(limit, int | float) and limit > 0 and amount is not None:
                reached = effective(rate, limit)
                yield name, rate, reached, amount / reached


# ---------------------------------------------------------------------------------------------------------------------
# Whether a limit explains a change
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AtLimit:
    """A volume that was at its limit in the slower of two cells. `share` is the fraction of the slower cell's time that
    the volume's requests take at the limit.

    `before_s` and `after_s` are the least times of the mean run that the limits of all its volumes allow. `change`
    is the difference of these two times, with its interval.
    """

    volume: str
    rate: LimitedRate
    limit: float
    share: float
    before_s: float
    after_s: float
    change: Estimate


Pairs = Sequence[tuple[CellSummary, CellSummary]]


def volume_at_limit(pairs: Pairs, change_s: float) -> AtLimit | None:
    """The volume that sets the pace of the slower cell in all pairs. None if there is no such volume, or if its limit
    does not surely explain most of the change `change_s`."""
    slower = [after if change_s > 0 else before for before, after in pairs]
    found = {(one.volume, one.rate, one.limit) for cell in slower if (one := _hardest(cell)) is not None}
    if len(found) != 1 or any(_hardest(cell) is None for cell in slower):
        return None
    ((volume, rate, limit),) = found
    share = sum(_share(cell) for cell in slower) / len(slower)
    waiting = sum(_waiting(cell) for cell in slower) / len(slower)
    rows = [change(_least_s(before), _least_s(after)) for before, after in pairs]
    moved = estimate(rows, ALPHA)
    along = moved.value * change_s > 0 and leaves_out_zero(moved)
    if share < AT_LIMIT or waiting < WAITING or not along or abs(moved.value) < MOST_OF_A_CHANGE * abs(change_s):
        return None
    return AtLimit(volume, rate, limit, min(1.0, share), *mean(rows), moved)


def between_ends(findings: Findings) -> AtLimit | None:
    """The volume whose limit explains why the slowest cell takes longer than the fastest. None if there is no such
    volume, or if the two cells do not surely differ."""
    apart = any(
        row.distinguishable and (row.cell_id, row.best_cell_id) == (findings.worst, findings.fastest)
        for row in findings.comparisons
    )
    if not apart or findings.fastest is None or findings.worst is None:
        return None
    best, worst = findings.cell(findings.fastest), findings.cell(findings.worst)
    more_s = time_s(worst) - time_s(best)
    return volume_at_limit([(best, worst)], more_s) if more_s > 0 else None


def _hardest(cell: CellSummary) -> Bound | None:
    return max(cell.bounds, key=lambda one: sum(one.by_run_s), default=None)


def _share(cell: CellSummary) -> float:
    """The share of the runs' time that the requests of the most limited volume take at its limit."""
    hardest, spent_s = _hardest(cell), sum(sum(one.by_run_s) for one in cell.spent)
    return sum(hardest.by_run_s) / spent_s if hardest is not None and spent_s else 0.0


def _waiting(cell: CellSummary) -> float:
    """The fraction of their time in which connections waited for something other than a CPU. Only the time until each
    connection finished counts."""
    busy = [one for one in cell.spent if one.part != "idle"]
    waits = [one for one in busy if one.part in ("resource", "wait") and one.category != "cpu-queue"]
    busy_s, waited_s = (sum(sum(one.by_run_s) for one in of) for of in (busy, waits))
    return waited_s / busy_s if busy_s else 0.0


def _least_s(cell: CellSummary) -> tuple[float, ...]:
    """The least time of each run that its volumes' limits allow. It is scaled to the mean time (of a run or of a
    transaction) by which the cell is compared."""
    runs = len(cell.spent[0].by_run_s) if cell.spent else 1
    if not cell.bounds or cell.elapsed_s is None:
        return (0.0,) * runs
    spent_s = sum(sum(one.by_run_s) for one in cell.spent) / runs
    scale = time_s(cell) / spent_s if spent_s else 1.0
    return tuple(scale * max(of_run) for of_run in zip(*(one.by_run_s for one in cell.bounds), strict=True))
