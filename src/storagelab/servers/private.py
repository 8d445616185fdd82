"""Makes, starts and stops private servers of any engine. Each server has its own process. Its socket is in a folder
with a short path.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Generic, NamedTuple, TypeVar

from storagelab.errors import RunFailed
from storagelab.machine import descriptors, temporary
from storagelab.machine.disks import HERE, read_text
from storagelab.machine.processes import STOP_TIMEOUT_S, Kills, until
from storagelab.machine.rights import as_server, make_folder
from storagelab.model.values import Scalar
from storagelab.servers.programs import Programs, environment, run
from storagelab.stopping import uninterrupted

START_TIMEOUT_S = 60.0
SHUT_DOWN_TIMEOUT_S = 900.0
"""The longest time, in seconds, for a server to write the changed pages from its memory and end."""
LONGEST_PID_FILE_BYTES = 4096

Settings = Mapping[str, Scalar]
P = TypeVar("P", bound=Programs)


class StartFailed(RunFailed):
    """The error if the server did not start with the requested settings on its new database. The new database may be
    incomplete.
    """


class Refusal(NamedTuple):
    """Why a connection was refused. `words`: the driver's message. `by_server`: whether the server runs and refused the
    connection itself, so that waiting does not help.
    """

    words: str
    by_server: bool


class PrivateServer(ABC, Generic[P]):
    """One private server. `start` makes a new database. `stop` does not remove the folders: whoever made them must do
    so.
    """

    trouble: ClassVar[re.Pattern[str]]
    """Matches the lines of the server's log that report errors."""
    telling_lines: ClassVar[int]
    """How many of these lines are needed to explain a failed start."""
    stop_signal: ClassVar[signal.Signals]
    """The signal that ends the server at once. A clean shutdown would only cost time, because the server's data is
    removed anyway.
    """
    shut_down_signal: ClassVar[signal.Signals]
    """The signal that makes the server write all data to its files, and end."""

    def __init__(
        self, programs: P, *, data_folder: Path, log_folder: Path, settings: Settings, volumes: Sequence[Path] = (),
        temporary_folder: Path | None = None, waits: bool = True,
    ) -> None:  # fmt: skip
        """`data_folder` and `log_folder` (for the write-ahead log) must not exist yet, but their parents must.
        `volumes` are other folders for its files. `temporary_folder` is for temporary files, if the engine supports
        this. `waits` says whether to switch on the timing of waits, if the engine requires that.
        """
        self.programs, self.settings, self.waits = programs, settings, waits
        self.data_folder, self.log_folder, self._volumes = data_folder, log_folder, volumes
        self._temporary_folder = temporary_folder
        self.server_log = data_folder.with_name(data_folder.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_folder: Path | None = None
        self._mark = temporary.new_mark()
        self._kills = Kills("the server was started")

    @abstractmethod
    def _make_database(self) -> None:
        """Makes the database in the existing folders. Raises StartFailed or RunFailed."""

    def _write_settings(self) -> None:
        """Writes the settings to a file of the database. Needed if the engine does not accept all of them on its
        command line.
        """

    @abstractmethod
    def _command(self) -> list[str]:
        """The command that starts the server."""

    @abstractmethod
    def _refusal(self) -> Refusal | None:
        """Why the server refuses connections, or None when it accepts them."""

    @abstractmethod
    def _own_words(self, log: str) -> str:
        """The messages in the text of a server log, without time stamps."""

    def start(self) -> None:
        """Starts the server. Raises StartFailed with the end of its log if it does not start, and RunFailed for any
        other failure.
        """
        for folder in self._folders():
            make_folder(folder)
        self._make_socket_folder()
        self._make_database()
        self._write_settings()
        self._launch()

    def start_again(self) -> None:
        """Starts the server on copies of the folders of a similar server that was shut down. Raises the same errors as
        `start`.
        """
        self._make_socket_folder()
        self._write_settings()
        self._launch()

    def _folders(self) -> tuple[Path, ...]:
        """The folders that must exist before the database is made."""
        return (self.data_folder, self.log_folder)

    def shut_down(self) -> None:
        """Makes the server write all data to its files, and end. Then its folders can be copied. Raises RunFailed."""
        process = self._process
        assert process is not None, "the server is not started"
        process.send_signal(self.shut_down_signal)
        try:
            code = process.wait(SHUT_DOWN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise self._failed(f"the server did not shut down within {SHUT_DOWN_TIMEOUT_S:.0f} s") from None
        if code != 0:
            raise self._failed(f"the server did not shut down cleanly (exit code {code})")
        self._process = None
        temporary.end_marked(self._mark)
        self._remove_socket_folder()
        self.server_log.unlink(missing_ok=True)

    def stop(self) -> None:
        """Stops the server at once, and every program that its SQL or its settings have started."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                process.send_signal(self.stop_signal)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._stop_sessions()
        temporary.end_marked(self._mark)
        self._remove_socket_folder()

    def _stop_sessions(self) -> None:
        """Stops processes that continue to run after the server was killed."""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def died(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @property
    def killed(self) -> str:
        """How and why the server was killed, e.g. "killed by signal 9 (SIGKILL)", or "" if it was not killed."""
        return self._kills.words(self._process.poll()) if self._process is not None else ""

    def _make_socket_folder(self) -> None:
        self._socket_folder = temporary.short_path("socket")  # stored before the folder exists, so that it is removed
        temporary.prepare(self._socket_folder)
        make_folder(self._socket_folder)

    def _remove_socket_folder(self) -> None:
        if self._socket_folder is not None:
            temporary.remove(self._socket_folder)
            self._socket_folder = None

    @abstractmethod
    def _reach(self) -> tuple[Path, ...]:
        """The folders that this engine's programs must reach, in addition to the folders of every private server."""

    def _in_child(self) -> Callable[[], None] | None:
        """The `preexec_fn` of the server's programs."""
        own = [self.data_folder, self.log_folder, *self._volumes]
        return as_server(*own, *([self._socket_folder] if self._socket_folder else []), *self._reach())

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Runs a program that makes the database. Raises RunFailed if the program is killed."""
        kills = Kills("it was started")
        output = run(command, self._in_child(), environment=environment())
        if killed := kills.words(output.returncode):
            raise RunFailed(f"{Path(command[0]).name} was {killed}")
        return output

    def _launch(self) -> None:
        """Starts the server's process, and waits until the server accepts connections. Raises StartFailed."""
        self._kills = Kills("the server was started")
        with descriptors.appending(self.server_log) as log, uninterrupted():  # an interruption could leave it running
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.data_folder,
                env={**environment(), temporary.MARK_VARIABLE: self._mark}, start_new_session=True,
                preexec_fn=self._in_child(),
            )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT_S
        while (refusal := self._refusal()) is not None:
            if self.died():
                ended = f"it ended with exit code {self._process.returncode}, but its log does not say why"
                own_words = self._own_words(self.log_of_trouble(self.telling_lines))
                raise self._failed(
                    f"the server did not start: {f'it was {self.killed}' if self.killed else own_words or ended}"
                )
            if refusal.by_server:
                raise self._failed(f"the server has started, but refuses connections: {refusal.words}")
            if time.monotonic() > deadline:
                raise self._failed(f"the server takes no connections after {START_TIMEOUT_S:.0f} s: {refusal.words}")
            time.sleep(0.01)

    def _failed(self, reason: str) -> StartFailed:
        return StartFailed(f"{reason}\nits log ends with:\n{self.log_tail()}")

    def log_tail(self, lines: int = 8) -> str:
        """The last lines of the server's log, or a remark that says why there are none."""
        try:
            text = descriptors.read_file(self.server_log).decode("utf-8", "replace")
        except OSError as error:
            return f"(no log: {error})"
        return "\n".join(text.splitlines()[-lines:]) or "(its log is empty)"

    def log_of_trouble(self, lines: int = 8) -> str:
        """The first lines of the log that report errors, because these cause later ones. If there are none, the last
        lines of the log.
        """
        wanted = [line for line in self.log_tail(lines=10_000).splitlines() if self.trouble.search(line)]
        return "\n".join(wanted[:lines]) or self.log_tail(lines)


def stop_process(pid_file: Path, argument: str, how: signal.Signals) -> bool:
    """Stops a server that a killed storagelab left running. The server's PID file has its process number. The process
    is stopped only if it was started with `argument`. Returns whether there was such a process.

    The owner of the folder may have written any number to the file. So only a process of the same user is stopped.
    """
    try:
        with descriptors.folder(pid_file.parent) as folder:
            owner = os.fstat(folder).st_uid
            pid = int(descriptors.read(pid_file.name, folder, LONGEST_PID_FILE_BYTES).split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):
        return False
    if not (runs_as(pid, owner) and _runs_with(pid, argument)):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, how)
    until(lambda: not _runs_with(pid, argument), STOP_TIMEOUT_S)
    return True


def runs_as(pid: int, user: int) -> bool:
    """Whether the user ID of a process is `user`, in each of its roles: real, effective, saved and file system."""
    status = read_text(HERE.proc / str(pid) / "status").splitlines()
    return set(next((line.split()[1:] for line in status if line.startswith("Uid:")), [])) == {str(user)}


def _runs_with(pid: int, argument: str) -> bool:
    """Whether this process was started with exactly this argument. If not, another process has the number now."""
    with contextlib.suppress(OSError):
        return os.fsencode(argument) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False
