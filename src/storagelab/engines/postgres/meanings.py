"""Facts about PostgreSQL that need no driver: the meaning of each wait event of 14 to 18 (to add one, add one line to
`LISTED`), and which data survive a crash under its settings.

The names are the server's (documentation of pg_stat_activity; the view pg_wait_events from 17 on). 17 respelled many of
them (`WALSync` is now `WalSync`), but types never changed, so names are compared without case.
"""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.model.durability import Deciding, Durability, Loss
from storagelab.watching import wait_events as v
from storagelab.watching.wait_events import Event, Knowledge, WaitEvents, io

IDLE = "Client:ClientRead"
"""The session waits for its client: it has not begun, or it has finished."""
BARRIER = "Lock:advisory"
"""Workers wait for an advisory lock until all of them are ready."""
LISTED = {
    # Reading pages. In 18, an I/O worker or io_uring may read the page. Then the session waits until the read is
    # complete.
    "IO:DataFileRead": io(v.PAGE_READ, "a page of a data file"),
    "IO:DataFilePrefetch": io(v.PAGE_READ, "a page of a data file"),
    "IO:AioIoCompletion": Event(v.PAGE_READ, "a page that an I/O worker reads"),
    "IO:AioIoUringSubmit": io(v.PAGE_READ, "a page that io_uring reads"),
    "IO:AioIoUringExecution": io(v.PAGE_READ, "a page that io_uring reads"),
    "LWLock:AioUringCompletion": Event(v.PAGE_READ, "a page that another session's io_uring reads"),
    "LWLock:AioWorkerSubmissionQueue": Event(v.LATCH, "the queue of the I/O workers"),
    "IPC:BufferIo": Event(v.PAGE_READ, "a page that another session reads or writes"),
    # Writing pages: a session that needs a buffer must write out the buffer's dirty page first.
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
    # Not about storage.
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
"""The data that are lost if the setting is off."""
DECIDING = tuple(_LOSE)


def judge(settings: Mapping[str, str], _version: str = "") -> Durability:
    """Judges `settings` as the server shows them. The settings that decide are on by default."""
    values = {name: settings.get(name, "on") for name in DECIDING}
    lose = {name: _LOSE[name] for name, value in values.items() if value.lower() in ("off", "false", "no", "0")}
    return Durability(
        engine="PostgreSQL",
        settings=tuple(Deciding(name=name, value=value, loses=lose.get(name)) for name, value in values.items()),
        whole_pages="full_page_writes" not in lose,
    )


KNOWN = Knowledge(judge)
