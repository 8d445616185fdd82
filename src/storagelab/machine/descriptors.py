"""Opens, writes, reads and removes files in folders where another user may have put links or files.

A server's folders belong to a user without root's rights, and a spec's SQL can make the server put links, pipes and
forged files there. The target of a path may change after a check, but the target of a descriptor can't. So this module
opens each folder of a path relative to its parent, never through a link, and checks the descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import secrets
import stat
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""A pipe that nobody reads or writes must not block storagelab when it is opened."""
_DEEPEST = 64
"""Folders below this depth are moved up before they are emptied, because each level keeps a descriptor open."""


@contextlib.contextmanager
def opened(path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o600, within: int | None = None) -> Iterator[int]:
    """The descriptor of a file or a folder, which programs that are started do not inherit. Raises OSError."""
    number = os.open(path, flags | os.O_CLOEXEC, mode, dir_fd=within)
    try:
        yield number
    finally:
        os.close(number)


@contextlib.contextmanager
def folder(path: str | Path, within: int | None = None) -> Iterator[int]:
    """The descriptor of a folder, by its path or by its name `within` another. Raises OSError, also for a link."""
    with contextlib.ExitStack() as undo:
        with _full_name(path, within):
            number = undo.enter_context(opened(path, _FOLDER, within=within))
        yield number


def open_file(name: str, within: int, flags: int = os.O_RDONLY) -> int:
    """The descriptor of a plain file in a folder. Raises OSError unless the file has a single hard link and belongs to
    the folder's owner or to this user.
    """
    with _full_name(name, within):
        try:
            opened = os.open(name, flags | _FILE, 0o644, dir_fd=within)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a pipe or a socket
                raise _not_plain(name) from error
            raise
        facts, owners = os.fstat(opened), {os.fstat(within).st_uid, os.geteuid()}
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1 or facts.st_uid not in owners:
            os.close(opened)
            raise _not_plain(name)
    return opened


def _not_plain(name: str) -> OSError:
    return PermissionError(errno.EPERM, "it is not a plain file of the folder's owner", name)


def read(name: str, within: int, most_bytes: int = -1) -> bytes:
    """The content of such a file, or the first `most_bytes` of it. Raises OSError."""
    with open(open_file(name, within), "rb") as file:
        return file.read(most_bytes)


def read_file(path: Path, most_bytes: int = -1) -> bytes:
    """The content of such a file by its path; the folders above its own are trusted. Raises OSError."""
    with folder(path.parent) as above:
        return read(path.name, above, most_bytes)


def write(name: str, within: int, content: bytes) -> None:
    """Makes such a file, or replaces its content. Raises OSError."""
    with open(open_file(name, within, os.O_WRONLY | os.O_CREAT), "wb") as file:
        file.truncate()
        file.write(content)


@contextlib.contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """Opens such a file by its path to append to it. Makes the file if there is none. Raises OSError."""
    with folder(path.parent) as above:
        opened = open_file(path.name, above, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with open(opened, "ab") as file:
        yield file


def content_of(top: int) -> Iterator[os.stat_result]:
    """The status of every file below a folder, but not of folders. Files that can't be read are left out."""
    for _, folders, names, within in os.fwalk(".", dir_fd=top):
        for name in (*folders, *names):
            with contextlib.suppress(OSError):  # a server that still runs removes its own files
                facts = os.stat(name, dir_fd=within, follow_symlinks=False)
                if not stat.S_ISDIR(facts.st_mode):
                    yield facts


# --- removing --------------------------------------------------------------------------------------------------------


def remove(name: str, within: int) -> None:
    """Removes the file or folder of this name, with everything inside. The targets of links stay. Raises OSError at the
    end if any part could not be removed.
    """
    with contextlib.suppress(FileNotFoundError), _full_name(name, within):
        try:
            os.unlink(name, dir_fd=within)
        except IsADirectoryError:
            with folder(name, within) as top:
                empty(top)
            os.rmdir(name, dir_fd=within)


def empty(top: int, but: Collection[str] = ()) -> None:
    """Removes everything in a folder except the names in `but`. Raises as `remove` does."""
    while _empty(top, top, but, 0):
        pass


def _empty(within: int, top: int, but: Collection[str], depth: int) -> bool:
    """True if a folder was moved up to `top`, which must then be emptied once more."""
    again, problem = False, None
    for name in os.listdir(within):
        try:
            again |= name not in but and _remove(name, within, top, depth)
        except FileNotFoundError:
            pass  # its program, just stopped, removed it
        except OSError as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return again


def _remove(name: str, within: int, top: int, depth: int) -> bool:
    with _full_name(name, within):
        try:
            os.unlink(name, dir_fd=within)
            return False
        except IsADirectoryError:
            pass
        if depth >= _DEEPEST:
            os.rename(name, f"{name[:16]}-{secrets.token_hex(8)}", src_dir_fd=within, dst_dir_fd=top)
            return True
        with folder(name, within) as inner:
            again = _empty(inner, top, (), depth + 1)
        os.rmdir(name, dir_fd=within)
        return again


@contextlib.contextmanager
def _full_name(path: str | Path, within: int | None) -> Iterator[None]:
    """Makes errors name the whole path, not only the name in a folder."""
    try:
        yield
    except OSError as error:
        if within is not None and error.filename == path:
            with contextlib.suppress(OSError):
                error.filename = os.path.join(os.readlink(f"/proc/self/fd/{within}"), path)
        raise


# --- what the user asks for -------------------------------------------------------------------------------------------

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
    """Writes `file`.

    It writes a regular or new file completely or not at all: it writes a temporary file beside it, and renames that
    file. It makes the folder. An existing file keeps its mode and, if possible, its owner. It writes directly to other
    kinds of files: a device, a pipe, or the terminal. Raises OSError, also for a block device.
    """
    if (number := descriptor_of(file)) is not None:
        # Write to an open file, after the output that was printed before
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
    """The regular file, open for writing at its end; made if it doesn't exist. Raises OSError."""
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
        # This is somebody else's file in a folder that we may write: we can replace the file, but not write it.
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
