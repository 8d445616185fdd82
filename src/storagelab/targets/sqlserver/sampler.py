"""Watches a run through a session of its own: tasks that wait, with what they wait for, and a series once a second.

The server counts waits exactly, so nothing is estimated from these looks: they say on which pages and locks the waits
were, and how many rows are in.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass

from storagelab.model.measurement import ObserverCost, Page, TimeSeries, WaitingTask
from storagelab.targets.sqlserver import tsql
from storagelab.targets.sqlserver.connection import DriverError, Session, words
from storagelab.targets.sqlserver.counters import read_files
from storagelab.targets.sqlserver.pages import PageInfo
from storagelab.targets.sqlserver.waiting import Decoder, Moment, ask_pages, look, pages_to_ask
from storagelab.targets.watch import Looks, Watch
from storagelab.targets.watching import SERIES_HZ, Pace, Series

MOST_HZ = 10.0
"""Each look is a question to the server; more of them would say no more about exact counters."""
BUDGET = 0.02
"""Share of one core that the sampler may take; its session on the server is taken to cost the same."""
MOST_TASKS = 400
STOP_TIMEOUT_S = 10.0

PROGRESS = """
SELECT s.session_id, COALESCE(r.context_info, s.context_info)
FROM sys.dm_exec_sessions AS s LEFT JOIN sys.dm_exec_requests AS r ON r.session_id = s.session_id
WHERE s.session_id IN ({sessions})"""
FILE_IDS = "SELECT name, file_id FROM sys.master_files WHERE database_id = DB_ID({database})"


@dataclass(frozen=True)
class Watched:
    """What was seen of one run. `error` is empty unless watching broke off before the run's end."""

    waiting_tasks: tuple[WaitingTask, ...]
    series: TimeSeries
    observer: ObserverCost
    rows_done: int
    error: str = ""


class Sampler:
    """In order: `prepare`, `start` as the gate opens, `stop` when the last worker is done.

    `volume_of_file` maps names of files to volumes, whose reads and writes become the series' columns. Nothing that
    breaks while watching is raised: it stands in `Watched.error`.
    """

    def __init__(
        self,
        *,
        connect: Callable[[], Session],
        sessions: list[int],
        database: str,
        numbers: dict[str, int],
        volume_of_file: dict[str, str],
        hz: float,
        sample_waits: bool,
        page_info: bool,
    ) -> None:
        self._connect, self._sessions, self._database = connect, sessions, database
        self._numbers, self._volume_of_file = numbers, volume_of_file
        self._sample_waits, self._page_info = sample_waits, page_info
        pace_hz = min(hz, MOST_HZ) if sample_waits else SERIES_HZ
        self._pace = Pace(pace_hz, BUDGET, at_random=sample_waits)
        self._series = Series(with_rows=True)
        self._moments: list[Moment] = []
        self._tasks_seen = 0
        self._rows: dict[int, int] = {}
        looks = Looks(functools.partial(self._take_series, last=False), self._tick, self._last_look)
        self._watch = Watch(self._pace, looks, words)
        self._session: Session | None = None
        self._decoder: Decoder | None = None

    def prepare(self) -> None:
        """Connects and asks everything once, so that the server has planned the questions. Raises DriverError."""
        self._session = self._connect()
        look(self._session, self._sessions, 0.0)
        self._read_progress()
        read_files(self._session, self._database)

    def start(self) -> None:
        """Call at the moment the gate is opened."""
        self._watch.start()

    # -- while it lasts: all this runs in the sampler's thread ---------------------------------------------------------

    def _last_look(self) -> None:
        self._take_series(last=True)
        self._decoder = self._make_decoder()

    def _tick(self) -> None:
        at_s = self._watch.at_s
        if self._sample_waits:
            self._keep(look(self._own, self._sessions, at_s))
        if self._series.due(at_s):
            self._take_series(last=False)

    def _keep(self, moment: Moment) -> None:
        """Moments are kept few: when there are too many, every second one goes."""
        self._moments.append(moment)
        self._tasks_seen += len(moment.tasks)
        while len(self._moments) > 1 and self._tasks_seen > MOST_TASKS * 8:
            self._moments = self._moments[::2]
            self._tasks_seen = sum(len(kept.tasks) for kept in self._moments)

    def _take_series(self, *, last: bool) -> None:
        self._read_progress()
        columns = {"rows": float(self.progress())}
        for file, counted in read_files(self._own, self._database).items():
            volume = self._volume_of_file.get(file.removeprefix("file "))
            for name in ("reads", "read_bytes", "writes", "write_bytes") if volume else ():
                column = f"volume.{volume}.{name}"
                columns[column] = columns.get(column, 0.0) + counted[name]
        self._series.add(self._watch.at_s, columns, last=last)

    def _read_progress(self) -> None:
        for session, context in self._own.rows(PROGRESS.format(sessions=tsql.integers(self._sessions))):
            self._rows[int(session)] = rows_in(context)

    def _make_decoder(self) -> Decoder:
        rows = self._own.rows(FILE_IDS.format(database=tsql.text(self._database)))
        database_id = int(self._own.value(f"SELECT DB_ID({tsql.text(self._database)})"))
        files = {int(file_id): self._numbers.get(str(name), 0) for name, file_id in rows}
        return Decoder(database_id, files, self._pages(database_id))

    def _pages(self, database_id: int) -> dict[Page, PageInfo]:
        """Nothing where the server does not tell: the numbers of pages tell the most."""
        asked = pages_to_ask(self._moments, database_id) if self._page_info else []
        with contextlib.suppress(DriverError):
            return ask_pages(self._own, self._database, asked)
        return {}

    @property
    def _own(self) -> Session:
        assert self._session is not None, "the sampler is not prepared"
        return self._session

    # -- after it -----------------------------------------------------------------------------------------------------

    def progress(self) -> int:
        """Rows that all workers together have reported as done. May be called from any thread."""
        return sum(self._rows.values())

    def stop(self) -> Watched:
        """Ends the thread and the session, and hands over what was seen. Never raises."""
        self._watch.end(STOP_TIMEOUT_S)
        if self._session is not None and not self._watch.stuck:
            self._session.close()
        return Watched(
            waiting_tasks=self._waiting_tasks(), series=self._series.frozen(), observer=self._pace.cost(),
            rows_done=self.progress(), error=self._watch.error,
        )  # fmt: skip

    def _waiting_tasks(self) -> tuple[WaitingTask, ...]:
        if self._decoder is None:
            return ()
        moments = [self._decoder.waiting_tasks(moment) for moment in self._moments]
        while len(moments) > 1 and sum(map(len, moments)) > MOST_TASKS:
            moments = moments[::2]
        return tuple(task for moment in moments for task in moment)


def rows_in(context: object) -> int:
    """Rows done, from a session's context: a big-endian number in its first 8 bytes; 0 before it reports."""
    return int.from_bytes(context[:8], "big") if isinstance(context, bytes | bytearray) and len(context) >= 8 else 0
