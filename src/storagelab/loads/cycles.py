"""The checkpoints of a measured server: when they began, and until when a run has to count to hold whole cycles.

Throughput falls when a checkpoint begins and recovers until the next one. A part of a cycle that counts alone tells as
much about its place in the cycle as about the layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from storagelab.model.loads.base import Load
from storagelab.model.measurement import CYCLES, LOG_ROOM

LOOK_S = 0.25
"""The time between two looks at the server's count of checkpoints."""
BAND = 0.02
"""How much throughput may still change over the counted part, as a share of it, or from one cycle to the next."""
_ALIGNED_S = 4 * LOOK_S
"""A counted part begins with a checkpoint if it begins within this time of it."""
SHORTER = 0.1
"""A counted part of whole cycles may be shorter than asked by this share: else two cycles of 59 s would count for 60
s."""


def concerns(load: Load) -> bool:
    """Whether it matters to a load when its server writes pages: it runs for a set time, and writes."""
    return load.generated and load.longest_s is not None and not load.reads_only


class WarmUp:
    """Decides when a warm-up is over whose end is to be found: when throughput has settled or, if checkpoints come
    meanwhile, as one begins. It began at `began_s`, and what counts is to end before `ends_s`.
    """

    def __init__(self, counted_s: float, began_s: float, ends_s: float) -> None:
        self._counted_s, self._began_s, self._ends_s = counted_s, began_s, ends_s
        self._second_of: list[int] = []
        self.settled = False
        self.changed: float | None = None
        """By how much the mean throughput of the last whole cycle differed from that of the one before it, as a
        share."""

    def is_over(self, starts_s: Sequence[float], rates: Sequence[float], *, settled: bool) -> bool:
        """`starts_s` = when checkpoints began, the last just now if it is new; `rates` = throughput second by second so
        far; `settled`: whether it has no trend any more.
        """
        self.settled |= settled
        if len(starts_s) == len(self._second_of):
            return self.settled and not starts_s
        self._second_of.append(len(rates))
        self.changed = self._change(rates)
        self.settled |= self.changed is not None and abs(self.changed) < BAND
        return self.settled or self._is_last_chance(starts_s)

    def _change(self, rates: Sequence[float]) -> float | None:
        if len(self._second_of) < 3:
            return None
        first, second, third = self._second_of[-3:]
        if first == second or second == third or not sum(rates[first:second]):
            return None
        return fmean(rates[second:third]) / fmean(rates[first:second]) - 1

    def _is_last_chance(self, starts_s: Sequence[float]) -> bool:
        """Whether no whole cycle would be left to be counted if the warm-up lasted until the next checkpoint."""
        # The first cycle may have begun before the warm-up.
        before_s = starts_s[-2] if len(starts_s) > 1 else self._began_s
        cycle_s = (1 + SHORTER) * (starts_s[-1] - before_s)
        needed_s = cycle_s * math.ceil(self._counted_s * (1 - SHORTER) / cycle_s)
        return starts_s[-1] + cycle_s + needed_s > self._ends_s


def end_of_whole(starts_s: Sequence[float], began_s: float, counted_s: float) -> float | None:
    """When a counted part that began at `began_s` ends, so that it holds whole cycles and lasts about `counted_s` or
    longer; None while that is not known. `starts_s` = when checkpoints began so far, before and after `began_s`.

    A part that begins with a checkpoint ends with one, however long each cycle is. Any other part ends after a multiple
    of the cycle's length.
    """
    inside = [at_s for at_s in starts_s if at_s >= began_s - _ALIGNED_S]
    if not starts_s:
        return began_s + counted_s
    if len(inside) < 2:
        return None
    least_s = counted_s * (1 - SHORTER)
    if inside[0] <= began_s + _ALIGNED_S:
        return next((at_s for at_s in inside[1:] if at_s - began_s >= least_s), None)
    length_s = (inside[-1] - inside[0]) / (len(inside) - 1)
    return began_s + length_s * math.ceil(max(least_s, inside[-1] - began_s) / length_s)


def whole_between(starts_s: Sequence[float], began_s: float, end_s: float) -> int:
    """How many whole cycles a counted part holds if it was to hold whole ones; 0 if it does not."""
    inside = [at_s for at_s in starts_s if began_s - _ALIGNED_S <= at_s <= end_s + _ALIGNED_S]
    if len(inside) < 2:
        return 0
    length_s = (inside[-1] - inside[0]) / (len(inside) - 1)
    off_s = abs((end_s - began_s + length_s / 2) % length_s - length_s / 2)
    return round((end_s - began_s) / length_s) if off_s <= min(2 * _ALIGNED_S, length_s * SHORTER) else 0


def told(starts_s: Sequence[float], began_s: float, end_s: float) -> dict[str, float]:
    """What a run stores: how many checkpoints began in its warm-up and while it counted, how many whole cycles it
    holds, and when each began, in seconds since the run counts.
    """
    counted = [at_s for at_s in starts_s if began_s - _ALIGNED_S <= at_s < end_s - _ALIGNED_S]
    return {
        "in_warm_up": float(sum(at_s < began_s - _ALIGNED_S for at_s in starts_s)),
        "while_counted": float(len(counted)),
        "whole": float(whole_between(starts_s, began_s, end_s)),
        **{f"begun.{number}_s": at_s - began_s for number, at_s in enumerate(starts_s, 1)},
    }


class Cycles:
    """Watches a server's checkpoints. `begun` counts those that have begun; None if the server has none, or doesn't
    tell. Times are those of `now_s`; `beside` is called with each look.
    """

    def __init__(
        self, begun: Callable[[], int] | None, now_s: Callable[[], float], beside: Callable[[], None] = lambda: None
    ) -> None:
        self._begun, self._now_s, self._beside = begun, now_s, beside
        self._count: int | None = None
        self._due_s = -math.inf
        self.starts_s: list[float] = []

    def look(self) -> None:
        """To be called often; asks the server now and then."""
        self._beside()
        now_s = self._now_s()
        if self._begun is None or now_s < self._due_s:
            return
        self._due_s = now_s + LOOK_S
        before, self._count = self._count, self._begun()
        if before is not None and self._count > before:
            self.starts_s.append(now_s)

    def counters(self, began_s: float, end_s: float) -> dict[str, dict[str, float]]:
        return {} if self._count is None else {CYCLES: told(self.starts_s, began_s, end_s)}


# --- the room in the redo log ----------------------------------------------------------------------------------------
#
# How much of its redo log's room a server has used, where pages must be written once it is full: when that began.
#
# Until the log is full the server need not write changed pages, so the first part of a load costs less than all that
# follows.


FULL = 7 / 8
"""InnoDB hurries to write pages from this share on (`max_modified_age_async`), and then stays between it and all."""


class LogRoom:
    """Watches the room. `ask` returns the used bytes and all bytes, None if the server doesn't tell; times are those of
    `now_s`."""

    def __init__(self, ask: Callable[[], tuple[int, int] | None] | None, now_s: Callable[[], float]) -> None:
        self._ask, self._now_s = ask, now_s
        self._due_s = -math.inf
        self._seen: list[tuple[float, float]] = []
        self._all = 0

    def look(self) -> None:
        """To be called often; asks the server now and then."""
        now_s = self._now_s()
        if self._ask is None or now_s < self._due_s:
            return
        self._due_s = now_s + LOOK_S
        found = self._ask()
        if found is None or found[1] <= 0:
            self._ask = None
            return
        self._seen.append((now_s, found[0] / found[1]))
        self._all = found[1]

    def counters(self, began_s: float, end_s: float) -> dict[str, dict[str, float]]:
        """What a run stores, of a part that counted from `began_s` to `end_s`."""
        counted = [share for at_s, share in self._seen if began_s <= at_s <= end_s]
        if not counted:
            return {}
        full_s = next((at_s - began_s for at_s, share in self._seen if share >= FULL and at_s <= end_s), None)
        found = {"all_bytes": float(self._all), "begin_share": counted[0], "end_share": counted[-1]}
        return {LOG_ROOM: found if full_s is None else {**found, "full_after_s": full_s}}
