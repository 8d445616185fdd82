"""Watches a run through a session of its own: waiting tasks, what they wait for, and a series once a second.

The server counts waits exactly, so nothing is estimated from these looks: they show on which pages and locks the waits
were, and how many rows are in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from storagelab.model.config import MeasureConfig
from storagelab.model.measurement import Page, WaitingTask
from storagelab.model.waits import CountedWaits
from storagelab.targets.recording import MOST_TASKS, Recording, Seen
from storagelab.targets.sqlserver import tsql
from storagelab.targets.sqlserver.connecting import DriverError, Session, words_of
from storagelab.targets.sqlserver.counters import SessionCounts, counted_waits, read_files
from storagelab.targets.sqlserver.events import event_of
from storagelab.targets.sqlserver.layout import Layout
from storagelab.targets.sqlserver.pages import PageInfo
from storagelab.targets.sqlserver.waiting import Decoder, Moment, ask_pages, look, pages_to_ask
from storagelab.targets.watching import SERIES_HZ, Pace

MOST_HZ = 10.0
"""Each look is a query; more of them would add nothing to exact counters."""
BUDGET = 0.02
"""Share of one core that the sampler may use; its session on the server is assumed to cost the same."""
STOP_TIMEOUT_S = 10.0

PROGRESS = """
SELECT s.session_id, COALESCE(r.context_info, s.context_info)
FROM sys.dm_exec_sessions AS s LEFT JOIN sys.dm_exec_requests AS r ON r.session_id = s.session_id
WHERE s.session_id IN ({sessions})"""
FILE_IDS = "SELECT name, file_id FROM sys.master_files WHERE database_id = DB_ID({database})"


class Sampler:
    """Watches one run. Call in order: `prepare`, `start` as the gate opens, `stop` when the last worker is done.

    `ids` are the workers' sessions, `counts` what is counted for them. `page_info` = the server can be asked what pages
    hold. Errors while watching are not raised: they are in `Seen.error`.
    """

    def __init__(
        self,
        connect: Callable[[], Session],
        ids: list[int],
        measure: MeasureConfig,
        *,
        layout: Layout,
        counts: SessionCounts,
        page_info: bool,
    ) -> None:
        self._connect, self._ids, self._database = connect, ids, layout.prefix
        self._numbers = {file.name: file.number for file in layout.data_files}
        self._volumes = {
            file.name: file.volume for file in [*layout.data_files, layout.primary_file, layout.log_file] if file.volume
        }
        self._sample_waits, self._counts, self._page_info = measure.waits, counts, page_info
        hz = min(measure.sample_hz, MOST_HZ) if measure.waits else SERIES_HZ
        pace = Pace(hz, BUDGET, at_random=measure.waits)
        self._recording = Recording(pace, self._tick, self._last_look, self._columns, words_of)
        self._moments: list[Moment] = []
        self._tasks_seen = 0
        self._rows: dict[int, int] = {}
        self._session: Session | None = None
        self._decoder: Decoder | None = None

    def prepare(self) -> None:
        """Connects and runs each query once, so that the server has planned it. Raises DriverError."""
        self._session = self._connect()
        look(self._session, self._ids, 0.0)
        self._read_progress()
        read_files(self._session, self._database)

    def baseline(self) -> None:
        """The server keeps the counters of each session, and the target reads them."""

    def start(self) -> None:
        """Starts watching. Call at the moment the gate is opened."""
        self._recording.start()

    # -- while it lasts: all this runs in the sampler's thread ---------------------------------------------------------

    def _last_look(self) -> None:
        self._recording.take_last()
        self._decoder = self._make_decoder()

    def _tick(self) -> None:
        if self._sample_waits:
            self._keep(look(self._own, self._ids, self._recording.at_s))
        self._recording.take_series()

    def _keep(self, moment: Moment) -> None:
        """Keeps moments few: when there are too many, every second one goes."""
        self._moments.append(moment)
        self._tasks_seen += len(moment.tasks)
        while len(self._moments) > 1 and self._tasks_seen > MOST_TASKS * 8:
            self._moments = self._moments[::2]
            self._tasks_seen = sum(len(kept.tasks) for kept in self._moments)

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
        for session, context in self._own.rows(PROGRESS.format(sessions=tsql.integers(self._ids))):
            self._rows[int(session)] = rows_in(context)

    def _make_decoder(self) -> Decoder:
        rows = self._own.rows(FILE_IDS.format(database=tsql.text(self._database)))
        database_id = int(self._own.value(f"SELECT DB_ID({tsql.text(self._database)})"))
        files = {int(file_id): self._numbers.get(str(name), 0) for name, file_id in rows}
        return Decoder(database_id, files, self._pages(database_id))

    def _pages(self, database_id: int) -> dict[Page, PageInfo]:
        """Nothing if the server does not tell: the page numbers say the most."""
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
        """Rows that all workers together have reported as done. Any thread may call it."""
        return sum(self._rows.values())

    def stop(self) -> Seen:
        """Ends the thread and the session, and hands over what was seen. Never raises."""
        self._recording.end(STOP_TIMEOUT_S)
        if self._session is not None and not self._recording.stuck:
            self._session.close()
        raw_waits = partial(_raw_waits, self._counts) if self._sample_waits else None
        return replace(self._recording.seen(event_of, self.progress(), raw_waits), waiting_tasks=self._waiting_tasks())

    def _waiting_tasks(self) -> tuple[WaitingTask, ...]:
        if self._decoder is None:
            return ()
        moments = [self._decoder.waiting_tasks(moment) for moment in self._moments]
        while len(moments) > 1 and sum(map(len, moments)) > MOST_TASKS:
            moments = moments[::2]
        return tuple(task for moment in moments for task in moment)


def _raw_waits(counts: SessionCounts, _: Seen, elapsed_s: float, busy_s: float, connections: int) -> CountedWaits:
    return CountedWaits(
        connections=connections,
        elapsed_s=elapsed_s,
        busy_s=busy_s,
        rows=counted_waits(counts.waits),
        cpu_s=counts.cpu_s,
    )


def rows_in(context: object) -> int:
    """Rows done, from a session's context: a big-endian number in its first 8 bytes; 0 before it reports."""
    return int.from_bytes(context[:8], "big") if isinstance(context, bytes | bytearray) and len(context) >= 8 else 0
