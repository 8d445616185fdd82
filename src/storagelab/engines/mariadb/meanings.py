"""The meaning of each wait of MariaDB 10.11 to 11 and of MySQL 8 to 9, and which data survive a crash under the
server's settings. This module needs no database driver.

To add a wait, add one line to `LISTED`. The names are the names of performance_schema's instruments without "wait/".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from storagelab.model.durability import Deciding, Durability
from storagelab.watching import wait_events as v
from storagelab.watching.wait_events import Event, Knowledge, WaitEvents, io

IDLE = "idle"
"""The session waits for its client, because it has not begun its work or has finished it."""
GATE = "wait/synch/cond/sql/MDL_context::COND_wait_status"
"""Workers wait for the lock on the table `gate` until all workers are ready."""
COMMIT_STATE = "Commit"
COMMIT = "state/Commit"
"""A session is in the state "Commit" and has no timed wait: its redo log is being written and synced. MariaDB 10.11 has
no instrument that times this.
"""
LISTED = {
    COMMIT: io(v.LOG_WRITE, "the log's write and sync"),
    # This instrument counts three things together: reads of pages, writes of dirty pages, and growth of the file.
    "io/file/innodb/innodb_data_file": io(v.PAGE_READ, "a page of a data file"),
    "io/file/innodb/innodb_log_file": io(v.LOG_WRITE, "the log"),
    "io/file/sql/binlog": io(v.LOG_WRITE, "the binary log"),
    "io/file/innodb/innodb_temp_file": io(v.OTHER_WRITE, "a temporary file"),
    "io/file/innodb/innodb_dblwr_file": io(v.OTHER_WRITE, "the doublewrite buffer"),
    # The lock of a whole B-tree. A session that splits a page holds it. Sessions that start at the root must wait.
    "synch/sxlock/innodb/index_tree_rw_lock": Event(v.PAGE_LATCH, "the upper pages of a B-tree"),
    "synch/sxlock/innodb/btr_search_latch": Event(v.LATCH, "the adaptive hash index"),
    "synch/rwlock/innodb/fil_space_latch": Event(v.ALLOCATION, "the free pages of a data file"),
    "synch/sxlock/innodb/fil_space_latch": Event(v.ALLOCATION, "the free pages of a data file"),
    "synch/rwlock/innodb/trx_rseg_latch": Event(v.LATCH, "a rollback segment"),
    "synch/mutex/innodb/buf_pool_mutex": Event(v.LATCH, "the buffer pool"),
    "synch/mutex/innodb/flush_list_mutex": Event(v.LATCH, "the list of dirty pages"),
    "synch/mutex/innodb/fil_system_mutex": Event(v.LATCH, "the list of files"),
    "synch/rwlock/innodb/log_latch": Event(v.LOG_BUFFER, "the log buffer"),
    "synch/mutex/innodb/log_sys_mutex": Event(v.LOG_BUFFER, "the log buffer"),
    "synch/rwlock/sql/MDL_lock::rwlock": Event(v.LATCH, "the table's metadata lock"),
    "synch/mutex/partition/Partition_share::auto_inc_mutex": Event(v.LATCH, "the table's next key"),
}
RULES = {
    "^io/socket": io(v.NETWORK, "the client"),
    "^io/": io(v.OTHER_IO, "a file"),
    # A session has one of these waits while another session writes the commits of both sessions to the binary log.
    "/MYSQL_BIN_LOG::|/wait_for_commit::|/LOCK_(prepare|commit)_ordered": Event(
        v.LOG_WRITE, "a commit to the binary log"
    ),
    "/innodb/log": Event(v.LOG_BUFFER, "the log buffer"),
    "^synch/": Event(v.LATCH, "a structure in memory"),
}
event_of = WaitEvents(LISTED, RULES, lambda name: name.removeprefix("wait/"))


def is_counted(name: str) -> bool:
    """Whether the sum of all waits includes this instrument.

    Instruments of the handler and of locks contain other waits, so the sum would count these twice. The wait at the
    gate is made by storagelab itself.
    """
    return name.startswith(("wait/io/file/", "wait/synch/")) and name != GATE


def counts_waits(name: str) -> bool:
    """Whether each count of this instrument is a wait. A call into the kernel always is. A lock may be free at once."""
    return name.startswith("wait/io/file/")


DECIDING = (
    "innodb_flush_log_at_trx_commit", "innodb_doublewrite", "innodb_flush_method", "log_bin", "sync_binlog",
)  # fmt: skip
_DEFAULTS = {
    "innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON", "innodb_flush_method": "", "log_bin": "OFF",
    "sync_binlog": "0",
}  # fmt: skip


def judge(settings: Mapping[str, str], version: str = "") -> Durability:
    """The durability under these settings. `settings` has the server's values. A missing setting has its default."""
    decide = tuple(_deciding({**_DEFAULTS, **settings}))
    return Durability(
        engine="MySQL" if version and "MariaDB" not in version else "MariaDB",
        settings=decide,
        whole_pages=all(setting.loses != "pages not written twice" for setting in decide),
    )


def _deciding(settings: Mapping[str, str]) -> Iterator[Deciding]:
    name, value = "innodb_flush_log_at_trx_commit", settings["innodb_flush_log_at_trx_commit"]
    # With the value 2, the server writes the log at each commit but syncs it only once a second.
    yield Deciding(name=name, value=value, loses="last second of commits" if value in ("0", "2") else None)
    name, value = "innodb_doublewrite", settings["innodb_doublewrite"]
    off = value.lower() in ("off", "false", "0", "detect_only")
    yield Deciding(name=name, value=value, loses="pages not written twice" if off else None)
    if (value := settings["innodb_flush_method"]).lower() == "nosync":
        yield Deciding(name="innodb_flush_method", value=value, loses="everything")
    # If there is a binary log, crash recovery uses it. Then commits are only as safe as the binary log.
    if settings["log_bin"].lower() in ("on", "1"):
        value = settings["sync_binlog"]
        yield Deciding(name="sync_binlog", value=value, loses=None if value == "1" else "commits not in the binary log")


KNOWN = Knowledge(judge)
