"""What lies between drives and the file system: RAID, striped logical volumes, encryption, added latency."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID, uuid4

from storagelab.model.config import VolumeConfig
from storagelab.model.measurement import Check
from storagelab.volumes import arrays, delays, encryption, logical_volumes, programs, stacks

_STRIPED = "striped"


@dataclass
class Stacked:
    """One device made of several, by the kernel's name, and how its layers are read back."""

    device: str
    looks: list[Callable[[], Iterable[Check]]] = field(default_factory=list)
    """Each reads one layer back."""
    facts: dict[str, object] = field(default_factory=dict)

    def read_back(self) -> Iterator[Check]:
        """How the layers are now."""
        for look in self.looks:
            yield from look()


def check(volume: VolumeConfig, key: str) -> None:
    """Raises PreflightError if this machine lacks what the layers need."""
    level = volume.raid_level
    if level is None and volume.encryption is None and volume.added_latency_ms is None:
        return
    needed = [*stacks.PROGRAMS, "wipefs"]
    if level == _STRIPED:
        logical_volumes.check(f"{key}.raid_level")
        needed += logical_volumes.PROGRAMS
    elif level is not None:
        arrays.check(level, f"{key}.raid_level")
        needed += arrays.PROGRAMS
    if volume.encryption is not None:
        encryption.check(f"{key}.encryption")
        needed += encryption.PROGRAMS
    if volume.added_latency_ms is not None:
        delays.check(f"{key}.added_latency_ms")
        needed += delays.PROGRAMS
    programs.check(needed, key)


def steps(volume: VolumeConfig) -> Iterator[str]:
    """What is done to make the layers, in words."""
    count, chunk_bytes = len(volume.devices or ()), volume.raid_chunk_size_bytes
    if volume.raid_level == _STRIPED:
        yield logical_volumes.step(count, chunk_bytes)
    elif volume.raid_level is not None:
        yield arrays.step(volume.raid_level, count, chunk_bytes)
    if volume.encryption is not None:
        yield encryption.step(volume.encryption_sector_bytes, volume.encryption_flags)
    if volume.added_latency_ms is not None:
        yield delays.step(volume.added_latency_ms)


@contextlib.contextmanager
def stacked(name: str, volume: VolumeConfig, devices: Sequence[str], uuids: Sequence[UUID]) -> Iterator[Stacked]:
    """Makes one device of these (the kernel's names), and takes it apart at the end. What is made on each of them gets
    its UUID. Raises RunFailed.
    """
    own = f"storagelab-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as undo:
        stack = Stacked(devices[0])
        if volume.raid_level == _STRIPED:
            _stripe(undo, stack, name, volume, devices, own, uuids)
        elif volume.raid_level is not None:
            uuid = uuids[0]
            level, chunk_bytes = volume.raid_level or "", volume.raid_chunk_size_bytes
            began = time.perf_counter()
            stack.device = undo.enter_context(arrays.made(devices, level, chunk_bytes, own, uuid))
            stack.facts["raid"] = arrays.facts(stack.device, time.perf_counter() - began)
            stack.looks.append(partial(arrays.checks, name, stack.device, level, len(devices), chunk_bytes))
        if volume.encryption is not None:
            is_lowest = stack.device == devices[0]
            _encrypt(undo, stack, name, volume, f"{own}-luks", uuids[0] if is_lowest else uuid4())
        if volume.added_latency_ms is not None:
            own, delay_ms = f"{own}-delay", volume.added_latency_ms
            stack.device = undo.enter_context(delays.added(stack.device, delay_ms, own))
            stack.looks.append(partial(delays.checks, name, own, delay_ms))
        yield stack


def _stripe(
    undo: contextlib.ExitStack, stack: Stacked, name: str, volume: VolumeConfig, devices: Sequence[str], own: str,
    uuids: Sequence[UUID],
) -> None:  # fmt: skip
    stack.device = undo.enter_context(logical_volumes.made(devices, volume.raid_chunk_size_bytes, own, uuids))
    stack.facts["logical_volume"] = logical_volumes.facts(devices, own)
    count, chunk_bytes = len(devices), volume.raid_chunk_size_bytes
    stack.looks.append(lambda: logical_volumes.checks(name, logical_volumes.facts(devices, own), count, chunk_bytes))


def _encrypt(undo: contextlib.ExitStack, stack: Stacked, name: str, volume: VolumeConfig, own: str, uuid: UUID) -> None:
    sector_bytes, flags, discards = volume.encryption_sector_bytes, volume.encryption_flags, bool(volume.trim)
    opened = encryption.opened(stack.device, sector_bytes, flags, own, uuid, discards=discards)
    stack.device = undo.enter_context(opened)
    stack.facts["encryption"] = encryption.facts(own)
    stack.looks.append(lambda: encryption.checks(name, encryption.facts(own), sector_bytes, flags, discards=discards))


def take_down(device: str) -> None:
    """Unmounts and takes apart what a killed run left on the device. Raises RunFailed."""
    arrays.remove([device])
