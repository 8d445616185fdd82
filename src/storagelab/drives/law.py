"""The law of a measured drive: requests a second by block size, share of reads, requests in progress and order.

A lone request takes a time of its own, and its data take theirs. If others are in progress, both take longer: so many requests
are served at once, so many pass data at once, and `knee` says how suddenly the rest begin to wait (1: soon, as with a
queue at each part of the drive; 8: not before all parts are busy). Limits on requests and bytes a second cut off what remains. The simulator's drives of
kind "measured" (crates/sim/src/devices/measured.rs) obey the same law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

KNEES = (1, 2, 4, 8)
"""Powers of two, since the simulator takes roots only as square roots, which are the same on every machine."""
LIMITS = ("reads_per_s", "writes_per_s", "ios_per_s", "read_bytes_per_s", "write_bytes_per_s", "bytes_per_s")


@dataclass(frozen=True)
class Law:
    """The figures. Times are of a lone request; `*_data_bytes_per_s` is how fast its data pass, beside that time."""

    read_ns: float
    write_ns: float
    read_in_order_ns: float
    write_in_order_ns: float
    read_data_bytes_per_s: float
    write_data_bytes_per_s: float
    reads_parallel: float
    writes_parallel: float
    data_parallel: float
    knee: int
    limits: dict[str, float]
    """By a name of LIMITS; a limit that was not reached is missing."""

    def requests_per_s(self, *, block_bytes: Any, read_share: Any, depth: Any, sequential_share: Any = 0.0) -> Any:
        """Requests a second; numbers or arrays of them. A depth below 1 is a drive that is idle for a part of the time."""
        progressing = np.maximum(depth, 1.0)
        mean_s = read_share * self._latency_s("read", block_bytes, progressing, sequential_share) + (
            1 - read_share
        ) * self._latency_s("write", block_bytes, progressing, sequential_share)
        most = depth / mean_s
        for name, per_s in self.limits.items():
            most = np.minimum(most, per_s / np.maximum(_use(name, block_bytes, read_share), 1e-12))
        return most

    def _latency_s(self, direction: str, block_bytes: Any, progressing: Any, sequential_share: Any) -> Any:
        reads = direction == "read"
        random_ns, in_order_ns = (
            (self.read_ns, self.read_in_order_ns) if reads else (self.write_ns, self.write_in_order_ns)
        )
        data_per_s = self.read_data_bytes_per_s if reads else self.write_data_bytes_per_s
        alone_s = (random_ns + (in_order_ns - random_ns) * sequential_share) / 1e9
        parallel = self.reads_parallel if reads else self.writes_parallel
        of_data_s = block_bytes / data_per_s * self._stretch(progressing, self.data_parallel)
        return alone_s * self._stretch(progressing, parallel) + of_data_s

    def _stretch(self, progressing: Any, parallel: float) -> Any:
        """How many times as long it takes as alone."""
        return (1 + (progressing**self.knee - 1) / parallel**self.knee) ** (1 / self.knee)


def _use(limit: str, block_bytes: Any, read_share: Any) -> Any:
    """How much of a limit one request takes, on average."""
    share = read_share if limit.startswith("read") else 1 - read_share if limit.startswith("write") else 1.0
    return share * (block_bytes if "bytes" in limit else 1.0)
