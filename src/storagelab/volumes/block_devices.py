"""Block devices that belong to the experiment: drives made of files, and the scheduler and read-ahead of each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from storagelab.errors import RunFailed
from storagelab.machine.disks import HERE, Kernel, chosen, node_of, read_text
from storagelab.machine.host import free_bytes
from storagelab.model.config import VolumeConfig
from storagelab.model.measurement import Check
from storagelab.volumes.programs import said

PROGRAMS = ("losetup",)


@contextlib.contextmanager
def made_of_file(image: Path, size_bytes: int, sector_bytes: int | None) -> Iterator[str]:
    """The kernel's name of a drive made of the new file `image`, such as "loop0". All space of the file is taken at
    once, so that a full disk shows here and not in the middle of a run. The device bypasses the page cache of the file
    system that holds the file.
    """
    if (free := free_bytes(image.parent)) < size_bytes:
        raise RunFailed(f"{image.parent} lacks space for a drive of {size_bytes:,} bytes: {free:,} are free")
    try:
        made = os.open(image, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(made, 0, size_bytes)
        finally:
            os.close(made)
    except OSError as error:
        image.unlink(missing_ok=True)
        raise RunFailed(f"can't make a file of {size_bytes:,} bytes in {image.parent}: {error.strerror}") from error
    sector = [] if sector_bytes is None else ["--sector-size", str(sector_bytes)]
    device = said("losetup", "--direct-io=on", *sector, "--find", "--show", str(image))
    try:
        yield Path(device).name
    finally:
        said("losetup", "--detach", device)
        image.unlink(missing_ok=True)


def loop_devices_in(folder: Path, kernel: Kernel = HERE) -> list[str]:
    """The loop devices whose files lie in the folder or below it."""
    found = []
    for node in sorted((kernel.sys / "class" / "block").glob("loop*")):
        file = read_text(node / "loop" / "backing_file").removesuffix(" (deleted)")
        if file and Path(file).is_relative_to(folder):
            found.append(node.name)
    return found


def size_bytes(name: str, kernel: Kernel = HERE) -> int:
    return int(read_text(node_of(name, kernel) / "size") or 0) * 512


def written_bytes(name: str, kernel: Kernel = HERE) -> int:
    """What the kernel has counted as written to the device since it is there."""
    fields = read_text(node_of(name, kernel) / "stat").split()
    return int(fields[6]) * 512 if len(fields) > 6 else 0


def is_direct(name: str, kernel: Kernel = HERE) -> bool:
    """Whether the device bypasses the page cache below it."""
    return read_text(node_of(name, kernel) / "loop" / "dio") == "1"


# --- request queues ---------------------------------------------------------------------------------------------------

_QUEUE_FILES = {"scheduler": "scheduler", "read_ahead_bytes": "read_ahead_kb"}


def restore_queue(device: str, before: Mapping[str, str | int], kernel: Kernel = HERE) -> None:
    """Puts back what a killed run has changed. Raises RunFailed."""
    for key, value in before.items():
        _write_queue(device, key, value, kernel)


def queue_now(device: str, asked: Mapping[str, str | int], kernel: Kernel = HERE) -> dict[str, str | int]:
    """The values that the keys of `asked` have, but for those that the kernel does not tell."""
    read_back = {key: queue_value(device, key, kernel) for key in asked}
    return {key: value for key, value in read_back.items() if value is not None}


@contextlib.contextmanager
def queue_set_to(device: str, asked: Mapping[str, str | int], kernel: Kernel = HERE) -> Iterator[None]:
    """Sets `scheduler` and `read_ahead_bytes` of the device with this name, and restores them: a loop device keeps
    them for its next user. Raises RunFailed with what the kernel offers.
    """
    with contextlib.ExitStack() as undo:
        for key, value in asked.items():
            before = queue_value(device, key, kernel)
            _write_queue(device, key, value, kernel)
            if before is not None:
                undo.callback(_write_queue, device, key, before, kernel)
        yield


def disk_of(device: str, kernel: Kernel = HERE) -> str:
    """The device with the queue: of a partition, its drive."""
    node = node_of(device, kernel)
    return node.resolve().parent.name if (node / "partition").exists() else device


def queue_value(device: str, key: str, kernel: Kernel = HERE) -> str | int | None:
    text = read_text(node_of(device, kernel) / "queue" / _QUEUE_FILES[key])
    if key == "scheduler":
        return chosen(text) or None
    return int(text) * 1024 if text.isdigit() else None


def queue_checks(name: str, device: str, asked: Mapping[str, str | int], kernel: Kernel = HERE) -> Iterator[Check]:
    """Compares the queue with what was asked for."""
    for key, value in asked.items():
        got = queue_value(device, key, kernel)
        what = f"{key.removesuffix('_bytes').replace('_', '-')} of volume {name}"
        yield Check(name=what, asked=str(value), got=str(got), ok=got == value, read_from="/sys/class/block")


def _write_queue(device: str, key: str, value: str | int, kernel: Kernel) -> None:
    file = node_of(device, kernel) / "queue" / _QUEUE_FILES[key]
    try:
        file.write_text(str(value if isinstance(value, str) else value // 1024))
    except OSError as error:
        offered = f"; the kernel offers {read_text(file)}" if key == "scheduler" else ""
        raise RunFailed(f"{key} = {value} on {device}: {error.strerror}{offered}") from error


def sector_bytes(device: str, kernel: Kernel = HERE) -> int | None:
    text = read_text(node_of(device, kernel) / "queue" / "logical_block_size")
    return int(text) if text.isdigit() else None


def queue_asked(volume: VolumeConfig) -> dict[str, str | int]:
    """The queue settings that the volume's keys ask for."""
    found = {"scheduler": volume.scheduler, "read_ahead_bytes": volume.read_ahead_bytes}
    return {key: value for key, value in found.items() if value is not None}
