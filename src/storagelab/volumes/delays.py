"""Latency that is added to every request of a volume, by the kernel's dm-delay."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from storagelab.machine.disks import node_of, read_text
from storagelab.model.measurement import Check
from storagelab.volumes import stacks
from storagelab.volumes.programs import said

PROGRAMS = ("dmsetup",)


def check(key: str) -> None:
    """Raises PreflightError if the kernel can't delay requests."""
    stacks.check_driver(("dm_mod", "dm_delay"), "a volume with added latency", key)


def step(delay_ms: int) -> str:
    """What is done, in words."""
    return f"dmsetup: each read and each write waits {delay_ms} ms more"


@contextlib.contextmanager
def added(device: str, delay_ms: int, name: str) -> Iterator[str]:
    """The kernel's name of a new device whose requests reach `device` so much later, such as "dm-1"; `name` is that of
    the device mapper. Removed at the end. Raises RunFailed.
    """
    sectors = read_text(node_of(device) / "size")
    try:
        said("dmsetup", "create", name, "--table", f"0 {sectors} delay /dev/{device} 0 {delay_ms}")
        yield stacks.made_of(device)
    finally:
        stacks.take_down(device)


def checks(name: str, mapped: str, delay_ms: int) -> Iterator[Check]:
    """Compares the device with what was asked for."""
    table = said("dmsetup", "table", mapped).split()
    got = table[5] if len(table) > 5 and table[2] == "delay" else "none"
    what = f"added latency (ms) of volume {name}"
    yield Check(name=what, asked=str(delay_ms), got=got, ok=got == str(delay_ms), read_from="dmsetup table")
