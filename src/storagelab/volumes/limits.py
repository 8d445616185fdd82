"""Sets limits on a drive that belongs to the experiment, through the kernel's control groups. Also has the limits of
cloud disks.

Version 1: the limit is set for the root group. It applies to all requests to the device. These are the servers' own
requests, and the kernel's writeback for them, which belongs to no other group.

Version 2: the root group can't have limits. So every top-level group gets the same limit, and storagelab must run in
one of them. Buffered writes to a file belong to the group that first wrote to the file. We tested such limits with
direct writes, and with buffered writes that the process itself syncs.
"""

from __future__ import annotations

import contextlib
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import Field

from storagelab.errors import PreflightError, RunFailed, choices, shown
from storagelab.machine.counts import V1_LIMITS, V2_LIMITS, Throttle, control_groups, limits_of
from storagelab.machine.disks import HERE, Kernel, mounts_here, node_of, read_text
from storagelab.model.values import Frozen
from storagelab.model.volume import COARSE_BELOW, LIMITS, SLICE_S, BurstConfig, LimitConfig, effective

Rates = Mapping[str, int]
"""Limits per second. The keys are those of `LIMITS`."""
_NEAR = 0.99
"""The kernel keeps a limit well if at least this share of it is reached."""
_V2_WORDS = {name: word for word, name in V2_LIMITS.items()}


class Groups(NamedTuple):
    """The control groups that can limit I/O: the version, and the folder where they are mounted."""

    version: int
    root: Path


def groups(kernel: Kernel = HERE) -> Groups | None:
    """The control groups of this machine. Returns None if no mounted control groups can limit I/O."""
    for mount in mounts_here(kernel):
        root = Path(mount.mount_point)
        if mount.filesystem == "cgroup" and (root / V1_LIMITS["write_iops"]).exists():
            return Groups(1, root)
        if mount.filesystem == "cgroup2" and "io" in read_text(root / "cgroup.controllers").split():
            return Groups(2, root)
    return None


def check(key: str, kernel: Kernel = HERE) -> None:
    """Raises PreflightError if this machine can't limit the I/O of storagelab's programs."""
    found = groups(kernel)
    if found is None:
        raise PreflightError(
            "needs the kernel's control groups: blkio of version 1, or io of version 2", key=key,
            hint="mount one of them where storagelab runs (in a container: give it the host's /sys/fs/cgroup)",
        )  # fmt: skip
    if found.version == 2 and _of_this_process(found.root, kernel) is None:
        raise PreflightError(
            "storagelab runs in the root group, which version 2 of control groups can't limit", key=key,
            hint="start it in a group: systemd-run --scope storagelab run SPEC",
        )  # fmt: skip


def _of_this_process(root: Path, kernel: Kernel) -> Path | None:
    """The top-level group of this process, or None if that is the root group."""
    return next((group for group in control_groups("io", kernel) if group.parent == root), None)


class Limiter:
    """Sets and reads the limits of one drive. Raises RunFailed if there are no control groups."""

    def __init__(self, device: str, kernel: Kernel = HERE) -> None:
        found = groups(kernel)
        if found is None:
            raise RunFailed("no control groups that limit I/O are mounted here any more")
        self._version, self._root = found
        self._kernel = kernel
        self.number = read_text(node_of(device, kernel) / "dev")

    def set(self, rates: Rates) -> None:
        """Sets these limits. All other limits of the drive are removed. Raises RunFailed."""
        try:
            if self._version == 1:
                for name, file in V1_LIMITS.items():
                    (self._root / file).write_text(f"{self.number} {rates.get(name, 0)}")
                return
            (self._root / "cgroup.subtree_control").write_text("+io")
            words = " ".join(f"{_V2_WORDS[name]}={rates.get(name, 'max')}" for name in LIMITS)
            for group in self._limiting():
                (group / "io.max").write_text(f"{self.number} {words}")
        except OSError as error:
            raise RunFailed(f"can't set the limits of a volume: {error.filename}: {error.strerror}") from error

    def read(self) -> dict[str, int]:
        """The current limits for this process and the programs that it starts, as the kernel shows them."""
        group = self._root if self._version == 1 else _of_this_process(self._root, self._kernel)
        return {} if group is None else limits_of(self.number, group)

    def requests(self) -> float:
        """The number of the drive's requests so far, as limits count them."""
        counted = [Throttle(group, self.number, {}).counted() for group in self._limiting()]
        return sum(one.get("reads", 0.0) + one.get("writes", 0.0) for one in counted)

    def _limiting(self) -> Iterator[Path]:
        if self._version == 1:
            yield self._root
            return
        yield from sorted(group.parent for group in self._root.glob("*/io.max"))


@contextlib.contextmanager
def limited(device: str, kernel: Kernel = HERE) -> Iterator[Limiter]:
    """A limiter for the drive. At the end, even after an error, its limits are removed. Otherwise the next user of the
    device would get them.
    """
    drive = Limiter(device, kernel)
    try:
        yield drive
    finally:
        drive.set({})


def warnings(name: str, asked: Rates) -> Iterator[str]:
    """A warning for each limit on requests that the kernel can't keep well, because it rounds the limit."""
    for key, limit in asked.items():
        if "iops" in key and (limit < COARSE_BELOW or effective(key, limit) < _NEAR * limit):
            yield (
                f"volumes.{name}.limit: {key} = {limit}: the kernel admits whole requests in each {SLICE_S:g} s, so "
                + (f"{effective(key, limit):g} requests a second are possible" if limit * SLICE_S >= 1
                   else f"it can't keep limits below {1 / SLICE_S:g} exactly")
                + f"; set a multiple of {1 / SLICE_S:g}, if possible at least {COARSE_BELOW:g}"
            )  # fmt: skip


# --- burst credits ---------------------------------------------------------------------------------------------------
# A bucket of credits, like those of cloud disks: a volume may exceed its limit while it has credits. Each request costs
# one credit.
#
# A thread reads the kernel's counts and computes the credits. It changes the limit when the bucket becomes empty, and
# when it has filled again.


_LOOK_EVERY_S = 0.05
_REFILLED_S = 0.25
"""An empty bucket allows bursts again when it has credits for a burst of this many seconds. With 0, the limit would
change very often, because the kernel admits requests in slices of 0.1 s.
"""


class Bucket:
    """The credits of one volume. From the beginning of the load to the end of the context, the credits decide the limit
    on requests. Before the load, the limit is the one with which the bucket starts.
    """

    def __init__(self, drive: Limiter, rates: Rates, burst: BurstConfig) -> None:
        self._drive, self._burst = drive, burst
        self._limited = dict(rates)
        self._bursting = {**rates, "read_iops": burst.iops, "write_iops": burst.iops}
        self._refill_per_s = max(effective(key, rates.get(key, 0)) for key in ("read_iops", "write_iops"))
        self.credits = float(burst.credits if burst.start == "full" else 0)
        self.emptied_after_s: list[float] = []
        """The times at which the bucket became empty, in seconds since the load began. There may be several, because
        the bucket fills while there are few requests, e.g. between the warm-up and the measurement.
        """
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="storagelab burst credits", daemon=True)

    @property
    def rates(self) -> Rates:
        """The limits with the credits that the bucket has now."""
        return self._bursting if self.credits > 0 else self._limited

    def __enter__(self) -> Self:
        self._drive.set(self.rates)
        return self

    def begin(self) -> None:
        """Starts to count the credits. Call this when the load begins."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def spend(self, requests: float, seconds: float) -> None:
        """Subtracts the credits that the requests cost, and adds those that were earned in these seconds."""
        filled = self.credits + self._refill_per_s * seconds - requests
        self.credits = min(float(self._burst.credits), max(0.0, filled))

    def _follow(self) -> None:
        began = last_s = time.monotonic()
        before, bursts = self._drive.requests(), self.credits > 0
        while not self._over.wait(_LOOK_EVERY_S):
            now_s, counted = time.monotonic(), self._drive.requests()
            self.spend(counted - before, now_s - last_s)
            before, last_s = counted, now_s
            may_burst = self.credits > (0 if bursts else _REFILLED_S * self._burst.iops)
            if may_burst != bursts:
                bursts = may_burst
                self._drive.set(self._bursting if bursts else self._limited)
                if not bursts:
                    self.emptied_after_s.append(now_s - began)


# --- cloud disks by name: a small list with the source of each entry --------------------------------------------------

_GIB = 2**30


class CloudDisk(Frozen):
    """A cloud disk as its provider describes it. `iops_per_gib` and `bytes_per_s_per_gib` are multiplied by the size,
    and added to the fixed figures.
    """

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
        """The disk's limits at this size."""
        gib = size_bytes / _GIB
        iops = min(self.most_iops, max(self.least_iops, round(self.iops + self.iops_per_gib * gib)))
        rate = min(self.most_bytes_per_s, round(self.bytes_per_s + self.bytes_per_s_per_gib * gib))
        burst = None
        if self.burst_iops is not None and self.burst_iops > iops:
            burst = BurstConfig(iops=self.burst_iops, credits=self.burst_credits)
        return LimitConfig(read_iops=iops, write_iops=iops, read_bytes_per_s=rate, write_bytes_per_s=rate, burst=burst)


@cache
def disks() -> dict[str, CloudDisk]:
    """All cloud disks by name."""
    text = resources.files("storagelab.volumes").joinpath("cloud_disks.toml").read_text("utf-8")
    return {name: CloudDisk.model_validate(entry) for name, entry in tomllib.loads(text).items()}


def resolved(limit: LimitConfig, size_bytes: int, key: str) -> LimitConfig:
    """Returns the limit. If it has a `like`, the figures that it lacks are taken from the cloud disk of that name.
    Raises PreflightError if there is no such cloud disk.
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
    """The limits that are set. Bursts are left out."""
    return {name: value for name in LIMITS if (value := getattr(limit, name)) is not None}
