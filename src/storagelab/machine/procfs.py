"""The Linux kernel's view of one task: its state, how long it ran and queued, and how often it was switched.

A task is a process or one of its threads. Everything here works only on the same machine and in the same PID namespace.
For the meaning of the files see proc_pid_stat(5), and scheduler/sched-stats.rst in the kernel for `schedstat`.
"""

from __future__ import annotations

import os
import resource
from typing import NamedTuple

RUNNABLE = "R"
GONE = ""
STOPPED = frozenset("Tt")
_STATES_OF_THE_DEAD = frozenset("ZXx")
_READ_BYTES = 4096
_ENOUGH_FOR_STATE_BYTES = 96
FILES_LEFT_TO_OTHERS = 128
"""How many of the process's file descriptors views leave free: sockets and the store need some, too."""


class SchedStat(NamedTuple):
    """Totals since the task began, without the current turn of a task that is on a CPU now."""

    cpu_ns: int
    runqueue_ns: int
    timeslices: int


class Switches(NamedTuple):
    """How often the task gave up its CPU (it had to wait), and how often it lost the CPU."""

    voluntary: int
    involuntary: int


class TaskView:
    """The kernel's files of one task, kept open so that a look costs only a few microseconds.

    Near the limit on open files, they are opened anew at each look instead: slower, but never an error. A task that has
    ended reads as None, or as `GONE`.
    """

    __slots__ = ("_folder", "_schedstat", "_stat", "pid", "tid")

    def __init__(self, pid: int, tid: int | None = None) -> None:
        self.pid, self.tid = pid, tid
        self._folder = f"/proc/{pid}" if tid is None else f"/proc/{pid}/task/{tid}"
        self._stat = _open_to_keep(f"{self._folder}/stat")
        self._schedstat = _open_to_keep(f"{self._folder}/schedstat")

    def state(self) -> str:
        """The state as the kernel's letter: R runs or queues for a CPU, S and D sleep, those in `STOPPED`
        were stopped by a signal or a debugger; `GONE` once it has ended."""
        fields = self._stat_fields(_ENOUGH_FOR_STATE_BYTES)
        state = chr(fields[0]) if fields else GONE
        return GONE if state in _STATES_OF_THE_DEAD else state

    def parent(self) -> int | None:
        """The PID of the task's parent process, None once it has ended."""
        fields = self._stat_fields(_READ_BYTES).split(maxsplit=2)
        return int(fields[1]) if len(fields) > 1 else None

    def _stat_fields(self, size_bytes: int) -> bytes:
        """The fields of `stat` from the third on. The second, the task's name in brackets, may contain brackets."""
        content = self._read("stat", self._stat, size_bytes)
        return content[content.rfind(b")") + 2 :]

    def sched(self) -> SchedStat | None:
        """Totals of CPU time, queue time and turns; None once the task has ended, or if the kernel doesn't keep
        them.
        """
        fields = self._read("schedstat", self._schedstat, 128).split()
        if len(fields) != 3:
            return None
        return SchedStat(int(fields[0]), int(fields[1]), int(fields[2]))

    def switches(self) -> Switches | None:
        """Totals of context switches; None once the task has ended."""
        counts = {}
        for line in self._read("status", None, _READ_BYTES).splitlines():
            name, _, value = line.partition(b":")
            if name.endswith(b"voluntary_ctxt_switches"):
                counts[name] = int(value)
        voluntary, involuntary = counts.get(b"voluntary_ctxt_switches"), counts.get(b"nonvoluntary_ctxt_switches")
        return None if voluntary is None or involuntary is None else Switches(voluntary, involuntary)

    def name(self) -> str:
        """The task's name in the kernel, at most 15 characters; empty once it has ended."""
        return self._read("comm", None, 64).decode(errors="replace").rstrip("\n")

    def close(self) -> None:
        """Closes the files; may be called twice."""
        for file in (self._stat, self._schedstat):
            if file is not None:
                os.close(file)
        self._stat = self._schedstat = None

    def _read(self, name: str, file: int | None, size_bytes: int) -> bytes:
        try:
            if file is not None:
                return os.pread(file, size_bytes, 0)
            opened = os.open(f"{self._folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.pread(opened, size_bytes, 0)
        except OSError:
            return b""
        finally:
            os.close(opened)


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


def keeps_schedstat() -> bool:
    """Whether this kernel counts each task's time on CPUs and in their queues (Linux built with CONFIG_SCHED_INFO)."""
    view = TaskView(os.getpid())
    try:
        sched = view.sched()
    finally:
        view.close()
    return sched is not None and sched.timeslices > 0
