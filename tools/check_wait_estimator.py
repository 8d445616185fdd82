"""Checks the wait estimator against a kernel trace: `python tools/check_wait_estimator.py` (Linux, root, some minutes).

It starts private servers, runs short loads, and samples their waits just as a run does. At the same time the kernel
traces every switch, wake-up and system call of the worker sessions. The trace has the true times. A session that sleeps
in `futex` waits for a latch, in `epoll_wait` for a lock or another process, in `fdatasync` for the log's sync, and so
on. The trace only has the class of a session's system call, so estimates are summed by the same classes. See
docs/reference/waits-postgresql.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from kernel_trace import CLASSES, NO_CLASS, TRACING, Trace, Truth, read_truth

from storagelab.engines.postgres.loads.inserts import Tables, Workers
from storagelab.engines.postgres.sampler import Sampler
from storagelab.engines.postgres.server import Server, find_binaries
from storagelab.model.config import Config, LayoutConfig, TargetConfig
from storagelab.model.loads.inserts import RandomInsert
from storagelab.model.values import Scalar
from storagelab.model.waits import RUNNABLE_NO_EVENT, SampledWaits, conservation, normalise
from storagelab.watching.sampler import Observation

MEMORY_GROUP = Path(f"/sys/fs/cgroup/memory/storagelab-check-{os.getpid()}")
READ_LIMIT_BYTES = 120 * 2**20
READ_ROWS = 2_000_000
CONNECTIONS = 16
SETTINGS: dict[str, Scalar] = {"shared_buffers": "64MB", "max_wal_size": "4GB"}
SCHEMA = "wait_check"


def class_of_event(wait_type: str) -> str:
    """Returns the class of the system call in which a session sleeps during this wait."""
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


# --- The loads --------------------------------------------------------------------------------------------------------

_READ = """
CREATE PROCEDURE {schema}.insert_rows(
    row_count bigint, rows_per_transaction bigint, rows_per_report bigint, gate bigint,
    seed bigint, worker bigint, reads_per_row float8,
    INOUT started_s float8 DEFAULT NULL, INOUT finished_s float8 DEFAULT NULL,
    INOUT reads_done bigint DEFAULT 0, INOUT reads_found bigint DEFAULT 0)
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
        SELECT {what} INTO found_c4 FROM {schema}.to_read WHERE {which};
        seen := seen + found_c4;
        done := done + 1;
        IF done % rows_per_report = 0 THEN
            PERFORM set_config('application_name', 'storagelab ' || done, false);
        END IF;
    END LOOP;
    finished_s := extract(epoch FROM clock_timestamp());
END
$body$"""


BY_KEY, BY_SCAN = ("c4", "id = wanted"), ("count(*)", "c4 > 1 OR id = wanted")


@dataclass(frozen=True)
class Load:
    """A load in which each connection does its work `times` times. It inserts, or, with `reads`, it reads a table that
    does not fit in memory."""

    name: str
    times: int
    rows_per_transaction: int = 1
    data_files: int = 1
    reads: tuple[str, str] | None = None
    settings: tuple[tuple[str, Scalar], ...] = ()
    oldest_major: int = 14

    @property
    def config(self) -> Config:
        workload = RandomInsert(
            connections=CONNECTIONS,
            rows_per_connection=self.times,
            rows_per_transaction=self.rows_per_transaction,
        )
        return Config(
            target=TargetConfig(engine="postgres"), layout=LayoutConfig(data_files=self.data_files), workload=workload
        )


@dataclass(frozen=True)
class Checked:
    """One traced run: the estimator's input, and the true times."""

    load: Load
    raw: SampledWaits
    truth: Truth
    sampled: Observation


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


def make_tables(own: psycopg.Connection[Any], server: Server, load: Load) -> Tables:
    layout = Tables(load.config, SCHEMA, None)
    layout.drop(own)
    layout.create(own)
    if load.reads:
        what, which = load.reads
        own.execute(f"DROP PROCEDURE {SCHEMA}.insert_rows")
        own.execute(_READ.format(schema=SCHEMA, rows=READ_ROWS, what=what, which=which))
        own.execute(
            f"CREATE TABLE {SCHEMA}.to_read AS SELECT g AS id, 1::bigint AS c4, repeat('a', 111) AS c3 "
            f"FROM generate_series(1::bigint, {READ_ROWS}) g ORDER BY random()"
        )
        own.execute(f"CREATE UNIQUE INDEX ON {SCHEMA}.to_read (id)")
        own.execute(f"VACUUM ANALYZE {SCHEMA}.to_read")
    own.execute("CHECKPOINT")
    if load.reads:
        _forget_pages(server.data_folder)
    return layout


def _forget_pages(folder: Path) -> None:
    """Drops cached pages, because the kernel counts a page for the memory group that read it first."""
    subprocess.run(["sync"], check=True)
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextlib.contextmanager
def little_memory(server: Server, wanted: bool) -> Iterator[None]:
    """Puts the server and its future sessions into a memory group that is too small for the table. This needs cgroup
    version 1.
    """
    if not wanted:
        yield
        return
    MEMORY_GROUP.mkdir(exist_ok=True)
    (MEMORY_GROUP / "memory.limit_in_bytes").write_text(str(READ_LIMIT_BYTES))
    (MEMORY_GROUP / "cgroup.procs").write_text(str(_postmaster(server)))
    try:
        yield
    finally:
        _dissolve_memory_group()


def _dissolve_memory_group() -> None:
    """Moves the group's processes out and removes the group. It retries for 5 s, because sessions that are ending can't
    be moved."""
    for _ in range(50):
        for pid in (MEMORY_GROUP / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (MEMORY_GROUP.parent / "cgroup.procs").write_text(pid)
        with contextlib.suppress(OSError):
            MEMORY_GROUP.rmdir()
            return
        time.sleep(0.1)


def _postmaster(server: Server) -> int:
    return int((server.data_folder / "postmaster.pid").read_text().split()[0])


def run(server: Server, load: Load, sampler_class: type[Sampler] = Sampler) -> Checked:
    """Makes one traced and sampled run."""
    with connect(server) as own:
        layout = make_tables(own, server, load)
        with little_memory(server, bool(load.reads)):
            workers = Workers(lambda: connect(server), layout, own, 1)
            try:
                workers.open()
                sampler = sampler_class(
                    lambda: connect(server), workers.ids, load.config.measure, kernel_view=True,
                    relations=layout.relations(own), probe=dict,
                )  # fmt: skip
                sampler.prepare()
                workers.gather()
                with Trace(workers.ids) as trace:
                    sampler.baseline()
                    sampler.start()
                    workers.release()
                    loops = workers.wait(lambda: None)
                    sampled = sampler.stop()
                    trace.stop()
                    shift_s = time.time() - time.monotonic()  # the server uses the time of day, the trace does not
                    windows = {
                        pid: (loop.started_s - shift_s, loop.finished_s - shift_s)
                        for pid, loop in zip(workers.ids, loops, strict=True)
                    }
                    truth = read_truth(trace.lines(), windows)
            finally:
                workers.close()
    if sampled.error:
        raise RuntimeError(sampled.error)
    began_s, done_s = min(loop.started_s for loop in loops), max(loop.finished_s for loop in loops)
    raw = sampled.waits(done_s - began_s, sum(loop.finished_s - loop.started_s for loop in loops), len(loops))
    assert isinstance(raw, SampledWaits)
    return Checked(load, raw, truth, sampled)


# --- The comparison ---------------------------------------------------------------------------------------------------

LOADS = (
    Load("commit each row", 6_000, 1),
    Load("commit every 10 rows", 25_000, 10),
    Load("commit every 100 rows", 30_000, 100),
    Load("commit every 1000 rows", 35_000, 1_000),
    Load("commit every 1000 rows, 4 files", 35_000, 1_000, 4),
    Load("commit every 1000 rows, 16 files", 35_000, 1_000, 16),
    Load("reads by key", 8_000, reads=BY_KEY),
    Load("reads by scan", 3, reads=BY_SCAN),
    Load("reads by scan, io_method sync", 3, reads=BY_SCAN, settings=(("io_method", "sync"),), oldest_major=18),
)
SMALLEST_SHARE_SHOWN = 0.5
EVENTS_SHOWN = 5


def percent(seconds: float, checked: Checked) -> float:
    return 100 * seconds / checked.raw.busy_s


@dataclass(frozen=True)
class Row:
    """One class of one run. `resource` and `signal` are in % of the connections' time, `count` is in % of all sleeps.
    Each pair has the estimate and the truth."""

    name: str
    resource: tuple[float, float]
    signal: tuple[float, float]
    count: tuple[float, float]


def comparison(checked: Checked) -> list[Row]:
    """Returns the classes with at least `SMALLEST_SHARE_SHOWN` % of the run's time."""
    truth = checked.truth
    resource_s, signal_s, count = (defaultdict[str, float](float) for _ in range(3))
    for row in normalise(checked.raw):
        if row.is_wait:
            name = NO_CLASS if row.wait_type == RUNNABLE_NO_EVENT else class_of_event(row.wait_type)
            resource_s[name] += row.resource_s or 0.0
            signal_s[name] += row.signal_s or 0.0
            count[name] += (row.wait_count or 0.0) if row.wait_type != RUNNABLE_NO_EVENT else 0.0
    sleeps = sum(truth.sleeps.values())
    rows = [
        Row(
            name,
            (percent(resource_s[name], checked), percent(truth.blocked_s[name], checked)),
            (percent(signal_s[name], checked), percent(truth.queued_s[name], checked)),
            (100 * count[name] / (checked.raw.voluntary_switches or 1), 100 * truth.sleeps[name] / (sleeps or 1)),
        )
        for name in CLASSES
    ]
    return [row for row in rows if max(*row.resource, *row.signal) >= SMALLEST_SHARE_SHOWN]


def show(checked: Checked) -> None:
    """Prints the rows of the first table."""
    raw, truth = checked.raw, checked.truth
    assert raw.cpu_s is not None
    assert raw.runqueue_s is not None
    by_kernel = (raw.busy_s - raw.cpu_s - raw.runqueue_s, raw.runqueue_s, raw.cpu_s)
    by_trace = tuple(sum(seconds.values()) for seconds in (truth.blocked_s, truth.queued_s, truth.running_s))
    totals = " | ".join(
        " / ".join(f"{percent(seconds, checked):.1f}" for seconds in found) for found in (by_kernel, by_trace)
    )
    name, sleeps = checked.load.name, f"{(raw.voluntary_switches or 0) / sum(truth.sleeps.values()):.2f}"
    for row in comparison(checked):
        pairs = " | ".join(f"{estimate:.1f} / {true:.1f}" for estimate, true in (row.resource, row.signal, row.count))
        print(f"| {name} | {row.name} | {pairs} | {totals} | {sleeps} |")
        name, totals, sleeps = "", " | ", ""
    sys.stdout.flush()


def show_events(results: Sequence[Checked]) -> None:
    print("\n| load | rows/s | passes | explained | waits named most, % of samples |\n|---|---|---|---|---|")
    for checked in results:
        events = sorted(checked.raw.events, key=lambda event: -event.ticks)
        ticks = sum(event.ticks for event in events)
        named = [
            f"{event.wait_type or '(none)'} {100 * event.ticks / ticks:.1f}" for event in events[:EVENTS_SHOWN] if ticks
        ]
        explained = conservation(checked.raw).explained or 0.0
        rows_per_s = checked.load.config.database_load.rows / checked.raw.elapsed_s
        print(
            f"| {checked.load.name} | {rows_per_s:,.0f} | {checked.raw.passes} | {100 * explained:.0f} % "
            f"| {', '.join(named)} |"
        )


def show_errors(results: Sequence[Checked]) -> None:
    rows = [row for checked in results for row in comparison(checked)]
    for name, errors in (
        ("RESOURCE", [row.resource[0] - row.resource[1] for row in rows]),
        ("SIGNAL", [row.signal[0] - row.signal[1] for row in rows]),
        ("SIGNAL of no event", [row.signal[0] - row.signal[1] for row in rows if row.name == NO_CLASS]),
        ("share of WaitCount", [row.count[0] - row.count[1] for row in rows if row.name != NO_CLASS]),
    ):
        if errors:
            mean = sum(map(abs, errors)) / len(errors)
            print(f"{name}: mean error {mean:.2f} points, from {min(errors):+.1f} to {max(errors):+.1f}")


def why_not_here() -> str:
    """Returns why no trace can be made on this machine, or "" if one can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "this check knows the system calls of Linux on x86-64 only"
    if os.geteuid() != 0:
        return "this check traces the kernel, which only root may"
    if not (TRACING / "instances").is_dir():
        return f"this check needs tracefs: mount -t tracefs nodev {TRACING}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--bin-dir", help="folder of the server's binaries (default: as storagelab finds them)")
    parser.add_argument("--only", default="", help="only loads whose name holds this")
    options = parser.parse_args()
    reason = why_not_here()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    binaries = find_binaries(options.bin_dir)
    loads = [load for load in LOADS if options.only in load.name and load.oldest_major <= binaries.major]
    if not MEMORY_GROUP.parent.is_dir():
        print("no memory groups of cgroup version 1 here: loads that read are left out", file=sys.stderr)
        loads = [load for load in loads if not load.reads]
    print(
        f"PostgreSQL {binaries.version}, {CONNECTIONS} connections, {os.cpu_count()} CPUs; % of the connections' time\n"
    )
    print(
        "| load | class | RESOURCE est / truth | SIGNAL est / truth | asleep / queued / CPU by schedstat | by trace |"
    )
    print("|---|---|---|---|---|---|")
    results = []
    for load in loads:
        with server_for(options.bin_dir, {**SETTINGS, **dict(load.settings)}) as server:
            results.append(run(server, load))
        show(results[-1])
    show_events(results)
    print()
    show_errors(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
