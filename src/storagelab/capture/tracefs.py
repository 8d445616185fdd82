"""The kernel's trace points: their numbers and fields, as tracefs describes them.

tracefs is read through a mount that has no place in the file tree and ends with this process. So nothing is left
behind, even if the process is killed.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import NamedTuple

_MOUNTED = Path("/sys/kernel/tracing")
# The same numbers on every architecture (asm-generic/unistd.h).
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSCONFIG_CMD_CREATE = 6
_CLOSE_ON_EXEC = 1
_FIELD = re.compile(
    r"field:(?P<declared>[^;]+);\s*offset:(?P<offset>\d+);\s*size:(?P<size>\d+);\s*signed:(?P<signed>\d)"
)
_PID_OFFSET = 4
"""Where every event has the number of its thread (`common_pid`)."""


class Field(NamedTuple):
    """A field of an event: where it is in the record, and numpy's type for it."""

    offset: int
    type: str


class Event(NamedTuple):
    """A trace point. `flags` are bits that the kernel's own description names."""

    name: str
    number: int
    fields: dict[str, Field]
    flags: dict[str, int]


class NoTracing(Exception):
    """The kernel's trace points can't be read; `str()` says why."""


def open_tracefs() -> int:
    """A descriptor of tracefs' root folder. Raises NoTracing."""
    if os.geteuid() != 0:
        raise NoTracing("only root may use the kernel's trace points")
    if (_MOUNTED / "events").is_dir():
        return os.open(_MOUNTED, os.O_RDONLY | os.O_DIRECTORY)
    libc = ctypes.CDLL(None, use_errno=True)
    context = libc.syscall(_FSOPEN, b"tracefs", _CLOSE_ON_EXEC)
    if context < 0:
        raise NoTracing(f"this kernel has no tracefs ({os.strerror(ctypes.get_errno())})")
    try:
        made = libc.syscall(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        mount = libc.syscall(_FSMOUNT, context, _CLOSE_ON_EXEC, 0) if made >= 0 else -1
        if mount < 0:
            raise NoTracing(f"tracefs can't be mounted here ({os.strerror(ctypes.get_errno())})")
        return int(mount)
    finally:
        os.close(context)


def event(root: int, name: str) -> Event | None:
    """The trace point `group/name`; None if this kernel lacks it."""
    try:
        number, text = (_read(root, f"events/{name}/{file}") for file in ("id", "format"))
    except OSError:
        return None
    found = {}
    for match in _FIELD.finditer(text):
        name_of = match["declared"].split()[-1]
        kind = ("i" if match["signed"] == "1" else "u") + match["size"]
        found[name_of] = Field(int(match["offset"]), kind)
    flags = {flag: 1 << int(bit) for bit, flag in re.findall(r'\(1 << (\d+)\), "([A-Z_]+)"', text)}
    return Event(name, int(number), {**found, "pid": Field(_PID_OFFSET, "i4")}, flags)


def _read(root: int, path: str) -> str:
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=root)
    with os.fdopen(number, encoding="ascii") as file:
        return file.read()
