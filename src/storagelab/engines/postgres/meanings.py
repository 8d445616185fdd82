"""The meaning of each wait event of PostgreSQL 14 to 18, and which data survive a crash under the server's settings.
This module needs no database driver.

To add a wait event, add one line to `LISTED`. The names are the server's: see the documentation of pg_stat_activity, or
from PostgreSQL 17 on the view pg_wait_events. PostgreSQL 17 changed the spelling of many names: `WALSync` is now
`WalSync`. So names are compared without case. The types of wait events have not changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.model.durability import Deciding, Durability, Loss
from storagelab.watching import wait_events as v
from storagelab.watching.wait_events import Event, Knowledge, WaitEvents, io

IDLE = "Client:ClientRead"
"""The session waits for its client, because it has not begun its work or has finished it."""
BARRIER = "Lock:advisory"
"""Workers wait for an advisory lock until all workers are ready."""
LISTED = {
    # Reads of pages. In PostgreSQL 18, an I/O worker or io_uring may read for the session, which waits until it ends.
    "IO:DataFileRead": io(v.PAGE_READ, "a page of a data file"),
    "IO:DataFilePrefetch": io(v.PAGE_READ, "a page of a data file"),
    "IO:AioIoCompletion": Event(v.PAGE_READ, "a page that an I/O worker reads"),
    "IO:AioIoUringSubmit": io(v.PAGE_READ, "a page that io_uring reads"),
    "IO:AioIoUringExecution": io(v.PAGE_READ, "a page that io_uring reads"),
    "LWLock:AioUringCompletion": Event(v.PAGE_READ, "a page that another session's io_uring reads"),
    "LWLock:AioWorkerSubmissionQueue": Event(v.LATCH, "the queue of the I/O workers"),
    "IPC:BufferIo": Event(v.PAGE_READ, "a page that another session reads or writes"),
    # Writes of pages. If a session needs a buffer with a dirty page, it must first write this page to its file.
    "IO:DataFileWrite": io(v.EVICTION, "a dirty page written to make room"),
    "IO:DataFileFlush": io(v.EVICTION, "the kernel's write-back of a data file"),
    "IO:DataFileExtend": io(v.FILE_GROWTH, "new pages of a data file"),
    "Timeout:RegisterSyncRequest": Event(v.CHECKPOINT, "the checkpointer's queue of files to sync"),
    "IPC:CheckpointStart": Event(v.CHECKPOINT, "a checkpoint"),
    "IPC:CheckpointDone": Event(v.CHECKPOINT, "a checkpoint"),
    # The log. When sessions commit together, one session writes and syncs the log, and the others wait for its lock.
    "IO:WalSync": io(v.LOG_WRITE, "the log's sync"),
    "IO:WalWrite": io(v.LOG_WRITE, "the log's write"),
    "LWLock:WALWrite": Event(v.LOG_WRITE, "another session's write of the log"),
    "IO:WalSyncMethodAssign": io(v.LOG_WRITE, "the log's sync"),
    "IPC:SyncRep": Event(v.STANDBY, "a standby's answer"),
    "LWLock:SyncRep": Event(v.STANDBY, "the list of sessions that wait for a standby"),
    "IO:WalInitWrite": io(v.FILE_GROWTH, "a new segment of the log"),
    "IO:WalInitSync": io(v.FILE_GROWTH, "a new segment of the log"),
    "LWLock:WALInsert": Event(v.LOG_BUFFER, "a place in the log buffer"),
    "LWLock:WALBufMapping": Event(v.LOG_BUFFER, "a free page of the log buffer"),
    # Pages and space.
    "Lock:extend": Event(v.ALLOCATION, "extension of a relation"),
    "LWLock:BufferContent": Event(v.PAGE_LATCH, "a page in memory"),
    "BufferPin:BufferPin": Event(v.PAGE_LATCH, "a page that others still use"),
    # At the end of transactions, sessions queue up, and the first session does the work for all.
    "IPC:ProcarrayGroupUpdate": Event(v.LATCH, "the end of transactions, done in groups"),
    "IPC:XactGroupUpdate": Event(v.LATCH, "the end of transactions, done in groups"),
    "Timeout:SpinDelay": Event(v.SPINLOCK, "a spinlock"),
    # These waits do not concern storage.
    "Client:ClientRead": Event(v.NETWORK, "the client"),
    "Timeout:PgSleep": Event(v.SLEEP, "a sleep that was asked for"),
    "IO:DsmAllocate": io(v.MEMORY, "shared memory"),
    "IO:DsmFillZeroWrite": io(v.MEMORY, "shared memory"),
    "IPC:ExecuteGather": Event(v.PARALLELISM, "parallel workers"),
    "IPC:ParallelFinish": Event(v.PARALLELISM, "parallel workers"),
    "IPC:MessageQueueReceive": Event(v.PARALLELISM, "parallel workers"),
    "IPC:MessageQueueSend": Event(v.PARALLELISM, "parallel workers"),
}
RULES = {
    "^io:.*(read|prefetch)$": io(v.OTHER_READ, "a file of the server"),
    "^io:": io(v.OTHER_WRITE, "a file of the server"), "^lwlock:": Event(v.LATCH, "a structure in memory"),
    "^lock:": Event(v.LOCK, "a lock"), "^bufferpin:": Event(v.PAGE_LATCH, "a page that others still use"),
    "^client:": Event(v.NETWORK, "the client"),
}  # fmt: skip
event_of = WaitEvents(LISTED, RULES, str.casefold)
_LOSE: dict[str, Loss] = {
    "fsync": "everything", "synchronous_commit": "last commits", "full_page_writes": "pages not in the log",
}  # fmt: skip
"""For each setting: the data that a crash loses if the setting is off."""
DECIDING = tuple(_LOSE)


def judge(settings: Mapping[str, str], _version: str = "") -> Durability:
    """The durability under these settings. `settings` has the server's values. A missing setting is on by default."""
    values = {name: settings.get(name, "on") for name in DECIDING}
    lose = {name: _LOSE[name] for name, value in values.items() if value.lower() in ("off", "false", "no", "0")}
    return Durability(
        engine="PostgreSQL",
        settings=tuple(Deciding(name=name, value=value, loses=lose.get(name)) for name, value in values.items()),
        whole_pages="full_page_writes" not in lose,
    )


KNOWN = Knowledge(judge)
