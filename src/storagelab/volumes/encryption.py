"""Encryption by LUKS2 with a key that is made for one volume and kept nowhere: who closes the volume has lost its
data.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from uuid import UUID

from storagelab.model.measurement import Check
from storagelab.volumes import stacks
from storagelab.volumes.programs import said
from storagelab.words.numbers import bytes_

PROGRAMS = ("cryptsetup",)
# The key is random already, so stretching it as a password would only cost time.
_NO_STRETCHING = ("--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000")
_KEY_BYTES = 64


def check(key: str) -> None:
    """Raises PreflightError if the kernel can't encrypt devices."""
    stacks.check_driver(("dm_mod", "dm_crypt"), "an encrypted volume", key)


def step(sector_bytes: int | None, flags: Sequence[str]) -> str:
    """What is done, in words."""
    sector = f", sectors of {bytes_(sector_bytes)}" if sector_bytes else ""
    return f"cryptsetup: LUKS2 with a random key that is kept nowhere{sector}{''.join(f', {flag}' for flag in flags)}"


@contextlib.contextmanager
def opened(
    device: str, sector_bytes: int | None, flags: Sequence[str], name: str, uuid: UUID, *, discards: bool
) -> Iterator[str]:
    """The kernel's name of a new encrypted device on `device`, such as "dm-1"; `name` is that of the device mapper.
    Closed at the end. Raises RunFailed.
    """
    key = secrets.token_hex(_KEY_BYTES)
    sector = [f"--sector-size={sector_bytes}"] if sector_bytes else []
    said("cryptsetup", "luksFormat", "--type=luks2", "--batch-mode", "--key-file=-", *_NO_STRETCHING, *sector,
         f"--uuid={uuid}", f"/dev/{device}", given=key)  # fmt: skip
    asked = [f"--perf-{flag.replace('-', '_')}" for flag in flags] + (["--allow-discards"] if discards else [])
    try:
        said("cryptsetup", "open", "--type=luks2", "--key-file=-", *asked, f"/dev/{device}", name, given=key)
        yield stacks.made_of(device)
    finally:
        stacks.take_down(device)


def facts(name: str) -> dict[str, str]:
    """What cryptsetup says of an open device: `type`, `cipher`, `keysize`, `sector size`, `flags` and others. Raises
    RunFailed.
    """
    lines = (line.partition(":") for line in said("cryptsetup", "status", name).splitlines()[1:])
    return {key.strip(): value.strip() for key, colon, value in lines if colon}


def checks(
    name: str, said_of_it: dict[str, str], sector_bytes: int | None, flags: Sequence[str], *, discards: bool
) -> Iterator[Check]:
    """Compares the encryption with what was asked for."""
    shown = said_of_it.get("flags", "").split()
    compared = {"encryption": ("LUKS2", said_of_it.get("type", "none"))}
    if sector_bytes:
        compared["encrypted sector"] = (str(sector_bytes), said_of_it.get("sector size", "").split(" ")[0])
    for flag in (*(flag.replace("-", "_") for flag in flags), *(["discards"] if discards else [])):
        compared[f"flag {flag} of the encryption"] = ("set", "set" if flag in shown else "not set")
    for what, (asked, got) in compared.items():
        read_from = "cryptsetup status"
        yield Check(name=f"{what} of volume {name}", asked=asked, got=got, ok=asked == got, read_from=read_from)
