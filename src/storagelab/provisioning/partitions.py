"""A partition that uses a share of a drive; and the kernel's and udev's knowledge of partitions."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from uuid import UUID

from storagelab.errors import RunFailed
from storagelab.machine.processes import holders_text, until
from storagelab.provisioning.drives import partitions_of
from storagelab.provisioning.programs import path_of, said

PROGRAMS = ("sfdisk",)
_ALIGNED_BYTES = 2**20
_BUSY_S = 20.0
"""How long somebody may look at a partition, such as udev: meanwhile, the kernel keeps what it knows of the drive's
table.
"""
_SETTLES_S = 60
_BLKRRPART = 0x125F
"""Lets the kernel read the partition table again (linux/fs.h)."""


def size_for(size_bytes: int, share: float) -> int:
    """How large the partition is that, with the table before it, uses this share of a drive."""
    return (int(size_bytes * share) // _ALIGNED_BYTES - 1) * _ALIGNED_BYTES


def make(drive: str, size_bytes: int, sector_bytes: int, table: UUID) -> None:
    """Makes a partition, the only one on the drive, in a table with this UUID. Raises RunFailed."""
    start, size = _ALIGNED_BYTES // sector_bytes, size_bytes // sector_bytes
    said(
        "sfdisk", "--quiet", "--wipe", "always", "--wipe-partitions", "always", f"/dev/{drive}",
        given=f'label: gpt\nlabel-id: {table}\nstart={start}, size={size}, name="storagelab"\n',
    )  # fmt: skip


def only_one(drive: str) -> str:
    """The kernel's name of the drive's only partition, once it is there, and nobody looks at it as a new one. Raises
    RunFailed.
    """

    def is_there() -> bool:
        found = partitions_of(drive)
        if len(found) != 1:
            _read_again(drive)
        return len(found) == 1 and Path(f"/dev/{found[0]}").exists()

    if not until(is_there, _BUSY_S, pause_s=0.1):
        raise RunFailed(f"the kernel does not show the new partition on /dev/{drive}{_users(drive)}")
    settle()
    return partitions_of(drive)[0]


def forget(drive: str) -> None:
    """Lets the kernel forget the partitions of a drive whose table is gone. sfdisk would not tell whether it does.
    Raises RunFailed.
    """

    def is_done() -> bool:
        _read_again(drive)
        return not partitions_of(drive)

    if not until(is_done, _BUSY_S, pause_s=0.1):
        kept = ", ".join(partitions_of(drive))
        raise RunFailed(f"the kernel keeps {kept}, though /dev/{drive} has no partitions any more{_users(drive)}")


def _read_again(drive: str) -> None:
    """The kernel refuses it while somebody uses a partition."""
    opened = os.open(f"/dev/{drive}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.ioctl(opened, _BLKRRPART)
    finally:
        os.close(opened)


def _users(drive: str) -> str:
    found = [words for name in partitions_of(drive) if (words := holders_text(Path(f"/dev/{name}")))]
    return (f": {', '.join(found)} has it open" if found else "") + "\n  close what uses it, then do this again"


def settle() -> None:
    """Waits until udev has ended its work on what changed, if the machine has udev. When a table changes, udev sees
    each partition go and come back, and has mdadm take one that is gone out of its RAID: late, it would be the new
    one's. Raises RunFailed.
    """
    if path_of("udevadm") is not None:
        said("udevadm", "settle", f"--timeout={_SETTLES_S}")
