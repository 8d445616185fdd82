"""The sampler of one run on any engine. A thread samples the sessions, and the kernel's figures about the sessions are
read. The results are how often each wait was found, a few moments, and a series with a point each second.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from storagelab.machine.host import usable_cpus
from storagelab.machine.processes import GONE, Switches, TaskView
from storagelab.model.config import MeasureConfig
from storagelab.model.measurement import ObserverCost, TimeSeries, WaitingTask
from storagelab.model.waits import NS, CountedWaits, EventTicks, SampledWaits
from storagelab.watching.pace import SERIES_HZ, Moments, Pace, Series, Tallies
from storagelab.watching.wait_events import WaitEvents


class Totals(NamedTuple):
    """Sums over all sessions of a run: CPU time and waiting time for a CPU in seconds, and context switches."""

    cpu_s: float
    runqueue_s: float
    switches: Switches


_Reading = tuple[int, int, int, int]


class Accounts:
    """The kernel's figures about the sessions of one run. Call the methods in this order: `open`, `begin` while the
    sessions wait at the gate, `end`, `totals`, `close`.

    If `open` was not called, there are no states and no totals, and `reason` says why.
    """

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        self._views: dict[int, TaskView] = {}
        self._own: TaskView | None = None
        self._began: list[_Reading | None] = []
        self._ended: list[_Reading | None] = []

    def open(self, views: Mapping[int, TaskView], own: TaskView | None) -> None:
        """Sets the kernel's views of tasks. `views` maps the server's ID of each session to the view of this session.
        `own` is the view of the sampler's session.
        """
        self._views, self._own = dict(views), own

    def states(self) -> dict[int, str]:
        """The state of each session: the kernel's letter."""
        return {session: view.state() for session, view in self._views.items()}

    def turns(self) -> dict[int, int]:
        """How often each session has got a CPU so far."""
        scheds = {session: view.sched() for session, view in self._views.items()}
        return {session: sched.timeslices for session, sched in scheds.items() if sched is not None}

    def own_cpu_s(self) -> float | None:
        """The CPU time that the sampler's own session has used so far, in seconds, or None if unknown."""
        sched = self._own.sched() if self._own else None
        return None if sched is None else sched.cpu_ns * NS

    def begin(self) -> None:
        self._began = self._read()

    def end(self) -> None:
        self._ended = self._read()

    def _read(self) -> list[_Reading | None]:
        """For each session: CPU time and waiting time for a CPU, both in ns, and the numbers of its voluntary and
        involuntary switches. Returns None for a session that has ended.
        """
        readings = ((view.sched(), view.switches()) for view in self._views.values())
        return [
            None if sched is None or switches is None
            else (sched.cpu_ns, sched.runqueue_ns, switches.voluntary, switches.involuntary)
            for sched, switches in readings
        ]  # fmt: skip

    def totals(self) -> Totals | None:
        """The sums over all sessions. Returns None if the figures of a session are missing: then `reason` says so."""
        if not self._views:
            return None
        total = [0, 0, 0, 0]
        for began, ended in zip(self._began or [None], self._ended, strict=False):
            if began is None or ended is None:
                self.reason = "a session ended before its totals could be read from the kernel"
                return None
            total = [so_far + now - then for so_far, now, then in zip(total, ended, began, strict=True)]
        self.reason, (cpu_ns, runqueue_ns, voluntary, involuntary) = "", total
        return Totals(cpu_ns * NS, runqueue_ns * NS, Switches(voluntary, involuntary))

    def close(self) -> None:
        for view in (*([self._own] if self._own else []), *self._views.values()):
            view.close()


# --- the thread ------------------------------------------------------------------------------------------------------
#
# Samples a run at the moments that its pace decides. An error in the thread ends the sampling, but not the run.


class Looks(NamedTuple):
    """The functions that the thread calls: `first` and `last` once each, and `tick` at the moments that the pace
    decides.
    """

    first: Callable[[], None]
    tick: Callable[[], None]
    last: Callable[[], None]


class Watch:
    """The thread that samples. Call `start`, then `end`. If sampling stopped early, `error` says why, else it is "".
    `words` describes an exception. `session_cpu_s` reads the CPU time of the sampler's session on the server, or None
    if unknown.
    """

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
        """The seconds since `start`."""
        return time.monotonic() - self._started_s

    @property
    def ending(self) -> bool:
        return self._stop.is_set()

    @property
    def stuck(self) -> bool:
        """Whether the thread still runs, although it should have ended. Then its connection must not be used."""
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
        except Exception as error:  # noqa: BLE001 - the run continues, and a check reports that sampling stopped
            self.error = f"sampling stopped early: {self._words(error)}"
        finally:
            self._pace.end()

    def end(self, patience_s: float) -> None:
        """Ends the thread. Never raises. If the thread does not end within `patience_s` seconds, `error` says so."""
        self._stop.set()
        # If `start` was interrupted, the thread may not run yet, but it will: wait for this thread, too.
        if self._thread is not None and self._runs.wait(patience_s):
            self._thread.join(patience_s)
            if self._thread.is_alive():
                self.error = self.error or "sampling stopped early: the server did not answer"


# --- recording -------------------------------------------------------------------------------------------------------
#
# The results of sampling one run: a series with a point each second, a few moments, and how often each wait was found.


MOMENT_INTERVAL_S = 0.5
MOST_TASKS = 400


RawWaitsOf = Callable[["Observation", float, float, int], SampledWaits | CountedWaits]
"""Makes an engine's raw waits from the observation, `elapsed_s`, `busy_s` and the number of connections."""


@dataclass(frozen=True)
class Observation:
    """What the sampler observed in one run. `totals` are the kernel's figures. If sampling stopped early, `error` says
    why, else it is "".
    """

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
    """The time without samples, in seconds, in a run of the given length."""
    unwatched: tuple[tuple[float, float], ...] = ()
    """The periods without sampling: start and end of each, by the monotonic clock."""

    def observed(self, elapsed_s: float) -> ObserverCost:
        """The cost of sampling, and the time without samples during the run. Sampling ends later than the run."""
        return self.observer.model_copy(update={"blind_s": self.blind_s(elapsed_s)})

    def waits(self, elapsed_s: float, busy_s: float, connections: int) -> SampledWaits | CountedWaits | None:
        """The raw waits, or None if waits were not sampled. `elapsed_s` is the run's time by the server's clock.
        `busy_s` is the sum of the times that the connections took from their start to their end.
        """
        return None if self.raw_waits is None else self.raw_waits(self, elapsed_s, busy_s, connections)

    @property
    def cpus(self) -> int | None:
        """The number of CPUs of the server's machine. The value is None if the server may run on another machine."""
        return usable_cpus() if self.totals is not None else None


class SessionSampler(Watch, ABC):
    """Samples the sessions of one run through its own connection. The results are waits, a series with a point each
    second, and a few moments.

    Call the methods in this order. Call `prepare` first. Call `baseline` while all sessions wait at the gate, and
    `start` when the gate opens. Call `stop` when all sessions have finished their work, but are still connected. An
    error during sampling is not raised, but stored in `Observation.error`.
    """

    event_of: ClassVar[WaitEvents]
    budget: ClassVar[float] = 0.02
    """The share of one core that the sampler and its session may use. If they use more, samples become rarer."""
    most_hz: ClassVar[float] = math.inf
    hz_without_waits: ClassVar[float] = SERIES_HZ
    stop_timeout_s: ClassVar[float] = 5.0

    def __init__(
        self, measure: MeasureConfig, words: Callable[[BaseException], str], unseen: str = "", *, in_turns: bool = False
    ) -> None:
        """`words` describes an exception. `unseen` is the reason if the kernel can't report on the sessions. With
        `in_turns`, waits are sampled only in half of the periods.
        """
        self.accounts = Accounts(unseen)
        self.sample_waits = measure.waits
        hz = min(measure.sample_hz, self.most_hz) if measure.waits else self.hz_without_waits
        self.pace = Pace(hz, self.budget, at_random=measure.waits, in_turns=in_turns and measure.waits)
        self.series = Series()
        self.moments = Moments[WaitingTask](MOMENT_INTERVAL_S, MOST_TASKS)
        self.passes = 0
        self._tallies = Tallies()
        self._rows_done: dict[int, int] = {}
        looks = Looks(
            self._take_series, lambda: self._take_series() if self.pace.resting else self._tick(), self._last_look
        )
        super().__init__(self.pace, looks, words, self.accounts.own_cpu_s)

    @abstractmethod
    def prepare(self) -> None:
        """Connects to the server. Raises the driver's errors."""

    def baseline(self) -> None:
        """Reads the kernel's figures of all sessions. Must be called while the sessions wait at the gate."""
        self.accounts.begin()

    # The sampler's thread calls all methods from here to `progress`.

    @abstractmethod
    def _tick(self) -> None:
        """Takes a sample of the sessions."""

    @abstractmethod
    def _last_look(self) -> None:
        """Takes the last sample, after the last session has finished its work."""

    @abstractmethod
    def _columns(self) -> Mapping[str, float]:
        """Reads cumulative counters for the series. Each name ends with the unit."""

    def _take_series(self, *, last: bool = False) -> None:
        if last or self.series.due(self.at_s):
            self.series.add(self.at_s, dict(self._columns()), last=last)

    def _count(self, session: int, wait_type: str, states: Mapping[int, str], timeslices: int = 0) -> str:
        """Counts one session in one sample. Returns the kernel's letter for the session's state."""
        state = states.get(session, GONE)
        self._tallies.count(wait_type, state, timeslices)
        return state

    # --- any thread may call these -----------------------------------------------------------------------------------

    def progress(self) -> int:
        """The sum of the rows that the sessions have reported as done."""
        return sum(self._rows_done.values())

    def stop(self) -> Observation:
        """Reads the kernel's figures, ends the thread and the connection, and returns the observation. Never raises."""
        self.accounts.end()
        self.end(self.stop_timeout_s)
        raw_waits = self._raw_waits()
        if not self.stuck:  # two threads must not use the connection at the same time
            with contextlib.suppress(Exception):
                self._disconnect()
        totals = self.accounts.totals()
        self.accounts.close()
        return Observation(
            events=self._tallies.frozen(self.event_of), passes=self.passes, totals=totals,
            no_split_reason=self.accounts.reason, waiting_tasks=self._waiting_tasks(), series=self.series.frozen(),
            observer=self.pace.cost(), rows_done=self.progress(), raw_waits=raw_waits if self.sample_waits else None,
            error=self.error, blind_s=self.pace.blind_s, unwatched=tuple(self.pace.rests),
        )  # fmt: skip

    @abstractmethod
    def _disconnect(self) -> None: ...

    @abstractmethod
    def _raw_waits(self) -> RawWaitsOf: ...

    def _waiting_tasks(self) -> tuple[WaitingTask, ...]:
        return self.moments.tasks
