"""What a watcher of a run needs on any engine: a pace that limits its own cost, a series once a second,
a few moments of what was waited for, and how often each wait was seen."""

from __future__ import annotations

import contextlib
import math
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Generic, NamedTuple, TypeVar

from storagelab.machine.host import usable_cpus
from storagelab.machine.procfs import GONE, RUNNABLE, SchedStat, Switches, TaskView
from storagelab.model.config import MeasureConfig
from storagelab.model.measurement import ObserverCost, TimeSeries, WaitingTask
from storagelab.model.waits import NS, CountedWaits, EventTicks, SampledWaits
from storagelab.targets.wait_events import Event

LOOKS_PER_CHECK = 5
CHECK_INTERVAL_S = 0.2
"""The cost is checked after this many looks and this much time: soon enough to prevent many expensive looks."""
BLIND_AFTER_S = 0.25
"""A look that is later than this did not just wait for its turn on a busy machine: something stood still."""
SERIES_HZ = 1.0
SERIES_TOLERANCE_S = 0.01
SHORTEST_INTERVAL_S = 0.2
"""A last interval of the series shorter than this would show noise, so it is merged into the one before."""


class Pace:
    """When the next look is due, and what looking costs.

    With `at_random`, looks come at random within their interval, so that they can't fall into step with the kernel's
    clock tick. When they cost more of a core than `budget` they get rarer; when they cost less again they return to
    `hz`.
    """

    def __init__(self, hz: float, budget: float, *, at_random: bool) -> None:
        self._shortest_s = self._interval_s = 1 / hz
        self._budget, self._at_random = budget, at_random
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
        """From when to when, in seconds since the begin."""
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
        """Counts a look that was just made, as late if it ended a whole interval after it was due, and plans the next."""
        now_s = time.monotonic()
        self._ticks += 1
        self._late += now_s > self._due_s + self._interval_s
        self._notice_gap(now_s)
        self._looked_s = now_s
        checked_s, spent_s = self._checked
        if now_s - checked_s >= CHECK_INTERVAL_S and self._ticks >= self._looks_checked + LOOKS_PER_CHECK:
            total_s = self._spend()
            self._adapt((total_s - spent_s) / (now_s - checked_s))
            self._checked, self._looks_checked = (now_s, total_s), self._ticks
        self._schedule(now_s)

    def _schedule(self, now_s: float) -> None:
        self._slot_s += self._interval_s
        if self._slot_s < now_s - self._interval_s:  # looks that were missed are not made up for
            self._slot_s = now_s
        self._due_s = self._slot_s + (self._random.random() * self._interval_s if self._at_random else 0.0)

    def saw_stopped(self) -> None:
        """Notes that this look found a working session stopped by force: nothing counts as seen since the last look."""
        self._saw_nothing(self._looked_s, time.monotonic())

    def halt(self) -> None:
        """Ends the looks; one that is long overdue counts as missed."""
        self._notice_gap(time.monotonic())

    def _notice_gap(self, now_s: float) -> None:
        if now_s - self._due_s > BLIND_AFTER_S:
            self._saw_nothing(self._due_s, now_s)

    def _saw_nothing(self, since_s: float, now_s: float) -> None:
        """Adds a blind interval. No moment counts twice, though a look may both be late and find a session stopped."""
        since_s, to_s = since_s - self._began_s, now_s - self._began_s
        if self._blind:
            since_s = max(since_s, self._blind[-1][1])
        if since_s < to_s:
            self._blind.append((since_s, to_s))

    def _spend(self) -> float:
        """CPU seconds so far of the thread and its session; a session that can't be read is assumed to cost the same."""
        sampler_s = time.thread_time() - self._sampler_start_s
        now_s = self._session_cpu_s()
        session_s = None if now_s is None or self._session_start_s is None else now_s - self._session_start_s
        self._spent = (sampler_s, session_s)
        return sampler_s + (sampler_s if session_s is None else session_s)

    def _adapt(self, share: float) -> None:
        wanted_s = self._interval_s * share / self._budget
        self._interval_s = max(self._shortest_s, wanted_s)

    def end(self) -> None:
        """Notes the final cost. Call from the thread itself, since only it can read its own CPU time."""
        self._spend()

    def blind_s(self, run_s: float) -> float:
        """For how long nothing was seen of the first `run_s` seconds: the last look may come long after a run has ended."""
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
    """Cumulative counters, read about once a second, which become rates over the intervals between readings."""

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
        names = list(self.readings[0][1])
        pairs = list(zip(self.readings, self.readings[1:], strict=False))
        return TimeSeries(
            at_s=tuple(at_s for at_s, _ in self.readings[1:]),
            columns={f"{name}_per_s": tuple(_rate(before, after, name) for before, after in pairs) for name in names},
        )


def _rate(before: tuple[float, dict[str, float]], after: tuple[float, dict[str, float]], name: str) -> float | None:
    length_s = after[0] - before[0]
    if length_s <= 0 or name not in before[1] or name not in after[1]:
        return None
    return (after[1][name] - before[1][name]) / length_s


class Moments(Generic[T]):
    """Keeps a run's moments few: when there are too many, drops every second one and takes in half as many."""

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


@dataclass
class _Tally:
    blocked: int = 0
    runnable: int = 0
    unknown: int = 0
    timeslices: int = 0


class Tallies:
    """How often sessions were seen in each wait, by the kernel's view of the session; `EventTicks` is the frozen form."""

    def __init__(self) -> None:
        self._of_type: dict[str, _Tally] = {}

    def count(self, wait_type: str, state: str, timeslices: int = 0) -> None:
        """Counts one session at one look; `timeslices` = how often it was put on a CPU since the last look."""
        tally = self._of_type.get(wait_type)
        if tally is None:
            tally = self._of_type[wait_type] = _Tally()
        if state == GONE:
            tally.unknown += 1
        elif state == RUNNABLE:
            tally.runnable += 1
        else:
            tally.blocked += 1
        tally.timeslices += timeslices

    def frozen(self, meaning_of: Callable[[str], Event]) -> tuple[EventTicks, ...]:
        events = []
        for wait_type, tally in sorted(self._of_type.items()):
            known = meaning_of(wait_type)
            event = EventTicks(
                wait_type=wait_type, analogue=known.analogue, category=known.category, in_io=known.in_io,
                blocked=tally.blocked, runnable=tally.runnable, unknown=tally.unknown, timeslices=tally.timeslices,
            )  # fmt: skip
            events.append(event)
        return tuple(events)


# --- accounts --------------------------------------------------------------------------------------------------------
#
# The kernel's accounts of a server's sessions: each session's state now, and what all of them spent in a run.


class Totals(NamedTuple):
    """What all sessions together spent in the run."""

    cpu_s: float
    runqueue_s: float
    switches: Switches


_Reading = tuple[SchedStat, Switches]


class Accounts:
    """The accounts of one run. Call in order: `open`, `begin` while the sessions sleep at the gate, `end`, `totals`, `close`.

    Unless they are opened there are no states and no totals, and `reason` says why.
    """

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        self._views: dict[int, TaskView] = {}
        self._own: TaskView | None = None
        self._began: list[_Reading | None] = []
        self._ended: list[_Reading | None] = []

    def open(self, views: Mapping[int, TaskView], own: TaskView | None) -> None:
        """Opens the kernel's views: `views` are the sessions', by the server's ids; `own` is the sampler's."""
        self._views, self._own = dict(views), own

    def states(self) -> dict[int, str]:
        """The state of each session, as the kernel's letter."""
        return {session: view.state() for session, view in self._views.items()}

    def turns(self) -> dict[int, int]:
        """How often each session has been put on a CPU so far."""
        scheds = {session: view.sched() for session, view in self._views.items()}
        return {session: sched.timeslices for session, sched in scheds.items() if sched is not None}

    def own_cpu_s(self) -> float | None:
        """CPU time so far of the sampler's own session."""
        sched = self._own.sched() if self._own else None
        return None if sched is None else sched.cpu_ns * NS

    def begin(self) -> None:
        self._began = self._read()

    def end(self) -> None:
        self._ended = self._read()

    def _read(self) -> list[_Reading | None]:
        readings = ((view.sched(), view.switches()) for view in self._views.values())
        return [None if sched is None or switches is None else (sched, switches) for sched, switches in readings]

    def totals(self) -> Totals | None:
        """The sums; None, with the reason noted, if one session's totals are missing."""
        if not self._views:
            return None
        cpu_ns = runqueue_ns = voluntary = involuntary = 0
        for began, ended in zip(self._began or [None], self._ended, strict=False):
            if began is None or ended is None:
                self.reason = "a session ended before its totals could be read from the kernel"
                return None
            cpu_ns += ended[0].cpu_ns - began[0].cpu_ns
            runqueue_ns += ended[0].runqueue_ns - began[0].runqueue_ns
            voluntary += ended[1].voluntary - began[1].voluntary
            involuntary += ended[1].involuntary - began[1].involuntary
        self.reason = ""
        return Totals(cpu_ns * NS, runqueue_ns * NS, Switches(voluntary, involuntary))

    def close(self) -> None:
        for view in (*([self._own] if self._own else []), *self._views.values()):
            view.close()


# --- watch -----------------------------------------------------------------------------------------------------------
#
# The thread that looks at a run at the moments of its pace. An error in it ends only the watching.


class Looks(NamedTuple):
    """The thread's work: `first` and `last` once, `tick` at every moment of the pace."""

    first: Callable[[], None]
    tick: Callable[[], None]
    last: Callable[[], None]


class Watch:
    """In order: `start`, `end`. `error` is empty unless watching stopped in between; `words` describes an exception,
    `session_cpu_s` reads the CPU time of the session on the server, None if that is unknown."""

    def __init__(
        self,
        pace: Pace,
        looks: Looks,
        words: Callable[[BaseException], str],
        session_cpu_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._pace, self._looks, self._words, self._session_cpu_s = pace, looks, words, session_cpu_s
        self.error = ""
        self._thread: threading.Thread | None = None
        self._runs, self._stop = threading.Event(), threading.Event()
        self._started_s = 0.0

    @property
    def at_s(self) -> float:
        """Seconds since `start`."""
        return time.monotonic() - self._started_s

    @property
    def ending(self) -> bool:
        return self._stop.is_set()

    @property
    def stuck(self) -> bool:
        """Whether the thread still runs although it should have ended, so that nothing else may use its resources."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="storagelab-sampler", daemon=True)
        self._started_s = time.monotonic()
        self._thread.start()

    def _run(self) -> None:
        self._runs.set()
        try:
            self._pace.begin(self._session_cpu_s)
            self._looks.first()
            while not self._stop.wait(self._pace.delay_s()):
                self._looks.tick()
                self._pace.ticked()
            self._pace.halt()
            self._looks.last()
        except Exception as error:  # noqa: BLE001 - the run must go on, and its report say that watching stopped
            self.error = f"sampling stopped early: {self._words(error)}"
        finally:
            self._pace.end()

    def end(self, patience_s: float) -> None:
        """Never raises."""
        self._stop.set()
        # An interruption during the thread's start leaves a thread that is about to run: wait for it, too.
        if self._thread is not None and self._runs.wait(patience_s):
            self._thread.join(patience_s)
            if self._thread.is_alive():
                self.error = self.error or "sampling stopped early: the server did not answer"


# --- recording -------------------------------------------------------------------------------------------------------
#
# A sampler's record of one run: a series once a second, a few moments, and how often each wait was seen.


MOMENT_INTERVAL_S = 0.5
MOST_TASKS = 400


RawWaitsOf = Callable[["Seen", float, float, int], SampledWaits | CountedWaits]
"""An engine's raw waits, from what was seen, `elapsed_s`, `busy_s` and the number of connections."""


@dataclass(frozen=True)
class Seen:
    """What was seen of one run. `totals` are the kernel's; `error` is empty unless sampling stopped before the end."""

    events: tuple[EventTicks, ...]
    passes: int
    totals: Totals | None
    no_split_reason: str
    waiting_tasks: tuple[WaitingTask, ...]
    series: TimeSeries
    observer: ObserverCost
    rows_done: int
    raw_waits: RawWaitsOf | None = None
    error: str = ""
    blind_s: Callable[[float], float] = lambda _: 0.0
    """For how long nothing was seen of a run of so many seconds."""

    def observed(self, elapsed_s: float) -> ObserverCost:
        """The cost of observing, and what was not seen of the run itself: watching ends after it."""
        return self.observer.model_copy(update={"blind_s": self.blind_s(elapsed_s)})

    def waits(self, elapsed_s: float, busy_s: float, connections: int) -> SampledWaits | CountedWaits | None:
        """The raw waits, given times by the server's clock; None if waits were not watched. `busy_s` is the sum over
        connections of start to finish."""
        return None if self.raw_waits is None else self.raw_waits(self, elapsed_s, busy_s, connections)

    @property
    def cpus(self) -> int | None:
        """CPUs of the server's machine, if the sampler runs on it."""
        return usable_cpus() if self.totals is not None else None


class SessionSampler(Watch, ABC):
    """Watches the sessions of one run through a connection of its own: waits, a series once a second, and a few moments.

    In order: `prepare`, `baseline` while all sessions wait at the gate, `start` as it is opened, `stop` when the last session
    is done but all are still connected. Errors while watching are not raised: they are in `Seen.error`.
    """

    budget: ClassVar[float] = 0.02
    """Share of one core that the sampler and its session may use; above it samples get rarer."""
    most_hz: ClassVar[float] = math.inf
    hz_without_waits: ClassVar[float] = SERIES_HZ
    stop_timeout_s: ClassVar[float] = 5.0

    def __init__(self, measure: MeasureConfig, words: Callable[[BaseException], str], unseen: str = "") -> None:
        """`words` describes an exception; `unseen` says why the kernel can't be asked about the sessions, if it can't."""
        self.accounts = Accounts(unseen)
        self.sample_waits = measure.waits
        hz = min(measure.sample_hz, self.most_hz) if measure.waits else self.hz_without_waits
        self.pace = Pace(hz, self.budget, at_random=measure.waits)
        self.series = Series()
        self.moments = Moments[WaitingTask](MOMENT_INTERVAL_S, MOST_TASKS)
        self.passes = 0
        self._tallies = Tallies()
        self._rows_done: dict[int, int] = {}
        looks = Looks(self._take_series, self._tick, self._last_look)
        super().__init__(self.pace, looks, words, self.accounts.own_cpu_s)

    @abstractmethod
    def prepare(self) -> None:
        """Connects. Errors of the connection are raised here."""

    def baseline(self) -> None:
        """Reads the kernel's totals of all sessions; call while they sleep at the gate."""
        self.accounts.begin()

    # All this runs in the sampler's thread.

    @abstractmethod
    def _tick(self) -> None:
        """Looks at the sessions."""

    @abstractmethod
    def _last_look(self) -> None:
        """The same when the last session is done."""

    @abstractmethod
    def _columns(self) -> Mapping[str, float]:
        """Reads cumulative counters for the series, units last in their names."""

    def _take_series(self, *, last: bool = False) -> None:
        if last or self.series.due(self.at_s):
            at_s = self.at_s
            self.series.add(at_s, dict(self._columns()), last=last)

    def _count(self, session: int, wait_type: str, states: Mapping[int, str], timeslices: int = 0) -> str:
        """Counts one session at one look; returns its state by the kernel."""
        state = states.get(session, GONE)
        self._tallies.count(wait_type, state, timeslices)
        return state

    # --- and this in any thread --------------------------------------------------------------------------------------

    def progress(self) -> int:
        """Rows that all sessions together have reported as done."""
        return sum(self._rows_done.values())

    def stop(self) -> Seen:
        """Reads the kernel's totals, ends the thread and the connection, and hands over what was seen. Never raises."""
        self.accounts.end()
        self.end(self.stop_timeout_s)
        raw_waits = self._raw_waits()
        if not self.stuck:  # two threads must not use a connection at once
            with contextlib.suppress(Exception):
                self._disconnect()
        totals = self.accounts.totals()
        self.accounts.close()
        return Seen(
            events=self._tallies.frozen(self._event_of), passes=self.passes, totals=totals,
            no_split_reason=self.accounts.reason, waiting_tasks=self._waiting_tasks(), series=self.series.frozen(),
            observer=self.pace.cost(), rows_done=self.progress(), raw_waits=raw_waits if self.sample_waits else None,
            error=self.error, blind_s=self.pace.blind_s,
        )  # fmt: skip

    @abstractmethod
    def _disconnect(self) -> None: ...

    @abstractmethod
    def _event_of(self, wait_type: str) -> Event: ...

    @abstractmethod
    def _raw_waits(self) -> RawWaitsOf: ...

    def _waiting_tasks(self) -> tuple[WaitingTask, ...]:
        return self.moments.tasks
