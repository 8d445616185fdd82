"""Removes the shared memory of a PostgreSQL server that was killed: nobody else does, as its folder is removed, too.

A server that starts on the same data folder would do the same. The file postmaster.pid names a System V segment, whose
header names the data folder by device and inode, and the control segment of dynamic shared memory, which lists the others.
Structures: PGShmemHeader, dsm_control_header and dsm_control_item of PostgreSQL 14 to 18.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from storagelab.targets import descriptors

_PID_FILE = "postmaster.pid"
_LONGEST_PID_FILE_BYTES = 4096
_SEGMENT_LINE = 6
"""Its line with key and number of the System V segment, counted from 0."""
_HEADER = struct.Struct("@iiNNIPQQ")
"""PGShmemHeader: magic, creator's process, size, free offset, control segment, index, device, inode."""
_HEADER_MAGIC = 679834894
_CONTROL = struct.Struct("@III")
"""dsm_control_header: magic, items, most items."""
_CONTROL_MAGIC = 0x9A503D32
_ITEM = struct.Struct("@IINNP?7x")
"""dsm_control_item: handle, references, first page, pages, private handle, pinned."""
_FOLDER = Path("/dev/shm")  # noqa: S108
_LARGEST_CONTROL_BYTES = 2**24
_PATIENCE_S = 2.0
_IPC_RMID, _SHM_RDONLY = 0, 0o10000
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.shmat.restype = ctypes.c_void_p


class _Header(NamedTuple):
    """What the System V segment says."""

    creator: int
    control: int
    device: int
    inode: int


def remove_left(data_folder: Path) -> None:
    """Removes the segments of the server that was killed on this data folder. Does nothing while it lives, or if they are
    another server's."""
    with contextlib.suppress(OSError, ValueError, IndexError, struct.error), descriptors.folder(data_folder) as folder:
        lines = descriptors.read(_PID_FILE, folder, _LONGEST_PID_FILE_BYTES).decode("ascii").splitlines()
        segment = int(lines[_SEGMENT_LINE].split()[1])
        facts, header = os.fstat(folder), _header_of(segment)
        is_ours = (header.device, header.inode) == (facts.st_dev, facts.st_ino)
        if not is_ours or not _is_gone(header.creator):
            return
        for handle in (*_listed(header.control, facts.st_uid), header.control):
            _remove_file(handle, facts.st_uid)
        _LIBC.shmctl(segment, _IPC_RMID, None)


def _is_gone(pid: int) -> bool:
    """Waits a moment: one that was just killed may still be ending."""
    deadline = time.monotonic() + _PATIENCE_S
    while _lives(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


def _header_of(segment: int) -> _Header:
    """Raises OSError if there is no such segment, ValueError if it is none of PostgreSQL's."""
    place = _LIBC.shmat(segment, None, _SHM_RDONLY)
    if place in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "can't attach the segment")
    try:
        magic, creator, _, _, control, _, device, inode = _HEADER.unpack(ctypes.string_at(place, _HEADER.size))
    finally:
        _LIBC.shmdt(ctypes.c_void_p(place))
    if magic != _HEADER_MAGIC:
        raise ValueError("it is not PostgreSQL's")
    return _Header(creator, control, device, inode)


def _listed(control: int, owner: int) -> Iterator[int]:
    """The handles of the segments that a control segment lists."""
    with _opened(control, owner) as file:
        content = os.read(file, _LARGEST_CONTROL_BYTES)
    magic, items, _ = _CONTROL.unpack_from(content)
    if magic != _CONTROL_MAGIC:
        return
    first = -(-_CONTROL.size // 8) * 8  # items are aligned
    for place in range(min(items, (len(content) - first) // _ITEM.size)):
        handle, references, *_ = _ITEM.unpack_from(content, first + place * _ITEM.size)
        if references:
            yield handle


@contextlib.contextmanager
def _opened(handle: int, owner: int) -> Iterator[int]:
    """Raises OSError unless there is such a segment, and it is the server's."""
    file = os.open(_path(handle), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(file).st_uid != owner:
            raise PermissionError(f"{_path(handle)} is another user's")
        yield file
    finally:
        os.close(file)


def _remove_file(handle: int, owner: int) -> None:
    with contextlib.suppress(OSError), _opened(handle, owner):
        _path(handle).unlink()


def _path(handle: int) -> Path:
    return _FOLDER / f"PostgreSQL.{handle}"
