"""The kernel's counters of the disks under each volume, and their arithmetic."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from storagelab.machine import disks
from storagelab.machine.control_groups import Throttle, throttle
from storagelab.machine.disks import HERE, Kernel

SECTOR_BYTES = 512
"""The kernel counts sectors of 512 bytes, whatever the drive's own sector size is
(Documentation/admin-guide/iostats.rst).
"""

_OWN = ("reads", "read_bytes", "writes", "write_bytes")
"""What is counted for the device of a file system, too."""
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
    """What the disks under each volume have done since they came up. Reading is cheap enough for once a second.

    Keys of `read()`: `volume.NAME.` + reads, read_bytes, read_time_s, writes, write_bytes, write_time_s, busy_s,
    discards, discard_bytes, flushes, flush_time_s. They cover the *whole disks*, since the kernel counts flushes only
    there, and are summed over a volume's disks (busy_s too: up to the number of disks x elapsed). Times are summed over
    requests in progress, so they may exceed the time that passed.

    If the file system lies on a part or a combination of disks (a partition, md, device-mapper, loop), there are also
    file_system_ + reads, read_bytes, writes, write_bytes: its own share. Volumes on one disk get the same figures; a
    volume without a disk gets none. If control groups throttle `process` on a volume, there are also throttled_ + the
    same four, as the groups count them.
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
    """Sums of the counters that every part has; a sum without one disk would be wrong, not just smaller."""
    if not parts:
        return {}
    return {name: sum(part[name] for part in parts) for name in parts[0] if all(name in part for part in parts)}


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The difference between two reads of `DeviceCounters`, for the keys that both have.

    Counts wrap at 2**32 on 32-bit kernels, and times in milliseconds do so on every kernel. A counter that fell from
    the lower half of its range was reset (the device came back): its difference is unknown and left out.
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
