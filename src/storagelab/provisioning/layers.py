"""What lies between drives and the file system: RAID, striped logical volumes, encryption."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from storagelab.errors import PreflightError
from storagelab.machine.disks import HERE, Kernel, block_devices_of, mounts_here
from storagelab.model.config import VolumeConfig
from storagelab.model.measurement import Check
from storagelab.provisioning import file_systems


@dataclass
class Stacked:
    """One device made of several, by the kernel's name, and what was read back of its layers."""

    device: str
    checks: list[Check] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)


def check(volume: VolumeConfig, key: str) -> None:
    """Raises PreflightError if this machine lacks what the layers need."""
    for name in ("raid_level", "encryption"):
        if getattr(volume, name) is not None:
            raise PreflightError("storagelab can't make this yet", key=f"{key}.{name}", hint="Leave it out.")


def steps(_volume: VolumeConfig) -> Iterator[str]:
    """What is done to make the layers, in words."""
    yield from ()


@contextlib.contextmanager
def stacked(_name: str, volume: VolumeConfig, devices: Sequence[str]) -> Iterator[Stacked]:
    """Makes one device of these (the kernel's names), and takes it apart at the end. Raises RunFailed."""
    check(volume, "volumes")
    yield Stacked(devices[0])


def take_down(device: str, kernel: Kernel = HERE) -> None:
    """Unmounts what a killed run left on the device. Raises RunFailed."""
    for mount in reversed(mounts_here(kernel)):
        if device in block_devices_of(mount, kernel):
            file_systems.unmount(Path(mount.mount_point))
