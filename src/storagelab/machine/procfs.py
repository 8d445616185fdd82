"""The Linux kernel's view of one task: its state, how long it ran and queued, and how often it was switched.

A task is a process or one of its threads. Everything here works only on the same machine and in the same PID namespace.
For the meaning of the files see proc_pid_stat(5), and scheduler/sched-stats.rst in the kernel for `schedstat`.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from storagelab.machine.control_groups import control_groups
from storagelab.machine.disks import HERE, Kernel, mounts_here, read_text
from storagelab.machine.processes import stat_fields

# --- CPU time ---------------------------------------------------------------------------------------------------------
# Where the machine's CPU time goes during a run: to the server, to storagelab, to others, or stolen by the hypervisor.
#
# A load average can't distinguish others from ourselves; these counters can. Linux only: elsewhere readings are empty.

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_BUSY = ("user", "nice", "system", "irq", "softirq")
_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def read_cpu_time(server_parent_pid: int | None, proc: Path = _PROC) -> dict[str, float]:
    """Cumulative CPU seconds: `busy_s`, `idle_s`, `iowait_s`, `steal_s` of the whole machine, `storagelab_s` of this
    process, and `server_s` of `server_parent_pid` and its living children. Empty if /proc does not give them.
    """
    try:
        first = (proc / "stat").read_text(encoding="utf-8").split("\n", maxsplit=1)[0].split()
        machine = {name: int(text) / _TICKS_PER_S for name, text in zip(_FIELDS, first[1:], strict=False)}
    except (OSError, ValueError, IndexError):
        return {}
    seconds = {name + "_s": machine.get(name, 0.0) for name in ("idle", "iowait", "steal")}
    seconds["busy_s"] = sum(machine.get(name, 0.0) for name in _BUSY)
    seconds["storagelab_s"] = time.process_time()
    if server_parent_pid is not None:
        # CPU seconds of a process and its living children.
        ticks = 0
        for folder in proc.glob("[0-9]*"):
            fields = stat_fields(folder)
            if fields and server_parent_pid in (int(folder.name), int(fields[1])):
                ticks += int(fields[11]) + int(fields[12])
        seconds["server_s"] = ticks / _TICKS_PER_S
    return seconds


def run_queue(proc: Path = _PROC) -> int:
    """The tasks that run or wait for a CPU at this moment, without this one."""
    words = read_text(proc / "stat").partition("procs_running ")[2].split()
    return int(words[0]) - 1 if words else 0


def difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """CPU seconds between two readings, with `others_s`: busy, but neither the server's nor storagelab's."""
    spent = {name: after[name] - before[name] for name in after if name in before}
    if "server_s" in spent:
        spent["others_s"] = max(0.0, spent["busy_s"] - spent["server_s"] - spent["storagelab_s"])
    return spent


# --- throttling ------------------------------------------------------------------------------------------------------
#
# How long control groups of either version held processes back because their CPU quota was used up.
#
# A group counts the time in which the tasks of one CPU wanted to run and had to wait for the group's next period,
# summed over CPUs: four CPUs that stand still for a second count as four seconds. `group_cpu_s`, the CPU time that the
# group got, is summed over CPUs, too.


_NS, _US = 1e-9, 1e-6
_POSSIBLE_GROUPS = 20_000
"""The most groups of a machine that are checked before a run; each takes some 20 µs."""


class Held(NamedTuple):
    """What one group has counted so far: `throttled_s`, and the CPU time that it got (None if that is counted
    elsewhere).
    """

    throttled_s: float
    cpu_s: float | None


def read_group(group: Path) -> Held | None:
    """None for a group that doesn't count: the root, or a group of another controller."""
    words = (line.split() for line in read_text(group / "cpu.stat").splitlines())
    counts = {line[0]: int(line[1]) for line in words if len(line) == 2 and line[1].isdigit()}
    if "throttled_usec" in counts:
        usage = counts.get("usage_usec")
        return Held(counts["throttled_usec"] * _US, None if usage is None else usage * _US)
    if "throttled_time" in counts:
        usage_text = read_text(group / "cpuacct.usage")  # exists if cpu and cpuacct are one hierarchy
        return Held(counts["throttled_time"] * _NS, int(usage_text) * _NS if usage_text.isdigit() else None)
    return None


def groups_here(kernel: Kernel = HERE) -> Iterator[Path]:
    """Every group that may limit CPUs, as far as this process can see."""
    number = 0
    for mount in mounts_here(kernel):
        if mount.filesystem != "cgroup2" and not (mount.filesystem == "cgroup" and "cpu" in mount.super_options):
            continue
        for folder, _, _ in os.walk(mount.mount_point):
            if (number := number + 1) > _POSSIBLE_GROUPS:
                return
            yield Path(folder)


class Throttling:
    """Counts from its creation to `end`. `server_process` is None if the server's process can't be seen.

    A process may be moved to another group during a run. So all groups are read at the beginning, and each `look` notes
    the groups to which the processes belong.
    """

    def __init__(self, server_process: int | None, kernel: Kernel = HERE) -> None:
        self._kernel, self._server_process = kernel, server_process
        self._before = {group: held for group in groups_here(kernel) if (held := read_group(group)) is not None}
        self._groups: dict[str, set[Path]] = {}
        self._known: dict[str, tuple[Path, ...]] = {}
        """The groups of processes whose `cgroup` file has this text."""
        self._look_at_all()

    def look(self) -> None:
        """Notes the groups of the server, of storagelab, and of the programs that it started: load generators, fio."""
        self._note("storagelab", "self")
        for process in self.processes():
            self._note("server" if process == self._server_process else "load", process)

    def processes(self) -> set[int]:
        """The server, and the programs that storagelab started."""
        return {*_children(self._kernel, "self"), *filter(None, (self._server_process,))}

    def _look_at_all(self) -> None:
        """Looks, and includes the server's sessions if they are processes."""
        self.look()
        if self._server_process is not None:
            for session in _children(self._kernel, self._server_process):
                self._note("server", session)

    def _note(self, who: str, process: int | str) -> None:
        text = read_text(self._kernel.proc / str(process) / "cgroup")
        if text and text not in self._known:
            self._known[text] = control_groups("cpu", self._kernel, process)
        self._groups.setdefault(who, set()).update(self._known.get(text, ()))

    def end(self) -> dict[str, float]:
        """`server_throttled_s` and so on: for each owner, the time of the group that held its processes back the
        longest. `server_group_cpu_s`: the CPU time that this group got meanwhile, if it counts that.
        """
        self._look_at_all()
        after = {
            group: held for group in set().union(*self._groups.values()) if (held := read_group(group)) is not None
        }
        found: dict[str, float] = {}
        for who, groups in self._groups.items():
            changes = [_change(self._before, group, after[group]) for group in groups if group in after]
            if changes:
                longest = max(changes, key=lambda one: one.throttled_s)
                found[f"{who}_throttled_s"] = longest.throttled_s
                if longest.throttled_s and longest.cpu_s is not None:
                    found[f"{who}_group_cpu_s"] = longest.cpu_s
        return found


def _change(before: Mapping[Path, Held], group: Path, after: Held) -> Held:
    """The change of a group's counters. A group that did not exist before began at 0; so did one that was made anew
    under the same name.
    """
    began = before.get(group, Held(0.0, 0.0))
    if after.throttled_s < began.throttled_s:
        began = Held(0.0, 0.0)
    cpu_s = None if after.cpu_s is None or began.cpu_s is None else max(0.0, after.cpu_s - began.cpu_s)
    return Held(after.throttled_s - began.throttled_s, cpu_s)


def _children(kernel: Kernel, process: int | str) -> Iterator[int]:
    """The living processes that a process started; none if the kernel doesn't list them."""
    for task in (kernel.proc / str(process) / "task").glob("[0-9]*"):
        yield from (int(word) for word in read_text(task / "children").split() if word.isdigit())


# --- tasks and waits in /proc -----------------------------------------------------------------------------------------

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
