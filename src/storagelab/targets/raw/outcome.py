"""Where a run of raw I/O sends requests, and what it sent: the same for fio and for traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

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
