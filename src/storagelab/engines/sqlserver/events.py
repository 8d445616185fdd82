"""What each wait type of SQL Server means. To add one, add one line to `LISTED`.

Names are the server's (Microsoft's page of sys.dm_os_wait_stats). The groups follow Microsoft's own categories in the
documentation of sys.query_store_wait_stats, limited to what a storage layout can change. A SQL Server DBA knows these
names, so none has an analogue.
"""

from __future__ import annotations

from storagelab.model.waits import Category
from storagelab.watching.wait_events import Event, Kind, WaitEvents

SCHEDULER_YIELD = "SOS_SCHEDULER_YIELD"
GATE = "LCK_M_IS"
"""At the start gate, workers wait for an application lock in a mode that no insert asks for. A run's waits don't
include it.
"""


def _about(category: Category) -> Event:
    return Event(Kind("", category))


LISTED = {
    "WRITELOG": _about("commit"),
    "HADR_SYNC_COMMIT": _about("commit"),
    "LOGBUFFER": _about("log-buffer"),
    SCHEDULER_YIELD: _about("cpu-queue"),
    "THREADPOOL": _about("cpu-queue"),
    "ASYNC_NETWORK_IO": _about("network"),
    # Update latches are requested on pages that hold maps of the file (PFS, GAM, SGAM), not on pages of rows.
    "PAGELATCH_UP": _about("allocation"),
    "PREEMPTIVE_OS_WRITEFILEGATHER": _about("file-growth"),
    "PREEMPTIVE_OS_SETFILEVALIDDATA": _about("file-growth"),
    "PREEMPTIVE_OS_SETENDOFFILE": _about("file-growth"),
    "CHKPT": _about("data-write"),
    "SLEEP_BPOOL_FLUSH": _about("data-write"),
    "WRITE_COMPLETION": _about("data-write"),
    "PREEMPTIVE_OS_FLUSHFILEBUFFERS": _about("data-write"),
    "SLEEP_BPOOL_STEAL": _about("data-write"),
}
RULES = {
    "^PAGEIOLATCH_": _about("data-read"),
    "^PAGELATCH_": _about("page-latch"),
    "^LATCH_": _about("latch"),
    "^LCK_": _about("lock"),
    "^LOGMGR": _about("log-buffer"),
}
event_of = WaitEvents(LISTED, RULES)
