"""Copies folders of a stopped server. Files share their blocks with the copy where the file system can do that, as with
`cp --reflink=auto`; such a copy takes no time and no space until one of the two is changed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable
from typing import NamedTuple

from storagelab.targets import descriptors

_FICLONE = 0x40049409
"""Linux: `ioctl` that makes one file share all blocks of another (linux/fs.h)."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_DEEPEST = 64
"""No server nests its folders as deeply; each level keeps two descriptors open."""


class Content(NamedTuple):
    """What a folder holds, below it: files, and their bytes together."""

    files: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.bytes:,} bytes in {self.files:,} files"


def content_of(folder: int) -> Content:
    """Counts what a folder holds, by its descriptor."""
    sizes = [facts.st_size for facts in descriptors.content_of(folder) if not stat.S_ISLNK(facts.st_mode)]
    return Content(len(sizes), sum(sizes))


def together(contents: Iterable[Content]) -> Content:
    return Content(*(sum(figures) for figures in zip(Content(0, 0), *contents, strict=True)))


def copy_folder(name: str, source: int, copy: int, depth: int = 0) -> int:
    """Copy a folder with owners, modes and symbolic links from one folder to another, both given by descriptors. Returns the
    bytes whose blocks are shared.

    Only this user can reach the copy before it is whole. Raises OSError, also for anything that is not a plain file of the
    server's, a folder or a link.
    """
    with descriptors.folder(name, source) as original:
        os.mkdir(name, 0o700, dir_fd=copy)
        with descriptors.folder(name, copy) as made:
            shared = sum(_copy_entry(entry, original, made, depth) for entry in sorted(os.listdir(original)))
            _give_same_rights(os.fstat(original), made)
    return shared


def _copy_entry(name: str, source: int, copy: int, depth: int) -> int:
    facts = os.stat(name, dir_fd=source, follow_symlinks=False)
    if stat.S_ISLNK(facts.st_mode):
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=copy)
        if os.geteuid() == 0:
            os.chown(name, facts.st_uid, facts.st_gid, dir_fd=copy, follow_symlinks=False)
        return 0
    if not stat.S_ISDIR(facts.st_mode):
        return _copy_file(name, source, copy)
    if depth >= _DEEPEST:
        raise OSError(errno.ENAMETOOLONG, f"folders are nested more than {_DEEPEST} deep", name)
    return copy_folder(name, source, copy, depth + 1)


def _copy_file(name: str, source: int, copy: int) -> int:
    new = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with (
        open(descriptors.open_file(name, source), "rb") as original,
        open(descriptors.open_file(name, copy, new), "wb") as made,
    ):
        facts = os.fstat(original.fileno())
        shared = facts.st_size
        try:
            fcntl.ioctl(made.fileno(), _FICLONE, original.fileno())
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise
            shared = 0
            shutil.copyfileobj(original, made, 2**20)
            with contextlib.suppress(
                OSError, AttributeError
            ):  # the original must not crowd the copy out of the page cache
                os.posix_fadvise(original.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        _give_same_rights(facts, made.fileno())
    return shared


def _give_same_rights(facts: os.stat_result, copy: int) -> None:
    if os.geteuid() == 0:
        os.fchown(copy, facts.st_uid, facts.st_gid)
    os.fchmod(copy, facts.st_mode & 0o7777)
