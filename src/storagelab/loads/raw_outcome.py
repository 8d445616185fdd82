"""Where a run of raw I/O sends requests, and what it sent: the same for fio and for traces."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from storagelab.errors import PreflightError
from storagelab.machine import host
from storagelab.model.latency import Latency, merged

Direction = Literal["read", "write"]


class Place(NamedTuple):
    """Where requests go: storagelab's own file, by its name in its folder, or a device, which is only read. What
    sends them writes nothing else except its logs, in a temporary folder.
    """

    folder: Path
    name: str
    size_bytes: int
    read_only: bool = False
    direct: bool = True


class Done(NamedTuple):
    """Requests in one direction."""

    requests: int
    bytes: int
    latency: Latency | None

    @property
    def block_bytes(self) -> float:
        """Of a request, on average."""
        return self.bytes / self.requests


class Outcome(NamedTuple):
    """What was sent, as its sender counted it.

    `per_s`: requests a second in each second, by direction; `mean_s`: their mean latency in each second, None in one
    without any. `due`: how many requests were to be sent by the end of each second; None if there is always one.
    `io_engine`: fio's own, None without fio. `figures`: results beside those of every run.
    """

    elapsed_s: float
    done: Mapping[Direction, Done]
    cpu_s: float
    per_s: Mapping[Direction, tuple[float, ...]]
    mean_s: Mapping[Direction, tuple[float | None, ...]]
    due: Sequence[int] | None = None
    io_engine: str | None = None
    figures: Mapping[str, float] = MappingProxyType({})

    @property
    def requests(self) -> int:
        return sum(one.requests for one in self.done.values())

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.done.values())

    @property
    def standstill_s(self) -> int:
        """The most whole seconds in a row in which no request ended, though some were due before."""
        longest = now = done = 0
        for second, ended in enumerate(zip(*self.per_s.values(), strict=True)):
            waiting = self.due is None or (second > 0 and self.due[second - 1] > done)
            now = now + 1 if waiting and not sum(ended) else 0
            longest, done = max(longest, now), done + int(sum(ended))
        return longest

    @property
    def latency(self) -> Latency | None:
        return merged(one.latency for one in self.done.values() if one.latency is not None)


def check_direct(path: Path, key: str) -> None:
    """Checks that requests bypass the page cache and reach a drive: a file system in memory has no drive, and some
    file systems refuse O_DIRECT.
    """
    facts = host.describe_volume(path)
    if facts["in_memory"]:
        raise PreflightError(
            f"{path} is on {facts['filesystem']}, which is memory: it has no drive to measure, and no direct I/O",
            key=key,
            hint="name a folder on a drive",
        )  # fmt: skip
    try:
        os.close(os.open(path, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT))  # it has no name, and vanishes when closed
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise PreflightError(
                f"the file system of {path} ({facts['filesystem']}) refuses direct I/O (O_DIRECT)", key=key,
                hint="name a folder on a file system that takes it, such as ext4 or XFS",
            ) from error  # fmt: skip


def sector_bytes(path: Path) -> int | None:
    """The sector size of the device below the file system; None if unknown."""
    facts = host.describe_volume(path)
    for queue in (facts["file_system_queue"], facts["queue"]):
        found = queue.get("logical_block_bytes") if isinstance(queue, dict) else None
        if isinstance(found, int):
            return found
    return None


def device_bytes(path: Path) -> int:
    """The size of a block device. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)
