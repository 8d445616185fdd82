"""Which of a generator's transactions count: those of a set time, a set number, or a time that the generator keeps
itself.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from storagelab.errors import RunFailed
from storagelab.loads.cycles import BAND, LOOK_S, Cycles, WarmUp, end_of_whole
from storagelab.loads.generator import Process
from storagelab.loads.transactions import Counted
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.measurement import SETTLED, Check
from storagelab.servers.interfaces import POLL_S
from storagelab.watching.pace import SHORTEST_S

# --- settling --------------------------------------------------------------------------------------------------------
#
# Decides whether a load's throughput has settled: it has no trend left that would change it during the part of a run
# that counts. Pure. Lines are fitted through the last seconds, over windows of several lengths: a short window sees
# that a steep climb is over; only a long one averages out noise. Throughput has settled if, in one window, the line is
# almost surely so flat that it would change by less than 2 % over the counted part. docs/records/monte-carlo.md has the
# reasons, and the results on simulated loads.


Numbers = NDArray[np.float64]

LEAST_S = 10
"""The shortest window, and so the shortest warm-up."""
_LONGER = 1.3
"""Each window is longer than the one before it by this factor."""
_CONFIDENCE = 0.9
_NOTHING = 1e-9
_MOST_AUTOCORRELATION = 0.95


class Trend(NamedTuple):
    """How much throughput would change over the counted part, as a share of its mean, and the half-width of its
    interval, from the window that bounds the change best.
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
    """The trend at the end of one or several series, whose last axis is throughput second by second; None if they
    are too short.
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
    """The least-squares line through one window. Neighbouring seconds are correlated, so the line is less certain
    than its residuals suggest: their autocorrelation widens its interval and reduces its degrees of freedom.
    """
    number = window.shape[-1]
    at = np.arange(number) - (number - 1) / 2
    mean = window.mean(-1)
    slope = window @ at / (at @ at)
    residuals = window - mean[..., None] - slope[..., None] * at
    squares = np.einsum("...i,...i", residuals, residuals) + np.finfo(float).tiny
    alike = np.einsum("...i,...i", residuals[..., 1:], residuals[..., :-1]) / squares
    alike += (2 + 3 * np.maximum(alike, 0)) / number  # residuals of a fitted line are less correlated than the errors
    alike = np.clip(alike, 0, _MOST_AUTOCORRELATION)
    wider = (1 + alike) / (1 - alike)
    freedom = np.maximum(number / wider - 2, 1)
    error = np.sqrt(squares / (number - 2) / (at @ at) * wider)
    share = counted_s / np.maximum(mean, _NOTHING)
    standstill = np.where(mean > _NOTHING, 0.0, np.inf)  # without any work, nothing has settled
    return Trend(slope * share, stdtrit(freedom, _CONFIDENCE) * error * share + standstill)


POLL_SESSIONS_S = 0.02
BEFORE_ITS_END_S = 0.2
"""How long before the end of a self-timed generator the sessions are last looked at."""


class Span(NamedTuple):
    """The transactions that count, and the time in which they do."""

    counted: Counted
    start_s: float
    end_s: float


class Counting(ABC):
    """Call in order: `prepare` before the program starts, `warm_up` once its sessions are connected, `begin` when
    the part that counts begins, `wait` for its end, `span`, and `close`.
    """

    warm_up_s: float | None = None
    """How long the warm-up took, if its end was to be found."""

    @property
    def in_turns(self) -> bool:
        """Whether the run is watched in turns: it is long enough, and the log tells each transaction's end and
        latency."""
        return False

    def __init__(self, load: GeneratedLoad, process: Process, cycles: Cycles) -> None:
        self.load, self.process, self.cycles = load, process, cycles
        self.start_s = self.end_s = 0.0

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Do what must be done before the program starts."""

    @abstractmethod
    def warm_up(self) -> None: ...

    def begin(self) -> None:
        self.start_s = self.process.now_s()

    def wait(self, on_poll: Callable[[], None]) -> None:
        self._wait(on_poll)
        self.end_s = self.process.now_s()

    @abstractmethod
    def _wait(self, on_poll: Callable[[], None]) -> None: ...

    def span(self) -> Span:
        """What counts. Raises RunFailed with the program's words."""
        counted = self._counted(self.process.result())
        return Span(counted, *(counted.span_s if counted.number else (self.start_s, self.end_s)))

    def _counted(self, logged: Counted) -> Counted:
        return logged

    def by_clock(self, start_s: float, end_s: float) -> tuple[float, float]:
        """A span as the process's clock shows it: sysbench tells times since its own beginning, which is 0."""
        return (start_s, end_s) if start_s else (self.start_s, self.start_s + end_s)

    def so_far(self) -> int:
        """Milliseconds so far of a set time."""
        if not self.start_s:
            return 0
        return min(self.load.work.amount, round((self.process.now_s() - self.start_s) * 1000))

    def checks(self) -> Iterator[Check]:
        yield from ()

    def close(self) -> None:  # noqa: B027 - as above
        """Never raises."""

    def _until(self, ends_s: float, on_poll: Callable[[], None]) -> None:
        while (left_s := ends_s - self.process.now_s()) > 0 and not self._may_end():
            self.process.refuse_if_ended()
            on_poll()
            self.cycles.look()
            time.sleep(min(POLL_S, left_s))

    def _may_end(self) -> bool:
        return False

    def _await(self, words: bytes) -> None:
        while words not in self.process.output_bytes():
            self.process.refuse_if_ended()
            self.cycles.look()
            time.sleep(POLL_SESSIONS_S)


class SetTime(Counting):
    """A time that storagelab keeps: the program works on after it, and is then told to stop."""

    _trend: Trend | None = None
    _seconds = 0
    _end: WarmUp
    _ends_s: float
    """When a run ends at the latest whose warm-up is to be found."""

    @property
    def in_turns(self) -> bool:
        return self.load.duration_s >= SHORTEST_S

    def warm_up(self) -> None:
        """Wait for a set time, or until throughput has settled and, if the server makes checkpoints meanwhile, the next
        one begins.
        """
        began_s, to_find = self.process.now_s(), self.load.warm_up_s == "auto"
        self._ends_s = began_s + self.load.longest_warm_up_s + self.load.duration_s
        self._end = WarmUp(self.load.duration_s, began_s, self._ends_s)
        while (left_s := began_s + self.load.longest_warm_up_s - self.process.now_s()) > 0:
            self.process.refuse_if_ended()
            self.cycles.look()
            if to_find and self._is_over():
                break
            time.sleep(min(POLL_S, left_s))
        self.warm_up_s = self.process.now_s() - began_s if to_find else None

    def _is_over(self) -> bool:
        rates = self.process.program.per_second(self.process.output())
        if len(rates) > self._seconds:
            self._seconds = len(rates)
            self._trend = trend(np.asarray(rates), self.load.duration_s)
        settled = self._trend is not None and bool(self._trend.settled)
        return self._end.is_over(self.cycles.starts_s, rates, settled=settled)

    def _wait(self, on_poll: Callable[[], None]) -> None:
        if self.load.warm_up_s != "auto":
            self._until(self.start_s + self.load.duration_s, on_poll)
            return
        while True:
            found_s = end_of_whole(self.cycles.starts_s, self.start_s, self.load.duration_s)
            now_s, ends_s = self.process.now_s(), self._ends_s if found_s is None else min(found_s, self._ends_s)
            if now_s >= ends_s:
                return
            self._until(min(ends_s, now_s + LOOK_S), on_poll)

    def span(self) -> Span:
        ended_early = self.process.exit_code is not None
        self.process.stop()
        logged = self.process.result()
        if ended_early:
            raise RunFailed(f"{self.process.program.title} failed: {self.process.words()}")
        return Span(logged.within(self.start_s, self.end_s), self.start_s, self.end_s)

    def checks(self) -> Iterator[Check]:
        """A check that fails if the end of the warm-up was to be found, and throughput did not settle in time."""
        if self.warm_up_s is None or self._end.settled:
            return
        got = "too short to tell"
        if self._end.changed is not None:
            got = f"changed by {100 * self._end.changed:+.2g} % from one checkpoint cycle to the next"
        elif self._trend is not None:
            change, half = 100 * float(self._trend.change), 100 * float(self._trend.half)
            got = f"bound to move by {change:+.2g} ± {half:.2g} % over {self.load.duration_s:g} s"
        yield Check(
            name=SETTLED, asked=f"settled within {100 * BAND:g} %",
            got=f"{got} after {self.warm_up_s:.0f} s of warm-up", ok=False, read_from=self.process.program.title,
        )  # fmt: skip


class OwnTime(Counting):
    """A time that the program keeps itself; it says when the part that counts begins."""

    @property
    def in_turns(self) -> bool:
        """With a rate, transactions wait in the program until one of its sessions is free, which its log doesn't
        tell."""
        return self.load.duration_s >= SHORTEST_S and self.load.rate is None

    def warm_up(self) -> None:
        self._await(self.process.program.says_it_counts)
        self._counts_since_s = self.process.now_s()

    def _wait(self, on_poll: Callable[[], None]) -> None:
        self._until(self._counts_since_s + self.load.duration_s - BEFORE_ITS_END_S, on_poll)

    def _may_end(self) -> bool:
        return self.process.exit_code == 0


class SetNumber(Counting):
    """A set number of transactions, all of which count. `hold` locks the tables and returns a function that unlocks
    them, so that the first transaction waits until the run is watched.
    """

    def __init__(
        self,
        load: GeneratedLoad,
        process: Process,
        cycles: Cycles,
        hold: Callable[[], Callable[[], None]] | None = None,
    ) -> None:
        super().__init__(load, process, cycles)
        self._hold = hold
        self._let_go: Callable[[], None] = lambda: None

    def prepare(self) -> None:
        if self._hold is not None:
            self._let_go = self._hold()

    def warm_up(self) -> None:
        self._await(self.process.program.says_it_counts)

    def begin(self) -> None:
        super().begin()
        self._let_go()

    def _wait(self, on_poll: Callable[[], None]) -> None:
        while self.process.exit_code is None:
            self.process.wait_for(POLL_S)
            on_poll()
            self.cycles.look()

    def _counted(self, logged: Counted) -> Counted:
        return logged if self._hold is None else logged.begun_at_earliest(self.start_s)

    def so_far(self) -> int:
        """Unknown until all are done."""
        return 0

    def close(self) -> None:
        self._let_go()


def counting_of(
    load: GeneratedLoad, process: Process, cycles: Cycles, hold: Callable[[], Callable[[], None]] | None
) -> Counting:
    """How the transactions of this load count."""
    if load.transactions_per_connection is not None:
        return SetNumber(load, process, cycles, hold)
    return OwnTime(load, process, cycles) if process.program.says_it_counts else SetTime(load, process, cycles)
