"""The keys of a volume: the drives below it, its file system, and its limits.

Sizes are in bytes and times in seconds; only `report` formats them.
"""

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
    """A simulated drive: its profile, and a choice of its options. A key may be missing if there is only one option."""

    profile: str
    """The name of a ready-made profile (`storagelab drives list` lists them), or a file of your own."""
    count: int = Field(1, ge=1, le=1024)
    """Number of identical drives. NAME stands for all of these drives, NAME-1 for the first drive."""
    format: Annotated[str | None, LeftOut("the only one")] = None
    """A flash drive's format: one from its profile, or `"operating-system"`. The latter is the factory format, of a
    drive that its maker's utility never formatted; such a drive keeps its history.
    """
    history: Annotated[Literal["new", "filled", "aged"] | None, LeftOut("aged")] = None
    """The earlier writes to a drive that only the operating system formatted: `new`: none; `filled`: every address
    once, in order; `aged`: random writes for years. For raw I/O, `target.prepared` sets this for all drives."""
    driver: Annotated[str | None, LeftOut("the only one")] = None
    """One of the driver versions in the profile."""
    sector_bytes: Annotated[int | None, LeftOut("the only one")] = Field(None, ge=1, le=2**20)
    """Sector size that the drive offers, from its profile."""
    trim: Annotated[bool | None, LeftOut("as in the profile")] = None
    """Whether the operating system tells the drive which addresses have become free."""
    host_ram_bytes: Annotated[int | None, LeftOut("no limit")] = Field(None, ge=1, lt=2**63)
    """Host memory for the drive's map. `plan` refuses a spec whose rows need more. If earlier runs use it up, the drive
    goes off-line and the run fails."""
    log_delay_ns: Annotated[int | None, LeftOut("0")] = Field(None, ge=0, le=10**9, examples=[120])
    """Mean extra delay of a write to the log on a flash drive, exponentially distributed. Each drive of a mirror has
    its own delay, and a write waits for the slower drive."""
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


# --- limits -----------------------------------------------------------------------------------------------------------

LIMITS = ("read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s")
"""The limits that control groups can set on a device, by the names of the keys."""
SLICE_S = 0.1
"""Linux, `throtl_slice`: the kernel's control groups admit requests in slices of this length."""
COARSE_BELOW = 10 / SLICE_S
"""Below this many requests a second, a slice admits fewer than 10 requests, and the effective limit may be 10 % or more
below the set limit.
"""
Rate = Annotated[int | None, LeftOut("that of `like`, or no limit")]


def effective(key: str, limit: float) -> float:
    """The effective limit per second: the kernel admits a whole number of requests in each slice."""
    per_slice = limit * SLICE_S
    return limit if "bytes" in key or per_slice < 1 else math.floor(per_slice + 1e-9) / SLICE_S


class BurstConfig(Described):
    """A bucket of credits: while it is not empty, the volume may exceed its limit. One credit is one request."""

    iops: int = Field(ge=1, lt=2**32)
    """The limit on reads, and also on writes, per second while there are credits."""
    credits: int = Field(ge=1, lt=2**63)
    """The size of the bucket in credits. Each second, it gets as many credits as the limit allows requests."""
    start: Literal["full", "empty"] = "full"
    """The state of the bucket when a run begins."""


class LimitConfig(Described):
    """The limits of a volume per second. Reads and writes are limited separately, and latency is not imitated."""

    like: Annotated[str | None, LeftOut("none")] = None
    """The name of a cloud disk whose limits apply: `storagelab drives list` lists them. Other keys replace its figures.
    """
    read_iops: Rate = Field(None, ge=1, lt=2**32, examples=[3000])
    """Reads a second."""
    write_iops: Rate = Field(None, ge=1, lt=2**32, examples=[3000])
    """Writes a second."""
    read_bytes_per_s: Rate = Field(None, ge=4096, lt=2**63, examples=[125_000_000])
    """Bytes read a second."""
    write_bytes_per_s: Rate = Field(None, ge=4096, lt=2**63, examples=[125_000_000])
    """Bytes written a second."""
    burst: Annotated[BurstConfig | None, LeftOut("that of `like`, or none")] = None
    """Credits with which the volume exceeds its limit on requests for some time."""


# --- volumes ----------------------------------------------------------------------------------------------------------

PRICE = "price_per_month"
"""The key of a volume that affects no run."""
LAYERS = layer_files()
"""The files of the layers that a volume may have, from the drives upward."""
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
    """Simulated: the offset of the file system. The traditional 63 sectors, 32,256 bytes, align with no stripe."""
    cache: Annotated[CacheConfig | None, LeftOut("no cache")] = None
    """Simulated: a controller's write-back cache. A write is mirrored before it is acknowledged."""
    link: Annotated[LinkConfig | None, LeftOut("no link")] = None
    """Simulated: a network between host and array. `link = {}` is iSCSI over one port of 1 Gbit/s."""
    lost: tuple[str, ...] = ()
    """Simulated: failed drives. Mirrors and parity work without them; without redundancy, the run fails."""
    file_bytes: Annotated[int | None, LeftOut("the folder `path` itself")] = Field(None, ge=2**24, lt=2**63)
    """storagelab makes the volume again before each run or block: a file of this size in `path`, used as a drive (a
    loop device) with its own file system. storagelab removes the file afterwards. Needs root."""
    devices: Annotated[tuple[str, ...] | None, LeftOut("the folder `path` itself")] = Field(None, min_length=1)
    """storagelab makes the volume from these whole drives, and mounts it in `path`. **All data on them is destroyed.**
    Use stable names, `/dev/disk/by-id/...`. Before anything is written, `run` asks for the serial number of each drive.
    Needs root."""
    wipe: Annotated[str | tuple[str, ...] | None, LeftOut("none")] = None
    """Volumes made of drives: the serial numbers of drives that may hold data. A drive with a partition table, a file
    system or a part of a RAID is refused unless its serial number is listed here."""
    capacity: Annotated[str | None, LeftOut("100%")] = Field(None, examples=["80%"])
    """Volumes made of drives: the share of each drive that is used, `"5%"` to `"100%"`. The whole drive is discarded
    first, so the drive can use the rest for itself."""
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
    """Volumes that storagelab makes: whether the file system tells the drive which addresses have become free (the
    mount option `discard`, also through encryption)."""
    read_ahead_bytes: Annotated[int | None, LeftOut("the kernel's")] = Field(None, ge=0, lt=2**31)
    """Volumes that storagelab makes: the kernel's read-ahead on the drive."""
    scheduler: Annotated[str | None, LeftOut("the kernel's")] = None
    """Volumes that storagelab makes: the drive's I/O scheduler, such as `"none"` or `"mq-deadline"`."""
    limit: Annotated[LimitConfig | None, LeftOut("no limit")] = None
    """Volumes that storagelab makes: limits on requests and bytes a second, like those of cloud disks."""
    prepare: Annotated[str | None, LeftOut("nothing")] = None
    """A command that prepares the volume before each run, run by `sh -c` in the spec's folder. `path` must exist
    before. The command finds the volume's keys and `variables` and the cell's levels in its environment:
    STORAGELAB_VOLUME, STORAGELAB_PATH, STORAGELAB_<KEY>, STORAGELAB_LEVEL_<FACTOR>. Needs `--allow-commands`. Or
    `"by-hand"`: before each block of runs, `run` waits until you have prepared the volume; you may reboot in
    between."""
    prepare_text: Annotated[str | None, LeftOut("nothing")] = None
    """With `prepare = "by-hand"`: a description of the preparation, which `run` shows when it asks for it."""
    made_for: Annotated[Literal["run", "block"] | None, LeftOut("run, or block if prepared by hand")] = None
    """Whether the volume is made or prepared again before each run, or once for a block of runs, if preparation takes
    long. Factors that change the volume are then costly; with `blocks` it is made again for several blocks of each
    level."""
    check: Annotated[str | None, LeftOut("nothing")] = None
    """A command that shows how the volume was prepared, with the same environment. Its output is stored with the run,
    which is `unverified` if the command fails. Needs `--allow-commands`."""
    price_per_month: Annotated[float | None, LeftOut("not known")] = Field(None, ge=0, le=10**9, examples=[120])
    """The price of the volume per month, in the same currency for all volumes. If the layouts' prices differ, a chart
    shows times over prices. The price affects no run, so you may change it while results exist.
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
    """A volume: a place on a file system, where storagelab makes its own folder and removes it later; or simulated
    drives; or a whole device."""

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
        """Whether a person prepares the volume."""
        return self.prepare == BY_HAND

    @property
    def kept_for_block(self) -> bool:
        """Whether one preparation serves a block of runs."""
        return self.by_hand or self.made_for == "block"

    @property
    def real(self) -> bool:
        """Whether the volume is a folder on this machine or on a server's machine, and not made of simulated drives."""
        return self.path is not None or self.device is not None
