"""The keys of a volume: its drives, its file system, and its limits.

Sizes are in bytes and times in seconds; only `report` formats them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, create_model

from storagelab.model.layers import files as layer_files
from storagelab.model.values import Described, LeftOut, LeftToCore, Scalar

if TYPE_CHECKING:
    from storagelab.model.layers import mapped, raid

OPERATING_SYSTEM = "operating-system"
"""The format of a flash drive that its maker's utility never formatted."""


class DriveConfig(Described):
    """A simulated drive: its profile, and the choices among the options of the profile. If an option has only one
    value, its key may be left out.
    """

    profile: str
    """The name of a ready-made profile (`storagelab drives list` lists them), or a file of your own."""
    count: int = Field(1, ge=1, le=1024)
    """The number of identical drives. NAME stands for all of these drives, NAME-1 for the first drive."""
    format: Annotated[str | None, LeftOut("the only one")] = None
    """A flash drive's format: one of the formats in its profile, or `"operating-system"`. The latter means the factory
    format: the maker's utility never formatted the drive. Such a drive keeps its history.
    """
    history: Annotated[Literal["new", "filled", "aged"] | None, LeftOut("aged")] = None
    """What was written earlier to a drive that only the operating system formatted. `new`: nothing. `filled`: every
    address once, in order. `aged`: random writes for years. For raw I/O, `target.prepared` sets this for all drives."""
    driver: Annotated[str | None, LeftOut("the only one")] = None
    """The driver version, one of those in the profile."""
    sector_bytes: Annotated[int | None, LeftOut("the only one")] = Field(None, ge=1, le=2**20)
    """The sector size of the drive, one of those in the profile."""
    trim: Annotated[bool | None, LeftOut("as in the profile")] = None
    """Whether the operating system tells the drive which addresses have become free."""
    host_ram_bytes: Annotated[int | None, LeftOut("no limit")] = Field(None, ge=1, lt=2**63)
    """The host memory for the drive's map. `plan` refuses a spec whose rows need more. If earlier runs use up this
    memory, the drive goes off-line and the run fails."""
    log_delay_ns: Annotated[int | None, LeftOut("0")] = Field(None, ge=0, le=10**9, examples=[120])
    """The mean extra delay of a write to the log on a flash drive. The delays are exponentially distributed. Each drive
    of a mirror has its own delay, and a write waits for the slower drive."""
    order: Annotated[Literal["fifo", "elevator", "shortest"] | None, LeftOut("as in the profile")] = None
    """The order in which a disk serves its queue."""


class CacheConfig(Described):
    """A controller's write-back cache. The core (crates/sim/src/volume/config.rs) has the defaults of missing keys."""

    size_bytes: int = Field(ge=0, lt=2**63)
    """The memory for writes. 0 means no cache."""
    mirror_bytes_per_s: Annotated[int | None, LeftToCore("a cache")] = Field(None, ge=1, lt=2**63)
    """The rate at which the controller copies writes to its partner."""
    mirror_request_ns: Annotated[int | None, LeftToCore("a cache")] = Field(None, ge=0, lt=2**63)
    """The time that the controllers spend on each write."""
    mirror_latency_ns: Annotated[int | None, LeftToCore("a cache")] = Field(None, ge=0, lt=2**63)
    """The extra delay of each write."""
    keep_per_mille: Annotated[int | None, LeftToCore("a cache")] = Field(None, ge=0, le=1000)
    """The share of the cache that may stay dirty, in thousandths."""
    destaging: Annotated[Literal["elevator", "oldest"] | None, LeftOut("oldest")] = None
    """The order in which the controller writes the cache to the drives."""
    writes_per_drive: Annotated[int | None, LeftToCore("a cache")] = Field(None, ge=1, le=1024)
    """The number of writes from the cache that each drive carries out at the same time."""


class LinkConfig(Described):
    """The network between host and array. If keys are left out, it is iSCSI over one port of 1 Gbit/s Ethernet."""

    bytes_per_s: Annotated[int | None, LeftToCore("a link")] = Field(None, ge=0, lt=2**63)
    """The rate in each direction. 0 means no link."""
    latency_ns: Annotated[int | None, LeftToCore("a link")] = Field(None, ge=0, lt=2**63)
    """The time that a request needs in one direction."""


# --- limits -----------------------------------------------------------------------------------------------------------

LIMITS = ("read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s")
"""The keys of the limits that control groups can set on a device."""
SLICE_S = 0.1
"""The kernel's control groups admit requests in slices of this length, in seconds (`throtl_slice` in Linux)."""
COARSE_BELOW = 10 / SLICE_S
"""Below this limit of requests per second, a slice admits fewer than 10 requests. Then the effective limit may be 10 %
or more below the set limit."""
Rate = Annotated[int | None, LeftOut("that of `like`, or no limit")]


def effective(key: str, limit: float) -> float:
    """Returns the effective limit per second. It may be lower than `limit`, because the kernel admits a whole number of
    requests in each slice.
    """
    per_slice = limit * SLICE_S
    return limit if "bytes" in key or per_slice < 1 else math.floor(per_slice + 1e-9) / SLICE_S


class BurstConfig(Described):
    """A bucket of credits. While it is not empty, the volume may exceed its limit. One credit is one request."""

    iops: int = Field(ge=1, lt=2**32)
    """The limit per second while there are credits. It applies to reads, and separately to writes."""
    credits: int = Field(ge=1, lt=2**63)
    """The size of the bucket in credits. Each second, the bucket gains as many credits as the normal limit allows
    requests.
    """
    start: Literal["full", "empty"] = "full"
    """The state of the bucket when a run begins."""


class LimitConfig(Described):
    """The limits of a volume per second. Reads and writes are limited separately. Latency is not imitated."""

    like: Annotated[str | None, LeftOut("none")] = None
    """The name of a cloud disk whose limits apply (`storagelab drives list` lists the names). Other keys replace single
    figures of this disk.
    """
    read_iops: Rate = Field(None, ge=1, lt=2**32, examples=[3000])
    """The largest number of reads per second."""
    write_iops: Rate = Field(None, ge=1, lt=2**32, examples=[3000])
    """The largest number of writes per second."""
    read_bytes_per_s: Rate = Field(None, ge=4096, lt=2**63, examples=[125_000_000])
    """The largest number of bytes read per second."""
    write_bytes_per_s: Rate = Field(None, ge=4096, lt=2**63, examples=[125_000_000])
    """The largest number of bytes written per second."""
    burst: Annotated[BurstConfig | None, LeftOut("that of `like`, or none")] = None
    """Credits with which the volume may exceed its limit on requests for some time."""


# --- volumes ----------------------------------------------------------------------------------------------------------

PRICE = "price_per_month"
"""The key of a volume's price. It affects no run."""
LAYERS = layer_files()
"""The modules of the layers that a volume may have, from the drives upward."""
DRIVE_KEYS = frozenset({"capacity", "wipe"}) | {
    key for file in LAYERS if file.Keys.of_drives for key in file.Keys.model_fields
}
"""The keys that only volumes made of whole drives have."""
MADE_KEYS = DRIVE_KEYS | {key for file in LAYERS for key in file.Keys.model_fields} | {
    "file_bytes", "devices", "sector_bytes", "filesystem", "mkfs_options", "mount_options", "trim", "read_ahead_bytes",
    "scheduler", "limit", "prepare", "prepare_text", "check", "variables", "made_for", "size_bytes",
}  # fmt: skip
"""The keys of volumes that are made or prepared before runs."""
BY_HAND = "by-hand"
"""The value of a volume's `prepare` if a person prepares the volume."""


class _KeysBelow(Described):
    """The keys of a volume below its file system: its place and its drives."""

    path: str | None = None
    """Real servers: where the volume is mounted. A relative path starts at the spec's folder. For each run, storagelab
    makes the folder `storagelab-<experiment>-<id>` there, and removes it afterwards."""
    device: str | None = None
    """Raw I/O only, for reads: a whole device by its stable name, `/dev/disk/by-id/...`. storagelab never
    writes to it."""
    remote: bool = False
    """Attached servers only, and required for SQL Server: `path` is an absolute path on the server's machine, and
    storagelab makes no folder there. SQL Server and MariaDB put files into it. For PostgreSQL, the operator makes one
    folder for each data file, with a command that `plan` prints. Runs are `unverified` unless the server names the
    drive."""
    drives: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Simulated: the drives, in order. Neighbours in the list form mirrored pairs. In a RAID-100, consecutive pairs
    form an array.
    """
    raid: Annotated[Literal["0", "1", "5", "10", "100"] | None, LeftOut("a single drive")] = None
    """Simulated: the RAID level that combines several drives into one volume."""
    stripe_bytes: Annotated[int | None, LeftOut("128 KiB")] = Field(None, ge=512, lt=2**63)
    """Simulated: the number of bytes that stay together on one drive."""
    arrays: int | None = Field(None, ge=1, le=1024)
    """Simulated: the number of arrays in a RAID-100."""
    offset_bytes: int = Field(0, ge=0, lt=2**63)
    """Simulated: the offset of the file system from the beginning of the volume. The traditional 63 sectors (32,256
    bytes) align with no stripe.
    """
    cache: Annotated[CacheConfig | None, LeftOut("no cache")] = None
    """Simulated: a controller's write-back cache. A write is mirrored before it is acknowledged."""
    link: Annotated[LinkConfig | None, LeftOut("no link")] = None
    """Simulated: a network between host and array. `link = {}` means iSCSI over one port of 1 Gbit/s."""
    lost: tuple[str, ...] = ()
    """Simulated: drives that failed. A volume with mirrors or parity works without them. Without redundancy, the run
    fails.
    """
    file_bytes: Annotated[int | None, LeftOut("the folder `path` itself")] = Field(None, ge=2**24, lt=2**63)
    """storagelab makes the volume again before each run or block. It makes a file of this size in `path`, uses it as a
    drive (a loop device) with its own file system, and removes the file afterwards. Needs root."""
    devices: Annotated[tuple[str, ...] | None, LeftOut("the folder `path` itself")] = Field(None, min_length=1)
    """storagelab makes the volume from these whole drives, and mounts it in `path`. **All data on them is destroyed.**
    Use stable names, `/dev/disk/by-id/...`. Before anything is written, `run` asks for the serial number of each drive.
    Needs root."""
    wipe: Annotated[str | tuple[str, ...] | None, LeftOut("none")] = None
    """Volumes made of drives: the serial numbers of drives whose data may be destroyed. If a drive has a partition
    table, a file system or a part of a RAID, it is refused unless its serial number is listed here."""
    capacity: Annotated[str | None, LeftOut("100%")] = Field(None, examples=["80%"])
    """Volumes made of drives: the share of each drive that is used, `"5%"` to `"100%"`. The whole drive is discarded
    first, so the drive can use the rest for its own work."""
    sector_bytes: Annotated[Literal[512, 1024, 2048, 4096] | None, LeftOut("512 on a file; as the drive has it")] = None
    """Volumes that storagelab makes: the sector size of the drive. storagelab formats an NVMe drive to this size, so
    the drive must support this LBA format."""


class _KeysAbove(Described):
    """The keys of a volume from its file system upward."""

    size_bytes: Annotated[int | None, LeftOut("any")] = Field(None, ge=2**24, lt=2**63)
    """Volumes prepared by hand: the size of the drive or partition. storagelab checks it to 1 %."""
    filesystem: Annotated[Literal["ext4", "xfs", "btrfs"] | None, LeftOut("ext4")] = None
    """Volumes that storagelab makes: the file system."""
    mkfs_options: Annotated[str | None, LeftOut("those of mkfs")] = None
    """Volumes that storagelab makes: options of `mkfs`, such as `"-m 0"`, without names of files or devices."""
    mount_options: Annotated[str | None, LeftOut("those of mount")] = None
    """Volumes that storagelab makes: options of `mount -o`, such as `"noatime"`."""
    trim: Annotated[bool | None, LeftOut("as in mount_options")] = None
    """Volumes that storagelab makes: whether the file system tells the drive which addresses have become free (the
    mount option `discard`, also through encryption)."""
    read_ahead_bytes: Annotated[int | None, LeftOut("the kernel's")] = Field(None, ge=0, lt=2**31)
    """Volumes that storagelab makes: the kernel's read-ahead on the drive."""
    scheduler: Annotated[str | None, LeftOut("the kernel's")] = None
    """Volumes that storagelab makes: the drive's I/O scheduler, such as `"none"` or `"mq-deadline"`."""
    limit: Annotated[LimitConfig | None, LeftOut("no limit")] = None
    """Volumes that storagelab makes: limits on requests and bytes per second, like those of cloud disks."""
    prepare: Annotated[str | None, LeftOut("nothing")] = None
    """A command that prepares the volume before each run. `sh -c` runs it in the spec's folder. `path` must exist
    before. The command's environment has the volume's keys, its `variables` and the cell's levels: STORAGELAB_VOLUME,
    STORAGELAB_PATH, STORAGELAB_<KEY>, STORAGELAB_LEVEL_<FACTOR>. Needs `--allow-commands`. With the value `"by-hand"`,
    `run` waits before each block of runs until you have prepared the volume; you may reboot in between."""
    prepare_text: Annotated[str | None, LeftOut("nothing")] = None
    """With `prepare = "by-hand"`: a description of the preparation. `run` shows it when it waits for you to prepare the
    volume.
    """
    made_for: Annotated[Literal["run", "block"] | None, LeftOut("run, or block if prepared by hand")] = None
    """Whether the volume is made or prepared again before each run (`run`), or once for a block of runs (`block`).
    Choose `block` if preparation takes long. Factors that change the volume are then costly. With `blocks`, the volume
    is made again for several blocks of each level."""
    check: Annotated[str | None, LeftOut("nothing")] = None
    """A command that shows how the volume was prepared. It has the same environment as `prepare`. Its output is stored
    with the run. If the command fails, the run is `unverified`. Needs `--allow-commands`."""
    price_per_month: Annotated[float | None, LeftOut("not known")] = Field(None, ge=0, le=10**9, examples=[120])
    """The price of the volume per month, in the same currency for all volumes. If the layouts' prices differ, a chart
    shows times over prices. The price affects no run, so you may change it while results exist.
    """
    variables: dict[str, Scalar] = Field(default_factory=dict)
    """Values for `prepare` and `check`. Each becomes an environment variable: `recordsize = "16K"` becomes
    STORAGELAB_RECORDSIZE. Each can be a factor."""


if TYPE_CHECKING:

    class _AllKeys(_KeysAbove, mapped.Keys, raid.Keys, _KeysBelow): ...
else:
    _AllKeys = create_model("_AllKeys", __base__=(_KeysAbove, *(file.Keys for file in reversed(LAYERS)), _KeysBelow))


class VolumeConfig(_AllKeys):
    """A volume. It is a place on a file system (where storagelab makes its own folder and removes it later), or
    simulated drives, or a whole device."""

    @property
    def made(self) -> bool:
        """Whether storagelab, a command or a person makes or prepares the volume."""
        return self.has_own_drive or self.prepare is not None or self.check is not None

    @property
    def has_own_drive(self) -> bool:
        """Whether storagelab makes a file system on a drive of the experiment. This drive is a file or consists of
        whole drives.
        """
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
        """Whether a person prepares the volume."""
        return self.prepare == BY_HAND

    @property
    def kept_for_block(self) -> bool:
        """Whether the volume is prepared once for all runs of a block."""
        return self.by_hand or self.made_for == "block"

    @property
    def real(self) -> bool:
        """Whether the volume is a place on this machine or on a server's machine, and not made of simulated drives."""
        return self.path is not None or self.device is not None
