"""Reads the properties, content and users of whole drives of this machine. Also formats NVMe drives and
marks drives.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import disks
from storagelab.machine.disks import HERE, Kernel, node_of, read_text
from storagelab.model.values import Frozen
from storagelab.spec.rules import STABLE_NAMES
from storagelab.volumes.programs import said
from storagelab.words.numbers import bytes_

PROGRAMS = {"wipefs": "util-linux", "blkdiscard": "util-linux"}
UNKNOWN_DATA = "data of an unknown kind"
_OF_THE_SYSTEM = frozenset({"/", "/boot", "/boot/efi", "/usr", "/var", "/home"})
_NO_DRIVES = re.compile(r"(loop|ram|zram|dm-|md)\d+")
_LOOKED_AT_BYTES, _PAGE_BYTES, _LINE_BYTES = 2**20, 4096, 64
_SCAN_S = 60.0
HELD = "another program holds it"


class Drive(Frozen):
    """A drive as it is now. `id` is its stable name. `name` is the kernel's name. After a reboot, another drive may
    have this name.
    """

    id: str
    name: str
    serial: str
    wwid: str = ""
    """A globally unique name of this namespace (NVMe) or unit (SCSI), or "" if unknown. It is needed because all
    namespaces of a controller have the same serial number.
    """
    model: str = ""
    firmware: str = ""
    size_bytes: int
    sector_bytes: int = 512
    holds: tuple[str, ...] | None = ()
    """The kinds of content on the drive: partition tables, file systems, parts of a RAID. The value is None if this
    user is not root: only root can read them.
    """
    used_by: tuple[str, ...] = ()
    of_the_system: bool = False
    part_of: str = ""
    """If this device is only a partition, this is the name of the whole drive. Otherwise, it is ""."""
    made_of_others: bool = False
    """Whether this device is not a drive, but a RAID, a logical volume, a file or memory."""
    read_only: bool = False
    discards: bool = True
    shared_name: bool = False
    """Whether all namespaces of the controller share the name `id`."""

    @property
    def key(self) -> str:
        """The last part of the drive's stable name."""
        return Path(self.id).name

    @property
    def nvme(self) -> bool:
        return self.name.startswith("nvme")

    @property
    def text(self) -> str:
        """A description of the drive and its content."""
        lies = "only root can read what it holds" if self.holds is None else f"holds {listed(self.holds)}"
        return f"{self.name} ({self.model or 'no model'}, serial {self.serial}, {bytes_(self.size_bytes)}): {lies}"

    def is_same_as(self, other: Drive) -> bool:
        alike = (self.serial, self.model, self.size_bytes) == (other.serial, other.model, other.size_bytes)
        return alike and (self.wwid == other.wwid or "" in (self.wwid, other.wwid))


def listed(holds: Sequence[str]) -> str:
    return ", ".join(holds) if holds else "nothing that storagelab knows"


def look(device: str, key: str, kernel: Kernel = HERE) -> Drive:
    """The drive with the stable name `device`. Raises PreflightError, with the spec's `key`, if there is none."""
    hint = f"ls -l {STABLE_NAMES}"
    try:
        real = os.path.realpath(device, strict=True)
        if not stat.S_ISBLK(os.stat(real).st_mode):
            raise PreflightError(
                f"{device} is not a drive; it may be a controller: formatting it would format all its drives", key=key,
                hint=f"name the drive itself (with an NVMe controller: a namespace): {hint}",
            )  # fmt: skip
    except OSError as error:
        raise PreflightError(f"{device} is not there: {error.strerror}", key=key, hint=hint) from error
    return describe(device, Path(real).name, kernel)


def describe(device: str, name: str, kernel: Kernel = HERE) -> Drive:
    """The drive that the kernel calls `name`. `device` is the stable name of this drive."""
    node = disks.node_of(name, kernel)
    disk = disks.describe_disk(name, kernel)
    system, used = _users(name, kernel)
    # udev gives a namespace two names. Both have the controller's model and serial number. Only one of them ends with
    # the namespace's number.
    of_the_controller = device.endswith("_" + serial_of(name, kernel).replace(" ", "_"))
    return Drive(
        id=device,
        name=name,
        serial=serial_of(name, kernel),
        wwid=read_text(node / "wwid") or read_text(node / "device" / "wwid"),
        model=str(disk["model"]),
        firmware=str(disk["firmware"]),
        size_bytes=disks.size_bytes(name, kernel),
        sector_bytes=disks.integer_in(node / "queue" / "logical_block_size") or 512,
        holds=_holds(name, kernel),
        used_by=used or _held_exclusively(f"/dev/{name}"),
        of_the_system=system,
        part_of=whole if (whole := disks.disk_of(name, kernel)) != name else "",
        made_of_others=bool(_NO_DRIVES.fullmatch(name)) or bool(disks.names_in(node / "slaves")),
        read_only=read_text(node / "ro") == "1",
        discards=(disks.integer_in(node / "queue" / "discard_max_bytes") or 0) > 0,
        shared_name=name.startswith("nvme") and of_the_controller and namespaces_beside(name, kernel) > 1,
    )


def serial_of(name: str, kernel: Kernel = HERE) -> str:
    """The serial number that the drive reports to the kernel, or "" if it reports none."""
    node = disks.node_of(name, kernel)
    if text := read_text(node / "device" / "serial") or read_text(node / "serial"):
        return text
    with contextlib.suppress(OSError):  # SCSI and SATA: page 0x80 of the device's data, without its header of 4 bytes
        return (node / "device" / "vpd_pg80").read_bytes()[4:].decode("ascii", "replace").strip(" \0")
    return ""


def partitions_of(name: str, kernel: Kernel = HERE) -> tuple[str, ...]:
    return tuple(sorted(file.parent.name for file in disks.node_of(name, kernel).resolve().glob("*/partition")))


def _users(name: str, kernel: Kernel) -> tuple[bool, tuple[str, ...]]:
    """Whether the operating system uses the drive, and descriptions of all uses that the kernel shows."""
    own = {name, *partitions_of(name, kernel)}
    users: dict[str, None] = {}
    system = False
    for place in mounted_from(name, kernel):
        users[f"it is mounted at {place}"] = None
        system |= place in _OF_THE_SYSTEM
    for line in read_text(kernel.proc / "swaps").splitlines()[1:]:
        swap = Path(os.path.realpath(line.split()[0])).name
        if own & set(disks.device_stack([swap], kernel)):
            users["the kernel swaps to it"] = None
            system = True
    for part in sorted(own):
        for holder in disks.names_in(disks.node_of(part, kernel) / "holders"):
            uuid = read_text(disks.node_of(holder, kernel) / "dm" / "uuid")
            kinds = {"LVM": "the logical volume", "CRYPT": "the encrypted volume"}
            kind = "the RAID" if holder.startswith("md") else kinds.get(uuid.split("-")[0], "the device")
            users[f"{kind} {holder} is made of it"] = None
    return system, tuple(users)


def _held_exclusively(node: str) -> tuple[str, ...]:
    """Returns (HELD,) if a program or the kernel (e.g. for ZFS) has opened the drive exclusively, otherwise ()."""
    try:
        os.close(os.open(node, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        return (HELD,) if error.errno == errno.EBUSY else ()
    return ()


def _holds(name: str, kernel: Kernel) -> tuple[str, ...] | None:
    if os.geteuid() != 0:
        return None
    found: dict[str, None] = {}
    for node in (f"/dev/{part}" for part in (name, *partitions_of(name, kernel))):
        try:
            found |= dict.fromkeys(signatures_in(said("wipefs", "--json", node), node))
        except RunFailed:  # a drive that can't be read may have data
            found[UNKNOWN_DATA] = None
    if not found and not is_blank(f"/dev/{name}"):
        found[UNKNOWN_DATA] = None
    return tuple(found)


def uuids_on(name: str) -> frozenset[str]:
    """The UUIDs that wipefs finds on the drive and its partitions. Raises RunFailed."""
    return frozenset(str(one["uuid"]) for one in _found_on(name) if one.get("uuid"))


def without_uuid(name: str) -> list[str]:
    """The kinds of content without a UUID that wipefs finds on the drive and its partitions. Raises RunFailed."""
    return [str(one.get("type")) for one in _found_on(name) if not one.get("uuid")]


def _found_on(name: str) -> Iterator[dict[str, object]]:
    for part in (name, *partitions_of(name)):
        yield from json.loads(said("wipefs", "--json", f"/dev/{part}") or "{}").get("signatures", [])


def table_uuid(drive: Drive) -> set[str]:
    """The UUID of the drive's GPT: bytes 56 to 71 of its second sector. The result is empty without a GPT. Raises
    OSError.
    """
    with open(f"/dev/{drive.name}", "rb") as opened:
        opened.seek(drive.sector_bytes)
        header = opened.read(72)
    return {str(UUID(bytes_le=header[56:72]))} if header.startswith(b"EFI PART") else set()


def contents(drive: Drive) -> str:
    """Describes the drive's content for a user, who must decide whether it may be destroyed."""
    begins = [f"{one} begins with {_first(one, 16).hex(' ')}" for one in (drive.name, *partitions_of(drive.name))]
    return "; ".join([drive.text, *begins])


# --- the mark --------------------------------------------------------------------------------------------------------
#
# storagelab fills the first two MiB of a drive with lines that contain the claim's token. This mark shows who owns the
# drive while nothing of storagelab on it has a UUID. The second MiB is filled because a partition will begin there. Any
# other use of the drive or the partition overwrites the mark: a file system, a partition table, a database or an
# archive. The first page is written last, so the owner can be identified even after a kill.


def mark(name: str, token: str) -> None:
    """Fills the first two MiB of a drive or a partition with the mark. Raises RunFailed."""
    _write_first(name, _line_of(token) * (2 * _LOOKED_AT_BYTES // _LINE_BYTES))


def is_marked(name: str, token: str) -> bool:
    """Whether the first MiB has the mark, and otherwise only zeros. There may be zeros after a kill, and mdadm writes
    zeros over its superblock.
    """
    first = _first(name, _LOOKED_AT_BYTES)
    others = first.replace(_line_of(token), b"")
    return bool(token) and len(others) < len(first) and not any(others)


def unmark(name: str, token: str) -> None:
    """Overwrites the mark with zeros if it still exists. Raises RunFailed."""
    if is_marked(name, token):
        _write_first(name, bytes(2 * _LOOKED_AT_BYTES))


def _line_of(token: str) -> bytes:
    return f"storagelab {token}".ljust(_LINE_BYTES - 1).encode() + b"\n"


def _first(name: str, size: int) -> bytes:
    with open(f"/dev/{name}", "rb") as drive:
        return drive.read(size)


def _write_first(name: str, content: bytes) -> None:
    try:
        with open(f"/dev/{name}", "r+b", buffering=0) as drive:
            size = min(len(content), drive.seek(0, os.SEEK_END))
            for at in reversed(range(0, size, _PAGE_BYTES)):
                os.pwrite(drive.fileno(), content[at : min(at + _PAGE_BYTES, size)], at)
            os.fsync(drive.fileno())
    except OSError as error:
        raise RunFailed(f"/dev/{name} can't be written: {error.strerror}") from error


def mounted_from(name: str, kernel: Kernel = HERE) -> Iterator[str]:
    """The folders where the drive, its partitions, or devices made from them are mounted."""
    own = {name, *partitions_of(name, kernel)}
    for mount in disks.mounts_here(kernel):
        if own & set(disks.device_stack(disks.block_devices_of(mount, kernel), kernel)):
            yield mount.mount_point


def signatures_in(text: str, node: str) -> Iterator[str]:
    """Describes the signatures in the output of `wipefs --json`. The output is empty if there are none."""
    for found in json.loads(text or "{}").get("signatures", []):
        label = f' "{found["label"]}"' if found.get("label") else ""
        kind = str(found.get("type", "unknown"))
        what = "a partition table" if kind in ("gpt", "dos", "PMBR", "mac", "sun", "bsd") else kind
        yield f"{what}{label} ({Path(node).name})"


def is_blank(node: str, *, whole: bool = False) -> bool:
    """Whether the drive has only zeros or only ones, as after a discard. Reads each MiB if `whole`, otherwise the first
    and the last one. Returns False if the drive can't be read, or if that takes more than a minute.
    """
    until_s = time.monotonic() + _SCAN_S
    try:
        with open(node, "rb", buffering=0) as drive:
            size = drive.seek(0, os.SEEK_END)
            places = range(0, size, _LOOKED_AT_BYTES) if whole else (0, max(0, size - _LOOKED_AT_BYTES))
            for place in places:
                drive.seek(place)
                content = drive.read(_LOOKED_AT_BYTES)
                if len(content) not in (content.count(0), content.count(0xFF)) or time.monotonic() > until_s:
                    return False
    except OSError:
        return False
    return True


# --- NVMe: formats with other sector sizes, and the counter of all bytes ever written --------------------------------

NVME_PROGRAMS = {"nvme": "nvme-cli"}
_UNIT_BYTES = 512_000
"""NVMe drives count written data in units of 1000 x 512 bytes (NVM Express base specification, SMART / health log)."""

_FORMATS_S = 3600.0


class Format(NamedTuple):
    """One of a drive's LBA formats. In this format, each sector has `metadata_bytes` in addition to its data."""

    number: int
    sector_bytes: int
    metadata_bytes: int
    in_use: bool


class Formats(NamedTuple):
    """The LBA formats of a namespace, and whether formatting it affects other namespaces."""

    formats: tuple[Format, ...]
    protection: int
    """The type of protection information that is in use, or 0 if none."""
    all_at_once: bool
    """Whether formatting one namespace formats all namespaces of the drive."""
    namespaces: int

    @property
    def now(self) -> Format:
        return next(one for one in self.formats if one.in_use)

    def with_sectors(self, sector_bytes: int) -> Format | None:
        """A format with sectors of this size and without metadata. If several fit, the current format is preferred.
        Returns None if there is none.
        """
        fitting = [one for one in self.formats if one.sector_bytes == sector_bytes and not one.metadata_bytes]
        return next((one for one in fitting if one.in_use), fitting[0] if fitting else None)


def formats_in(namespace: Mapping[str, Any], controller: Mapping[str, Any], namespaces: int) -> Formats:
    """The formats in the JSON output of `nvme id-ns` (`namespace`) and `nvme id-ctrl` (`controller`)."""
    flbas = int(namespace["flbas"])
    now = (flbas & 0xF) | ((flbas >> 5 & 3) << 4)
    found = tuple(
        Format(number, 2 ** int(one["ds"]), int(one["ms"]), in_use=number == now)
        for number, one in enumerate(namespace["lbafs"])
        if int(one["ds"]) >= 9  # a smaller value means that the format is not available
    )
    return Formats(found, int(namespace.get("dps", 0)) & 7, bool(int(controller.get("fna", 0)) & 1), namespaces)


def formats(name: str, kernel: Kernel = HERE) -> Formats:
    """The formats of the drive that the kernel calls `name`. Raises RunFailed."""
    node = f"/dev/{name}"
    try:
        found = formats_in(
            json.loads(said("nvme", "id-ns", node, "--output-format=json")),
            json.loads(said("nvme", "id-ctrl", node, "--output-format=json")),
            namespaces_beside(name, kernel),
        )
        assert found.now
    except (ValueError, KeyError, StopIteration) as error:
        raise RunFailed(f"storagelab can't read the answer of nvme id-ns {node}: {error}") from error
    return found


def namespaces_beside(name: str, kernel: Kernel = HERE) -> int:
    """The number of namespaces of the drive's controller, including this one."""
    beside = node_of(name, kernel).resolve().parent
    return sum(1 for one in beside.glob("nvme*n*") if (one / "size").exists())


def format_to(name: str, number: int) -> None:
    """Formats the namespace to the LBA format `number`, which erases all data. Raises RunFailed with nvme's message."""
    said("nvme", "format", f"/dev/{name}", f"--lbaf={number}", "--force", patience_s=_FORMATS_S)


def written_in_its_life(name: str) -> int | None:
    """The bytes that all hosts have ever written to the drive, or None if the drive does not report them."""
    if not Path(f"/dev/{name}").exists():
        return None
    try:
        units = json.loads(said("nvme", "smart-log", f"/dev/{name}", "--output-format=json")).get("data_units_written")
        return int(str(units).replace(",", "")) * _UNIT_BYTES if units is not None else None
    except (RunFailed, ValueError):
        return None
