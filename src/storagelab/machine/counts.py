"""The kernel's counters of the disks under each volume, and the control groups of a process (either version): their
limits on reads and writes, and the time for which they throttled the process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from storagelab.machine import disks
from storagelab.machine.disks import HERE, Kernel, disk_of, mounts_here, node_of, read_text

V1_LIMITS = {
    "read_iops": "blkio.throttle.read_iops_device", "write_iops": "blkio.throttle.write_iops_device",
    "read_bytes_per_s": "blkio.throttle.read_bps_device", "write_bytes_per_s": "blkio.throttle.write_bps_device",
}  # fmt: skip
V2_LIMITS = {"riops": "read_iops", "wiops": "write_iops", "rbps": "read_bytes_per_s", "wbps": "write_bytes_per_s"}


_V1_COUNTS = {
    "blkio.throttle.io_serviced_recursive": ("reads", "writes"),
    "blkio.throttle.io_service_bytes_recursive": ("read_bytes", "write_bytes"),
}
_V2_COUNTS = {"rios": "reads", "wios": "writes", "rbytes": "read_bytes", "wbytes": "write_bytes"}


class Throttle(NamedTuple):
    """The limits per second of the control group `group` on the disk `number`: `read_iops`, `write_iops`,
    `read_bytes_per_s` and `write_bytes_per_s`.
    """

    group: Path
    number: str
    limits: dict[str, int]

    def counted(self) -> dict[str, float]:
        """`reads`, `writes`, `read_bytes` and `write_bytes` so far, as limits count them: before requests are
        merged.
        """
        counts: dict[str, float] = {}
        for file, names in _V1_COUNTS.items():
            of = {
                words[1]: words[2] for words in _lines(self.group / file) if words[0] == self.number and len(words) == 3
            }
            counts |= {name: float(of[way]) for way, name in zip(("Read", "Write"), names, strict=True) if way in of}
        for words in _lines(self.group / "io.stat"):
            pairs = (word.partition("=") for word in words[1:] if words[0] == self.number)
            counts |= {_V2_COUNTS[name]: float(value) for name, _, value in pairs if name in _V2_COUNTS}
        return counts


def control_groups(controller: str, kernel: Kernel = HERE, process: int | str = "self") -> tuple[Path, ...]:
    """Folders of a process's control groups that may limit `controller`, innermost first."""
    groups: dict[str, str] = {}
    for line in read_text(kernel.proc / str(process) / "cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        groups.update(dict.fromkeys(controllers.split(","), path))
    folders: list[Path] = []
    for mount in mounts_here(kernel):
        if mount.filesystem == "cgroup2":
            path = groups.get("", "/")
        elif mount.filesystem == "cgroup" and controller in mount.super_options:
            path = groups.get(controller, "/")
        else:
            continue
        root = Path(mount.mount_point)
        group = root / path.lstrip("/")
        folders += [folder for folder in (group, *group.parents) if folder.is_relative_to(root) and folder.is_dir()]
    return tuple(folders)


def throttle(names: Iterable[str], kernel: Kernel = HERE, process: int | str = "self") -> Throttle | None:
    """The innermost control group that limits a process's I/O on the file system of these block devices.

    A limit applies to a whole disk, so a partition has its disk's limit. For several devices together (btrfs, md) the
    limit is unknown, because it depends on how a load is spread over them.
    """
    own = tuple(names)
    if len(own) != 1:
        return None
    number = read_text(node_of(disk_of(own[0], kernel), kernel) / "dev")
    for group in control_groups("blkio", kernel, process) if number else ():
        if limits := limits_of(number, group):
            return Throttle(group, number, limits)
    return None


def limits_of(number: str, group: Path) -> dict[str, int]:
    """The limits per second of a control group on the disk with this number ("major:minor")."""
    found = {key: words[1:] for key, file in V1_LIMITS.items() for words in _lines(group / file) if words[0] == number}
    limits = {key: int(words[0]) for key, words in found.items() if len(words) == 1 and words[0].isdigit()}
    for words in _lines(group / "io.max"):
        pairs = (word.partition("=") for word in words[1:] if words[0] == number)
        limits |= {V2_LIMITS[name]: int(value) for name, _, value in pairs if name in V2_LIMITS and value.isdigit()}
    return limits


def _lines(path: Path) -> list[list[str]]:
    return [words for line in read_text(path).splitlines() if (words := line.split())]


# --- throttling ------------------------------------------------------------------------------------------------------
#
# How long control groups of either version throttled processes because their CPU quota was used up.
#
# A group counts the time in which runnable tasks of a CPU had to wait for the group's next period, summed over CPUs:
# one second on four throttled CPUs counts as four seconds. `group_cpu_s`, the CPU time that the group got, is summed
# over CPUs, too.

_NS, _US = 1e-9, 1e-6
_POSSIBLE_GROUPS = 20_000
"""The most groups of a machine that are checked before a run; each takes some 20 µs."""


class GroupTime(NamedTuple):
    """The counters of one group so far: `throttled_s`, and the CPU time that it got (None if that is counted
    elsewhere).
    """

    throttled_s: float
    cpu_s: float | None


def read_group(group: Path) -> GroupTime | None:
    """The counters of a group; None if it has none: the root, or a group of another controller."""
    words = (line.split() for line in read_text(group / "cpu.stat").splitlines())
    counts = {line[0]: int(line[1]) for line in words if len(line) == 2 and line[1].isdigit()}
    if "throttled_usec" in counts:
        usage = counts.get("usage_usec")
        return GroupTime(counts["throttled_usec"] * _US, None if usage is None else usage * _US)
    if "throttled_time" in counts:
        usage_text = read_text(group / "cpuacct.usage")  # exists if cpu and cpuacct are one hierarchy
        return GroupTime(counts["throttled_time"] * _NS, int(usage_text) * _NS if usage_text.isdigit() else None)
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
    """Counts from its creation to `end`.

    `server_process` is None if the server's process can't be seen. A process may move to another group during a run. So
    the class reads all groups at the beginning, and each `look` records the groups of the processes.
    """

    def __init__(self, server_process: int | None, kernel: Kernel = HERE) -> None:
        self._kernel, self._server_process = kernel, server_process
        self._before = {group: held for group in groups_here(kernel) if (held := read_group(group)) is not None}
        self._groups: dict[str, set[Path]] = {}
        self._known: dict[str, tuple[Path, ...]] = {}
        """The groups of processes whose `cgroup` file has this text."""
        self._look_at_all()

    def look(self) -> None:
        """Records the groups of the server, of storagelab, and of the programs that it started: load generators,
        fio."""
        self._note("storagelab", "self")
        for process in self.processes():
            self._note("server" if process == self._server_process else "load", process)

    def processes(self) -> set[int]:
        """The server, and the programs that storagelab started."""
        return {*_children(self._kernel, "self"), *filter(None, (self._server_process,))}

    def _look_at_all(self) -> None:
        """Records the groups like `look`, and includes the server's sessions if they are processes."""
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
        """`server_throttled_s` and so on: for each owner, the time of the group that throttled its processes longest.
        `server_group_cpu_s`: the CPU time that this group got in the run, if it counts that.
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


def _change(before: Mapping[Path, GroupTime], group: Path, after: GroupTime) -> GroupTime:
    """The change of a group's counters. The counters of a group began at 0 if it is new, or was made again under the
    same name."""
    began = before.get(group, GroupTime(0.0, 0.0))
    if after.throttled_s < began.throttled_s:
        began = GroupTime(0.0, 0.0)
    cpu_s = None if after.cpu_s is None or began.cpu_s is None else max(0.0, after.cpu_s - began.cpu_s)
    return GroupTime(after.throttled_s - began.throttled_s, cpu_s)


def _children(kernel: Kernel, process: int | str) -> Iterator[int]:
    """The running processes that a process started; none if the kernel doesn't list them."""
    for task in (kernel.proc / str(process) / "task").glob("[0-9]*"):
        yield from (int(word) for word in read_text(task / "children").split() if word.isdigit())


# --- disks under volumes ----------------------------------------------------------------------------------------------

SECTOR_BYTES = 512
"""The kernel counts sectors of 512 bytes, whatever the drive's own sector size is
(Documentation/admin-guide/iostats.rst).
"""

_OWN = ("reads", "read_bytes", "writes", "write_bytes")
"""The counters that also exist for the device of a file system."""
_PLACES = {
    "reads": 0, "read_bytes": 2, "read_time_s": 3, "writes": 4, "write_bytes": 6, "write_time_s": 7, "busy_s": 9,
    "discards": 11, "discard_bytes": 13, "flushes": 15, "flush_time_s": 16,
}  # fmt: skip
"""The places of the counters in a device's `stat`."""
_MS = 1e-3
_COUNTER_RANGE = 2**32


def parse_stat(text: str) -> dict[str, float]:
    """Cumulative counters in the text of a block device's `stat` file; older kernels don't have all of them."""
    fields = [int(field) for field in text.split()]
    places = _PLACES.items() if len(fields) >= 11 else ()
    return {name: float(fields[place] * _unit_of(name)) for name, place in places if place < len(fields)}


def _unit_of(name: str) -> float:
    return SECTOR_BYTES if name.endswith("_bytes") else _MS if name.endswith("_s") else 1


class DeviceCounters:
    """The kernel's counters of the disks under each volume. Reading them is cheap enough for once a second.

    Keys of `read()`: `volume.NAME.` + reads, read_bytes, read_time_s, writes, write_bytes, write_time_s, busy_s,
    discards, discard_bytes, flushes, flush_time_s. They cover the *whole disks*, because the kernel counts flushes only
    there, and are summed over a volume's disks (busy_s too: up to the number of disks x elapsed). Times are summed over
    requests in progress, so they may exceed the time that passed.

    If the file system lies on a part or a combination of disks (a partition, md, device-mapper, loop), there are also
    file_system_ + reads, read_bytes, writes, write_bytes: its own share. Volumes on one disk get the same figures; a
    volume without a disk gets none. If control groups throttle `process` on a volume, there are also throttled_ +
    reads, read_bytes, writes, write_bytes, as the groups count them.
    """

    def __init__(self, volumes: Mapping[str, Path], kernel: Kernel = HERE, process: int | str = "self") -> None:
        self._fds: dict[str, int] = {}
        self._disks: dict[str, tuple[str, ...]] = {}
        self._own: dict[str, tuple[str, ...]] = {}
        self._throttles: dict[str, Throttle] = {}
        mounts = disks.mounts_here(kernel)
        for volume, path in volumes.items():
            mount = disks.mount_of(path, mounts)
            own = disks.block_devices_of(mount, kernel) if mount else ()
            whole = disks.whole_disks(disks.device_stack(own, kernel), kernel)
            if (throttled := throttle(own, kernel, process)) is not None:
                self._throttles[volume] = throttled
            self._disks[volume] = whole
            self._own[volume] = () if set(own) <= set(whole) else own
            for name in {*whole, *self._own[volume]} - self._fds.keys():
                with contextlib.suppress(OSError):
                    self._fds[name] = os.open(disks.node_of(name, kernel) / "stat", os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> dict[str, float]:
        """The counters now; a device that was removed has none."""
        by_device = dict[str, dict[str, float]]()
        for name, fd in self._fds.items():
            with contextlib.suppress(OSError):
                by_device[name] = parse_stat(os.pread(fd, 512, 0).decode())
        counters: dict[str, float] = {}
        for volume, whole in self._disks.items():
            for name, value in _sum([by_device.get(disk, {}) for disk in whole]).items():
                counters[f"volume.{volume}.{name}"] = value
            own = _sum([by_device.get(device, {}) for device in self._own[volume]])
            counters |= {f"volume.{volume}.file_system_{name}": own[name] for name in _OWN if name in own}
        for volume, throttled in self._throttles.items():
            counters |= {f"volume.{volume}.throttled_{name}": value for name, value in throttled.counted().items()}
        return counters

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.popitem()[1])

    def __enter__(self) -> DeviceCounters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _sum(parts: list[dict[str, float]]) -> dict[str, float]:
    """Sums of the counters that all parts have. A sum that lacks a disk would be wrong."""
    if not parts:
        return {}
    return {name: sum(part[name] for part in parts) for name in parts[0] if all(name in part for part in parts)}


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The difference between two reads of `DeviceCounters`, for the keys that both have.

    Counts wrap at 2**32 on 32-bit kernels, and times in milliseconds do so on every kernel. If a counter fell from the
    lower half of its range, the device was reset: the difference is unknown and left out.
    """
    changes: dict[str, float] = {}
    for name in after:
        if name not in before:
            continue
        change = after[name] - before[name]
        if change < 0:
            end = _COUNTER_RANGE * _unit_of(name)
            if before[name] < end / 2 or change + end < 0:
                continue
            change += end
        changes[name] = change
    return changes
