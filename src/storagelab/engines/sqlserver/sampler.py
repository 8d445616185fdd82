"""Observes a run in its own session: samples the waiting tasks and the objects for which they wait, and records a time
series once a second.

The server counts waits exactly, so waits are not estimated from these samples. The samples show for which pages and
locks the sessions waited. The time series shows, for example, the number of inserted rows.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import add
from typing import NamedTuple

from storagelab.engines.sqlserver.connect import DriverError, Row, Session, integers, text, words_of
from storagelab.engines.sqlserver.layout import Layout
from storagelab.engines.sqlserver.meanings import GATE, SCHEDULER_YIELD, event_of
from storagelab.model.config import MeasureConfig
from storagelab.model.measurement import PFS_PAGE, Page, Resource, WaitingTask
from storagelab.model.waits import CountedWait, CountedWaits
from storagelab.watching.counters import Counters
from storagelab.watching.sampler import MOST_TASKS, RawWaitsOf, SessionSampler

# --- counters --------------------------------------------------------------------------------------------------------
#
# The server's counters: waits by session and of the whole server, reads and writes by file, CPU time, and rates.
#
# The server counts a wait when the wait ends. So waits in progress are added from sys.dm_os_waiting_tasks, as in
# sp_BlitzFirst. Then the difference between two readings is the wait time between the readings.


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
"""The type PERF_COUNTER_BULK_COUNT. Such a counter is cumulative, although its name ends with "/sec"."""
RATES = f"""
SELECT RTRIM(counter_name), cntr_value FROM sys.dm_os_performance_counters
WHERE cntr_type = {CUMULATIVE_COUNTER} AND (
    (instance_name = N'' AND counter_name IN (N'Page Splits/sec', N'Pages Allocated/sec', N'Extents Allocated/sec',
        N'Checkpoint pages/sec', N'Background writer pages/sec', N'Lazy writes/sec', N'Page reads/sec',
        N'Page writes/sec', N'Readahead pages/sec'))
    OR (instance_name = {{database}} AND counter_name IN (N'Log Flushes/sec', N'Log Bytes Flushed/sec',
        N'Log Flush Waits/sec', N'Transactions/sec')))"""


class WaitCount(NamedTuple):
    """The cumulative count of one wait type, as the server reports it. The wait time includes the signal time."""

    waits: int
    wait_ms: int
    signal_ms: int


Waits = dict[str, WaitCount]
_NONE = WaitCount(0, 0, 0)


@dataclass
class SessionCounts:
    """The waits and the CPU time of the workers' sessions in a run."""

    waits: Waits = field(default_factory=dict)
    cpu_s: float = 0.0


def read_session_waits(session: Session, sessions: list[int]) -> Waits:
    """The waits of these sessions since their login. Waits in progress are included."""
    ids = integers(sessions)
    counted = session.rows(SESSION_WAITS.format(sessions=ids))
    return summed(counted, session.rows(IN_PROGRESS.format(which=f"AND session_id IN ({ids})")))


def read_server_waits(session: Session) -> Waits:
    """The waits of the whole server since its start. They include its own threads and other users' sessions."""
    return summed(session.rows(SERVER_WAITS), session.rows(IN_PROGRESS.format(which="")))


def summed(*readings: Iterable[Row]) -> Waits:
    total: Waits = {}
    for name, *counts in chain.from_iterable(readings):
        total[name] = WaitCount(*map(add, total.get(name, _NONE), map(int, counts)))
    return total


def waits_between(before: Waits, after: Waits) -> Waits:
    """The waits between two readings, without the types that did not change.

    A wait in progress may end while it is read. Then a difference may be negative, and counts as 0.
    """
    moved = {
        name: WaitCount(*(max(0, now - then) for now, then in zip(count, before.get(name, _NONE), strict=True)))
        for name, count in after.items()
    }
    return {name: count for name, count in sorted(moved.items()) if count.waits or count.wait_ms}


def counted_waits(waits: Mapping[str, WaitCount]) -> tuple[CountedWait, ...]:
    """The workers' waits in storagelab's format, without the wait at the start gate."""
    return tuple(
        CountedWait(
            wait_type=name, category=event_of(name).category, wait_ns=count.wait_ms * _NS_PER_MS,
            signal_ns=min(count.signal_ms, count.wait_ms) * _NS_PER_MS, wait_count=count.waits,
        )
        for name, count in waits.items() if name != GATE
    )  # fmt: skip


def server_waits_group(waits: Mapping[str, WaitCount]) -> dict[str, float]:
    """The waits of the whole server as counters: `TYPE.waits`, `TYPE.wait_ms` and `TYPE.signal_ms`.

    Waits at the start gate are left out.
    """
    counted = {name: count._asdict() for name, count in waits.items() if name != GATE}
    return {f"{name}.{field}": float(value) for name, fields in counted.items() for field, value in fields.items()}


def read_cpu_s(session: Session, sessions: list[int]) -> float:
    """The CPU time of these sessions until now, in seconds. Call this between requests, because the server adds the CPU
    time of a request at its end.
    """
    return int(session.value(CPU_TIME.format(sessions=integers(sessions))) or 0) / 1000


def read_files(session: Session, database: str) -> Counters:
    """The reads and writes of each file of the database until now: `group -> name -> value`."""
    rows = session.rows(FILE_STATS.format(database=text(database)))
    return {f"file {name}": dict(zip(_FILE_COLUMNS, map(float, values), strict=True)) for name, *values in rows}


def read_rates(session: Session, database: str) -> Counters:
    """The server's cumulative performance counters that grow with the work of a load.

    Their names end without "/sec", because the values are counts.
    """
    rows = session.rows(RATES.format(database=text(database)))
    return {"performance counters": {str(name).removesuffix("/sec"): float(value) for name, value in rows}}


# --- waiting ---------------------------------------------------------------------------------------------------------
# Finds the objects for which sessions waited at one moment: a page and its data file, or a lock and its holder.


# A session that yielded its scheduler waits for a CPU. It is not in the list of waiting tasks, but in the list of
# runnable tasks.
WAITING_TASKS = f"""
SELECT session_id, wait_type, wait_duration_ms, resource_description, blocking_session_id
FROM sys.dm_os_waiting_tasks WHERE session_id IN ({{sessions}}) AND wait_type <> N'{GATE}'
UNION ALL
SELECT session_id, N'{SCHEDULER_YIELD}', CAST(0 AS bigint), N'', CAST(NULL AS smallint)
FROM sys.dm_exec_requests
WHERE session_id IN ({{sessions}}) AND status = N'runnable' AND wait_type IS NULL"""
PAGE_INFO = """
SELECT p.file_id, p.page_id, i.page_type, i.index_id, i.page_level
FROM (VALUES {pages}) AS p (file_id, page_id)
CROSS APPLY sys.dm_db_page_info(DB_ID({database}), p.file_id, p.page_id, N'DETAILED') AS i"""
MOST_PAGES_ASKED = 200
_LATCH_NAME = re.compile(r"\s*([A-Z_0-9]+)")
_LOCK_WORD = re.compile(r"\s*([a-z]+lock)\b")


class Task(NamedTuple):
    """One session at one moment. `resource` is the server's description of the object for which the session waits."""

    session: int
    wait_type: str
    waited_ms: int
    resource: str
    held_by: int | None


class Moment(NamedTuple):
    at_s: float
    tasks: tuple[Task, ...]


def task_of(row: Row) -> Task:
    session, wait_type, waited_ms, resource, holder = row
    holds = int(holder) if holder is not None and int(holder) > 0 and int(holder) != int(session) else None
    return Task(int(session), str(wait_type), int(waited_ms or 0), str(resource or ""), holds)


def look(session: Session, sessions: list[int], at_s: float) -> Moment:
    rows = session.rows(WAITING_TASKS.format(sessions=integers(sessions)))
    return Moment(at_s, tuple(task_of(row) for row in rows))


class Decoder:
    """Turns samples into waiting tasks.

    `files` maps the ids of files of storagelab's database to the numbers of data files. The primary file and the log
    have the number 0. `pages` has the server's descriptions of pages. It is empty if the server can't describe them.
    """

    def __init__(self, database_id: int, files: Mapping[int, int], pages: Mapping[Page, PageInfo]) -> None:
        self._database_id, self._files, self._pages = database_id, files, pages

    def waiting_tasks(self, moment: Moment) -> list[WaitingTask]:
        """The waits of one moment, grouped by object. The group with the most sessions comes first."""
        doing: dict[int | None, str] = {None: "", **{task.session: task.wait_type for task in moment.tasks}}
        groups = Counter(
            (task.wait_type, *self._resource(task), doing.get(task.held_by, "not seen waiting"))
            for task in moment.tasks
        )
        return [
            WaitingTask(
                at_s=moment.at_s, wait_type=wait_type, resource=resource, sessions=sessions, data_file=data_file,
                held_by=held_by,
            )
            for (wait_type, resource, data_file, held_by), sessions in sorted(
                groups.items(), key=lambda item: (-item[1], str(item[0]))
            )
        ]  # fmt: skip

    def _resource(self, task: Task) -> tuple[Resource, int | None]:
        """The object for which the task waits, and the number of its data file, or None."""
        if task.wait_type == SCHEDULER_YIELD:
            return Resource(kind="a CPU"), None
        page = page_of(task.resource)
        if page is not None and "LATCH" in task.wait_type:
            number = self._files.get(page.file_id, 0) if page.database_id == self._database_id else 0
            return Resource(kind=kind_text(page, self._pages.get(page)), page=page), number or None
        named = _LOCK_WORD.match(task.resource) or _LATCH_NAME.match(task.resource)
        return Resource(kind=named[1] if named else task.resource.strip()[:60]), None


def pages_to_ask(moments: Iterable[Moment], database_id: int) -> list[Page]:
    """The pages of storagelab's database for which sessions waited, the most frequent first.

    Map pages are left out, because their numbers already show their kind.
    """
    seen = Counter(
        page
        for moment in moments for task in moment.tasks
        if (page := page_of(task.resource)) is not None
        if page.database_id == database_id and kind_of(page.page_id) == ROWS
    )  # fmt: skip
    return [page for page, _ in sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:MOST_PAGES_ASKED]]


def ask_pages(session: Session, database: str, pages: list[Page]) -> dict[Page, PageInfo]:
    """The server's descriptions of these pages of a database. Only SQL Server 2019 and later can describe pages."""
    if not pages:
        return {}
    values = ", ".join(f"({int(page.file_id)}, {int(page.page_id)})" for page in pages)
    rows = session.rows(PAGE_INFO.format(pages=values, database=text(database)))
    return {
        Page(pages[0].database_id, int(file_id), int(page_id)): PageInfo(
            int(page_type), None if index_id is None else int(index_id), None if level is None else int(level)
        )
        for file_id, page_id, page_type, index_id, level in rows
        if page_type is not None
    }


# --- pages -----------------------------------------------------------------------------------------------------------
#
# Finds the page and the file of a latch, and the content of the page: a map of the file, or rows.
#
# In every version, the kind of a page follows from its number. From SQL Server 2019 on, the server can describe the
# page (sys.dm_db_page_info). A PFS page maps 8088 pages. A GAM interval has 63904 extents of 8 pages, which are 511232
# pages. Its bitmap of 7988 bytes has one bit for each extent (sqlity.net/en/2331/gam-interval). Books often say 64000
# extents.


PFS_INTERVAL_PAGES = 8088
GAM_INTERVAL_PAGES = 511_232

FILE_HEADER, PFS, GAM, SGAM, DIFF, ML = "file header", "PFS", "GAM", "SGAM", "DIFF", "ML"
ROWS = ""
"""The kind of a page whose number shows that it is not a map of the file. It is a data, index or IAM page."""

_OF_PAGE = re.compile(r"\s*(\d+):(\d+):(\d+)(?:$|[\s(])")
_WORDS = {
    FILE_HEADER: "a file header", PFS: PFS_PAGE, GAM: "a GAM page", SGAM: "an SGAM page", DIFF: "a DIFF page",
    ML: "an ML page", ROWS: "a data or index page",
}  # fmt: skip
_TYPES = {
    1: "a data page", 2: "an index page", 3: "a text page", 4: "a text page", 7: "a sort page", 8: _WORDS[GAM],
    9: _WORDS[SGAM], 10: "an IAM page", 11: _WORDS[PFS], 13: "a boot page", 15: _WORDS[FILE_HEADER], 16: _WORDS[DIFF],
    17: _WORDS[ML],
}  # fmt: skip
"""The names of page types, by the server's numbers in the column page_type of sys.dm_db_page_info."""


def page_of(resource: str) -> Page | None:
    """The page in a `resource_description` such as "5:3:8088". Returns None if it is not a page."""
    found = _OF_PAGE.match(resource)
    return Page(*map(int, found.groups())) if found else None


def kind_of(page_id: int) -> str:
    """The kind of the page with this number. The order of the conditions matters, because 0 is a multiple of every
    interval.
    """
    if page_id == 0:
        return FILE_HEADER
    if page_id == 1 or page_id % PFS_INTERVAL_PAGES == 0:
        return PFS
    if page_id == 2 or page_id % GAM_INTERVAL_PAGES == 0:
        return GAM
    if page_id == 3 or page_id % GAM_INTERVAL_PAGES == 1:
        return SGAM
    return {6: DIFF, 7: ML}.get(page_id % GAM_INTERVAL_PAGES, ROWS)


class PageInfo(NamedTuple):
    """The server's description of a page: the number of its type. For a page of rows, also the index and the level in
    its B-tree. Leaves have the level 0.
    """

    page_type: int
    index_id: int | None
    level: int | None


def kind_text(page: Page, info: PageInfo | None) -> str:
    """A text about the page's content. It follows from the server's description, `info`. If `info` is None, it follows
    from the page's number.
    """
    if info is None:
        return _WORDS[kind_of(page.page_id)]
    named = _TYPES.get(info.page_type, f"a page of type {info.page_type}")
    if info.page_type in (1, 2) and info.level is not None:
        return f"{named}, leaf of its tree" if info.level == 0 else f"{named}, level {info.level} of its tree"
    return named


PROGRESS = """
SELECT s.session_id, COALESCE(r.context_info, s.context_info)
FROM sys.dm_exec_sessions AS s LEFT JOIN sys.dm_exec_requests AS r ON r.session_id = s.session_id
WHERE s.session_id IN ({sessions})"""
FILE_IDS = "SELECT name, file_id FROM sys.master_files WHERE database_id = DB_ID({database})"


class Sampler(SessionSampler):
    """Samples one run. `ids` are the ids of the workers' sessions, and `counts` are the counters of these sessions.

    `page_info` is True if the server can describe pages.
    """

    event_of = event_of
    most_hz = 10.0
    """The most samples per second. Each sample is a query, and the exact counters need no more samples."""
    stop_timeout_s = 10.0

    def __init__(
        self, connect: Callable[[], Session], ids: list[int], measure: MeasureConfig, *, layout: Layout,
        counts: SessionCounts, page_info: bool,
    ) -> None:  # fmt: skip
        super().__init__(measure, words_of)
        self._connect, self._ids, self._database = connect, ids, layout.prefix
        self._numbers = {file.name: file.number for file in layout.data_files}
        self._volumes = {
            file.name: file.volume for file in [*layout.data_files, layout.primary_file, layout.log_file] if file.volume
        }
        self._counts, self._page_info = counts, page_info
        self._kept: list[Moment] = []
        self._tasks_seen = 0
        self._session: Session | None = None
        self._decoder: Decoder | None = None

    def prepare(self) -> None:
        """Connects and runs each query once, so that the server already has plans for them. Raises DriverError."""
        self._session = self._connect()
        look(self._session, self._ids, 0.0)
        self._read_progress()
        read_files(self._session, self._database)

    # -- while it lasts: all this runs in the sampler's thread ---------------------------------------------------------

    def _last_look(self) -> None:
        self._take_series(last=True)
        name = text(self._database)
        rows = self._own.rows(FILE_IDS.format(database=name))
        database_id, pages = int(self._own.value(f"SELECT DB_ID({name})")), dict[Page, PageInfo]()
        with contextlib.suppress(DriverError):  # without descriptions, the page numbers show most kinds
            pages = ask_pages(
                self._own, self._database, pages_to_ask(self._kept, database_id) if self._page_info else []
            )
        files = {int(file_id): self._numbers.get(str(name), 0) for name, file_id in rows}
        self._decoder = Decoder(database_id, files, pages)

    def _tick(self) -> None:
        if self.sample_waits:
            self._kept.append(look(self._own, self._ids, self.at_s))
            self._tasks_seen += len(self._kept[-1].tasks)
            while len(self._kept) > 1 and self._tasks_seen > MOST_TASKS * 8:  # removes every second sample
                self._kept = self._kept[::2]
                self._tasks_seen = sum(len(kept.tasks) for kept in self._kept)
        self._take_series()

    def _columns(self) -> dict[str, float]:
        self._read_progress()
        columns = {"rows": float(self.progress())}
        for file, counted in read_files(self._own, self._database).items():
            volume = self._volumes.get(file.removeprefix("file "))
            for name in ("reads", "read_bytes", "writes", "write_bytes") if volume else ():
                column = f"volume.{volume}.{name}"
                columns[column] = columns.get(column, 0.0) + counted[name]
        return columns

    def _read_progress(self) -> None:
        for session, context in self._own.rows(PROGRESS.format(sessions=integers(self._ids))):
            self._rows_done[int(session)] = rows_in(context)

    @property
    def _own(self) -> Session:
        assert self._session is not None, "the sampler is not prepared"
        return self._session

    # -- after it -----------------------------------------------------------------------------------------------------

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.close()

    def _raw_waits(self) -> RawWaitsOf:
        counts = self._counts
        return lambda _, elapsed_s, busy_s, connections: CountedWaits(
            connections=connections, elapsed_s=elapsed_s, busy_s=busy_s, rows=counted_waits(counts.waits),
            cpu_s=counts.cpu_s,
        )  # fmt: skip

    def _waiting_tasks(self) -> tuple[WaitingTask, ...]:
        if self._decoder is None:
            return ()
        moments = [self._decoder.waiting_tasks(moment) for moment in self._kept]
        while len(moments) > 1 and sum(map(len, moments)) > MOST_TASKS:
            moments = moments[::2]
        return tuple(task for moment in moments for task in moment)


def rows_in(context: object) -> int:
    """The number of rows that a session has reported in its context. The first 8 bytes are a big-endian number.

    0 if the session has not reported yet.
    """
    return int.from_bytes(context[:8], "big") if isinstance(context, bytes | bytearray) and len(context) >= 8 else 0
