"""What lies between drives and the file system: RAID, striped logical volumes, encryption, added latency.

Each kind of layer is a function of a volume's keys, which says what the layer needs, how it is made and how it is read
back. Making one is a context manager: leaving it takes the layer apart.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import UUID, uuid4

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import disks
from storagelab.machine.disks import HERE, Kernel, read_text
from storagelab.machine.processes import until
from storagelab.model.config import VolumeConfig
from storagelab.model.measurement import Check
from storagelab.volumes import programs
from storagelab.volumes.file_systems import compared, unmount
from storagelab.volumes.programs import patiently, said
from storagelab.words.numbers import bytes_

_BUSY_S = 10.0
"""How long something may be busy after its last use: udev looks into each device that was written to."""

Pairs = Mapping[str, tuple[object, object]]
"""What a layer was asked for and what it has, by words; None = not asked."""


class Top(NamedTuple):
    """The device that a layer gives, by the kernel's name, such as "md127"; `look` reads it back."""

    device: str
    facts: Mapping[str, object]
    look: Callable[[], Pairs]
    read_from: str


class Layer(NamedTuple):
    """What one layer of a volume needs. `made` takes the kernel's names of the devices below, the volume's own name for
    it, and the UUIDs of what is made on each device."""

    key: str
    what: str
    drivers: tuple[str, ...]
    programs: tuple[str, ...]
    step: str
    made: Callable[[Sequence[str], str, Sequence[UUID]], AbstractContextManager[Top]]


@dataclass
class Stack:
    """One device made of several, by the kernel's name, and how its layers are read back."""

    device: str
    looks: list[Callable[[], Iterator[Check]]] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)

    def read_back(self) -> Iterator[Check]:
        """How the layers are now."""
        for look in self.looks:
            yield from look()


def of(volume: VolumeConfig) -> list[Layer]:
    """The volume's layers, from the drives upward."""
    return [layer for kind in _KINDS if (layer := kind(volume)) is not None]


def check(volume: VolumeConfig, key: str) -> None:
    """Raises PreflightError if this machine lacks what the layers need."""
    found = of(volume)
    for layer in found:
        check_driver(layer.drivers, layer.what, f"{key}.{layer.key}")
    if found:
        programs.check(["dmsetup", "wipefs", *(program for layer in found for program in layer.programs)], key)


def steps(volume: VolumeConfig) -> Iterator[str]:
    """What is done to make the layers, in words."""
    return (layer.step for layer in of(volume))


@contextlib.contextmanager
def stacked(name: str, volume: VolumeConfig, devices: Sequence[str], uuids: Sequence[UUID]) -> Iterator[Stack]:
    """Makes one device of these (the kernel's names), and takes it apart at the end. What is made on each of them gets
    its UUID. Raises RunFailed.
    """
    own, stack = f"storagelab-{secrets.token_hex(4)}", Stack(devices[0])
    with contextlib.ExitStack() as undo:
        for layer in of(volume):
            top = undo.enter_context(layer.made(devices, own, uuids))
            stack.device, devices, uuids = top.device, [top.device], [uuid4()]
            stack.facts |= top.facts
            stack.looks.append(lambda top=top: compared(name, top.look(), top.read_from))  # type: ignore[misc]
        yield stack


# --- what the kernel shows of layers ----------------------------------------------------------------------------------


def holders(device: str, kernel: Kernel = HERE) -> list[str]:
    """The devices that are made of this one, by the kernel's names."""
    return list(disks.names_in(disks.node_of(device, kernel) / "holders"))


def made_of(device: str) -> str:
    """The one device that was just made of `device`. Raises RunFailed."""
    if not until(lambda: bool(holders(device)), _BUSY_S, pause_s=0.05):
        raise RunFailed(f"the kernel shows nothing that is made of {device}")
    return holders(device)[0]


def check_driver(modules: tuple[str, ...], what: str, key: str, kernel: Kernel = HERE) -> None:
    """Raises PreflightError if the kernel has one of these drivers neither in it nor as a module that it can load."""
    folder = Path("/lib/modules") / os.uname().release
    known = {
        Path(line.partition(":")[0]).name.partition(".ko")[0].replace("-", "_")
        for file in ("modules.dep", "modules.builtin")
        for line in read_text(folder / file).splitlines()
    }
    missing = [one for one in modules if one not in known and not (kernel.sys / "module" / one).exists()]
    if missing:
        raise PreflightError(
            f"this kernel can't make {what}: it lacks the driver {missing[0]}", key=key,
            hint="use a kernel with it (those of distributions have it), or leave the key out",
        )  # fmt: skip


def take_apart(device: str, kernel: Kernel = HERE) -> None:
    """Unmounts what lies on the device, and takes apart all that is made of it, from the top down. What the device
    itself holds stays, so that a program may find it and put it together again until that is wiped. Raises RunFailed.
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
    """Takes apart what is made of these devices, and lets none of them say any more that it is a part of an array. udev
    may put an array together again until then, so all of it is tried again. Raises RunFailed.
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


# --- RAID: Linux's own md ---------------------------------------------------------------------------------------------

_DRIVERS = {"raid0": "raid0", "raid1": "raid1", "raid5": "raid456", "raid10": "raid10"}
_SYNCHRONIZED_S = 86400.0
_SYNCHRONIZED = "synchronized"
_AS_FAST_AS_IT_CAN_KIB_PER_S = "10000000"


def _raid(volume: VolumeConfig) -> Layer | None:
    level, chunk_bytes = volume.raid_level, volume.raid_chunk_size_bytes
    if level not in _DRIVERS:
        return None
    what = f"a RAID {level.removeprefix('raid')}"
    chunk = f", chunks of {bytes_(chunk_bytes)}" if chunk_bytes else ""
    wait = "" if level == "raid0" else "; wait until its drives are synchronized"
    return Layer(
        "raid_level", what, ("md_mod", _DRIVERS[level]), ("mdadm",),
        f"mdadm: {what} of {len(volume.devices or ())} drives{chunk}{wait}", partial(_array, level, chunk_bytes),
    )  # fmt: skip


@contextlib.contextmanager
def _array(
    level: str, chunk_bytes: int | None, devices: Sequence[str], own: str, uuids: Sequence[UUID]
) -> Iterator[Top]:
    """An array with nothing left to synchronize: writes of that would disturb the runs."""
    paths = [f"/dev/{device}" for device in devices]
    chunk = [f"--chunk={chunk_bytes // 1024}"] if chunk_bytes else []
    began = time.perf_counter()
    try:
        said("mdadm", "--create", f"/dev/md/{own}", "--run", "--quiet", "--homehost=any", "--metadata=1.2",
             f"--uuid={uuids[0]}", f"--level={level}", f"--raid-devices={len(paths)}", *chunk, *paths)  # fmt: skip
        array = made_of(devices[0])
        md = disks.node_of(array) / "md"
        _synchronize(array, md)
        facts = {
            "level": read_text(md / "level"), "drives": disks.integer_in(md / "raid_disks"),
            "chunk_bytes": disks.integer_in(md / "chunk_size"),
            "bitmap": read_text(md / "bitmap" / "location") or "none", "metadata": read_text(md / "metadata_version"),
            "made_and_synchronized_in_s": time.perf_counter() - began,
        }  # fmt: skip
        yield Top(array, {"raid": facts}, lambda: {
            "RAID level": (level, read_text(md / "level")),
            "drives of the RAID": (str(len(paths)), read_text(md / "raid_disks")),
            "state of the RAID": (_SYNCHRONIZED, _state(md)),
            "RAID chunk": (str(chunk_bytes) if chunk_bytes else None, read_text(md / "chunk_size")),
        }, str(md))  # fmt: skip
    finally:
        take_down(*devices)


def _synchronize(array: str, md: Path) -> None:
    with contextlib.suppress(OSError):  # RAID 0 has nothing to synchronize
        for file in ("sync_speed_max", "sync_speed_min"):
            (md / file).write_text(_AS_FAST_AS_IT_CAN_KIB_PER_S)

    def is_synchronized() -> bool:
        asked = disks.integer_in(md / "raid_disks") or 0
        left = [one.name.removeprefix("dev-") for one in md.glob("dev-*") if "faulty" not in read_text(one / "state")]
        if len(left) < asked:  # it would never be synchronized
            raise RunFailed(
                f"{array} has lost {asked - len(left)} of its {asked} drives; {', '.join(sorted(left))} is left\n"
                f"  the kernel's log says why (dmesg | grep {array}): a drive that fails, or a program that took it out"
            )
        return _state(md) == _SYNCHRONIZED

    if not until(is_synchronized, _SYNCHRONIZED_S, pause_s=0.2):
        raise RunFailed(f"{array} is not synchronized after a day: {read_text(md / 'sync_completed')} sectors")


def _state(md: Path) -> str:
    """In words, as far as a RAID may have something to synchronize."""
    action = read_text(md / "sync_action")  # a level without redundancy has no such file
    missing, synchronized_to = read_text(md / "degraded"), read_text(md / "resync_start")
    if not action or (action, missing, synchronized_to) == ("idle", "0", "none"):
        return _SYNCHRONIZED
    rest = "" if synchronized_to == "none" else f", synchronized to sector {synchronized_to}"
    return f"{action}, {missing} of its drives not in use{rest}"


# --- striped logical volumes: LVM's programs, which see the experiment's devices alone --------------------------------

_LV = "volume"
_NO_TRACE = "backup { backup=0 archive=0 }"
"""LVM would keep copies of what it did in /etc."""


def _striped(volume: VolumeConfig) -> Layer | None:
    if volume.raid_level != "striped":
        return None
    stripe_bytes = volume.raid_chunk_size_bytes
    stripe = f", stripes of {bytes_(stripe_bytes)}" if stripe_bytes else ""
    return Layer(
        "raid_level", "a striped logical volume", ("dm_mod",),
        ("pvcreate", "vgcreate", "lvcreate", "lvs", "vgremove", "pvremove"),
        f"LVM: a logical volume striped over {len(volume.devices or ())} drives{stripe}",
        partial(_logical_volume, stripe_bytes),
    )  # fmt: skip


@contextlib.contextmanager
def _logical_volume(stripe_bytes: int | None, devices: Sequence[str], own: str, uuids: Sequence[UUID]) -> Iterator[Top]:
    paths = [f"/dev/{device}" for device in devices]
    stripe = [f"--stripesize={stripe_bytes}b"] if stripe_bytes else []

    def lvm(program: str, *arguments: str) -> str:
        return said(program, "--config", _NO_TRACE, "--devices", ",".join(paths), *arguments)

    def facts() -> dict[str, object]:
        columns = "--options=segtype,stripes,stripe_size,lv_size"
        text = lvm("lvs", "--reportformat=json", "--units=b", "--nosuffix", columns, f"{own}/{_LV}")
        try:
            (one,) = json.loads(text)["report"][0]["lv"]
            return {
                "type": str(one["segtype"]), "stripes": int(one["stripes"]), "stripe_bytes": int(one["stripe_size"]),
                "size_bytes": int(one["lv_size"]),
            }  # fmt: skip
        except (ValueError, KeyError, IndexError) as error:
            raise RunFailed(f"lvs says what storagelab doesn't understand: {text[-400:]}") from error

    def look() -> Pairs:
        now = facts()
        return {"stripes": (len(paths), now["stripes"]), "stripe size": (stripe_bytes, now["stripe_bytes"])}

    def remove() -> None:
        for device in devices:
            take_apart(device)
        for device in _that_hold("LVM2_member", devices):
            # Twice --force: the device is a part of a group, of which nothing is kept.
            lvm("pvremove", "--yes", "--force", "--force", f"/dev/{device}")

    try:
        for path, uuid in zip(paths, uuids, strict=True):
            lvm("pvcreate", "--yes", f"--uuid={as_lvm_writes(uuid)}", "--norestorefile", path)
        lvm("vgcreate", "--yes", own, *paths)
        lvm("lvcreate", "--yes", "--type=striped", f"--stripes={len(paths)}", *stripe, "--extents=100%FREE",
            f"--name={_LV}", own)  # fmt: skip
        yield Top(made_of(devices[0]), {"logical_volume": facts()}, look, "lvs")
    finally:
        patiently(remove, _BUSY_S)


def as_lvm_writes(uuid: UUID) -> str:
    """A UUID in LVM's own groups of digits."""
    digits, groups = iter(uuid.hex), (6, 4, 4, 4, 4, 4, 6)
    return "-".join("".join(itertools.islice(digits, count)) for count in groups)


# --- encryption: LUKS2 with a key that is kept nowhere, so who closes the volume has lost its data --------------------

# The key is random already, so stretching it as a password would only cost time.
_NO_STRETCHING = ("--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000")
_KEY_BYTES = 64


def _encryption(volume: VolumeConfig) -> Layer | None:
    if volume.encryption is None:
        return None
    sector = f", sectors of {bytes_(size)}" if (size := volume.encryption_sector_bytes) else ""
    flags = "".join(f", {flag}" for flag in volume.encryption_flags)
    return Layer(
        "encryption", "an encrypted volume", ("dm_mod", "dm_crypt"), ("cryptsetup",),
        f"cryptsetup: LUKS2 with a random key that is kept nowhere{sector}{flags}", partial(_encrypted, volume),
    )  # fmt: skip


@contextlib.contextmanager
def _encrypted(volume: VolumeConfig, devices: Sequence[str], own: str, uuids: Sequence[UUID]) -> Iterator[Top]:
    (device,), name, key = devices, f"{own}-luks", secrets.token_hex(_KEY_BYTES)
    sector_bytes, flags = volume.encryption_sector_bytes, [flag.replace("-", "_") for flag in volume.encryption_flags]
    sector = [f"--sector-size={sector_bytes}"] if sector_bytes else []
    said("cryptsetup", "luksFormat", "--type=luks2", "--batch-mode", "--key-file=-", *_NO_STRETCHING, *sector,
         f"--uuid={uuids[0]}", f"/dev/{device}", given=key)  # fmt: skip
    asked = [f"--perf-{flag}" for flag in flags] + (["--allow-discards"] if volume.trim else [])

    def status() -> dict[str, str]:
        lines = (line.partition(":") for line in said("cryptsetup", "status", name).splitlines()[1:])
        return {key.strip(): value.strip() for key, colon, value in lines if colon}

    def look() -> Pairs:
        now = status()
        shown = now.get("flags", "").split()
        wanted = [*flags, *(["discards"] if volume.trim else [])]
        return {
            "encryption": ("LUKS2", now.get("type", "none")),
            "encrypted sector": (str(sector_bytes) if sector_bytes else None, now.get("sector size", "").split(" ")[0]),
            **{f"flag {flag} of the encryption": ("set", "set" if flag in shown else "not set") for flag in wanted},
        }

    try:
        said("cryptsetup", "open", "--type=luks2", "--key-file=-", *asked, f"/dev/{device}", name, given=key)
        yield Top(made_of(device), {"encryption": status()}, look, "cryptsetup status")
    finally:
        take_apart(device)


# --- added latency: the kernel's dm-delay -----------------------------------------------------------------------------


def _delay(volume: VolumeConfig) -> Layer | None:
    if (delay_ms := volume.added_latency_ms) is None:
        return None
    return Layer(
        "added_latency_ms", "a volume with added latency", ("dm_mod", "dm_delay"), (),
        f"dmsetup: each read and each write waits {delay_ms} ms more", partial(_delayed, delay_ms),
    )  # fmt: skip


@contextlib.contextmanager
def _delayed(delay_ms: int, devices: Sequence[str], own: str, _: Sequence[UUID]) -> Iterator[Top]:
    (device,), name = devices, f"{own}-delay"

    def look() -> Pairs:
        table = said("dmsetup", "table", name).split()
        got = table[5] if len(table) > 5 and table[2] == "delay" else "none"
        return {"added latency (ms)": (str(delay_ms), got)}

    try:
        sectors = read_text(disks.node_of(device) / "size")
        said("dmsetup", "create", name, "--table", f"0 {sectors} delay /dev/{device} 0 {delay_ms}")
        yield Top(made_of(device), {}, look, "dmsetup table")
    finally:
        take_apart(device)


_KINDS = (_striped, _raid, _encryption, _delay)
