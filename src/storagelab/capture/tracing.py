"""Reads the kernel's trace points: a server's requests to the operating system, and the writes of file systems
themselves.

tracefs is read through a detached mount. The mount ends with this process, even if the process is killed.

Records are read from rings, which are memory that the kernel shares with this process (`perf_event_open`). Each event
has a ring for each CPU. So all records in a ring have the same length, and numpy reads many at once. The kernel closes
the rings when the process ends, even after a kill. Records that come while a ring is full are lost. The kernel counts
them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_MOUNTED = Path("/sys/kernel/tracing")
# The numbers of these system calls are the same on every architecture (asm-generic/unistd.h).
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_FSCONFIG_CMD_CREATE = 6
_CLOSE_ON_EXEC = 1
_FIELD = re.compile(
    r"field:(?P<declared>[^;]+);\s*offset:(?P<offset>\d+);\s*size:(?P<size>\d+);\s*signed:(?P<signed>\d)"
)
_TYPES = {"0": "u", "1": "i"}
_PID_OFFSET = 4
"""The offset of the thread's ID (`common_pid`), which is the same in every event."""


class Field(NamedTuple):
    """A field of an event: its offset in the record, and its type in numpy."""

    offset: int
    type: str


class Event(NamedTuple):
    """A trace point of the kernel. `flags` maps the names of flags to their bits, as the kernel describes them."""

    name: str
    number: int
    fields: dict[str, Field]
    flags: dict[str, int]


class NoTracing(Exception):
    """The error if the kernel's trace points can't be read. `str()` says why."""


def open_tracefs() -> int:
    """A descriptor of the root folder of tracefs. Raises NoTracing."""
    if os.geteuid() != 0:
        raise NoTracing("only root may use the kernel's trace points")
    if (_MOUNTED / "events").is_dir():
        return os.open(_MOUNTED, os.O_RDONLY | os.O_DIRECTORY)
    libc = ctypes.CDLL(None, use_errno=True)
    context = libc.syscall(_FSOPEN, b"tracefs", _CLOSE_ON_EXEC)
    if context < 0:
        raise NoTracing(f"this kernel has no tracefs ({os.strerror(ctypes.get_errno())})")
    try:
        made = libc.syscall(_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        mount = libc.syscall(_FSMOUNT, context, _CLOSE_ON_EXEC, 0) if made >= 0 else -1
        if mount < 0:
            raise NoTracing(f"tracefs can't be mounted here ({os.strerror(ctypes.get_errno())})")
        return int(mount)
    finally:
        os.close(context)


def event(root: int, name: str) -> Event | None:
    """The trace point with this name (`group/name`), or None if this kernel lacks it."""
    folder = Path(f"/proc/self/fd/{root}/events/{name}")
    try:
        number, text = ((folder / file).read_text("ascii") for file in ("id", "format"))
    except OSError:
        return None
    fields = {
        match["declared"].split()[-1]: Field(int(match["offset"]), _TYPES[match["signed"]] + match["size"])
        for match in _FIELD.finditer(text)
    }
    flags = {flag: 1 << int(bit) for bit, flag in re.findall(r'\(1 << (\d+)\), "([A-Z_]+)"', text)}
    return Event(name, int(number), {**fields, "pid": Field(_PID_OFFSET, "i4")}, flags)


# --- records, through rings -------------------------------------------------------------------------------------------


Records = np.ndarray[Any, np.dtype[Any]]
_CALLS = {"x86_64": 298, "aarch64": 241}
_TRACEPOINT = 2
_TIME, _RAW = 1 << 2, 1 << 10
_DISABLED, _USE_CLOCKID = 1 << 0, 1 << 25
_MONOTONIC = 1
_ATTRIBUTE = struct.Struct("=IIQQQQQIIQQQQIiQIHH")
_ENABLE, _DISABLE, _SET_FILTER = 0x2400, 0x2401, 0x40082406
_SAMPLE, _LOST = 9, 2
_HEADER = struct.Struct("=IHH")
_HEAD, _TAIL = 1024, 1032
"""The offsets of two positions in a ring's first page: up to where the kernel has written, and storagelab has read."""
_DATA = 20
"""The offset of a record's own fields. Before them are its header, time and length."""
RING_BYTES = 8 << 20


class Rings:
    """The rings of one event, one for each CPU. `filtered` is an expression for the kernel's event filter."""

    def __init__(self, event: Event, filtered: str, ring_bytes: int = RING_BYTES) -> None:
        """Opens the rings, and starts the trace. Raises NoTracing."""
        self._event = event
        self._rings: list[tuple[int, mmap.mmap]] = []
        self._size = ring_bytes
        self._forms: dict[tuple[Sequence[str], int], np.dtype[Any]] = {}
        self.lost = 0
        try:
            for cpu in _cpus():
                self._open(cpu, filtered)
            self.run(on=True)
        except BaseException:
            self.close()
            raise

    def _open(self, cpu: int, filtered: str) -> None:
        kinds = _ATTRIBUTE.pack(
            _TRACEPOINT, _ATTRIBUTE.size, self._event.number, 1, _TIME | _RAW, 0, _DISABLED | _USE_CLOCKID,
            0, 0, 0, 0, 0, 0, 0, _MONOTONIC, 0, 0, 0, 0,
        )  # fmt: skip
        call = _CALLS.get(platform.machine())
        if call is None:
            raise NoTracing(f"storagelab can't trace on {platform.machine()}")
        libc = ctypes.CDLL(None, use_errno=True)
        number = libc.syscall(call, kinds, -1, cpu, -1, 8)  # 8: programs that are started don't inherit it
        if number < 0:
            if ctypes.get_errno() == errno.ENODEV:  # the CPU was just removed
                return
            raise NoTracing(f"the kernel refuses the event {self._event.name} ({os.strerror(ctypes.get_errno())})")
        try:
            fcntl.ioctl(number, _SET_FILTER, filtered.encode() + b"\0")
            ring = mmap.mmap(number, mmap.PAGESIZE + self._size)
        except OSError as error:
            os.close(number)
            raise NoTracing(f"the event {self._event.name} can't be read ({error.strerror})") from error
        self._rings.append((number, ring))

    def run(self, *, on: bool) -> None:
        """Continues the trace (`on`), or pauses it."""
        for number, _ in self._rings:
            fcntl.ioctl(number, _ENABLE if on else _DISABLE, 0)

    def drain(self, wanted: Sequence[str]) -> Records:
        """The events since the last call, with `time_ns`, `pid` and the fields `wanted`. They are not in the order of
        time.
        """
        names = ("pid", *wanted)
        parts = [part for _, ring in self._rings for part in self._records(self._taken(ring), names)]
        return np.concatenate(parts) if parts else np.empty(0, self._form(names, 0))

    def _taken(self, ring: mmap.mmap) -> bytes:
        head, tail = (struct.unpack_from("=Q", ring, place)[0] for place in (_HEAD, _TAIL))
        begin, end = tail % self._size, head % self._size
        if head == tail:
            return b""
        first = mmap.PAGESIZE
        wraps = end <= begin
        taken = ring[first + begin : first + (self._size if wraps else end)] + (
            ring[first : first + end] if wraps else b""
        )
        struct.pack_into("=Q", ring, _TAIL, head)
        return taken

    def _records(self, taken: bytes, names: Sequence[str]) -> list[Records]:
        """The records in these bytes. Between them are reports of lost records, whose numbers are added to `lost`."""
        found, at = [], 0
        while at < len(taken):
            kind, _, length = _HEADER.unpack_from(taken, at)
            if kind == _LOST:
                self.lost += struct.unpack_from("=Q", taken, at + 16)[0]
            elif kind == _SAMPLE:
                some = np.frombuffer(taken, self._form(names, length), (len(taken) - at) // length, at)
                others = np.flatnonzero((some["record_kind"] != _SAMPLE) | (some["record_bytes"] != length))
                some = some[: others[0]] if others.size else some
                found.append(some)
                at += length * len(some)
                continue
            at += length
        return found

    def _form(self, names: Sequence[str], length: int) -> np.dtype[Any]:
        """The numpy type of a record of this length."""
        if (names, length) not in self._forms:
            fields = {name: (self._event.fields[name].type, _DATA + self._event.fields[name].offset) for name in names}
            whole = {"record_kind": ("u4", 0), "record_bytes": ("u2", 6), "time_ns": ("u8", 8), **fields}
            kinds, offsets = zip(*whole.values(), strict=True)
            form = {"names": [*whole], "formats": kinds, "offsets": offsets, "itemsize": length or max(offsets) + 8}
            self._forms[names, length] = np.dtype(form)  # type: ignore[call-overload]
        return self._forms[names, length]

    def close(self) -> None:
        while self._rings:
            number, ring = self._rings.pop()
            with contextlib.suppress(OSError, BufferError):
                ring.close()
            os.close(number)


def _cpus() -> list[int]:
    """The numbers of the CPUs that are online."""
    with open("/sys/devices/system/cpu/online", encoding="ascii") as file:
        parts = [part.partition("-") for part in file.read().strip().split(",")]
    return [cpu for first, _, last in parts for cpu in range(int(first), int(last or first) + 1)]


# --- a server's requests: which thread requested which bytes ----------------------------------------------------------


READ, WRITE, SYNC = 0, 1, 2
Column = np.ndarray[Any, np.dtype[Any]]
_FORM = np.dtype(
    [
        ("time_ns", "u8"), ("pid", "i4"), ("device", "u8"), ("inode", "u8"), ("offset", "i8"), ("bytes", "i8"),
        ("operation", "u1"), ("source", "u1"),
    ]
)  # fmt: skip
_PAGE = os.sysconf("SC_PAGE_SIZE")


_EXT4, _XFS = "ext4", "xfs"
TRACED = (_EXT4, _XFS)
"""The file systems on which reads and writes are traced for each file."""


class _Point(NamedTuple):
    """A trace point for requests on one file system. `operation` is None if the event's flags show it."""

    name: str
    on: str
    operation: int | None
    span: tuple[str, ...] = ()
    """The fields with the first byte and the length, or with the first and the last page. The value is empty for a
    request without bytes.
    """
    only: str = ""
    """A filter for the events that count, in the language of the kernel's event filters. It uses the names of flags."""
    inode: str = "ino"
    device: str = "dev"

    @property
    def fields(self) -> tuple[str, ...]:
        return self.inode, self.device, *self.span, *(("flags",) if self.operation is None else ())


_POINTS = (
    _Point("filemap/mm_filemap_get_pages", _EXT4, READ, ("index", "last_index"), inode="i_ino", device="s_dev"),
    # The last event of a request has length 0, and does not count.
    _Point("iomap/iomap_iter", _EXT4, None, ("pos", "length"), only="length > 0 && flags & {DIRECT}"),
    _Point("ext4/ext4_da_write_begin", _EXT4, WRITE, ("pos", "len")),
    _Point("ext4/ext4_write_begin", _EXT4, WRITE, ("pos", "len")),
    _Point("ext4/ext4_sync_file_enter", _EXT4, SYNC),
    *(
        _Point(f"xfs/xfs_file_{way}_{verb}", _XFS, kind, ("offset", "count"))
        for way in ("buffered", "direct")
        for verb, kind in (("read", READ), ("write", WRITE))
    ),
    _Point("xfs/xfs_file_fsync", _XFS, SYNC),
)
_ENDS = (
    _Point("ext4/ext4_sync_file_exit", _EXT4, SYNC),
    # Traced only for direct I/O on which the thread waits, and only for few files, because each event costs time.
    _Point("iomap/iomap_dio_complete", _EXT4, WRITE, only="aio == 0 && ({files})"),
)
"""The trace points at the ends of requests. XFS has none at the end of a sync."""


class Traces:
    """The rings of several events, which are started and paused together."""

    def __init__(self) -> None:
        self.rings: list[Rings] = []

    @contextlib.contextmanager
    def _opening(self) -> Iterator[int]:
        """Gives the root of tracefs, to open rings. If one ring can't be opened, closes all rings. Raises NoTracing."""
        root = open_tracefs()
        try:
            yield root
        except BaseException:
            self.close()
            raise
        finally:
            os.close(root)

    def run(self, *, on: bool) -> None:
        """Continues the traces (`on`), or pauses them."""
        for rings in self.rings:
            rings.run(on=on)

    def close(self) -> None:
        while self.rings:
            self.rings.pop().close()


class Tracer(Traces):
    """Traces the requests of threads with these names, through the kernel's trace points. A name is e.g. `postgres`, or
    a pattern such as `iou-wrk*`.
    """

    def __init__(self, threads: Collection[str], filesystems: Collection[str], timed: Collection[int] = ()) -> None:
        """`timed` are the inode numbers of the files for which the end of direct I/O is traced. Raises NoTracing."""
        self.points: tuple[str, ...] = ()
        self.missing: tuple[str, ...] = ()
        self.ended = np.empty(0, _FORM)
        """The ends of requests that the last `drain` read."""
        super().__init__()
        self._traced: list[tuple[_Point, Event]] = []
        filtered = " || ".join(f'comm ~ "{name}"' for name in threads)
        files = " || ".join(f"ino == {number}" for number in timed) or "ino == 0"
        with self._opening() as root:
            for point in (point for point in (*_POINTS, *_ENDS) if point.on in filesystems):
                one = event(root, point.name)
                if one is None or not set(point.fields) <= one.fields.keys():
                    self.missing += () if point in _ENDS else (point.name,)
                else:
                    only = f"({filtered}) && {point.only.format(files=files, **one.flags)}" if point.only else filtered
                    self.rings.append(Rings(one, only))
                    self._traced.append((point, one))
                    self.points += (point.name,)
        if not {point.name for point in _POINTS} & set(self.points):
            raise NoTracing(f"no trace points for {', '.join(sorted(filesystems)) or 'this file system'}")

    @property
    def lost(self) -> int:
        """The number of events that were lost because a ring was full."""
        return sum(rings.lost for rings in self.rings)

    def drain(self) -> Records:
        """The requests since the last call, sorted by time. Stores the ends of requests in `ended`."""
        parts, of_ends = [np.empty(0, _FORM)], [np.empty(0, _FORM)]
        # The ends are read first. So when an end is read, its request has already been recorded.
        for number, ((point, one), rings) in reversed(list(enumerate(zip(self._traced, self.rings, strict=True)))):
            if len(some := rings.drain(point.fields)):
                (of_ends if point in _ENDS else parts).append(_requests(number, point, one, some))
        self.ended = np.concatenate(of_ends)
        whole = np.concatenate(parts)
        return put_together(whole[np.argsort(whole["time_ns"], kind="stable")])


def _requests(number: int, point: _Point, one: Event, some: Records) -> Records:
    found = np.empty(len(some), _FORM)
    found["time_ns"], found["pid"], found["source"] = some["time_ns"], some["pid"], number
    found["device"], found["inode"] = some[point.device], some[point.inode]
    found["offset"], found["bytes"] = (some[name].astype("i8") for name in point.span) if point.span else (0, 0)
    if "last_index" in point.span:
        found["bytes"] = (found["bytes"] - found["offset"] + 1) * _PAGE
        found["offset"] *= _PAGE
    by_flag = point.operation is None
    found["operation"] = np.where(some["flags"] & one.flags["WRITE"], WRITE, READ) if by_flag else point.operation
    return found


def put_together(some: Records) -> Records:
    """Removes duplicates, so that each request is there once. The kernel reports a large request in parts. Each part
    has the remaining bytes. So parts of a thread's requests to a file are one request if they have the same end and
    ascending beginnings. If two trace points report the same part, the first one counts.
    """
    order = np.argsort(some["pid"], kind="stable")
    sorted_ = some[order]
    before, after = sorted_[:-1], sorted_[1:]
    same = np.ones(len(after), bool)
    for name in ("pid", "inode", "device", "operation"):
        same &= before[name] == after[name]
    same &= before["offset"] + before["bytes"] == after["offset"] + after["bytes"]
    further = before["offset"] < after["offset"]
    told_twice = (before["offset"] == after["offset"]) & (before["source"] != after["source"])
    same &= (after["operation"] != SYNC) & (further | told_twice)
    keep = np.ones(len(some), bool)
    keep[order[1:][same]] = False
    return some[keep]


# --- writes of file systems themselves: journal, metadata, and flushes without data
# ------------------------------------


_RING_BYTES = 1 << 20
_SECTOR_BYTES = 512
_OF_METADATA = 'rwbs ~ "*W*M*"'
_WRITE = 'rwbs ~ "*W*"'
_BLOCK = Path("/sys/class/block")


class OwnWrites(NamedTuple):
    """The writes that a file system makes in addition to the server's data. The kernel's counts of writes
    include them.
    """

    requests: int
    bytes: int
    flushes: int
    """Writes without data."""


class FileSystems(Traces):
    """Counts the writes that the file systems on these devices make themselves. `devices` maps names to devices, as in
    /sys/class/block.

    If a file system asks for a flush, the kernel counts a flush and also a write without bytes. So a device has more
    writes than the server requested.
    """

    def __init__(self, devices: Mapping[str, str]) -> None:
        """Opens the rings. Raises NoTracing."""
        super().__init__()
        self.counts = dict.fromkeys(devices, OwnWrites(0, 0, 0))
        with self._opening() as root:
            for device in devices.values():
                place = (_BLOCK / device).resolve()
                # A stacked device completes no requests itself, so the requests that are sent to it are counted.
                stacked = any((place / kind).is_dir() for kind in ("dm", "md"))
                point = event(root, "block/block_bio_queue" if stacked else "block/block_rq_complete")
                if point is None or "nr_sector" not in point.fields:
                    raise NoTracing("this kernel lacks the trace points of block devices")
                try:
                    here, of_disk = _places(place)
                except OSError as error:
                    raise NoTracing(f"a device can't be read ({error.strerror})") from error
                filters = (
                    f"{here} && nr_sector > 0 && {_OF_METADATA}",
                    f"{of_disk} && nr_sector == 0 && {_WRITE} && !({_OF_METADATA})",
                )
                for one in filters:
                    self.rings.append(Rings(point, one, _RING_BYTES))

    def drain(self) -> None:
        """Reads the records in the rings, and adds them to `counts`."""
        for (name, known), *pair in zip(self.counts.items(), self.rings[::2], self.rings[1::2], strict=True):
            own, empty = (rings.drain(("nr_sector",))["nr_sector"] for rings in pair)
            self.counts[name] = OwnWrites(
                known.requests + len(own), known.bytes + int(own.sum()) * _SECTOR_BYTES, known.flushes + len(empty)
            )

    def begin(self) -> None:
        """Starts counting at 0."""
        self.drain()
        self.counts = dict.fromkeys(self.counts, OwnWrites(0, 0, 0))


def _places(device: Path) -> tuple[str, str]:
    """Two filters: for requests to a device, and for requests to its whole disk. Flushes need the second one, because
    they have no address.
    """
    if not (device / "partition").exists():
        whole = f"dev == {_number(device)}"
        return whole, whole
    begin, length = (int((device / name).read_text("ascii")) for name in ("start", "size"))
    whole = f"dev == {_number(device.parent)}"
    return f"{whole} && sector >= {begin} && sector < {begin + length}", whole


def _number(device: Path) -> int:
    """The device's number in the form that trace points use."""
    major, minor = (device / "dev").read_text("ascii").split(":")
    return int(major) << 20 | int(minor)
