"""What only NVMe drives have: formats with other sectors, and counters of their whole life."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from storagelab.errors import RunFailed
from storagelab.machine.disks import HERE, Kernel, node_of
from storagelab.volumes.programs import said

PROGRAMS = ("nvme",)
_UNIT_BYTES = 512_000
"""Drives count what was written in thousands of 512 bytes (NVM Express base specification, SMART / health log)."""

_FORMATS_S = 3600.0


class Format(NamedTuple):
    """One of a drive's LBA formats. `metadata_bytes` lie beside each sector."""

    number: int
    sector_bytes: int
    metadata_bytes: int
    in_use: bool


class Formats(NamedTuple):
    """The LBA formats of a namespace, and what formatting it does to others."""

    formats: tuple[Format, ...]
    protection: int
    """The kind of protection information in use; 0 = none."""
    all_at_once: bool
    """Whether formatting one namespace formats all of the drive."""
    namespaces: int

    @property
    def now(self) -> Format:
        return next(one for one in self.formats if one.in_use)

    def with_sectors(self, sector_bytes: int) -> Format | None:
        """The plain format with such sectors; the one in use if that is one."""
        fitting = [one for one in self.formats if one.sector_bytes == sector_bytes and not one.metadata_bytes]
        return next((one for one in fitting if one.in_use), fitting[0] if fitting else None)


def formats_in(namespace: Mapping[str, Any], controller: Mapping[str, Any], namespaces: int) -> Formats:
    """Reads what `nvme id-ns` and `nvme id-ctrl` answer as JSON."""
    flbas = int(namespace["flbas"])
    now = (flbas & 0xF) | ((flbas >> 5 & 3) << 4)
    found = tuple(
        Format(number, 2 ** int(one["ds"]), int(one["ms"]), in_use=number == now)
        for number, one in enumerate(namespace["lbafs"])
        if int(one["ds"]) >= 9  # others are not available
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
        raise RunFailed(f"nvme id-ns {node} answered what storagelab can't read: {error}") from error
    return found


def namespaces_beside(name: str, kernel: Kernel = HERE) -> int:
    """How many namespaces the drive has, this one among them."""
    beside = node_of(name, kernel).resolve().parent
    return sum(1 for one in beside.glob("nvme*n*") if (one / "size").exists())


def format_to(name: str, number: int) -> None:
    """Formats the namespace, which takes everything off it. Raises RunFailed with the drive's words."""
    said("nvme", "format", f"/dev/{name}", f"--lbaf={number}", "--force", patience_s=_FORMATS_S)


def written_bytes(name: str) -> int | None:
    """Bytes that hosts have written to the drive in its life; None if it doesn't tell."""
    if not Path(f"/dev/{name}").exists():
        return None
    try:
        units = json.loads(said("nvme", "smart-log", f"/dev/{name}", "--output-format=json")).get("data_units_written")
        return int(str(units).replace(",", "")) * _UNIT_BYTES if units is not None else None
    except (RunFailed, ValueError):
        return None
