"""Striped logical volumes by LVM: made with its programs, which see the experiment's devices alone; read back by
`lvs`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from uuid import UUID

from storagelab.errors import RunFailed
from storagelab.model.measurement import Check
from storagelab.volumes import stacks
from storagelab.volumes.programs import said
from storagelab.words.numbers import bytes_

PROGRAMS = ("pvcreate", "vgcreate", "lvcreate", "lvs", "vgremove", "pvremove")
_LV = "volume"
_NO_TRACE = "backup { backup=0 archive=0 }"
"""LVM would keep copies of what it did in /etc."""


def check(key: str) -> None:
    """Raises PreflightError if the kernel lacks the device mapper."""
    stacks.check_driver(("dm_mod",), "a striped logical volume", key)


def step(count: int, stripe_bytes: int | None) -> str:
    """What is done, in words."""
    stripe = f", stripes of {bytes_(stripe_bytes)}" if stripe_bytes else ""
    return f"LVM: a logical volume striped over {count} drives{stripe}"


@contextlib.contextmanager
def made(devices: Sequence[str], stripe_bytes: int | None, name: str, uuids: Sequence[UUID]) -> Iterator[str]:
    """The kernel's name of a new logical volume striped over these devices, such as "dm-0". `name` is its group's.
    Taken apart at the end. Raises RunFailed.
    """
    paths = [f"/dev/{device}" for device in devices]
    stripe = [f"--stripesize={stripe_bytes}b"] if stripe_bytes else []
    try:
        for path, uuid in zip(paths, uuids, strict=True):
            _lvm("pvcreate", devices, "--yes", f"--uuid={as_lvm_writes(uuid)}", "--norestorefile", path)
        _lvm("vgcreate", devices, "--yes", name, *paths)
        _lvm("lvcreate", devices, "--yes", "--type=striped", f"--stripes={len(paths)}", *stripe, "--extents=100%FREE",
             f"--name={_LV}", name)  # fmt: skip
        yield stacks.made_of(devices[0])
    finally:
        stacks.patiently(lambda: _remove(devices))


def as_lvm_writes(uuid: UUID) -> str:
    """A UUID in LVM's own groups of digits."""
    digits, groups = iter(uuid.hex), (6, 4, 4, 4, 4, 4, 6)
    return "-".join("".join(itertools.islice(digits, count)) for count in groups)


def _remove(devices: Sequence[str]) -> None:
    for device in devices:
        stacks.take_down(device)
    for device in devices:
        if "LVM2_member" in said("wipefs", "--noheadings", "--output=TYPE", f"/dev/{device}"):
            # Twice --force: the device is a part of a group, of which nothing is kept.
            _lvm("pvremove", devices, "--yes", "--force", "--force", f"/dev/{device}")


def _lvm(program: str, devices: Sequence[str], *arguments: str) -> str:
    seen = ",".join(f"/dev/{device}" for device in devices)
    return said(program, "--config", _NO_TRACE, "--devices", seen, *arguments)


def facts(devices: Sequence[str], name: str) -> dict[str, object]:
    """What LVM says of the logical volume. Raises RunFailed."""
    columns = "segtype,stripes,stripe_size,lv_size"
    text = _lvm(
        "lvs", devices, "--reportformat=json", "--units=b", "--nosuffix", f"--options={columns}", f"{name}/{_LV}"
    )
    try:
        (one,) = json.loads(text)["report"][0]["lv"]
        return {
            "type": str(one["segtype"]), "stripes": int(one["stripes"]), "stripe_bytes": int(one["stripe_size"]),
            "size_bytes": int(one["lv_size"]),
        }  # fmt: skip
    except (ValueError, KeyError, IndexError) as error:
        raise RunFailed(f"lvs says what storagelab doesn't understand: {text[-400:]}") from error


def checks(name: str, said_of_it: dict[str, object], count: int, stripe_bytes: int | None) -> Iterator[Check]:
    """Compares the logical volume with what was asked for."""
    compared: dict[str, tuple[object, object]] = {"stripes": (count, said_of_it["stripes"])}
    if stripe_bytes:
        compared["stripe size"] = (stripe_bytes, said_of_it["stripe_bytes"])
    for what, (asked, got) in compared.items():
        yield Check(name=f"{what} of volume {name}", asked=str(asked), got=str(got), ok=asked == got, read_from="lvs")
