"""Opens, writes, reads and removes files by their descriptors, in folders where another user may have put something.

A server's folders belong to a user without root's rights, and a spec's SQL can make the server put links, pipes and
forged files there. A path may lead elsewhere a moment after it was checked; a descriptor can't. So each folder of a
path is opened within the one above it, never through a link, and the checks use the descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Opening a pipe that nobody reads or writes must not block storagelab."""
_DEEPEST = 64
"""Folders below this depth are moved up before they are emptied, since each level keeps a descriptor open."""


@contextlib.contextmanager
def folder(path: str | Path, within: int | None = None) -> Iterator[int]:
    """The descriptor of a folder, by its path or by its name `within` another. Raises OSError, also for a link."""
    with _full_name(path, within):
        opened = os.open(path, _FOLDER, dir_fd=within)
    try:
        yield opened
    finally:
        os.close(opened)


def open_file(name: str, within: int, flags: int = os.O_RDONLY) -> int:
    """The descriptor of a plain file in a folder. Raises OSError unless the file has only one name and belongs to
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
    """The content of such a file, or its first `most_bytes`. Raises OSError."""
    with open(open_file(name, within), "rb") as file:
        return file.read(most_bytes)


def read_file(path: Path, most_bytes: int = -1) -> bytes:
    """The content of such a file by its path; the folders above its own are trusted. Raises OSError."""
    with folder(path.parent) as above:
        return read(path.name, above, most_bytes)


def write(name: str, within: int, content: bytes) -> None:
    """Make such a file, or replace its content. Raises OSError."""
    with open(open_file(name, within, os.O_WRONLY | os.O_CREAT), "wb") as file:
        file.truncate()
        file.write(content)


@contextlib.contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """Open such a file by its path to append to it; make it if there is none. Raises OSError."""
    with folder(path.parent) as above:
        opened = open_file(path.name, above, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with open(opened, "ab") as file:
        yield file


def content_of(top: int) -> Iterator[os.stat_result]:
    """The status of every file below a folder, but not of folders; what can't be read is left out."""
    for _, folders, names, within in os.fwalk(".", dir_fd=top):
        for name in (*folders, *names):
            with contextlib.suppress(OSError):  # a server that still runs removes its own files
                facts = os.stat(name, dir_fd=within, follow_symlinks=False)
                if not stat.S_ISDIR(facts.st_mode):
                    yield facts


# --- removing --------------------------------------------------------------------------------------------------------


def remove(name: str, within: int) -> None:
    """Remove whatever has this name in a folder, with everything inside; the targets of links stay. Raises OSError
    at the end if some of it could not be removed.
    """
    with contextlib.suppress(FileNotFoundError), _full_name(name, within):
        try:
            os.unlink(name, dir_fd=within)
        except IsADirectoryError:
            with folder(name, within) as top:
                empty(top)
            os.rmdir(name, dir_fd=within)


def empty(top: int, but: Collection[str] = ()) -> None:
    """Remove everything in a folder except the names in `but`. Raises as `remove` does."""
    while _empty(top, top, but, 0):
        pass


def _empty(within: int, top: int, but: Collection[str], depth: int) -> bool:
    """True if something was moved up to the folder `top`, which must then be emptied once more."""
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
