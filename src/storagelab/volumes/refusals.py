"""Decides from facts about a drive whether storagelab refuses to use it, and why. Does not read the drive again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from storagelab import errors
from storagelab.errors import PreflightError
from storagelab.model.volume import VolumeConfig
from storagelab.spec.rules import STABLE_NAMES
from storagelab.volumes.drives import UNKNOWN_DATA, Drive, Formats, listed
from storagelab.words.numbers import bytes_

_UNEQUAL = 0.01
"""Drives of a RAID may differ in size by this share, because makers round sizes differently."""


class Background(NamedTuple):
    """Further facts about a drive. `confirmed` is the drive as it was when the user last confirmed it. `released` says
    whether this experiment has used the drive before and left it blank. `formats` are the formats of an NVMe drive that
    will be formatted, or None if it will not be.
    """

    confirmed: Drive | None = None
    released: bool = False
    formats: Formats | None = None


NOTHING_KNOWN = Background()


def refuse(drive: Drive, volume: VolumeConfig, key: str, known: Background = NOTHING_KNOWN) -> None:
    """Raises PreflightError with all reasons not to use the drive. `key` is the volume's key."""
    errors.refuse(list(refusals(drive, volume, key, known)))


def refusals(
    drive: Drive, volume: VolumeConfig, key: str, known: Background = NOTHING_KNOWN
) -> Iterator[PreflightError]:
    """All reasons not to use the drive, as errors with solutions."""
    devices = f"{key}.devices"

    def no(problem: str, hint: str, at: str = devices) -> PreflightError:
        return PreflightError(f"{drive.id}: {problem}", key=at, hint=hint)

    for problem, hint in _uncertain(drive):
        yield no(problem, hint)
    if drive.read_only:
        yield no("is read-only", "allow writes to it, or name another drive")
    if drive.of_the_system:
        yield no(f"is the system's own drive: {listed(drive.used_by)}", "name another drive")
    elif drive.used_by:
        yield no(f"is in use: {listed(drive.used_by)}", "unmount, stop or close that first, if nobody needs it")
    if known.confirmed is not None and not drive.is_same_as(known.confirmed):
        yield no(
            f"is not the drive with which this campaign began: now {_short(drive)}, then {_short(known.confirmed)}",
            "connect that drive again, or begin a new campaign: --results FOLDER",
        )
    held = [one for one in drive.holds or () if not (known.released and one == UNKNOWN_DATA)]
    if held and drive.serial not in volume.may_wipe:
        detail = f'if nobody needs it: wipe = "{drive.serial}"'
        yield no(f"holds {listed(held)}, which would be destroyed", detail, f"{key}.wipe")
    yield from _sector_refusals(drive, volume, key, known)


def _uncertain(drive: Drive) -> Iterator[tuple[str, str]]:
    """The reasons why the drive's name may mean another drive later, each with a solution."""
    if str(Path(drive.id).parent) + "/" != STABLE_NAMES:
        yield "is not a stable name: later, it may mean another drive", f"use the drive's ID: ls -l {STABLE_NAMES}"
    if drive.part_of:
        yield f"is a partition of {drive.part_of}", "name the whole drive; the key capacity uses only a part of it"
    if drive.made_of_others:
        yield f"is not a drive: {drive.name} is made from other devices", "name the drives below it"
    if not drive.serial:
        yield "reports no serial number, so storagelab can't recognise it", "use a drive that reports one"
    if drive.shared_name:
        yield (
            "is the name of every namespace of its controller: later, it may mean another namespace",
            f"name one namespace, by the name that ends with its number, such as {drive.id}_1",
        )


def _short(drive: Drive) -> str:
    return f"{drive.model or 'no model'}, serial {drive.serial or 'unknown'}, {drive.size_bytes:,} bytes"


def _sector_refusals(drive: Drive, volume: VolumeConfig, key: str, known: Background) -> Iterator[PreflightError]:
    asked, at = volume.sector_bytes, f"{key}.sector_bytes"
    if asked is None or asked == drive.sector_bytes:
        return
    if not drive.nvme:
        yield PreflightError(
            f"{drive.id} has sectors of {drive.sector_bytes} B, and only NVMe drives can be formatted to other sizes",
            key=at,
            hint=f"leave it out, or set {drive.sector_bytes}",
        )  # fmt: skip
        return
    if known.formats is None:
        return
    if known.formats.with_sectors(asked) is None:
        has = sorted({one.sector_bytes for one in known.formats.formats if not one.metadata_bytes})
        yield PreflightError(
            f"{drive.id} has no format with sectors of {asked} B", key=at, hint=f"it has {' and '.join(map(str, has))}"
        )
    if known.formats.all_at_once and known.formats.namespaces > 1:
        yield PreflightError(
            f"{drive.id} is one of {known.formats.namespaces} namespaces, and the drive formats all of them at once",
            key=at,
            hint="leave it out, or make only one namespace on the drive",
        )  # fmt: skip
    now = known.formats.now
    if (now.metadata_bytes or known.formats.protection) and drive.serial not in volume.may_wipe:
        yield PreflightError(
            f"{drive.id} has a format that storagelab can't restore: {now.metadata_bytes} B of metadata a sector",
            key=at, hint=f'to allow that this format is lost: wipe = "{drive.serial}"',
        )  # fmt: skip


def refuse_twice(drives: Sequence[Drive], key: str) -> None:
    """Raises PreflightError if two of the names mean the same drive. This can happen, because udev gives each drive
    several names.
    """
    seen: dict[str, Drive] = {}
    for drive in drives:
        if drive.name in seen:
            raise PreflightError(
                f"{seen[drive.name].id} and {drive.id} are one drive", key=f"{key}.devices", hint="name each drive once"
            )
        seen[drive.name] = drive


def refuse_unequal(drives: Sequence[Drive], key: str) -> None:
    """Raises PreflightError if drives of a RAID differ in size or in sector size. A RAID would use only the size of the
    smallest drive on each of them.
    """
    sizes = [drive.size_bytes for drive in drives]
    if sizes and max(sizes) - min(sizes) > _UNEQUAL * max(sizes):
        each = ", ".join(f"{drive.name} {bytes_(drive.size_bytes)}" for drive in drives)
        raise PreflightError(f"names drives of unequal size: {each}", key=f"{key}.devices", hint="name equal drives")
    sectors = {drive.sector_bytes for drive in drives}
    if len(sectors) > 1:
        raise PreflightError(
            f"names drives with sectors of {' and '.join(map(str, sorted(sectors)))} B", key=f"{key}.devices",
            hint="set sector_bytes for all of them (NVMe), or name drives with equal sectors",
        )  # fmt: skip
