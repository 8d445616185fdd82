"""A load generator: how it reaches the server, facts about its program, and its process, which works in its own
folder."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

from storagelab.errors import RunFailed
from storagelab.loads.transactions import LoadReport
from storagelab.machine import temporary
from storagelab.machine.descriptors import read_file
from storagelab.machine.processes import STOP_TIMEOUT_S, Kills
from storagelab.machine.rights import as_server, end_with_parent, give, unprivileged
from storagelab.servers.programs import run
from storagelab.stopping import uninterrupted

InChild = Callable[..., Callable[[], None] | None]


@dataclass(frozen=True)
class Clients:
    """How client programs reach one server. `environment` has variables for them, and `options` is for programs that
    don't read variables. `beside` is the folder of the server's own programs, if storagelab started the server.
    `in_child` prepares the process of a program, given the folders that the process must reach. `owner` (uid, gid) is
    the user that runs the program, if it is not the current user. `first` is the statement with which each session of
    the program begins, if variables can't set this.
    """

    environment: Mapping[str, str]
    beside: Path | None = None
    owner: tuple[int, int] | None = None
    in_child: InChild = lambda *_: end_with_parent
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    first: str = ""

    def run(
        self, command: Sequence[str], *reach: Path, folder: Path | None = None, reads: Path | None = None
    ) -> CompletedProcess[str]:
        """Runs a program until it ends."""
        return run(command, self.in_child(*reach), environment=self.environment, folder=folder, reads=reads)

    def in_folder(self, command: Sequence[str], inputs: Mapping[str, bytes]) -> CompletedProcess[str]:
        """Runs a program in a folder of its own, which holds these files."""
        with _folder(inputs, self.owner) as folder:
            return self.run(command, folder, folder=folder)


def of_private(
    environment: Mapping[str, str], options: Mapping[str, Sequence[str]], beside: Path, *own: Path
) -> Clients:
    """Returns the Clients for a private server. Its client programs have only the server's rights, because a script may
    make a client run programs, too."""
    return Clients(environment, beside, unprivileged().owner, lambda *reach: as_server(*own, *reach), options)


@contextlib.contextmanager
def _folder(inputs: Mapping[str, bytes], owner: tuple[int, int] | None) -> Iterator[Path]:
    with temporary.folder("scripts") as folder:
        for name, content in inputs.items():
            (folder / name).write_bytes(content)
        if owner is not None:
            give(owner, *folder.iterdir(), folder)
        yield folder


FATAL = re.compile(r"^FATAL: ", re.MULTILINE)
"""Matches a program's fatal error messages. They are needed because the exit code may be 0 after an error."""


@dataclass(frozen=True)
class Program:
    """The facts about one generator. `title` is its name. `command` makes its command from a folder and the longest
    time in seconds that it may run. `read` reads its log in that folder. `words` extracts its messages from its output.
    `stop` is the signal after which it ends with its current transactions.

    If a program has `says_it_counts`, it times the warm-up and the set time itself: it prints these words when the
    warm-up is over, and ends soon after the set time. `asks_first` is for a program with a first session that reads
    facts about the tables: it is the pattern of the files that the program makes in the folder after that session.
    Otherwise it is empty. `inputs` maps names to files for its folder. `owner` (uid, gid) gets all these files.
    `in_child` prepares its process.
    """

    title: str
    command: Callable[[Path, float], Sequence[str]]
    read: Callable[[Path], LoadReport]
    words: Callable[[str], str]
    stop: signal.Signals
    environment: Mapping[str, str]
    inputs: Mapping[str, bytes]
    says_it_counts: bytes = b""
    asks_first: str = ""
    per_second: Callable[[str], list[float]] = lambda _: []
    owner: tuple[int, int] | None = None
    in_child: Callable[[Path], Callable[[], None] | None] = lambda _: None


class Process:
    """The running program of a generator."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._to_epoch_s = 0.0
        self._mark, self._kills = temporary.new_mark(), Kills("it was started")

    def launch(self, longest_s: float) -> None:
        """Starts the program. It ends by itself soon after `longest_s` seconds at the latest."""
        program = self.program
        self._folder = temporary.short_path("generator")
        temporary.prepare(self._folder)
        self._folder.mkdir(mode=0o700)
        for name, content in program.inputs.items():
            (self._folder / name).write_bytes(content)
        command, in_child = program.command(self._folder, longest_s + STOP_TIMEOUT_S), program.in_child(self._folder)
        # The times in a generator's log are seconds since the epoch by a clock that nobody can set. This offset
        # converts times of the same clock.
        self._to_epoch_s = time.time() - time.monotonic()
        with (self._folder / "said").open("xb") as output, uninterrupted():
            if program.owner is not None:  # from here on, this account may replace these files by links
                give(program.owner, *self._folder.iterdir(), self._folder)
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self._folder,
                env={**program.environment, temporary.MARK_VARIABLE: self._mark}, start_new_session=True,
                preexec_fn=in_child,
            )  # fmt: skip

    def now_s(self) -> float:
        return time.monotonic() + self._to_epoch_s

    def at_s(self, *moments_s: float) -> tuple[float, ...]:
        """Converts moments of the monotonic clock to the times in the generator's log."""
        return tuple(moment_s + self._to_epoch_s for moment_s in moments_s)

    @property
    def folder(self) -> Path:
        assert self._folder is not None
        return self._folder

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def exit_code(self) -> int | None:
        return self._running.poll()

    def refuse_if_ended(self) -> None:
        """Raises RunFailed with the program's message if the program has already ended."""
        if self.exit_code is not None:
            raise RunFailed(f"{self.program.title} ended early: {self.words()}")

    def output_bytes(self) -> bytes:
        return read_file(self.folder / "said")

    def output(self) -> str:
        return self.output_bytes().decode("utf-8", "replace")

    def words(self) -> str:
        killed = self._kills.words(self.exit_code)
        return f"it was {killed}" if killed else self.program.words(self.output())

    def wait_for(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._running.wait(seconds)

    def stop(self) -> None:
        """Signals the program to end after its current transactions."""
        if self.exit_code is None:
            self._running.send_signal(self.program.stop)

    def result(self) -> LoadReport:
        """Returns the log of the program after it has ended. Raises RunFailed with the program's message if the program
        failed or does not end.
        """
        self.wait_for(STOP_TIMEOUT_S)
        if self.exit_code is None:
            raise RunFailed(f"{self.program.title} did not stop within {STOP_TIMEOUT_S:.0f} s")
        if self.exit_code != 0 or FATAL.search(self.output()):
            raise RunFailed(f"{self.program.title} failed: {self.words()}")
        return self.program.read(self.folder)

    def close(self) -> None:
        """Kills all processes that the program started."""
        process, self._process = self._process, None
        if process is not None:
            with uninterrupted():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                temporary.end_marked(self._mark)

    def remove_folder(self) -> None:
        if self._folder is not None:
            temporary.remove(self._folder)
            self._folder = None
