"""Makes and mounts file systems, and the layers below them, on drives that belong to the experiment or on files that
serve as drives. Also reads back how they were made.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from uuid import UUID, uuid4

from storagelab.errors import PreflightError, RunFailed, noting, refuse
from storagelab.machine import disks
from storagelab.machine.descriptors import opened
from storagelab.machine.disks import HERE, Kernel, describe_queue, integer_in, mount_of, mounts_here, node_of, read_text
from storagelab.machine.host import free_bytes
from storagelab.machine.processes import JUST_STOPPED_S, until
from storagelab.model.layers import Layer, Top
from storagelab.model.measurement import Check
from storagelab.model.volume import LAYERS, VolumeConfig
from storagelab.volumes import programs
from storagelab.volumes.programs import patiently, said
from storagelab.words.numbers import bytes_

DEFAULT = "ext4"


class _Kind(NamedTuple):
    """A kind of file system. For its mkfs: the `package`, the `options`, and the option that sets a UUID (`with_uuid`).
    `least_bytes` is the size of the smallest possible drive (xfsprogs 6.1, btrfs-progs 6.2).
    """

    package: str
    options: tuple[str, ...]
    with_uuid: tuple[str, ...]
    least_bytes: int


_KINDS = {
    # With these options, mkfs writes everything at once. Otherwise a kernel thread would write the rest during a run.
    "ext4": _Kind("e2fsprogs", ("-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"), ("-U", "{}"), 2**24),
    "xfs": _Kind("xfsprogs", ("-q", "-f"), ("-m", "uuid={}"), 300 * 2**20),
    "btrfs": _Kind("btrfs-progs", ("-q", "-f"), ("-U", "{}"), 109 * 2**20),
}
_NOT_SHOWN = frozenset({"defaults", "rw", "loop"})
_UNSAFE = {
    "nobarrier": "no write is flushed to the drive", "barrier=0": "no write is flushed to the drive",
    "nodatasum": "btrfs keeps no checksums of data", "nodatacow": "btrfs keeps no checksums of data",
    "data=writeback": "after a crash, files may hold old data",
}  # fmt: skip


def maker(filesystem: str | None) -> str:
    """The program that makes the file system."""
    return f"mkfs.{filesystem or DEFAULT}"


def programs_for(filesystem: str) -> dict[str, str]:
    """The programs that make and mount the file system, with their packages."""
    return {"mount": "mount", "umount": "mount", maker(filesystem): _KINDS[filesystem].package}


def check(filesystem: str, size_bytes: int, key: str, kernel: Kernel = HERE) -> None:
    """Raises PreflightError if the kernel lacks the file system, or if the drive is too small for it. `key` is the
    spec's key for the drive's size.
    """
    known = {line.split()[-1] for line in read_text(kernel.proc / "filesystems").splitlines() if line.split()}
    modules = Path("/lib/modules")  # the kernel may load the file system's module at the first mount
    if filesystem not in known and not any(modules.glob(f"*/kernel/fs/{filesystem}/*")):
        raise PreflightError(
            f"this kernel has no {filesystem}", key=f"{key.rpartition('.')[0]}.filesystem",
            hint=f"it has {', '.join(sorted(known & _KINDS.keys())) or 'none of those that storagelab makes'}",
        )  # fmt: skip
    least_bytes = _KINDS[filesystem].least_bytes
    if size_bytes < least_bytes:
        raise PreflightError(f"is too small for {filesystem}", key=key, hint=f'at least "{least_bytes // 2**20}MiB"')


def make(device: str, filesystem: str, options: str | None, uuid: UUID | None = None) -> None:
    """Makes the file system on the device with the path `device`. Without `uuid`, mkfs chooses the UUID. Raises
    RunFailed with mkfs's message.
    """
    kind, words = _KINDS[filesystem], shlex.split(options or "")
    has_own = any(word == "-U" or "uuid=" in word for word in words)
    named = [word.format(uuid) for word in kind.with_uuid] if uuid is not None and not has_own else []
    said(maker(filesystem), *kind.options, *named, *words, device)


@contextlib.contextmanager
def mounted(device: str, place: Path, filesystem: str, options: str | None) -> Iterator[None]:
    """Makes the folder `place`, mounts the device there, and unmounts it at the end. Raises RunFailed with the message
    of mount or umount.
    """
    place.mkdir(mode=0o755)
    asked = ["-o", options] if options else []
    said("mount", "-t", filesystem, *asked, device, str(place))
    try:
        yield
    finally:
        unmount(place)


def unmount(place: Path) -> None:
    """Unmounts what is mounted at `place`. Tries again for a while, because a program that was just stopped may still
    have a file open. Raises RunFailed.
    """
    patiently(lambda: said("umount", str(place)), JUST_STOPPED_S, pause_s=0.1)


def left_in(folder: Path, kernel: Kernel = HERE) -> list[Path]:
    """The mount points below the folder, in the order in which they can be unmounted."""
    places = [Path(mount.mount_point) for mount in mounts_here(kernel)]
    return [place for place in reversed(places) if place != folder and place.is_relative_to(folder)]


def with_trim(options: str | None, trim: bool | None) -> str | None:
    """The mount options and the option for `trim`: discard (True), nodiscard (False), or nothing (None)."""
    if trim is None:
        return options
    return ",".join(filter(None, (options, "discard" if trim else "nodiscard")))


def checks(name: str, place: Path, filesystem: str, options: str | None, trim: bool | None) -> Iterator[Check]:
    """Compares the mount with what the spec asks for."""
    mount = mount_of(place, mounts_here())
    got = mount.filesystem if mount is not None else "nothing"
    yield _check(f"file system of volume {name}", filesystem, got, ok=got == filesystem)
    shown = mount.all_options if mount is not None else ()
    if trim is not None:
        discards = any(option.split("=")[0] == "discard" for option in shown)
        yield _check(f"trim of volume {name}", str(trim), str(discards), ok=trim == discards)
    for option in [word for word in (options or "").split(",") if word and word not in _NOT_SHOWN]:
        yield _check(f"mount option of volume {name}", option, ",".join(shown), ok=option in shown)


def _check(name: str, asked: str, got: str, *, ok: bool) -> Check:
    return Check(name=name, asked=asked, got=got, ok=ok, read_from="/proc/self/mountinfo")


def warnings(name: str, options: str | None) -> Iterator[str]:
    """A warning for each mount option that makes the data less safe."""
    for option in (options or "").split(","):
        if option in _UNSAFE:
            yield f"volumes.{name}.mount_options: with {option}, {_UNSAFE[option]}"


# --- drives from files, and the scheduler and read-ahead of each drive ------------------------------------------------

LOOP_PROGRAMS = {"losetup": "mount"}


@contextlib.contextmanager
def made_of_file(image: Path, size_bytes: int, sector_bytes: int | None) -> Iterator[str]:
    """Makes a drive from the new file `image`, and removes it at the end. Gives the kernel's name of the drive, such as
    "loop0". All space of the file is allocated at once. So a full disk is noticed here, not during a run. The drive
    uses direct I/O for its file, so it bypasses the page cache of the file system below it. Raises RunFailed.
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
    """The loop devices whose files are in the folder or below it."""
    found = []
    for node in sorted((kernel.sys / "class" / "block").glob("loop*")):
        file = read_text(node / "loop" / "backing_file").removesuffix(" (deleted)")
        if file and Path(file).is_relative_to(folder):
            found.append(node.name)
    return found


def written_bytes(name: str, kernel: Kernel = HERE) -> int:
    """The bytes written to the device so far, as the kernel counts them."""
    fields = read_text(node_of(name, kernel) / "stat").split()
    return int(fields[6]) * 512 if len(fields) > 6 else 0


def is_direct(name: str, kernel: Kernel = HERE) -> bool:
    """Whether the loop device uses direct I/O for its file or device."""
    return read_text(node_of(name, kernel) / "loop" / "dio") == "1"


# --- request queues ---------------------------------------------------------------------------------------------------

_QUEUE_FILES = {"scheduler": "scheduler", "read_ahead_bytes": "read_ahead_kb"}
Queue = Mapping[str, str | int]
"""The settings `scheduler` and `read_ahead_bytes` of a device, or only one of them."""


def queue_asked(volume: VolumeConfig) -> Queue:
    """The queue settings in the spec's keys of the volume."""
    return {key: value for key in _QUEUE_FILES if (value := getattr(volume, key)) is not None}


def queue_now(device: str, asked: Queue, kernel: Kernel = HERE) -> dict[str, str | int]:
    """The current values of the settings in `asked`. A setting that the kernel does not report is left out."""
    now = describe_queue(device, kernel)
    return {key: value for key in asked if isinstance(value := now.get(key), str | int)}


def set_queue(device: str, asked: Queue, kernel: Kernel = HERE) -> None:
    """Changes settings of the device's queue. Raises RunFailed if the kernel refuses a value. For the scheduler, the
    message then lists the possible values.
    """
    for key, value in asked.items():
        file = node_of(device, kernel) / "queue" / _QUEUE_FILES[key]
        try:
            file.write_text(str(value if isinstance(value, str) else value // 1024))
        except OSError as error:
            offered = f"; the kernel offers {read_text(file)}" if key == "scheduler" else ""
            raise RunFailed(f"{key} = {value} on {device}: {error.strerror}{offered}") from error


@contextlib.contextmanager
def queue_set_to(device: str, asked: Queue, kernel: Kernel = HERE) -> Iterator[None]:
    """Changes settings of the device's queue, and restores them at the end. Otherwise the next user of a loop device
    would find the changed settings. Raises RunFailed as `set_queue` does.
    """
    with contextlib.ExitStack() as undo:
        for key, value in asked.items():
            before = queue_now(device, {key: value}, kernel)
            set_queue(device, {key: value}, kernel)
            undo.callback(set_queue, device, before, kernel)
        yield


def queue_checks(name: str, device: str, asked: Queue) -> Iterator[Check]:
    """Compares the queue's settings with those that the spec asks for."""
    now = queue_now(device, asked)
    pairs = {key.removesuffix("_bytes").replace("_", "-"): (value, now.get(key)) for key, value in asked.items()}
    return compared(name, pairs, "/sys/class/block")


def sector_bytes(device: str) -> int | None:
    return integer_in(node_of(device) / "queue" / "logical_block_size")


# --- comparisons with the spec ----------------------------------------------------------------------------------------


def compared(volume: str, pairs: Mapping[str, tuple[object, object]], read_from: str) -> Iterator[Check]:
    """Compares a volume's properties. Each pair is the requested value, or None if the spec asks for none, and the
    actual value.
    """
    for what, (asked, got) in pairs.items():
        if asked is not None:
            name = f"{what} of volume {volume}"
            yield Check(name=name, asked=str(asked), got=str(got), ok=asked == got, read_from=read_from)


# --- layers between drives and the file system: each kind is a file of `model.layers` ---------------------------------

_BUSY_S = 10.0
"""How long to wait for a device that is busy after it was used: udev reads each device that was written to."""
_PROGRAMS = {"dmsetup": "dmsetup", "wipefs": "util-linux"}


@dataclass
class Stack:
    """The device at the top of the layers of the volume `name`. `device` is the kernel's name of this device. `tops`
    describes the layers from the lowest to the highest.
    """

    name: str
    device: str
    tops: list[Top] = field(default_factory=list)

    @property
    def facts(self) -> dict[str, object]:
        return {key: value for top in self.tops for key, value in top.facts.items()}

    def read_back(self) -> Iterator[Check]:
        """Compares the current state of the layers with what the spec asks for."""
        for top in self.tops:
            yield from compared(self.name, top.look(), top.read_from)


def layers_of(volume: VolumeConfig) -> list[Layer]:
    """The volume's layers, from the drives upward."""
    return [layer for file in LAYERS for layer in file.layers(volume, _TOOLS)]


def check_layers(volume: VolumeConfig, key: str) -> None:
    """Raises PreflightError if this machine lacks a driver or a program that the layers need."""
    found = layers_of(volume)
    lacks = list[PreflightError]()
    for layer in found:
        with noting(lacks):
            check_driver(layer.drivers, f"{key}.{layer.key}")
    if found:
        needed = {name: package for one in found for name, package in one.programs.items()}
        with noting(lacks):
            programs.check({**_PROGRAMS, **needed}, key)
    refuse(lacks)


def layer_steps(volume: VolumeConfig) -> Iterator[str]:
    """For each layer, a description of the step that makes it."""
    return (layer.step for layer in layers_of(volume))


@contextlib.contextmanager
def stacked(name: str, volume: VolumeConfig, devices: Sequence[str], uuids: Sequence[UUID]) -> Iterator[Stack]:
    """Makes the volume's layers on the devices with these names, and removes the layers at the end. If a layer writes
    its own content to a device, this content gets the UUID of the same position in `uuids`. Raises RunFailed.
    """
    own, stack = f"storagelab-{secrets.token_hex(4)}", Stack(name, devices[0])
    with contextlib.ExitStack() as undo:
        for layer in layers_of(volume):
            top = undo.enter_context(layer.made(devices, own, uuids))
            stack.tops.append(top)
            stack.device, devices, uuids = top.device, [top.device], [uuid4()]
        yield stack


# --- the kernel's facts about layers ----------------------------------------------------------------------------------


def holders(device: str, kernel: Kernel = HERE) -> list[str]:
    """The kernel's names of the devices that are made from this device."""
    return list(disks.names_in(disks.node_of(device, kernel) / "holders"))


def made_of(device: str) -> str:
    """The name of the device that was just made from `device`. Waits until the kernel shows it. Raises RunFailed."""
    if not until(lambda: bool(holders(device)), _BUSY_S, pause_s=0.05):
        raise RunFailed(f"the kernel shows no device that is made from {device}")
    return holders(device)[0]


def check_driver(modules: tuple[str, ...], key: str, kernel: Kernel = HERE) -> None:
    """Raises PreflightError if the kernel lacks one of these drivers, both built in and as a module."""
    folder = Path("/lib/modules") / os.uname().release
    known = {
        Path(line.partition(":")[0]).name.partition(".ko")[0].replace("-", "_")
        for file in ("modules.dep", "modules.builtin")
        for line in read_text(folder / file).splitlines()
    }
    missing = [one for one in modules if one not in known and not (kernel.sys / "module" / one).exists()]
    if missing:
        raise PreflightError(
            f"this kernel lacks the driver {missing[0]}", key=key,
            hint="use a kernel with this driver (the kernels of distributions have it), or leave the key out",
        )  # fmt: skip


def take_apart(device: str, kernel: Kernel = HERE) -> None:
    """Unmounts everything on the device, and stops its layers from the top down. The content of the device itself
    remains, so programs may find a layer and start it again until the device is wiped. Raises RunFailed.
    """
    for mount in reversed(disks.mounts_here(kernel)):
        if device in disks.block_devices_of(mount, kernel):
            unmount(Path(mount.mount_point))
    for holder in holders(device, kernel):
        take_apart(holder, kernel)
        patiently(partial(_stop, holder, kernel), _BUSY_S)


def _stop(device: str, kernel: Kernel) -> None:
    node = disks.node_of(device, kernel)
    if (node / "md").exists():
        said("mdadm", "--stop", f"/dev/{device}")
    elif name := read_text(node / "dm" / "name"):
        said("dmsetup", "remove", name)


def take_down(*devices: str) -> None:
    """Stops the layers of these devices, and removes the superblocks of RAID arrays from them. Until a superblock is
    removed, udev may start its array again. So all steps are repeated if one fails. Raises RunFailed.
    """

    def once() -> None:
        for device in devices:
            take_apart(device)
        for device in _that_hold("linux_raid_member", devices):
            said("mdadm", "--zero-superblock", f"/dev/{device}")

    patiently(once, _BUSY_S)


def _that_hold(kind: str, devices: Sequence[str]) -> Iterator[str]:
    for device in devices:
        if kind in said("wipefs", "--noheadings", "--output=TYPE", f"/dev/{device}"):
            yield device


_TOOLS = SimpleNamespace(
    said=said, node=disks.node_of, text=read_text, made_of=made_of, take_apart=take_apart, take_down=take_down,
    holding=_that_hold, patiently=partial(patiently, within_s=_BUSY_S), until=until, size=bytes_,
)  # fmt: skip
"""The functions that layers get, as `model.layers.Tools` describes them."""
