"""What private servers of every engine have: a socket in a short folder of its own, and a process that can be found again."""

from __future__ import annotations

import os
import re
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from storagelab.errors import RunFailed
from storagelab.targets import temporary
from storagelab.targets.uninterrupted import uninterrupted
from storagelab.targets.unprivileged import as_server, make_folder

START_TIMEOUT_S = 60.0


class StartFailed(RunFailed):
    """A database was made, or nearly, and the server did not come up on it with the settings asked for."""


class Refusal(NamedTuple):
    """Why a connection could not be had, in the driver's words. `by_server` = the server is up and has said so itself, so
    that waiting does not help."""

    words: str
    by_server: bool


class PrivateServer(ABC):
    """One private server. `start` makes the database from nothing; `stop` leaves its folders to whoever made them."""

    trouble: ClassVar[re.Pattern[str]]
    """What lines of its log that tell of trouble look like."""
    telling_lines: ClassVar[int]
    """So many of them say why it did not start."""

    def __init__(self, data_folder: Path, log_folder: Path, volumes: Sequence[Path] = ()) -> None:
        """`volumes` are the folders in which it is to make files besides."""
        self.data_folder, self.log_folder, self._volumes = data_folder, log_folder, volumes
        self.server_log = data_folder.with_name(data_folder.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_folder: Path | None = None

    @abstractmethod
    def start(self) -> None:
        """Raises StartFailed with the last lines of the server's log when it does not come up, else RunFailed."""

    @abstractmethod
    def stop(self) -> None:
        """Stop at once: the data is about to be removed, so a clean shutdown would only cost time."""

    @abstractmethod
    def _refusal(self) -> Refusal | None:
        """Why the server takes no connections yet; None once it takes them."""

    @abstractmethod
    def _own_words(self, log: str) -> str:
        """The messages in a server log, without time stamps."""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def died(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _make_socket_folder(self) -> None:
        self._socket_folder = temporary.short_path("socket")  # known before it is made, to whoever cleans up
        temporary.prepare(self._socket_folder)
        make_folder(self._socket_folder)

    def _remove_socket_folder(self) -> None:
        if self._socket_folder is not None:
            temporary.remove(self._socket_folder)
            self._socket_folder = None

    @abstractmethod
    def _reach(self) -> tuple[Path, ...]:
        """The folders that its programs must come to, beside those of every private server."""

    def _in_child(self) -> Callable[[], None] | None:
        """For `preexec_fn` of its programs."""
        own = [self.data_folder, self.log_folder, *self._volumes]
        return as_server(*own, *([self._socket_folder] if self._socket_folder else []), *self._reach())

    def _launch(self, command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None) -> None:
        """Start the server's process and wait until it answers."""
        with self.server_log.open("ab") as log, uninterrupted():  # or it would run, and not be known
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment,
                start_new_session=True, preexec_fn=self._in_child(),
            )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT_S
        while (refusal := self._refusal()) is not None:
            if self.died():
                said = self._own_words(self.log_of_trouble(self.telling_lines))
                raise self._failed(f"the server did not start: {said}")
            if refusal.by_server:
                raise self._failed(f"the server has started, and refuses connections: {refusal.words}")
            if time.monotonic() > deadline:
                raise self._failed(f"the server takes no connections after {START_TIMEOUT_S:.0f} s: {refusal.words}")
            time.sleep(0.01)

    def _failed(self, reason: str) -> StartFailed:
        return StartFailed(f"{reason}\nits log ends with:\n{self.log_tail()}")

    def log_tail(self, lines: int = 8) -> str:
        """The last lines of the server's log, or what can be said instead."""
        try:
            text = self.server_log.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return f"(no log: {error})"
        return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"

    def log_of_trouble(self, lines: int = 8) -> str:
        """The first lines of the log that tell of trouble, since what comes after is its consequence; else the last ones."""
        wanted = [line for line in self.log_tail(lines=10_000).splitlines() if self.trouble.search(line)]
        return "\n".join(wanted[:lines]) or self.log_tail(lines)


def runs_with(pid: int, argument: str) -> bool:
    """Was this process started with this very argument? Its number may have been given to another one since."""
    try:
        return os.fsencode(argument) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
