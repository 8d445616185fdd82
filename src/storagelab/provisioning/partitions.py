"""A partition that uses a share of a drive."""

from __future__ import annotations

from pathlib import Path

from storagelab.errors import RunFailed
from storagelab.machine.processes import until
from storagelab.provisioning.drives import partitions_of
from storagelab.provisioning.programs import said

PROGRAMS = ("sfdisk",)
_ALIGNED_BYTES = 2**20
_APPEARS_S = 10.0


def size_for(size_bytes: int, share: float) -> int:
    """How large the partition is that, with the table before it, uses this share of a drive."""
    return (int(size_bytes * share) // _ALIGNED_BYTES - 1) * _ALIGNED_BYTES


def make(drive: str, size_bytes: int, sector_bytes: int) -> None:
    """Makes a partition, the only one on the drive. Raises RunFailed."""
    start, size = _ALIGNED_BYTES // sector_bytes, size_bytes // sector_bytes
    said(
        "sfdisk", "--quiet", "--wipe", "always", "--wipe-partitions", "always", f"/dev/{drive}",
        given=f'label: gpt\nstart={start}, size={size}, name="storagelab"\n',
    )  # fmt: skip


def only_one(drive: str) -> str:
    """The kernel's name of the drive's only partition, once it is there. Raises RunFailed."""

    def is_there() -> bool:
        found = partitions_of(drive)
        return len(found) == 1 and Path(f"/dev/{found[0]}").exists()

    if not until(is_there, _APPEARS_S, pause_s=0.05):
        raise RunFailed(f"the kernel does not show the new partition on {drive}")
    return partitions_of(drive)[0]


def remove(drive: str) -> None:
    """Removes all partitions of the drive. Raises RunFailed."""
    if partitions_of(drive):
        said("sfdisk", "--quiet", "--delete", f"/dev/{drive}")
