"""Finds all programs that one of our programs has started: each inherits a mark in its environment.

A spec's SQL may start a program that leaves its session and its parent (`setsid -f`). Such a program outlives the
server that started it, and is no child of ours. The mark names the storagelab that set it, so that a later storagelab
finds what a killed one left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import PreflightError
from storagelab.machine import temporary
from storagelab.machine.processes import JUST_STOPPED_S, until
from storagelab.machine.unprivileged import unprivileged

VARIABLE = "STORAGELAB_MARK"
_LIBC = ctypes.CDLL(None)


class _Marked(NamedTuple):
    pid: int
    name: str
    mark: str


def new() -> str:
    """A mark for one program and everything that it starts."""
    return f"{temporary.own_name()}/{secrets.token_hex(8)}"


def end(mark: str) -> None:
    """Kill whatever still runs with this mark."""
    _end(lambda found: found == mark)


def end_left_behind() -> list[str]:
    """Kill what has the mark of a storagelab that has ended; returns what was killed."""
    ended = _end(lambda found: temporary.is_nobodys(found.partition("/")[0]))
    return [f"stopped the program {one.name} (process {one.pid}), left running by a killed run" for one in ended]


def _end(is_meant: Callable[[str], bool]) -> list[_Marked]:
    """Kills until none is left, since a program may start another meanwhile. Gives up after a while."""
    ended: dict[int, _Marked] = {}

    def none_is_left() -> bool:
        found = [one for one in _running() if is_meant(one.mark)]
        for one in found:
            with contextlib.suppress(OSError):
                os.kill(one.pid, signal.SIGKILL)
                ended[one.pid] = one
        return not found

    until(none_is_left, JUST_STOPPED_S)
    return list(ended.values())


def _running() -> Iterator[_Marked]:
    """Every process with a mark that runs as this user or as a server's user. A process that has ended has no
    environment.
    """
    owners = {os.geteuid(), *(owner[:1] if (owner := _servers_owner()) else ())}
    for number in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{number}").st_uid not in owners or int(number) == os.getpid():
                continue
            mark = _mark_in(_environment_of(number))
            if mark is not None:
                name = Path(f"/proc/{number}/comm").read_text("utf-8", "replace").strip()
                yield _Marked(int(number), name, mark)


def _mark_in(environment: bytes) -> str | None:
    begin = f"{VARIABLE}=".encode()
    marks = (entry[len(begin) :] for entry in environment.split(b"\0") if entry.startswith(begin))
    return next((mark.decode("utf-8", "replace") for mark in marks), None) if begin in environment else None


def _environment_of(number: str) -> bytes:
    """Raises OSError. In a container, root may not read another user's process, but that user may."""
    file = f"/proc/{number}/environ"
    try:
        return _content_of(file)
    except PermissionError:
        if (owner := _servers_owner()) is None:
            raise
        with _eyes_of(owner):
            return _content_of(file)


def _content_of(file: str) -> bytes:
    with open(file, "rb", buffering=0) as content:
        return content.read()


def _servers_owner() -> tuple[int, int] | None:
    with contextlib.suppress(PreflightError):
        return unprivileged().owner
    return None


@contextlib.contextmanager
def _eyes_of(owner: tuple[int, int]) -> Iterator[None]:
    """Lets this thread read files as another user."""
    own = os.geteuid(), os.getegid()
    if sys.platform != "linux":
        yield
        return
    _LIBC.setfsgid(owner[1])
    _LIBC.setfsuid(owner[0])
    try:
        yield
    finally:
        _LIBC.setfsuid(own[0])
        _LIBC.setfsgid(own[1])
