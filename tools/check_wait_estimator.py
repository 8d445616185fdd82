"""Checks the wait estimator against a kernel trace: `python tools/check_wait_estimator.py` (Linux, root, a few minutes).

Starts private servers, runs short loads, and samples them just as a run does. At the same time the kernel traces every
switch, wake-up and system call of the worker sessions: that is the truth. A session asleep in `futex` waits for a latch,
in `epoll_wait` for a lock or another process, in `fdatasync` for the log's sync, and so on; what is known of a session is
therefore the class of its system call, and estimates are summed by the same classes. See docs/waits-postgresql.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from storagelab.errors import StoragelabError
from storagelab.model import Config, LayoutConfig, TargetConfig, WorkloadConfig
from storagelab.targets.postgres.binaries import find_binaries
from storagelab.targets.postgres.layout import Layout
from storagelab.targets.postgres.sampler import Sampled, Sampler
from storagelab.targets.postgres.server import Server
from storagelab.targets.postgres.workload import Workers
from storagelab.values import Scalar
from storagelab.waits import NO_EVENT, ON_CPU, RUNNABLE_NO_EVENT, SampledWaits, normalise

TRACING = Path("/sys/kernel/tracing")
EVENTS = ("sched/sched_switch", "sched/sched_wakeup", "raw_syscalls/sys_enter", "raw_syscalls/sys_exit")
BUFFER_KB_PER_CPU = 400_000
MEMORY_GROUP = Path("/sys/fs/cgroup/memory/storagelab-check")
READ_LIMIT_BYTES = 120 * 2**20
READ_ROWS = 2_000_000
SCHEMA = "wait_check"
CLASSES = ("latch", "lock", "sync", "write", "read", "spin", "no event")
NO_CLASS = "no event"

CALLS = {  # numbers of x86-64
    "latch": {202, 449}, "lock": {232, 281, 441, 7, 271}, "sync": {74, 75, 277}, "read": {0, 17, 19, 295, 221, 426},
    "write": {1, 18, 20, 296, 285, 77}, "spin": {23, 35, 230, 270},
}  # fmt: skip
CLASS_OF_CALL = {number: name for name, numbers in CALLS.items() for number in numbers}


def class_of_event(wait_type: str) -> str:
    """The class of system call that a session in this wait sleeps in."""
    kind, _, name = wait_type.partition(":")
    if kind == "LWLock":
        return "latch"
    if kind in ("Lock", "IPC", "BufferPin") or name.startswith("Aio"):
        return "lock"
    if kind == "IO":
        for ending, found in (("Sync", "sync"), ("SYNC", "sync"), ("Read", "read"), ("Prefetch", "read")):
            if name.endswith(ending):
                return found
        return "write"
    return "spin" if kind == "Timeout" else NO_CLASS


# --- The truth --------------------------------------------------------------------------------------------------------


@dataclass
class Truth:
    """Seconds of all sessions by class of system call: asleep, queued for a CPU, running."""

    blocked_s: Counter[str] = field(default_factory=Counter)
    queued_s: Counter[str] = field(default_factory=Counter)
    running_s: Counter[str] = field(default_factory=Counter)
    sleeps: Counter[str] = field(default_factory=Counter)


class Trace:
    """A trace of its own, of some processes only, kept in memory until the load is over so that no reader disturbs it."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._folder = TRACING / "instances" / "storagelab-check"
        self._pids = pids

    def __enter__(self) -> Trace:
        with contextlib.suppress(OSError):
            self._folder.rmdir()
        self._folder.mkdir()
        self._set("trace_clock", "mono")
        self._set("buffer_size_kb", str(BUFFER_KB_PER_CPU))
        self._set("set_event_pid", " ".join(map(str, self._pids)))
        for event in EVENTS:
            self._set(f"events/{event}/enable", "1")
        return self

    def __exit__(self, *_: object) -> None:
        self._set("tracing_on", "0")
        for event in EVENTS:
            self._set(f"events/{event}/enable", "0")
        self._folder.rmdir()

    def _set(self, name: str, value: str) -> None:
        (self._folder / name).write_text(value)

    def stop(self) -> None:
        self._set("tracing_on", "0")

    def lines(self) -> Iterator[str]:
        """What was traced, oldest first. Raises RuntimeError if the buffer was too small to hold it all."""
        for stats in self._folder.glob("per_cpu/cpu*/stats"):
            lost = re.search(r"^overrun: (\d+)", stats.read_text(), re.MULTILINE)
            if lost and int(lost[1]):
                raise RuntimeError(f"the trace lost {lost[1]} events; run a shorter load")
        with (self._folder / "trace").open() as file:
            yield from file


_LINE = re.compile(r".*?-(\d+)\s+\[\d+\]\s+\S+\s+(\d+\.\d+): (\w+): (.*)")
_SWITCH = re.compile(r"prev_comm=.* prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=.* next_pid=(\d+) ")
_WOKEN = re.compile(r"comm=.* pid=(\d+) prio")


class Session:
    """Follows one process through the trace."""

    def __init__(self, truth: Truth, window: tuple[float, float]) -> None:
        self._truth = truth
        self._since_s, self._end_s = window
        self.state = "blocked"
        self._call: int | None = None

    @property
    def _class(self) -> str:
        return NO_CLASS if self._call is None else CLASS_OF_CALL.get(self._call, NO_CLASS)

    def becomes(self, state: str, at_s: float) -> None:
        self.account(at_s)
        if state == "blocked" and self._since_s < self._end_s:
            self._truth.sleeps[self._class] += 1
        self.state = state

    def calls(self, number: int | None, at_s: float) -> None:
        self.account(at_s)
        self._call = number

    def account(self, at_s: float) -> None:
        """Books the time since the last change, as far as it lies within the window."""
        at_s = min(at_s, self._end_s)
        if at_s > self._since_s:
            by_state = {"blocked": self._truth.blocked_s, "queued": self._truth.queued_s}
            by_state.get(self.state, self._truth.running_s)[self._class] += at_s - self._since_s
            self._since_s = at_s


def read_truth(lines: Iterable[str], windows: dict[int, tuple[float, float]]) -> Truth:
    """Adds up the trace: each session (by PID) from its start to its finish, by the monotonic clock."""
    truth = Truth()
    sessions = {pid: Session(truth, window) for pid, window in windows.items()}
    for line in lines:
        match = _LINE.match(line)
        if match is not None:
            _follow(sessions, int(match[1]), float(match[2]), match[3], match[4])
    for session in sessions.values():
        session.account(float("inf"))
    return truth


def _follow(sessions: dict[int, Session], pid: int, at_s: float, event: str, detail: str) -> None:
    if event == "sched_switch":
        switch = _SWITCH.match(detail)
        assert switch is not None, detail
        before, after = sessions.get(int(switch[1])), sessions.get(int(switch[3]))
        if before is not None:
            before.becomes("queued" if switch[2].startswith("R") else "blocked", at_s)
        if after is not None:
            after.becomes("running", at_s)
    elif event == "sched_wakeup":
        woken = _WOKEN.match(detail)
        session = sessions.get(int(woken[1])) if woken else None
        if session is not None and session.state == "blocked":
            session.becomes("queued", at_s)
    elif pid in sessions:
        sessions[pid].calls(int(detail.split()[1]) if event == "sys_enter" else None, at_s)


# --- The loads --------------------------------------------------------------------------------------------------------

_READS = """
CREATE PROCEDURE {schema}.insert_rows(
    row_count bigint, rows_per_transaction bigint, rows_per_report bigint, gate bigint,
    INOUT started_s float8 DEFAULT NULL, INOUT finished_s float8 DEFAULT NULL)
LANGUAGE plpgsql AS $body$
DECLARE
    done bigint := 0;
    wanted bigint;
    found_c4 bigint;
    seen bigint := 0;
BEGIN
    PERFORM pg_advisory_lock_shared(gate);
    PERFORM pg_advisory_unlock_shared(gate);
    COMMIT;
    started_s := extract(epoch FROM clock_timestamp());
    WHILE done < row_count LOOP
        wanted := 1 + floor(random() * {rows});
        SELECT c4 INTO found_c4 FROM {schema}.to_read WHERE id = wanted;
        seen := seen + found_c4;
        done := done + 1;
        IF done % rows_per_report = 0 THEN
            PERFORM set_config('application_name', 'storagelab ' || done, false);
        END IF;
    END LOOP;
    finished_s := extract(epoch FROM clock_timestamp());
END
$body$"""


@dataclass(frozen=True)
class Load:
    """One load on one kind of server. Without `rows_per_transaction` it reads at random."""

    name: str
    rows_per_connection: int
    rows_per_transaction: int | None = None
    data_files: int = 1
    settings: tuple[tuple[str, Scalar], ...] = ()

    @property
    def config(self) -> Config:
        workload = WorkloadConfig(
            connections=16,
            rows_per_connection=self.rows_per_connection,
            rows_per_transaction=self.rows_per_transaction or 1,
        )
        return Config(
            target=TargetConfig(engine="postgres"), layout=LayoutConfig(data_files=self.data_files), workload=workload
        )


@dataclass(frozen=True)
class Checked:
    """One traced run: what the estimator was given, and what was true."""

    load: Load
    raw: SampledWaits
    truth: Truth
    sampled: Sampled


@contextlib.contextmanager
def server_for(bin_dir: str | None, settings: dict[str, Scalar]) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="storagelab-check-"))
    server = Server(find_binaries(bin_dir), data_folder=folder / "data", log_folder=folder / "log", settings=settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def connect(server: Server) -> psycopg.Connection[Any]:
    connection = psycopg.connect(server.conninfo, autocommit=True)
    connection.prepare_threshold = None
    return connection


def make_tables(own: psycopg.Connection[Any], server: Server, load: Load) -> Layout:
    layout = Layout(load.config, SCHEMA, None)
    layout.drop(own)
    layout.create(own)
    if load.rows_per_transaction is None:
        own.execute(f"DROP PROCEDURE {SCHEMA}.insert_rows")
        own.execute(_READS.format(schema=SCHEMA, rows=READ_ROWS))
        own.execute(
            f"CREATE TABLE {SCHEMA}.to_read AS SELECT g AS id, 1::bigint AS c4, repeat('a', 111) AS c3 "
            f"FROM generate_series(1::bigint, {READ_ROWS}) g ORDER BY random()"
        )
        own.execute(f"CREATE UNIQUE INDEX ON {SCHEMA}.to_read (id)")
        own.execute(f"VACUUM ANALYZE {SCHEMA}.to_read")
    own.execute("CHECKPOINT")
    if load.rows_per_transaction is None:
        _forget_pages(server.data_folder)
    return layout


def _forget_pages(folder: Path) -> None:
    """Pages that the kernel holds count to the memory group that read them first, so they have to go."""
    subprocess.run(["sync"], check=True)
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextlib.contextmanager
def little_memory(server: Server, wanted: bool) -> Iterator[None]:
    """The server and its sessions to come in a memory group so small that the table doesn't fit (cgroup version 1)."""
    if not wanted:
        yield
        return
    MEMORY_GROUP.mkdir(exist_ok=True)
    (MEMORY_GROUP / "memory.limit_in_bytes").write_text(str(READ_LIMIT_BYTES))
    (MEMORY_GROUP / "cgroup.procs").write_text(str(_postmaster(server)))
    try:
        yield
    finally:
        for pid in (MEMORY_GROUP / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (MEMORY_GROUP.parent / "cgroup.procs").write_text(pid)
        MEMORY_GROUP.rmdir()


def _postmaster(server: Server) -> int:
    return int((server.data_folder / "postmaster.pid").read_text().split()[0])


def run(server: Server, load: Load, sampler_class: type[Sampler] = Sampler) -> Checked:
    """One traced and sampled run."""
    with connect(server) as own:
        layout = make_tables(own, server, load)
        with little_memory(server, load.rows_per_transaction is None):
            workers = Workers(lambda: connect(server), load.config.workload, SCHEMA, gate=4711)
            try:
                workers.open()
                sampler = sampler_class(
                    connect=lambda: connect(server), pids=workers.pids, hz=50, sample_waits=True, kernel_view=True,
                    relations=layout.relations(own), probe=dict, rows_per_report=200,
                )  # fmt: skip
                sampler.prepare()
                workers.gather(own)
                with Trace(workers.pids) as trace:
                    sampler.baseline()
                    sampler.start()
                    workers.release(own)
                    loops = workers.wait(lambda: None)
                    sampled = sampler.stop()
                    trace.stop()
                    shift_s = time.time() - time.monotonic()  # the server tells the time of day, the trace does not
                    windows = {
                        pid: (loop.started_s - shift_s, loop.finished_s - shift_s)
                        for pid, loop in zip(workers.pids, loops, strict=True)
                    }
                    truth = read_truth(trace.lines(), windows)
            finally:
                workers.close()
    if sampled.error:
        raise RuntimeError(sampled.error)
    began_s, done_s = min(loop.started_s for loop in loops), max(loop.finished_s for loop in loops)
    raw = sampled.waits(done_s - began_s, sum(loop.finished_s - loop.started_s for loop in loops), len(loops))
    assert raw is not None
    return Checked(load, raw, truth, sampled)
