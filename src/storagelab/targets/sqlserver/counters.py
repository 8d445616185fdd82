"""The server's counters: waits by session and of the whole server, reads and writes by file, CPU time, and rates.

A wait enters the server's counters when it ends. Waits in progress are added from sys.dm_os_waiting_tasks, as sp_BlitzFirst
does, so that the difference between two readings is what was waited between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from storagelab.model.waits import CountedWait
from storagelab.targets.sqlserver import tsql
from storagelab.targets.sqlserver.connecting import Row, Session
from storagelab.targets.sqlserver.events import GATE, event_of
from storagelab.targets.steps import Counters

_NS_PER_MS = 1_000_000

SESSION_WAITS = """
SELECT wait_type, SUM(waiting_tasks_count), SUM(wait_time_ms), SUM(signal_wait_time_ms)
FROM sys.dm_exec_session_wait_stats WHERE session_id IN ({sessions}) GROUP BY wait_type"""
SERVER_WAITS = """
SELECT wait_type, waiting_tasks_count, wait_time_ms, signal_wait_time_ms
FROM sys.dm_os_wait_stats WHERE waiting_tasks_count > 0"""
IN_PROGRESS = """
SELECT wait_type, COUNT_BIG(*), SUM(wait_duration_ms), CAST(0 AS bigint)
FROM sys.dm_os_waiting_tasks WHERE wait_type IS NOT NULL {which} GROUP BY wait_type"""
CPU_TIME = "SELECT SUM(CAST(cpu_time AS bigint)) FROM sys.dm_exec_sessions WHERE session_id IN ({sessions})"
FILE_STATS = """
SELECT f.name, s.num_of_reads, s.num_of_bytes_read, s.io_stall_read_ms,
       s.num_of_writes, s.num_of_bytes_written, s.io_stall_write_ms
FROM sys.dm_io_virtual_file_stats(DB_ID({database}), NULL) AS s
JOIN sys.master_files AS f ON f.database_id = s.database_id AND f.file_id = s.file_id"""
_FILE_COLUMNS = ("reads", "read_bytes", "read_stall_ms", "writes", "write_bytes", "write_stall_ms")
CUMULATIVE_COUNTER = 272_696_576
"""PERF_COUNTER_BULK_COUNT: the value only grows, although the name says per second."""
RATES = f"""
SELECT RTRIM(counter_name), cntr_value FROM sys.dm_os_performance_counters
WHERE cntr_type = {CUMULATIVE_COUNTER} AND (
    (instance_name = N'' AND counter_name IN (N'Page Splits/sec', N'Pages Allocated/sec', N'Extents Allocated/sec',
        N'Checkpoint pages/sec', N'Background writer pages/sec', N'Lazy writes/sec', N'Page reads/sec',
        N'Page writes/sec', N'Readahead pages/sec'))
    OR (instance_name = {{database}} AND counter_name IN (N'Log Flushes/sec', N'Log Bytes Flushed/sec',
        N'Log Flush Waits/sec', N'Transactions/sec')))"""


class WaitCount(NamedTuple):
    """One wait type, cumulative, in the server's form: wait includes signal."""

    waits: int
    wait_ms: int
    signal_ms: int


Waits = dict[str, WaitCount]


@dataclass
class SessionCounts:
    """What the workers' sessions waited for, and their CPU time, over a run."""

    waits: Waits = field(default_factory=dict)
    cpu_s: float = 0.0


def read_session_waits(session: Session, sessions: list[int]) -> Waits:
    """What these sessions have waited for since they logged in, waits in progress included."""
    ids = tsql.integers(sessions)
    counted = session.rows(SESSION_WAITS.format(sessions=ids))
    return summed(counted, session.rows(IN_PROGRESS.format(which=f"AND session_id IN ({ids})")))


def read_server_waits(session: Session) -> Waits:
    """What the whole server has waited for since it started, including its own threads and other users' sessions."""
    return summed(session.rows(SERVER_WAITS), session.rows(IN_PROGRESS.format(which="")))


def summed(*readings: Iterable[Row]) -> Waits:
    total: Waits = {}
    for reading in readings:
        for name, waits, wait_ms, signal_ms in reading:
            before = total.get(name, WaitCount(0, 0, 0))
            total[name] = WaitCount(
                before.waits + int(waits), before.wait_ms + int(wait_ms), before.signal_ms + int(signal_ms)
            )
    return total


def waits_between(before: Waits, after: Waits) -> Waits:
    """What was waited between two readings, without the types that stood still.

    A wait in progress may end while it is read, so a difference can seem negative: it is 0 then.
    """
    none = WaitCount(0, 0, 0)
    moved = {
        name: WaitCount(*(max(0, now - then) for now, then in zip(count, before.get(name, none), strict=True)))
        for name, count in after.items()
    }
    return {name: count for name, count in sorted(moved.items()) if count.waits or count.wait_ms}


def counted_waits(waits: Mapping[str, WaitCount]) -> tuple[CountedWait, ...]:
    """The workers' waits in the normal form, except the one at the start gate."""
    return tuple(
        CountedWait(
            wait_type=name, category=event_of(name).category, wait_ns=count.wait_ms * _NS_PER_MS,
            signal_ns=min(count.signal_ms, count.wait_ms) * _NS_PER_MS, wait_count=count.waits,
        )
        for name, count in waits.items() if name != GATE
    )  # fmt: skip


def server_waits_group(waits: Mapping[str, WaitCount]) -> dict[str, float]:
    """The whole server's waits as counters, `TYPE.waits`, `TYPE.wait_ms` and `TYPE.signal_ms`, except at the start gate."""
    group: dict[str, float] = {}
    for name, count in waits.items():
        if name != GATE:
            group |= {f"{name}.{field}": float(value) for field, value in count._asdict().items()}
    return group


def read_cpu_s(session: Session, sessions: list[int]) -> float:
    """CPU seconds of these sessions so far. They are counted when a request is done, so ask between requests."""
    return int(session.value(CPU_TIME.format(sessions=tsql.integers(sessions))) or 0) / 1000


def read_files(session: Session, database: str) -> Counters:
    """Reads and writes of each file of the database so far, by the file's name."""
    rows = session.rows(FILE_STATS.format(database=tsql.text(database)))
    return {
        f"file {name}": dict(zip(_FILE_COLUMNS, map(float, values), strict=True)) for name, *values in rows
    }  # fmt: skip


def read_rates(session: Session, database: str) -> Counters:
    """The server's performance counters that grow with a load's work, named without "/sec" since they are counts here."""
    rows = session.rows(RATES.format(database=tsql.text(database)))
    return {"performance counters": {str(name).removesuffix("/sec"): float(value) for name, value in rows}}
