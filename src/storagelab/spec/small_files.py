"""Reads files that people write (specs and profiles): only regular and small ones."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_BYTES = 2**20


def text_of(path: Path) -> str:
    """The text of a file, which must be UTF-8.

    Raises OSError if it can't be opened, and ValueError, in plain words, for anything that is not a regular file or is
    too large. It checks that before it reads: a device may never end, and a FIFO may have no writer.
    """
    # Without this flag, opening a FIFO would block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(None, "is a folder", str(path))
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES // 2**20} MiB")
    return content.decode("utf-8-sig")
