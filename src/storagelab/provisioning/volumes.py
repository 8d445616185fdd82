"""A volume of one run, put together from its parts, and what was read back of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine.disks import block_devices_of, mount_of, mounts_here
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
_SIZE_OFF = 0.01
"""By how much the size of a volume that is prepared by hand may differ: partitions begin at whole MiB."""


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
    read_back: Callable[[], Iterable[Check]] = tuple
    """Looks again how it is."""
    written_before: int = 0
    """What the drive of a made volume had written before it was made: the kernel goes on counting."""

    def for_a_run(self) -> MadeVolume:
        """The same volume for one of several runs, as it is now."""
        return replace(self, facts=dict(self.facts), checks=list(self.read_back()))

    def written_bytes(self) -> int | None:
        """What was written to its drive since it was made, if it has one of its own."""
        device = self.facts.get("device")
        return None if self.config.file_bytes is None else loop_devices.written_bytes(str(device)) - self.written_before

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
            try:
                yield
            finally:
                self.drive.set({})  # the volume may be kept for further runs
            return
        bucket = bursts.Bucket(self.drive, asked, burst)
        try:
            with bucket:
                self.checks += limits.checks(self.name, bucket.rates, self.drive.read())
                yield
        finally:
            self.drive.set({})
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
    plain, name = name, f"{name}, once for each block" if volume.kept_for_block else name
    if volume.by_hand:
        keys = ", ".join(f"{key} = {value}" for key, value in asked_of_a_person(volume).items())
        yield f"{name}: wait until you have prepared it" + (f": {keys}" if keys else "")
    elif volume.prepare is not None:
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
        yield f"{plain}: run the command {volume.check!r}, and store what it prints"


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
    if volume.prepare is not None and not volume.by_hand:
        facts["prepare"] = own_commands.run(volume.prepare, spec_folder, variables, f"volumes.{name}.prepare")
    with contextlib.ExitStack() as undo:
        one = MadeVolume(name, volume, (spec_folder / (volume.path or "")).expanduser(), facts=facts)
        if volume.file_bytes is not None:
            one = _on_a_file(undo, name, volume, folder, facts)
        as_made = one.read_back
        variables["STORAGELAB_PATH"] = str(one.path)

        def read_back() -> Iterator[Check]:
            yield from as_made() if not volume.by_hand else _by_hand_checks(name, volume, one.path)
            if volume.check is not None:
                yield _told(name, volume.check, spec_folder, variables, one.facts)

        one.read_back = read_back
        one.checks = list(read_back())
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
    written = loop_devices.written_bytes(device)
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
        name, volume, place, drive, limit, facts,
        read_back=lambda: _file_checks(name, volume, device, place, filesystem), written_before=written,
    )  # fmt: skip


def asked_of_a_person(volume: VolumeConfig) -> dict[str, object]:
    """What the spec asks of a volume that is prepared by hand, by its keys."""
    left_out = {"path", "prepare", "prepare_text", "check", "made_for", "variables"}
    return {key: value for key, value in _written(volume).items() if key not in left_out} | dict(volume.variables)


def _by_hand_checks(name: str, volume: VolumeConfig, place: Path) -> Iterator[Check]:
    """What can be read back of a volume that a person prepared."""
    if volume.filesystem is not None or volume.mount_options is not None:
        mount = mount_of(place, mounts_here())
        filesystem = volume.filesystem or (mount.filesystem if mount is not None else "none")
        yield from file_systems.checks(name, place, filesystem, volume.mount_options)
    mount = mount_of(place, mounts_here())
    device = next(iter(block_devices_of(mount)), "") if mount is not None else ""
    for what, asked, got in (
        ("sector", volume.sector_bytes, queues.sector_bytes(device) if device else None),
        ("size", volume.size_bytes, loop_devices.size_bytes(device) if device else None),
    ):
        if asked is not None:
            near = got is not None and abs(got - asked) <= (_SIZE_OFF * asked if what == "size" else 0)
            yield Check(
                name=f"{what} of volume {name}", asked=str(asked), got=str(got), ok=near, read_from="/sys/class/block"
            )
    yield from queues.checks(name, device, _queue(volume)) if device else ()


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
