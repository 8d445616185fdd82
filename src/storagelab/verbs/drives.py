"""`storagelab drives`: lists and shows profiles of drives, and measures a drive for a new profile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from storagelab import screen
from storagelab.errors import PreflightError, refuse
from storagelab.verbs import Unused, Verb, amount, when

if TYPE_CHECKING:
    from storagelab.drives.measured import MeasuredDrive
    from storagelab.run.measuring import Effort, KeptResults, MeasuredVolume

app = Verb("This machine", 2, help="List or show profiles of drives, or measure a drive.", no_args_is_help=True)
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
_SEED = 1


@app.callback()
def _group() -> None:
    """List or show profiles of drives, or measure a drive."""


@app.command("list")
def list_() -> None:
    """List all drive profiles, including those measured here."""
    from storagelab import profiles
    from storagelab.report.text.profiles import print_cloud_disks, print_profiles
    from storagelab.volumes import limits

    found = [profiles.load(name, Path()) for name in profiles.ready_made()]
    for name in profiles.own():
        try:
            found.append(profiles.load(name, Path()))
        except PreflightError as error:  # the other profiles are listed nevertheless
            screen.say(str(error))
    print_profiles(screen.out(), found)
    print_cloud_disks(screen.out(), limits.disks())


@app.command(
    unused=(Unused("--sources", when("toml"), "is for the tables", "Leave it out: the file names each source."),)
)
def show(
    name: Annotated[str, Argument(metavar="NAME", help="Name of the profile, or its file.")],
    sources: Annotated[bool, Option("--sources", help="Also print the source of each figure.")] = False,
    toml: Annotated[bool, Option("--toml", help="Print the TOML file itself, as a template for your own.")] = False,
) -> None:
    """Show what a drive can do, and its profile.

    The output begins with the drive's capacity, speed, CPU cost and need of host memory. All figures of its profile
    follow.
    """
    from storagelab import profiles
    from storagelab.drives.sizing import sizing
    from storagelab.report import writing
    from storagelab.report.text.profiles import print_figures, print_sizing, print_title

    if toml:
        writing.deliver(profiles.text_of(name, Path()), None)
        return
    profile = profiles.load(name, Path())
    offered = sizing(profile)  # before any output, because it may be refused
    print_title(screen.out(), profile)
    print_sizing(screen.out(), offered)
    print_figures(screen.out(), profile, sources=sources)


@app.command()
def fit(
    name: Annotated[str, Argument(metavar="NAME", help="Name of the profile in specs and in lists.")],
    volume: Annotated[
        str, Option("--volume", metavar="PATH", help="Folder on the drive, or with --spec, a volume of that spec.")
    ],
    spec: Annotated[
        Path | None, Option("--spec", help="Spec that declares the volume. The volume is made with its limits.")
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Measure fewer points, in about two minutes.")] = False,
    size: Annotated[str | None, Option("--size", help="Size of the file to measure with, such as 16GiB.")] = None,
) -> None:
    """Measure a drive with fio in up to 15 minutes, and fit a profile to it.

    It writes one file in a folder of its own, and removes both at the end. The profile has every measured point. The
    simulator uses it like any other drive.
    """
    from storagelab.drives.fitting import planned
    from storagelab.drives.measured import as_toml
    from storagelab.machine.descriptors import write_whole
    from storagelab.run import measuring
    from storagelab.spec.units import parse_bytes
    from storagelab.stopping import Interruptible
    from storagelab.verbs._planning import saying_how_far

    effort = measuring.QUICK if quick else measuring.FULL
    if size is not None:
        effort = effort._replace(file_bytes=int(amount(parse_bytes, size, "--size", "--size 16GiB")) // 2**20 * 2**20)
    file = _free_file(name)
    with Interruptible(), _volume(volume, spec) as found:
        measuring.check(found.folder, effort.file_bytes)
        kept = measuring.KeptResults(file.with_suffix(".partial"), {**found.identity, **effort._asdict()})
        asked = planned(quick=quick, seed=_SEED)
        _say_what_comes(found.folder, effort, len(asked), kept)
        try:
            with saying_how_far() as tell:
                drive, usable, sector = measuring.measured(name, found, effort, asked, kept, tell)
        except KeyboardInterrupt:
            if kept.file.exists():
                many = f"{kept.many} measurements are kept in {kept.file}; the same command continues"
                screen.say(f"interrupted: {many}")
            raise
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, [as_toml(drive, usable_bytes=usable, sector_bytes=sector).encode()])
    kept.file.unlink(missing_ok=True)
    for line in _fitted(file, drive):
        screen.say(line, stdout=True)


def _fitted(file: Path, drive: MeasuredDrive) -> Iterator[str]:
    """Yields the results of the fit as lines."""
    from storagelab.words.numbers import count, duration, percent

    points, error = drive.measured.points, drive.median_error
    yield f"{file}: {len(points)} points, {sum(point.held_out for point in points)} of them test points."
    if error is not None:
        worst = f"19 of 20 by at most {percent(drive.relative_error)}"
        yield f"At the test points, the fit is off by {percent(error)} (median), {worst}."
    for one in drive.measured.sustained:
        if one.fell_after_s is not None:
            what = f"{'sequential' if one.sequential else 'random'} {one.operation}s fell from"
            per_s = f"{count(one.burst_per_s)} to {count(one.sustained_per_s)} a second"
            yield f"Burst: {what} {per_s} after {duration(one.fell_after_s)}."
    if drive.measured.identity.virtual:
        yield "The drive is virtual. The figures describe its host on this day, with the host's caches and guests."
    if not drive.measured.complete:
        yield "Not all points were measured in time. The profile does not cover the missing points."


def _free_file(name: str) -> Path:
    """Returns a path for the new profile. Raises PreflightError if the name can't be used or is in use."""
    from storagelab import profiles

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
def _volume(volume: str, spec: Path | None) -> Iterator[MeasuredVolume]:
    """Yields a folder, or a volume of a spec. If necessary, the volume is made for the measurement."""
    from storagelab.run.engine import sweep
    from storagelab.run.measuring import MeasuredVolume, volume_at
    from storagelab.spec import matrix, reading
    from storagelab.spec.keys import leaves
    from storagelab.verbs._planning import site_of
    from storagelab.volumes import for_runs
    from storagelab.volumes.folders import volumes_locked

    if spec is None:
        yield volume_at(Path(volume).expanduser().resolve())
        return
    experiment = reading.load(spec)
    plan = matrix.expand(experiment)
    config = plan.cells[0].config
    if volume not in config.volumes:
        hint = f"There are: {', '.join(config.volumes)}."
        raise PreflightError(f"the spec has no volume {volume!r}", file=spec, key="--volume", hint=hint)
    site, wanted = site_of(experiment, Path("results") / experiment.name), config.volumes[volume]
    if wanted.devices is not None or wanted.prepare is not None:
        hint = "prepare it, and give its folder with --volume PATH"
        raise PreflightError("is made of whole drives or by commands", file=spec, key=f"volumes.{volume}", hint=hint)
    if not wanted.made:
        if wanted.path is None:
            hint = "name a volume with a path; a simulated drive already has a profile"
            raise PreflightError("has no path", file=spec, key=f"volumes.{volume}", hint=hint)
        yield volume_at(site.place(wanted.path, f"volumes.{volume}.path"))
        return
    refuse(for_runs.check(plan, site).lacks)
    with volumes_locked(plan, site):
        for line in sweep(plan, site):
            screen.say(line)
        with for_runs.made({volume: wanted}, config, site, {}) as (made,):
            keys = leaves(wanted.model_dump(mode="json", exclude={"price_per_month"}), ("volumes", volume))
            of_spec = {"spec": str(spec.resolve()), "volume": volume, **{".".join(key): value for key, value in keys}}
            below = volume_at(site.place(wanted.path or ".", f"volumes.{volume}.path")).identity
            yield MeasuredVolume(made.path, made.loaded, {**below, **of_spec})


def _say_what_comes(folder: Path, effort: Effort, points: int, kept: KeptResults) -> None:
    from storagelab.words.numbers import capacity, duration

    screen.say(
        f"Writes a file of {capacity(effort.file_bytes)} in a folder of its own below {folder}, measures there for "
        f"about {duration(effort.about_s(points * effort.passes - len(kept.results)))}, and removes both."
    )
    if kept.many:
        screen.say(f"Continues: {kept.many} measurements were kept.")
