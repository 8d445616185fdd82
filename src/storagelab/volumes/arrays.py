"""RAID by Linux's own md: made with mdadm, read back from what the kernel shows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from uuid import UUID

from storagelab.errors import RunFailed
from storagelab.machine.disks import node_of, read_text
from storagelab.machine.processes import until
from storagelab.model.measurement import Check
from storagelab.volumes import stacks
from storagelab.volumes.programs import said
from storagelab.words.numbers import bytes_

PROGRAMS = ("mdadm",)
LEVELS = {"raid0": "raid0", "raid1": "raid1", "raid5": "raid456", "raid10": "raid10"}
"""The driver of each level."""
_SYNCHRONIZED_S = 86400.0
_SYNCHRONIZED = "synchronized"
_AS_FAST_AS_IT_CAN_KIB_PER_S = "10000000"


def check(level: str, key: str) -> None:
    """Raises PreflightError if the kernel lacks the level."""
    stacks.check_driver(("md_mod", LEVELS[level]), f"a {_text(level)}", key)


def step(level: str, count: int, chunk_bytes: int | None) -> str:
    """What is done, in words."""
    chunk = f", chunks of {bytes_(chunk_bytes)}" if chunk_bytes else ""
    wait = "" if level == "raid0" else "; wait until its drives are synchronized"
    return f"mdadm: a {_text(level)} of {count} drives{chunk}{wait}"


def _text(level: str) -> str:
    return f"RAID {level.removeprefix('raid')}"


@contextlib.contextmanager
def made(devices: Sequence[str], level: str, chunk_bytes: int | None, name: str, uuid: UUID) -> Iterator[str]:
    """The kernel's name of a new array of these devices, such as "md127", with nothing left to synchronize: writes of
    that would disturb the runs. Taken apart at the end. Raises RunFailed.
    """
    paths = [f"/dev/{device}" for device in devices]
    chunk = [f"--chunk={chunk_bytes // 1024}"] if chunk_bytes else []
    try:
        said("mdadm", "--create", f"/dev/md/{name}", "--run", "--quiet", "--homehost=any", "--metadata=1.2",
             f"--uuid={uuid}", f"--level={level}", f"--raid-devices={len(paths)}", *chunk, *paths)  # fmt: skip
        array = stacks.made_of(devices[0])
        _synchronize(array)
        yield array
    finally:
        remove(devices)


def _synchronize(array: str) -> None:
    md = node_of(array) / "md"
    with contextlib.suppress(OSError):  # RAID 0 has nothing to synchronize
        for file in ("sync_speed_max", "sync_speed_min"):
            (md / file).write_text(_AS_FAST_AS_IT_CAN_KIB_PER_S)

    def is_synchronized() -> bool:
        _refuse_lost(array)
        return _state(array) == _SYNCHRONIZED

    if not until(is_synchronized, _SYNCHRONIZED_S, pause_s=0.2):
        raise RunFailed(f"{array} is not synchronized after a day: {read_text(md / 'sync_completed')} sectors")


def _state(array: str) -> str:
    """In words, as far as a RAID may have something to synchronize."""
    md = node_of(array) / "md"
    action = read_text(md / "sync_action")  # a level without redundancy has no such file
    missing, synchronized_to = read_text(md / "degraded"), read_text(md / "resync_start")
    if not action or (action, missing, synchronized_to) == ("idle", "0", "none"):
        return _SYNCHRONIZED
    rest = "" if synchronized_to == "none" else f", synchronized to sector {synchronized_to}"
    return f"{action}, {missing} of its drives not in use{rest}"


def _refuse_lost(array: str) -> None:
    """Raises RunFailed if the array has lost a drive: it would never be synchronized."""
    md = node_of(array) / "md"
    asked = stacks.number_in(array, "md/raid_disks") or 0
    kept = [part.name.removeprefix("dev-") for part in md.glob("dev-*") if "faulty" not in read_text(part / "state")]
    if len(kept) < asked:
        raise RunFailed(
            f"{array} has lost {asked - len(kept)} of its {asked} drives; {', '.join(sorted(kept))} is left\n"
            f"  the kernel's log says why (dmesg | grep {array}): a drive that fails, or a program that took it out"
        )


def remove(devices: Sequence[str]) -> None:
    """Takes apart what is made of these devices, and lets none of them say any more that it is a part of an array. udev
    may put an array together again until then, so all of it is tried again. Raises RunFailed.
    """

    def once() -> None:
        for device in devices:
            stacks.take_down(device)
        for device in devices:
            if "linux_raid_member" in said("wipefs", "--noheadings", "--output=TYPE", f"/dev/{device}"):
                said("mdadm", "--zero-superblock", f"/dev/{device}")

    stacks.patiently(once)


def facts(array: str, waited_s: float) -> dict[str, object]:
    """What the kernel shows of the array."""
    md = node_of(array) / "md"
    return {
        "level": read_text(md / "level"), "drives": stacks.number_in(array, "md/raid_disks"),
        "chunk_bytes": stacks.number_in(array, "md/chunk_size"),
        "bitmap": read_text(md / "bitmap" / "location") or "none",
        "metadata": read_text(md / "metadata_version"), "made_and_synchronized_in_s": waited_s,
    }  # fmt: skip


def checks(name: str, array: str, level: str, count: int, chunk_bytes: int | None) -> Iterator[Check]:
    """Compares the array with what was asked for."""
    md = node_of(array) / "md"
    compared = {
        "RAID level": (level, read_text(md / "level")),
        "drives of the RAID": (str(count), read_text(md / "raid_disks")),
        "state of the RAID": (_SYNCHRONIZED, _state(array)),
    }
    if chunk_bytes:
        compared["RAID chunk"] = (str(chunk_bytes), read_text(md / "chunk_size"))
    for what, (asked, got) in compared.items():
        yield Check(name=f"{what} of volume {name}", asked=asked, got=got, ok=asked == got, read_from=str(md))
