"""The values of a capture: its manifest, and the rows of what objects and devices read and wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import Field

from storagelab.model.values import MOST_SECONDS, Amount, Described, Figure, Seconds

SCHEMA: Literal["storagelab.capture/1"] = "storagelab.capture/1"

Engine = Literal["postgres", "mariadb", "sqlserver"]
Kind = Literal["table", "index", "toast", "log", "temporary", "other"]
Operation = Literal["read", "write", "sync"]
By = Literal["session", "checkpoint", "log", "background"]


class Volume(Described):
    """A file system that holds files of the server."""

    name: str
    """Its name in this capture: data, log, or that of a tablespace, with its OID if that is called data, too."""
    path: str
    """A folder of the server on it, such as its data folder."""
    device: str | None = None
    """The kernel's name of the block device; none if the server is elsewhere or the kernel names none."""
    filesystem: str | None = None
    """The kind of file system."""
    own_writes: Amount | None = None
    """Writes at the device that are the file system's own: journal and metadata; none if they were not traced."""
    own_write_bytes: Amount | None = None
    """Their bytes."""
    flush_writes: Amount | None = None
    """Flushes that the file system asked for. The kernel counts each as a write without bytes, too."""


class CapturedObject(Described):
    """A table, an index, or another thing of the server that has files."""

    id: str
    """Its name in `io.csv`: schema.name for tables and indexes, each in quotes if it holds a dot, a blank or #.
    If another one had this name in the window, its OID follows."""
    schema_: str | None = Field(default=None, alias="schema")
    """Its schema, or its database on MariaDB."""
    name: str
    """Its name."""
    kind: Kind
    """What it is. `toast` is PostgreSQL's store of a table's long values."""
    volume: str
    """The volume that it lies on."""
    bytes_at_start: Amount | None = None
    """The size of its files when the capture began; none if unknown."""
    bytes_at_end: Amount | None = None
    """The size of its files when the capture ended; none if unknown or dropped."""


class Change(Described):
    """Something that happened in the window and that its figures depend on."""

    second: Seconds
    """When, in seconds from the start."""
    what: str
    """What, in words."""


class Sources(Described):
    """Where the figures come from."""

    views: tuple[str, ...] = ()
    """Views of the server."""
    trace: tuple[str, ...] | None = None
    """Trace points of the kernel; none if it was not asked or could not be."""


class Machine(Described):
    """How busy the server's machine was, on average over the window."""

    cpus: int = Field(ge=1)
    """Its CPUs."""
    busy_cpus: Seconds
    """How many of them were busy."""
    others_cpus: Seconds
    """Those busy with others than the server and storagelab: with clients of the load, too, if they are here."""
    steal_cpus: Seconds
    """Those that the hypervisor gave to others."""
    run_queue: Seconds
    """The tasks that ran or waited for a CPU."""

    @property
    def foreign_share(self) -> float:
        return (self.others_cpus + self.steal_cpus) / self.cpus

    @property
    def crowding(self) -> float:
        """How many times as long the server's work on CPUs may have taken because of others; 1: as long as alone."""
        stretched = max(1.0, self.run_queue / self.cpus, 1 / max(0.1, 1 - self.steal_cpus / self.cpus))
        return stretched if self.foreign_share >= _FOREIGN else 1.0

    def __str__(self) -> str:
        taken = f"{self.others_cpus + self.steal_cpus:.1f} of its {self.cpus} CPUs"
        return f"others than the server took {taken} on average, and {self.run_queue:.1f} tasks ran or waited for one"


IDLE = 0.1
"""A longer idle stretch than this share of the window makes its rate another than the load's."""
_FOREIGN = 0.1
"""Others that take less of the CPUs don't matter."""


class Manifest(Described):
    """What was captured: the file `manifest.json`."""

    schema_: Literal["storagelab.capture/1"] = Field(default=SCHEMA, alias="schema")
    """The form of the folder."""
    storagelab: str
    """The version that made it."""
    engine: Engine
    """The engine."""
    server_version: str
    """The server's version, as it says."""
    started_at: str
    """When the window began: ISO 8601, UTC."""
    seconds: Seconds
    """The length of the window."""
    interval_seconds: float = Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)
    """The length of an interval of `io.csv` and `devices.csv`; their `second` is the begin of one."""
    connections: Seconds | None = None
    """The mean number of sessions that worked at a time."""
    transactions: Amount | None = None
    """Transactions that ended in the window, as the server counts them; none if unknown."""
    unit: Literal["transaction", "unit"] = "transaction"
    """`unit`: not all transactions can be told. Counted are COMMITs, and changes that committed by themselves."""
    write_transactions: Amount | None = None
    """Those of them that changed something, and so waited for the log; none if unknown."""
    cpu_seconds: Seconds | None = None
    """The CPU time of the server in the window; none if unknown."""
    storage_read_bytes: Amount | None = None
    """What the server's processes read from devices, as the kernel counts it by process; none if unknown."""
    idle_seconds: Seconds = 0.0
    """The longest time in which no session worked."""
    machine: Machine | None = None
    """How busy the server's machine was; none if unknown."""
    sources: Sources = Sources()
    """Where the figures come from."""
    cost_percent: Figure | None = None
    """The throughput that capturing cost, measured by turns; none if it was not measured."""
    volumes: tuple[Volume, ...] = ()
    """The file systems that hold files of the server."""
    objects: tuple[CapturedObject, ...] = ()
    """Each object that has rows in `io.csv`, and all others of the server whose sizes are known."""
    changes: tuple[Change, ...] = ()
    """What changed in the window."""
    notes: tuple[str, ...] = ()
    """What is missing and why, a sentence each."""
    complete: bool = True
    """The capture ended by itself or by the user. If not, it was cut off, and the figures end where it was."""


class IoRow(NamedTuple):
    """What one object did in one interval, in requests to the operating system: a line of `io.csv`."""

    second: float
    object: str
    operation: Operation
    by: By
    requests: int
    bytes: int
    sequential_requests: int | None = None
    """Those that began where the last request to the same file ended; none if unknown."""
    seconds: float | None = None
    """Time spent in these requests; none if unknown."""


class DeviceRow(NamedTuple):
    """What reached a volume's devices in one interval: a line of `devices.csv`."""

    second: float
    volume: str
    operation: Operation
    requests: int
    bytes: int
    seconds: float | None = None


@dataclass(frozen=True)
class Capture:
    """A capture, as its folder holds it."""

    manifest: Manifest
    io: tuple[IoRow, ...]
    devices: tuple[DeviceRow, ...]


# --- the JSON schema of a capture's manifest --------------------------------------------------------------------------
#
# It comes from the same models that read it.

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def capture_schema() -> dict[str, Any]:
    """The schema, in JSON Schema's draft 2020-12."""
    return {"$schema": DIALECT, **Manifest.model_json_schema(by_alias=True), "title": "A capture of storagelab"}


def capture_schema_text() -> str:
    """The schema as a file's text."""
    return json.dumps(capture_schema(), indent=1, ensure_ascii=False) + "\n"
