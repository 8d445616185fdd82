"""What a run leaves behind: raw counts, from which everything else is derived at read time.

Times are seconds, or integer nanoseconds where a kernel counts them.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from storagelab.model.config import Config
from storagelab.model.engines import Provenance
from storagelab.model.values import Count, Figure, Frozen, JsonValue
from storagelab.model.waits import RawWaits

RAW_IO = "raw-io"
"""The group of counters in which a run of raw I/O says what it came to."""
Status = Literal["ok", "failed", "unverified"]


class Check(Frozen):
    """One thing asked of the server or file system, and what was read back. `ok` is None where it could not be read."""

    name: str
    asked: str
    got: str
    ok: bool | None
    read_from: str


class WaitingTask(Frozen):
    """What sessions were seen waiting for at one moment: `sessions` of them on one resource."""

    at_s: Figure = Field(description="seconds since the start of the run")
    wait_type: str
    resource: str = Field(description='decoded, e.g. "extension of my_big_table_p3 (data file 3)"')
    sessions: Count
    data_file: Count | None = None
    held_by: str = Field("", description="what the holder was doing, where it could be seen")


class TimeSeries(Frozen):
    """Columns of equal length. `at_s` is the end of each interval (a second of a measured run, more of a long simulated one),
    `columns` maps a name with its unit last (`rows_per_s`, `volume.a.write_bytes_per_s`) to values over that interval."""

    at_s: tuple[Figure, ...] = ()
    columns: dict[str, tuple[float | None, ...]] = Field(default_factory=dict)


class ObserverCost(Frozen):
    """What observing cost: CPU seconds of the sampler and of its own server session (None where it can't be read).

    `blind_s` = how long, in all, looks came that much too late that something must have stood still."""

    sampler_cpu_s: Figure
    session_cpu_s: Figure | None
    ticks: Count
    late_ticks: Count = 0
    blind_s: Figure = 0.0


class Measurement(Frozen):
    """One run as a target hands it over. `elapsed_s` = first start to last finish by the server's clock; the checkpoint
    after it is timed apart. `counters` are differences over the run, `group -> name -> value`, units last in names."""

    provenance: Provenance
    elapsed_s: Figure
    rows: Count
    checkpoint_s: Figure | None = None
    connection_s: tuple[Figure, ...] = Field((), description="start to finish of each connection")
    waits: RawWaits | None = None
    waiting_tasks: tuple[WaitingTask, ...] = ()
    counters: dict[str, dict[str, float]] = Field(default_factory=dict)
    series: TimeSeries = TimeSeries()
    environment: dict[str, object] = Field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    observer: ObserverCost | None = None
    setup_s: Figure | None = None
    teardown_s: Figure | None = None

    @property
    def unverified(self) -> tuple[Check, ...]:
        """What was not got as asked, or could not be read back."""
        return tuple(check for check in self.checks if check.ok is not True)


NO_TIME = "no time passed between its first start and its last finish"
"""Why a run failed whose figures nothing can be divided by."""


class Run(Frozen):
    """One run in the store. `measurement` is None when the run failed before there was one."""

    cell_id: str
    repetition: int
    attempt: int = 1
    sequence: Count
    block: Count = 0
    seed: int = 0
    status: Status
    reason: str = ""
    started_at: str = Field(description="ISO 8601, UTC")
    finished_at: str
    wall_s: Figure
    levels: dict[str, JsonValue]
    config: Config
    measurement: Measurement | None = None

    @property
    def burn_in(self) -> bool:
        """Made on newly prepared drives, and not judged."""
        return self.repetition < 1

    @property
    def usable(self) -> bool:
        """Has figures that analysis may use: ok, or measured but with something not as asked."""
        return self.measurement is not None and self.status != "failed"
