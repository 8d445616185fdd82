"""Volumes that a person prepares: what the spec asks, and what is read back of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from storagelab.machine.disks import block_devices_of, mount_of, mounts_here
from storagelab.model.config import VolumeConfig
from storagelab.model.measurement import Check
from storagelab.provisioning import file_systems, loop_devices, own_commands, queues

_SIZE_OFF = 0.01
"""By how much the size may differ: partitions begin at whole MiB."""
_NOT_ASKED = frozenset({"path", "prepare", "prepare_text", "check", "made_for"})


def asked(volume: VolumeConfig) -> dict[str, object]:
    """What a person is asked to do, by the keys of the spec."""
    return {key: value for key, value in own_commands.keys_of(volume).items() if key not in _NOT_ASKED}


def checks(name: str, volume: VolumeConfig, place: Path) -> Iterator[Check]:
    """What can be read back of the volume mounted at a place."""
    mount = mount_of(place, mounts_here())
    if volume.filesystem is not None or volume.mount_options is not None:
        filesystem = volume.filesystem or (mount.filesystem if mount is not None else "none")
        yield from file_systems.checks(name, place, filesystem, volume.mount_options, None)
    device = next(iter(block_devices_of(mount)), "") if mount is not None else ""
    for what, wanted, got in (
        ("sector", volume.sector_bytes, queues.sector_bytes(device) if device else None),
        ("size", volume.size_bytes, loop_devices.size_bytes(device) if device else None),
    ):
        if wanted is not None:
            near = got is not None and abs(got - wanted) <= (_SIZE_OFF * wanted if what == "size" else 0)
            yield Check(
                name=f"{what} of volume {name}", asked=str(wanted), got=str(got), ok=near, read_from="/sys/class/block"
            )
    yield from queues.checks(name, device, queues.asked_of(volume)) if device else ()
