"""Writes files whatever kind of file their names lead to: a regular file is replaced whole; anything else is written
to.

If the name is a link, its target is replaced, as with a shell's `>`. The kernel decides whether the link may be
followed, since the file is opened by the name that was given. Files inside a folder of results may come from somebody
else, including links; they are written only if they lead to a place `within` that folder.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

_MOST_LINKS = 40
_OWN_FOLDER = re.compile(r"/proc/(\d+)(?:/task/\d+)?/fd")


def descriptor_of(file: Path) -> int | None:
    """The number of this process's open file that a path names, such as /dev/stdout or /dev/fd/63; None for other
    paths.
    """
    path = os.path.abspath(file)
    for _ in range(_MOST_LINKS):
        folder, name = os.path.realpath(os.path.dirname(path)), os.path.basename(path)
        found = _OWN_FOLDER.fullmatch(folder)
        if found and int(found[1]) == os.getpid():
            return int(name) if name.isdecimal() else None
        try:
            path = os.path.join(folder, os.readlink(os.path.join(folder, name)))
        except OSError:
            return None
    return None


def write_whole(file: Path, parts: Sequence[bytes], *, within: Path | None = None, synced: bool = True) -> None:
    """Write `file`: a regular or new file completely or not at all, through a temporary file beside it that is
    renamed.

    Makes its folder. An existing file keeps its mode and, if possible, its owner. Anything but a regular file is
    written to directly: a device, a pipe, or the terminal. Raises OSError, also for a block device, where no report
    belongs.
    """
    if (number := descriptor_of(file)) is not None:
        # Write to an open file. What was printed before comes first
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        _write_all(number, parts)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    if within is not None:
        _refuse_outside(file, within)
    with _as_it_is(file) as (target, opened):
        if opened is None or stat.S_ISREG(os.fstat(opened).st_mode):
            _replace(target, parts, None if opened is None else os.fstat(opened), synced=synced)
        elif stat.S_ISBLK(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "it is a block device, whose content would be lost")
        else:
            _write_all(opened, parts)


def open_to_append(file: Path, *, within: Path) -> BinaryIO:
    """The regular file, open for writing at its end; made if it is absent. Raises OSError."""
    _refuse_outside(file, within)
    # Without this flag, opening a FIFO would block.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    number = os.open(file, flags, 0o666)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return os.fdopen(number, "ab")


def _refuse_outside(file: Path, within: Path) -> None:
    target = os.path.realpath(file)
    if not Path(target).is_relative_to(os.path.realpath(within)):
        raise OSError(errno.EPERM, f"it leads out of {within}, to {target}")
    if os.path.lexists(target) and not os.path.isfile(target):
        raise OSError(errno.EINVAL, "it is not a regular file")


@contextlib.contextmanager
def _as_it_is(file: Path) -> Iterator[tuple[Path, int | None]]:
    """Follows all links to the place to write, and opens it; None if nothing exists there that could be opened."""
    made = False
    try:
        number = os.open(file, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        if not file.is_symlink():
            yield file, None
            return
        number, made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666), True
    except PermissionError:
        # Somebody else's file in a folder that we may write: it can be replaced, though not written.
        if not stat.S_ISREG(file.lstat().st_mode):
            raise
        yield file, None
        return
    try:
        target = Path(os.readlink(f"/proc/self/fd/{number}"))
        if stat.S_ISREG(os.fstat(number).st_mode) and not os.path.samestat(os.stat(target), os.fstat(number)):
            raise FileNotFoundError(errno.ENOENT, "it was removed or replaced at this moment")
        try:
            yield target, number
        except BaseException:
            if made:
                target.unlink(missing_ok=True)
            raise
    finally:
        os.close(number)


def _replace(file: Path, parts: Sequence[bytes], before: os.stat_result | None, *, synced: bool) -> None:
    # Remove what killed processes left: each wrote beside the file, under its own number
    for left in file.parent.glob(f".{glob.escape(file.name)}.*"):
        number = left.suffix.removeprefix(".")
        if number.isdecimal() and not Path(f"/proc/{number}").exists():
            left.unlink(missing_ok=True)
    path = file.with_name(f".{file.name}.{os.getpid()}")
    path.unlink(missing_ok=True)
    with path.open("xb") as temporary:  # never through an existing link
        try:
            temporary.writelines(parts)
            temporary.flush()
            if before is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(temporary.fileno(), before.st_uid, before.st_gid)
                os.fchmod(temporary.fileno(), before.st_mode & 0o777)
            if synced:
                os.fsync(temporary.fileno())
            path.replace(file)
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise


def _write_all(number: int, parts: Sequence[bytes]) -> None:
    for part in parts:
        left = memoryview(part)
        while left:
            left = left[os.write(number, left) :]
