"""Drives made of files: the kernel's loop devices."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from storagelab.errors import RunFailed
from storagelab.machine.disks import HERE, Kernel, node_of, read_text
from storagelab.machine.host import free_bytes
from storagelab.volumes.programs import said

PROGRAMS = ("losetup",)


@contextlib.contextmanager
def attached(image: Path, size_bytes: int, sector_bytes: int | None) -> Iterator[str]:
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


def left_in(folder: Path, kernel: Kernel = HERE) -> list[str]:
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
