"""Records of trace points, read through rings that the kernel shares with this process (`perf_event_open`).

Each event has a ring for each CPU, so all records in a ring have one length and numpy reads them at once. The kernel
closes the rings when the process ends, however it ends. What comes while a ring is full is lost, and counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from storagelab.capture.tracefs import Event, NoTracing

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
"""Where a ring's first page says how far the kernel has written, and how far we have read."""
_DATA = 20
"""Where a record's own fields begin: behind header, time and length."""
RING_BYTES = 8 << 20


class Rings:
    """The rings of one event, on all CPUs. `filtered` is in the language of the kernel's event filters."""

    def __init__(self, event: Event, filtered: str, ring_bytes: int = RING_BYTES) -> None:
        """Raises NoTracing."""
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
            _TRACEPOINT, _ATTRIBUTE.size, self._event.number, 1, _TIME | _RAW, 0, _DISABLED | _USE_CLOCKID, 0, 0, 0, 0,
            0,
            0, 0, _MONOTONIC, 0, 0, 0, 0,
        )  # fmt: skip
        call = _CALLS.get(platform.machine())
        if call is None:
            raise NoTracing(f"storagelab can't trace on {platform.machine()}")
        libc = ctypes.CDLL(None, use_errno=True)
        number = libc.syscall(call, kinds, -1, cpu, -1, 8)  # 8: closed when another program is started
        if number < 0:
            if ctypes.get_errno() == errno.ENODEV:  # the CPU was taken out at this moment
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
        """Goes on with the trace, or rests."""
        for number, _ in self._rings:
            fcntl.ioctl(number, _ENABLE if on else _DISABLE, 0)

    def drain(self, wanted: Sequence[str]) -> Records:
        """What came since the last call, without order: `time_ns`, `pid` and the fields `wanted`."""
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
        """The records in the bytes; reports of lost ones between them are added up."""
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
        """The form of a record of this length."""
        if (names, length) not in self._forms:
            self._forms[names, length] = _form(self._event, names, length)
        return self._forms[names, length]

    def close(self) -> None:
        while self._rings:
            number, ring = self._rings.pop()
            with contextlib.suppress(OSError, BufferError):
                ring.close()
            os.close(number)


def _form(event: Event, names: Sequence[str], length: int) -> np.dtype[Any]:
    fields = {name: (event.fields[name].type, _DATA + event.fields[name].offset) for name in names}
    whole = {"record_kind": ("u4", 0), "record_bytes": ("u2", 6), "time_ns": ("u8", 8), **fields}
    return np.dtype(
        {
            "names": list(whole),
            "formats": [kind for kind, _ in whole.values()],
            "offsets": [offset for _, offset in whole.values()],
            "itemsize": length or max(offset + 8 for _, offset in whole.values()),
        }
    )


def _cpus() -> list[int]:
    """The numbers of the CPUs that run."""
    with open("/sys/devices/system/cpu/online", encoding="ascii") as file:
        parts = [part.partition("-") for part in file.read().strip().split(",")]
    return [cpu for first, _, last in parts for cpu in range(int(first), int(last or first) + 1)]
