"""The values of a capture, the folder that holds them, and the server that they come from.

manifest.json     a description of the capture and its server
io.csv            reads and writes of each object, in requests to the operating system
devices.csv       requests that reached the devices of each volume
requests.iolog    the requests themselves, if asked for

While a capture is in progress, its manifest marks it as incomplete. So a folder that was interrupted shows this.
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
    """A file system that holds files of the server."""

    name: str
    """The volume's name in this capture: data, log, or a tablespace's name, with its OID if that name is taken."""
    path: str
    """A folder of the server on the volume, such as its data folder."""
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
    """The kind of the object. `toast` is PostgreSQL's store of a table's long values."""
    volume: str
    """The volume with its files."""
    bytes_at_start: Amount | None = None
    """The size of its files when the capture began; none if unknown."""
    bytes_at_end: Amount | None = None
    """The size of its files when the capture ended; none if unknown or dropped."""


class Change(Described):
    """An event in the window on which the figures depend."""

    second: Seconds
    """The time of the event, in seconds from the start."""
    what: str
    """A description of the event."""


class Sources(Described):
    """Where the figures come from."""

    views: tuple[str, ...] = ()
    """Views of the server."""
    trace: tuple[str, ...] | None = None
    """Trace points of the kernel; none if no trace was asked for or possible."""


class Machine(Described):
    """The load of the server's machine, on average over the window."""

    cpus: int = Field(ge=1)
    """The machine's CPUs."""
    busy_cpus: Seconds
    """The number of the machine's CPUs that were busy."""
    others_cpus: Seconds
    """CPUs busy with programs other than the server and storagelab; clients of the load count if they are on this
    machine."""
    steal_cpus: Seconds
    """CPUs that the hypervisor gave to other guests."""
    run_queue: Seconds
    """The tasks that ran or waited for a CPU."""

    @property
    def foreign_share(self) -> float:
        return (self.others_cpus + self.steal_cpus) / self.cpus

    @property
    def crowding(self) -> float:
        """The factor by which other programs may have slowed the server's work on CPUs; 1: not at all."""
        stretched = max(1.0, self.run_queue / self.cpus, 1 / max(0.1, 1 - self.steal_cpus / self.cpus))
        return stretched if self.foreign_share >= _FOREIGN else 1.0

    def __str__(self) -> str:
        taken = f"{self.others_cpus + self.steal_cpus:.1f} of its {self.cpus} CPUs"
        return f"others than the server took {taken} on average, and {self.run_queue:.1f} tasks ran or waited for one"


IDLE = 0.1
"""If an idle period is longer than this share of the window, the captured rate is not the load's rate."""
_FOREIGN = 0.1
"""If other programs use a smaller share of the CPUs, they don't matter."""


class Manifest(Described):
    """A description of the capture: the file `manifest.json`."""

    schema_: Literal["storagelab.capture/1"] = Field(default=SCHEMA, alias="schema")
    """The form of the folder."""
    storagelab: str
    """The version that made it."""
    engine: ServerName
    """The engine."""
    server_version: str
    """The server's version, as the server reports it."""
    started_at: str
    """The start of the window: ISO 8601, UTC."""
    seconds: Seconds
    """The length of the window."""
    interval_seconds: float = Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)
    """The length of an interval of `io.csv` and `devices.csv`; their `second` is the start of an interval."""
    connections: Seconds | None = None
    """The mean number of sessions that worked at a time."""
    transactions: Amount | None = None
    """Transactions that ended in the window, as the server counts them; none if unknown."""
    unit: Literal["transaction", "unit"] = "transaction"
    """`unit`: not all transactions are visible. COMMITs and autocommitted changes are counted."""
    write_transactions: Amount | None = None
    """Transactions that wrote, and so waited for the log; none if unknown."""
    cpu_seconds: Seconds | None = None
    """The CPU time of the server in the window; none if unknown."""
    storage_read_bytes: Amount | None = None
    """Bytes that the server's processes read from devices, by the kernel's counts; none if unknown."""
    idle_seconds: Seconds = 0.0
    """The longest time in which no session worked."""
    machine: Machine | None = None
    """The load of the server's machine; none if unknown."""
    sources: Sources = Sources()
    """Where the figures come from."""
    cost_percent: Figure | None = None
    """The loss of throughput through capturing, measured in alternation; none if it was not measured."""
    volumes: tuple[Volume, ...] = ()
    """The file systems that hold files of the server."""
    objects: tuple[CapturedObject, ...] = ()
    """Each object that has rows in `io.csv`, and all other objects of the server whose sizes are known."""
    changes: tuple[Change, ...] = ()
    """Events in the window."""
    notes: tuple[str, ...] = ()
    """Missing data with reasons, one sentence for each."""
    table_bytes: dict[str, Amount] = Field(default_factory=dict)
    """The sizes of `io.csv` and `devices.csv` at the end of the window; a truncated file has another size."""
    complete: bool = True
    """The capture ended normally or by the user. If not, it was interrupted, and its figures end there."""


_EMPTY_IS_NONE = BeforeValidator(lambda cell: None if cell == "" else cell)


class IoRow(NamedTuple):
    """The requests of one object to the operating system in one interval: a line of `io.csv`."""

    second: Seconds
    object: str
    operation: Operation
    by: By
    requests: Amount
    bytes: Amount
    sequential_requests: Annotated[Amount | None, _EMPTY_IS_NONE] = None
    """Requests that began where the last request to the same file ended; none if unknown."""
    seconds: Annotated[Seconds | None, _EMPTY_IS_NONE] = None
    """Time spent in these requests; none if unknown."""


class DeviceRow(NamedTuple):
    """The requests that reached a volume's devices in one interval: a line of `devices.csv`."""

    second: Seconds
    volume: str
    operation: Operation
    requests: Amount
    bytes: Amount
    seconds: Annotated[Seconds | None, _EMPTY_IS_NONE] = None


@dataclass(frozen=True)
class Capture:
    """A capture, as its folder holds it."""

    manifest: Manifest
    io: tuple[IoRow, ...]
    devices: tuple[DeviceRow, ...]


def capture_schema() -> dict[str, Any]:
    """The schema of a capture's manifest, in JSON Schema's draft 2020-12, from the same models that read it."""
    return {"$schema": DIALECT, **Manifest.model_json_schema(by_alias=True), "title": "A capture of storagelab"}


MANIFEST, IO, DEVICES, REQUESTS = "manifest.json", "io.csv", "devices.csv", "requests.iolog"
_TABLES = {IO: IoRow._fields, DEVICES: DeviceRow._fields}
_Row = TypeVar("_Row", IoRow, DeviceRow)


def is_capture(path: Path) -> bool:
    """Whether this folder holds a capture."""
    return (path / MANIFEST).is_file()


# --- writing ---------------------------------------------------------------------------------------------------------


def is_free(path: Path) -> bool:
    """Whether a capture may be written here. This is so if the folder is empty, or has only files of a killed capture
    without a manifest."""
    if not path.is_dir():
        return not os.path.lexists(path)
    sizes = {name: len(_lines([fields])) for name, fields in _TABLES.items()}
    return all(
        one.lstat().st_size == sizes.get(one.name) or re.fullmatch(rf"\.({IO}|{DEVICES}|{MANIFEST})\.\d+", one.name)
        for one in path.iterdir()
    )


def begin(path: Path, manifest: Manifest) -> None:
    """Makes the folder with empty tables. Then it writes a manifest that marks the capture as incomplete."""
    for name, fields in _TABLES.items():
        write_whole(path / name, [_lines([fields])])
    write_manifest(path, manifest.model_copy(update={"complete": False}))


def append(path: Path, rows: Iterable[IoRow], devices: Iterable[DeviceRow]) -> None:
    """Adds the rows of an interval."""
    for name, some in ((IO, rows), (DEVICES, devices)):
        with (path / name).open("ab") as file:
            file.write(_lines(some))


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Writes the whole manifest, and replaces an earlier one. If the capture is complete, it has the tables' sizes."""
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
    # 9 digits keep microseconds over a day, without the noise of binary fractions.
    csv.writer(text, lineterminator="\n").writerows(
        [f"{value:.9g}" if isinstance(value, float) else value for value in row] for row in rows
    )
    return text.getvalue().encode()


# --- reading ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> Capture:
    """The capture in a folder. Raises StoreError, which names the file, the fault, and the way out.

    If the capture was interrupted, its rows give its length.
    """
    manifest = _manifest(path / MANIFEST)
    rows = _rows(path / IO, IoRow, complete=manifest.complete)
    devices = _rows(path / DEVICES, DeviceRow, complete=manifest.complete)
    for name, size in manifest.table_bytes.items():
        if (found := (path / name).stat().st_size) != size:
            raise StoreError(f"{path / name}: has {found:,} bytes, and {MANIFEST} says {size:,}\n  {_AGAIN}")
    if not manifest.complete:
        begins = [row.second for row in rows] + [row.second for row in devices]
        ends = [second + manifest.interval_seconds for second in begins]
        manifest = manifest.model_copy(update={"seconds": max([manifest.seconds, *ends])})
    known = {one.id for one in manifest.objects}
    if manifest.complete and (strange := next((row.object for row in rows if row.object not in known), None)):
        raise StoreError(f"{path / IO}: {strange!r} is not among the objects of {MANIFEST}\n  {_AGAIN}")
    return Capture(manifest, rows, devices)


_MOST_BYTES = 2**30
"""The largest size of a file of a capture."""
_AGAIN = "Capture again, or take the folder from a backup: its files belong together."


def _manifest(file: Path) -> Manifest:
    try:
        written = json_of(file, _MOST_BYTES)
    except FileNotFoundError:
        raise StoreError(f"{file.parent}: is not the folder of a capture, which has a {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{file}: can't be read: {getattr(error, 'strerror', error)}\n  {_AGAIN}") from None
    schema = written.get("schema") if isinstance(written, dict) else None
    if schema != SCHEMA:
        hint = f"This storagelab reads {SCHEMA}: capture again, or use the version that made it."
        raise StoreError(f"{file}: schema: is {schema!r}, another version's\n  {hint}")
    try:
        return Manifest.model_validate(written)
    except ValidationError as error:
        raise StoreError(f"{file}: {first_problem(error)}\n  {_AGAIN}") from None


def _rows(file: Path, kind: type[_Row], *, complete: bool) -> tuple[_Row, ...]:
    """The rows of a table. If a capture was cut off, its last line may be incomplete, and is left out."""
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
            value = error.errors()[0]["input"]  # all of the line if a column is missing
            told = f", not {value[:60]!r}" if isinstance(value, str) else ""
            raise StoreError(f"{file}: line {number}: {first_problem(error, kind._fields)}{told}\n  {_AGAIN}") from None
    return tuple(found)


# --- the server that a capture watches --------------------------------------------------------------------------------


OTHER_FILES = "other files"
LOG, TEMPORARY = "log", "temporary"
UNKNOWN_FILES = "unknown files"
"""Files that were deleted before their names were known."""
ALL_TABLES = "all tables"
"""All tables and indexes together, if the server does not count them separately."""
TOAST = " toast"
"""The id of a table's long values is the table's id with this suffix. They lie where the table lies."""


_PLAIN = re.compile(r'[^"=+@.\s#-][^".\s#]*')
"""A name that needs no quotes; names that a spreadsheet would take for the beginning of a formula are quoted."""


class ServerGone(StoragelabError):
    """The server ended, or broke the connection."""


class Thing(NamedTuple):
    """An object with files: a table, an index, the log. `folder` is the folder of its files, as the server names it."""

    id: str
    schema: str | None
    name: str
    kind: str
    folder: Path
    bytes: int | None = None
    files: str = ""
    """The server's number for the table's files. If the number changes, the files are new."""


class Count(NamedTuple):
    """The server's own counts so far; None for figures that it does not count."""

    requests: int | None
    bytes: int
    seconds: float | None = None

    def plus(self, other: Count) -> Count:
        """The sum of both counts; its seconds are known only if both are."""
        seconds = None if self.seconds is None or other.seconds is None else self.seconds + other.seconds
        return Count((self.requests or 0) + (other.requests or 0), self.bytes + other.bytes, seconds)


NOTHING = Count(0, 0, 0.0)
CountKey = tuple[str, str, str]
"""(object, operation, by)"""


class Counters(NamedTuple):
    """A reading of the server's cumulative counters. `times` has the times of requests that it reports, by kind: (log
    or data, operation, by) -> (requests, seconds) so far.
    """

    counts: dict[CountKey, Count]
    transactions: int | None
    working: int
    """Sessions that work at this moment."""
    times: Mapping[CountKey, tuple[int, float]] = MappingProxyType({})
    write_transactions: int | None = None
    """Transactions that wrote, without delay, while `transactions` may be late; None if unknown."""
    unit: Literal["transaction", "unit"] = "transaction"
    """`unit`: not all transactions are visible, and `transactions` counts the visible ones."""


class Watched(Protocol):
    """A running server, which is read but never changed."""

    engine: str
    version: str
    local: bool
    """The server runs on this machine, and its files can be seen."""
    threads: tuple[str, ...]
    """Names of its threads, as the kernel shows them; patterns may be among them."""
    views: tuple[str, ...]
    notes: list[str]
    """Data that the server does not report, with reasons."""

    def things(self) -> dict[str, Thing]:
        """Its objects now."""

    def thing_of(self, path: str) -> Thing | None:
        """The object of a file, by the last call of `things`; None for other programs' files, and for newer objects."""

    def place_in(self, path: str) -> tuple[str, int]:
        """The place of a file in its object: the ending of the file's name, and its offset in the object."""

    def folders(self) -> Mapping[str, Path]:
        """Its folders by names for volumes: data, log, tablespaces."""

    def has(self, thread: int) -> bool:
        """Whether this is a thread of this server. A thread that has ended counts if it was found before."""

    def by(self, thread: int) -> str:
        """The kind of a thread of the server: session, checkpoint, log or background."""

    def counters(self, *, objects: bool) -> Counters:
        """The server's counters now, with the counters of single objects only if wanted."""

    def processes(self) -> list[int]:
        """Its processes, the parent first; none if they can't be seen."""

    def close(self) -> None: ...


def label_of(schema: str, name: str) -> str:
    """A unique name for a table or an index, because `a."b.c"` is not `"a.b".c`."""
    return ".".join(part if _PLAIN.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in (schema, name))


def used_by(pids: list[int]) -> dict[str, float]:
    """The resources that processes have used, including the ended children of the first process, by the kernel's
    counts: `server_s` of CPU time, and `read_bytes` from devices. Figures that can't be read are left out.
    """
    found: dict[str, float] = {}
    for pid in pids:
        if fields := stat_fields(Path(f"/proc/{pid}")):
            ticks = sum(int(field) for field in fields[11 : 15 if pid == pids[0] else 13])
            found["server_s"] = found.get("server_s", 0.0) + ticks / TICKS_PER_S
        if read := read_text(Path(f"/proc/{pid}/io")).partition("\nread_bytes: ")[2].split():
            found["read_bytes"] = found.get("read_bytes", 0.0) + int(read[0])
    return found
