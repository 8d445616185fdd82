"""What each wait event of PostgreSQL 14 to 18 means: its category, and the SQL Server wait type a DBA would look for.

The names are the server's (documentation of pg_stat_activity; the view pg_wait_events from 17 on). 17 respelled many of
them (`WALSync` is `WalSync` now, `BufferIO` is `BufferIo`) and types never changed, so names are compared without case.
What is not listed falls to the rule of its type, so that an event of a later version lands in a sensible place too.
"""

from __future__ import annotations

from typing import NamedTuple

from storagelab.model.waits import NO_EVENT, Category

IDLE = "Client:ClientRead"
"""The session waits for its client: it has not begun, or it is done."""
BARRIER = "Lock:advisory"
"""Workers wait for an advisory lock until all of them are ready."""


class Event(NamedTuple):
    """`in_io`: the server names this wait for the whole call into the kernel, CPU burnt there included. `resource` is
    what is waited for, in words, where the server doesn't say which one exactly."""

    analogue: str
    category: Category
    in_io: bool
    resource: str


PAGE_READ = "PAGEIOLATCH_*"
LOG_WRITE = "WRITELOG"
LOG_BUFFER = "LOGBUFFER"
ALLOCATION = "PAGELATCH_UP on PFS/GAM/SGAM"
FILE_GROWTH = "PREEMPTIVE_OS_WRITEFILEGATHER"
PAGE_LATCH = "PAGELATCH_*"
LATCH = "LATCH_EX"
LOCK = "LCK_M_*"
OTHER_IO = "IO_COMPLETION"
EVICTION = "(lazy writer)"
NETWORK = "ASYNC_NETWORK_IO"
PARALLELISM = "CXPACKET"
CHECKPOINT = "CHKPT"
GROUP_COMMIT = "LATCH_EX"

_Row = tuple[str, str, Category, str]
_LISTED: tuple[_Row, ...] = (
    # Reading pages. In 18 an I/O worker or io_uring may do the read: then the session waits for its completion.
    ("IO:DataFileRead", PAGE_READ, "data-read", "a page of a data file"),
    ("IO:DataFilePrefetch", PAGE_READ, "data-read", "a page of a data file"),
    ("IO:AioIoCompletion", PAGE_READ, "data-read", "a page that an I/O worker reads"),
    ("IO:AioIoUringSubmit", PAGE_READ, "data-read", "a page that io_uring reads"),
    ("IO:AioIoUringExecution", PAGE_READ, "data-read", "a page that io_uring reads"),
    ("LWLock:AioUringCompletion", PAGE_READ, "data-read", "a page that another session's io_uring reads"),
    ("LWLock:AioWorkerSubmissionQueue", LATCH, "latch", "the queue of the I/O workers"),
    ("IPC:BufferIo", PAGE_READ, "data-read", "a page that another session reads or writes"),
    # Writing pages: a session that needs a buffer must write out the dirty page in it.
    ("IO:DataFileWrite", EVICTION, "data-write", "a dirty page written to make room"),
    ("IO:DataFileFlush", EVICTION, "data-write", "the kernel's write-back of a data file"),
    ("IO:DataFileExtend", FILE_GROWTH, "file-growth", "new pages of a data file"),
    ("Timeout:RegisterSyncRequest", CHECKPOINT, "data-write", "the checkpointer's queue of files to sync"),
    ("IPC:CheckpointStart", CHECKPOINT, "data-write", "a checkpoint"),
    ("IPC:CheckpointDone", CHECKPOINT, "data-write", "a checkpoint"),
    # The log. Of sessions that commit together one writes and syncs, the others wait for its lock.
    ("IO:WalSync", LOG_WRITE, "commit", "the log's sync"),
    ("IO:WalWrite", LOG_WRITE, "commit", "the log's write"),
    ("LWLock:WALWrite", LOG_WRITE, "commit", "another session's write of the log"),
    ("IO:WalSyncMethodAssign", LOG_WRITE, "commit", "the log's sync"),
    ("IPC:SyncRep", "HADR_SYNC_COMMIT", "commit", "a standby's answer"),
    ("LWLock:SyncRep", "HADR_SYNC_COMMIT", "commit", "the list of sessions that wait for a standby"),
    ("IO:WalInitWrite", FILE_GROWTH, "file-growth", "a new segment of the log"),
    ("IO:WalInitSync", FILE_GROWTH, "file-growth", "a new segment of the log"),
    ("LWLock:WALInsert", LOG_BUFFER, "log-buffer", "a place in the log buffer"),
    ("LWLock:WALBufMapping", LOG_BUFFER, "log-buffer", "a free page of the log buffer"),
    # Pages and space.
    ("Lock:extend", ALLOCATION, "allocation", "extension of a relation"),
    ("LWLock:BufferContent", PAGE_LATCH, "page-latch", "a page in memory"),
    ("BufferPin:BufferPin", PAGE_LATCH, "page-latch", "a page that others still use"),
    # At the end of a transaction sessions queue up, and the first does the work of all.
    ("IPC:ProcarrayGroupUpdate", GROUP_COMMIT, "latch", "the end of transactions, done in groups"),
    ("IPC:XactGroupUpdate", GROUP_COMMIT, "latch", "the end of transactions, done in groups"),
    ("Timeout:SpinDelay", "SOS_SCHEDULER_YIELD (spinlock back-off)", "latch", "a spinlock"),
    # Not of the storage.
    ("Client:ClientRead", NETWORK, "network", "the client"),
    ("Timeout:PgSleep", "WAITFOR", "other", "a sleep that was asked for"),
    ("IO:DsmAllocate", "MEMORY_ALLOCATION_EXT", "other", "shared memory"),
    ("IO:DsmFillZeroWrite", "MEMORY_ALLOCATION_EXT", "other", "shared memory"),
    ("IPC:ExecuteGather", PARALLELISM, "other", "parallel workers"),
    ("IPC:ParallelFinish", PARALLELISM, "other", "parallel workers"),
    ("IPC:MessageQueueReceive", PARALLELISM, "other", "parallel workers"),
    ("IPC:MessageQueueSend", PARALLELISM, "other", "parallel workers"),
)
_SLEEPS_THOUGH_IO = frozenset({"io:aioiocompletion"})
"""Named IO, yet the session only sleeps until another process is done: no CPU of its own is inside."""
_NOWHERE = Event("", "other", False, "")


def _event(row: _Row) -> Event:
    name, analogue, category, resource = row
    in_io = name.startswith("IO:") and name.casefold() not in _SLEEPS_THOUGH_IO
    return Event(analogue, category, in_io, resource)


_BY_NAME = {row[0].casefold(): _event(row) for row in _LISTED}
_BY_TYPE = {
    "lwlock": Event(LATCH, "latch", False, "a structure in memory"),
    "lock": Event(LOCK, "lock", False, "a lock"),
    "bufferpin": Event(PAGE_LATCH, "page-latch", False, "a page that others still use"),
    "client": Event(NETWORK, "network", False, "the client"),
}
_READS = ("read", "prefetch")
"""An IO event that isn't listed is a read by its name, or else a write, a sync or the like."""


def event_of(wait_type: str) -> Event:
    """What `TYPE:NAME` means; of `NO_EVENT` and of what nothing is known, an event of category "other"."""
    if wait_type == NO_EVENT:
        return _NOWHERE
    known = wait_type.casefold()
    if known in _BY_NAME:
        return _BY_NAME[known]
    kind = known.partition(":")[0]
    if kind == "io":
        read = known.endswith(_READS)
        return Event(OTHER_IO, "data-read" if read else "data-write", True, "a file of the server")
    return _BY_TYPE.get(kind, _NOWHERE)
