"""What each wait type of SQL Server is about: the category that it is joined with other engines' waits by.

Names are the server's (Microsoft's page of sys.dm_os_wait_stats); the grouping follows Microsoft's own table of
categories in the documentation of sys.query_store_wait_stats, narrowed to what a storage layout can move.
"""

from __future__ import annotations

from storagelab.model.waits import Category

SCHEDULER_YIELD = "SOS_SCHEDULER_YIELD"
GATE = "LCK_M_IS"
"""Workers wait at the start gate for an application lock in a mode that no insert asks for: it is left out of a run."""

_BY_NAME: dict[str, Category] = {
    "WRITELOG": "commit",
    "HADR_SYNC_COMMIT": "commit",
    "LOGBUFFER": "log-buffer",
    SCHEDULER_YIELD: "cpu-queue",
    "THREADPOOL": "cpu-queue",
    "ASYNC_NETWORK_IO": "network",
    # An update latch is asked for pages that hold maps of the file (PFS, GAM, SGAM), not for rows.
    "PAGELATCH_UP": "allocation",
    "PREEMPTIVE_OS_WRITEFILEGATHER": "file-growth",
    "PREEMPTIVE_OS_SETFILEVALIDDATA": "file-growth",
    "PREEMPTIVE_OS_SETENDOFFILE": "file-growth",
    "CHKPT": "data-write",
    "SLEEP_BPOOL_FLUSH": "data-write",
    "WRITE_COMPLETION": "data-write",
    "PREEMPTIVE_OS_FLUSHFILEBUFFERS": "data-write",
    "SLEEP_BPOOL_STEAL": "data-write",
}
_BY_PREFIX: tuple[tuple[str, Category], ...] = (
    ("PAGEIOLATCH_", "data-read"),
    ("PAGELATCH_", "page-latch"),
    ("LATCH_", "latch"),
    ("LCK_", "lock"),
    ("LOGMGR", "log-buffer"),
)


def category_of(wait_type: str) -> Category:
    known = _BY_NAME.get(wait_type)
    if known is not None:
        return known
    return next((category for prefix, category in _BY_PREFIX if wait_type.startswith(prefix)), "other")
