"""The keys of a limited volume."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from storagelab.model.values import Described, LeftOut

LIMITS = ("read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s")
"""What control groups can limit on a device, by the names of the keys."""
SLICE_S = 0.1
"""Linux, `throtl_slice`: the kernel's control groups admit requests in slices of this length."""
COARSE_BELOW = 10 / SLICE_S
"""Below this many requests a second, a slice admits fewer than 10, and the effective limit may be 10 % or more below
the set one.
"""
Rate = Annotated[int | None, LeftOut("that of `like`, or no limit")]


def effective(key: str, limit: float) -> float:
    """The effective limit per second: the kernel admits a whole number of requests in each slice."""
    per_slice = limit * SLICE_S
    return limit if "bytes" in key or per_slice < 1 else math.floor(per_slice + 1e-9) / SLICE_S


class BurstConfig(Described):
    """A bucket of credits: while it is not empty, the volume may exceed its limit. One credit is one request."""

    iops: int = Field(ge=1, lt=2**32)
    """Reads, and as many writes, a second while there are credits."""
    credits: int = Field(ge=1, lt=2**63)
    """The size of the bucket in credits. Each second, it gets as many credits as the limit allows requests."""
    start: Literal["full", "empty"] = "full"
    """The bucket when a run begins."""


class LimitConfig(Described):
    """The limits of a volume per second. Reads and writes are limited separately, and latency is not imitated."""

    like: Annotated[str | None, LeftOut("none")] = None
    """The name of a cloud disk whose limits apply: `storagelab drives list` lists them. Other keys replace its figures.
    """
    read_iops: Rate = Field(None, ge=1, lt=2**32)
    """Reads a second."""
    write_iops: Rate = Field(None, ge=1, lt=2**32)
    """Writes a second."""
    read_bytes_per_s: Rate = Field(None, ge=4096, lt=2**63)
    """Bytes read a second."""
    write_bytes_per_s: Rate = Field(None, ge=4096, lt=2**63)
    """Bytes written a second."""
    burst: Annotated[BurstConfig | None, LeftOut("that of `like`, or none")] = None
    """Credits with which the volume exceeds its limit on requests for some time."""
