"""How long requests took, from the kernel's trace points of their ends.

A thread waits for one request at a time, so an end belongs to its last request: of direct I/O, or its last sync. Ends
of requests that a thread doesn't wait for are not traced, nor those of buffered I/O, nor of syncs on XFS.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

import numpy as np

from storagelab.capture.attributing import OPERATIONS, Files
from storagelab.capture.model import IoRow
from storagelab.capture.perf import Records
from storagelab.capture.requests import READ, SYNC
from storagelab.capture.server import Watched

_FEW = 16
"""Servers with more files of the log, such as PostgreSQL, tell the time of log writes themselves."""


def log_files(watched: Watched) -> list[int]:
    """The numbers of the log's files, if they are few."""
    found: list[int] = []
    for folder in dict.fromkeys(folder.resolve() for folder in watched.folders().values()):
        for path in folder.glob("*"):
            thing = watched.thing_of(str(path))
            if thing is not None and thing.kind == "log":
                with contextlib.suppress(OSError):
                    found.append(path.stat().st_ino)
    return found if len(found) <= _FEW else []


class Waits:
    """Pairs requests with their ends. It remembers those that have not ended yet."""

    def __init__(self, watched: Watched, files: Files, begin_ns: int, interval_s: float) -> None:
        self._watched, self._files = watched, files
        self._begin_ns, self._interval_s = begin_ns, interval_s
        self._open: Records | None = None

    def of(self, requests: Records, ends: Records) -> Iterator[IoRow]:
        """Rows without requests, which have the time of those that ended, in the intervals in which they did."""
        if not len(ends):
            return
        pairs, self._open = paired(requests if self._open is None else np.concatenate([self._open, requests]), ends)
        interval = np.maximum(0, (pairs["time_ns"].astype("i8") - self._begin_ns) / 1e9 // self._interval_s)
        names = ("device", "inode", "operation", "pid")
        keys = np.stack([interval.astype("i8"), *(pairs[name].astype("i8") for name in names)], axis=1)
        groups, group = np.unique(keys, axis=0, return_inverse=True)
        seconds = np.bincount(group.reshape(-1), pairs["bytes"], len(groups)) / 1e9
        files, by = self._files, self._watched.by
        for (number, device, inode, operation, pid), of_group in zip(groups.tolist(), seconds.tolist(), strict=True):
            file = files.get((device, inode), partial(np.array, [pid]))
            if file is not None and file.thing is not None:
                yield IoRow(
                    number * self._interval_s, file.thing.id,
                    OPERATIONS[operation], by(pid),  # type: ignore[arg-type]
                    0, 0, None if operation == SYNC else 0, of_group,
                )  # fmt: skip


def paired(requests: Records, ends: Records) -> tuple[Records, Records]:
    """The ends that belong to requests, with the nanoseconds between them as `bytes`; and the requests that go on."""
    begun = requests[requests["operation"] != READ]
    some = np.concatenate([begun, ends])
    is_end = np.arange(len(some)) >= len(begun)
    order = np.lexsort((some["time_ns"], some["operation"] == SYNC, some["pid"]))
    some, is_end = some[order], is_end[order]
    before, after = some[:-1], some[1:]
    same = ~is_end[:-1]
    for name in ("pid", "device", "inode"):
        same &= before[name] == after[name]
    is_sync = some["operation"] == SYNC
    same_kind = is_sync[:-1] == is_sync[1:]
    ended = same & same_kind & is_end[1:]
    found = after[ended]
    found["operation"] = before["operation"][ended]
    found["bytes"] = (found["time_ns"] - before["time_ns"][ended]).astype("i8")
    last = np.ones(len(some), bool)
    last[:-1] = (before["pid"] != after["pid"]) | ~same_kind
    return found, some[last & ~is_end]
