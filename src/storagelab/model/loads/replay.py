"""Sends the requests of a trace again, without a database."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from storagelab.model.loads.base import Load, Rule, Work


class Replay(Load):
    """Sends the requests of a trace again, without a database. If volumes are real, files of the trace may be placed on
    separate volumes, by the names of a capture's objects.
    """

    rules = (
        Rule("layout.data_size_bytes", lambda config: config.layout.data_size_bytes is None,
             "is missing: the trace's requests go to a file of that size, or to that part of a simulated drive",
             'Add data_size = "4GB" to [layout]: at least as far as the trace reaches.'),
        Rule("target.scale", lambda config: config.simulated and config.target.world_scale != 1,
             "must be 1 for a trace: its requests have their own times and places",
             "Set scale = 1 in [target]."),
        Rule("layout", lambda config: config.simulated and len(config.volumes_used) > 1,
             "places files of the trace on several volumes: simulated drives take a trace on one",
             "Name one volume, or volumes with a path."),
        Rule("volumes.*.device", lambda _, volume: volume.device is not None,
             "can't take a trace: storagelab only reads whole devices",
             "Name a folder on the drive's file system with path = ..."),
    )  # fmt: skip

    raw_io = True
    kind: Literal["replay"] = "replay"
    trace: str = Field(min_length=1, examples=["requests.iolog"])
    """The trace: an iolog of fio, version 2 or 3, or blktrace's binary as `blkparse -d` writes it. A relative path
    starts at the spec's folder.
    """
    pace: Literal["recorded", "as-fast-as-possible"] = "recorded"
    """`recorded`: each request is sent at its recorded time. `as-fast-as-possible`: a request is sent as soon as fewer
    than `outstanding` requests are in progress. At both paces, a request waits for earlier requests to overlapping
    bytes, and a sync waits for all earlier requests to its file.
    """
    outstanding: int = Field(32, ge=1, le=256)
    """The largest number of requests in progress. Each is sent by its own thread. The next request goes to the first
    free thread."""

    @property
    def own_files(self) -> tuple[tuple[str, str], ...]:
        return (("workload.trace", self.trace),)

    @property
    def paced(self) -> bool:
        return self.pace == "recorded"

    @property
    def work(self) -> Work:
        """The work of every run: all requests of the trace. Their real number is known when the trace is read."""
        return Work(amount=1, unit="requests")
