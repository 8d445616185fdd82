"""Makes a volume from its parts, and reads back its state."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from storagelab.errors import PreflightError, RunFailed, noting, refuse
from storagelab.machine.disks import block_devices_of, disk_of, mount_of, mounts_here, size_bytes
from storagelab.model.measurement import Check
from storagelab.model.volume import PRICE, LimitConfig, VolumeConfig, effective
from storagelab.volumes import file_systems, limits, preparing, programs
from storagelab.volumes.drives import Drive, uuids_on
from storagelab.volumes.journal import Journal
from storagelab.words.numbers import bytes_

_IMAGE, PLACE = "drive", "mounted"


@dataclass
class Volume:
    """A volume that was made: its path, and facts about it. `facts` are stored in the run's environment."""

    name: str
    config: VolumeConfig
    path: Path
    drive: limits.Limiter | None = None
    limit: LimitConfig | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    drives: Sequence[Drive] = ()
    read_back: Callable[[], Iterable[Check]] = tuple
    """Compares the volume's current state with the spec."""
    begin: Callable[[], None] = lambda: None
    """Must be called when the load of a run begins."""
    at_the_end: Callable[[], Iterable[Check]] = tuple
    """Compares the state at the end of a run with the spec, because a RAID continues without a failed drive."""
    written_before: int = 0
    """The bytes that the kernel had counted as written to the drive before the volume was made. They are subtracted,
    because the kernel does not reset its counter.
    """

    def for_a_run(self) -> Volume:
        """A copy of the volume for one of several runs, with checks of its current state."""
        return replace(self, facts=dict(self.facts), checks=list(self.read_back()))

    def written_bytes(self) -> int | None:
        """The bytes written to the volume's drive since the volume was made, or None if the volume has no own drive."""
        device = self.facts.get("device")
        return None if not self.config.has_own_drive else file_systems.written_bytes(str(device)) - self.written_before

    @contextlib.contextmanager
    def loaded(self) -> Iterator[None]:
        """Limits the volume during the context, so that only the load is limited, and not the set-up. Also reads how
        many bytes are written to its drives. Raises RunFailed.
        """
        before = [preparing.written_in_life(drive) for drive in self.drives]
        with self._limited():
            yield
        self.checks += [
            one.model_copy(update={"name": f"{one.name}, at the end"}) for one in self.at_the_end() if not one.ok
        ]
        if self.drives:
            self.facts["drives"] = preparing.with_written(self.facts["drives"], before, self.drives)

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        if self.drive is None or self.limit is None:
            yield
            return
        asked, burst = limits.rates(self.limit), self.limit.burst
        bucket = None if burst is None else limits.Bucket(self.drive, asked, burst)
        with contextlib.ExitStack() as undo:
            undo.callback(self.drive.set, {})  # because later runs may use the volume, too
            if bucket is None:
                self.drive.set(asked)
            else:
                self.begin = undo.enter_context(bucket).begin
            now, wanted = self.drive.read(), asked if bucket is None else bucket.rates
            pairs = {key: (value, now.get(key, "no limit")) for key, value in wanted.items()}
            self.checks += file_systems.compared(self.name, pairs, "the kernel's control groups")
            yield
        if bucket is not None:
            self.facts["burst"] = {"credits_left": round(bucket.credits), "empty_after_s": bucket.emptied_after_s}


# --- before anything runs ---------------------------------------------------------------------------------------------


def check(name: str, volume: VolumeConfig, results: Path | None = None) -> tuple[Drive, ...]:
    """Checks that this machine has everything that the volume needs, except rights. Returns the volume's drives.
    `results` is the experiment's folder, which has the journal. Changes nothing. Raises PreflightError, which lists
    everything that is missing.
    """
    key = f"volumes.{name}"
    if not volume.has_own_drive:
        return ()
    filesystem = volume.filesystem or file_systems.DEFAULT
    own = file_systems.LOOP_PROGRAMS if volume.devices is None else {}
    lacks, found = list[PreflightError](), tuple[Drive, ...]()
    with noting(lacks):
        programs.check(own | file_systems.programs_for(filesystem), key)
    with noting(lacks):
        file_systems.check_layers(volume, key)
    with noting(lacks):
        found = preparing.check(name, volume, None if results is None else Journal(results))
    if volume.limit is not None:
        with noting(lacks):
            limits.check(f"{key}.limit")
    if found or volume.devices is None:
        with noting(lacks):
            size = volume.file_bytes or _smallest(volume, found)
            file_systems.check(filesystem, size, f"{key}.file" if volume.devices is None else f"{key}.devices")
        with noting(lacks):
            _limit(name, volume, found)
    refuse(lacks)
    return found


def _smallest(volume: VolumeConfig, found: Sequence[Drive]) -> int:
    return int(volume.share * min(drive.size_bytes for drive in found))


def check_rights(name: str, volume: VolumeConfig) -> None:
    """Raises PreflightError if this user may not make the volume."""
    if volume.has_own_drive and os.geteuid() != 0:
        raise PreflightError(
            "only root may make drives and file systems",
            key=f"volumes.{name}.{'devices' if volume.devices else 'file'}",
            hint="run storagelab as root; or name a folder on a drive that was prepared by hand",
        )  # fmt: skip


def steps(name: str, volume: VolumeConfig, found: Sequence[Drive] = ()) -> Iterator[str]:
    """Descriptions of the steps that make the volume, for `plan`. `found` are the volume's drives."""
    plain, name = name, f"{name}, once for each block" if volume.kept_for_block else name
    if volume.by_hand:
        keys = ", ".join(f"{key} = {value}" for key, value in asked_of_a_person(volume).items())
        yield f"{name}: wait until you have prepared it" + (f": {keys}" if keys else "")
    elif volume.prepare is not None:
        yield f"{name}: run the command {volume.prepare!r}"
    if volume.has_own_drive:
        for_root = "" if os.geteuid() == 0 else " (only root may do this)"
        yield from (f"{name}: {step}{for_root}" for step in _steps(name, volume, found))
    if volume.check is not None:
        yield f"{plain}: run the command {volume.check!r}, and store its output"


def _steps(name: str, volume: VolumeConfig, found: Sequence[Drive]) -> Iterator[str]:
    filesystem = volume.filesystem or file_systems.DEFAULT
    if volume.file_bytes is not None:
        sector = f" with sectors of {volume.sector_bytes} B" if volume.sector_bytes else ""
        yield f"make a drive of {bytes_(volume.file_bytes)} from a new file in {volume.path}{sector}"
    yield from preparing.steps(volume, found)
    yield from file_systems.layer_steps(volume)
    options = f" {volume.mkfs_options}" if volume.mkfs_options else ""
    mounted = file_systems.with_trim(volume.mount_options, volume.trim) or "its defaults"
    yield f"{file_systems.maker(filesystem)}{options}, mounted with {mounted}"
    yield from (f"{key} = {value}" for key, value in file_systems.queue_asked(volume).items())
    if (limit := _limit(name, volume, found)) is not None:
        yield f"limited to {_limit_text(limit)}"
    yield from preparing.put_back_steps(volume, found)


def _limit(name: str, volume: VolumeConfig, found: Sequence[Drive]) -> LimitConfig | None:
    """The volume's limit with all its figures, or None if it has no limit."""
    if volume.limit is None:
        return None
    return limits.resolved(volume.limit, volume.file_bytes or _smallest(volume, found), f"volumes.{name}.limit")


def warnings(name: str, volume: VolumeConfig, found: Sequence[Drive]) -> Iterator[str]:
    """Warnings about mount options that make data less safe, and about limits that the kernel can only keep roughly."""
    yield from file_systems.warnings(name, volume.mount_options)
    if volume.has_own_drive and (limit := _limit(name, volume, found)) is not None:
        yield from limits.warnings(name, limits.rates(limit))


def _limit_text(limit: LimitConfig) -> str:
    parts = []
    for what in ("read", "write"):
        iops, rate = getattr(limit, f"{what}_iops"), getattr(limit, f"{what}_bytes_per_s")
        parts += [f"{effective(f'{what}_iops', iops):,.10g} {what}s/s"] if iops else []
        parts += [f"{bytes_(rate)}/s of {what}s"] if rate else []
    if limit.burst is not None:
        parts.append(
            f"bursts to {limit.burst.iops:,}/s with {limit.burst.credits:,} credits, {limit.burst.start} at first"
        )
    return ", ".join(parts) or "nothing"


# --- a run ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def made(
    name: str, volume: VolumeConfig, folder: Path, spec_folder: Path, levels: Mapping[str, object],
    results: Path | None = None,
) -> Iterator[Volume]:  # fmt: skip
    """Makes the volume, and removes it at the end. `folder` is the experiment's own empty folder at the volume's path.
    `results` is the folder of the experiment's results. Raises RunFailed.
    """
    variables = environment(name, keys_of(volume), levels)
    facts: dict[str, Any] = {}
    if volume.prepare is not None and not volume.by_hand:
        facts["prepare"] = run_command(volume.prepare, spec_folder, variables, f"volumes.{name}.prepare")
    with contextlib.ExitStack() as undo:
        one = Volume(name, volume, (spec_folder / (volume.path or "")).expanduser(), facts=facts)
        if volume.has_own_drive:
            one = _on_own_drive(undo, name, volume, folder, facts, results)
        as_made = one.read_back
        variables["STORAGELAB_PATH"] = str(one.path)

        def read_back() -> Iterator[Check]:
            yield from checks_by_hand(name, volume, one.path) if volume.by_hand else as_made()
            if volume.check is not None:
                yield _told(name, volume.check, spec_folder, variables, one.facts)

        one.read_back = read_back
        one.checks = list(read_back())
        yield one


def _told(name: str, command: str, folder: Path, variables: Mapping[str, str], facts: dict[str, Any]) -> Check:
    """Stores the output of the user's command that describes the volume. Returns a check of its exit code only."""
    got = "0"
    try:
        facts["check"] = run_command(command, folder, variables, f"volumes.{name}.check")
    except RunFailed as error:
        got = str(error)
    return Check(name=f"check of volume {name}", asked="exit code 0", got=got, ok=got == "0", read_from="the command")


@dataclass
class _Base:
    """The `devices` below the layers and the file system, by the kernel's names. `read_back` compares their state with
    the spec.
    """

    devices: list[str]
    read_back: Callable[[], Iterable[Check]]
    uuids: Sequence[UUID]
    """One UUID for each device. The content that is made on the device gets it."""
    drives: Sequence[Drive] = ()
    journal: Journal | None = None

    def note(self, event: Callable[[Journal, Drive], object]) -> None:
        """Writes an event to the journal for each of the drives."""
        for drive in self.drives:
            if self.journal is not None:
                event(self.journal, drive)

    def announce(self, what: str) -> None:
        """Writes the next step to the journal."""
        self.note(lambda journal, drive: journal.step(drive, what))


def _on_own_drive(
    undo: contextlib.ExitStack, name: str, volume: VolumeConfig, folder: Path, facts: dict[str, Any],
    results: Path | None,
) -> Volume:  # fmt: skip
    """Makes the drives, the layers, the file system, the queue settings and the limit, in this order."""
    undo.enter_context(programs.alone_at(folder))
    base = (_file if volume.file_bytes is not None else _drives)(undo, name, volume, folder, facts, results)
    for step in file_systems.layer_steps(volume):
        base.announce(step)
    stack = undo.enter_context(file_systems.stacked(name, volume, base.devices, base.uuids))
    device, queue = stack.device, file_systems.queue_asked(volume)
    filesystem = volume.filesystem or file_systems.DEFAULT
    disks = dict.fromkeys(map(disk_of, base.devices))
    if queue:
        base.note(lambda journal, drive: journal.queue(drive, file_systems.queue_now(drive.name, queue)))
    for disk in disks:
        undo.enter_context(file_systems.queue_set_to(disk, queue))
    base.announce(file_systems.maker(filesystem))
    written = file_systems.written_bytes(device)
    is_lowest = not any(layer.hides for layer in file_systems.layers_of(volume))
    with _naming(f"volumes.{name}.mkfs_options", volume.mkfs_options):
        file_systems.make(f"/dev/{device}", filesystem, volume.mkfs_options, base.uuids[0] if is_lowest else None)
    base.note(lambda journal, drive: journal.made(drive, uuids_on(drive.name)))
    place, options = folder / PLACE, file_systems.with_trim(volume.mount_options, volume.trim)
    with _naming(f"volumes.{name}.mount_options", volume.mount_options):
        undo.enter_context(file_systems.mounted(f"/dev/{device}", place, filesystem, options))
    drive = limit = None
    if volume.limit is not None:
        drive = undo.enter_context(limits.limited(disk_of(device)))  # removed first, so that unmounting is not limited
        limit = limits.resolved(volume.limit, size_bytes(device), f"volumes.{name}.limit")
        facts["limit"] = limit.model_dump(exclude_none=True)
    facts |= {"device": device, "mkfs_options": volume.mkfs_options or "", **stack.facts}

    def read_back() -> Iterator[Check]:
        yield from base.read_back()
        yield from stack.read_back()
        for disk in disks:
            yield from file_systems.queue_checks(name, disk, queue)
        yield from file_systems.checks(name, place, filesystem, volume.mount_options, volume.trim)

    return Volume(
        name, volume, place, drive, limit, facts, drives=base.drives, read_back=read_back, at_the_end=stack.read_back,
        written_before=written,
    )  # fmt: skip


@contextlib.contextmanager
def _naming(key: str, value: str | None) -> Iterator[None]:
    """Adds the key and its value to a program's error message, because the program may have refused this value."""
    try:
        yield
    except RunFailed as error:
        if value is None:
            raise
        raise RunFailed(f"{error}\n  it may have refused {key} = {value!r}: change it, or leave it out") from error


def _file(
    undo: contextlib.ExitStack, name: str, volume: VolumeConfig, folder: Path, facts: dict[str, Any], _: Path | None
) -> _Base:
    assert volume.file_bytes is not None
    device = undo.enter_context(file_systems.made_of_file(folder / _IMAGE, volume.file_bytes, volume.sector_bytes))
    facts["file_bytes"] = size_bytes(device)

    def read_back() -> Iterator[Check]:
        pairs = {
            "size": (volume.file_bytes, size_bytes(device)), "direct I/O": (True, file_systems.is_direct(device)),
            "sector": (volume.sector_bytes, file_systems.sector_bytes(device)),
        }  # fmt: skip
        return file_systems.compared(name, pairs, "/sys/class/block")

    return _Base([device], read_back, [uuid4()])


def _drives(
    undo: contextlib.ExitStack, name: str, volume: VolumeConfig, _: Path, facts: dict[str, Any], results: Path | None
) -> _Base:
    if results is None:
        raise RunFailed(f"volumes.{name}.devices needs a folder of results, where the journal of drives is kept")
    journal, uuids = Journal(results), [uuid4() for _ in volume.devices or ()]
    used = undo.enter_context(preparing.prepared(name, volume, journal, uuids))
    facts["drives"] = preparing.facts(used)
    drives = [drive for drive, _ in used]
    return _Base([device for _, device in used], partial(preparing.checks, name, volume, used), uuids, drives, journal)


def remove_left(folders: Sequence[Path]) -> None:
    """Unmounts and detaches the remains of a killed run in these folders. First waits until its programs have ended.
    Raises RunFailed.
    """
    for folder in (one for one in folders if one.is_dir()):
        with programs.alone_at(folder):
            for place in file_systems.left_in(folder):
                file_systems.unmount(place)
            for device in file_systems.loop_devices_in(folder):
                if limits.groups() is not None:
                    limits.Limiter(device).set({})
                programs.said("losetup", "--detach", f"/dev/{device}")


def confirm(name: str, volume: VolumeConfig, results: Path) -> None:
    """Notes that the user confirmed each of the volume's drives as it is now. Raises PreflightError."""
    for drive in check(name, volume, results):
        Journal(results).confirmed(drive)


def put_back(results: Path, may_wipe: Collection[str] = ()) -> list[str]:
    """Gives back the drives that are still claimed because a run of the experiment was killed. Returns descriptions of
    the steps. Raises RunFailed.
    """
    return preparing.put_back(Journal(results), may_wipe)


# --- volumes that a person or the user's own command prepares ---------------------------------------------------------

_SIZE_OFF = 0.01
"""The share by which the size may differ from the requested size, because partitions begin at whole MiB."""
_NOT_ASKED = frozenset({"path", "prepare", "prepare_text", "check", "made_for"})


def asked_of_a_person(volume: VolumeConfig) -> dict[str, object]:
    """The keys and values that tell a person how to prepare the volume."""
    return {key: value for key, value in keys_of(volume).items() if key not in _NOT_ASKED}


def checks_by_hand(name: str, volume: VolumeConfig, place: Path) -> Iterator[Check]:
    """Compares the volume that is mounted at `place` with the spec, as far as its properties can be read."""
    mount = mount_of(place, mounts_here())
    if volume.filesystem is not None or volume.mount_options is not None:
        filesystem = volume.filesystem or (mount.filesystem if mount is not None else "none")
        yield from file_systems.checks(name, place, filesystem, volume.mount_options, None)
    device = next(iter(block_devices_of(mount)), "") if mount is not None else ""
    for what, wanted, got in (
        ("sector", volume.sector_bytes, file_systems.sector_bytes(device) if device else None),
        ("size", volume.size_bytes, size_bytes(device) if device else None),
    ):
        if wanted is not None:
            near = got is not None and abs(got - wanted) <= (_SIZE_OFF * wanted if what == "size" else 0)
            yield Check(
                name=f"{what} of volume {name}", asked=str(wanted), got=str(got), ok=near, read_from="/sys/class/block"
            )
    yield from file_systems.queue_checks(name, device, file_systems.queue_asked(volume)) if device else ()


# --- the user's own commands, which prepare a volume or show how it was prepared --------------------------------------

PREFIX = "STORAGELAB_"
_PATIENCE_S = 3600.0
_LONGEST_OUTPUT = 10_000


def environment(name: str, keys: Mapping[str, object], levels: Mapping[str, object]) -> dict[str, str]:
    """The environment variables for a command: the volume's name, its keys, its own variables, and the levels of the
    cell.

    For example, STORAGELAB_LEVEL_LAYOUT_DATA_FILES has the level of the factor "layout.data_files".
    """
    found = {"VOLUME": name} | {_variable(key): str(value) for key, value in keys.items()}
    found |= {f"LEVEL_{_variable(factor)}": str(level) for factor, level in levels.items()}
    return {f"{PREFIX}{variable}": value for variable, value in found.items()}


def _variable(factor: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", factor.upper()).strip("_")


def run_command(command: str, folder: Path, variables: Mapping[str, str], key: str) -> str:
    """Runs the command with the shell in `folder`. Returns its output, the text of stdout and stderr together. If the
    command fails or has not ended after an hour, kills all processes of its process group. Then raises RunFailed. This
    error names the key.
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True, errors="replace", env={**os.environ, **variables}, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=_PATIENCE_S)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise RunFailed(f"{key}: the command has not ended after {_PATIENCE_S / 60:g} min") from None
        raise
    if process.returncode != 0:
        words = " ".join(output.split())[-400:] or "it printed nothing"
        raise RunFailed(f"{key}: the command failed with exit code {process.returncode}: {words}")
    return output.strip()[-_LONGEST_OUTPUT:]


def keys_of(volume: VolumeConfig) -> dict[str, object]:
    """The keys of the volume that the spec sets, except its price and tables, and the volume's variables."""
    keys = volume.model_dump(exclude_unset=True, exclude={PRICE})
    return {**{key: value for key, value in keys.items() if not isinstance(value, dict)}, **volume.variables}
