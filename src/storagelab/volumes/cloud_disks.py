"""Limits of cloud disks by name: a small list, each entry with its source."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

from pydantic import Field

from storagelab.errors import PreflightError
from storagelab.model.hints import choices, shown
from storagelab.model.limits import LIMITS, BurstConfig, LimitConfig
from storagelab.model.values import Frozen

_GIB = 2**30


class CloudDisk(Frozen):
    """A disk as its provider describes it. Figures per GiB are added to those without."""

    title: str
    source: str
    iops: int = 0
    iops_per_gib: float = 0.0
    least_iops: int = 1
    most_iops: int = 2**31
    bytes_per_s: int
    bytes_per_s_per_gib: float = 0.0
    most_bytes_per_s: int = 2**62
    burst_iops: int | None = None
    burst_credits: int = Field(0, ge=0)

    def limit(self, size_bytes: int) -> LimitConfig:
        """Its limits at this size."""
        gib = size_bytes / _GIB
        iops = min(self.most_iops, max(self.least_iops, round(self.iops + self.iops_per_gib * gib)))
        rate = min(self.most_bytes_per_s, round(self.bytes_per_s + self.bytes_per_s_per_gib * gib))
        burst = None
        if self.burst_iops is not None and self.burst_iops > iops:
            burst = BurstConfig(iops=self.burst_iops, credits=self.burst_credits)
        return LimitConfig(read_iops=iops, write_iops=iops, read_bytes_per_s=rate, write_bytes_per_s=rate, burst=burst)


@cache
def disks() -> dict[str, CloudDisk]:
    """The list, by name."""
    text = resources.files("storagelab.volumes").joinpath("cloud_disks.toml").read_text("utf-8")
    return {name: CloudDisk.model_validate(entry) for name, entry in tomllib.loads(text).items()}


def resolved(limit: LimitConfig, size_bytes: int, key: str) -> LimitConfig:
    """The limit with the figures of the disk that it is like, as far as it has none of its own. Raises PreflightError
    for a name that is not in the list.
    """
    if limit.like is None:
        return limit
    if limit.like not in disks():
        raise PreflightError(
            f"no cloud disk is named {shown(limit.like)}", key=f"{key}.like", hint=choices(limit.like, disks(), "Known")
        )
    of_disk = disks()[limit.like].limit(size_bytes)
    return LimitConfig(
        like=limit.like, burst=limit.burst or of_disk.burst,
        **{name: getattr(limit, name) or getattr(of_disk, name) for name in LIMITS},
    )  # fmt: skip


def rates(limit: LimitConfig) -> dict[str, int]:
    """What is limited, without bursts."""
    return {name: value for name in LIMITS if (value := getattr(limit, name)) is not None}
