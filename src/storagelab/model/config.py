"""What a spec says of one cell.

Sizes are bytes and times are seconds; only `report` formats them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from storagelab.model.engines import ENGINES, Engine, EngineName
from storagelab.model.values import Frozen, Scalar

OPERATING_SYSTEM = "operating-system"
"""The format of a flash drive that its maker's utility never formatted."""


class TargetConfig(Frozen):
    """The server under test. A real one with neither `dsn` nor `dsn_env` is a private one that storagelab starts."""

    engine: EngineName
    scale: int | None = Field(None, ge=1, le=1024, description="simulated: how many times smaller the world is")
    dsn: str | None = Field(None, description="a running server to attach to, without a password in it")
    dsn_env: str | None = Field(None, description="the environment variable that holds the DSN")
    bin_dir: str | None = Field(None, description="folder of the server's binaries")
    settings: dict[str, Scalar] = Field(default_factory=dict, description="any setting of the server")
    prepared: Literal["formatted", "filled", "aged"] | None = Field(
        None, description="raw-io: what flash drives have been through before the first run of a block; default: filled"
    )

    @property
    def attached(self) -> bool:
        return self.dsn is not None or self.dsn_env is not None

    @property
    def kind(self) -> Engine:
        """What storagelab knows of the engine."""
        return ENGINES[self.engine]

    @property
    def world_scale(self) -> int:
        """How many times smaller than life the world is."""
        return self.scale or self.kind.default_scale

    @property
    def raw_io(self) -> bool:
        return self.kind.raw_io

    @property
    def simulated(self) -> bool:
        return self.kind.provenance == "simulated"


class ServerConfig(Frozen):
    """A simulated server. What is left out is as in the engine's own defaults (crates/sim/src/scenario/server.rs)."""

    cores: int = Field(ge=1, le=256, description="one scheduler each")
    memory_bytes: int = Field(ge=2**20, lt=2**63, description='all of it; `memory = "16GB"` in the spec')
    pfs_latch: Literal["update", "shared"] | None = Field(None, description="how PFS pages are latched")
    pick_file: Literal["round-robin", "round-robin-per-worker", "random"] | None = None
    pick_tries: int | None = Field(None, ge=0, le=128, description="other files looked at before queueing for one")
    parent_latches: bool | None = Field(None, description="a split holds the parent's latch while it allocates")
    lazy_writer: bool | None = None
    checkpoints: bool | None = None
    notice_at_switch: bool | None = Field(None, description="completed I/O is noticed at a scheduler's next switch")
    costs: dict[str, Annotated[int, Field(ge=0, lt=2**63)]] = Field(
        default_factory=dict, description="any of the engine's costs, by its name"
    )


class DriveConfig(Frozen):
    """A simulated drive: its profile, and what is chosen of it. What is left out must be the only one there is."""

    profile: str = Field(description="name of a ready-made profile, or a file")
    count: int = Field(1, ge=1, le=1024, description="so many alike: NAME stands for all of them, NAME-1 for the first")
    format: str | None = Field(
        None,
        description="one of the profile's, or \"operating-system\": the factory's, on a drive that keeps its history",
    )
    history: Literal["new", "filled", "aged"] | None = Field(
        None, description="what a drive that only the operating system formatted has been through; default: aged"
    )
    driver: str | None = None
    sector_bytes: int | None = Field(None, ge=1, le=2**20)
    trim: bool | None = Field(None, description="freed addresses are told to the drive; default: as in the profile")
    host_ram_bytes: int | None = Field(None, ge=1, lt=2**63, description="memory that the drive's map may take")
    order: Literal["fifo", "elevator", "shortest"] | None = Field(
        None, description="of a disk's queue; default: as in the profile"
    )


class CacheConfig(Frozen):
    """A controller's write-back cache. What is left out is as in the core (crates/sim/src/volume/config.rs)."""

    size_bytes: int = Field(ge=0, lt=2**63, description="memory that takes writes; 0 = there is no cache")
    mirror_bytes_per_s: int | None = Field(None, ge=1, lt=2**63, description="to the other controller")
    mirror_request_ns: int | None = Field(None, ge=0, lt=2**63, description="of the controllers, for each write")
    mirror_latency_ns: int | None = Field(None, ge=0, lt=2**63, description="that a write waits beside that")
    keep_per_mille: int | None = Field(None, ge=0, le=1000, description="of the cache that stays dirty, in case")
    destaging: Literal["elevator", "oldest"] | None = Field(None, description="in which order it goes to the drives")
    writes_per_drive: int | None = Field(None, ge=1, le=1024, description="from cache to drives at once, at most")


class LinkConfig(Frozen):
    """The network between host and array. What is left out is that of iSCSI over one port of 1 Gbit/s Ethernet."""

    bytes_per_s: int | None = Field(None, ge=0, lt=2**63, description="each way; 0 = there is no link")
    latency_ns: int | None = Field(None, ge=0, lt=2**63, description="one way")


class VolumeConfig(Frozen):
    """A place on a file system, in which storagelab makes, and later removes, a folder of its own; or simulated drives."""

    path: str | None = None
    remote: bool = Field(False, description="the folder is on the server's machine, as its operator says")
    drives: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        None, description="neighbours make pairs; an array of a RAID-100 is a row of neighbours"
    )
    raid: Literal["0", "1", "5", "10", "100"] | None = Field(None, description="how several drives make one volume")
    stripe_bytes: int | None = Field(None, ge=512, lt=2**63, description="that lie together on a drive")
    arrays: int | None = Field(None, ge=1, le=1024, description="of a RAID-100")
    offset_bytes: int = Field(0, ge=0, lt=2**63, description="where the file system begins")
    cache: CacheConfig | None = None
    link: LinkConfig | None = None
    lost: tuple[str, ...] = Field((), description="drives that have failed")


class LayoutConfig(Frozen):
    """Data files + volumes + log place."""

    data: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        None, description="volumes that the data files go round robin over; default: every volume of the spec"
    )
    data_files: int = Field(1, ge=1, le=1024)
    log: str | None = Field(None, description="volume of the log; default: the first data volume")
    data_size_bytes: int | None = Field(
        None, ge=1, lt=2**63, description="simulated: of all data files; default: all room"
    )
    log_size_bytes: int | None = Field(None, ge=1, lt=2**63, description="simulated: of the log; default: 8 GB")


class WorkloadConfig(Frozen):
    """What the connections do, inside the server."""

    kind: Literal["random-insert", "sequential-insert", "mixed"] = "random-insert"
    connections: int = Field(16, ge=1, le=4096)
    rows_per_connection: int = Field(20_000, ge=1, le=10**10)
    rows_per_transaction: int = Field(1_000, ge=1, le=10**9)
    operation: Literal["read", "write"] | None = Field(None, description="raw-io")
    pattern: Literal["random", "sequential"] | None = Field(None, description="raw-io: where requests go")
    block_bytes: int | None = Field(None, ge=512, le=2**30, description="raw-io: of a request")
    threads: int = Field(1, ge=1, le=1024, description="raw-io")
    outstanding: int = Field(1, ge=1, le=1024, description="raw-io: requests in progress of each thread")
    duration_s: float = Field(60.0, ge=0.001, lt=1e6, description="raw-io: of a run, warming up included")
    warm_up_s: float = Field(0.0, ge=0, lt=1e6, description="raw-io: at the beginning, not counted")
    read_fraction: float | None = Field(
        None, ge=0, le=0.99, description="mixed: share of point reads of random existing keys among all operations"
    )

    @property
    def reads_per_row(self) -> float:
        """Point reads for each row that is inserted."""
        fraction = self.read_fraction or 0.0
        return fraction / (1 - fraction)

    @property
    def rows(self) -> int:
        """Rows that one run inserts, over all connections; of raw I/O milliseconds, which its progress is told in."""
        if self.block_bytes is not None:
            return max(1, round(self.duration_s * 1000))
        return self.connections * self.rows_per_connection


class BetweenRunsConfig(Frozen):
    """What is done before a run is timed, so that no run inherits from the one before."""

    checkpoint: bool = Field(True, description="checkpoint and sync before the clock starts")
    drop_page_cache: bool = Field(False, description="drop the kernel's page cache (needs root)")
    pause_s: float = Field(0.0, ge=0, le=3600, description="rest before each run, for drives that need it")
    burn_in: int = Field(
        0,
        ge=0,
        le=1000,
        description="runs after each preparation of the drives that are made and stored, but not judged",
    )
    format_drives: bool = Field(False, description="simulated: format all drives, else once a block")
    move_files: bool = Field(
        False, description="simulated: the file system puts files elsewhere than in the run before"
    )


class MeasureConfig(Frozen):
    """How much is observed. Observation is on by default; its own cost is measured and reported."""

    waits: bool = Field(True, description="sample what every connection waits for")
    sample_hz: float = Field(50.0, ge=0.1, le=200)


class Config(Frozen):
    """Everything that a target needs to know of one cell: the spec with the cell's levels put in."""

    target: TargetConfig
    server: ServerConfig | None = None
    drives: dict[str, DriveConfig] = Field(default_factory=dict)
    volumes: dict[str, VolumeConfig] = Field(default_factory=dict)
    layout: LayoutConfig = LayoutConfig()
    workload: WorkloadConfig = WorkloadConfig()
    between_runs: BetweenRunsConfig = BetweenRunsConfig()
    measure: MeasureConfig = MeasureConfig()

    @property
    def data_volumes(self) -> tuple[str, ...]:
        """Names of the volumes that hold data files, in round-robin order; empty = where the server keeps its own."""
        return self.layout.data if self.layout.data is not None else tuple(self.volumes)

    @property
    def log_volume(self) -> str | None:
        """Name of the volume that holds the log; None = where the server keeps it."""
        return self.layout.log or next(iter(self.data_volumes), None)

    @property
    def single_drives(self) -> dict[str, str]:
        """Each drive by its own name -> the name that it is declared under: ssd -> ssd, or ssd-1, ssd-2 -> ssd."""
        return {single: name for name in self.drives for single in self.drives_called(name)}

    def drives_called(self, name: str) -> tuple[str, ...]:
        """The drives that `name` stands for in a list of drives: all of a declared name, else the one drive itself."""
        if name not in self.drives:
            return (name,)
        count = self.drives[name].count
        return (name,) if count == 1 else tuple(f"{name}-{number}" for number in range(1, count + 1))

    @property
    def volumes_used(self) -> tuple[str, ...]:
        """Names of the volumes that hold data files or the log, each once."""
        return tuple(dict.fromkeys([*self.data_volumes, *([self.log_volume] if self.log_volume else [])]))

    def volume_of_data_file(self, index: int) -> str | None:
        """Name of the volume of data file `index` (from 0), round robin."""
        volumes = self.data_volumes
        return volumes[index % len(volumes)] if volumes else None
