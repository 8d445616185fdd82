"""The control groups of a process, of either version: how fast they let it read and write, and what they counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from storagelab.machine.disks import HERE, Kernel, mounts_here, node_of, read_text

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
    """What the control group `group` allows on the disk `number` in a second: `read_iops`, `write_iops`,
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

    A limit applies to a whole disk, so a partition has its disk's limit. For several devices together (btrfs, md) there
    is no answer: it depends on how a load is spread over them.
    """
    own = tuple(names)
    if len(own) != 1:
        return None
    node = node_of(own[0], kernel)
    disk = node.resolve().parent.name if (node / "partition").exists() else own[0]
    number = read_text(node_of(disk, kernel) / "dev")
    for group in control_groups("blkio", kernel, process) if number else ():
        if limits := limits_of(number, group):
            return Throttle(group, number, limits)
    return None


def limits_of(number: str, group: Path) -> dict[str, int]:
    """What a control group allows on the disk with this number ("major:minor") in a second."""
    return dict(_limits(number, group))


def _limits(number: str, group: Path) -> Iterator[tuple[str, int]]:
    for key, file in V1_LIMITS.items():
        for words in _lines(group / file):
            if len(words) == 2 and words[0] == number and words[1].isdigit():
                yield key, int(words[1])
    for words in _lines(group / "io.max"):
        for name, _, value in (word.partition("=") for word in words[1:] if words[0] == number):
            if name in V2_LIMITS and value.isdigit():
                yield V2_LIMITS[name], int(value)


def _lines(path: Path) -> list[list[str]]:
    return [words for line in read_text(path).splitlines() if (words := line.split())]
