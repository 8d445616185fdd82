"""Layers that make one device of several drives: arrays of Linux's own md, or LVM's striped logical volumes."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from storagelab.errors import RunFailed
from storagelab.model.layers import Layer, LayerKeys, Pairs, Tools, Top
from storagelab.model.loads.base import Rule
from storagelab.model.values import LeftOut

if TYPE_CHECKING:
    from storagelab.model.volume import VolumeConfig

_DRIVERS = {"raid0": "raid0", "raid1": "raid1", "raid5": "raid456", "raid10": "raid10"}
_FEWEST_DRIVES = {"raid0": 2, "raid1": 2, "raid5": 3, "raid10": 2, "striped": 2}
_OF_LVM = ("pvcreate", "vgcreate", "lvcreate", "lvs", "vgremove", "pvremove")


_RULES = (
    Rule("volumes.*.devices", lambda _, volume: len(volume.devices or ()) > 1 and volume.raid_level is None,
         "names several drives, and nothing says how they become one volume",
         'Add raid_level: one of "raid0", "raid1", "raid5", "raid10" and "striped".'),
    Rule("volumes.*.raid_level",
         lambda _, volume: len(volume.devices or (None,)) < _FEWEST_DRIVES.get(volume.raid_level, 1),
         "needs more drives than devices names",
         "raid5 needs at least 3 drives, and the others at least 2."),
    Rule("volumes.*.raid_chunk_size",
         lambda _, volume: volume.raid_chunk_size_bytes is not None and volume.raid_level in (None, "raid1"),
         "is for a volume that spreads over drives",
         'Leave it out, or set raid_level to "raid0", "raid5", "raid10" or "striped".'),
    Rule("volumes.*.raid_chunk_size", lambda _, volume: (volume.raid_chunk_size_bytes or 1).bit_count() != 1,
         "must be a power of two", 'For example raid_chunk_size = "64KiB".'),
)  # fmt: skip


class Keys(LayerKeys):
    of_drives = True
    rules: ClassVar[tuple[Rule, ...]] = _RULES
    raid_level: Annotated[
        Literal["raid0", "raid1", "raid5", "raid10", "striped"] | None, LeftOut("a single drive")
    ] = None  # fmt: skip
    """Volumes made of drives: the method that makes one device of several drives. `raid0` to `raid10` are arrays of
    Linux's own md. `striped` is a striped logical volume of LVM. `raid10` also takes two or three drives; then each
    block is on two of them."""
    raid_chunk_size_bytes: Annotated[int | None, LeftOut("that of mdadm or LVM")] = Field(None, ge=4096, le=2**26)
    """Volumes made of drives: the number of bytes that stay together on one drive of a RAID. Must be a power of two."""


def layers(volume: VolumeConfig, tools: Tools) -> Iterator[Layer]:
    level, chunk_bytes, count = volume.raid_level, volume.raid_chunk_size_bytes, len(volume.devices or ())
    if level == "striped":
        stripe = f", stripes of {tools.size(chunk_bytes)}" if chunk_bytes else ""
        yield Layer(
            "raid_level", f"LVM: a logical volume striped over {count} drives{stripe}",
            ("dm_mod",), dict.fromkeys(_OF_LVM, "lvm2"), partial(_logical_volume, chunk_bytes, tools),
        )  # fmt: skip
    elif level is not None:
        chunk = f", chunks of {tools.size(chunk_bytes)}" if chunk_bytes else ""
        wait = "" if level == "raid0" else "; wait until its drives are synchronized"
        yield Layer(
            "raid_level", f"mdadm: a RAID {level.removeprefix('raid')} of {count} drives{chunk}{wait}",
            ("md_mod", _DRIVERS[level]), {"mdadm": "mdadm"}, partial(_array, level, chunk_bytes, tools),
        )  # fmt: skip


# --- RAID: Linux's own md ---------------------------------------------------------------------------------------------

_SYNCHRONIZED_S = 86400.0
_SYNCHRONIZED = "synchronized"
_AS_FAST_AS_IT_CAN_KIB_PER_S = "10000000"


@contextlib.contextmanager
def _array(
    level: str, chunk_bytes: int | None, tools: Tools, devices: Sequence[str], own: str, uuids: Sequence[UUID]
) -> Iterator[Top]:
    """Makes an array, and waits until it is synchronized, because synchronization would disturb the runs."""
    paths = [f"/dev/{device}" for device in devices]
    chunk = [f"--chunk={chunk_bytes // 1024}"] if chunk_bytes else []
    began = time.perf_counter()
    try:
        tools.said(
            "mdadm", "--create", f"/dev/md/{own}", "--run", "--quiet", "--homehost=any", "--metadata=1.2",
            f"--uuid={uuids[0]}", f"--level={level}", f"--raid-devices={len(paths)}", *chunk, *paths,
        )  # fmt: skip
        array = tools.made_of(devices[0])
        md = tools.node(array) / "md"
        _synchronize(array, md, tools)
        facts = {
            "level": tools.text(md / "level"), "drives": _number(tools.text(md / "raid_disks")),
            "chunk_bytes": _number(tools.text(md / "chunk_size")),
            "bitmap": tools.text(md / "bitmap" / "location") or "none",
            "metadata": tools.text(md / "metadata_version"),
            "made_and_synchronized_in_s": time.perf_counter() - began,
        }  # fmt: skip
        yield Top(array, {"raid": facts}, lambda: {
            "RAID level": (level, tools.text(md / "level")),
            "drives of the RAID": (str(len(paths)), tools.text(md / "raid_disks")),
            "state of the RAID": (_SYNCHRONIZED, _state(md, tools)),
            "RAID chunk": (str(chunk_bytes) if chunk_bytes else None, tools.text(md / "chunk_size")),
        }, str(md))  # fmt: skip
    finally:
        tools.take_down(*devices)


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _synchronize(array: str, md: Path, tools: Tools) -> None:
    with contextlib.suppress(OSError):  # RAID 0 is never synchronized, so it lacks these files
        for file in ("sync_speed_max", "sync_speed_min"):
            (md / file).write_text(_AS_FAST_AS_IT_CAN_KIB_PER_S)

    def is_synchronized() -> bool:
        asked = _number(tools.text(md / "raid_disks")) or 0
        parts = (one for one in md.glob("dev-*") if "faulty" not in tools.text(one / "state"))
        left = [one.name.removeprefix("dev-") for one in parts]
        if len(left) < asked:  # an array that lost a drive would never be synchronized
            raise RunFailed(
                f"{array} has lost {asked - len(left)} of its {asked} drives; {', '.join(sorted(left))} is left\n"
                f"  the kernel's log says why (dmesg | grep {array}): a drive that fails, or a program that took it out"
            )
        return _state(md, tools) == _SYNCHRONIZED

    if not tools.until(is_synchronized, _SYNCHRONIZED_S, 0.2):
        raise RunFailed(f"{array} is not synchronized after a day: {tools.text(md / 'sync_completed')} sectors")


def _state(md: Path, tools: Tools) -> str:
    """Returns the state of the RAID as text. A RAID without redundancy always counts as synchronized."""
    action = tools.text(md / "sync_action")  # a level without redundancy has no such file
    missing, synchronized_to = tools.text(md / "degraded"), tools.text(md / "resync_start")
    if not action or (action, missing, synchronized_to) == ("idle", "0", "none"):
        return _SYNCHRONIZED
    rest = "" if synchronized_to == "none" else f", synchronized to sector {synchronized_to}"
    return f"{action}, {missing} of its drives not in use{rest}"


# --- striped logical volumes: LVM's programs may use only the experiment's devices ------------------------------------

_LV = "volume"
_NO_TRACE = "backup { backup=0 archive=0 }"
"""Prevents LVM from storing copies of its metadata in /etc."""


@contextlib.contextmanager
def _logical_volume(
    stripe_bytes: int | None, tools: Tools, devices: Sequence[str], own: str, uuids: Sequence[UUID]
) -> Iterator[Top]:
    paths = [f"/dev/{device}" for device in devices]
    stripe = [f"--stripesize={stripe_bytes}b"] if stripe_bytes else []

    def lvm(program: str, *arguments: str) -> str:
        return tools.said(program, "--config", _NO_TRACE, "--devices", ",".join(paths), *arguments)

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
            raise RunFailed(f"storagelab doesn't understand the output of lvs: {text[-400:]}") from error

    def look() -> Pairs:
        now = facts()
        return {"stripes": (len(paths), now["stripes"]), "stripe size": (stripe_bytes, now["stripe_bytes"])}

    def remove() -> None:
        for device in devices:
            tools.take_apart(device)
        for device in tools.holding("LVM2_member", devices):
            # --force is given twice, because the device is part of a volume group. Nothing of this group is kept.
            lvm("pvremove", "--yes", "--force", "--force", f"/dev/{device}")

    try:
        for path, uuid in zip(paths, uuids, strict=True):
            digits, groups = iter(uuid.hex), (6, 4, 4, 4, 4, 4, 6)  # the lengths of the groups of digits in LVM's UUIDs
            as_lvm_writes = "-".join("".join(itertools.islice(digits, count)) for count in groups)
            lvm("pvcreate", "--yes", f"--uuid={as_lvm_writes}", "--norestorefile", path)
        lvm("vgcreate", "--yes", own, *paths)
        lvm("lvcreate", "--yes", "--type=striped", f"--stripes={len(paths)}", *stripe, "--extents=100%FREE",
            f"--name={_LV}", own)  # fmt: skip
        yield Top(tools.made_of(devices[0]), {"logical_volume": facts()}, look, "lvs")
    finally:
        tools.patiently(remove)
