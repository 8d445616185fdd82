"""Reads from the kernel about processes of this machine: whether a process runs, how it was killed, which processes
hold a lock on a file, how long a task ran and waited for a CPU. Also waits for processes.

A task is a process or one of its threads. The functions read only processes of the same machine and PID namespace. The
manual page proc_pid_stat(5) describes the file `stat`. The kernel's scheduler/sched-stats.rst describes `schedstat`.
"""

from __future__ import annotations

import fcntl
import os
import re
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from storagelab.machine.descriptors import opened
from storagelab.machine.disks import HERE, read_text

STOP_TIMEOUT_S = 30.0
"""The longest wait for something that a stopped program may keep for a while: a file, memory, or a process that is
ending.
"""
JUST_STOPPED_S = 2.0
"""The wait in places where what a stopped program keeps is released within moments."""


def until(is_so: Callable[[], bool], within_s: float, pause_s: float = 0.01) -> bool:
    """Waits until a condition is true, then returns True. Returns False if that takes longer than `within_s`."""
    deadline = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True


def is_locked(opened: int) -> bool:
    """Takes the lock of an open file or folder without waiting. Returns whether this process now has the lock. Some
    network file systems have no locks of folders: there, the result is always True.
    """
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def stat_fields(process: Path) -> list[str]:
    """The fields of a process's `stat` from the third field (its state) on. Empty once the process has ended. The text
    is split after the last bracket, because the second field, the name in brackets, may contain brackets.
    """
    return read_text(process / "stat").rpartition(")")[2].split()


def lives(pid: int) -> bool:
    return stat_fields(Path(f"/proc/{pid}"))[:1] not in ([], ["Z"], ["X"])


class Kills:
    """Says how a process was killed. Create it before the process starts. `since` describes the moment of creation,
    e.g. "the campaign began".
    """

    def __init__(self, since: str) -> None:
        self._since, self._before = since, _killed_for_memory()

    def words(self, code: int | None) -> str:
        """How a process with this exit code was killed, such as "killed by signal 9 (SIGKILL)", and why. "" if it was
        not killed.
        """
        if code is None or code >= 0:
            return ""
        how = f"killed by signal {-code} ({_name(-code)})"
        if code != -signal.SIGKILL:
            return how
        now = _killed_for_memory()
        if self._before is None or now is None:
            return f"{how}, as the kernel does if memory runs out"
        if now > self._before:
            return f"{how}: memory ran out (processes killed for that since {self._since}: {now - self._before})"
        return f"{how}, but memory had not run out"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return "an unnamed signal"


def _killed_for_memory() -> int | None:
    """The number of processes that the kernel has killed since boot because memory ran out, or None if unknown."""
    words = read_text(HERE.proc / "vmstat").partition("oom_kill ")[2].split()
    return int(words[0]) if words else None


# --- holders ---------------------------------------------------------------------------------------------------------
#
# Finds the processes that hold a lock on a file, so that a message can name the processes to wait for.


def holders_text(file: Path) -> str:
    """The names of the other processes that lock `file`, e.g. "process 4711 (sqlite3)", or "" if none is found.

    Command lines are not shown, because they may contain passwords.
    """
    try:
        facts = file.stat()
    except OSError:
        return ""
    numbers = _that_lock(facts) or _that_have_open(facts)
    names = {number: read_text(HERE.proc / str(number) / "comm") or "its name is hidden" for number in numbers}
    return " and ".join(f"process {number} ({name})" for number, name in names.items())


def _that_lock(facts: os.stat_result) -> list[int]:
    """The other processes that the kernel names as holders of a lock, if they can still have the file open. A holder
    that has ended is left out: its children may still hold the lock, but the kernel does not name them.
    """
    found = []
    for line in read_text(HERE.proc / "locks").splitlines():
        match line.split():
            case [_, "FLOCK" | "POSIX", _, _, number, place, *_] if place.endswith(f":{facts.st_ino}"):
                found.append(number)
    return [
        int(number)
        for number in dict.fromkeys(found)
        if number.isdecimal() and int(number) != os.getpid() and _may_have_open(HERE.proc / number, facts)
    ]


def _that_have_open(facts: os.stat_result) -> list[int]:
    numbers = [int(folder.name) for folder in HERE.proc.glob("[0-9]*")]
    others = [number for number in sorted(numbers) if number != os.getpid()]
    return [number for number in others if any(_opened(HERE.proc / str(number), facts))]


def _may_have_open(process: Path, facts: os.stat_result) -> bool:
    """Whether the process has the file open, or hides which files it has open. The kernel's list of locks is compared
    by inode number only, so it may mean a file on another device.
    """
    try:
        return any(_opened(process, facts, strict=True))
    except PermissionError:
        return True
    except OSError:
        return False


def _opened(process: Path, facts: os.stat_result, *, strict: bool = False) -> Iterator[bool]:
    """For each open file of the process, whether it is the file with this status. With `strict`, raises OSError if the
    process hides its open files.
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
            continue  # the process has closed the file meanwhile


# --- CPU time ---------------------------------------------------------------------------------------------------------
# How much CPU time each used during a run: the server, storagelab, other programs, and the hypervisor (stolen time).
#
# A load average can't distinguish other programs from storagelab, but these counters can. They exist on Linux only:
# elsewhere the results are empty.

_PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KERNEL_THREAD = 0x0020_0000
"""PF_KTHREAD in a process's flags. In a container, the parent's PID does not show that a task is a kernel thread."""
_BUSY = ("user", "nice", "system", "irq", "softirq")
_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def read_cpu_time(server_parent_pid: int | None, proc: Path = _PROC) -> dict[str, float]:
    """Cumulative CPU time in seconds. The result is empty if /proc does not give it.

    `busy_s`, `idle_s`, `iowait_s` and `steal_s` are those of the whole machine. `kernel_s`: interrupts and kernel
    threads. `storagelab_s`: this process. `server_s`: `server_parent_pid` and its descendants. `load_s`: the other
    descendants of this process, which are load generators.
    """
    try:
        first = (proc / "stat").read_text(encoding="utf-8").split("\n", maxsplit=1)[0].split()
        machine = {name: int(text) / TICKS_PER_S for name, text in zip(_FIELDS, first[1:], strict=False)}
    except (OSError, ValueError, IndexError):
        return {}
    seconds = {name + "_s": machine.get(name, 0.0) for name in ("idle", "iowait", "steal")}
    seconds |= {"busy_s": sum(machine.get(name, 0.0) for name in _BUSY), "storagelab_s": time.process_time()}
    tasks = {int(folder.name): fields for folder in proc.glob("[0-9]*") if (fields := stat_fields(folder))}
    ticks = {"kernel_s": 0, "load_s": 0} | ({} if server_parent_pid is None else {"server_s": 0})
    for pid, fields in tasks.items():
        own, of_ended_children = (sum(map(int, pair)) for pair in (fields[11:13], fields[13:15]))
        if int(fields[6]) & _KERNEL_THREAD:
            ticks["kernel_s"] += own
        elif (whose := _whose(pid, tasks, server_parent_pid)) is not None:
            ticks[whose] += of_ended_children + (own if pid != os.getpid() or whose == "server_s" else 0)
    seconds |= {name: of_processes / TICKS_PER_S for name, of_processes in ticks.items()}
    seconds["kernel_s"] += machine.get("irq", 0.0) + machine.get("softirq", 0.0)
    return seconds


def _whose(pid: int, tasks: dict[int, list[str]], server_parent_pid: int | None) -> str | None:
    """The name of the counter to which a process belongs. The ancestors of the process decide whether this is
    "server_s" or "load_s". Returns None for other processes.
    """
    while pid in tasks:
        if pid in (server_parent_pid, os.getpid()):
            return "server_s" if pid == server_parent_pid else "load_s"
        pid = int(tasks[pid][1])
    return None


def run_queue(proc: Path = _PROC) -> int:
    """The number of tasks that run or wait for a CPU now. This task is not counted."""
    words = read_text(proc / "stat").partition("procs_running ")[2].split()
    return int(words[0]) - 1 if words else 0


def cpu_time_between(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """The CPU seconds between two results of `read_cpu_time`, and `others_s`: the busy time of other programs. That is
    the busy time without server, load, storagelab and kernel. The kernel is not counted as another program, because its
    threads and interrupts do the load's I/O.
    """
    spent = {name: max(0.0, after[name] - before[name]) for name in after if name in before}
    if "server_s" in spent:
        spent["others_s"] = others_s(spent)
    return spent


def others_s(spent: dict[str, float]) -> float:
    own = (spent.get(f"{who}_s", 0.0) for who in ("server", "load", "storagelab", "kernel"))
    return max(0.0, spent["busy_s"] - sum(own))


# --- tasks and waits in /proc -----------------------------------------------------------------------------------------

RUNNABLE = "R"
GONE = ""
STOPPED = frozenset("Tt")
_STATES_OF_THE_DEAD = frozenset("ZXx")
_READ_BYTES = 4096
_ENOUGH_FOR_STATE_BYTES = 96
FILES_LEFT_TO_OTHERS = 128
"""The file descriptors that views of tasks leave free. Sockets and the store need some, too."""


class SchedStat(NamedTuple):
    """Totals since the task began. If the task is on a CPU now, its current time slice is not included."""

    cpu_ns: int
    runqueue_ns: int
    timeslices: int


class Switches(NamedTuple):
    """How often the task gave up its CPU because it had to wait (`voluntary`), and how often the kernel took the CPU
    away (`involuntary`).
    """

    voluntary: int
    involuntary: int


class TaskView:
    """The kernel's files of one task. They are kept open, so that a sample takes only a few microseconds. Close to the
    limit on open files, each sample opens them instead. This is slower, but avoids errors. Once a task has ended, its
    state is `GONE`, its name is empty, and other values are None.
    """

    __slots__ = ("_folder", "_schedstat", "_stat", "pid", "tid")

    def __init__(self, pid: int, tid: int | None = None) -> None:
        self.pid, self.tid = pid, tid
        self._folder = f"/proc/{pid}" if tid is None else f"/proc/{pid}/task/{tid}"
        self._stat = _open_to_keep(f"{self._folder}/stat")
        self._schedstat = _open_to_keep(f"{self._folder}/schedstat")

    def state(self) -> str:
        """The state as the kernel's letter. R: runs or waits for a CPU. S and D: sleeps. A letter in `STOPPED`: a
        signal or a debugger stopped the task. `GONE`: the task has ended.
        """
        fields = self._stat_fields(_ENOUGH_FOR_STATE_BYTES)
        state = chr(fields[0]) if fields else GONE
        return GONE if state in _STATES_OF_THE_DEAD else state

    def parent(self) -> int | None:
        """The PID of the task's parent process, or None once the task has ended."""
        fields = self._stat_fields(_READ_BYTES).split(maxsplit=2)
        return int(fields[1]) if len(fields) > 1 else None

    def _stat_fields(self, size_bytes: int) -> bytes:
        """The fields of `stat` from the third on. The second field, the name in brackets, may contain brackets."""
        content = self._read("stat", self._stat, size_bytes)
        return content[content.rfind(b")") + 2 :]

    def sched(self) -> SchedStat | None:
        """Totals of CPU time, waiting time for a CPU, and time slices. None once the task has ended, or if the kernel
        doesn't count them.
        """
        fields = self._read("schedstat", self._schedstat, 128).split()
        return SchedStat(*map(int, fields)) if len(fields) == 3 else None

    def switches(self) -> Switches | None:
        """Totals of context switches, or None once the task has ended."""
        counts = re.findall(rb"voluntary_ctxt_switches:\s*(\d+)", self._read("status", None, _READ_BYTES))
        return Switches(*map(int, counts)) if len(counts) == 2 else None  # the kernel lists the involuntary ones last

    def name(self) -> str:
        """The task's name in the kernel, which has at most 15 characters. It is empty once the task has ended."""
        return self._read("comm", None, 64).decode(errors="replace").rstrip("\n")

    def close(self) -> None:
        """Closes the files. This method may be called twice."""
        for file in (self._stat, self._schedstat):
            if file is not None:
                os.close(file)
        self._stat = self._schedstat = None

    def _read(self, name: str, file: int | None, size_bytes: int) -> bytes:
        try:
            if file is not None:
                return os.pread(file, size_bytes, 0)
            with opened(f"{self._folder}/{name}") as number:
                return os.pread(number, size_bytes, 0)
        except OSError:
            return b""


def _open_to_keep(path: str) -> int | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    # The kernel assigns the lowest free number, so the number shows how many files are open.
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and file >= limit - FILES_LEFT_TO_OTHERS:
        os.close(file)
        return None
    return file
