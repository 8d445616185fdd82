"""Checks what this machine can measure, and says how to fix each problem.

One small function, a probe, checks each ability. If possible without leaving traces, the probe tries what it checks. If
a probe fails, its row says why, and the other probes are still run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sqlite3
import subprocess
import time
import timeit
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, TypeVar

from storagelab.errors import PreflightError
from storagelab.machine import host
from storagelab.machine.counts import DeviceCounters, control_groups, read_group
from storagelab.machine.disks import HERE, Kernel, mounts_here, nearest_existing, read_text
from storagelab.machine.processes import TaskView, until
from storagelab.model.values import Frozen

State = Literal["yes", "no", "partly"]

RESULTS = "results folder"
ROOMY_BYTES = 4 * 2**30
LEAST_BYTES = 1 * 2**30
SMALLEST_SHARED_MEMORY_BYTES = 64 * 2**20
LEAST_SHARED_MEMORY_BYTES = 2**20
"""With less shared memory than this, a server can't start."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - looked at, never written
MORE_SHARED_MEMORY = (
    f"remove files that others left in {SHARED_MEMORY}, give the container more (--shm-size=1g), or set "
    "dynamic_shared_memory_type = 'mmap' in target.settings"
)
OLDEST_SQLITE = (3, 37, 0)
"""The first version of SQLite with STRICT tables. The schema of the results file uses them."""
BUSY_SHARE_OF_CPUS = 0.25
"""If the load average per CPU is above this, other programs affect a run's times. Measured: a load of 1 on 2 CPUs cost
15 %.
"""
FILES_PER_CONNECTION = 4
"""The file descriptors that are needed to sample one connection: its socket, two files of /proc, and one as reserve."""
_PROBE_LIMIT_S = 5.0


class Ability(Frozen):
    """The result of one check: whether this machine can do one thing, can't, or can do it in part. `mend` says how to
    fix a problem, or "" if there is none.
    """

    name: str
    state: State
    detail: str
    mend: str = ""


Probe = Callable[[], Ability | Iterable[Ability]]
T = TypeVar("T")


def ability(name: str, find: Callable[[], T], detail: Callable[[T], str]) -> Ability:
    """Checks whether `find` finds something that storagelab needs. `find` must raise PreflightError if it does not."""
    try:
        return _yes(name, detail(find()))
    except PreflightError as error:
        return _no(name, error.problem, error.hint)


def abilities(
    volumes: Mapping[str, Path] | None, results_dir: Path | None, kernel: Kernel = HERE
) -> tuple[Ability, ...]:
    """The results of all checks, in the order: waits, counters, places, load, limits.

    `volumes` maps names to folders. If it is None or empty, only `results_dir` is checked, because the private server's
    files are then beside the results. `results_dir` is None if results are kept on another machine.
    """
    places = {f"volume {name}": path for name, path in (volumes or {}).items()}
    if results_dir is not None:
        places[RESULTS] = results_dir
    probes: dict[str, Probe] = {
        "waits: resource and signal": lambda: wait_split(kernel),
        "waits: other users' processes": lambda: hidden_processes(kernel),
        "page cache drop": lambda: page_cache(kernel),
        "device counters": lambda: device_counters(places, kernel),
        "places": lambda: [place(name, path, kernel) for name, path in places.items()],
        "drives": lambda: drives(places, kernel),
        "claims": lambda: claims(places),
        "quiet": lambda: quiet(host.load_1min(), host.usable_cpus(kernel)),
        "CPU quota": lambda: cpu_quota(kernel),
        "clock": lambda: clock(kernel),
        "CPU frequency": lambda: cpu_frequency(kernel),
        "open files": open_files,
        "io_uring": lambda: io_uring(io_uring_refused()),
        "processes": processes,
        "shared memory": lambda: shared_memory(SHARED_MEMORY),
        "results file": lambda: sqlite(sqlite3.sqlite_version_info),
    }
    return tuple(ability for name, probe in probes.items() for ability in attempt(name, probe))


def attempt(name: str, probe: Probe) -> tuple[Ability, ...]:
    """The probe's rows. If the probe raised an exception, one row that says why."""
    try:
        found = probe()
        return (found,) if isinstance(found, Ability) else tuple(found)
    except Exception as error:  # noqa: BLE001
        return (_partly(name, f"could not be checked: {type(error).__name__}: {error}"),)


# ---------------------------------------------------------------------------------------------------------------------
# Waits and the server
# ---------------------------------------------------------------------------------------------------------------------


def wait_split(kernel: Kernel = HERE) -> Ability:
    """Checks whether the CPU time and run-queue time of *other* processes can be read. Reads those of a child process
    that is started for this.
    """
    name = "waits: resource and signal"
    if not (kernel.proc / "self").exists():
        return _no(name, "no /proc: waits are sampled, but Resource and Signal stay empty", "use Linux")
    with subprocess.Popen(["sh", "-c", "read line"], stdin=subprocess.PIPE) as child:
        with contextlib.closing(TaskView(child.pid)) as view:
            counted = until(lambda: bool((sched := view.sched()) and sched.cpu_ns), _PROBE_LIMIT_S)
            state = view.state()
        child.kill()
    if counted and state:
        return _yes(name, "/proc/PID/schedstat and stat of other processes can be read")
    detail = "/proc/PID/schedstat of other processes can't be read or stays 0: Resource and Signal stay empty"
    return _no(name, detail, "use a kernel with CONFIG_SCHED_INFO, and run in the server's PID namespace")


def hidden_processes(kernel: Kernel = HERE) -> Ability:
    """Checks whether /proc hides the processes of other users. This matters if the server runs as another user."""
    name = "waits: other users' processes"
    mounts = [mount for mount in mounts_here(kernel) if mount.mount_point == "/proc"]
    options = [option for mount in mounts[-1:] for option in mount.all_options]
    shown = {"hidepid=0", "hidepid=off"}
    hidden = [option for option in options if option.startswith("hidepid=") and option not in shown]
    if not mounts:
        return _no(name, "no /proc is mounted", "use Linux")
    if hidden and os.geteuid() != 0:
        return _partly(
            name,
            f"/proc is mounted with {hidden[0]}: if another user runs the server, Resource and Signal stay empty",
            "run storagelab as the server's user, or as root: mount -o remount,hidepid=0 /proc",
        )
    return _yes(name, "processes of all users can be seen")


def page_cache(kernel: Kernel = HERE) -> Ability:
    """Checks whether this user may drop the page cache between runs. Only the rights are checked: dropping the cache
    now would slow the machine down.
    """
    if host.can_drop_page_cache(kernel):
        return _yes("page cache drop", "between_runs.drop_page_cache can be used")
    mend = "to use between_runs.drop_page_cache, run as root, outside an unprivileged container"
    return _no("page cache drop", "this user may not drop the page cache, so reads may come from memory", mend)


# ---------------------------------------------------------------------------------------------------------------------
# Places and drives
# ---------------------------------------------------------------------------------------------------------------------


def device_counters(places: Mapping[str, Path], kernel: Kernel = HERE) -> Ability:
    """Checks for each folder whether the kernel counts reads and writes of the disks below it."""
    name = "device counters"
    with DeviceCounters(places, kernel) as counters:
        counted = counters.read()
    without = [place for place in places if f"volume.{place}.writes" not in counted]
    if not without:
        return _yes(name, f"the kernel counts the I/O of {', '.join(places)}")
    lacking = _no if len(without) == len(places) else _partly
    mend = "use a folder on the file system of a disk (not tmpfs, overlay or a network); let a container read /sys"
    return lacking(name, f"no disk is seen under {', '.join(without)}: its I/O is not counted", mend)


def place(name: str, path: Path, kernel: Kernel = HERE) -> Ability:
    """The file system and free space of one folder. If a results folder does not exist yet, those of the folder above
    it.
    """
    found = host.describe_volume(path, kernel)
    folder = path if path.exists() or name != RESULTS else nearest_existing(path)
    free = host.free_bytes(path)
    detail = f"{found['filesystem'] or 'unknown file system'}, {_gib(free)} free, at {found['path']}"
    if reason := host.why_not_writable(folder, kernel):
        mend = f"mkdir -p {path}" if not path.exists() else "fix its permissions, or name another folder"
        return _no(name, f"{found['path']} {reason}", mend)
    if lacks_inodes(folder):
        return _no(name, f"{detail}; it has no inode left", "remove files, or make the file system with more inodes")
    if free < LEAST_BYTES:
        return _no(name, detail, "free some space, or name a folder on another disk")
    if free < ROOMY_BYTES:
        return _partly(name, detail, "enough for small experiments; `plan` shows what an experiment needs")
    return _yes(name, detail)


def lacks_inodes(path: Path, files: int = 1) -> bool:
    """Whether the file system has too few inodes for this many more files. It may still have free space."""
    facts = os.statvfs(path)
    return facts.f_files > 0 and facts.f_favail < files


def drives(places: Mapping[str, Path], kernel: Kernel = HERE) -> list[Ability]:
    """One row for each drive below the folders. It says whether the drive belongs to this machine."""
    names: dict[str, list[str]] = {}
    found: dict[str, dict[str, object]] = {}
    for name, path in places.items():
        if path.exists() or name == RESULTS:
            volume = host.describe_volume(path, kernel)
            key = str(volume["device"] or volume["filesystem"] or "unknown")
            found[key] = volume
            names.setdefault(key, []).append(name)
    return [_drive(key, names[key], volume) for key, volume in found.items()]


def _drive(key: str, places: list[str], volume: Mapping[str, object]) -> Ability:
    name = f"drive {key}"
    under = f"under {', '.join(places)}"
    if volume["virtual"] is False:
        model = " ".join(str(volume[part]) for part in ("device_vendor", "device_model") if volume[part])
        return _yes(name, f"{under}: {model or 'a drive of this machine'}")
    mend = "to measure a drive, use a machine with real drives; layouts can be compared here too"
    return _partly(name, f"{under}: {volume['virtual_reason']}", mend)


def claims(places: Mapping[str, Path]) -> list[Ability]:
    """One row for each Kubernetes claim below the folders. It lists the facts that this pod may not read."""
    found = {str(claim["claim"]): claim for path in places.values() if (claim := host.describe_claim(path))}
    return [_claim(name, claim) for name, claim in found.items()]


def _claim(name: str, claim: Mapping[str, object]) -> Ability:
    unknown = claim["unknown"]
    assert isinstance(unknown, list)
    made_by = claim["driver"] or claim["provisioner"]
    detail = f"StorageClass {claim['class']}" + (f", made by {made_by}" if made_by else "")
    if not unknown:
        return _yes(f"claim {name}", detail)
    mend = "let the service account read claims, volumes and classes: call `storagelab k8s` without --without-rights"
    return _partly(f"claim {name}", f"{detail}; not known: {'; '.join(unknown)}", mend)


# ---------------------------------------------------------------------------------------------------------------------
# Load, clock and limits
# ---------------------------------------------------------------------------------------------------------------------


def quiet(load: float | None, cpus: int) -> Ability:
    """Checks whether other programs use the machine. `load` is the one-minute load average, or None if unknown."""
    if load is None:
        return _partly("quiet", f"{_count(cpus, 'CPU')}; the load can't be read")
    detail = f"load {load:.1f} on {_count(cpus, 'CPU')}"
    if load <= max(0.5, BUSY_SHARE_OF_CPUS * cpus):
        return _yes("quiet", detail)
    busy = _no if load > cpus else _partly
    return busy("quiet", f"{detail}: other programs use this machine", "stop them, or wait until they have ended")


def clock(kernel: Kernel = HERE) -> Ability:
    """Checks whether reading the clock is fast. With a slow clock, the server needs a system call for each time that it
    takes of its I/O.
    """
    source = read_text(kernel.sys / "devices" / "system" / "clocksource" / "clocksource0" / "current_clocksource")
    # The minimum, because other load can only make a reading slower.
    each_ns = min(timeit.repeat(time.monotonic_ns, repeat=5, number=200)) / 200 * 1e9
    detail = f"{source or 'unknown source'}, {each_ns:.0f} ns a reading"
    slow = source in {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "xen"} or each_ns > 1_000
    if not slow:
        return _yes("clock", detail)
    mend = "boot with clocksource=tsc, or with the hypervisor's own clock"
    return _partly("clock", f"{detail}: this is slow, so the server loses time when it times its I/O", mend)


def cpu_frequency(kernel: Kernel = HERE) -> Ability:
    """Checks whether the CPUs' frequency follows the load. If it does, the first run is slower than the second."""
    cpus = kernel.sys / "devices" / "system" / "cpu"
    governors = {text for path in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor") if (text := read_text(path))}
    if not governors:
        return _yes("CPU frequency", "it is fixed, or this system does not control it (a virtual machine)")
    if governors == {"performance"}:
        return _yes("CPU frequency", "governor performance")
    detail = f"governor {', '.join(sorted(governors))}: speed follows the load"
    return _partly("CPU frequency", detail, "as root: cpupower frequency-set --governor performance")


def cpu_quota(kernel: Kernel = HERE) -> Ability:
    """Checks whether control groups limit the CPU time of this process, and whether they have throttled it so far."""
    quota = host.cpu_quota(kernel)
    if quota is None:
        return _yes("CPU quota", "no quota applies to storagelab and the programs that it starts")
    groups = [held for group in control_groups("cpu", kernel) if (held := read_group(group)) is not None]
    held_s = max((held.throttled_s for held in groups), default=0.0)
    return _partly(
        "CPU quota",
        f"control groups allow {quota:g} CPUs, and have throttled processes of this group for {held_s:.1f} s so far. A "
        "run that loses more than a tenth of its time in this way is unverified",
        "raise or remove the quota: cpu.max or cpu.cfs_quota_us of the control group; docker run --cpus",
    )


def open_files() -> Ability:
    """Checks how many connections storagelab can sample with the limit on open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _yes("open files", "no limit")
    connections = max(0, soft - 64) // FILES_PER_CONNECTION
    detail = f"limit {soft:,}: enough for about {connections:,} connections"
    if connections >= 200:
        return _yes("open files", detail)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    return _partly("open files", detail, f"ulimit -n {wanted}")


_IO_URING_SETUP = 425
"""The number of the system call. It is the same on all architectures."""


def io_uring_refused() -> int:
    """The errno with which the kernel refuses to make an io_uring queue, or 0 if it makes one."""
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(_IO_URING_SETUP, 1, ctypes.create_string_buffer(120))
    if descriptor < 0:
        return ctypes.get_errno()
    os.close(descriptor)
    return 0


def io_uring(refused: int) -> Ability:
    """Checks whether servers may use io_uring. Containers usually forbid it."""
    if not refused:
        return _yes("io_uring", "the kernel allows it")
    return _partly(
        "io_uring",
        f"the kernel or a container's rules refuse it ({os.strerror(refused)}): io_method = "
        "'io_uring' can't be measured",
        "allow it in the container's seccomp profile; as root: sysctl kernel.io_uring_disabled=0",
    )


def processes() -> Ability:
    """Checks this user's limits on processes and on locked memory. PostgreSQL has one process for each connection."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    memory = "unlimited" if locked == resource.RLIM_INFINITY else f"{locked / 2**20:,.0f} MB"
    if soft == resource.RLIM_INFINITY:
        return _yes("processes", f"no limit on processes; locked memory {memory}")
    detail = f"limit on processes {soft:,}; locked memory {memory}"
    if soft >= 1_024:
        return _yes("processes", detail)
    return _partly("processes", detail, "ulimit -u 4096")


def shared_memory(folder: Path) -> Ability:
    """Checks the space for the server's dynamic shared memory. Containers often have only 64 MB."""
    if not folder.is_dir():
        return _yes("shared memory", f"there is no {folder}; the server does not use it")
    free = host.free_bytes(folder)
    if free < LEAST_SHARED_MEMORY_BYTES or lacks_inodes(folder):
        return _no("shared memory", f"{folder} is full: PostgreSQL does not start", MORE_SHARED_MEMORY)
    if free >= SMALLEST_SHARED_MEMORY_BYTES:
        return _yes("shared memory", f"{_gib(free)} free in {folder}")
    problem = f"only {_gib(free)} free in {folder}: parallel queries may fail"
    return _partly("shared memory", problem, MORE_SHARED_MEMORY)


def sqlite(version: tuple[int, ...]) -> Ability:
    """Checks whether SQLite is new enough. Results are kept in an SQLite file."""
    text, oldest = ".".join(map(str, version)), ".".join(map(str, OLDEST_SQLITE))
    if version >= OLDEST_SQLITE:
        return _yes("results file", f"SQLite {text}")
    return _no("results file", f"SQLite {text}; {oldest} is needed", "use a Python with a newer SQLite")


def _yes(name: str, detail: str) -> Ability:
    return Ability(name=name, state="yes", detail=detail)


def _partly(name: str, detail: str, mend: str = "") -> Ability:
    return Ability(name=name, state="partly", detail=detail, mend=mend)


def _no(name: str, detail: str, mend: str) -> Ability:
    return Ability(name=name, state="no", detail=detail, mend=mend)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:,.1f} GB"
