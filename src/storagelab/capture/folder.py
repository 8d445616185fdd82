"""The values of a capture, the folder with its files, and the interface of the captured server.

manifest.json     a description of the capture and its server
io.csv            reads and writes of each object, in requests to the operating system
devices.csv       requests that reached the devices of each volume
requests.iolog    the requests themselves, if `--requests` asks for them

While a capture is in progress, its manifest says that it is incomplete. If the capture is interrupted, this remains so.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from storagelab.errors import StoragelabError, StoreError, first_problem
from storagelab.machine.descriptors import write_whole
from storagelab.machine.disks import read_text
from storagelab.machine.processes import TICKS_PER_S, stat_fields
from storagelab.model.engines import ServerName
from storagelab.model.values import MOST_SECONDS, Amount, Described, Figure, Seconds
from storagelab.spec.given_files import json_of, opened
from storagelab.spec.schema import DIALECT

SCHEMA: Literal["storagelab.capture/1"] = "storagelab.capture/1"

Kind = Literal["table", "index", "toast", "log", "temporary", "other"]
Operation = Literal["read", "write", "sync"]
By = Literal["session", "checkpoint", "log", "background"]


class Volume(Described):
    """A file system that has files of the server."""

    name: str
    """The volume's name in this capture: data, log, or a tablespace's name, with its OID if the name is taken."""
    path: str
    """A folder of the server on the volume, such as its data folder."""
    device: str | None = None
    """The kernel's name of the block device. The value is None if the server is elsewhere or the kernel shows none."""
    filesystem: str | None = None
    """The kind of file system."""
    own_writes: Amount | None = None
    """Writes of the file system itself (journal and metadata) at the device. The value is None if they were not traced.
    """
    own_write_bytes: Amount | None = None
    """The bytes of these writes."""
    flush_writes: Amount | None = None
    """Flushes that the file system asked for. The kernel also counts each of them as a write without bytes."""


class CapturedObject(Described):
    """A table, an index, or something else in the server that has files."""

    id: str
    """The object's name in `io.csv`. Tables and indexes are named schema.name. Each part is in quotes if it contains a
    dot, a blank or #. If another object had this name in the window, the object's OID follows."""
    schema_: str | None = Field(default=None, alias="schema")
    """The object's schema; on MariaDB, its database."""
    name: str
    """The object's name without its schema."""
    kind: Kind
    """The kind of the object. `toast` is the table in which PostgreSQL stores the long values of another table."""
    volume: str
    """The volume that has the object's files."""
    bytes_at_start: Amount | None = None
    """The size of the object's files when the capture began. The value is None if it is unknown."""
    bytes_at_end: Amount | None = None
    """The size of the object's files when the capture ended. The value is None if it is unknown, or if the object was
    dropped.
    """


class Change(Described):
    """An event in the window that affects the figures."""

    second: Seconds
    """The time of the event, in seconds since the start."""
    what: str
    """A description of the event."""


class Sources(Described):
    """Where the figures come from."""

    views: tuple[str, ...] = ()
    """The server's views that were read."""
    trace: tuple[str, ...] | None = None
    """The kernel's trace points. The value is None if tracing was switched off or impossible."""


class Machine(Described):
    """The load of the server's machine: means over the window."""

    cpus: int = Field(ge=1)
    """The machine's CPUs."""
    busy_cpus: Seconds
    """How many of the machine's CPUs were busy."""
    others_cpus: Seconds
    """How many CPUs were busy with other programs than the server and storagelab. Clients of the load count as other
    programs if they run on this machine."""
    steal_cpus: Seconds
    """How many CPUs the hypervisor gave to other guests."""
    run_queue: Seconds
    """The number of tasks that ran or waited for a CPU."""

    @property
    def foreign_share(self) -> float:
        return (self.others_cpus + self.steal_cpus) / self.cpus

    @property
    def crowding(self) -> float:
        """The factor by which other programs may have slowed down the server's work on CPUs. 1 if they did not."""
        stretched = max(1.0, self.run_queue / self.cpus, 1 / max(0.1, 1 - self.steal_cpus / self.cpus))
        return stretched if self.foreign_share >= _FOREIGN else 1.0

    def __str__(self) -> str:
        taken = f"{self.others_cpus + self.steal_cpus:.1f} of its {self.cpus} CPUs"
        return f"other programs used {taken} on average, and {self.run_queue:.1f} tasks ran or waited for one"


IDLE = 0.1
"""If sessions were idle for a larger share of the window than this, the captured rate is not the load's rate."""
_FOREIGN = 0.1
"""If other programs use a smaller share of the CPUs than this, they are ignored."""


class Manifest(Described):
    """A description of the capture, in the file `manifest.json`."""

    schema_: Literal["storagelab.capture/1"] = Field(default=SCHEMA, alias="schema")
    """The format of the folder."""
    storagelab: str
    """The version of storagelab that made the capture."""
    engine: ServerName
    """The database system."""
    server_version: str
    """The server's version, as the server reports it."""
    started_at: str
    """The start of the window, in ISO 8601 and UTC."""
    seconds: Seconds
    """The length of the window."""
    interval_seconds: float = Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)
    """The length of an interval of `io.csv` and `devices.csv`. In these files, `second` is the start of an interval."""
    connections: Seconds | None = None
    """The mean number of sessions that worked at the same time."""
    transactions: Amount | None = None
    """Transactions that ended in the window, as the server counts them. The value is None if it is unknown."""
    unit: Literal["transaction", "unit"] = "transaction"
    """What is counted as a transaction. `unit`: the server does not show all transactions, so COMMITs and autocommitted
    changes are counted."""
    write_transactions: Amount | None = None
    """Transactions that wrote, and so waited for the log. The value is None if it is unknown."""
    cpu_seconds: Seconds | None = None
    """The CPU time that the server used in the window. The value is None if it is unknown."""
    storage_read_bytes: Amount | None = None
    """The bytes that the server's processes read from devices, as the kernel counts them. The value is None if it is
    unknown.
    """
    idle_seconds: Seconds = 0.0
    """The longest period in which no session worked."""
    machine: Machine | None = None
    """The load of the server's machine. The value is None if it is unknown."""
    sources: Sources = Sources()
    """Where the figures come from."""
    cost_percent: Figure | None = None
    """The loss of throughput that capturing caused, from periods with and without a capture. The value is None if it
    was not measured.
    """
    volumes: tuple[Volume, ...] = ()
    """The file systems that have files of the server."""
    objects: tuple[CapturedObject, ...] = ()
    """All objects that have rows in `io.csv`, and all other objects of the server whose sizes are known."""
    changes: tuple[Change, ...] = ()
    """Events in the window that affect the figures."""
    notes: tuple[str, ...] = ()
    """Sentences about missing data, with the reasons."""
    table_bytes: dict[str, Amount] = Field(default_factory=dict)
    """The sizes of `io.csv` and `devices.csv` at the end of the window. They show whether a file was cut off later."""
    complete: bool = True
    """Whether the capture ended normally, or because the user ended it. If not, it was interrupted, and its figures end
    at that time."""


_EMPTY_IS_NONE = BeforeValidator(lambda cell: None if cell == "" else cell)


class IoRow(NamedTuple):
    """The requests of one object to the operating system in one interval. It is a line of `io.csv`."""

    second: Seconds
    object: str
    operation: Operation
    by: By
    requests: Amount
    bytes: Amount
    sequential_requests: Annotated[Amount | None, _EMPTY_IS_NONE] = None
    """Requests that began where the previous request to the same file ended, or None if unknown."""
    seconds: Annotated[Seconds | None, _EMPTY_IS_NONE] = None
    """The time that these requests took, or None if unknown."""


class DeviceRow(NamedTuple):
    """The requests that reached a volume's devices in one interval. It is a line of `devices.csv`."""

    second: Seconds
    volume: str
    operation: Operation
    requests: Amount
    bytes: Amount
    seconds: Annotated[Seconds | None, _EMPTY_IS_NONE] = None


@dataclass(frozen=True)
class Capture:
    """A capture: the content of its folder."""

    manifest: Manifest
    io: tuple[IoRow, ...]
    devices: tuple[DeviceRow, ...]


def capture_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a capture's manifest. It is made from the models that read manifests."""
    return {"$schema": DIALECT, **Manifest.model_json_schema(by_alias=True), "title": "A capture of storagelab"}


MANIFEST, IO, DEVICES, REQUESTS = "manifest.json", "io.csv", "devices.csv", "requests.iolog"
_TABLES = {IO: IoRow._fields, DEVICES: DeviceRow._fields}
_Row = TypeVar("_Row", IoRow, DeviceRow)


def is_capture(path: Path) -> bool:
    """Whether this folder has a capture."""
    return (path / MANIFEST).is_file()


# --- writing ---------------------------------------------------------------------------------------------------------


def is_free(path: Path) -> bool:
    """Whether a capture may be written to this path: nothing is there, or a folder that is empty. Files of a capture
    that was killed before it had a manifest do not count.
    """
    if not path.is_dir():
        return not os.path.lexists(path)
    sizes = {name: len(_lines([fields])) for name, fields in _TABLES.items()}
    return all(
        one.lstat().st_size == sizes.get(one.name) or re.fullmatch(rf"\.({IO}|{DEVICES}|{MANIFEST})\.\d+", one.name)
        for one in path.iterdir()
    )


def begin(path: Path, manifest: Manifest) -> None:
    """Makes the folder with empty tables. Then writes a manifest that says that the capture is incomplete."""
    for name, fields in _TABLES.items():
        write_whole(path / name, [_lines([fields])])
    write_manifest(path, manifest.model_copy(update={"complete": False}))


def append(path: Path, rows: Iterable[IoRow], devices: Iterable[DeviceRow]) -> None:
    """Adds the rows of one interval."""
    for name, some in ((IO, rows), (DEVICES, devices)):
        with (path / name).open("ab") as file:
            file.write(_lines(some))


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Writes the manifest, in place of an earlier one. If the capture is complete, adds the sizes of its tables."""
    if manifest.complete:
        sizes = {name: (path / name).stat().st_size for name in _TABLES}
        manifest = manifest.model_copy(update={"table_bytes": sizes})
    text = json.dumps(manifest.model_dump(by_alias=True, mode="json"), indent=1, ensure_ascii=False) + "\n"
    write_whole(path / MANIFEST, [text.encode()])


def write(path: Path, capture: Capture) -> None:
    """Writes a whole capture."""
    begin(path, capture.manifest)
    append(path, capture.io, capture.devices)
    write_manifest(path, capture.manifest)


def _lines(rows: Iterable[tuple[object, ...]]) -> bytes:
    text = io.StringIO(newline="")
    # 9 digits are enough for a day in microseconds, and hide the rounding errors of binary fractions.
    csv.writer(text, lineterminator="\n").writerows(
        [f"{value:.9g}" if isinstance(value, float) else value for value in row] for row in rows
    )
    return text.getvalue().encode()


# --- reading ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> Capture:
    """The capture in a folder. Raises StoreError, which names the file, the problem and the solution.

    If the capture was interrupted, its length is taken from its rows.
    """
    manifest = _manifest(path / MANIFEST)
    rows = _rows(path / IO, IoRow, complete=manifest.complete)
    devices = _rows(path / DEVICES, DeviceRow, complete=manifest.complete)
    for name, size in manifest.table_bytes.items():
        if (found := (path / name).stat().st_size) != size:
            raise StoreError(f"{path / name}: has {found:,} bytes, but {MANIFEST} says {size:,}\n  {_AGAIN}")
    if not manifest.complete:
        begins = [row.second for row in rows] + [row.second for row in devices]
        ends = [second + manifest.interval_seconds for second in begins]
        manifest = manifest.model_copy(update={"seconds": max([manifest.seconds, *ends])})
    known = {one.id for one in manifest.objects}
    if manifest.complete and (strange := next((row.object for row in rows if row.object not in known), None)):
        raise StoreError(f"{path / IO}: {strange!r} is not among the objects of {MANIFEST}\n  {_AGAIN}")
    return Capture(manifest, rows, devices)


_MOST_BYTES = 2**30
"""The largest size of a file of a capture, in bytes."""
_AGAIN = "Capture again, or take the folder from a backup: its files belong together."


def _manifest(file: Path) -> Manifest:
    try:
        written = json_of(file, _MOST_BYTES)
    except FileNotFoundError:
        raise StoreError(f"{file.parent}: is not the folder of a capture, because it has no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{file}: can't be read: {getattr(error, 'strerror', error)}\n  {_AGAIN}") from None
    schema = written.get("schema") if isinstance(written, dict) else None
    if schema != SCHEMA:
        hint = f"This storagelab reads {SCHEMA}: capture again, or use the version of storagelab that made the capture."
        raise StoreError(f"{file}: schema: is {schema!r}, which is another version's\n  {hint}")
    try:
        return Manifest.model_validate(written)
    except ValidationError as error:
        raise StoreError(f"{file}: {first_problem(error)}\n  {_AGAIN}") from None


def _rows(file: Path, kind: type[_Row], *, complete: bool) -> tuple[_Row, ...]:
    """The rows of a table. In an incomplete capture, the last line may be cut off: then it is left out."""
    try:
        with opened(file, _MOST_BYTES) as content, io.TextIOWrapper(content, encoding="utf-8", newline="") as lines:
            read = list(csv.reader(lines))
    except (OSError, ValueError, csv.Error) as error:
        raise StoreError(f"{file}: can't be read: {getattr(error, 'strerror', error)}\n  {_AGAIN}") from None
    if read[:1] != [list(kind._fields)]:
        raise StoreError(f"{file}: its first line is not {','.join(kind._fields)}\n  {_AGAIN}")
    found, row_of = list[_Row](), TypeAdapter(kind).validate_python
    for number, line in enumerate(read[1:], 2):
        try:
            found.append(row_of(line))
        except ValidationError as error:
            if not complete and number == len(read):
                break
            value = error.errors()[0]["input"]  # if a column is missing, this is the whole line
            told = f", not {value[:60]!r}" if isinstance(value, str) else ""
            raise StoreError(f"{file}: line {number}: {first_problem(error, kind._fields)}{told}\n  {_AGAIN}") from None
    return tuple(found)


# --- the interface of a captured server -------------------------------------------------------------------------------


OTHER_FILES = "other files"
LOG, TEMPORARY = "log", "temporary"
UNKNOWN_FILES = "unknown files"
"""The object for files that were deleted before their names were known."""
ALL_TABLES = "all tables"
"""The object for all tables and indexes together, if the server does not count them separately."""
TOAST = " toast"
"""The ID of an object with a table's long values: the table's ID with this suffix. Both are in the same place."""


_PLAIN = re.compile(r'[^"=+@.\s#-][^".\s#]*')
"""Matches names that need no quotes. Names that a spreadsheet would read as a formula need quotes, too."""


class ServerGone(StoragelabError):
    """The error if the server ended or closed the connection."""


class Thing(NamedTuple):
    """An object with files: a table, an index, the log. `folder` has the object's files; its path is the server's."""

    id: str
    schema: str | None
    name: str
    kind: str
    folder: Path
    bytes: int | None = None
    files: str = ""
    """The server's number for the files of a table. If the number changes, the table has new files."""


class Count(NamedTuple):
    """Cumulative counts of the server. A figure that the server does not count is None."""

    requests: int | None
    bytes: int
    seconds: float | None = None

    def plus(self, other: Count) -> Count:
        """The sum of two counts. The sum's `seconds` are None if the seconds of one of the two counts are unknown."""
        seconds = None if self.seconds is None or other.seconds is None else self.seconds + other.seconds
        return Count((self.requests or 0) + (other.requests or 0), self.bytes + other.bytes, seconds)


NOTHING = Count(0, 0, 0.0)
CountKey = tuple[str, str, str]
"""The key of a count: (object, operation, by)."""


class Counters(NamedTuple):
    """One reading of the server's cumulative counters. `times`: how long requests took, if the server reports that. It
    maps (log or data, operation, by) to the number of requests so far and the sum of their times in seconds.
    """

    counts: dict[CountKey, Count]
    transactions: int | None
    working: int
    """The number of sessions that work now."""
    times: Mapping[CountKey, tuple[int, float]] = MappingProxyType({})
    write_transactions: int | None = None
    """Transactions that wrote, or None if unknown. They are counted at once, but `transactions` may be counted later.
    """
    unit: Literal["transaction", "unit"] = "transaction"
    """`unit`: not all transactions are visible, and `transactions` counts the visible ones."""


class Watched(Protocol):
    """A running server. It is only read, never changed."""

    engine: str
    version: str
    local: bool
    """Whether the server runs on this machine, so that its files can be seen."""
    threads: tuple[str, ...]
    """The names of the server's threads, as the kernel shows them. Some may be patterns."""
    views: tuple[str, ...]
    notes: list[str]
    """Sentences about data that the server does not report, with reasons."""

    def things(self) -> dict[str, Thing]:
        """The server's current objects, by ID."""

    def thing_of(self, path: str) -> Thing | None:
        """The object to which a file belongs, from the last result of `things`. Returns None for files of other
        programs, and for objects that are newer.
        """

    def place_in(self, path: str) -> tuple[str, int]:
        """Where a file is inside its object: the ending of the file's name, and the file's offset in the object."""

    def folders(self) -> Mapping[str, Path]:
        """The server's folders. The keys are names for volumes: data, log, and names of tablespaces."""

    def has(self, thread: int) -> bool:
        """Whether the thread belongs to this server. Also true for a thread that has ended and was found before."""

    def by(self, thread: int) -> str:
        """What kind of thread of the server it is: session, checkpoint, log or background."""

    def counters(self, *, objects: bool) -> Counters:
        """The server's current counters. Those of single objects are read only if `objects`."""

    def processes(self) -> list[int]:
        """The PIDs of the server's processes, the parent first. [] if they can't be seen."""

    def close(self) -> None: ...


def label_of(schema: str, name: str) -> str:
    """A unique label for a table or an index. Quotes tell `a."b.c"` and `"a.b".c` apart."""
    return ".".join(part if _PLAIN.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in (schema, name))


def used_by(pids: list[int]) -> dict[str, float]:
    """What processes have used so far: `server_s` seconds of CPU time, and `read_bytes` from devices, as the kernel
    counts them. Includes the CPU time of ended children of the first process. Figures that can't be read are left out.
    """
    found: dict[str, float] = {}
    for pid in pids:
        if fields := stat_fields(Path(f"/proc/{pid}")):
            ticks = sum(int(field) for field in fields[11 : 15 if pid == pids[0] else 13])
            found["server_s"] = found.get("server_s", 0.0) + ticks / TICKS_PER_S
        if read := read_text(Path(f"/proc/{pid}/io")).partition("\nread_bytes: ")[2].split():
            found["read_bytes"] = found.get("read_bytes", 0.0) + int(read[0])
    return found
