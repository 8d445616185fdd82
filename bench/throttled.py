"""Volumes of known speed: files used as disks, each throttled for the processes that are started inside.

The files are in memory if there is enough: then only the throttle limits a volume, whoever else uses the disk. The
kernel's control groups hold requests back, in version 1 (`blkio.throttle.*`) as well as in version 2 (`io.max`).
Version 1 throttles only what a process itself requests from the device, so a server must do direct I/O. Needs root;
Linux only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from storagelab.machine.disks import device_numbers_of, mounts_here

VOLUME_BYTES = 768 * 1024**2
_PROGRAMS = ("losetup", "mkfs.ext4", "mount", "umount")
_V1 = {
    "read_iops": "blkio.throttle.read_iops_device", "write_iops": "blkio.throttle.write_iops_device",
    "read_bps": "blkio.throttle.read_bps_device", "write_bps": "blkio.throttle.write_bps_device",
}  # fmt: skip
_V2 = {"read_iops": "riops", "write_iops": "wiops", "read_bps": "rbps", "write_bps": "wbps"}
_PATIENCE_S = 5.0
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Speed:
    """The most that a volume does in a second; None = unlimited. Reads and writes are limited separately."""

    read_iops: int | None = None
    write_iops: int | None = None
    read_bps: int | None = None
    write_bps: int | None = None

    def items(self) -> Iterator[tuple[str, int]]:
        for name in _V1:
            value = getattr(self, name)
            if value is not None:
                yield name, value


def iops(number: int) -> Speed:
    """A limit of this many reads and as many writes a second."""
    return Speed(read_iops=number, write_iops=number)


def why_not() -> str:
    """Why no volume can be throttled here; "" if one can."""
    if os.geteuid() != 0:
        return "throttled volumes need root"
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"throttled volumes need {', '.join(missing)}"
    if _root() is None:
        return "throttled volumes need the blkio controller of cgroup v1, or io of cgroup v2"
    with tempfile.NamedTemporaryFile() as image:
        os.truncate(image.name, 1024**2)
        made = subprocess.run(["losetup", "--find", "--show", image.name], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            return f"throttled volumes need loop devices: {made.stderr.strip()}"
        subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)
    return ""


def _root() -> tuple[int, Path] | None:
    """The version of the control groups that throttle I/O, and where they are mounted."""
    for mount in mounts_here():
        root = Path(mount.mount_point)
        if mount.filesystem == "cgroup" and "blkio" in mount.super_options and (root / _V1["write_iops"]).exists():
            return 1, root
        if mount.filesystem == "cgroup2" and "io" in (root / "cgroup.controllers").read_text().split():
            return 2, root
    return None


@dataclass
class Throttled:
    """Mounted volumes, the files under them, and the group that throttles what `command` starts."""

    paths: Mapping[str, Path]
    images: Mapping[str, Path]
    numbers: Mapping[str, str]
    _version: int
    _group: Path

    def limit(self, volume: str, speed: Speed) -> None:
        """Sets a volume's speed, from now on."""
        limits = dict(speed.items())
        if self._version == 1:
            for name, file in _V1.items():
                (self._group / file).write_text(f"{self.numbers[volume]} {limits.get(name, 0)}")
        else:
            words = [f"{key}={limits.get(name, 'max')}" for name, key in _V2.items()]
            (self._group / "io.max").write_text(f"{self.numbers[volume]} {' '.join(words)}")

    def free(self, pid: int) -> None:
        """Throttles a process no longer."""
        (self._group.parent / "cgroup.procs").write_text(str(pid))

    def command(self, words: Sequence[str]) -> list[str]:
        """The command that joins the group and then becomes `words`: everything that it starts is throttled, too."""
        join = f'echo $$ > {self._group / "cgroup.procs"} && exec "$@"'
        return ["sh", "-c", join, "sh", *words]


@contextlib.contextmanager
def volumes(speeds: Mapping[str, Speed], folder: Path, size_bytes: int = VOLUME_BYTES) -> Iterator[Throttled]:
    """A volume for each speed, below `folder`. Leaves nothing behind, even after a failure."""
    found = _root()
    if found is None:
        raise OSError(why_not())
    version, root = found
    with _undone_when_terminated(), contextlib.ExitStack() as undo:
        beside = _image_folder(undo, folder, len(speeds) * size_bytes)
        images = {name: beside / f"{name}.img" for name in speeds}
        paths = {name: _mounted(undo, folder / name, images[name], size_bytes) for name in speeds}
        group = _group(undo, version, root)
        numbers = {name: device_numbers_of(path) for name, path in paths.items()}
        throttled = Throttled(paths, images, numbers, version, group)
        for name, speed in speeds.items():
            throttled.limit(name, speed)
        yield throttled


def _image_folder(undo: contextlib.ExitStack, folder: Path, size_bytes: int) -> Path:
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < 2 * size_bytes:
        return folder
    return Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="storagelab-throttle-", dir=_MEMORY)))


def _mounted(undo: contextlib.ExitStack, place: Path, image: Path, size_bytes: int) -> Path:
    place.mkdir(parents=True)
    undo.callback(shutil.rmtree, place, ignore_errors=True)
    image.touch()
    undo.callback(image.unlink)
    os.truncate(image, size_bytes)
    device = _said("losetup", "--direct-io=on", "--find", "--show", str(image))
    undo.callback(_said, "losetup", "--detach", device)
    # All is written now, so that no kernel thread goes on writing during a run.
    _said("mkfs.ext4", "-F", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
    _said("mount", "-o", "noatime", device, str(place))
    undo.callback(_said, "umount", str(place))
    return place


def _group(undo: contextlib.ExitStack, version: int, root: Path) -> Path:
    if version == 2 and "io" not in (root / "cgroup.subtree_control").read_text().split():
        (root / "cgroup.subtree_control").write_text("+io")
    group = Path(tempfile.mkdtemp(prefix="storagelab-throttle-", dir=root))
    undo.callback(_remove, group)
    return group


def _remove(group: Path) -> None:
    """Removes a group. Processes still in it are left from a failure, or are ending: it waits for them, then kills
    them.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while members := (group / "cgroup.procs").read_text().split():
        if time.monotonic() > deadline:
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.05)
    group.rmdir()


@contextlib.contextmanager
def _undone_when_terminated() -> Iterator[None]:
    """Turns a request to end into an exception, so that what was made is removed on the way out."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _said(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()
