"""The kernel's counters of the disks under each volume, and the control groups of a process (version 1 or 2).

Control groups have limits on reads and writes. They also count the time for which they throttled the process.
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
    """The limits of the control group in the folder `group` on the disk `number` ("major:minor"). The keys of `limits`:
    `read_iops`, `write_iops`, `read_bytes_per_s` and `write_bytes_per_s`.
    """

    group: Path
    number: str
    limits: dict[str, int]

    def counted(self) -> dict[str, float]:
        """`reads`, `writes`, `read_bytes` and `write_bytes` so far. Like the limits, they count requests before the
        kernel merges them.
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
    """The folders of a process's control groups that may limit `controller`, from the innermost to the outermost."""
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
    """The limits of the innermost control group that limits a process's I/O on the file system of these block devices.
    Returns None if no group does so.

    A limit applies to a whole disk, so a partition has the limit of its disk. If a file system has several devices
    (btrfs, md), its limit is unknown, because it depends on how a load is spread over the devices.
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
# A control group of version 1 or 2 throttles its processes when its CPU quota is used up. It counts for how long.
#
# While a CPU is throttled, its runnable tasks wait for the group's next period. The group sums this time over CPUs: one
# second on four throttled CPUs counts as four seconds. `group_cpu_s`, the CPU time that the group used, is also a sum
# over CPUs.

_NS, _US = 1e-9, 1e-6
_POSSIBLE_GROUPS = 20_000
"""The highest number of control groups that are read before a run. Reading one group takes about 20 µs."""


class GroupTime(NamedTuple):
    """The counters of one group so far, in seconds: the time for which it was throttled, and the CPU time that it used.
    `cpu_s` is None if this group does not count CPU time.
    """

    throttled_s: float
    cpu_s: float | None


def read_group(group: Path) -> GroupTime | None:
    """The counters of a group. Returns None if it has none, because it is the root group or has another controller."""
    words = (line.split() for line in read_text(group / "cpu.stat").splitlines())
    counts = {line[0]: int(line[1]) for line in words if len(line) == 2 and line[1].isdigit()}
    if "throttled_usec" in counts:
        usage = counts.get("usage_usec")
        return GroupTime(counts["throttled_usec"] * _US, None if usage is None else usage * _US)
    if "throttled_time" in counts:
        usage_text = read_text(group / "cpuacct.usage")  # exists if the controllers cpu and cpuacct share a hierarchy
        return GroupTime(counts["throttled_time"] * _NS, int(usage_text) * _NS if usage_text.isdigit() else None)
    return None


def groups_here(kernel: Kernel = HERE) -> Iterator[Path]:
    """Every group that may limit CPU time and that this process can see, up to _POSSIBLE_GROUPS groups."""
    number = 0
    for mount in mounts_here(kernel):
        if mount.filesystem != "cgroup2" and not (mount.filesystem == "cgroup" and "cpu" in mount.super_options):
            continue
        for folder, _, _ in os.walk(mount.mount_point):
            if (number := number + 1) > _POSSIBLE_GROUPS:
                return
            yield Path(folder)


class Throttling:
    """Measures from its creation to `end` for how long control groups throttled the processes of a run.

    `server_process` is None if the server's process can't be seen. A process may be moved to another group during a
    run. So the counters of all groups are read at the start, and each `look` notes the current groups of the processes.
    """

    def __init__(self, server_process: int | None, kernel: Kernel = HERE) -> None:
        self._kernel, self._server_process = kernel, server_process
        self._before = {group: held for group in groups_here(kernel) if (held := read_group(group)) is not None}
        self._groups: dict[str, set[Path]] = {}
        self._known: dict[str, tuple[Path, ...]] = {}
        """Maps the text of a process's `cgroup` file to the process's groups."""
        self._look_at_all()

    def look(self) -> None:
        """Notes the groups of the server, of storagelab, and of programs that storagelab started (load generators)."""
        self._note("storagelab", "self")
        for process in self.processes():
            self._note("server" if process == self._server_process else "load", process)

    def processes(self) -> set[int]:
        """The PIDs of the server and of the programs that storagelab started."""
        return {*_children(self._kernel, "self"), *filter(None, (self._server_process,))}

    def _look_at_all(self) -> None:
        """Notes the groups as `look` does, and also those of the server's child processes, which serve its sessions."""
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
        """`server_throttled_s`, `storagelab_throttled_s` and `load_throttled_s`, in seconds. Each is the throttled time
        of one group of these processes: the group with the longest time. `server_group_cpu_s` and so on is the CPU time
        that this group used in the run. It is absent if the group was not throttled, or does not count CPU time.
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
    """The change of a group's counters. They began at 0 if the group is new, or was removed and made again with the
    same name.
    """
    began = before.get(group, GroupTime(0.0, 0.0))
    if after.throttled_s < began.throttled_s:
        began = GroupTime(0.0, 0.0)
    cpu_s = None if after.cpu_s is None or began.cpu_s is None else max(0.0, after.cpu_s - began.cpu_s)
    return GroupTime(after.throttled_s - began.throttled_s, cpu_s)


def _children(kernel: Kernel, process: int | str) -> Iterator[int]:
    """The PIDs of the children of a process that run now. The result is empty if the kernel doesn't list them."""
    for task in (kernel.proc / str(process) / "task").glob("[0-9]*"):
        yield from (int(word) for word in read_text(task / "children").split() if word.isdigit())


# --- disks under volumes ----------------------------------------------------------------------------------------------

SECTOR_BYTES = 512
"""The kernel counts sectors of 512 bytes for every drive, also for a drive with another sector size
(Documentation/admin-guide/iostats.rst).
"""

_OWN = ("reads", "read_bytes", "writes", "write_bytes")
"""The counters that are also read for the file system's own device."""
_PLACES = {
    "reads": 0, "read_bytes": 2, "read_time_s": 3, "writes": 4, "write_bytes": 6, "write_time_s": 7, "busy_s": 9,
    "discards": 11, "discard_bytes": 13, "flushes": 15, "flush_time_s": 16,
}  # fmt: skip
"""The position of each counter in a device's `stat` file, from 0."""
_MS = 1e-3
_COUNTER_RANGE = 2**32


def parse_stat(text: str) -> dict[str, float]:
    """Cumulative counters from the text of a block device's `stat` file. Older kernels lack some of the counters."""
    fields = [int(field) for field in text.split()]
    places = _PLACES.items() if len(fields) >= 11 else ()
    return {name: float(fields[place] * _unit_of(name)) for name, place in places if place < len(fields)}


def _unit_of(name: str) -> float:
    return SECTOR_BYTES if name.endswith("_bytes") else _MS if name.endswith("_s") else 1


class DeviceCounters:
    """The kernel's counters of the disks under each volume. Reading them costs little, so they can be read every
    second.

    Keys of `read()`: `volume.NAME.` + reads, read_bytes, read_time_s, writes, write_bytes, write_time_s, busy_s,
    discards, discard_bytes, flushes, flush_time_s. Each counter is the sum over the volume's *whole disks*, because the
    kernel counts flushes only for whole disks. So busy_s may be as much as the number of disks x the elapsed time. Read
    and write times are sums over requests. They may exceed the elapsed time if requests overlap.

    If the file system is on a partition, md, device-mapper or a loop device, there are also file_system_ + reads,
    read_bytes, writes, write_bytes: the I/O of this device only. Volumes on the same disk get the same figures. A
    volume without a disk gets none. If control groups limit the I/O of `process` on a volume, there are also
    throttled_ + reads, read_bytes, writes, write_bytes, as the groups count them.
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
        """The counters now. A device that was removed has no counters."""
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
    """The sum of each counter that all parts have. If a disk lacks a counter, the sum would be wrong, so it is left
    out.
    """
    if not parts:
        return {}
    return {name: sum(part[name] for part in parts) for name in parts[0] if all(name in part for part in parts)}


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The differences between two results of `DeviceCounters.read`, for the keys that both have.

    Counts wrap at 2**32 on 32-bit kernels. Times in milliseconds wrap at 2**32 on every kernel. If a counter fell
    although it was in the lower half of its range, it did not wrap: the device was reset. Then the difference is
    unknown, and is left out.
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
