"""Drives and volumes of one block in the core's form (crates/sim/src/scenario/hardware.rs). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from storagelab import profiles
from storagelab.errors import PreflightError
from storagelab.model.config import OPERATING_SYSTEM, Config, DriveConfig, VolumeConfig
from storagelab.profiles import DeviceProfile, FlashProfile, Profile, Shelf

T = TypeVar("T", str, int)

Hardware = dict[str, Mapping[str, object]]


def hardware(configs: Sequence[Config], folder: Shelf) -> Hardware:
    """`{"drives": .., "volumes": ..}` of a block: the volumes that its cells use, and their drives.

    A spec may declare more over the same drives, such as all arrays under comparison; this leaves out what no cell of the
    block uses. Profiles are relative to `folder`. Raises PreflightError by key.
    """
    config = configs[0]
    singles = config.single_drives
    names = [name for name in config.volumes if any(name in one.volumes_used for one in configs)]
    volumes = {name: _volume(config, config.volumes[name]) for name in names}
    members = dict.fromkeys(drive for name in names for drive in drives_of(config, config.volumes[name]))
    used, raw_io = dict.fromkeys(singles[one] for one in members), config.target.raw_io
    made = {name: _drive(name, config.drives[name], folder, raw_io) for name in used}
    return {"drives": {single: made[singles[single]] for single in members}, "volumes": volumes}


def drives_of(config: Config, volume: VolumeConfig) -> tuple[str, ...]:
    """The single drives of a volume, in order."""
    return tuple(single for name in volume.drives or () for single in config.drives_called(name))


def _volume(config: Config, volume: VolumeConfig) -> dict[str, object]:
    """Leaves unset keys to the core, so that defaults are in one place."""
    said: dict[str, object] = {"drives": list(drives_of(config, volume))}
    for name in ("raid", "stripe_bytes", "arrays"):
        if getattr(volume, name) is not None:
            said[name] = getattr(volume, name)
    if volume.offset_bytes:
        said["offset_bytes"] = volume.offset_bytes
    if volume.cache is not None and volume.cache.size_bytes:
        cache = volume.cache.model_dump(exclude_none=True)
        said["cache"] = {"bytes": cache.pop("size_bytes"), **cache}
    if volume.link is not None and volume.link.bytes_per_s != 0:
        said["link"] = volume.link.model_dump(exclude_none=True)
    if volume.lost:
        said["lost"] = [{"drive": drive} for drive in volume.lost]
    return said


def _drive(name: str, drive: DriveConfig, folder: Shelf, raw_io: bool) -> dict[str, object]:
    key = f"drives.{name}"
    profile = profiles.load(drive.profile, folder, f"{key}.profile")
    if drive.order is not None and profile.kind != "disk":
        hint = f"Leave it out: {profile.title} has no queue to put in order."
        raise PreflightError("is for disks", key=f"{key}.order", hint=hint)
    if not isinstance(profile, FlashProfile):
        return _plain(key, drive, profile)
    return {
        "profile": profile.model_dump(exclude_none=True, exclude={"price_usd"}),
        **_format(key, drive, profile, raw_io),
        "driver": _choice(f"{key}.driver", drive.driver, tuple(profile.drivers), profile),
        "sector_bytes": _choice(f"{key}.sector_bytes", drive.sector_bytes, profile.sectors, profile),
        "trim": drive.trim,
        "host_ram_bytes": drive.host_ram_bytes,
        "log_delay_ns": drive.log_delay_ns,
    }


_HISTORIES = {"new": "formatted", "filled": "filled", "aged": "aged"}
"""The core's names for them (crates/sim/src/scenario/hardware.rs)."""


def _format(key: str, drive: DriveConfig, profile: FlashProfile, raw_io: bool) -> dict[str, object]:
    """The format and the drive's history, which its maker's formats wipe; raw I/O states its own history."""
    if drive.format != OPERATING_SYSTEM:
        there = tuple(profile.formats)
        return {"format": _choice(f"{key}.format", drive.format, there, profile, also=f"; or {OPERATING_SYSTEM}")}
    if profile.made_in is None:
        hint = f"Add it to the profile: [factory_format], with one of the values {', '.join(profile.formats)}."
        problem = f"the format of {profile.title} when new is unknown"
        raise PreflightError(problem, key=f"{key}.format", hint=hint)
    history = {} if raw_io else {"history": _HISTORIES[drive.history or "aged"]}
    return {"format": profile.made_in, **history}


def _plain(key: str, drive: DriveConfig, profile: DeviceProfile) -> dict[str, object]:
    """A disk, or a drive of another kind: nothing of it can be chosen but a disk's order."""
    for name in ("format", "history", "driver", "sector_bytes", "trim", "host_ram_bytes", "log_delay_ns"):
        if getattr(drive, name) is not None:
            hint = f"Leave it out: {profile.title} is {'a disk' if profile.kind == 'disk' else 'no flash drive'}."
            raise PreflightError("is for flash drives", key=f"{key}.{name}", hint=hint)
    return {"profile": profile.model_dump(exclude_none=True, exclude={"price_usd"}), "order": drive.order}


def _choice(key: str, chosen: T | None, there: Sequence[T], profile: Profile, also: str = "") -> T:
    """The choice, or the only one there is."""
    known = ", ".join(map(str, there)) + also
    if chosen is None and len(there) > 1:
        raise PreflightError(f"is missing, and {profile.title} has several", key=key, hint=f"Choose one of: {known}.")
    if chosen is not None and chosen not in there:
        raise PreflightError(f"{profile.title} has no {chosen!r}", key=key, hint=f"It has: {known}.")
    return there[0] if chosen is None else chosen
