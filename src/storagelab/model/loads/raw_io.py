"""Requests of one size to one volume, without a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from storagelab.model.loads.base import Load, Rule, Work
from storagelab.model.values import LeftOut

if TYPE_CHECKING:
    from storagelab.model.config import Config


def _counted_s(config: Config) -> float:
    return config.raw_load.duration_s - config.raw_load.warm_up_s


class RawIo(Load):
    """Requests of one size to one volume, without a database."""

    # At the largest scale, a simulation lasts a thousandth of a run. For fio, less than a second is too short, because
    # its start takes time, too.
    rules = (
        Rule("workload.warm_up_s", lambda config: config.simulated and _counted_s(config) < 0.001,
             "leaves less than 0.001 s to count", "Raise duration ({load.duration_s:g} s), which includes it."),
        Rule("workload.warm_up_s", lambda config: not config.simulated and _counted_s(config) < 1,
             "leaves less than 1 s to count", "Raise duration ({load.duration_s:g} s), which includes it."),
        Rule("workload.read_fraction",
             lambda config: config.workload.read_fraction is not None and config.workload.operation != "mixed",
             "is for mixed requests, and workload.operation is {load.operation}",
             'Leave it out, or set operation = "mixed".'),
        Rule("workload.sync", lambda config: config.workload.sync != "none" and config.workload.operation == "read",
             "is for writes, and workload.operation is read", "Leave it out."),
        Rule("workload.direct", lambda config: not config.workload.direct and config.workload.operation != "write",
             "must be true for {load.operation} requests: memory would answer the reads",
             'Leave it out, or set operation = "write".'),
        Rule("workload.direct", lambda config: not config.workload.direct and config.workload.sync == "none",
             "must be true for writes that nothing syncs: they would end in memory",
             'Set sync = "fdatasync", as databases write their logs, or leave direct out.'),
        Rule("workload.block_bytes", lambda config: config.workload.direct and config.workload.block_bytes < 512,
             "{load.block_bytes} B is no whole number of sectors, and direct I/O takes only these",
             "Set at least 512, or write through memory: direct = false."),
        *(Rule(f"layout.{key}", lambda config, key=key: bool(getattr(config.layout, key)),
               "is for databases and traces, and workload.kind is raw-io", "Leave it out.")
          for key in ("log", "temp", "objects")),
        *(Rule(f"workload.{key}", lambda config, key=key: config.simulated and key in config.workload.model_fields_set,
               "is for real volumes: simulated drives have no syncs and no memory in front of them", "Leave it out.")
          for key in ("sync", "direct")),
    )  # fmt: skip

    raw_io = True
    kind: Literal["raw-io"] = "raw-io"
    operation: Literal["read", "write", "mixed"]
    """The operation of the requests. `mixed`: each request is a read or a write, chosen at random."""
    read_fraction: Annotated[Annotated[float, Field(ge=0, le=0.99, examples=[0.5])] | None, LeftOut("0.5")] = None
    """Mixed requests only: the share of reads among the requests."""
    pattern: Literal["random", "sequential"]
    """`random`: requests go anywhere, aligned to blocks. `sequential`: requests follow each other, and each thread has
    its own part of the volume.
    """
    block_bytes: int = Field(ge=1, le=2**30, examples=[8192])
    """The size of a request, in whole sectors of 512 bytes. With `direct = false`, any size is possible."""
    sync: Literal["none", "fdatasync", "fsync", "dsync"] = "none"
    """How writes become durable on real volumes. `fdatasync` and `fsync` follow each write, and their latency is
    reported separately. `dsync` makes each write synchronous (O_DSYNC).
    """
    direct: bool = True
    """Whether requests use direct I/O (O_DIRECT). With `false`, writes go through the page cache, and `sync` writes
    them to the drive.
    """
    threads: int = Field(1, ge=1, le=1024)
    """The number of threads that send requests."""
    outstanding: int = Field(1, ge=1, le=1024)
    """The number of requests that each thread keeps in progress."""
    duration_s: float = Field(60.0, ge=0.001, lt=1e6)
    """The length of a run, including the warm-up."""
    warm_up_s: float = Field(0.0, ge=0, lt=1e6)
    """The time at the beginning of a run that is not counted."""

    @property
    def writes_drives(self) -> bool:
        return self.operation != "read"

    @property
    def only_operation(self) -> str | None:
        return None if self.operation == "mixed" else self.operation

    @property
    def work(self) -> Work:
        """The time that one run must last."""
        return Work(amount=max(1, round(self.duration_s * 1000)), unit="ms")
