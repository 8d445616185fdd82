"""Decodes what sessions were waiting for at one moment: which page of which data file, which lock, who holds it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from storagelab.model.measurement import Page, Resource, WaitingTask
from storagelab.targets.sqlserver import tsql
from storagelab.targets.sqlserver.connecting import Row, Session
from storagelab.targets.sqlserver.events import GATE, SCHEDULER_YIELD
from storagelab.targets.sqlserver.pages import ROWS, PageInfo, kind_of, kind_text, page_of

# A session that yielded its scheduler waits for a CPU but is not in the list of waiting tasks: it is among the runnable.
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
    """One session at one moment. `resource` is the server's own description of what it waits for."""

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
    rows = session.rows(WAITING_TASKS.format(sessions=tsql.integers(sessions)))
    return Moment(at_s, tuple(task_of(row) for row in rows))


class Decoder:
    """Turns moments into waiting tasks. `files` maps the ids of our database's files to their data file's number, 0 for
    the primary file and the log; `pages` is the server's description of pages, where it could be asked."""

    def __init__(self, database_id: int, files: Mapping[int, int], pages: Mapping[Page, PageInfo]) -> None:
        self._database_id, self._files, self._pages = database_id, files, pages

    def waiting_tasks(self, moment: Moment) -> list[WaitingTask]:
        """One moment: sessions that wait for the same thing are one task, most sessions first."""
        doing = {task.session: task.wait_type for task in moment.tasks}
        groups = Counter((task.wait_type, *self._resource(task), _holder(task.held_by, doing)) for task in moment.tasks)
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
        """The thing, and the number of its data file if it has one."""
        if task.wait_type == SCHEDULER_YIELD:
            return Resource(kind="a CPU"), None
        page = page_of(task.resource)
        if page is not None and "LATCH" in task.wait_type:
            number = self._files.get(page.file_id, 0) if page.database_id == self._database_id else 0
            return Resource(kind=kind_text(page, self._pages.get(page)), page=page), number or None
        named = _LOCK_WORD.match(task.resource) or _LATCH_NAME.match(task.resource)
        return Resource(kind=named[1] if named else task.resource.strip()[:60]), None


def _holder(holder: int | None, doing: Mapping[int, str]) -> str:
    if holder is None:
        return ""
    return doing.get(holder, "not seen waiting")


def pages_to_ask(moments: Iterable[Moment], database_id: int) -> list[Page]:
    """Pages of rows in our database, the most often seen first; for maps, the number says everything."""
    seen = Counter(
        page
        for moment in moments for task in moment.tasks
        if (page := page_of(task.resource)) is not None
        if page.database_id == database_id and kind_of(page.page_id) == ROWS
    )  # fmt: skip
    return [page for page, _ in sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:MOST_PAGES_ASKED]]


def ask_pages(session: Session, database: str, pages: list[Page]) -> dict[Page, PageInfo]:
    """The server's description of these pages of one database. SQL Server 2019 and later only."""
    if not pages:
        return {}
    values = ", ".join(f"({int(page.file_id)}, {int(page.page_id)})" for page in pages)
    rows = session.rows(PAGE_INFO.format(pages=values, database=tsql.text(database)))
    return {
        Page(pages[0].database_id, int(file_id), int(page_id)): PageInfo(
            int(page_type), None if index_id is None else int(index_id), None if level is None else int(level)
        )
        for file_id, page_id, page_type, index_id, level in rows
        if page_type is not None
    }
