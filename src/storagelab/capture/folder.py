"""The folder of a capture: written while the server is watched, and read again.

manifest.json     what was captured, and of what
io.csv            what each object read and wrote, in requests to the operating system
devices.csv       what reached the devices of each volume
requests.iolog    the requests themselves, if they were asked for

While a capture goes on, its manifest says that it is not complete. So a folder is whole, or says that it was cut off.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from storagelab.capture.model import SCHEMA, By, Capture, DeviceRow, IoRow, Manifest, Operation
from storagelab.errors import StoreError
from storagelab.machine.descriptors import write_whole
from storagelab.model.values import Amount, Seconds
from storagelab.spec.given_files import json_of, opened

MANIFEST, IO, DEVICES, REQUESTS = "manifest.json", "io.csv", "devices.csv", "requests.iolog"
_OPERATIONS, _BY = frozenset(get_args(Operation)), frozenset(get_args(By))
_Row = TypeVar("_Row", IoRow, DeviceRow)
_figure, _count = TypeAdapter(Seconds).validate_python, TypeAdapter(Amount).validate_python
"""Of the text of a cell. They raise ValueError."""


def is_capture(path: Path) -> bool:
    """Whether this folder holds a capture."""
    return (path / MANIFEST).is_file()


# --- writing ---------------------------------------------------------------------------------------------------------


def begin(path: Path, manifest: Manifest) -> None:
    """Makes the folder, with tables without rows, and last a manifest that says that the capture is not complete."""
    write_whole(path / IO, [_lines([IoRow._fields])])
    write_whole(path / DEVICES, [_lines([DeviceRow._fields])])
    write_manifest(path, manifest.model_copy(update={"complete": False}))


def append(path: Path, rows: Iterable[IoRow], devices: Iterable[DeviceRow]) -> None:
    """Adds the rows of an interval."""
    for name, some in ((IO, rows), (DEVICES, devices)):
        with (path / name).open("ab") as file:
            file.write(_lines(some))


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Writes the manifest whole, in place of an earlier one."""
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
    """The capture in a folder. Raises StoreError, which names the file, what is wrong with it, and the way out.

    If it was cut off, its length is that of its rows.
    """
    manifest = _manifest(path / MANIFEST)
    rows = _rows(path / IO, IoRow, _io_row, complete=manifest.complete)
    devices = _rows(path / DEVICES, DeviceRow, _device_row, complete=manifest.complete)
    if not manifest.complete:
        begins = [row.second for row in rows] + [row.second for row in devices]
        ends = [second + manifest.interval_seconds for second in begins]
        manifest = manifest.model_copy(update={"seconds": max([manifest.seconds, *ends])})
    known = {one.id for one in manifest.objects}
    if manifest.complete and (strange := next((row.object for row in rows if row.object not in known), None)):
        raise StoreError(f"{path / IO}: {strange!r} is not among the objects of {MANIFEST}\n  {_AGAIN}")
    return Capture(manifest, rows, devices)


_MOST_BYTES = 2**30
"""Of a file of a capture."""
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
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise StoreError(f"{file}: {key}: {first['msg']}\n  {_AGAIN}") from None


def _rows(file: Path, kind: type[_Row], row_of: Callable[[list[str]], _Row], *, complete: bool) -> tuple[_Row, ...]:
    """The rows of a table. The last line of a capture that was cut off may be half a line: it is left out."""
    try:
        with opened(file, _MOST_BYTES) as content, io.TextIOWrapper(content, encoding="utf-8", newline="") as lines:
            header, *rest = csv.reader(lines)
    except (OSError, ValueError, csv.Error) as error:
        raise StoreError(f"{file}: can't be read: {getattr(error, 'strerror', error)}\n  {_AGAIN}") from None
    if tuple(header) != kind._fields:
        raise StoreError(f"{file}: its first line is not {','.join(kind._fields)}\n  {_AGAIN}")
    found: list[_Row] = []
    for number, line in enumerate(rest, 2):
        try:
            found.append(row_of(line))
        except (ValueError, IndexError) as error:
            if not complete and number == len(rest) + 1:
                break
            raise StoreError(f"{file}: line {number}: can't be read: {error}\n  {_AGAIN}") from None
    return tuple(found)


def _io_row(line: list[str]) -> IoRow:
    second, name, operation, by, requests, bytes_, sequential, seconds = line
    if operation not in _OPERATIONS or by not in _BY:
        raise ValueError(f"{operation!r} by {by!r} is unknown")
    return IoRow(
        _figure(second), name, operation, by, _count(requests), _count(bytes_),  # type: ignore[arg-type]
        _count(sequential) if sequential else None, _figure(seconds) if seconds else None,
    )  # fmt: skip


def _device_row(line: list[str]) -> DeviceRow:
    second, volume, operation, requests, bytes_, seconds = line
    if operation not in _OPERATIONS:
        raise ValueError(f"{operation!r} is unknown")
    return DeviceRow(
        _figure(second), volume, operation, _count(requests), _count(bytes_),  # type: ignore[arg-type]
        _figure(seconds) if seconds else None,
    )  # fmt: skip
