"""Odd runs whose cause lies outside their layout, and shows in their own record: the machine's, not the layout's. Pure.

An odd run without such a cause may be what its layout does now and then, so it counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Literal

from storagelab.model.limits import SLICE_S
from storagelab.model.measurement import AWAKE, CLOCK, Measurement, held_back

MachineCause = Literal["clock", "asleep", "others", "quota"]
SHARE_MOST = 0.10
"""Of the CPU time of the machine, or of the run, that a run may lose before that explains an odd time."""
TIMES_USUAL = 2.0
"""What a cell's other runs lose as well explains no odd run among them."""


def others_share(run: Measurement) -> float | None:
    """The share of the machine's CPU time that others or the hypervisor took; None where that is not known.

    A load average would not do: it can't separate others from the server under test. The share is of the time in the
    same counters, because they are read over a little more than the run.
    """
    spent = run.counters.get("cpu", {})
    all_s = sum(spent.get(name, 0.0) for name in ("busy_s", "idle_s", "iowait_s", "steal_s"))
    return (spent["others_s"] + spent.get("steal_s", 0.0)) / all_s if "others_s" in spent and all_s > 0 else None


def held_share(run: Measurement) -> float | None:
    """The share of the run in which a CPU quota held back the server or its load; None where that is not known."""
    shares = [share for _, share in held_back(run.counters.get("cpu", {}), run.elapsed_s).values()]
    return max(shares, default=0.0) if "cpu" in run.counters else None


def cause_of(odd: Measurement, beside: Sequence[Measurement], ratio: float) -> MachineCause | None:
    """Why a run took `ratio` times as long as expected, if its record shows that; `beside` = its cell's other runs."""
    failed = {check.name for check in odd.unverified if check.ok is False}
    if CLOCK in failed:
        return "clock"
    if AWAKE in failed:
        return "asleep"
    shares: Mapping[MachineCause, Callable[[Measurement], float | None]] = {"others": others_share, "quota": held_share}
    for cause, share_of in shares.items():
        usual = [share for run in beside if (share := share_of(run)) is not None]
        limit = max(SHARE_MOST, TIMES_USUAL * statistics.median(usual)) if usual else SHARE_MOST
        if ratio > 1 and (share_of(odd) or 0.0) > limit:
            return cause
    return None


# --- runs that are short against the slices of time in which the kernel admits the requests of a throttled group ------

SHARE_LEAST = 0.02


def short_cells(runs: Mapping[str, Iterable[Measurement]]) -> dict[str, float]:
    """The median time of each cell of throttled runs of which a slice is more than 2 %."""
    times_s = {cell_id: [one.elapsed_s for one in of_cell if _is_throttled(one)] for cell_id, of_cell in runs.items()}
    middle_s = {cell_id: median(of_cell) for cell_id, of_cell in times_s.items() if of_cell}
    return {cell_id: one_s for cell_id, one_s in middle_s.items() if 0 < one_s * SHARE_LEAST < SLICE_S}


def slice_share(runs: Mapping[str, Iterable[Measurement]]) -> float:
    """By how much the time of such a run may be off, whichever run it is; 0 if there is none."""
    shortest_s = min(short_cells(runs).values(), default=None)
    return 0.0 if shortest_s is None else min(1.0, SLICE_S / shortest_s)


def _is_throttled(measurement: Measurement) -> bool:
    volumes = measurement.environment.get("volumes")
    facts = volumes.values() if isinstance(volumes, Mapping) else ()
    return any(
        isinstance(one, Mapping) and isinstance(one.get("throttle"), Mapping) and one["throttle"] for one in facts
    )
