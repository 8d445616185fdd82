"""Parts of a sampler for any engine: a pace that limits the cost of samples, a series with a point each second, a few
samples of waiting sessions, and how often each wait was found.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from storagelab.machine.processes import GONE, RUNNABLE, stat_fields
from storagelab.model.measurement import WATCHED, Check, ObserverCost, TimeSeries
from storagelab.model.waits import EventTicks
from storagelab.watching.wait_events import Event

LONGEST_BLIND_S = 0.5
LARGEST_BLIND_SHARE = 0.005
"""A run counts as sampled if the share of its time without samples is smaller than this, and also the share in which it
stood still.
"""
LATE_S = 1.0
"""A run is observed every 0.2 s. If an observation is late by more than this, the reason can't be only that the machine
is busy.
"""
LOOKS_PER_CHECK = 5
CHECK_INTERVAL_S = 0.2
"""The cost is checked again after this many samples and this much time. So few samples are taken before an excessive
cost is noticed.
"""
BLIND_AFTER_S = 0.25
"""If a sample is late by more than this, the reason can't be only that the machine is busy: something stood still."""
SERIES_HZ = 1.0
SERIES_TOLERANCE_S = 0.01
ENOUGH_LOOKS = 3
"""If this many samples find no session that works, this is not chance."""
SHORTEST_INTERVAL_S = 0.2
"""If the last interval of the series is shorter than this, it would show noise. So it is merged with the interval
before it.
"""


class Standstill:
    """The time, in seconds, for which a run stood still: observations were late, or a signal had stopped a process.
    `processes` returns the processes of the load and of its server at each observation.
    """

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self._processes, self._looked_s = processes, time.monotonic()
        self.seconds = 0.0

    def look(self) -> None:
        passed_s = time.monotonic() - self._looked_s
        self._looked_s += passed_s
        states = (stat_fields(Path(f"/proc/{one}"))[:1] for one in self._processes())
        if passed_s > LATE_S or any(state in (["T"], ["t"]) for state in states):
            self.seconds += passed_s


def check_watching(
    error: str, observer: ObserverCost | None, elapsed_s: float, passes: int | None = None, stood_s: float = 0.0
) -> list[Check]:
    """Returns a check that fails if the run stood still, or if only a part of the run was sampled. In the second case,
    the waits don't cover the whole run. Returns [] if the run was sampled.

    `error` is the reason if sampling stopped early, else "". `passes` is the number of samples that found a session of
    the load, if waits are sampled. `observer` is None without a sampler. `stood_s` is the time that `Standstill`
    measured.
    """
    got, blind_s = error, min(elapsed_s, max(stood_s, observer.blind_s if observer else 0.0))
    if not got and passes == 0 and observer and observer.ticks >= ENOUGH_LOOKS and elapsed_s >= LONGEST_BLIND_S:
        got = f"no session of the load in {observer.ticks} samples: the sessions to sample had already ended"
    if not got and blind_s > max(LONGEST_BLIND_S, LARGEST_BLIND_SHARE * elapsed_s):
        got = (
            f"nothing for {blind_s:.1f} s of {elapsed_s:.1f} s, in which the load, its server or storagelab stood "
            "still (stopped, suspended, or without a CPU)"
        )
    read_from = "the sampler" if observer else "the states of processes"
    return [Check(name=WATCHED, asked="the whole run", got=got, ok=False, read_from=read_from)] if got else []


class Pace:
    """Decides when the next sample is taken, and measures the cost of samples.

    With `at_random`, each sample is at a random moment of its interval, so that samples can't coincide with the
    kernel's clock tick. If samples cost more than `budget`, they become rarer. `budget` is a share of one core. When
    samples cost less again, their rate returns to `hz`. With `in_turns`, no samples are taken in every period without
    sampling (see `is_watched`). At the end of such a period, only counters are read.
    """

    resting = False
    """Whether the next event is not a sample, but the end of a period without sampling."""

    def __init__(self, hz: float, budget: float, *, at_random: bool, in_turns: bool = False) -> None:
        self._shortest_s = self._interval_s = 1 / hz
        self._budget, self._at_random, self._in_turns = budget, at_random, in_turns
        self._random = random.Random(0)
        self._session_cpu_s: Callable[[], float | None] = lambda: None
        self._sampler_start_s = 0.0
        self._session_start_s: float | None = None
        self._checked = (0.0, 0.0)
        self._looks_checked = 0
        self._slot_s = self._due_s = self._looked_s = 0.0
        self._ticks = self._late = 0
        self._began_s = 0.0
        self._blind: list[tuple[float, float]] = []
        """The blind intervals: start and end of each, in seconds since the beginning."""
        self.rests: list[tuple[float, float]] = []
        """The periods without sampling: start and end of each, by the monotonic clock."""
        self._spent: tuple[float, float | None] = (0.0, None)

    def begin(self, session_cpu_s: Callable[[], float | None]) -> None:
        self._session_cpu_s = session_cpu_s
        self._sampler_start_s = time.thread_time()
        self._session_start_s = session_cpu_s()
        now_s = self._began_s = time.monotonic()
        self._checked = (now_s, 0.0)
        self._slot_s = now_s - self._interval_s
        self._looked_s = now_s
        self._schedule(now_s)

    def delay_s(self) -> float:
        return max(0.0, self._due_s - time.monotonic())

    def ticked(self) -> None:
        """Counts the sample that was just taken, and plans the next one. A sample counts as late if it ended more than
        one interval after it was due.
        """
        now_s = time.monotonic()
        if self.resting:
            self._rest_until(self._due_s)
            self._notice_gap(now_s)
            self._slot_s = now_s - self._interval_s
            self._schedule(now_s)
            return
        self._ticks += 1
        self._late += now_s > self._due_s + self._interval_s
        self._notice_gap(now_s)
        self._looked_s = now_s
        checked_s, spent_s = self._checked
        if now_s - checked_s >= CHECK_INTERVAL_S and self._ticks >= self._looks_checked + LOOKS_PER_CHECK:
            total_s = self._spend()
            share = (total_s - spent_s) / (now_s - checked_s)
            self._interval_s = max(self._shortest_s, self._interval_s * share / self._budget)
            self._checked, self._looks_checked = (now_s, total_s), self._ticks
        self._schedule(now_s)

    def _schedule(self, now_s: float) -> None:
        self._slot_s += self._interval_s
        if self._slot_s < now_s - self._interval_s:  # samples that were missed are not made up for
            self._slot_s = now_s
        self._due_s = self._slot_s + (self._random.random() * self._interval_s if self._at_random else 0.0)
        due_s = self._due_s - self._began_s
        self.resting = self._in_turns and not is_watched(due_s)
        if self.resting:
            # No sample now: the next event is the end of the current period.
            self._due_s = self._began_s + ((math.floor(due_s / STRETCH_S) + 1) * STRETCH_S)

    def _rest_until(self, ends_s: float) -> None:
        begins_s = max(self._looked_s, self._due_s - STRETCH_S)
        if begins_s < ends_s:
            self.rests.append((begins_s, ends_s))
            checked_s, spent_s = self._checked
            # Without this, rests would allow more expensive samples.
            self._checked = (checked_s + ends_s - begins_s, spent_s)

    def saw_stopped(self) -> None:
        """Notes that this sample found a working session that a signal had stopped. Then the time since the last sample
        counts as not sampled.
        """
        self._saw_nothing(self._looked_s, time.monotonic())

    def halt(self) -> None:
        """Ends sampling. If a sample is long overdue, it counts as missed."""
        now_s = time.monotonic()
        if self.resting:
            self._rest_until(min(now_s, self._due_s))
        self._notice_gap(now_s)

    def _notice_gap(self, now_s: float) -> None:
        if now_s - self._due_s > BLIND_AFTER_S:
            self._saw_nothing(self._due_s, now_s)

    def _saw_nothing(self, since_s: float, now_s: float) -> None:
        """Adds a blind interval. It does not overlap the previous one, so that no time counts twice: a sample may be
        late, and also find a stopped session.
        """
        since_s, to_s = since_s - self._began_s, now_s - self._began_s
        if self._blind:
            since_s = max(since_s, self._blind[-1][1])
        if since_s < to_s:
            self._blind.append((since_s, to_s))

    def _spend(self) -> float:
        """The CPU time in seconds that the sampler's thread and its session have used so far. If the session's time
        can't be read, it is assumed to equal the thread's time.
        """
        sampler_s = time.thread_time() - self._sampler_start_s
        now_s = self._session_cpu_s()
        session_s = None if now_s is None or self._session_start_s is None else now_s - self._session_start_s
        self._spent = (sampler_s, session_s)
        return sampler_s + (sampler_s if session_s is None else session_s)

    def end(self) -> None:
        """Stores the final cost. Must be called in the sampler's thread, because a thread reads only its
        own CPU time.
        """
        self._spend()

    def blind_s(self, run_s: float) -> float:
        """How long there were no samples in the first `run_s` seconds. The last sample may be long after a
        run's end.
        """
        return sum(max(0.0, min(to_s, run_s) - since_s) for since_s, to_s in self._blind)

    def cost(self) -> ObserverCost:
        sampler_s, session_s = self._spent
        return ObserverCost(
            sampler_cpu_s=sampler_s, session_cpu_s=session_s, ticks=self._ticks, late_ticks=self._late,
            blind_s=self.blind_s(math.inf),
        )  # fmt: skip


T = TypeVar("T")


@dataclass
class Series:
    """Cumulative counters, which are read about once a second. The result has their rates between readings."""

    readings: list[tuple[float, dict[str, float]]] = field(default_factory=list)

    def due(self, at_s: float) -> bool:
        return not self.readings or at_s > self.readings[0][0] + len(self.readings) / SERIES_HZ - SERIES_TOLERANCE_S

    def add(self, at_s: float, counters: dict[str, float], *, last: bool) -> None:
        if last and len(self.readings) > 1 and at_s - self.readings[-1][0] < SHORTEST_INTERVAL_S:
            self.readings.pop()
        self.readings.append((at_s, counters))

    def frozen(self) -> TimeSeries:
        if len(self.readings) < 2:
            return TimeSeries()
        pairs = list(zip(self.readings, self.readings[1:], strict=False))
        return TimeSeries(
            at_s=tuple(at_s for at_s, _ in self.readings[1:]),
            columns={
                f"{name}_per_s": tuple(
                    (now[name] - then[name]) / (at_s - then_s)
                    if at_s > then_s and name in then and name in now
                    else None
                    for (then_s, then), (at_s, now) in pairs
                )
                for name in self.readings[0][1]
            },
        )


class Moments(Generic[T]):
    """Limits how many moments of a run are stored. If there are too many, every second moment is removed, and the
    interval between later moments is doubled.
    """

    def __init__(self, interval_s: float, limit: int) -> None:
        self.interval_s = interval_s
        self._limit = limit
        self.kept: list[tuple[T, ...]] = []
        self._due_s = 0.0

    def due(self, at_s: float) -> bool:
        return at_s >= self._due_s

    def add(self, at_s: float, tasks: tuple[T, ...]) -> None:
        self._due_s = at_s + self.interval_s
        self.kept.append(tasks)
        while len(self.kept) > 1 and sum(map(len, self.kept)) > self._limit:
            self.kept = self.kept[::2]
            self.interval_s *= 2
            self._due_s = at_s + self.interval_s

    @property
    def tasks(self) -> tuple[T, ...]:
        return tuple(task for moment in self.kept for task in moment)


_SEEN_AS = {GONE: "unknown", RUNNABLE: "runnable"}


class Tallies:
    """How often sessions were found in each wait, by the state that the kernel reported. `frozen` gives the result."""

    def __init__(self) -> None:
        self._of_type: dict[str, Counter[str]] = defaultdict(Counter)

    def count(self, wait_type: str, state: str, timeslices: int = 0) -> None:
        """Counts one session in one sample. `timeslices` is how often it got a CPU since the previous sample."""
        tally = self._of_type[wait_type]
        tally[_SEEN_AS.get(state, "blocked")] += 1
        tally["timeslices"] += timeslices

    def frozen(self, meaning_of: Callable[[str], Event]) -> tuple[EventTicks, ...]:
        return tuple(
            EventTicks(
                wait_type=wait_type, analogue=event.analogue, category=event.category, in_io=event.in_io,
                blocked=tally["blocked"], runnable=tally["runnable"], unknown=tally["unknown"],
                timeslices=tally["timeslices"],
            )
            for wait_type, tally in sorted(self._of_type.items()) for event in (meaning_of(wait_type),)
        )  # fmt: skip


# --- periods with and without sampling -------------------------------------------------------------------------------
#
# A run alternates between periods with and without sampling, so that the cost of sampling can be measured.
#
# Periods are short. Other disturbances of a machine last longer than a period, so they affect both kinds equally. With
# other programs on all CPUs, the ratio of the two kinds scattered by 4 % between runs of 16 s. With periods of a
# second, it scattered by 15 %. But periods are longer than most transactions, because a transaction that is in two
# periods belongs to neither kind. The order is that of Thue and Morse: with, without, without, with, without, with,
# with, without, and so on. So neither a trend nor a regular change of the load affects one kind more than the other.


STRETCH_S = 0.25
SHORTEST_S = 4.0
"""A shorter run would have too few periods, so it is sampled all the time."""


def is_watched(at_s: float) -> bool:
    """Whether samples are taken in the period of this moment, which is given in seconds since the beginning."""
    return max(0, math.floor(at_s / STRETCH_S)).bit_count() % 2 == 0
