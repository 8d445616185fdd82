"""Decides when a warm-up is over and when a measurement ends. Three facts decide this: the checkpoints of the server,
the space in its redo log, and the trend of throughput.

Throughput falls when a checkpoint begins, and recovers until the next one. So the throughput of a part of a cycle
depends as much on the part's place in the cycle as on the layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from storagelab.model.loads.base import Load
from storagelab.model.measurement import CYCLES, LOG_ROOM

LOOK_S = 0.25
"""The time, in seconds, between two readings of the server's count of checkpoints."""
BAND = 0.02
"""The largest share by which stable throughput may still change over the measured part, or from one cycle to
the next."""
_ALIGNED_S = 4 * LOOK_S
"""If a measured part begins within this time (in seconds) of a checkpoint, it counts as beginning with the
checkpoint."""
SHORTER = 0.1
"""A measured part of whole cycles may be shorter than `duration` by this share. Without this tolerance, a `duration` of
60 s with cycles of 59 s would need two cycles."""


def concerns(load: Load) -> bool:
    """Whether a load is affected by the moments at which the server writes pages. It is if it writes and runs for a set
    time.
    """
    return load.generated and load.longest_s is not None and not load.reads_only


class WarmUp:
    """Decides when an automatic warm-up is over. It is over when throughput is stable. If there are checkpoints, it
    also lasts until a checkpoint begins. The warm-up began at `began_s`, and the measurement must end before `ends_s`.
    """

    def __init__(self, counted_s: float, began_s: float, ends_s: float) -> None:
        self._counted_s, self._began_s, self._ends_s = counted_s, began_s, ends_s
        self._second_of: list[int] = []
        self.settled = False
        self.changed: float | None = None
        """The relative difference between the mean throughput of the last whole cycle and the mean throughput of the
        previous cycle.
        """

    def is_over(self, starts_s: Sequence[float], rates: Sequence[float], *, settled: bool) -> bool:
        """Whether the warm-up is over. `starts_s` has the starts of checkpoints. If it has a new one, this checkpoint
        began just now. `rates` has the throughput of each second so far. `settled` says whether throughput has no
        trend.
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
        """Whether this checkpoint is the last possible end of the warm-up: if the warm-up lasted until the next
        checkpoint, no whole cycle would remain for the measurement.
        """
        # The first cycle may have begun before the warm-up.
        before_s = starts_s[-2] if len(starts_s) > 1 else self._began_s
        cycle_s = (1 + SHORTER) * (starts_s[-1] - before_s)
        needed_s = cycle_s * math.ceil(self._counted_s * (1 - SHORTER) / cycle_s)
        return starts_s[-1] + cycle_s + needed_s > self._ends_s


def end_of_whole(starts_s: Sequence[float], began_s: float, counted_s: float) -> float | None:
    """Returns the end of a measured part that began at `began_s`, so that it contains whole cycles and lasts about
    `counted_s` or longer. Returns None as long as the end is unknown. `starts_s` has the starts of all checkpoints so
    far. They may be before or after `began_s`.

    If a part begins with a checkpoint, it also ends with a checkpoint. Any other part ends after a multiple of the
    cycle's length.
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
    """Returns the number of whole cycles in a measured part, or 0 if the part does not consist of whole cycles."""
    inside = [at_s for at_s in starts_s if began_s - _ALIGNED_S <= at_s <= end_s + _ALIGNED_S]
    if len(inside) < 2:
        return 0
    length_s = (inside[-1] - inside[0]) / (len(inside) - 1)
    off_s = abs((end_s - began_s + length_s / 2) % length_s - length_s / 2)
    return round((end_s - began_s) / length_s) if off_s <= min(2 * _ALIGNED_S, length_s * SHORTER) else 0


def told(starts_s: Sequence[float], began_s: float, end_s: float) -> dict[str, float]:
    """Returns the figures that a run stores: the number of checkpoints in its warm-up and in the measurement, the
    number of whole cycles, and the start of each checkpoint in seconds since the start of the measurement.
    """
    return {
        "in_warm_up": float(sum(at_s < began_s - _ALIGNED_S for at_s in starts_s)),
        "while_counted": float(sum(began_s - _ALIGNED_S <= at_s < end_s - _ALIGNED_S for at_s in starts_s)),
        "whole": float(whole_between(starts_s, began_s, end_s)),
        **{f"begun.{number}_s": at_s - began_s for number, at_s in enumerate(starts_s, 1)},
    }


class Cycles:
    """Observes a server's checkpoints. `begun` returns the number of checkpoints that have begun. It is None if the
    server makes no checkpoints or doesn't report their number. `now_s` is the clock of all times. `beside` is called
    whenever `look` is called.
    """

    def __init__(
        self, begun: Callable[[], int] | None, now_s: Callable[[], float], beside: Callable[[], None] = lambda: None
    ) -> None:
        self._begun, self._now_s, self._beside = begun, now_s, beside
        self._count: int | None = None
        self._due_s = -math.inf
        self.starts_s: list[float] = []

    def look(self) -> None:
        """Reads the server's count, if enough time has passed since the last reading. Must be called often."""
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
# Observes how much of a server's redo log is used, and when the log became full.
#
# Until the log is full, the server need not write changed pages. So the first part of a load costs less than the rest.


FULL = 7 / 8
"""From this share on, InnoDB writes changed pages faster (`max_modified_age_async`). The used share then stays between
this value and the limit."""


class LogRoom:
    """Observes how much of the redo log is used. `ask` returns the used bytes and the capacity, or None if the server
    doesn't report them. `now_s` is the clock of all times."""

    def __init__(self, ask: Callable[[], tuple[int, int] | None] | None, now_s: Callable[[], float]) -> None:
        self._ask, self._now_s = ask, now_s
        self._due_s = -math.inf
        self._seen: list[tuple[float, float]] = []
        self._all = 0

    def look(self) -> None:
        """Reads the server's figures, if enough time has passed since the last reading. Must be called often."""
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
        """Returns the counters that a run stores about its measured part, which lasted from `began_s` to `end_s`."""
        counted = [share for at_s, share in self._seen if began_s <= at_s <= end_s]
        if not counted:
            return {}
        full_s = next((at_s - began_s for at_s, share in self._seen if share >= FULL and at_s <= end_s), None)
        found = {"all_bytes": float(self._all), "begin_share": counted[0], "end_share": counted[-1]}
        return {LOG_ROOM: found if full_s is None else {**found, "full_after_s": full_s}}


# --- settling --------------------------------------------------------------------------------------------------------
#
# Decides whether a load's throughput is stable: it has no trend that would change it during the measured part. Pure.
# Lines are fitted through the last seconds, over windows of several lengths. A short window shows that a steep climb is
# over. Only a long window averages out noise. Throughput is stable if, in one window, the line would almost surely
# change by less than 2 % over the measured part. docs/records/monte-carlo.md has the reasons, and the results on
# simulated loads.


Numbers = NDArray[np.float64]

LEAST_S = 10
"""The shortest window in seconds. So it is also the shortest warm-up."""
_LONGER = 1.3
"""Each window is longer than the previous one by this factor."""
_CONFIDENCE = 0.9
_NOTHING = 1e-9
_MOST_AUTOCORRELATION = 0.95


class Trend(NamedTuple):
    """The expected change of throughput over the measured part (as a share of the mean throughput), and the half-width
    of its interval. Both come from the window with the smallest bound.
    """

    change: Numbers
    half: Numbers

    @property
    def bound(self) -> Numbers:
        return np.abs(self.change) + self.half

    @property
    def settled(self) -> NDArray[np.bool_]:
        return self.bound < BAND


def trend(rates: Numbers, counted_s: float) -> Trend | None:
    """Returns the trend at the end of one or several series, or None if they are too short. The last axis of `rates`
    has the throughput of each second.
    """
    best: Trend | None = None
    for length in _lengths(rates.shape[-1]):
        here = _line(rates[..., -length:], counted_s)
        if best is None:
            best = here
        else:
            nearer = here.bound < best.bound
            best = Trend(*(np.where(nearer, new, old) for new, old in zip(here, best, strict=True)))
    return best


def _lengths(seconds: int) -> Iterator[int]:
    length = float(LEAST_S)
    while round(length) <= seconds:
        yield round(length)
        length *= _LONGER


def _line(window: Numbers, counted_s: float) -> Trend:
    """Returns the trend of the least-squares line through one window. Neighbouring seconds are correlated, so the line
    is less certain than its residuals suggest. So the autocorrelation of the residuals widens the interval and reduces
    the degrees of freedom.
    """
    number = window.shape[-1]
    at = np.arange(number) - (number - 1) / 2
    mean = window.mean(-1)
    slope = window @ at / (at @ at)
    residuals = window - mean[..., None] - slope[..., None] * at
    squares = np.einsum("...i,...i", residuals, residuals) + np.finfo(float).tiny
    alike = np.einsum("...i,...i", residuals[..., 1:], residuals[..., :-1]) / squares
    alike += (2 + 3 * np.maximum(alike, 0)) / number  # a fitted line's residuals correlate less than the errors do
    alike = np.clip(alike, 0, _MOST_AUTOCORRELATION)
    wider = (1 + alike) / (1 - alike)
    freedom = np.maximum(number / wider - 2, 1)
    error = np.sqrt(squares / (number - 2) / (at @ at) * wider)
    share = counted_s / np.maximum(mean, _NOTHING)
    standstill = np.where(mean > _NOTHING, 0.0, np.inf)  # without any work, throughput is not stable
    return Trend(slope * share, stdtrit(freedom, _CONFIDENCE) * error * share + standstill)
