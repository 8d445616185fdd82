"""What each wait of MariaDB 10.11 to 11 and of MySQL 8 to 9 means: its category, and the name a DBA of SQL Server knows.

Names are those of performance_schema's instruments, without the leading "wait/". What is not listed falls to the rule of
its kind, so that an instrument of a later release lands in a sensible place too.
"""

from __future__ import annotations

from typing import NamedTuple

from storagelab.model.waits import NO_EVENT, Category

IDLE = "idle"
"""The session waits for its client: it has not begun, or it is done."""
GATE = "wait/synch/cond/sql/MDL_context::COND_wait_status"
"""Workers wait for the lock on the table `gate` until all of them are ready."""
COMMIT_STATE = "Commit"
COMMIT = "state/Commit"
"""A session in the state "Commit" that waits for nothing with a timer: its redo log is being written and synced, for which
MariaDB 10.11 has no instrument."""
_PREFIX = "wait/"


class Event(NamedTuple):
    """`in_io`: the server times the whole call into the kernel, CPU burnt there included. `resource` says in words what is
    waited for."""

    analogue: str
    category: Category
    in_io: bool
    resource: str


PAGE_READ = "PAGEIOLATCH_*"
LOG_WRITE = "WRITELOG"
LOG_BUFFER = "LOGBUFFER"
ALLOCATION = "PAGELATCH_UP on PFS/GAM/SGAM"
PAGE_LATCH = "PAGELATCH_*"
LATCH = "LATCH_EX"
OTHER_IO = "IO_COMPLETION"
NETWORK = "ASYNC_NETWORK_IO"

_LISTED: dict[str, Event] = {
    COMMIT: Event(LOG_WRITE, "commit", True, "the log's write and sync"),
    # Reads of pages; also writes of dirty pages to make room, and growth of the file: one instrument counts them all.
    "io/file/innodb/innodb_data_file": Event(PAGE_READ, "data-read", True, "a page of a data file"),
    "io/file/innodb/innodb_log_file": Event(LOG_WRITE, "commit", True, "the log"),
    "io/file/sql/binlog": Event(LOG_WRITE, "commit", True, "the binary log"),
    "io/file/innodb/innodb_temp_file": Event(OTHER_IO, "data-write", True, "a temporary file"),
    "io/file/innodb/innodb_dblwr_file": Event(OTHER_IO, "data-write", True, "the doublewrite buffer"),
    # The lock over a B-tree: whoever splits a page holds it against all who come from the root.
    "synch/sxlock/innodb/index_tree_rw_lock": Event(PAGE_LATCH, "page-latch", False, "the upper pages of a B-tree"),
    "synch/sxlock/innodb/btr_search_latch": Event(LATCH, "latch", False, "the adaptive hash index"),
    "synch/rwlock/innodb/fil_space_latch": Event(ALLOCATION, "allocation", False, "the free pages of a data file"),
    "synch/sxlock/innodb/fil_space_latch": Event(ALLOCATION, "allocation", False, "the free pages of a data file"),
    "synch/rwlock/innodb/trx_rseg_latch": Event(LATCH, "latch", False, "a rollback segment"),
    "synch/mutex/innodb/buf_pool_mutex": Event(LATCH, "latch", False, "the buffer pool"),
    "synch/mutex/innodb/flush_list_mutex": Event(LATCH, "latch", False, "the list of dirty pages"),
    "synch/mutex/innodb/fil_system_mutex": Event(LATCH, "latch", False, "the list of files"),
    "synch/rwlock/innodb/log_latch": Event(LOG_BUFFER, "log-buffer", False, "the log buffer"),
    "synch/mutex/innodb/log_sys_mutex": Event(LOG_BUFFER, "log-buffer", False, "the log buffer"),
    "synch/rwlock/sql/MDL_lock::rwlock": Event(LATCH, "latch", False, "the table's metadata lock"),
    "synch/mutex/partition/Partition_share::auto_inc_mutex": Event(LATCH, "latch", False, "the table's next key"),
}
_NOWHERE = Event("", "other", False, "")
_GROUP_COMMIT = ("/MYSQL_BIN_LOG::", "/wait_for_commit::", "/LOCK_prepare_ordered", "/LOCK_commit_ordered")
"""In the names of what holds a session back while another one writes both their commits to the binary log."""


def is_counted(name: str) -> bool:
    """Does this instrument belong into the sum? Those of the handler and of locks contain other waits, and the gate is
    storagelab's own."""
    return name.startswith((f"{_PREFIX}io/file/", f"{_PREFIX}synch/")) and name != GATE


def counts_waits(name: str) -> bool:
    """Is what its counter counts a wait each? A call into the kernel is one; an acquisition of a lock may not be."""
    return name.startswith(f"{_PREFIX}io/file/")


def event_of(wait_type: str) -> Event:
    """What an instrument means; of `NO_EVENT` and of what nothing is known, an event of category "other"."""
    if wait_type == NO_EVENT:
        return _NOWHERE
    known = wait_type.removeprefix(_PREFIX)
    if known in _LISTED:
        return _LISTED[known]
    kind, _, rest = known.partition("/")
    if kind == "io":
        network = rest.startswith("socket")
        return Event(NETWORK, "network", True, "the client") if network else Event(OTHER_IO, "other", True, "a file")
    if any(part in known for part in _GROUP_COMMIT):
        return Event(LOG_WRITE, "commit", False, "a commit to the binary log")
    if "/innodb/log" in known:
        return Event(LOG_BUFFER, "log-buffer", False, "the log buffer")
    return Event(LATCH, "latch", False, "a structure in memory") if kind == "synch" else _NOWHERE
