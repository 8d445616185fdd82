"""Traces of requests: fio's iologs of versions 2 and 3, and blktrace's binary format. A trace is read and checked
completely before any request is sent.

A trace may name several files. Each of these files gets its own part of storagelab's single file on its volume. The
parts are in the order in which the trace first uses the files."""

from __future__ import annotations

import io
import os
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import ne
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from storagelab.errors import PreflightError
from storagelab.machine.host import memory_available
from storagelab.model.config import Config
from storagelab.model.objects import KEY, LOG, TEMPORARY, Object
from storagelab.spec.given_files import opened
from storagelab.words.numbers import duration, plural

What = Literal["r", "w", "s"]
_BYTES_EACH = 550
"""The largest memory that a request needs, in bytes, in this process and in the sender."""
_LEAST_BYTES_EACH = 20
"""The length of the shortest line of a request, in bytes."""
_ALIGNED = 2**20
_BLKTRACE, _EVENT = 0x65617400, struct.Struct("<IIQQIIIIIHH")
_QUEUED, _SECTOR, _PAGE = 1, 512, 4096
_READS, _WRITES, _FLUSHES, _DISCARDS, _DURABLE = 1 << 16, 1 << 17, 1 << 18, 1 << 29, 1 << 31
_HINT = "record it again, or name another trace"


class Request(NamedTuple):
    """A request. `at_us` is its time since the first request. `what` is read, write or sync. `offset` and `bytes` say
    which bytes the request reads or writes. For a sync, they are those of the synced file. `volume` is the number of
    its volume among the volumes of the layout.
    """

    at_us: int
    what: What
    offset: int
    bytes: int
    volume: int = 0


class Trace(NamedTuple):
    """The content of a trace. `left_out` maps kinds of events that are not sent to their number. `objects` has the
    object of each file in the trace. `widened` is the number of requests for parts of sectors. They are sent as whole
    pages, as the page cache would send them.
    """

    requests: tuple[Request, ...]
    left_out: Mapping[str, int]
    objects: Sequence[Object]
    widened: int

    @property
    def seconds(self) -> float:
        """The time in seconds from the first request to the last."""
        return self.requests[-1].at_us / 1e6

    def asked(self, bytes_each: int) -> list[tuple[int, What, int, int]]:
        """Returns the requests in the form that the core takes, with times in nanoseconds. The files of all volumes, of
        `bytes_each` bytes each, follow each other, and offsets count from the beginning of the first file.
        """
        return [(one.at_us * 1000, one.what, one.volume * bytes_each + one.offset, one.bytes) for one in self.requests]

    @property
    def text(self) -> str:
        kinds = ", ".join(plural(many, kind) for kind, many in self.left_out.items())
        left_out = f"; left out: {kinds}" if kinds else ""
        widened = f"; sent as whole pages of {_PAGE:,} bytes: {self.widened:,}" if self.widened else ""
        return f"the trace has {plural(len(self.requests), 'request')} in {duration(self.seconds)}{widened}{left_out}"

    @property
    def reaches(self) -> int:
        """The smallest size, in bytes, of a volume's file that contains all requests."""
        return max(one.offset + one.bytes for one in self.requests)

    def check_fits(self, file: Path, size_bytes: int, sector_bytes: int) -> None:
        """Raises PreflightError if a request does not fit into a file of that size, or if direct I/O can't send it."""
        for number, one in enumerate(self.requests, 1):
            if one.what == "s":
                continue
            if one.offset + one.bytes > size_bytes:
                raise PreflightError(
                    f"request {number} of {file.name} reaches byte {one.offset + one.bytes:,}, outside of "
                    f"layout.data_size = {size_bytes:,}",
                    file=file, key="workload.trace", hint=f"Set data_size to at least {self.reaches:,} in [layout].",
                )  # fmt: skip
            if one.offset % sector_bytes or one.bytes % sector_bytes:
                raise PreflightError(
                    f"request {number} of {file.name} ({one.bytes:,} bytes at {one.offset:,}) is no whole number "
                    f"of {sector_bytes} B sectors",
                    file=file, key="workload.trace", hint="record it below the file system, where "
                    "requests are whole sectors",
                )  # fmt: skip


def replay_figures(recorded_s: float, elapsed_s: float, io_time_s: float) -> dict[str, float]:
    """Returns figures of a measured or simulated replay: the sum of the times of all requests, the recorded time from
    the first request to the last, and the ratio of the replay's time to the recorded time.
    """
    change = {"time_over_recorded": elapsed_s / recorded_s} if recorded_s else {}
    return {"io_time_s": io_time_s, "recorded_s": recorded_s, **change}


def late_figures(late: Mapping[str, Any]) -> dict[str, float]:
    """Returns how late requests were sent, compared with their recorded times. `late` is a table of the core. The
    result is empty if requests had no times.
    """
    if not late["count"]:
        return {}
    shares = dict(late["per_mille_ns"])
    figures_ns = {"mean": late["mean_ns"], "p50": shares[500], "p99": shares[990], "longest": late["longest_ns"]}
    return {f"late_{name}_s": ns / 1e9 for name, ns in figures_ns.items()}


def read(file: Path, config: Config | None = None) -> Trace:
    """Reads a trace, with its files on the volumes of this layout, or on one volume without a layout. Raises
    PreflightError with the fault and its place.
    """
    names: dict[str, int] = {}
    try:
        with opened(file) as content:
            needed, free = os.fstat(content.fileno()).st_size // _LEAST_BYTES_EACH * _BYTES_EACH, memory_available()
            if needed > free:
                raise _refused(
                    file, f"takes up to {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are available",
                    "cut it into shorter traces: all of a trace is kept in memory",
                )  # fmt: skip
            binary = int.from_bytes(content.read(4), "little") & 0xFFFFFF00 == _BLKTRACE
            content.seek(0)
            found = list((_of_blktrace if binary else _of_iolog)(file, content, names))
    except OSError as error:
        raise _refused(file, f"can't be read: {error.strerror}") from None
    requests = sorted((one for one in found if isinstance(one, Request)), key=lambda one: one.at_us)
    if not any(one.what != "s" for one in requests):
        raise _refused(file, "holds no request")
    first, left_out = requests[0].at_us, Counter(one for one in found if isinstance(one, str))
    whole = [_whole(one) for one in requests]
    objects = [_object(name) for name in names]
    packed = _packed(whole, _volumes(config, objects) if config is not None else [0] * len(names))
    return Trace(
        tuple(one._replace(at_us=one.at_us - first) for one in packed), left_out, objects, sum(map(ne, requests, whole))
    )


def _volumes(config: Config, objects: Sequence[Object]) -> list[int]:
    """Returns, for each file of the trace, the number of its volume among the volumes of the layout."""
    problem = config.placement.problem(objects)
    if problem is not None:
        raise PreflightError(f"{problem.problem} of the trace", key=KEY, hint=problem.hint)
    own = {LOG: config.log_volume, "temporary": config.placed.get(TEMPORARY)}
    placed = [config.placement.volume_of(one) or own.get(one.names[-1] if not one.schema else "") for one in objects]
    return [config.volumes_used.index(volume or config.data_volumes[0]) for volume in placed]


_ENDING = re.compile(r"(_toast)?(_fsm|_vm|_init)?([#.]\d+)?$")
"""Matches the end of a captured file's name, after the name of its table, its index or the log."""


def _object(name: str) -> Object:
    """Returns the object to which a file of the trace belongs. The files have the names that captures give them, for
    example `public.orders_fsm` or `log.3`.
    """
    schema, _, own = _ENDING.sub("", name).rpartition(".")
    return Object((name.removeprefix(f"{schema}."), own), "table", schema)


def _refused(file: Path, what: str, hint: str = _HINT) -> PreflightError:
    return PreflightError(f"{file.name} {what}", file=file, key="workload.trace", hint=hint)


def _of_iolog(file: Path, content: BinaryIO, names: dict[str, int]) -> Iterator[Request | str]:
    """Yields the requests of an iolog, and the kinds of events that are not sent. Adds the files of the trace to
    `names`, with their numbers.
    """
    with io.TextIOWrapper(content, encoding="utf-8", errors="replace") as lines:
        head = lines.readline().strip()
        if head not in ("fio version 2 iolog", "fio version 3 iolog"):
            known = "fio's iologs of versions 2 and 3, and blktrace's binary, are read"
            what = f"is of another version ({head})" if head.startswith("fio version") else "is no trace"
            raise _refused(file, f"{what}: {known}")
        timed, now_us = head.endswith("3 iolog"), 0
        for number, line in enumerate(lines, 2):
            fields = line.split()
            try:
                if not line.endswith("\n"):
                    raise ValueError
                if timed and fields:
                    now_us, fields = int(fields[0]), fields[1:]
                if not fields or fields[1] in ("add", "open", "close"):
                    continue
                if fields[1] == "wait":
                    now_us += int(fields[2])
                    continue
                yield _request(fields, now_us, names)
            except (ValueError, IndexError):
                raise _refused(file, f"is cut off or damaged at line {number}: {line.strip()[:60]!r}") from None


def _request(fields: list[str], at_us: int, names: dict[str, int]) -> Request | str:
    """Returns the request of a line. If the line has an event that is not sent, returns the kind of the event. Raises
    ValueError or IndexError if the line is wrong.
    """
    name, action = fields[:2]
    if not 0 <= at_us < _MOST_US:
        raise ValueError
    if action in ("sync", "datasync"):
        return Request(at_us, "s", names.setdefault(name, len(names)) * _RANGE, 0)
    offset, length = int(fields[2]), int(fields[3])
    if action not in ("read", "write", "trim") or offset < 0 or length <= 0:
        raise ValueError
    if action == "trim":
        return action
    if offset + length > _RANGE:
        raise ValueError
    place = names.setdefault(name, len(names)) * _RANGE + offset
    return Request(at_us, "r" if action == "read" else "w", place, length)


_RANGE = 2**50
"""The number of offsets that each file of a trace has as long as not all files are known. No file is longer."""
_MOST_US = 2**63 // 1000
"""The largest time in a trace, because the core counts nanoseconds in 64 bits."""


def _whole(one: Request) -> Request:
    if one.offset % _SECTOR == one.bytes % _SECTOR == 0:
        return one
    begin = one.offset // _PAGE * _PAGE
    return one._replace(offset=begin, bytes=-(-(one.offset + one.bytes - begin) // _PAGE) * _PAGE)


def _packed(requests: list[Request], volumes: Sequence[int]) -> Iterator[Request]:
    """Yields the requests with their final offsets. On each volume, the files of the trace follow each other without
    gaps, except for alignment. The first file of a volume keeps its offsets.
    """
    ends: dict[int, int] = {}
    for one in requests:
        number = one.offset // _RANGE
        ends[number] = max(ends.get(number, 0), one.offset % _RANGE + one.bytes)
    begins, used = {}, Counter[int]()
    for number in sorted(ends):
        begins[number] = used[volumes[number]]
        used[volumes[number]] += -(-ends[number] // _ALIGNED) * _ALIGNED
    for one in requests:
        number, offset = divmod(one.offset, _RANGE)
        length = ends[number] if one.what == "s" else one.bytes
        yield one._replace(offset=begins[number] + offset if length else 0, bytes=length, volume=volumes[number])


def _of_blktrace(file: Path, content: BinaryIO, names: dict[str, int]) -> Iterator[Request | str]:
    """Yields the requests of the "queue" events in the binary file that `blkparse -d` writes. Its only file is the
    device.
    """
    names[file.name] = 0
    number = 0
    while head := content.read(_EVENT.size):
        number += 1
        if len(head) < _EVENT.size:
            raise _refused(file, f"is cut off in event {number}")
        magic, _, time_ns, sector, length, action, _, device, _, _, more = _EVENT.unpack(head)
        if magic & 0xFFFFFF00 != _BLKTRACE:
            raise _refused(file, f"is damaged at event {number}")
        if len(content.read(more)) < more:
            raise _refused(file, f"is cut off in event {number}")
        if action & 0xFFFF != _QUEUED or device == 0:
            continue
        if sector * _SECTOR + length > _RANGE or time_ns // 1000 >= _MOST_US:
            raise _refused(file, f"is damaged at event {number}: no drive reaches so far, or no trace is so long")
        yield from _queued(time_ns // 1000, sector * _SECTOR, length, action)


def _queued(at_us: int, offset: int, length: int, action: int) -> Iterator[Request | str]:
    """Yields the requests of an event. A flush comes before the write of the same event. After a durable write, a sync
    is yielded, because the write must be on the device before it ends."""
    if action & _FLUSHES:
        yield Request(at_us, "s", 0, 0)
    if action & _DISCARDS:
        yield "trim"
    elif length and action & (_READS | _WRITES):
        yield Request(at_us, "w" if action & _WRITES else "r", offset, length)
        if action & _DURABLE:
            yield Request(at_us, "s", 0, 0)
    elif not action & _FLUSHES:
        yield "empty request"
