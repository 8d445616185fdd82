"""A sampler's record of one run: a series once a second, a few moments, and how often each wait was seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from storagelab.machine.host import usable_cpus
from storagelab.machine.procfs import GONE
from storagelab.model.measurement import ObserverCost, TimeSeries, WaitingTask
from storagelab.model.waits import CountedWaits, EventTicks, SampledWaits
from storagelab.targets.accounts import Accounts, Totals
from storagelab.targets.vocabulary import Event
from storagelab.targets.watch import Looks, Watch
from storagelab.targets.watching import Moments, Pace, Series, Tallies

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


class Recording:
    """In order: `start`, and in the sampler's thread `tick` at each moment of the pace, then `last`; `end`.

    `columns` reads cumulative counters, among them `rows`, with units last in their names; `words` describes an exception.
    """

    def __init__(
        self,
        pace: Pace,
        tick: Callable[[], None],
        last: Callable[[], None],
        columns: Callable[[], Mapping[str, float]],
        words: Callable[[BaseException], str],
        accounts: Accounts | None = None,
    ) -> None:
        self.accounts = accounts or Accounts()
        self.pace, self._columns = pace, columns
        self.series = Series()
        self.moments = Moments(MOMENT_INTERVAL_S, MOST_TASKS)
        self.passes = 0
        self._tallies = Tallies()
        self._watch = Watch(pace, Looks(self._take_first, tick, last), words, self.accounts.own_cpu_s)

    @property
    def at_s(self) -> float:
        """Seconds since `start`."""
        return self._watch.at_s

    @property
    def ending(self) -> bool:
        return self._watch.ending

    @property
    def stuck(self) -> bool:
        """The thread still uses its resources after it should have ended: nothing else may use them."""
        return self._watch.stuck

    @property
    def broke_off(self) -> bool:
        return bool(self._watch.error)

    def note(self, error: str) -> None:
        """Note something else that was not seen."""
        self._watch.error = self._watch.error or error

    def start(self) -> None:
        self._watch.start()

    def _take_first(self) -> None:
        self._add_to_series(last=False)

    def take_series(self) -> None:
        if self.series.due(self.at_s):
            self._add_to_series(last=False)

    def take_last(self) -> None:
        self._add_to_series(last=True)

    def _add_to_series(self, *, last: bool) -> None:
        at_s = self.at_s
        self.series.add(at_s, dict(self._columns()), last=last)

    def count(self, session: int, wait_type: str, states: Mapping[int, str], timeslices: int = 0) -> str:
        """Records one session at one look; returns its state by the kernel."""
        state = states.get(session, GONE)
        self._tallies.count(wait_type, state, timeslices)
        return state

    def end(self, patience_s: float) -> None:
        """Read the kernel's totals and end the thread. Never raises."""
        self.accounts.end()
        self._watch.end(patience_s)

    def seen(self, event_of: Callable[[str], Event], rows_done: int, raw_waits: RawWaitsOf | None) -> Seen:
        totals = self.accounts.totals()
        self.accounts.close()
        return Seen(
            events=self._tallies.frozen(event_of), passes=self.passes, totals=totals,
            no_split_reason=self.accounts.reason, waiting_tasks=self.moments.tasks, series=self.series.frozen(),
            observer=self.pace.cost(), rows_done=rows_done, raw_waits=raw_waits, error=self._watch.error,
            blind_s=self.pace.blind_s,
        )  # fmt: skip
