"""Block devices that belong to the experiment: drives made of files, and the scheduler and read-ahead of each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from storagelab.errors import RunFailed
from storagelab.machine.descriptors import opened
from storagelab.machine.disks import HERE, Kernel, describe_queue, integer_in, node_of, read_text
from storagelab.machine.host import free_bytes
from storagelab.model.config import VolumeConfig
from storagelab.model.measurement import Check
from storagelab.volumes.programs import said

LOOP_PROGRAMS = ("losetup",)


@contextlib.contextmanager
def made_of_file(image: Path, size_bytes: int, sector_bytes: int | None) -> Iterator[str]:
    """The kernel's name of a drive made of the new file `image`, such as "loop0". All space of the file is taken at
    once, so that a full disk shows here and not in the middle of a run. The device bypasses the page cache of the file
    system that holds the file.
    """
    if (free := free_bytes(image.parent)) < size_bytes:
        raise RunFailed(f"{image.parent} lacks space for a drive of {size_bytes:,} bytes: {free:,} are free")
    try:
        with opened(image, os.O_RDWR | os.O_CREAT | os.O_EXCL) as made:
            os.posix_fallocate(made, 0, size_bytes)
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


def written_bytes(name: str, kernel: Kernel = HERE) -> int:
    """What the kernel has counted as written to the device since it is there."""
    fields = read_text(node_of(name, kernel) / "stat").split()
    return int(fields[6]) * 512 if len(fields) > 6 else 0


def is_direct(name: str, kernel: Kernel = HERE) -> bool:
    """Whether the device bypasses the page cache below it."""
    return read_text(node_of(name, kernel) / "loop" / "dio") == "1"


# --- request queues ---------------------------------------------------------------------------------------------------

_QUEUE_FILES = {"scheduler": "scheduler", "read_ahead_bytes": "read_ahead_kb"}
Queue = Mapping[str, str | int]
"""`scheduler` and `read_ahead_bytes` of a device, or one of them."""


def queue_asked(volume: VolumeConfig) -> Queue:
    """The queue settings that the volume's keys ask for."""
    return {key: value for key in _QUEUE_FILES if (value := getattr(volume, key)) is not None}


def queue_now(device: str, asked: Queue, kernel: Kernel = HERE) -> dict[str, str | int]:
    """The values that the keys of `asked` have, but for those that the kernel does not tell."""
    now = describe_queue(device, kernel)
    return {key: value for key in asked if isinstance(value := now.get(key), str | int)}


def set_queue(device: str, asked: Queue, kernel: Kernel = HERE) -> None:
    """Raises RunFailed with what the kernel offers."""
    for key, value in asked.items():
        file = node_of(device, kernel) / "queue" / _QUEUE_FILES[key]
        try:
            file.write_text(str(value if isinstance(value, str) else value // 1024))
        except OSError as error:
            offered = f"; the kernel offers {read_text(file)}" if key == "scheduler" else ""
            raise RunFailed(f"{key} = {value} on {device}: {error.strerror}{offered}") from error


@contextlib.contextmanager
def queue_set_to(device: str, asked: Queue, kernel: Kernel = HERE) -> Iterator[None]:
    """Sets the queue of the device with this name, and restores it: a loop device keeps it for its next user. Raises
    RunFailed with what the kernel offers.
    """
    with contextlib.ExitStack() as undo:
        for key, value in asked.items():
            before = queue_now(device, {key: value}, kernel)
            set_queue(device, {key: value}, kernel)
            undo.callback(set_queue, device, before, kernel)
        yield


def queue_checks(name: str, device: str, asked: Queue) -> Iterator[Check]:
    """Compares the queue with what was asked for."""
    now = queue_now(device, asked)
    pairs = {key.removesuffix("_bytes").replace("_", "-"): (value, now.get(key)) for key, value in asked.items()}
    return compared(name, pairs, "/sys/class/block")


def sector_bytes(device: str) -> int | None:
    return integer_in(node_of(device) / "queue" / "logical_block_size")


# --- what was asked for -----------------------------------------------------------------------------------------------


def compared(volume: str, pairs: Mapping[str, tuple[object, object]], read_from: str) -> Iterator[Check]:
    """Compares what was asked of a volume with what it has, each pair by its words; None = not asked."""
    for what, (asked, got) in pairs.items():
        if asked is not None:
            name = f"{what} of volume {volume}"
            yield Check(name=name, asked=str(asked), got=str(got), ok=asked == got, read_from=read_from)
