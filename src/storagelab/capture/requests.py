"""A server's requests to the operating system, from trace points that name the file: which thread asked for which
bytes.

Large requests come as several events, one for each part of the kernel's page cache; they are put together again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from storagelab.capture.perf import Records, Rings
from storagelab.capture.tracefs import Event, NoTracing, event, open_tracefs

READ, WRITE, SYNC = 0, 1, 2
Column = np.ndarray[Any, np.dtype[Any]]
_FORM = np.dtype(
    [
        ("time_ns", "u8"), ("pid", "i4"), ("device", "u8"), ("inode", "u8"), ("offset", "i8"), ("bytes", "i8"),
        ("operation", "u1"), ("source", "u1"),
    ]
)  # fmt: skip
_PAGE = os.sysconf("SC_PAGE_SIZE")


class _Point(NamedTuple):
    """How a trace point's fields become requests. `on`: the file systems whose requests it shows."""

    name: str
    on: Collection[str]
    inode: str
    device: str
    span: Callable[[Records, Event], tuple[Column | int, Column | int]]
    operation: Callable[[Records, Event], Column | int]
    fields: tuple[str, ...]
    only: str = ""
    """Which of its events count, in the language of the kernel's filters; flags by their names."""


def _pages(some: Records, _: Event) -> tuple[Column, Column]:
    begin = some["index"].astype("i8")
    return begin * _PAGE, (some["last_index"].astype("i8") - begin + 1) * _PAGE


def _bytes(offset: str, count: str) -> Callable[[Records, Event], tuple[Column, Column]]:
    return lambda some, _: (some[offset], some[count].astype("i8"))


def _always(operation: int) -> Callable[[Records, Event], int]:
    return lambda *_: operation


def _by_flag(some: Records, of: Event) -> Column:
    return np.where(some["flags"] & of.flags["WRITE"], WRITE, READ)


def _nothing(*_: object) -> tuple[int, int]:
    return 0, 0


_EXT4, _XFS = ("ext4",), ("xfs",)
_POINTS = (
    _Point("filemap/mm_filemap_get_pages", _EXT4, "i_ino", "s_dev", _pages, _always(READ), ("index", "last_index")),
    _Point("iomap/iomap_iter", _EXT4, "ino", "dev", _bytes("pos", "length"), _by_flag, ("pos", "length", "flags"),
           only="length > 0 && flags & {DIRECT}"),  # its last step has no length
    _Point("ext4/ext4_da_write_begin", _EXT4, "ino", "dev", _bytes("pos", "len"), _always(WRITE), ("pos", "len")),
    _Point("ext4/ext4_write_begin", _EXT4, "ino", "dev", _bytes("pos", "len"), _always(WRITE), ("pos", "len")),
    _Point("ext4/ext4_sync_file_enter", _EXT4, "ino", "dev", _nothing, _always(SYNC), ()),
    *(
        _Point(f"xfs/xfs_file_{way}_{verb}", _XFS, "ino", "dev", _bytes("offset", "count"), _always(kind),
               ("offset", "count"))
        for way in ("buffered", "direct") for verb, kind in (("read", READ), ("write", WRITE))
    ),
    _Point("xfs/xfs_file_fsync", _XFS, "ino", "dev", _nothing, _always(SYNC), ()),
)  # fmt: skip
_ENDS = (
    _Point("ext4/ext4_sync_file_exit", _EXT4, "ino", "dev", _nothing, _always(SYNC), ()),
    # Of direct I/O that its thread waits for; of few files, as each event costs time.
    _Point("iomap/iomap_dio_complete", _EXT4, "ino", "dev", _nothing, _always(WRITE), (), only="aio == 0 && ({files})"),
)  # fmt: skip
"""The ends of requests. XFS tells none of its syncs."""
TRACED = ("ext4", "xfs")
"""The file systems whose reads and writes are traced by file."""


class Tracer:
    """Requests of threads with these names (`postgres`, or patterns such as `iou-wrk*`), by the kernel's trace
    points.
    """

    def __init__(self, threads: Collection[str], filesystems: Collection[str], timed: Collection[int] = ()) -> None:
        """`timed`: the numbers of the files whose direct I/O is traced to its end. Raises NoTracing."""
        self.points: tuple[str, ...] = ()
        self.missing: tuple[str, ...] = ()
        self.ended = np.empty(0, _FORM)
        """The ends of requests."""
        self._rings: list[tuple[_Point, Event, Rings]] = []
        root = open_tracefs()
        filtered = " || ".join(f'comm ~ "{name}"' for name in threads)
        files = " || ".join(f"ino == {number}" for number in timed) or "ino == 0"
        try:
            wanted = [point for point in (*_POINTS, *_ENDS) if set(point.on) & set(filesystems)]
            found = [(point, event(root, point.name)) for point in wanted]
            for point, one in found:
                if one is None or not ({point.inode, point.device, *point.fields} <= one.fields.keys()):
                    self.missing += () if point in _ENDS else (point.name,)
                else:
                    only = f"({filtered}) && {point.only.format(files=files, **one.flags)}" if point.only else filtered
                    self._rings.append((point, one, Rings(one, only)))
                    self.points += (point.name,)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(root)
        if not {point.name for point in _POINTS} & set(self.points):
            raise NoTracing(f"no trace points for {', '.join(sorted(filesystems)) or 'this file system'}")

    @property
    def lost(self) -> int:
        """The events that came while a ring was full."""
        return sum(rings.lost for _, _, rings in self._rings)

    def run(self, *, on: bool) -> None:
        """Goes on with the trace, or rests."""
        for _, _, rings in self._rings:
            rings.run(on=on)

    def drain(self) -> Records:
        """The requests since the last call, by time. What ended since then is in `ended`."""
        parts, of_ends = [np.empty(0, _FORM)], [np.empty(0, _FORM)]
        # Ends are taken first, so that each one's request is there.
        for number, (point, one, rings) in reversed(list(enumerate(self._rings))):
            if len(some := rings.drain((point.inode, point.device, *point.fields))):
                (of_ends if point in _ENDS else parts).append(_requests(number, point, one, some))
        self.ended = np.concatenate(of_ends)
        whole = np.concatenate(parts)
        return put_together(whole[np.argsort(whole["time_ns"], kind="stable")])

    def close(self) -> None:
        while self._rings:
            self._rings.pop()[2].close()


def _requests(number: int, point: _Point, one: Event, some: Records) -> Records:
    found = np.empty(len(some), _FORM)
    found["time_ns"], found["pid"], found["source"] = some["time_ns"], some["pid"], number
    found["device"], found["inode"] = some[point.device], some[point.inode]
    found["offset"], found["bytes"] = point.span(some, one)
    found["operation"] = point.operation(some, one)
    return found


def put_together(some: Records) -> Records:
    """The requests, each once. The kernel tells of a large request part by part, each with the rest that is left: parts
    of one thread and file that end at the same byte, each beginning further on, are one request. Of two trace points
    that tell of the same part, the first counts.
    """
    order = np.argsort(some["pid"], kind="stable")
    sorted_ = some[order]
    before, after = sorted_[:-1], sorted_[1:]
    same = np.ones(len(after), bool)
    for name in ("pid", "inode", "device", "operation"):
        same &= before[name] == after[name]
    same &= before["offset"] + before["bytes"] == after["offset"] + after["bytes"]
    further = before["offset"] < after["offset"]
    told_twice = (before["offset"] == after["offset"]) & (before["source"] != after["source"])
    same &= (after["operation"] != SYNC) & (further | told_twice)
    keep = np.ones(len(some), bool)
    keep[order[1:][same]] = False
    return some[keep]
