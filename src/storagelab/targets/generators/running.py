"""A load generator's run: its program works beside the server, and its sessions stand for a run's connections.

The part that counts begins once all sessions are connected and the warm-up is over: after its time, or when throughput has
settled. A run of set time ends when its time is over: counters are then read while all sessions still work, and only
afterwards the program is told to stop.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from storagelab.errors import RunFailed
from storagelab.machine.kills import Kills
from storagelab.model.measurement import BEHIND_RATE, SETTLED, Check, TimeSeries
from storagelab.model.workload import GeneratedLoad
from storagelab.stopping import uninterrupted
from storagelab.targets import marks, temporary
from storagelab.targets.descriptors import read_file
from storagelab.targets.generators import settling
from storagelab.targets.generators.transactions import Counted
from storagelab.targets.loops import GATE_TIMEOUT_S, POLL_S, Loop
from storagelab.targets.steps import Counters, Done
from storagelab.targets.unprivileged import give

C = TypeVar("C")
STOP_TIMEOUT_S = 30.0
_SESSIONS_POLL_S = 0.02
BEFORE_ITS_END_S = 0.2
"""Sessions are looked at for the last time this long before a generator that keeps the time itself ends."""
_WHOLE = 100
"""From so many a second on, parts of a transaction are left out."""
RATE_TOLERANCE = 0.05
"""A run that does fewer transactions than its rate by more than this share has fallen behind it."""


@dataclass(frozen=True)
class Program:
    """What is known of one generator: its `title`; its `command` for a folder and the longest time in seconds that it may
    run; how its log in that folder is `read`; the `words` for what it said; the signal that ends it after its current
    transactions.
    With `says_it_counts` it keeps the warm-up and the set time itself: it says these words when the warm-up is over,
    and has ended soon after the set time. `inputs` are the files that it finds in the folder, by name; `owner` (uid,
    gid) gets all of them, `in_child` prepares its process."""

    title: str
    command: Callable[[Path, float], Sequence[str]]
    read: Callable[[Path], Counted]
    words: Callable[[str], str]
    stop: signal.Signals
    environment: Mapping[str, str]
    inputs: Mapping[str, bytes]
    says_it_counts: bytes = b""
    per_second: Callable[[str], list[float]] = lambda _: []
    owner: tuple[int, int] | None = None
    in_child: Callable[[Path], Callable[[], None] | None] = lambda _: None


class Generator(Generic[C]):
    """The run of one generator. `connect` opens a session with the settings of the load's own, `sessions` asks the server for
    the ids of the generator's sessions. `hold` keeps the tables locked until what it gives is called: so the first of a
    set number of transactions waits until the run is watched."""

    def __init__(
        self,
        program: Program,
        load: GeneratedLoad,
        connect: Callable[[], C],
        disconnect: Callable[[C | None], None],
        sessions: Callable[[], list[int]],
        hold: Callable[[], Callable[[], None]] | None = None,
    ) -> None:
        self.program, self.load = program, load
        self._connect, self._disconnect, self._sessions = connect, disconnect, sessions
        self._hold = hold if load.transactions_per_connection is not None else None
        self._let_go: Callable[[], None] = lambda: None
        self._first: C | None = None
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._to_epoch_s = self._start_s = self._end_s = self._counts_since_s = 0.0
        self._trend: settling.Trend | None = None
        self._warm_up_s: float | None = None
        self._mark, self._kills = marks.new(), Kills("it was started")
        self.ids: list[int] = []

    @property
    def first(self) -> C:
        assert self._first is not None
        return self._first

    @property
    def done_so_far(self) -> int:
        """In the unit of the load: milliseconds of a run of set time; transactions are known only when they are done."""
        if self.load.transactions_per_connection is not None or not self._start_s:
            return 0
        return min(self.load.work.amount, round((self._now_s() - self._start_s) * 1000))

    def open(self) -> None:
        self._first = self._connect()

    def gather(self) -> None:
        """Start the program, and return once all its sessions are connected and the warm-up is over. Raises RunFailed."""
        if self._hold is not None:
            self._let_go = self._hold()
        self._launch()
        deadline = time.monotonic() + GATE_TIMEOUT_S
        while len(ids := self._sessions()) < self.load.connections:
            self._refuse_if_ended()
            if time.monotonic() > deadline:
                raise RunFailed(
                    f"after {GATE_TIMEOUT_S:.0f} s only {len(ids)} of the {self.load.connections} sessions of "
                    f"{self.program.title} were connected"
                )
            time.sleep(_SESSIONS_POLL_S)
        self.ids = ids
        if self.program.says_it_counts:
            while self.program.says_it_counts not in read_file(self._own_folder / "said"):
                self._refuse_if_ended()
                time.sleep(_SESSIONS_POLL_S)
            self._counts_since_s = self._now_s()
            return
        began_s, seconds = time.monotonic(), 0
        to_find = self.load.warm_up_s == "auto"
        while (left_s := began_s + self.load.longest_warm_up_s - time.monotonic()) > 0:
            self._refuse_if_ended()
            time.sleep(min(POLL_S, left_s))
            if to_find and len(rates := self.program.per_second(self._raw_said())) > seconds:
                seconds = len(rates)
                self._trend = settling.trend(np.asarray(rates), self.load.duration_s)
                if self._trend is not None and self._trend.settled:
                    break
        self._warm_up_s = time.monotonic() - began_s if to_find else None

    def _launch(self) -> None:
        self._folder = temporary.short_path("generator")
        temporary.prepare(self._folder)
        self._folder.mkdir(mode=0o700)
        for name, content in self.program.inputs.items():
            (self._folder / name).write_bytes(content)
        longest_s = self.load.longest_warm_up_s + self.load.duration_s + GATE_TIMEOUT_S + STOP_TIMEOUT_S
        command, in_child = self.program.command(self._folder, longest_s), self.program.in_child(self._folder)
        # A generator's log counts from the epoch with a clock that nobody can set, and so does this.
        self._to_epoch_s = time.time() - time.monotonic()
        with (self._folder / "said").open("xb") as said, uninterrupted():
            if self.program.owner is not None:  # from here on, links may stand in the place of its files
                give(self.program.owner, *self._folder.iterdir(), self._folder)
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=self._folder,
                env={**self.program.environment, marks.VARIABLE: self._mark}, start_new_session=True, preexec_fn=in_child,
            )  # fmt: skip

    def _now_s(self) -> float:
        return time.monotonic() + self._to_epoch_s

    def _refuse_if_ended(self) -> None:
        """Raises RunFailed with the program's words if it has ended although it should still work."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise RunFailed(f"{self.program.title} ended early: {self._said()}")

    @property
    def _own_folder(self) -> Path:
        assert self._folder is not None
        return self._folder

    def _raw_said(self) -> str:
        return read_file(self._own_folder / "said").decode("utf-8", "replace")

    def _said(self) -> str:
        killed = self._kills.words(self._process.poll()) if self._process is not None else ""
        return f"it was {killed}" if killed else self.program.words(self._raw_said())

    def release(self) -> None:
        """From now on, transactions count."""
        self._start_s = self._now_s()
        self._let_go()

    def wait(self, on_poll: Callable[[], None]) -> list[Loop]:
        """Wait until the time is over, or all transactions are done; call `on_poll` a few times a second. Its sessions keep
        no times of their own. Raises RunFailed with the program's words."""
        assert self._process is not None
        if self.load.transactions_per_connection is not None:
            while self._process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(POLL_S)
                on_poll()
        else:
            itself = bool(self.program.says_it_counts)
            ends_s = self.load.duration_s + (self._counts_since_s - BEFORE_ITS_END_S if itself else self._start_s)
            while (left_s := ends_s - self._now_s()) > 0 and not (itself and self._process.poll() == 0):
                self._refuse_if_ended()
                on_poll()
                time.sleep(min(POLL_S, left_s))
        self._end_s = self._now_s()
        return []

    def settle(self) -> None:
        """Its sessions report their counters by themselves, once a second."""

    def done(self, series: TimeSeries) -> Done:
        """Stop the program and read its log; `series` is what was watched meanwhile. Raises RunFailed with its words."""
        assert self._process is not None
        ends_itself = bool(self.program.says_it_counts) or self.load.transactions_per_connection is not None
        ended_early = self._process.poll() is not None and not ends_itself
        self._stop(patiently=ends_itself)
        if self._process.returncode != 0 or ended_early:
            raise RunFailed(f"{self.program.title} failed: {self._said()}")
        logged = self.program.read(self._own_folder)
        if not ends_itself:
            counted = logged.within(self._start_s, self._end_s)
            start_s, end_s = self._start_s, self._end_s
        else:
            counted = logged.begun_at_earliest(self._start_s) if self._hold is not None else logged
            start_s, end_s = counted.span_s if counted.number else (self._start_s, self._end_s)
        if not counted.number:
            raise RunFailed(
                f"{self.program.title} did no transaction in {end_s - start_s:.1f} s"
                + (f"; {counted.failed} were refused" if counted.failed else "")
            )
        edges_s = [self._start_s, *(self._start_s + at_s for at_s in series.at_s)]
        return Done(
            elapsed_s=end_s - start_s, connection_s=(end_s - start_s,) * self.load.connections,
            transactions=counted.number, latency=counted.latency(),
            counters=self._counters(counted), checks=(*self._settled_check(), *self._rate_check(counted, end_s - start_s)),
            series=series.model_copy(update={"columns": {**counted.series(edges_s), **series.columns}})
            if series.at_s else series,
        )  # fmt: skip

    def _stop(self, *, patiently: bool) -> None:
        assert self._process is not None
        if self._process.poll() is None and not patiently:
            self._process.send_signal(self.program.stop)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{self.program.title} did not stop within {STOP_TIMEOUT_S:.0f} s") from None

    def _counters(self, counted: Counted) -> Counters:
        found = {"skipped": float(counted.skipped), "failed": float(counted.failed)}
        if self.load.rate is not None and counted.lag_s is not None:
            found |= dict(zip(("lag_mean_s", "lag_max_s"), counted.lag_s, strict=True))
        found["warm_up_s"] = self._warm_up_s or 0.0
        return {"generator": {name: value for name, value in found.items() if value}}

    def _settled_check(self) -> Iterator[Check]:
        """A check that fails if the warm-up was to be found, and throughput did not settle in time."""
        if self._warm_up_s is None or (self._trend is not None and self._trend.settled):
            return
        got = "too short to tell"
        if self._trend is not None:
            change, half = 100 * float(self._trend.change), 100 * float(self._trend.half)
            got = f"bound to move by {change:+.2g} ± {half:.2g} % over {self.load.duration_s:g} s"
        yield Check(
            name=SETTLED, asked=f"settled within {100 * settling.BAND:g} %",
            got=f"{got} after {self._warm_up_s:.0f} s of warm-up", ok=False, read_from=self.program.title,
        )  # fmt: skip

    def _rate_check(self, counted: Counted, elapsed_s: float) -> Iterator[Check]:
        """A check that fails if the run fell behind its rate."""
        rate = self.load.rate
        if rate is None:
            return
        reached = counted.number / elapsed_s
        # Transactions begin at random moments, so their number scatters as that of a Poisson process.
        room = rate * RATE_TOLERANCE + 3 * (rate / elapsed_s) ** 0.5
        if reached >= rate - room:
            return
        got = f"{reached:,.0f} transactions/s" if reached >= _WHOLE else f"{reached:.3g} transactions/s"
        got += f", begun up to {counted.lag_s[1]:.3g} s late" if counted.lag_s is not None else ""
        got += f", {counted.skipped} skipped" if counted.skipped else ""
        yield Check(
            name=BEHIND_RATE, asked=f"{rate:,.7g} transactions/s", got=got, ok=False, read_from=self.program.title
        )

    def close(self) -> None:
        """End the program and everything that it started. Never raises, since it is also called after errors."""
        process, self._process = self._process, None
        if process is not None:
            with uninterrupted():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                marks.end(self._mark)
        with contextlib.suppress(Exception):
            self._let_go()
        first, self._first = self._first, None
        if first is not None:
            with contextlib.suppress(Exception):
                self._disconnect(first)
        if self._folder is not None:
            temporary.remove(self._folder)
            self._folder = None
