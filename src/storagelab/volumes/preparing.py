"""Prepares drives for a volume, and gives them back. Before each step, a line about it is written to the journal. Just
before each destructive step, the drive's serial number is read again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

from storagelab.errors import PreflightError, RunFailed, noting, refuse
from storagelab.machine.descriptors import opened
from storagelab.machine.disks import node_of, read_text, size_bytes
from storagelab.machine.processes import holders_text, until
from storagelab.model.measurement import Check
from storagelab.model.volume import VolumeConfig
from storagelab.volumes import drives, file_systems, programs, refusals
from storagelab.volumes.drives import Drive, partitions_of
from storagelab.volumes.file_systems import compared, sector_bytes, set_queue
from storagelab.volumes.journal import REGISTRY, Claim, Journal, locked
from storagelab.volumes.programs import path_of, said
from storagelab.words.numbers import bytes_

# --- partitions -------------------------------------------------------------------------------------------------------
# Makes a partition that uses a share of a drive. Lets the kernel and udev read the partition table again.

PROGRAMS = {"sfdisk": "fdisk"}
_ALIGNED_BYTES = 2**20
_BUSY_S = 20.0
"""How long to wait for a program, such as udev, that has a partition open. Until it closes the partition, the kernel
keeps the drive's old partition table.
"""
_SETTLES_S = 60
_BLKRRPART = 0x125F
"""The ioctl that makes the kernel read the partition table again (linux/fs.h)."""


def size_for(size_bytes: int, share: float) -> int:
    """The size of a partition, in bytes, so that the partition and the table before it use this share of a drive."""
    return (int(size_bytes * share) // _ALIGNED_BYTES - 1) * _ALIGNED_BYTES


def make(drive: str, size_bytes: int, sector_bytes: int, table: UUID) -> None:
    """Makes a new partition table with the UUID `table`, and in it a single partition. Raises RunFailed."""
    start, size = _ALIGNED_BYTES // sector_bytes, size_bytes // sector_bytes
    said(
        "sfdisk", "--quiet", "--wipe", "always", "--wipe-partitions", "always", f"/dev/{drive}",
        given=f'label: gpt\nlabel-id: {table}\nstart={start}, size={size}, name="storagelab"\n',
    )  # fmt: skip


def only_one(drive: str) -> str:
    """The kernel's name of the drive's only partition. Waits until the partition exists and udev has processed it.
    Raises RunFailed.
    """

    def is_there() -> bool:
        found = partitions_of(drive)
        if len(found) != 1:
            _read_again(drive)
        return len(found) == 1 and Path(f"/dev/{found[0]}").exists()

    if not until(is_there, _BUSY_S, pause_s=0.1):
        raise RunFailed(f"the kernel does not show the new partition on /dev/{drive}{_users(drive)}")
    settle()
    return partitions_of(drive)[0]


def forget(drive: str) -> None:
    """Makes the kernel forget the partitions of a drive that has no partition table any more. sfdisk is not used,
    because it would not report failures. Raises RunFailed.
    """

    def is_done() -> bool:
        _read_again(drive)
        return not partitions_of(drive)

    if not until(is_done, _BUSY_S, pause_s=0.1):
        kept = ", ".join(partitions_of(drive))
        raise RunFailed(f"the kernel keeps {kept}, but /dev/{drive} has no partition table any more{_users(drive)}")


def _read_again(drive: str) -> None:
    """Makes the kernel read the partition table again. The kernel refuses this while a program uses a partition."""
    with opened(f"/dev/{drive}") as number, contextlib.suppress(OSError):
        fcntl.ioctl(number, _BLKRRPART)


def _users(drive: str) -> str:
    found = [words for name in partitions_of(drive) if (words := holders_text(Path(f"/dev/{name}")))]
    return (f": {', '.join(found)} has it open" if found else "") + "\n  end what uses it, then repeat this command"


def settle() -> None:
    """Waits until udev has processed all changes, if the machine has udev. Raises RunFailed.

    When a partition table changes, udev removes and adds each partition. It also lets mdadm remove a missing partition
    from its RAID. If udev did this late, mdadm would remove the partition from the new RAID.
    """
    if path_of("udevadm") is not None:
        said("udevadm", "settle", f"--timeout={_SETTLES_S}")


# --- volumes ----------------------------------------------------------------------------------------------------------

_RENAMED_S = 5.0
"""How long a stable name may be missing after a drive was formatted or partitioned, because udev makes the name again.
"""
_DISCARDS_S = 3600.0

# --- before anything runs ---------------------------------------------------------------------------------------------


def check(name: str, volume: VolumeConfig, journal: Journal | None) -> tuple[Drive, ...]:
    """The drives of the volume. Raises PreflightError if some of them can't be used. Changes nothing."""
    key = f"volumes.{name}"
    lacks, found = list[PreflightError](), list[Drive]()
    for device in volume.devices or ():
        with noting(lacks):
            found.append(drives.look(device, f"{key}.devices"))
    needed = drives.PROGRAMS | (PROGRAMS if volume.share < 1 else {})
    if any(drive.nvme and _is_to_be_formatted(drive, volume) for drive in found):
        needed |= drives.NVME_PROGRAMS
    with noting(lacks):
        programs.check(needed, key)
    for drive in found:
        with noting(lacks):
            known = refusals.Background() if journal is None else _known_to(drive, journal)
            if known is not None:
                _refuse(drive, volume, key, known)
    refuse(lacks)
    refusals.refuse_twice(found, key)
    if volume.raid_level is not None:
        as_formatted = {} if volume.sector_bytes is None else {"sector_bytes": volume.sector_bytes}
        refusals.refuse_unequal([drive.model_copy(update=as_formatted) for drive in found], key)
    return tuple(found)


def _known_to(drive: Drive, journal: Journal) -> refusals.Background | None:
    """The journal's facts about the drive. Returns None if the drive is still claimed because a run was interrupted.
    The next run then first gives the drive back. Raises PreflightError.
    """
    try:
        history = journal.of(drive.id)
        journal.refuse_claimed_by_others(drive)
    except RunFailed as error:
        raise PreflightError(str(error), key="volumes") from error
    return None if history.claim is not None else refusals.Background(history.confirmed, history.released)


def _refuse(drive: Drive, volume: VolumeConfig, key: str, known: refusals.Background) -> None:
    refusals.refuse(drive, volume, key, known)
    if _is_to_be_formatted(drive, volume) and drive.nvme and os.geteuid() == 0:
        try:
            formats = drives.formats(drive.name)
        except RunFailed as error:
            raise PreflightError(str(error), key=f"{key}.sector_bytes", hint="leave it out") from error
        refusals.refuse(drive, volume, key, known._replace(formats=formats))


def _is_to_be_formatted(drive: Drive, volume: VolumeConfig) -> bool:
    return volume.sector_bytes is not None and volume.sector_bytes != drive.sector_bytes


def steps(volume: VolumeConfig, found: Sequence[Drive]) -> Iterator[str]:
    """Descriptions of the steps on each drive."""
    for drive in found:
        yield f"destroy everything on {drive.text}"
        if _is_to_be_formatted(drive, volume):
            yield f"{drive.name}: format it from sectors of {drive.sector_bytes} B to {volume.sector_bytes} B"
        yield f"{drive.name}: " + (
            "discard everything" if drive.discards else "it can't discard, so its old blocks stay in use"
        )
        if volume.share < 1:
            size = size_for(drive.size_bytes, volume.share)
            yield f"{drive.name}: one partition of {bytes_(size)} ({volume.capacity} of the drive)"


def put_back_steps(volume: VolumeConfig, found: Sequence[Drive]) -> Iterator[str]:
    """Descriptions of the last steps on each drive."""
    for drive in found:
        format_ = f", and format it to sectors of {drive.sector_bytes} B" if _is_to_be_formatted(drive, volume) else ""
        yield f"{drive.name}: at the end, remove what storagelab made{format_}; it is then blank"


# --- a preparation ----------------------------------------------------------------------------------------------------


class OpenDrive:
    """A drive with an open descriptor. While the descriptor is open, the kernel can't give the drive's number to
    another drive.
    """

    def __init__(self, drive: Drive, opened: int) -> None:
        self.drive, self._opened = drive, opened

    def refuse_another(self) -> None:
        """Raises RunFailed if the drive's names now mean another drive, or if the drive's serial number has changed."""
        number = os.fstat(self._opened).st_rdev
        for name in (self.drive.id, f"/dev/{self.drive.name}"):
            if not until(partial(os.path.exists, name), _RENAMED_S, pause_s=0.05):
                raise RunFailed(f"{name} does not exist any more; nothing more is done to the drive")
            facts = os.stat(name)
            if not stat.S_ISBLK(facts.st_mode) or facts.st_rdev != number:
                raise RunFailed(f"{name} is now another drive; nothing is done to it")
        serial = drives.serial_of(self.drive.name)
        shown, size = read_text(node_of(self.drive.name) / "dev"), size_bytes(self.drive.name)
        if (serial, shown) != (self.drive.serial, f"{os.major(number)}:{os.minor(number)}") or size == 0:
            raise RunFailed(
                f"{self.drive.id} has serial {serial or 'none'} and {size:,} bytes now, but was confirmed as serial "
                f"{self.drive.serial}; nothing is done to it"
            )


@contextlib.contextmanager
def held(drive: Drive) -> Iterator[OpenDrive]:
    """Keeps the drive open, and locks it for this process and the programs that it starts. Raises RunFailed."""
    with locked(drive), contextlib.ExitStack() as undo:
        try:
            number = undo.enter_context(opened(f"/dev/{drive.name}"))
        except OSError as error:
            raise RunFailed(f"{drive.id} can't be opened: {error.strerror}") from error
        yield OpenDrive(drive, number)


@contextlib.contextmanager
def prepared(
    name: str, volume: VolumeConfig, journal: Journal, uuids: Sequence[UUID]
) -> Iterator[list[tuple[Drive, str]]]:
    """Prepares the volume's drives, and gives them back at the end. The result has each drive, and the name of the
    blank device to use: the drive itself or its partition. `uuids` are the UUIDs of the content that will be made on
    the drives. Raises RunFailed.
    """
    with contextlib.ExitStack() as undo:
        yield [undo.enter_context(_one(name, volume, device, journal, uuids)) for device in volume.devices or ()]


@contextlib.contextmanager
def _one(
    name: str, volume: VolumeConfig, device: str, journal: Journal, uuids: Sequence[UUID]
) -> Iterator[tuple[Drive, str]]:
    key = f"volumes.{name}"
    try:
        drive = drives.look(device, f"{key}.devices")
        history = journal.of(device)
        if history.confirmed is None:
            raise RunFailed(f"{device}: nobody has confirmed that everything on it may be destroyed")
        if history.claim is not None:
            raise RunFailed(f"{device} was not given back by an earlier run: storagelab volumes undo {journal.results}")
        _refuse(drive, volume, key, refusals.Background(history.confirmed, history.released))
        # Refuse the drive if it has content that the user was not shown.
        seen = (*(history.confirmed.holds or ()), drives.UNKNOWN_DATA)
        new = [one for one in drive.holds or () if one not in seen]
        if new:
            raise RunFailed(f"{drive.id} now also holds {drives.listed(new)}; nothing is done to it")
    except PreflightError as error:
        raise RunFailed(str(error)) from error
    lba_format = drives.formats(drive.name).now.number if drive.nvme and _is_to_be_formatted(drive, volume) else None
    with held(drive) as own:
        own.refuse_another()
        table, before = uuid4(), drives.uuids_on(drive.name) | drives.table_uuid(drive)
        claim = journal.claimed(drive, lba_format, before | set(map(str, (*uuids, table))))
        try:
            yield drive, _prepare(own, volume, journal, claim, table)
        finally:
            _give_back(own, claim, journal)


def _prepare(held: OpenDrive, volume: VolumeConfig, journal: Journal, claim: Claim, table: UUID) -> str:
    """Makes the drive blank, and formats and partitions it as the volume asks. Returns the kernel's name of the device
    to use. This device has no old signatures.
    """
    drive = held.drive
    _clear(held, journal, claim.token)
    if _is_to_be_formatted(drive, volume):
        chosen = drives.formats(drive.name).with_sectors(volume.sector_bytes or 0)
        if chosen is None:
            raise RunFailed(f"{drive.id} has no format with sectors of {volume.sector_bytes} B")
        _do(held, journal, f"nvme format --lbaf={chosen.number}", partial(drives.format_to, drive.name, chosen.number))
    _discard(held, journal)
    _do(held, journal, f"mark {drive.name}", partial(drives.mark, drive.name, claim.token))
    if volume.share == 1:
        settle()
        return drive.name
    size = size_for(drive.size_bytes, volume.share)
    sector = sector_bytes(drive.name) or 512
    _do(held, journal, f"partition of {size} bytes", partial(make, drive.name, size, sector, table))
    return only_one(drive.name)


def _do(held: OpenDrive, journal: Journal, what: str, step: Callable[[], object]) -> None:
    journal.step(held.drive, what)
    held.refuse_another()
    step()


def _clear(held: OpenDrive, journal: Journal, token: str) -> None:
    """Removes partitions and signatures, so that no program recognises the former content.

    The mark is written first. After a kill, it distinguishes the remains from data that others write later. Marking the
    drive overwrites its partition table, so the partitions are cleared first.
    """
    name = held.drive.name
    for device in (*drives.partitions_of(name), name):
        _do(held, journal, f"mark {device}", partial(drives.mark, device, token))
        _do(held, journal, f"wipefs --all {device}", partial(said, "wipefs", "--all", "--force", f"/dev/{device}"))
    if drives.partitions_of(name):
        _do(held, journal, "forget the partitions", partial(forget, name))


def _discard(held: OpenDrive, journal: Journal) -> None:
    if held.drive.discards:
        discard = partial(said, "blkdiscard", "--force", f"/dev/{held.drive.name}", patience_s=_DISCARDS_S)
        _do(held, journal, "blkdiscard", discard)


# --- giving back ------------------------------------------------------------------------------------------------------


def _give_back(held: OpenDrive, claim: Claim, journal: Journal) -> None:
    drive = held.drive
    held.refuse_another()
    for part in (*drives.partitions_of(drive.name), drive.name):
        file_systems.take_down(part)
    _clear(held, journal, claim.token)
    if claim.lba_format is not None and drives.formats(drive.name).now.number != claim.lba_format:
        step = partial(drives.format_to, drive.name, claim.lba_format)
        _do(held, journal, f"nvme format --lbaf={claim.lba_format}", step)
    _discard(held, journal)
    drives.unmark(drive.name, claim.token)  # needed if the drive can't discard
    journal.released(drive)


def put_back(journal: Journal, may_wipe: Collection[str] = ()) -> list[str]:
    """Gives back the drives that are still claimed because a run was killed. Returns descriptions of the steps.
    Raises RunFailed.

    A drive is wiped if its content is only storagelab's, or if its serial number is in `may_wipe`.
    """
    done, problems = [], []
    if (left := journal.left()) and os.geteuid() != 0:
        raise RunFailed(f"only root may give drives back\n  as root: storagelab volumes undo {journal.results}")
    for claim, is_known in left:
        try:
            found = drives.look(claim.drive.id, "devices")
            if not found.model_copy(update={"size_bytes": claim.drive.size_bytes}).is_same_as(claim.drive):
                raise RunFailed(f"{claim.drive.id} is now another drive, serial {found.serial}; nothing is done to it")
            # The kernel may have given the drive another name since it was claimed.
            with held(claim.drive.model_copy(update={"name": found.name})) as own:
                found = drives.look(claim.drive.id, "devices")  # the programs of the killed run have ended now
                journal.refuse_claimed_by_others(found)
                _refuse_used(found, claim)
                others = _of_others(found, claim, is_known)
                if is_known:
                    set_queue(found.name, journal.of(claim.drive.id).queue)
                if others is None:
                    journal.released(own.drive)
                    done.append(f"{claim.drive.id} is given back as it is: nothing of storagelab's is on it")
                    continue
                if others and found.serial not in may_wipe:
                    raise RunFailed(
                        f"{claim.drive.id} may hold what storagelab did not make; nothing is done to it\n  {others}\n"
                        f"  if nobody needs that: storagelab volumes undo {journal.results} --yes-wipe {found.serial}\n"
                        f"  to keep it: delete {REGISTRY / found.key}.json, and begin a new campaign: --results FOLDER"
                    )
                _give_back(own, claim, journal)
        except (PreflightError, RunFailed) as error:
            problems.append(str(error))
            continue
        done.append(f"{claim.drive.id} is blank again: its last run had not given it back")
    if problems:
        again = f"when you have solved this, give the drives back: storagelab volumes undo {journal.results}"
        raise RunFailed("\n".join([*problems, f"  {again}"]))
    return done


def _refuse_used(drive: Drive, claim: Claim) -> None:
    """Raises RunFailed or PreflightError if `run` would refuse the drive. Content and devices that storagelab made are
    no reason to refuse it.
    """
    strange = [f"it is mounted at {one}" for one in drives.mounted_from(drive.name) if "/storagelab-" not in one]
    parts = (drive.name, *drives.partitions_of(drive.name))
    for holder in (one for part in parts for one in file_systems.holders(part)):
        mapped = read_text(node_of(holder) / "dm" / "name")
        if mapped and not mapped.startswith("storagelab-"):
            strange.append(f"{mapped} is made of it")
        elif not mapped and not _known(drives.uuids_on(drive.name), claim):
            strange.append(f"{holder} is made of it")
    if not strange and (drive.of_the_system or drives.HELD in drive.used_by):
        strange = list(drive.used_by)
    if strange:
        raise RunFailed(
            f"{drive.id} has been used for something else since the killed run: {', '.join(strange)}; storagelab does "
            "not change the drive\n  if nobody needs the new use, end it; if the drive should keep it, delete "
            f"{REGISTRY / drive.key}.json and begin a new campaign: --results FOLDER"
        )
    for error in refusals.refusals(drive.model_copy(update={"used_by": (), "holds": ()}), VolumeConfig(), "volumes"):
        raise error


def _of_others(drive: Drive, claim: Claim, is_known: bool) -> str | None:
    """Describes the drive's content if it may belong to others. "" if all content is storagelab's and must be removed.
    Returns None if nothing must be removed.
    """
    parts = drives.partitions_of(drive.name)
    formatted = claim.lba_format is not None and drives.formats(drive.name).now.number != claim.lba_format
    found = drives.contents(drive)
    if not is_known:
        return None if drive.holds == claim.drive.holds and not formatted else found
    uuids, table = drives.uuids_on(drive.name), drives.table_uuid(drive)
    if drives.is_marked(drive.name, claim.token):
        return "" if _known(uuids, claim, or_none=True) else found
    if drive.holds == () and not parts and (not formatted or drives.is_blank(f"/dev/{drive.name}", whole=True)):
        return "" if formatted else None
    if drive.holds == claim.drive.holds and not _known({*uuids, *table}, claim):
        return None  # as it was when it was claimed, so no step was made
    own = _known(uuids, claim, or_none=_known(table, claim)) and all(_is_own(part, claim) for part in parts)
    without = [one for one in drives.without_uuid(drive.name) if not (_known(table, claim) and one in ("gpt", "PMBR"))]
    return "" if own and not without else found


def _is_own(part: str, claim: Claim) -> bool:
    """Whether all content of the partition belongs to the claim. That the partition is in storagelab's partition table
    is no proof of this.
    """
    by_uuid = _known(drives.uuids_on(part), claim)
    return by_uuid or drives.is_marked(part, claim.token) or drives.is_blank(f"/dev/{part}", whole=True)


def _known(uuids: Collection[str], claim: Claim, *, or_none: bool = False) -> bool:
    """Whether all of these UUIDs belong to the claim. They are compared without hyphens, because LVM writes the hyphens
    of a UUID elsewhere. Without UUIDs, the answer is `or_none`.
    """
    made = {one.replace("-", "").lower() for one in claim.made}
    return (or_none or bool(uuids)) and all(one.replace("-", "").lower() in made for one in uuids)


# --- what is read back ------------------------------------------------------------------------------------------------


def checks(name: str, volume: VolumeConfig, used: Sequence[tuple[Drive, str]]) -> Iterator[Check]:
    """Compares the drives with what the spec asks for."""
    for drive, device in used:
        size = size_for(drive.size_bytes, volume.share) if volume.share < 1 else None
        pairs = {
            "serial": (drive.serial, drives.serial_of(drive.name)), "size": (size, size_bytes(device)),
            "sector": (volume.sector_bytes, sector_bytes(drive.name)),
        }  # fmt: skip
        yield from compared(name, pairs, "/sys/class/block")


def facts(used: Sequence[tuple[Drive, str]]) -> list[dict[str, object]]:
    """The facts about the drives that a run stores. They include the bytes ever written to each drive."""
    of_drive = {"id", "serial", "model", "firmware", "size_bytes"}
    return [
        {**drive.model_dump(include=of_drive), "device": device, "written_in_its_life_bytes": written_in_life(drive)}
        for drive, device in used
    ]


def with_written(
    facts: Sequence[dict[str, object]], before: Sequence[int | None], used: Sequence[Drive]
) -> list[dict[str, object]]:
    """The same facts after a run, with the bytes that the run wrote, from the drives' own counters. `before` has the
    counters at the start of the run. They are needed, because an earlier run may have used the same volume.
    """
    found = []
    for fact, was, drive in zip(facts, before, used, strict=True):
        now = written_in_life(drive)
        written = {} if now is None or was is None else {"written_by_the_run_bytes": now - was}
        found.append({**fact, "written_in_its_life_bytes": was, **written})
    return found


def written_in_life(drive: Drive) -> int | None:
    """The bytes ever written to the drive, as the drive counts them, or None if it does not report them."""
    return drives.written_in_its_life(drive.name) if drive.nvme else None
