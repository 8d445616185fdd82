"""Processes of this machine: whether one runs, how one was killed, which ones hold a lock on a file; and how to wait
for them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from storagelab.machine.disks import HERE, Kernel, read_text

STOP_TIMEOUT_S = 30.0
"""How long traces of a program that was just stopped may remain: a file that it writes, memory, a process that ends."""
JUST_STOPPED_S = 2.0
"""How long traces of a program that was just stopped may remain: a file that it writes, memory, a process that ends."""


def until(is_so: Callable[[], bool], within_s: float, pause_s: float = 0.01) -> bool:
    """Waits until a condition holds; False if it does not hold in time."""
    deadline = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True


def stat_fields(process: Path) -> list[str]:
    """The fields of a process's `stat` from the third (its state) on; empty once the process has ended. The second,
    its name in brackets, may contain brackets.
    """
    return read_text(process / "stat").rpartition(")")[2].split()


def lives(pid: int) -> bool:
    return stat_fields(Path(f"/proc/{pid}"))[:1] not in ([], ["Z"], ["X"])


class Kills:
    """Make one before a process starts; `since` is that moment in words, e.g. "the campaign began"."""

    def __init__(self, since: str) -> None:
        self._since, self._before = since, _killed_for_memory()

    def words(self, code: int | None) -> str:
        """How a process with this exit code was killed, such as "killed by signal 9 (SIGKILL)", and why; empty if it
        was not.
        """
        if code is None or code >= 0:
            return ""
        how = f"killed by signal {-code} ({_name(-code)})"
        if code != -signal.SIGKILL:
            return how
        now = _killed_for_memory()
        if self._before is None or now is None:
            return f"{how}, as the kernel does when memory runs out"
        if now > self._before:
            return f"{how}: memory ran out, for which the kernel has killed {now - self._before} since {self._since}"
        return f"{how}, but not by the kernel for lack of memory"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return "an unnamed signal"


def _killed_for_memory() -> int | None:
    """How many processes the kernel has killed for lack of memory since boot; None if it doesn't say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return None


# --- holders ---------------------------------------------------------------------------------------------------------
#
# Which processes hold a lock on a file, so that a message can say what to wait for.


def holders_text(file: Path, kernel: Kernel = HERE) -> str:
    """The other processes that hold a lock on `file`, in words: "process 4711 (sqlite3)"; "" if none can be found.

    Shows nothing of their command lines, which may hold passwords.
    """
    try:
        facts = file.stat()
    except OSError:
        return ""
    numbers = _that_lock(facts, kernel) or _that_have_open(facts, kernel)
    return " and ".join(f"process {number} ({_name_of(number, kernel)})" for number in numbers)


def _that_lock(facts: os.stat_result, kernel: Kernel) -> list[int]:
    """The processes that the kernel names as holders and that still run. Children keep a lock after the process that
    took it.
    """
    found = []
    for line in read_text(kernel.proc / "locks").splitlines():
        match line.split():
            case [_, "FLOCK" | "POSIX", _, _, number, place, *_] if place.endswith(f":{facts.st_ino}"):
                found.append(number)
    return [
        int(number)
        for number in dict.fromkeys(found)
        if number.isdecimal() and int(number) != os.getpid() and _may_have_open(kernel.proc / number, facts)
    ]


def _that_have_open(facts: os.stat_result, kernel: Kernel) -> list[int]:
    numbers = [int(folder.name) for folder in kernel.proc.glob("[0-9]*")]
    others = [number for number in sorted(numbers) if number != os.getpid()]
    return [number for number in others if any(_opened(kernel.proc / str(number), facts))]


def _may_have_open(process: Path, facts: os.stat_result) -> bool:
    """Whether the process has the file open, or hides which files it has open. The file's number alone may belong to
    a file on another device.
    """
    try:
        return any(_opened(process, facts, strict=True))
    except PermissionError:
        return True
    except OSError:
        return False


def _opened(process: Path, facts: os.stat_result, *, strict: bool = False) -> Iterator[bool]:
    """For each open file of the process, whether it is the one with this status. `strict`: raises OSError if none
    can be seen.
    """
    try:
        links = list((process / "fd").iterdir())
    except OSError:
        if strict:
            raise
        return
    for link in links:
        try:
            yield os.path.samestat(link.stat(), facts)
        except OSError:
            continue  # closed meanwhile


def _name_of(number: int, kernel: Kernel) -> str:
    return read_text(kernel.proc / str(number) / "comm") or "its name is hidden"
