"""A volume of one run, put together from its parts, and what was read back of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from storagelab.errors import PreflightError, RunFailed
from storagelab.model.config import PRICE, VolumeConfig
from storagelab.model.limits import LimitConfig
from storagelab.model.measurement import Check
from storagelab.provisioning import (
    bursts,
    cloud_disks,
    file_systems,
    limits,
    loop_devices,
    own_commands,
    programs,
    queues,
)
from storagelab.provisioning.limits import Limited
from storagelab.words.numbers import bytes_

_IMAGE, PLACE = "drive", "mounted"


@dataclass
class MadeVolume:
    """A volume that was made: where it is, and what was read back of it. `facts` go into the run's environment."""

    name: str
    config: VolumeConfig
    path: Path
    drive: Limited | None = None
    limit: LimitConfig | None = None
    facts: dict[str, object] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    @contextlib.contextmanager
    def loaded(self) -> Iterator[None]:
        """Limits the volume while the context lasts: setting it up is not what is measured. Raises RunFailed."""
        if self.drive is None or self.limit is None:
            yield
            return
        asked, burst = cloud_disks.rates(self.limit), self.limit.burst
        if burst is None:
            self.drive.set(asked)
            self.checks += limits.checks(self.name, asked, self.drive.read())
            yield
            return
        bucket = bursts.Bucket(self.drive, asked, burst)
        with bucket:
            self.checks += limits.checks(self.name, bucket.rates, self.drive.read())
            yield
        self.facts["burst"] = {"credits_left": round(bucket.credits), "empty_after_s": bucket.emptied_after_s}


# --- before anything runs ---------------------------------------------------------------------------------------------


def check(name: str, volume: VolumeConfig) -> None:
    """Everything that making the volume needs of this machine. Changes nothing. Raises PreflightError."""
    key = f"volumes.{name}"
    if volume.file_bytes is None:
        return
    if os.geteuid() != 0:
        raise PreflightError(
            "only root may make drives and file systems", key=f"{key}.file",
            hint="run storagelab as root; or leave file out, and name a folder on a drive that was prepared by hand",
        )  # fmt: skip
    filesystem = volume.filesystem or file_systems.DEFAULT
    programs.check((*loop_devices.PROGRAMS, *file_systems.PROGRAMS, file_systems.maker(filesystem)), key)
    file_systems.check(filesystem, volume.file_bytes, key)
    if volume.limit is not None:
        limits.check(f"{key}.limit")
        cloud_disks.resolved(volume.limit, volume.file_bytes, f"{key}.limit")


def steps(name: str, volume: VolumeConfig) -> Iterator[str]:
    """What is done before each run, in words, for `plan`."""
    if volume.prepare is not None:
        yield f"{name}: run the command {volume.prepare!r}"
    if volume.file_bytes is not None:
        filesystem = volume.filesystem or file_systems.DEFAULT
        sector = f" with sectors of {volume.sector_bytes} B" if volume.sector_bytes else ""
        yield f"{name}: make a drive of {bytes_(volume.file_bytes)} from a new file in {volume.path}{sector}"
        options = f" {volume.mkfs_options}" if volume.mkfs_options else ""
        yield f"{name}: {file_systems.maker(filesystem)}{options}, mounted with {volume.mount_options or 'its defaults'}"
        yield from (f"{name}: {key} = {value}" for key, value in _queue(volume).items())
        if volume.limit is not None:
            yield f"{name}: limited to {_limit_text(cloud_disks.resolved(volume.limit, volume.file_bytes, name))}"
    if volume.check is not None:
        yield f"{name}: run the command {volume.check!r}, and store what it prints"


def _limit_text(limit: LimitConfig) -> str:
    parts = []
    for what in ("read", "write"):
        iops, rate = getattr(limit, f"{what}_iops"), getattr(limit, f"{what}_bytes_per_s")
        own = [f"{iops:,} {what}s/s"] if iops else []
        own += [f"{bytes_(rate)}/s of {what}s"] if rate else []
        parts += own
    if limit.burst is not None:
        parts.append(
            f"bursts to {limit.burst.iops:,}/s with {limit.burst.credits:,} credits, {limit.burst.start} at first"
        )
    return ", ".join(parts) or "nothing"


def _queue(volume: VolumeConfig) -> dict[str, str | int]:
    asked = {"scheduler": volume.scheduler, "read_ahead_bytes": volume.read_ahead_bytes}
    return {key: value for key, value in asked.items() if value is not None}


# --- a run ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def made(
    name: str, volume: VolumeConfig, folder: Path, spec_folder: Path, levels: Mapping[str, object]
) -> Iterator[MadeVolume]:
    """Makes the volume. `folder` is the experiment's own on the volume's path, empty. Raises RunFailed."""
    variables = own_commands.environment(name, _written(volume), levels)
    facts: dict[str, object] = {}
    if volume.prepare is not None:
        facts["prepare"] = own_commands.run(volume.prepare, spec_folder, variables, f"volumes.{name}.prepare")
    with contextlib.ExitStack() as undo:
        one = MadeVolume(name, volume, Path(volume.path or ""), facts=facts)
        if volume.file_bytes is not None:
            one = _on_a_file(undo, name, volume, folder, facts)
        if volume.check is not None:
            variables["STORAGELAB_PATH"] = str(one.path)
            one.checks.append(_told(name, volume.check, spec_folder, variables, one.facts))
        yield one


def _told(name: str, command: str, folder: Path, variables: Mapping[str, str], facts: dict[str, object]) -> Check:
    """What the user's command says about the volume; it says how the volume is, not whether that is right."""
    what = f"check of volume {name}"
    try:
        facts["check"] = own_commands.run(command, folder, variables, f"volumes.{name}.check")
    except RunFailed as error:
        return Check(name=what, asked="exit code 0", got=str(error), ok=False, read_from="the command")
    return Check(name=what, asked="exit code 0", got="0", ok=True, read_from="the command")


def _written(volume: VolumeConfig) -> dict[str, object]:
    """The keys of the volume that the spec has, without its price, and its variables."""
    keys = volume.model_dump(exclude_unset=True, exclude={PRICE})
    return {**{key: value for key, value in keys.items() if not isinstance(value, dict)}, **volume.variables}


def _on_a_file(
    undo: contextlib.ExitStack, name: str, volume: VolumeConfig, folder: Path, facts: dict[str, object]
) -> MadeVolume:
    assert volume.file_bytes is not None
    filesystem = volume.filesystem or file_systems.DEFAULT
    device = undo.enter_context(loop_devices.attached(folder / _IMAGE, volume.file_bytes, volume.sector_bytes))
    undo.enter_context(queues.set_to(device, _queue(volume)))
    file_systems.make(f"/dev/{device}", filesystem, volume.mkfs_options)
    place = folder / PLACE
    undo.enter_context(file_systems.mounted(f"/dev/{device}", place, filesystem, volume.mount_options))
    drive = limit = None
    if volume.limit is not None:
        drive = undo.enter_context(limits.limited(device))  # left first: the last writes need no limit
        limit = cloud_disks.resolved(volume.limit, volume.file_bytes, f"volumes.{name}.limit")
        facts["limit"] = limit.model_dump(exclude_none=True)
    facts |= {
        "device": device,
        "file_bytes": loop_devices.size_bytes(device),
        "mkfs_options": volume.mkfs_options or "",
    }
    return MadeVolume(
        name, volume, place, drive, limit, facts, checks=list(_file_checks(name, volume, device, place, filesystem))
    )


def _file_checks(name: str, volume: VolumeConfig, device: str, place: Path, filesystem: str) -> Iterator[Check]:
    compared = {
        "size": (volume.file_bytes, loop_devices.size_bytes(device)),
        "direct I/O": (True, loop_devices.is_direct(device)),
        "sector": (volume.sector_bytes, queues.sector_bytes(device)),
    }
    for what, (asked, got) in compared.items():
        if asked is not None:
            check_name = f"{what} of volume {name}"
            yield Check(name=check_name, asked=str(asked), got=str(got), ok=asked == got, read_from="/sys/class/block")
    yield from queues.checks(name, device, _queue(volume))
    yield from file_systems.checks(name, place, filesystem, volume.mount_options)


def remove_left(folders: Sequence[Path]) -> None:
    """Unmounts and detaches what a killed run left in these folders. Raises RunFailed."""
    for folder in folders:
        for place in file_systems.left_in(folder):
            file_systems.unmount(place)
        for device in loop_devices.left_in(folder):
            if limits.groups() is not None:
                Limited(device).set({})
            programs.said("losetup", "--detach", f"/dev/{device}")
