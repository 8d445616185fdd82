"""What private servers of every engine have: a socket in a short folder of its own, and a process that can be found again."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from storagelab.errors import RunFailed

_SOCKET_PREFIX = "storagelab-socket-"
_LONGEST_TEMPORARY_FOLDER = 60


class StartFailed(RunFailed):
    """A database was made, or nearly, and the server did not come up on it with the settings asked for."""


def note_socket_folder(data_folder: Path) -> Path:
    """Where the socket of the server on `data_folder` is to be. It is noted, and left to the caller to make.

    A socket's path may hold 107 bytes only, so it can't stand in the experiment's folder, however deep that is.
    """
    short = None if len(tempfile.gettempdir()) <= _LONGEST_TEMPORARY_FOLDER else "/tmp"  # noqa: S108
    folder = Path(short or tempfile.gettempdir()) / f"{_SOCKET_PREFIX}{secrets.token_hex(4)}"
    # Noted, here and by the caller, before it is made: so that whoever cleans up knows of it in any case.
    _socket_note(data_folder).write_text(str(folder), encoding="utf-8")
    return folder


def remove_socket_folder_of(data_folder: Path) -> None:
    """Remove the socket of a server that an earlier, killed storagelab left, if there is one."""
    with contextlib.suppress(OSError):
        folder = Path(_socket_note(data_folder).read_text(encoding="utf-8"))
        if folder.name.startswith(_SOCKET_PREFIX):
            shutil.rmtree(folder, ignore_errors=True)


def _socket_note(data_folder: Path) -> Path:
    """Where the place of a server's socket is written down, for whoever cleans up after a kill."""
    return data_folder.with_name(data_folder.name + ".socket")


def runs_with(pid: int, argument: str) -> bool:
    """Was this process started with this very argument? Its number may have been given to another one since."""
    try:
        return os.fsencode(argument) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
