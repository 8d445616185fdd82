"""The request queue of a drive that belongs to the experiment: its scheduler and its read-ahead."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from storagelab.errors import RunFailed
from storagelab.machine.disks import HERE, Kernel, chosen, node_of, read_text
from storagelab.model.config import VolumeConfig
from storagelab.model.measurement import Check

_FILES = {"scheduler": "scheduler", "read_ahead_bytes": "read_ahead_kb"}


def restore(device: str, before: Mapping[str, str | int], kernel: Kernel = HERE) -> None:
    """Puts back what a killed run has changed. Raises RunFailed."""
    for key, value in before.items():
        _write(device, key, value, kernel)


def now(device: str, asked: Mapping[str, str | int], kernel: Kernel = HERE) -> dict[str, str | int]:
    """The values that the keys of `asked` have, but for those that the kernel does not tell."""
    read_back = {key: read(device, key, kernel) for key in asked}
    return {key: value for key, value in read_back.items() if value is not None}


@contextlib.contextmanager
def set_to(device: str, asked: Mapping[str, str | int], kernel: Kernel = HERE) -> Iterator[None]:
    """Sets `scheduler` and `read_ahead_bytes` of the device with this name, and restores them: a loop device keeps
    them for its next user. Raises RunFailed with what the kernel offers.
    """
    with contextlib.ExitStack() as undo:
        for key, value in asked.items():
            before = read(device, key, kernel)
            _write(device, key, value, kernel)
            if before is not None:
                undo.callback(_write, device, key, before, kernel)
        yield


def disk_of(device: str, kernel: Kernel = HERE) -> str:
    """The device with the queue: of a partition, its drive."""
    node = node_of(device, kernel)
    return node.resolve().parent.name if (node / "partition").exists() else device


def read(device: str, key: str, kernel: Kernel = HERE) -> str | int | None:
    text = read_text(node_of(device, kernel) / "queue" / _FILES[key])
    if key == "scheduler":
        return chosen(text) or None
    return int(text) * 1024 if text.isdigit() else None


def checks(name: str, device: str, asked: Mapping[str, str | int], kernel: Kernel = HERE) -> Iterator[Check]:
    """Compares the queue with what was asked for."""
    for key, value in asked.items():
        got = read(device, key, kernel)
        what = f"{key.removesuffix('_bytes').replace('_', '-')} of volume {name}"
        yield Check(name=what, asked=str(value), got=str(got), ok=got == value, read_from="/sys/class/block")


def _write(device: str, key: str, value: str | int, kernel: Kernel) -> None:
    file = node_of(device, kernel) / "queue" / _FILES[key]
    try:
        file.write_text(str(value if isinstance(value, str) else value // 1024))
    except OSError as error:
        offered = f"; the kernel offers {read_text(file)}" if key == "scheduler" else ""
        raise RunFailed(f"{key} = {value} on {device}: {error.strerror}{offered}") from error


def sector_bytes(device: str, kernel: Kernel = HERE) -> int | None:
    text = read_text(node_of(device, kernel) / "queue" / "logical_block_size")
    return int(text) if text.isdigit() else None


def asked_of(volume: VolumeConfig) -> dict[str, str | int]:
    """The queue settings that the volume's keys ask for."""
    found = {"scheduler": volume.scheduler, "read_ahead_bytes": volume.read_ahead_bytes}
    return {key: value for key, value in found.items() if value is not None}
