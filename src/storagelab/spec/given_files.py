"""Opens files that others wrote: specs, profiles, captures, predictions, traces, scripts and dumps.

A device may never end, and a FIFO may have no writer, so only regular files are read. A lint (`tests/test_tidy.py`)
refuses any other way to open such a file.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from storagelab.errors import PreflightError

MOST_BYTES = 2**20
"""Of a file that people write."""


@contextlib.contextmanager
def opened(path: Path, most_bytes: int | None = None) -> Iterator[BinaryIO]:
    """A regular file of at most `most_bytes`, for reading. Raises OSError, whose `strerror` says what is wrong."""
    # Without O_NONBLOCK, opening a FIFO would block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        if most_bytes is not None and found.st_size > most_bytes:
            raise OSError(errno.EFBIG, f"is larger than {most_bytes // 2**20} MiB", str(path))
        yield file


def text_of(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """The text of a file, which must be UTF-8. Raises OSError as `opened`, and ValueError."""
    with opened(path, most_bytes) as file:
        return file.read(most_bytes).decode("utf-8-sig")


def json_of(path: Path, most_bytes: int) -> Any:
    """What a file of JSON holds, without NaN and infinities. Raises OSError as `opened`, and ValueError."""
    try:
        return json.loads(text_of(path, most_bytes), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def toml_of(text: str) -> dict[str, Any]:
    """Raises ValueError."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no figure")


def begin_of(path: Path, most_bytes: int, key: str) -> bytes:
    """The first bytes of a file that a spec's key names. Raises PreflightError."""
    try:
        with opened(path) as file:
            return file.read(most_bytes)
    except OSError as error:
        raise PreflightError(
            f"{path} can't be read: {error.strerror}", key=key, hint="check its name and rights"
        ) from error
