"""Checks of a plan's cells that all engines with servers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from storagelab.machine import host
from storagelab.model.config import Config
from storagelab.model.loads.base import GeneratedLoad
from storagelab.servers.interfaces import tables_of
from storagelab.volumes.folders import Site
from storagelab.words.numbers import significant

# --- against memory --------------------------------------------------------------------------------------------------
#
# Notes for `plan`: how a load's data compares with the memory that may hold it.


_GIB, _MIB = 2**30, 2**20


class Memory(NamedTuple):
    """What may hold data: the server's buffers (setting and size) and the machine's memory; None = unknown.
    `cached`: the server reads and writes through the kernel's page cache.
    """

    setting: str
    buffers_bytes: int | None
    machine_bytes: int | None
    cached: bool


def here() -> int | None:
    """The memory of this machine."""
    found = host.describe_host().get("memory_bytes")
    return found if isinstance(found, int) else None


def note(load: GeneratedLoad, unit_bytes: int, memory: Memory, *, dropped: bool = False) -> str:
    """How the data of `load` compares with the memory, or what is unknown. One unit of the load takes `unit_bytes`;
    `dropped`: the page cache is empty when a run begins.
    """
    buffers = memory.setting + (f" ({_size(memory.buffers_bytes)})" if memory.buffers_bytes else "")
    data = data_bytes(load, unit_bytes)
    if data is None:
        return (
            f"how much data {load.data.text} is not known before a run, so it can't be compared with memory: what fits "
            f"into {buffers} never needs the drive again"
        )
    text = f"the data of {load.kind} {load.data.text} takes about {_size(data)}"
    if memory.buffers_bytes is None:
        return f"{text}; how large {buffers} is on the server is not known"
    parts = [_times(data / memory.buffers_bytes, memory.setting)]
    parts += [_times(data / memory.machine_bytes, "the machine's memory")] if memory.machine_bytes else []
    text = f"{text}, {' and '.join(parts)}"
    if data < memory.buffers_bytes:
        return f"{text}: it fits, so this measures memory and the log, not the drive of the data"
    if not memory.cached:
        return text
    if memory.machine_bytes is None:
        return f"{text}; how much memory the server's machine has for its page cache is not known"
    if data < memory.machine_bytes:
        if dropped:
            return (
                f"{text}: the page cache, which is dropped before a run, can hold it, so only "
                "first reads reach the drive"
            )
        return f"{text}: the kernel's page cache can hold it, so few reads reach the drive"
    return text


def _times(share: float, of: str) -> str:
    return f"{significant(share, 2)} times {of}" if share >= 1 else f"{significant(share, 2)} of {of}"


def data_bytes(load: GeneratedLoad, unit_bytes: int) -> int | None:
    """The size of a generator's tables and indexes; None if the user's own files make them."""
    units = load.data.units
    return None if units is None else round(units * unit_bytes)


def _size(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:.2g} GiB" if size_bytes >= _GIB else f"{size_bytes / _MIB:.3g} MiB"


def by_how(configs: Sequence[Config]) -> tuple[list[Config], list[Config]]:
    """The cells with private servers, and those with attached servers."""
    return [one for one in configs if not one.target.attached], [one for one in configs if one.target.attached]


def check_generators(configs: Sequence[Config], site: Site, programs: Callable[[Config], Path]) -> list[str]:
    """Finds each cell's generator and its scripts, and describes the generators. `programs` is the folder of a
    private server's programs. Raises PreflightError for what is missing.
    """
    return [
        tables_of(one)(one, site.prefix, None).check(site, None if one.target.attached else programs(one))
        for one in configs if one.generated
    ]  # fmt: skip


def memory_notes(configs: Sequence[Config], memory: Callable[[Config], Memory]) -> list[str]:
    """How each cell's data compares with the memory that holds it."""
    notes = [
        note(one.generated_load, tables_of(one).unit_bytes, memory(one), dropped=one.between_runs.drop_page_cache)
        for one in configs if one.generated
    ]  # fmt: skip
    return list(dict.fromkeys(notes))
