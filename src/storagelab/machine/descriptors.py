"""Opens, writes, reads and removes files in folders where another user may have put links or files.

A server's folders belong to a user without root's rights. A spec's SQL can make the server put links, pipes and forged
files into them. After a check, a path may come to name another file, but a descriptor always names the same file. So
each folder of a path is opened by its name within the folder above it, and never through a link. The checks use the
descriptor.
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
"""Without O_NONBLOCK, storagelab would wait when it opens a pipe that no other process has open."""
_DEEPEST = 64
"""A folder at this depth is moved up before it is emptied, because each level of folders keeps a descriptor open."""


@contextlib.contextmanager
def opened(path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o600, within: int | None = None) -> Iterator[int]:
    """The descriptor of a file or a folder. Programs that storagelab starts do not inherit it. Raises OSError."""
    number = os.open(path, flags | os.O_CLOEXEC, mode, dir_fd=within)
    try:
        yield number
    finally:
        os.close(number)


@contextlib.contextmanager
def folder(path: str | Path, within: int | None = None) -> Iterator[int]:
    """The descriptor of a folder: by its path, or by its name in the folder `within`. Raises OSError, also if the
    folder is a link.
    """
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
            if error.errno in (errno.ELOOP, errno.ENXIO):  # it is a link (ELOOP), or a pipe or a socket (ENXIO)
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
    """The content of a plain file (see `open_file`), or its first `most_bytes` bytes. Raises OSError."""
    with open(open_file(name, within), "rb") as file:
        return file.read(most_bytes)


def read_file(path: Path, most_bytes: int = -1) -> bytes:
    """The content of a plain file with this path. The folders above the file's folder are trusted. Raises OSError."""
    with folder(path.parent) as above:
        return read(path.name, above, most_bytes)


def write(name: str, within: int, content: bytes) -> None:
    """Makes a plain file (see `open_file`), or replaces its content. Raises OSError."""
    with open(open_file(name, within, os.O_WRONLY | os.O_CREAT), "wb") as file:
        file.truncate()
        file.write(content)


@contextlib.contextmanager
def appending(path: Path) -> Iterator[BinaryIO]:
    """Opens a plain file by its path to append to it, and makes the file if it does not exist. Raises OSError."""
    with folder(path.parent) as above:
        opened = open_file(path.name, above, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with open(opened, "ab") as file:
        yield file


def content_of(top: int) -> Iterator[os.stat_result]:
    """The status of every file below a folder. Folders, and files whose status can't be read, are left out."""
    for _, folders, names, within in os.fwalk(".", dir_fd=top):
        for name in (*folders, *names):
            with contextlib.suppress(OSError):  # a running server may remove its files at any time
                facts = os.stat(name, dir_fd=within, follow_symlinks=False)
                if not stat.S_ISDIR(facts.st_mode):
                    yield facts


# --- removing --------------------------------------------------------------------------------------------------------


def remove(name: str, within: int) -> None:
    """Removes the file or folder of this name, and everything in the folder. The targets of links are not removed. If a
    part could not be removed, the other parts are removed first, and then OSError is raised.
    """
    with contextlib.suppress(FileNotFoundError), _full_name(name, within):
        try:
            os.unlink(name, dir_fd=within)
        except IsADirectoryError:
            with folder(name, within) as top:
                empty(top)
            os.rmdir(name, dir_fd=within)


def empty(top: int, but: Collection[str] = ()) -> None:
    """Removes everything in a folder except the names in `but`. Raises OSError, as `remove` does."""
    while _empty(top, top, but, 0):
        pass


def _empty(within: int, top: int, but: Collection[str], depth: int) -> bool:
    """Empties a folder once. Returns True if a folder was moved up to `top`, because `top` must then be emptied once
    more.
    """
    again, problem = False, None
    for name in os.listdir(within):
        try:
            again |= name not in but and _remove(name, within, top, depth)
        except FileNotFoundError:
            pass  # it was removed meanwhile, by a program that was just stopped
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
    """Makes errors name the whole path, not only the name within the folder."""
    try:
        yield
    except OSError as error:
        if within is not None and error.filename == path:
            with contextlib.suppress(OSError):
                error.filename = os.path.join(os.readlink(f"/proc/self/fd/{within}"), path)
        raise


# --- files that the user names ----------------------------------------------------------------------------------------

_MOST_LINKS = 40
_OWN_FOLDER = re.compile(r"/proc/(\d+)(?:/task/\d+)?/fd")


def descriptor_of(file: Path) -> int | None:
    """The descriptor that a path such as /dev/stdout or /dev/fd/63 names, if it is an open file of this process.
    Returns None for other paths.
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
    """Writes `file`, and makes its folder. A regular or new file is written completely or not at all: its content goes
    to a temporary file beside it, which is then renamed.

    An existing file keeps its mode and, if possible, its owner. A device, a pipe or the terminal is written directly.
    Raises OSError, also if `file` is a block device.
    """
    if (number := descriptor_of(file)) is not None:
        # Flush what was printed before, so that it comes first in the open file.
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
    """The regular file, open for writing at its end. Makes the file if it doesn't exist. Raises OSError."""
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
    """Follows all links of `file`, and opens its target. Gives the target and its descriptor, which is None if the
    target does not exist or can't be opened.
    """
    made = False
    try:
        number = os.open(file, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        if not file.is_symlink():
            yield file, None
            return
        number, made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666), True
    except PermissionError:
        # The file is another user's, in a folder that this user may write. It can't be written, but it can be replaced.
        if not stat.S_ISREG(file.lstat().st_mode):
            raise
        yield file, None
        return
    try:
        target = Path(os.readlink(f"/proc/self/fd/{number}"))
        if stat.S_ISREG(os.fstat(number).st_mode) and not os.path.samestat(os.stat(target), os.fstat(number)):
            raise FileNotFoundError(errno.ENOENT, "it was just removed or replaced")
        try:
            yield target, number
        except BaseException:
            if made:
                target.unlink(missing_ok=True)
            raise
    finally:
        os.close(number)


def _replace(file: Path, parts: Sequence[bytes], before: os.stat_result | None, *, synced: bool) -> None:
    # Remove files that killed processes left. Each process writes to a file beside `file`, with its PID in the name.
    for left in file.parent.glob(f".{glob.escape(file.name)}.*"):
        number = left.suffix.removeprefix(".")
        if number.isdecimal() and not Path(f"/proc/{number}").exists():
            left.unlink(missing_ok=True)
    path = file.with_name(f".{file.name}.{os.getpid()}")
    path.unlink(missing_ok=True)
    with path.open("xb") as temporary:  # "x" refuses an existing file or link
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
