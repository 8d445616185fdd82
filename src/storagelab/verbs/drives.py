"""`storagelab drives`: measures a drive, and keeps what it can do as a profile."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from storagelab import profiles, screen
from storagelab.drives.fitting import Law, LoadPoint, Result, planned
from storagelab.drives.fitting import fit as fitted
from storagelab.drives.measured import Identity, Measured, MeasuredDrive, Point, as_toml
from storagelab.drives.sizing import sizing
from storagelab.errors import PreflightError
from storagelab.loads import fio
from storagelab.loads.fio import sector_bytes
from storagelab.machine import host
from storagelab.machine.descriptors import write_whole
from storagelab.machine.disks import serial_of
from storagelab.report import writing
from storagelab.report.text.profiles import print_cloud_disks, print_figures, print_profiles, print_sizing, print_title
from storagelab.run import measuring
from storagelab.run.engine import sweep
from storagelab.run.measuring import FULL, QUICK, Effort, KeptResults
from storagelab.spec import matrix, reading
from storagelab.spec.keys import leaves
from storagelab.spec.units import parse_bytes
from storagelab.stopping import Interruptible
from storagelab.verbs.planning import saying_how_far, site_of
from storagelab.volumes import for_runs, limits
from storagelab.volumes.folders import volumes_locked
from storagelab.words.numbers import capacity, count, duration, percent

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_SEED = 1


class _Volume(NamedTuple):
    """Where it is measured; while `loaded` lasts, its limits hold."""

    folder: Path
    loaded: Callable[[], AbstractContextManager[None]]
    identity: dict[str, Any]
    """What a fit that is resumed must have in common with what was kept."""


def fit(name: str, volume: str, *, spec: Path | None, quick: bool, size: str | None) -> None:
    """Raises PreflightError before anything is written."""
    effort = QUICK if quick else FULL
    if size is not None:
        effort = effort._replace(file_bytes=_size(size))
    file = _free_file(name)
    with Interruptible(), _volume(volume, spec) as found:
        measuring.check(found.folder, effort.file_bytes)
        kept = KeptResults(file.with_suffix(".partial"), {**found.identity, **effort._asdict()})
        asked = planned(quick=quick, seed=_SEED)
        _say_what_comes(found.folder, effort, len(asked), kept)
        try:
            drive, usable, sector = _measured(name, found, effort, asked, kept)
        except KeyboardInterrupt:
            if kept.file.exists():
                many = f"{kept.many} measurements are kept in {kept.file}; the same command goes on"
                screen.say(f"interrupted: {many}")
            raise
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, [as_toml(drive, usable_bytes=usable, sector_bytes=sector).encode()])
    kept.file.unlink(missing_ok=True)
    measured = drive.measured
    held_out = sum(point.held_out for point in measured.points)
    error = drive.median_error
    screen.say(f"{file}: {len(measured.points)} points, {held_out} of them held out of the fit.", stdout=True)
    if error is not None:
        screen.say(
            f"At the points held out, the fit is off by {percent(error)} (median), 19 of 20 by at most "
            f"{percent(drive.relative_error)}.",
            stdout=True,
        )
    for one in measured.sustained:
        if one.fell_after_s is not None:
            what = f"{'sequential' if one.sequential else 'random'} {one.operation}s"
            screen.say(
                f"Burst: {what} fell from {count(one.burst_per_s)} to {count(one.sustained_per_s)} a second after "
                f"{duration(one.fell_after_s)}.",
                stdout=True,
            )
    if measured.identity.virtual:
        screen.say(
            "The drive is virtual: the figures are those of its host, with its caches and its "
            "other guests, on this day.",
            stdout=True,
        )
    if not measured.complete:
        screen.say("Not all points were measured in time: what is missing lies outside of what is known.", stdout=True)


def _size(text: str) -> int:
    try:
        return parse_bytes(text) // 2**20 * 2**20
    except ValueError as error:
        raise PreflightError(str(error), key="--size", hint="--size 16GiB") from None


def _free_file(name: str) -> Path:
    """Where the profile will be."""
    if not _NAME.fullmatch(name):
        hint = "use small letters, digits, dots and hyphens, such as nvme-4k"
        raise PreflightError(f"{name!r} can't be a profile's name", key="NAME", hint=hint)
    if name in profiles.ready_made():
        raise PreflightError(f"{name!r} is a ready-made profile", key="NAME", hint="choose another name")
    file = profiles.own_folder() / f"{name}.toml"
    if file.exists():
        hint = f"choose another name, or remove {file}"
        raise PreflightError(f"{name!r} was measured before, and its figures are kept", key="NAME", hint=hint)
    return file


@contextmanager
def _volume(volume: str, spec: Path | None) -> Iterator[_Volume]:
    """A folder, or a volume of a spec, made for this if it has to be made."""
    if spec is None:
        yield _on(Path(volume).expanduser().resolve())
        return
    experiment = reading.load(spec)
    config = matrix.expand(experiment).cells[0].config
    if volume not in config.volumes:
        hint = f"There are: {', '.join(config.volumes)}."
        raise PreflightError(f"the spec has no volume {volume!r}", file=spec, key="--volume", hint=hint)
    site, wanted = site_of(experiment, Path("results") / experiment.name), config.volumes[volume]
    if wanted.devices is not None or wanted.prepare is not None:
        hint = "prepare it, and give its folder with --volume PATH"
        raise PreflightError("is made of whole drives or by commands", file=spec, key=f"volumes.{volume}", hint=hint)
    if not wanted.made:
        if wanted.path is None:
            hint = "name a volume with a path; a simulated drive has a profile already"
            raise PreflightError("has no path", file=spec, key=f"volumes.{volume}", hint=hint)
        yield _on(site.place(wanted.path, f"volumes.{volume}.path"))
        return
    plan = matrix.expand(experiment)
    for_runs.check(plan, site)
    with volumes_locked(plan, site):
        for line in sweep(plan, site):
            screen.say(line)
        with for_runs.made({volume: wanted}, config, site, {}) as (made,):
            keys = leaves(wanted.model_dump(mode="json", exclude={"price_per_month"}), ("volumes", volume))
            of_spec = {"spec": str(spec.resolve()), "volume": volume, **{".".join(key): value for key, value in keys}}
            below = _on(site.place(wanted.path or ".", f"volumes.{volume}.path")).identity
            yield _Volume(made.path, made.loaded, {**below, **of_spec})


def _on(folder: Path) -> _Volume:
    facts = host.describe_volume(folder)
    names: list[str] = facts["disks"]  # type: ignore[assignment]
    identity = {
        "path": os.path.realpath(folder), "device": facts["device"], "serial": [serial_of(one) or one for one in names],
        "model": facts["device_model"], "firmware": facts["device_firmware"], "filesystem": facts["filesystem"],
        "filesystem_id": os.statvfs(folder).f_fsid if folder.exists() else None, "limits": facts["throttle"],
    }  # fmt: skip
    return _Volume(folder, nullcontext, identity)


def _say_what_comes(folder: Path, effort: Effort, points: int, kept: KeptResults) -> None:
    screen.say(
        f"Writes a file of {capacity(effort.file_bytes)} in a folder of its own below {folder}, measures there for "
        f"about {duration(effort.about_s(points * effort.passes - len(kept.results)))}, and removes both."
    )
    if kept.many:
        screen.say(f"Goes on: {kept.many} measurements were kept.")


def _measured(
    name: str, volume: _Volume, effort: Effort, asked: list[LoadPoint], kept: KeptResults
) -> tuple[MeasuredDrive, int, int]:
    began = time.monotonic()
    with measuring.file_on(volume.folder, effort.file_bytes) as (place, engine), volume.loaded():
        facts = host.describe_volume(volume.folder)
        with saying_how_far() as tell:
            measuring.stretches(place, engine, effort, kept, tell)
            measuring.points(place, engine, asked, effort, kept, tell)
    results = measuring.averaged(kept.results)
    try:
        law = fitted(results)
    except ValueError as error:
        raise PreflightError(f"{error}: the volume is too slow or the machine too busy", key="--volume") from None
    identity = _identity(facts)
    return (
        MeasuredDrive(
            name=name,
            title=f"{identity.model or 'Drive'} with {identity.filesystem}, as measured",
            law=law,
            measured=Measured(
                identity=identity,
                measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
                seconds=round(time.monotonic() - began, 1),
                by=f"fio {fio.find().version} with {engine}",
                complete=len(results) == len(asked),
                file_bytes=effort.file_bytes,
                sustained=tuple(kept.sustained),
                points=tuple(_point(law, one) for one in results),
            ),
        ),
        int(facts["size_bytes"]),  # type: ignore[call-overload]
        sector_bytes(volume.folder) or 512,
    )


def _identity(facts: dict[str, Any]) -> Identity:
    return Identity(
        model=" ".join(filter(None, (facts["device_vendor"], facts["device_model"]))) or facts["device"] or "",
        firmware=facts["device_firmware"] or "",
        lba_bytes=(facts["file_system_queue"] or facts["queue"]).get("logical_block_bytes"),
        limits={limit: float(value) for limit, value in facts["throttle"].items()},
        filesystem=facts["filesystem"] or "",
        virtual=facts["virtual"],
    )


def _point(law: Law, one: Result) -> Point:
    asked = one.asked
    fitted_per_s = law.requests_per_s(
        block_bytes=asked.block_bytes,
        read_share=asked.read_share,
        depth=asked.depth,
        sequential_share=float(asked.sequential),
    )
    return Point(
        **asked._asdict(), requests_per_s=round(one.requests_per_s, 3), mean_latency_s=round(one.mean_latency_s, 9),
        fitted_per_s=round(float(fitted_per_s), 3),
    )  # fmt: skip


# --- `storagelab drives list` and `drives show` -----------------------------------------------------------------------


def list_all() -> None:
    found = [profiles.load(name, Path()) for name in profiles.ready_made()]
    for name in profiles.own():
        try:
            found.append(profiles.load(name, Path()))
        except PreflightError as error:  # the others are listed
            screen.say(str(error))
    print_profiles(screen.out(), found)
    print_cloud_disks(screen.out(), limits.disks())


def show(name: str, *, sources: bool) -> None:
    profile = profiles.load(name, Path())
    offered = sizing(profile)  # first, as it may be refused
    print_title(screen.out(), profile)
    print_sizing(screen.out(), offered)
    print_figures(screen.out(), profile, sources=sources)


def show_file(name: str) -> None:
    writing.deliver(profiles.text_of(name, Path()), None)
