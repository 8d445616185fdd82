"""The run of a load generator. The generator's program sends the load, and its sessions are the connections of the run.

The measurement begins when all sessions are connected and the warm-up is over. The warm-up takes a set time, or lasts
until throughput is stable. If a run has a set time, it ends when this time is over. Counters are read while all
sessions still work. Only then is the program stopped."""

from __future__ import annotations

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from storagelab.errors import RunFailed
from storagelab.loads.generator import Process, Program
from storagelab.loads.settling import BAND, LOOK_S, Cycles, LogRoom, Trend, WarmUp, end_of_whole, trend
from storagelab.loads.transactions import LoadReport, in_turns
from storagelab.machine.processes import until
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.measurement import (
    BEHIND_RATE,
    GENERATOR,
    NOT_AT_ONCE,
    REFUSED,
    REFUSED_MOST,
    SETTLED,
    Check,
    TimeSeries,
    refused_share,
)
from storagelab.servers.interfaces import GATE_TIMEOUT_S, POLL_S, C, Sessions, Work
from storagelab.watching.counters import Clocks, Loop
from storagelab.watching.pace import SHORTEST_S
from storagelab.watching.sampler import Observation

# --- which transactions count ----------------------------------------------------------------------------------------
# Selects the transactions of a generator that count. These are the transactions of a set time, a set number of
# transactions, or the transactions in a time that the generator itself measures.


Hold = Callable[[], Callable[[], None]]
"""A function that locks the tables of a load, and returns a function that unlocks them."""
POLL_SESSIONS_S = 0.02
BEFORE_ITS_END_S = 0.2
"""For a generator that measures the time itself: the time in seconds between the last sample of its sessions and its
end."""


Span = tuple[LoadReport, float, float]
"""The transactions that count, and the start and the end of the time in which they were counted."""


class CountedPart(ABC):
    """The part of a run that counts. The methods are called in this order: `prepare` before the program starts,
    `warm_up` when its sessions are connected, `begin` at the start of the counted part, `wait` until its end, `span`,
    and `close`.
    """

    warm_up_s: float | None = None
    """The length of an automatic warm-up in seconds. The value is None without an automatic warm-up."""

    @property
    def in_turns(self) -> bool:
        """Whether periods with and without sampling alternate. This needs a long run, and a log with the end and the
        latency of each transaction."""
        return False

    def __init__(self, load: GeneratedLoad, process: Process, cycles: Cycles) -> None:
        self.load, self.process, self.cycles = load, process, cycles
        self.start_s = self.end_s = 0.0

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Does what is necessary before the program starts."""

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
        """Returns the transactions that count, with the start and the end of their time. Raises RunFailed."""
        counted = self._counted(self.process.result())
        return counted, *(counted.span_s if counted.number else (self.start_s, self.end_s))

    def _counted(self, logged: LoadReport) -> LoadReport:
        return logged

    def by_clock(self, start_s: float, end_s: float) -> tuple[float, float]:
        """Converts a span to the process's clock. sysbench reports times since its own start, so its spans
        begin at 0.
        """
        return (start_s, end_s) if start_s else (self.start_s, self.start_s + end_s)

    def so_far(self) -> int:
        """The milliseconds of the set time that have passed."""
        passed_s = self.process.now_s() - self.start_s if self.start_s else 0.0
        return min(self.load.work.amount, round(passed_s * 1000))

    def checks(self) -> Iterator[Check]:
        yield from ()

    def close(self) -> None:  # noqa: B027 - as above
        """Releases what `prepare` made. Never raises."""

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


class SetTime(CountedPart):
    """A set time that storagelab measures. The program continues after this time until storagelab stops it."""

    _trend: Trend | None = None
    _seconds = 0
    _end: WarmUp
    _ends_s: float
    """The latest end of a run with an automatic warm-up."""

    @property
    def in_turns(self) -> bool:
        return self.load.duration_s >= SHORTEST_S

    def warm_up(self) -> None:
        """Waits for a set time. If the warm-up is automatic, waits until throughput is stable. If the server makes
        checkpoints meanwhile, also waits until the next checkpoint begins.
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
        return logged.within(self.start_s, self.end_s), self.start_s, self.end_s

    def checks(self) -> Iterator[Check]:
        """Yields a failed check if throughput was not stable at the end of an automatic warm-up."""
        if self.warm_up_s is None or self._end.settled:
            return
        got = "too short to tell"
        if self._end.changed is not None:
            got = f"changed by {100 * self._end.changed:+.2g} % from one checkpoint cycle to the next"
        elif self._trend is not None:
            change, half = 100 * float(self._trend.change), 100 * float(self._trend.half)
            got = f"expected to change by {change:+.2g} ± {half:.2g} % over {self.load.duration_s:g} s"
        yield Check(
            name=SETTLED, asked=f"settled within {100 * BAND:g} %",
            got=f"{got} after {self.warm_up_s:.0f} s of warm-up", ok=False, read_from=self.process.program.title,
        )  # fmt: skip


class OwnTime(CountedPart):
    """A set time that the program itself measures. The program reports when its measurement starts."""

    @property
    def in_turns(self) -> bool:
        """Whether periods with and without sampling alternate. They don't if there is a rate: transactions then wait in
        the program for a free session, and its log does not contain this wait.
        """
        return self.load.duration_s >= SHORTEST_S and self.load.rate is None

    def warm_up(self) -> None:
        self._await(self.process.program.says_it_counts)
        self._counts_since_s = self.process.now_s()

    def _wait(self, on_poll: Callable[[], None]) -> None:
        self._until(self._counts_since_s + self.load.duration_s - BEFORE_ITS_END_S, on_poll)

    def _may_end(self) -> bool:
        return self.process.exit_code == 0


class SetNumber(CountedPart):
    """The part of a run with a set number of transactions. All of these transactions count. `hold` locks the tables and
    returns a function that unlocks them. So the first transaction waits until sampling has begun.
    """

    def __init__(self, load: GeneratedLoad, process: Process, cycles: Cycles, hold: Hold | None = None) -> None:
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

    def _counted(self, logged: LoadReport) -> LoadReport:
        return logged if self._hold is None else logged.begun_at_earliest(self.start_s)

    def so_far(self) -> int:
        """Returns 0, because the number is unknown until all transactions are done."""
        return 0

    def close(self) -> None:
        self._let_go()


# --- the run ---------------------------------------------------------------------------------------------------------


SAME_FOR_S = 0.1
"""The time for which the list of sessions must stay unchanged. Some programs have a first session of their own, and the
server lists it until its process has ended. So for such a program, the load's sessions are known when the list has not
changed for this time."""
_WHOLE = 100
"""From this many transactions per second on, the rate is shown without fractions."""
RATE_TOLERANCE = 0.05
"""If a run's number of transactions is below its rate by more than this share, the run has fallen behind."""


class Generator(Sessions[C]):
    """The run of one generator. `connect` opens a session with the load's settings. `sessions` returns the ids of the
    generator's sessions on the server. `hold` locks the load's tables and returns a function that unlocks them.
    `checkpoints` returns how many of the server's checkpoints have begun. `log_room` returns the used bytes and the
    capacity of the server's redo log.
    """

    def __init__(
        self, program: Program, load: GeneratedLoad, connect: Callable[[], C], sessions: Callable[[], list[int]],
        hold: Hold | None = None, checkpoints: Callable[[], int] | None = None,
        log_room: Callable[[], tuple[int, int] | None] | None = None,
    ) -> None:  # fmt: skip
        self.program, self.load = program, load
        self._connect, self._sessions = connect, sessions
        self._process = Process(program)
        self._log_room = LogRoom(None if load.reads_only else log_room, self._process.now_s)
        self._cycles = Cycles(None if load.reads_only else checkpoints, self._process.now_s, self._log_room.look)
        self._counting: CountedPart
        if load.transactions_per_connection is not None:
            self._counting = SetNumber(load, self._process, self._cycles, hold)
        else:
            counting = OwnTime if program.says_it_counts else SetTime
            self._counting = counting(load, self._process, self._cycles)
        self._first: C | None = None
        self._ids: list[int] = []
        self._same_since_s = math.inf

    @property
    def first(self) -> C:
        assert self._first is not None
        return self._first

    @property
    def ids(self) -> list[int]:
        return self._ids

    @property
    def in_turns(self) -> bool:
        return self._counting.in_turns

    def so_far(self, reported: int) -> int:
        return self._counting.so_far()

    def open(self) -> None:
        self._first = self._connect()

    def gather(self) -> None:
        """Starts the program. Returns when all its sessions are connected and the warm-up is over. Raises RunFailed."""
        self._counting.prepare()
        self._process.launch(self.load.longest_warm_up_s + self.load.duration_s + GATE_TIMEOUT_S)
        if not until(self._all_connected, GATE_TIMEOUT_S, POLL_SESSIONS_S):
            raise RunFailed(
                f"after {GATE_TIMEOUT_S:.0f} s only {len(self._ids)} of the {self.load.connections} sessions of "
                f"{self.program.title} were connected"
            )
        self._counting.warm_up()
        now = self._sessions()
        if len(now) >= self.load.connections:
            self._ids = now

    def _all_connected(self) -> bool:
        self._process.refuse_if_ended()
        asks = self.program.asks_first
        if asks and not any(self._process.folder.glob(asks)):
            return False
        before, self._ids = self._ids, self._sessions()
        if len(self._ids) < self.load.connections or not asks:
            return len(self._ids) >= self.load.connections
        if self._ids != before:
            self._same_since_s = time.monotonic()
        return time.monotonic() - self._same_since_s >= SAME_FOR_S

    def release(self) -> None:
        self._counting.begin()

    def wait(self, on_poll: Callable[[], None]) -> list[Loop]:
        """Waits until the time is over or all transactions are done, and calls `on_poll` a few times per second. Raises
        RunFailed with the program's message. Returns no loops, because the generator's sessions measure no times.
        """
        self._counting.wait(on_poll)
        return []

    def done(self, loops: list[Loop], seen: Observation, clocks: Clocks) -> Work:
        done = self.counted(seen.series, seen.unwatched)
        return done._replace(checks=(*clocks.checks(loops), *done.checks))

    def counted(self, series: TimeSeries, unwatched: Sequence[tuple[float, float]] = ()) -> Work:
        """Stops the program, and reads its log. `series` has the samples of the run, which were taken outside the
        periods `unwatched`. Raises RunFailed with the program's message.
        """
        counted, start_s, end_s = self._counting.span()
        if not counted.number:
            raise RunFailed(
                f"{self.program.title} did no transaction in {end_s - start_s:.1f} s"
                + (f"; {refused:,} were refused" if (refused := sum(counted.not_done.values())) else "")
            )
        began_s, elapsed_s = self._counting.start_s, end_s - start_s
        by_clock = self._counting.by_clock(start_s, end_s)
        rests = [self._process.at_s(*one) for one in unwatched]
        latency, of_turns = in_turns(counted, rests, began_s, self._counting.end_s)
        edges_s = [began_s, *(began_s + at_s for at_s in series.at_s)]
        figures = {name: float(number) for name, number in counted.not_done.items()}
        if self.load.rate is not None and counted.lag_s is not None:
            figures |= dict(zip(("lag_mean_s", "lag_max_s"), counted.lag_s, strict=True))
        figures["warm_up_s"] = self._counting.warm_up_s or 0.0
        own = {GENERATOR: {name: value for name, value in figures.items() if value}}
        return Work(
            elapsed_s=elapsed_s, connection_s=(elapsed_s,) * self.load.connections,
            transactions=counted.number, latency=latency, turns=of_turns,
            counters=own | self._cycles.counters(*by_clock) | self._log_room.counters(*by_clock),
            checks=(*self._counting.checks(), *self._rate_check(counted, elapsed_s), *self._refused_check(counted)),
            series=series.model_copy(update={"columns": {**counted.series(edges_s), **series.columns}})
            if series.at_s else series,
        )  # fmt: skip

    def _rate_check(self, counted: LoadReport, elapsed_s: float) -> Iterator[Check]:
        """Yields a failed check if the run fell behind its rate."""
        rate = self.load.rate
        if rate is None:
            return
        reached = counted.number / elapsed_s
        # Transactions begin at random moments, so their number varies like the count of a Poisson process.
        tolerance = rate * RATE_TOLERANCE + 3 * (rate / elapsed_s) ** 0.5
        if reached >= rate - tolerance:
            return
        got = f"{reached:,.0f} transactions/s" if reached >= _WHOLE else f"{reached:.3g} transactions/s"
        got += f", begun up to {counted.lag_s[1]:.3g} s late" if counted.lag_s is not None else ""
        got += f", {skipped} skipped" if (skipped := counted.not_done.get("skipped")) else ""
        yield Check(
            name=BEHIND_RATE, asked=f"{rate:,.7g} transactions/s", got=got, ok=False, read_from=self.program.title
        )

    def _refused_check(self, counted: LoadReport) -> Iterator[Check]:
        """Yields a failed check if too many transactions were refused or made again."""
        share = refused_share(counted.not_done, counted.number)
        if share > REFUSED_MOST:
            numbers = [
                f"{counted.not_done[name]:,} {how}" for name, how in NOT_AT_ONCE.items() if counted.not_done.get(name)
            ]
            got = f"{100 * share:.3g} %: {', '.join(numbers)}, and {counted.number:,} done"
            yield Check(
                name=REFUSED, asked=f"at most {100 * REFUSED_MOST:g} % refused or made again", got=got, ok=False,
                read_from=self.program.title,
            )  # fmt: skip

    def close(self) -> None:
        """Ends the program and all programs that it started. Never raises, because it is also called after errors."""
        self._process.close()
        first, self._first = self._first, None
        with contextlib.suppress(Exception):
            self._counting.close()
        if first is not None:
            with contextlib.suppress(Exception):
                first.close()
        self._process.remove_folder()
