"""Finds the disks under a folder, as the kernel reports them.

    folder -> mount -> block device of the file system -> (partition, device-mapper, md, loop ...) -> whole disks

Each function takes the roots of /proc and /sys as `kernel`, so that the same code can read files recorded on another
machine. If a fact can't be read (no Linux, no /sys, a container), it is empty, and no exception is raised.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import NamedTuple


class Kernel(NamedTuple):
    """The roots of /proc and /sys."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")


HERE = Kernel()


def read_text(path: Path) -> str:
    """The file's text without leading and trailing blanks, or "" if the file can't be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


# ---------------------------------------------------------------------------------------------------------------------
# Mounts
# ---------------------------------------------------------------------------------------------------------------------


class Mount(NamedTuple):
    """One line of /proc/self/mountinfo. `options` are the options of the mount, `super_options` those of its file
    system.
    """

    mount_point: str
    device_numbers: str
    filesystem: str
    source: str
    options: tuple[str, ...]
    super_options: tuple[str, ...]

    @property
    def read_only(self) -> bool:
        return "ro" in self.options or "ro" in self.super_options

    @property
    def all_options(self) -> tuple[str, ...]:
        """The mount's own options, and then the other options of its file system."""
        return self.options + tuple(option for option in self.super_options if option not in {*self.options, "rw"})


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """The mounts in the text of a mountinfo file, in the file's order. Lines of another form are ignored."""
    mounts = []
    for line in text.splitlines():
        head, dash, tail = line.partition(" - ")
        left, right = head.split(" "), tail.split(" ")
        if not dash or len(left) < 6 or len(right) < 2:
            continue
        super_options = tuple(right[2].split(",")) if len(right) > 2 else ()
        mounts.append(
            Mount(_unescape(left[4]), left[2], right[0], _unescape(right[1]), tuple(left[5].split(",")), super_options)
        )
    return tuple(mounts)


def mounts_here(kernel: Kernel = HERE) -> tuple[Mount, ...]:
    """The mounts that this process sees. The result is empty if there is no /proc."""
    return parse_mounts(read_text(kernel.proc / "self" / "mountinfo"))


def mount_of(path: str | Path, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that contains `path` or, if it does not exist, the nearest existing folder above it. Returns None if no
    mount is known. A block device counts as its own mount.

    Among the mounts above the path, those with the path's device number are preferred, because a later mount may hide
    a mount with a longer path. If no number matches, all mounts above the path are compared: btrfs gives every
    subvolume a number that no mount has. Of the candidates, the mount with the longest path is returned.
    """
    real = os.path.realpath(path)
    if os.path.exists(real) and stat.S_ISBLK((facts := os.stat(real)).st_mode):
        return Mount(real, f"{os.major(facts.st_rdev)}:{os.minor(facts.st_rdev)}", "", real, (), ())
    above = [mount for mount in mounts if PurePath(real).is_relative_to(mount.mount_point)]
    numbers = device_numbers_of(real)
    candidates = [mount for mount in above if mount.device_numbers == numbers] or above
    # If two mounts have the same path, the later one hides the other. max() returns the first, so reverse the order.
    return max(reversed(candidates), key=lambda mount: len(mount.mount_point), default=None)


def device_numbers_of(path: str | Path) -> str:
    """ "major:minor" of the file system that holds `path` or the nearest existing folder above it, or "" if unknown."""
    try:
        device = os.stat(nearest_existing(path)).st_dev
    except OSError:
        return ""
    return f"{os.major(device)}:{os.minor(device)}"


def nearest_existing(path: str | Path) -> Path:
    """`path` itself, or the nearest existing folder above it."""
    real = Path(os.path.realpath(path))
    return next((folder for folder in (real, *real.parents) if os.path.lexists(folder)), Path(real.anchor))


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


# ---------------------------------------------------------------------------------------------------------------------
# Block devices
# ---------------------------------------------------------------------------------------------------------------------


def block_devices_of(mount: Mount, kernel: Kernel = HERE) -> tuple[str, ...]:
    """The kernel's names of the block devices under the mount's file system: one, several (btrfs), or none."""
    by_number = kernel.sys / "dev" / "block" / mount.device_numbers
    if by_number.exists():
        return (by_number.resolve().name,)
    if not mount.source.startswith("/dev/"):
        return ()
    name = Path(os.path.realpath(mount.source)).name
    if not node_of(name, kernel).exists():
        return ()
    for pool in sorted((kernel.sys / "fs" / "btrfs").glob("*/devices")):
        members = names_in(pool)
        if name in members:
            return members
    return (name,)


def device_stack(names: Iterable[str], kernel: Kernel = HERE) -> tuple[str, ...]:
    """Returns `names` and every block device below them. Each name is returned once. The order is from the file system
    downward.
    """
    stack: list[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name not in stack:
            stack.append(name)
            waiting.extend(_below(name, kernel))
    return tuple(stack)


def whole_disks(stack: Iterable[str], kernel: Kernel = HERE) -> tuple[str, ...]:
    """The devices in `stack` that have no device below them. These are the disks."""
    return tuple(name for name in stack if not _below(name, kernel))


def _below(name: str, kernel: Kernel) -> tuple[str, ...]:
    node = node_of(name, kernel)
    if slaves := names_in(node / "slaves"):
        return slaves
    if (disk := disk_of(name, kernel)) != name:
        return (disk,)
    if backing_file := read_text(node / "loop" / "backing_file"):
        mount = mount_of(backing_file, mounts_here(kernel))
        return block_devices_of(mount, kernel) if mount else ()
    return ()


def node_of(name: str, kernel: Kernel = HERE) -> Path:
    """The folder of /sys that describes a block device, which may be a disk or a partition."""
    return kernel.sys / "class" / "block" / name


def disk_of(name: str, kernel: Kernel = HERE) -> str:
    """Returns the name of the whole disk. If `name` is a partition, this is the disk that contains the partition.
    Otherwise, it is `name`.
    """
    node = node_of(name, kernel)
    return node.resolve().parent.name if (node / "partition").exists() else name


def size_bytes(name: str, kernel: Kernel = HERE) -> int:
    """The size in bytes, or 0 if unknown. The kernel counts units of 512 bytes for every drive, also for a drive with
    another sector size.
    """
    return (integer_in(node_of(name, kernel) / "size") or 0) * 512


def names_in(folder: Path) -> tuple[str, ...]:
    """The names in a folder, sorted. The result is empty if the folder can't be read."""
    try:
        return tuple(sorted(os.listdir(folder)))
    except OSError:
        return ()


def describe_disk(name: str, kernel: Kernel = HERE) -> dict[str, object]:
    """The kernel's description of a block device: `model`, `vendor`, `firmware`, `driver` (each "" if unknown) and
    `queue` (see `describe_queue`).
    """
    node = node_of(name, kernel)
    # The `device` of an NVMe disk is its controller. The controller's own `device` has the driver.
    drivers = (node / "device" / "driver", node / "device" / "device" / "driver")
    return {
        "model": read_text(node / "device" / "model") or read_text(node / "device" / "name"),
        "vendor": read_text(node / "device" / "vendor"),
        "firmware": read_text(node / "device" / "firmware_rev") or read_text(node / "device" / "rev"),
        "driver": next((driver.resolve().name for driver in drivers if driver.exists()), ""),
        "queue": describe_queue(name, kernel),
    }


def serial_of(name: str, kernel: Kernel = HERE) -> str:
    """The disk's serial number. If it has none, its globally unique name is returned, and without either, ""."""
    node = node_of(name, kernel)
    files = ("serial", "device/serial", "wwid", "device/wwid")
    return next((text for file in files if (text := read_text(node / file))), "")


def describe_queue(name: str, kernel: Kernel = HERE) -> dict[str, object]:
    """The settings of the device's request queue, or {} if it has no queue. A value that can't be read is None.

    `rotational` is what the device told the kernel. For a virtual disk, it does not describe the physical medium.
    """
    queue = node_of(name, kernel) / "queue"
    if not queue.is_dir():
        return {}
    rotational, read_ahead_kib = integer_in(queue / "rotational"), integer_in(queue / "read_ahead_kb")
    return {
        "scheduler": chosen(read_text(queue / "scheduler")) or None,
        "write_cache": read_text(queue / "write_cache") or None,
        "rotational": None if rotational is None else bool(rotational),
        "logical_block_bytes": integer_in(queue / "logical_block_size"),
        "physical_block_bytes": integer_in(queue / "physical_block_size"),
        "nr_requests": integer_in(queue / "nr_requests"),
        "read_ahead_bytes": None if read_ahead_kib is None else read_ahead_kib * 1024,
        "discard_max_bytes": integer_in(queue / "discard_max_bytes"),
    }


def chosen(text: str) -> str:
    """The choice that the kernel shows in brackets: "none [mq-deadline] kyber" -> "mq-deadline"."""
    match = re.search(r"\[([^\]]+)\]", text)
    return match[1] if match else text


def integer_in(path: Path) -> int | None:
    """The integer in a file of the kernel, or None if the file can't be read or has no integer."""
    text = read_text(path)
    return int(text) if re.fullmatch(r"-?\d+", text) else None


# ---------------------------------------------------------------------------------------------------------------------
# Whether a disk is a drive of this machine
# ---------------------------------------------------------------------------------------------------------------------


def is_in_memory(mount: Mount | None, stack: tuple[str, ...]) -> bool:
    """Whether the files are only in memory: on tmpfs, ramfs, zram or a RAM disk."""
    if mount is not None and mount.filesystem in {"tmpfs", "ramfs", "devtmpfs"}:
        return True
    return any(re.fullmatch(r"(zram|ram|pmem-mem)\d+", name) for name in stack)


_CACHE = "its cache may acknowledge writes before they are durable, and `rotational` does not describe the medium"
_MEMORY = "this is memory, not a disk: nothing in it is durable"
_FILE_SYSTEMS = {
    r"tmpfs|ramfs|devtmpfs": _MEMORY,
    r"overlay|aufs": "a container's layered file system: the disk below can't be seen from here; use a mounted volume",
    r"nfs\d?|cifs|smb3?|ceph|glusterfs|lustre|afs": "a file system over the network: its disks are in other machines",
    r"9p|virtiofs|vboxsf|prl_fs|fuse(\..*)?": "a shared or user-space file system: its disk can't be seen from here",
}
_NAMES = {
    r"z?ram\d+": _MEMORY,
    r"loop\d+": f"a loop device, whose data is in a file: {_CACHE}",
    r"vd[a-z]+": f"a virtual disk (virtio): {_CACHE}",
    r"xvd[a-z]+": f"a virtual disk (Xen): {_CACHE}",
    r"nbd\d+|rbd\d+": f"a disk over the network: {_CACHE}",
}
_MODELS = {
    r"qemu|virtio|red hat": "QEMU",
    r"vmware": "VMware",
    r"vbox|virtualbox": "VirtualBox",
    r"msft|virtual disk": "Hyper-V",
    r"amazon elastic block store": "Amazon EBS",
    r"persistentdisk|nvme_card-pd": "Google Persistent Disk",
    r"\bdo volume": "DigitalOcean",
    r"\bbhyve": "bhyve",
    r"\bxen": "Xen",
    r"lio-org|truenas|iscsi": "iSCSI",
    r"\bperc\b|megaraid|smart array|logical volume|\braid": "a RAID controller",
}


def virtual_disk(
    mount: Mount | None, stack: tuple[str, ...], on_virtual_machine: bool | None, kernel: Kernel = HERE
) -> tuple[bool | None, str]:
    """Whether the disk is virtual, so not a drive of this machine, and the reason. Returns None if neither can be
    shown.
    """
    if mount is None:
        return None, "this system does not show which disk is under it"
    for pattern, reason in _FILE_SYSTEMS.items():
        if re.fullmatch(pattern, mount.filesystem):
            return True, reason
    for name in stack:
        disk = describe_disk(name, kernel)
        text = f"{disk['vendor']} {disk['model']}".lower()
        reasons = [reason for pattern, reason in _NAMES.items() if re.fullmatch(pattern, name)]
        reasons += [f"a virtual disk ({who}): {_CACHE}" for pattern, who in _MODELS.items() if re.search(pattern, text)]
        if reasons:
            return True, f"{name}: {reasons[0]}"
    if not stack:
        return None, "no block device is seen under it"
    if on_virtual_machine is not False:
        return None, f"{stack[-1]}: if this is a virtual machine, this drive may be virtual too"
    return False, ""
