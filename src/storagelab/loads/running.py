"""A load generator's run: its program works beside the server, and its sessions stand for a run's connections.

The part that counts begins once all sessions are connected and the warm-up is over: after its time, or when throughput
has settled. A run of set time ends when its time is over: counters are then read while all sessions still work, and
only afterwards the program is told to stop.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence

from storagelab.errors import RunFailed
from storagelab.loads.counting import POLL_SESSIONS_S, counting_of
from storagelab.loads.cycles import Cycles, LogRoom
from storagelab.loads.generator import Process, Program
from storagelab.loads.transactions import Counted, in_turns
from storagelab.machine.processes import until
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.measurement import (
    BEHIND_RATE,
    GENERATOR,
    NOT_AT_ONCE,
    REFUSED,
    REFUSED_MOST,
    Check,
    TimeSeries,
    refused_share,
)
from storagelab.servers.interfaces import GATE_TIMEOUT_S, C, Sessions
from storagelab.servers.interfaces import Work as Done
from storagelab.watching.clocks import Clocks, Loop
from storagelab.watching.counters import Counters
from storagelab.watching.sampler import Seen

SAME_FOR_S = 0.1
"""The sessions of a program that asks first are the load's once the list has been the same for so long: the server
lists the session that asked until its process is gone."""
_WHOLE = 100
"""From this many transactions a second on, fractions are left out."""
RATE_TOLERANCE = 0.05
"""A run that does fewer transactions than its rate, by more than this share, has fallen behind."""


class Generator(Sessions[C]):
    """The run of one generator. `connect` opens a session that has the load's settings, `sessions` asks the server for
    the ids of the generator's sessions, `hold` locks its tables and returns a function that unlocks them, `checkpoints`
    counts the server's checkpoints that have begun, `log_room` tells how many bytes of how many that its redo log has
    room for are in use.
    """

    def __init__(
        self,
        program: Program,
        load: GeneratedLoad,
        connect: Callable[[], C],
        disconnect: Callable[[C], None],
        sessions: Callable[[], list[int]],
        hold: Callable[[], Callable[[], None]] | None = None,
        checkpoints: Callable[[], int] | None = None,
        log_room: Callable[[], tuple[int, int] | None] | None = None,
    ) -> None:
        self.program, self.load = program, load
        self._connect, self._disconnect, self._sessions = connect, disconnect, sessions
        self._process = Process(program)
        self._log_room = LogRoom(None if load.reads_only else log_room, self._process.now_s)
        self._cycles = Cycles(None if load.reads_only else checkpoints, self._process.now_s, self._log_room.look)
        self._counting = counting_of(load, self._process, self._cycles, hold)
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
        """Start the program, and return once all its sessions are connected and the warm-up is over. Raises
        RunFailed."""
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
        if not self._process.has_asked:
            return False
        before, self._ids = self._ids, self._sessions()
        if len(self._ids) < self.load.connections:
            return False
        if not self.program.asks_first:
            return True
        if self._ids != before:
            self._same_since_s = time.monotonic()
        return time.monotonic() - self._same_since_s >= SAME_FOR_S

    def release(self) -> None:
        self._counting.begin()

    def wait(self, on_poll: Callable[[], None]) -> list[Loop]:
        """Wait until the time is over, or all transactions are done; call `on_poll` a few times a second. Raises
        RunFailed with the program's words.

        Returns no loops, since the generator's sessions keep no times of their own.
        """
        self._counting.wait(on_poll)
        return []

    def done(self, loops: list[Loop], seen: Seen, clocks: Clocks) -> Done:
        done = self.counted(seen.series, seen.unwatched)
        return done._replace(checks=(*clocks.checks(loops), *done.checks))

    def counted(self, series: TimeSeries, unwatched: Sequence[tuple[float, float]] = ()) -> Done:
        """Stop the program and read its log. `series` is what was watched meanwhile, except in the stretches
        `unwatched`. Raises RunFailed with the program's words.
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
        return Done(
            elapsed_s=elapsed_s, connection_s=(elapsed_s,) * self.load.connections,
            transactions=counted.number, latency=latency, turns=of_turns,
            counters=self._counters(counted) | self._cycles.counters(*by_clock) | self._log_room.counters(*by_clock),
            checks=(*self._counting.checks(), *self._rate_check(counted, elapsed_s), *self._refused_check(counted)),
            series=series.model_copy(update={"columns": {**counted.series(edges_s), **series.columns}})
            if series.at_s else series,
        )  # fmt: skip

    def _counters(self, counted: Counted) -> Counters:
        found = {name: float(number) for name, number in counted.not_done.items()}
        if self.load.rate is not None and counted.lag_s is not None:
            found |= dict(zip(("lag_mean_s", "lag_max_s"), counted.lag_s, strict=True))
        found["warm_up_s"] = self._counting.warm_up_s or 0.0
        return {GENERATOR: {name: value for name, value in found.items() if value}}

    def _rate_check(self, counted: Counted, elapsed_s: float) -> Iterator[Check]:
        """A check that fails if the run fell behind its rate."""
        rate = self.load.rate
        if rate is None:
            return
        reached = counted.number / elapsed_s
        # Transactions begin at random moments, so their number varies as that of a Poisson process.
        tolerance = rate * RATE_TOLERANCE + 3 * (rate / elapsed_s) ** 0.5
        if reached >= rate - tolerance:
            return
        got = f"{reached:,.0f} transactions/s" if reached >= _WHOLE else f"{reached:.3g} transactions/s"
        got += f", begun up to {counted.lag_s[1]:.3g} s late" if counted.lag_s is not None else ""
        got += f", {skipped} skipped" if (skipped := counted.not_done.get("skipped")) else ""
        yield Check(
            name=BEHIND_RATE, asked=f"{rate:,.7g} transactions/s", got=got, ok=False, read_from=self.program.title
        )

    def _refused_check(self, counted: Counted) -> Iterator[Check]:
        """A check that fails if too many transactions were refused or made again."""
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
        """End the program and everything that it started. Never raises, since it is also called after errors."""
        self._process.close()
        first, self._first = self._first, None
        with contextlib.suppress(Exception):
            self._counting.close()
        if first is not None:
            with contextlib.suppress(Exception):
                self._disconnect(first)
        self._process.remove_folder()
