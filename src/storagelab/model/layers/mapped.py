"""Layers that the kernel's device mapper makes: encryption and added latency."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import Field

from storagelab.model.layers import Layer, LayerKeys, Pairs, Tools, Top
from storagelab.model.loads.base import Rule
from storagelab.model.values import LeftOut

if TYPE_CHECKING:
    from storagelab.model.volume import VolumeConfig


_RULES = tuple(
    Rule(f"volumes.*.{key}", lambda _, volume, key=key: bool(getattr(volume, key)) and volume.encryption is None,
         "is for an encrypted volume", 'Add encryption = "luks2", or leave it out.')
    for key in ("encryption_sector_bytes", "encryption_flags")
)  # fmt: skip


class Keys(LayerKeys):
    rules: ClassVar[tuple[Rule, ...]] = _RULES
    encryption: Annotated[Literal["luks2"] | None, LeftOut("none")] = None
    """Volumes that storagelab makes: `luks2` encrypts the volume with a random key that is not stored."""
    encryption_sector_bytes: Annotated[Literal[512, 1024, 2048, 4096] | None, LeftOut("that of cryptsetup")] = None
    """Encrypted volumes: the number of bytes that are encrypted as one unit."""
    encryption_flags: tuple[
        Literal["no-read-workqueue", "no-write-workqueue", "same-cpu-crypt", "submit-from-crypt-cpus"], ...
    ] = ()
    """Encrypted volumes: flags of the kernel's dm-crypt, such as `["no-read-workqueue", "no-write-workqueue"]`."""
    added_latency_ms: Annotated[int | None, LeftOut("none")] = Field(None, ge=1, le=10_000)
    """Volumes that storagelab makes: the kernel's dm-delay delays every read and every write by this time, as a network
    would."""


# The key is already random, so stretching it like a password would only cost time.
_NO_STRETCHING = ("--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000")
_KEY_BYTES = 64


def layers(volume: VolumeConfig, tools: Tools) -> Iterator[Layer]:
    if volume.encryption is not None:
        sector = f", sectors of {tools.size(size)}" if (size := volume.encryption_sector_bytes) else ""
        flags = "".join(f", {flag}" for flag in volume.encryption_flags)
        yield Layer(
            "encryption",
            f"cryptsetup: LUKS2 with a random key that is kept nowhere{sector}{flags}", ("dm_mod", "dm_crypt"),
            {"cryptsetup": "cryptsetup-bin"}, partial(_encrypted, volume, tools),
        )  # fmt: skip
    if (delay_ms := volume.added_latency_ms) is not None:
        step = f"dmsetup: each read and each write waits {delay_ms} ms more"
        yield Layer(
            "added_latency_ms", step, ("dm_mod", "dm_delay"), {},
            partial(_delayed, delay_ms, tools), hides=False,
        )  # fmt: skip


@contextlib.contextmanager
def _encrypted(
    volume: VolumeConfig, tools: Tools, devices: Sequence[str], own: str, uuids: Sequence[UUID]
) -> Iterator[Top]:
    """Makes an encrypted device. When the device is closed, its data are lost, because the key is not stored."""
    (device,), name, key = devices, f"{own}-luks", secrets.token_hex(_KEY_BYTES)
    sector_bytes, flags = volume.encryption_sector_bytes, [flag.replace("-", "_") for flag in volume.encryption_flags]
    sector = [f"--sector-size={sector_bytes}"] if sector_bytes else []
    tools.said("cryptsetup", "luksFormat", "--type=luks2", "--batch-mode", "--key-file=-", *_NO_STRETCHING, *sector,
               f"--uuid={uuids[0]}", f"/dev/{device}", given=key)  # fmt: skip
    asked = [f"--perf-{flag}" for flag in flags] + (["--allow-discards"] if volume.trim else [])

    def status() -> dict[str, str]:
        lines = (line.partition(":") for line in tools.said("cryptsetup", "status", name).splitlines()[1:])
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
        tools.said("cryptsetup", "open", "--type=luks2", "--key-file=-", *asked, f"/dev/{device}", name, given=key)
        yield Top(tools.made_of(device), {"encryption": status()}, look, "cryptsetup status")
    finally:
        tools.take_apart(device)


@contextlib.contextmanager
def _delayed(delay_ms: int, tools: Tools, devices: Sequence[str], own: str, _: Sequence[UUID]) -> Iterator[Top]:
    (device,), name = devices, f"{own}-delay"

    def look() -> Pairs:
        table = tools.said("dmsetup", "table", name).split()
        got = table[5] if len(table) > 5 and table[2] == "delay" else "none"
        return {"added latency (ms)": (str(delay_ms), got)}

    try:
        sectors = tools.text(tools.node(device) / "size")
        tools.said("dmsetup", "create", name, "--table", f"0 {sectors} delay /dev/{device} 0 {delay_ms}")
        yield Top(tools.made_of(device), {}, look, "dmsetup table")
    finally:
        tools.take_apart(device)
