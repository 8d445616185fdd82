"""A load generator: its connection to the server, the facts about its program, and its process, which works in its own
folder.
"""

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
    """The way in which client programs reach one server: by the variables of their `environment`, and by `options` for
    programs that don't read variables. `beside` is the folder of the server's own programs, if storagelab started it.
    `in_child` prepares a program's process, for the folders that it must reach. `owner` (uid, gid) is the user that the
    program runs as, if it is not the current user. `first` is the statement with which its sessions begin, if variables
    can't set this.
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
        """Runs a program to its end."""
        return run(command, self.in_child(*reach), environment=self.environment, folder=folder, reads=reads)

    def in_folder(self, command: Sequence[str], inputs: Mapping[str, bytes]) -> CompletedProcess[str]:
        """Runs a program in its own folder, which holds these files."""
        with _folder(inputs, self.owner) as folder:
            return self.run(command, folder, folder=folder)


def of_private(
    environment: Mapping[str, str], options: Mapping[str, Sequence[str]], beside: Path, *own: Path
) -> Clients:
    """The client programs of a private server have the server's rights, because a script may make a client run
    programs, too."""
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
"""The pattern of a program's fatal error messages, because its exit code may be 0."""


@dataclass(frozen=True)
class Program:
    """The facts about one generator: its `title`; its `command` for a folder and the longest time in seconds that it
    may run; how to `read` its log in that folder; the `words` of its messages; the signal that ends it after its
    current transactions. A program with `says_it_counts` keeps the warm-up and the set time itself: it prints these
    words when the warm-up is over, and ends soon after the set time. `asks_first` is the pattern of the files that it
    makes in the folder after a first session that reads facts about the tables; empty if it has no such session.
    `inputs` are the files for its folder, by name; `owner` (uid, gid) gets all of them; `in_child` prepares its
    process.
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
    """The running program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._to_epoch_s = 0.0
        self._mark, self._kills = temporary.new_mark(), Kills("it was started")

    def launch(self, longest_s: float) -> None:
        """Starts the program. It ends by itself after its longest time at the latest."""
        program = self.program
        self._folder = temporary.short_path("generator")
        temporary.prepare(self._folder)
        self._folder.mkdir(mode=0o700)
        for name, content in program.inputs.items():
            (self._folder / name).write_bytes(content)
        command, in_child = program.command(self._folder, longest_s + STOP_TIMEOUT_S), program.in_child(self._folder)
        # A generator's log has times since the epoch by a clock that nobody can set; this uses the same clock.
        self._to_epoch_s = time.time() - time.monotonic()
        with (self._folder / "said").open("xb") as output, uninterrupted():
            if program.owner is not None:  # from here on, links may replace its files
                give(program.owner, *self._folder.iterdir(), self._folder)
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self._folder,
                env={**program.environment, temporary.MARK_VARIABLE: self._mark}, start_new_session=True,
                preexec_fn=in_child,
            )  # fmt: skip

    def now_s(self) -> float:
        return time.monotonic() + self._to_epoch_s

    def at_s(self, *moments_s: float) -> tuple[float, ...]:
        """Moments of the monotonic clock, as the generator's log has them."""
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
        """Raises RunFailed with the program's message if the program ended too early."""
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
        """Makes the program end after its current transactions."""
        if self.exit_code is None:
            self._running.send_signal(self.program.stop)

    def result(self) -> LoadReport:
        """The log of the ended program. Raises RunFailed with the program's message if it failed or does not end."""
        self.wait_for(STOP_TIMEOUT_S)
        if self.exit_code is None:
            raise RunFailed(f"{self.program.title} did not stop within {STOP_TIMEOUT_S:.0f} s")
        if self.exit_code != 0 or FATAL.search(self.output()):
            raise RunFailed(f"{self.program.title} failed: {self.words()}")
        return self.program.read(self.folder)

    def close(self) -> None:
        """Ends all processes that the program started, and removes its folder."""
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
