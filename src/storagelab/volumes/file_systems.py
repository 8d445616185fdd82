"""File systems on drives that belong to the experiment: made, mounted, and read back."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from storagelab.errors import PreflightError
from storagelab.machine.disks import HERE, Kernel, mount_of, mounts_here, read_text
from storagelab.machine.processes import JUST_STOPPED_S
from storagelab.model.measurement import Check
from storagelab.volumes.programs import patiently, said

PROGRAMS = ("mount", "umount")
DEFAULT = "ext4"
_MAKING = {
    # Everything is written at once, so that no kernel thread goes on writing during a run.
    "ext4": ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["-q", "-f"],
    "btrfs": ["-q", "-f"],
}
_WITH_UUID = {"ext4": ["-U", "{}"], "xfs": ["-m", "uuid={}"], "btrfs": ["-U", "{}"]}
_LEAST_BYTES = {"ext4": 2**24, "xfs": 300 * 2**20, "btrfs": 109 * 2**20}
"""The smallest drive that each mkfs takes (xfsprogs 6.1, btrfs-progs 6.2)."""
_NOT_SHOWN = frozenset({"defaults", "rw", "loop"})
_UNSAFE = {
    "nobarrier": "no write is flushed to the drive", "barrier=0": "no write is flushed to the drive",
    "nodatasum": "btrfs keeps no checksums of data", "nodatacow": "btrfs keeps no checksums of data",
    "data=writeback": "after a crash, files may hold old data",
}  # fmt: skip


def maker(filesystem: str | None) -> str:
    """The program that makes it."""
    return f"mkfs.{filesystem or DEFAULT}"


def check(filesystem: str, size_bytes: int, key: str, kernel: Kernel = HERE) -> None:
    """Raises PreflightError if the kernel lacks the file system, or the drive is too small for it. `key` is the one
    that says how large the drive is."""
    known = {line.split()[-1] for line in read_text(kernel.proc / "filesystems").splitlines() if line.split()}
    modules = Path("/lib/modules")  # a file system may be loaded when it is first mounted
    if filesystem not in known and not any(modules.glob(f"*/kernel/fs/{filesystem}/*")):
        raise PreflightError(
            f"this kernel has no {filesystem}", key=f"{key.rpartition('.')[0]}.filesystem",
            hint=f"it has {', '.join(sorted(known & set(_MAKING))) or 'none of those that storagelab makes'}",
        )  # fmt: skip
    if size_bytes < _LEAST_BYTES[filesystem]:
        least = _LEAST_BYTES[filesystem] // 2**20
        raise PreflightError(f"is too small for {filesystem}", key=key, hint=f'at least "{least}MiB"')


def make(device: str, filesystem: str, options: str | None, uuid: UUID | None = None) -> None:
    """Makes the file system on the device `device`, a path, with this UUID or any. Raises RunFailed with mkfs's
    words.
    """
    words = shlex.split(options or "")
    has_own = any(word == "-U" or "uuid=" in word for word in words)
    named = [word.format(uuid) for word in _WITH_UUID[filesystem]] if uuid is not None and not has_own else []
    said(maker(filesystem), *_MAKING[filesystem], *named, *words, device)


@contextlib.contextmanager
def mounted(device: str, place: Path, filesystem: str, options: str | None) -> Iterator[None]:
    """Mounts the device at the folder `place`, which it makes. Raises RunFailed with mount's words."""
    place.mkdir(mode=0o755)
    asked = ["-o", options] if options else []
    said("mount", "-t", filesystem, *asked, device, str(place))
    try:
        yield
    finally:
        unmount(place)


def unmount(place: Path) -> None:
    """Tries again for a while: a program that was just stopped may still hold a file. Raises RunFailed."""
    patiently(lambda: said("umount", str(place)), JUST_STOPPED_S, pause_s=0.1)


def left_in(folder: Path, kernel: Kernel = HERE) -> list[Path]:
    """What is mounted in the folder or below it, innermost first."""
    places = [Path(mount.mount_point) for mount in mounts_here(kernel)]
    return [place for place in reversed(places) if place != folder and place.is_relative_to(folder)]


def with_trim(options: str | None, trim: bool | None) -> str | None:
    """The mount options with the one that says whether the file system discards."""
    if trim is None:
        return options
    return ",".join(filter(None, (options, "discard" if trim else "nodiscard")))


def checks(name: str, place: Path, filesystem: str, options: str | None, trim: bool | None) -> Iterator[Check]:
    """Compares the mount with what was asked for."""
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
    """What such mount options give up."""
    for option in (options or "").split(","):
        if option in _UNSAFE:
            yield f"volumes.{name}.mount_options: with {option}, {_UNSAFE[option]}"
