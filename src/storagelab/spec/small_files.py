"""Files that a person writes, specs and profiles: small, and files indeed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_BYTES = 2**20


def text_of(path: Path) -> str:
    """The text of a file, which must be UTF-8.

    Raises OSError as opening does; ValueError, in plain words, for what is no regular file or too large, before any of it is
    read: a device may have no end, and a FIFO nobody at its other one.
    """
    # Without this flag the opening of a FIFO would wait already.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(None, "is a folder", str(path))
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES // 2**20} MiB")
    return content.decode("utf-8-sig")
