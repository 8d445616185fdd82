"""How a generated load's data compares with the memory that may hold it, for `plan` to say."""

from __future__ import annotations

from typing import NamedTuple

from storagelab.machine import host
from storagelab.model.workload import GeneratedLoad, Pgbench, Sql, Sysbench
from storagelab.targets.generators.sysbench import is_own

_GIB, _MIB = 2**30, 2**20


class Memory(NamedTuple):
    """What may hold data: the buffers, by the setting's name and size, and the machine's memory, both None where they
    are not known. `cached`: the server reads and writes through the kernel's page cache."""

    setting: str
    buffers_bytes: int | None
    machine_bytes: int | None
    cached: bool


def here() -> int | None:
    """The memory of this machine."""
    found = host.describe_host().get("memory_bytes")
    return found if isinstance(found, int) else None


def note(load: GeneratedLoad, row_bytes: int, scale_bytes: int, memory: Memory) -> str:
    """How the data of `load` compares with the memory, or what is not known. `row_bytes` is what a row of sysbench's
    takes, `scale_bytes` what pgbench's tables of one unit of scale take."""
    buffers = memory.setting + (f" ({_size(memory.buffers_bytes)})" if memory.buffers_bytes else "")
    data = data_bytes(load, row_bytes, scale_bytes)
    if data is None:
        own = "a script of your own makes" if isinstance(load, Sysbench) else "your files make"
        return (
            f"how much data {own} is not known before a run, so nothing can be said of memory: what fits into {buffers} "
            "never needs the drive again"
        )
    said = f"the data of {load.kind} {_amount(load)} takes about {_size(data)}"
    if memory.buffers_bytes is None:
        return f"{said}; how large {buffers} is on the server is not known"
    parts = [f"{data / memory.buffers_bytes:.2g} of {memory.setting}"]
    parts += [f"{data / memory.machine_bytes:.2g} of the machine's memory"] if memory.machine_bytes else []
    said = f"{said}, {' and '.join(parts)}"
    if data < memory.buffers_bytes:
        return f"{said}: it fits, so this measures memory and the log, not the drive of the data"
    if not memory.cached:
        return said
    if memory.machine_bytes is None:
        return f"{said}; how much memory the server's machine has for its page cache is not known"
    if data < memory.machine_bytes:
        return f"{said}: the kernel's page cache can hold it, so few reads reach the drive"
    return said


def data_bytes(load: GeneratedLoad, row_bytes: int, scale_bytes: int) -> int | None:
    """What a generator's tables and indexes take; None where the user's own files make them."""
    if isinstance(load, Pgbench):
        return round(load.scale * scale_bytes * 100 / load.fillfactor)
    if isinstance(load, Sql) or (isinstance(load, Sysbench) and is_own(load)):
        return None
    assert isinstance(load, Sysbench)
    return load.tables * load.table_size * row_bytes


def _amount(load: GeneratedLoad) -> str:
    if isinstance(load, Pgbench):
        return f"at scale {load.scale}"
    assert isinstance(load, Sysbench)
    return f"in {load.tables} table{'s' if load.tables > 1 else ''} of {load.table_size:,} rows"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:.2g} GiB" if size_bytes >= _GIB else f"{size_bytes / _MIB:.3g} MiB"
