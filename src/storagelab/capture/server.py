"""What a capture asks of a running server of any engine: its objects, whose file is whose, and its own counters."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from storagelab.errors import StoragelabError
from storagelab.machine.disks import read_text
from storagelab.machine.processes import stat_fields

OTHER_FILES = "other files"
SYSTEM_SCHEMAS: Mapping[str, tuple[str, ...]] = {
    "postgres": ("pg_catalog", "information_schema"), "mariadb": ("mysql", "sys", "performance_schema"),
    "sqlserver": (),
}  # fmt: skip
"""Schemas of the servers' own tables, by engine."""
LOG, TEMPORARY = "log", "temporary"
UNKNOWN_FILES = "unknown files"
"""Files that were gone before they could be named."""
ALL_TABLES = "all tables"
"""The tables and indexes together, where the server does not count them singly."""


_PLAIN = re.compile(r'[^".\s#]+')
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class ServerGone(StoragelabError):
    """The server ended, or broke the connection."""


class Thing(NamedTuple):
    """An object with files: a table, an index, the log. `folder` is where they lie, as the server names it."""

    id: str
    schema: str | None
    name: str
    kind: str
    folder: Path
    bytes: int | None = None
    files: str = ""
    """What the server calls its files; they are new if it changes."""


class Count(NamedTuple):
    """What the server itself counted so far; None = it does not count this."""

    requests: int | None
    bytes: int
    seconds: float | None = None


CountKey = tuple[str, str, str]
"""(object, operation, by)"""


class Counters(NamedTuple):
    """A look at the server's counters, all of them growing. `times` are the mean seconds of a request that it can tell
    for kinds of requests: (log or data, operation, by) -> (requests, seconds) so far.
    """

    counts: dict[CountKey, Count]
    transactions: int | None
    working: int
    """Sessions that work at this moment."""
    times: Mapping[CountKey, tuple[int, float]] = MappingProxyType({})
    write_transactions: int | None = None
    """Transactions that changed something, known to the moment, while `transactions` may be late; None if unknown."""
    unit: Literal["transaction", "unit"] = "transaction"
    """`unit`: not all transactions can be told, and `transactions` counts those that can."""


class Watched(Protocol):
    """A running server, looked at and never changed."""

    engine: str
    version: str
    local: bool
    """It runs on this machine, and its files can be seen."""
    threads: tuple[str, ...]
    """Names of its threads, as the kernel shows them; patterns may be among them."""
    views: tuple[str, ...]
    notes: list[str]
    """What it can't tell, and why."""

    def things(self) -> dict[str, Thing]:
        """Its objects now."""
        ...

    def thing_of(self, path: str) -> Thing | None:
        """Whose file this is, by what `things` last saw; None for others' files, and for those of an object that it did
        not see.
        """
        ...

    def place_in(self, path: str) -> tuple[str, int]:
        """Which of an object's files this is: an ending for its name, and the offset at which it begins."""
        ...

    def folders(self) -> Mapping[str, Path]:
        """Its folders by names for volumes: data, log, tablespaces."""
        ...

    def has(self, thread: int) -> bool:
        """Whether this is a thread of it, and not of another server; one that has ended is if it was seen before."""
        ...

    def by(self, thread: int) -> str:
        """What a thread of it does: session, checkpoint, log or background."""
        ...

    def counters(self, *, objects: bool) -> Counters:
        """Its counters now; without those of single objects if they are not wanted."""
        ...

    def processes(self) -> list[int]:
        """Its processes, the one that began the others first; none if they can't be seen."""
        ...

    def close(self) -> None: ...


def label_of(schema: str, name: str) -> str:
    """A name for a table or an index that no other has: `a."b.c"` is not `"a.b".c`."""
    return ".".join(part if _PLAIN.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in (schema, name))


def used_by(pids: list[int]) -> dict[str, float]:
    """What processes used so far, with the ended children of the first: `server_s` of CPUs, and `read_bytes` of
    devices, as the kernel counts them by process; nothing that can't be seen.
    """
    found: dict[str, float] = {}
    for pid in pids:
        if fields := stat_fields(Path(f"/proc/{pid}")):
            ticks = sum(int(field) for field in fields[11 : 15 if pid == pids[0] else 13])
            found["server_s"] = found.get("server_s", 0.0) + ticks / _TICKS_PER_S
        if read := read_text(Path(f"/proc/{pid}/io")).partition("\nread_bytes: ")[2].split():
            found["read_bytes"] = found.get("read_bytes", 0.0) + int(read[0])
    return found
