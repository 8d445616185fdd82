"""Makes a prediction from the folder of a capture and a file of volumes. Matches their names, and lists the
assumptions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from storagelab.capture import folder
from storagelab.capture.folder import ALL_TABLES, TOAST, Capture, CapturedObject, Manifest
from storagelab.drives.measured import MeasuredDrive
from storagelab.errors import PreflightError, SpecError, choices
from storagelab.model.objects import TEMPORARY, Object, Placement
from storagelab.model.values import Described, LeftOut
from storagelab.model.volume import LimitConfig
from storagelab.predicting import model, prediction
from storagelab.predicting.capability import LimitedVolume, MeasuredVolume, Volume, tightest
from storagelab.predicting.demands import MUCH_MORE, Demands, bytes_of_server, demands_of
from storagelab.spec import given_files, keys, units
from storagelab.volumes import limits
from storagelab.words import numbers

_SIZE_BYTES = 100 * 2**30
_MODEL_FAR = 1.25


@dataclass(frozen=True)
class Question:
    """What is to be predicted: a captured load on the volumes of a file."""

    name: str
    file: Path
    capture: Capture
    asked: VolumesFile
    server: model.Server

    @property
    def demands(self) -> Demands:
        return self.server.demands

    def answered(self, layouts: Sequence[prediction.LayoutPrediction], notes: Sequence[str]) -> prediction.Prediction:
        demands, manifest = self.demands, self.capture.manifest
        return prediction.Prediction(
            capture=self.name, engine=manifest.engine, captured_per_s=demands.per_s if demands.counted else None,
            unit=manifest.unit, sessions=demands.sessions, layouts=tuple(layouts), notes=tuple(notes),
        )  # fmt: skip

    def notes(self, errors: prediction.Errors, at_most_per_s: float | None) -> tuple[str, ...]:
        """Notes on the capture and on assumptions. `at_most_per_s` is the upper bound of the captured layout's rate."""
        return tuple(_notes(self.capture, self.server, errors, at_most_per_s))


def read(captured: Path, file: Path) -> Question:
    """Reads a capture and a file of volumes. Raises SpecError, PreflightError or StoreError, which name the file, the
    key and the solution.
    """
    asked = load(file)
    capture = _renamed(folder.read(captured), asked)
    volumes = {name: _volume(name, one, file) for name, one in asked.volumes.items()}
    _check(capture, captured, asked, file)
    demands = demands_of(capture, str(captured))
    machine = capture.manifest.machine
    cpus = asked.server.cpus or (None if machine is None else machine.cpus)
    return Question(str(captured), file, capture, asked, model.Server(demands, volumes, cpus))


def predict(captured: Path, file: Path, own: Path | None = None) -> prediction.Prediction:
    """The prediction of the layouts in `file`. `own` is the file with the user's own known cases. Raises SpecError,
    PreflightError or StoreError, which name the file, the key and the solution.
    """
    question = read(captured, file)
    capture, asked = question.capture, question.asked
    layouts = {prediction.PRESENT: model.present(capture)}
    for name, one in asked.layouts.items():
        layouts[name] = placed(capture, one, asked.volumes, str(file), f"layouts.{name}")
    errors = prediction.errors_like(prediction.known_cases(own), capture.manifest.engine)
    found = model.predicted(question.server, layouts[prediction.PRESENT], layouts, errors)
    for place, (name, layout) in enumerate(layouts.items()):
        if why := _shows_nothing(capture, layout, asked.layouts.get(name)):
            found[place] = model.cant_say(name, why)
    return question.answered(found, question.notes(errors, found[0].at_most_per_s))


def _shows_nothing(capture: Capture, layout: model.Layout, wanted: LayoutRequest | None) -> str:
    """Why the capture can't predict a layout, or "" if the capture has I/O of at least one object that the
    layout names.
    """
    if wanted is None or not (wanted.objects or wanted.log) or layout.named & {row.object for row in capture.io}:
        return ""
    names = *wanted.objects, *(("log",) if wanted.log else ())
    return f"the capture has no I/O of the objects that it names ({', '.join(names)})"


def _volume(name: str, one: VolumeFigures, file: Path) -> Volume:
    if one.profile is not None:
        try:
            return MeasuredVolume(name, MeasuredDrive.read(file.parent / Path(one.profile).expanduser()))
        except PreflightError as error:
            wrong = f"{error.file}: {error.problem}"
            raise SpecError(wrong, file=file, key=f"volumes.{name}.profile", hint=error.hint) from None
    assert one.limit is not None
    try:
        limit = limits.resolved(one.limit, one.size_bytes or _SIZE_BYTES, f"volumes.{name}.limit")
    except PreflightError as error:
        raise error.at(file) from None
    rates = limits.rates(limit)
    if not rates:
        hint = "Write read_iops, write_iops, read_bytes_per_s or write_bytes_per_s, or like = a cloud disk's name."
        raise SpecError("limits nothing", file=file, key=f"volumes.{name}.limit", hint=hint)
    shared = one.shared if one.shared is not None else one.limit.like is not None
    return LimitedVolume(name, tightest(rates, shared=shared), shared, one.latency_s)


def _renamed(capture: Capture, asked: VolumesFile) -> Capture:
    """The capture with the names that the file gives to its volumes."""
    names = {old: name for name, one in asked.volumes.items() for old in one.captured}
    manifest = capture.manifest
    objects = tuple(one.model_copy(update={"volume": names.get(one.volume, one.volume)}) for one in manifest.objects)
    devices = tuple(one._replace(volume=names.get(one.volume, one.volume)) for one in capture.devices)
    return Capture(manifest.model_copy(update={"objects": objects}), capture.io, devices)


def _check(capture: Capture, captured: Path, asked: VolumesFile, file: Path) -> None:
    own, claimed = [one.name for one in capture.manifest.volumes], dict[str, str]()
    for name, figures in asked.volumes.items():
        for old in figures.captured or (name,):
            key = f"volumes.{name}.captured"
            if figures.captured and own and old not in own:
                hint = choices(old, own, "The capture has")
                raise SpecError(f"no volume is named {old!r}", file=file, key=key, hint=hint)
            if old in claimed:
                hint = "Name it in `captured` of only one volume."
                raise SpecError(f"{old!r} already belongs to volumes.{claimed[old]}", file=file, key=key, hint=hint)
            claimed[old] = name
    used = dict.fromkeys(one.volume for one in capture.manifest.objects)
    for name in used:
        if name not in asked.volumes:
            hint = (
                f"{captured} was made on {', '.join(used)}: add [volumes.{name}] with a limit or a profile; "
                "or name it in `captured` of another volume."
            )
            raise SpecError("a volume of the capture has no figures", file=file, key=f"volumes.{name}", hint=hint)


def _notes(
    capture: Capture, server: model.Server, errors: prediction.Errors, at_most_per_s: float | None
) -> Iterator[str]:
    demands = server.demands
    yield from _of_capture(capture, demands)
    if demands.elsewhere_s is None:
        off = "track_io_timing is off" in " ".join(capture.manifest.notes)
        yield (
            f"The capture has no times of requests{' (track_io_timing was off)' * off}. So the time of a transaction "
            "that I/O does not explain is assumed to be time elsewhere, and a gain may be larger than predicted."
        )
    limited = [one for one in server.volumes.values() if isinstance(one, LimitedVolume) and not one.shares_limit]
    for one in limited:
        for way in ("read", "write"):
            if not any(key.startswith(way) for key in one.rates):
                yield f"volumes.{one.name}.limit has nothing for {way}s: they are assumed never to be the limit."
    if server.cpus is None:
        yield "The number of CPUs is not given ([server] cpus): they are assumed never to be the limit."
    far = model.captured_over_modelled(server, model.present(capture))
    over = at_most_per_s is not None and demands.per_s > model.OVER * at_most_per_s
    if far is not None and (over or not 1 / _MODEL_FAR < far < _MODEL_FAR):
        yield (
            f"The captured rate is {far:.2g} times the rate that these volumes explain for the captured layout: check "
            "their figures. Predicted rates are scaled by this factor. Upper bounds of rates are not scaled."
        )
    yield (
        "Assumptions: the share of requests that reaches the devices and the size of requests stay the same, and "
        "transactions do the same work."
    )
    count = f"{len(errors.cases)} {errors.of}"
    if errors.confidence is None:
        yield f"No intervals: {count} are too few."
    else:
        grow = "They grow with the share of the load that moves and with the predicted change."
        yield f"The intervals come from {count}, which were predicted and then measured. {grow}"


def _of_capture(capture: Capture, demands: Demands) -> Iterator[str]:
    manifest = capture.manifest
    if not manifest.complete:
        yield "The capture was interrupted: the prediction is based on what was stored until then."
    for change in manifest.changes:
        yield f"In the capture, after {change.second:.0f} s: {change.what.rstrip('.')}. The prediction uses the mean."
    if not demands.counted:
        yield "The capture has no counts of transactions, so rates are multiples of the captured rate."
    if demands.without_device:
        names = ", ".join(demands.without_device)
        yield f"The devices of {names} were not counted. All requests of the server are assumed to reach them."
    if any(row.object == ALL_TABLES for row in capture.io):
        yield "Some I/O is known only for all tables together. It stays where it was, unless all move to one volume."
    yield from _of_others(capture)
    if manifest.machine is None:
        yield "It is not known whether the server's machine was busy with other work."
    elif manifest.machine.crowding >= 1.05:
        yield f"The machine had other work, as in a third of the known cases: {manifest.machine}."


def _of_others(capture: Capture) -> Iterator[str]:
    """Notes about the I/O of other programs at the devices."""
    for operation, mine in bytes_of_server(capture).items():
        verb, seconds = "read" if operation == "read" else "wrote", capture.manifest.seconds
        all_ = sum(row.bytes for row in capture.devices if row.operation == operation)
        if all_ and mine is None:
            yield f"It is not known what other programs {verb} at the devices, so all of it counts as the server's."
        elif mine is not None and all_ > MUCH_MORE * mine:
            rates = [numbers.bytes_(one / seconds) for one in (all_, mine)]
            yield f"The devices {verb} {rates[0]}/s, but the server at most {rates[1]}/s. The rest is left out."


# --- the file of volumes and layouts: its keys and their meaning ------------------------------------------------------

_HINT = 'Write [volumes.NAME] with limit = { like = "gp3" } or profile = "drive.toml" for each volume.'


class VolumeFigures(Described):
    """The speed of a volume: its limits, or the profile of a drive that `storagelab drives fit` measured."""

    limit: Annotated[LimitConfig | None, LeftOut("as the profile has it")] = None
    """The volume's limits per second. It has the keys of a spec's limit, or a cloud disk's name in `like`."""
    profile: Annotated[str | None, LeftOut("none")] = Field(None, examples=["drive.toml"])
    """The file with the profile of a measured drive. A relative path starts at the folder of this file."""
    captured: tuple[str, ...] = ()
    """The names of this volume in the capture, if they differ from its name here."""
    size_bytes: Annotated[int | None, LeftOut("100 GB")] = Field(None, ge=2**24, lt=2**63)
    """The volume's size. It is needed for cloud disks whose limits grow with the size."""
    latency_s: float = Field(0.0, ge=0, le=60, examples=[0.0005])
    """For a volume with a limit: the time of a request that the limit does not delay."""
    shared: Annotated[bool | None, LeftOut("true for a cloud disk, false for other limits")] = None
    """For a volume with a limit: whether reads and writes share the limit."""
    price: Annotated[float | None, LeftOut("unknown")] = Field(None, ge=0, le=10**9, examples=[120])
    """The volume's price for a month, in any currency."""
    path: Annotated[str | None, LeftOut("made from a file, with the limit")] = None
    """A folder on the volume where the spec of `recommend --spec` may measure."""


class LayoutRequest(Described):
    """A layout to predict. Objects that it does not name stay where they were captured."""

    objects: dict[str, str] = Field(default_factory=dict)
    """The volumes of tables and indexes, by name or pattern. The words `tables`, `indexes` and `temp` are possible,
    too, as in `layout.objects` of a spec.
    """
    log: Annotated[str | None, LeftOut("where it was captured")] = None
    """The volume of the log."""


class ServerFigures(Described):
    """Properties of the server, apart from its volumes."""

    cpus: Annotated[int | None, LeftOut("as the capture has it")] = Field(None, ge=1, le=65536)
    """The number of the server's CPUs. If the capture does not have this number either, CPUs are never the limit."""


class VolumesFile(Described):
    """The content of the file of volumes and layouts."""

    volumes: dict[str, VolumeFigures] = Field(min_length=1)
    layouts: dict[str, LayoutRequest] = Field(default_factory=dict)
    server: ServerFigures = ServerFigures()


def load(file: Path) -> VolumesFile:
    """Reads the file. Raises SpecError, which names the file, the key and the solution."""
    try:
        tables: dict[str, Any] = given_files.toml_of(given_files.text_of(file))
    except FileNotFoundError:
        raise SpecError("there is no such file", file=file, hint=_HINT) from None
    except OSError as error:
        raise SpecError(f"can't be read: {error.strerror}", file=file, hint=_HINT) from None
    except ValueError as error:
        raise SpecError(f"is not TOML: {error}", file=file, hint="Repair that line.") from None
    if not tables.get("volumes"):
        raise SpecError("is missing or empty", file=file, key="volumes", hint=_HINT)
    try:
        asked = keys.checked(VolumesFile, units.with_unit_read(tables))
    except SpecError as error:
        raise SpecError(error.problem, file=file, key=error.key, hint=error.hint) from None
    for name, one in asked.volumes.items():
        if (one.limit is None) == (one.profile is None):
            raise SpecError("needs either a limit or a profile", file=file, key=f"volumes.{name}", hint=_HINT)
        if not name.isprintable():
            hint = "Rename it here, and add captured = [...] with the name that the capture has."
            raise SpecError("can't name a volume", file=file, key=f"volumes.{name!r}", hint=hint)
        if one.path is not None and (not Path(one.path).is_absolute() or not one.path.isprintable()):
            hint = 'Write the whole path of a folder: path = "/mnt/new".'
            raise SpecError(f"{one.path!r} is not an absolute path", file=file, key=f"volumes.{name}.path", hint=hint)
    return asked


def skeleton(manifest: Manifest) -> str:
    """The text of a file for this capture. The user must add the figures of the volumes."""
    lines = ["# The speed of each volume, and the layouts to predict. Give each volume a limit or a profile."]
    for one in manifest.volumes:
        name, path = (json.dumps(text, ensure_ascii=False) for text in (one.name, one.path))
        lines += [
            f"\n[volumes.{name}]  # the capture's, at {path}",
            '# limit = { read_iops = 3000, write_iops = 3000 }  # or a cloud disk: limit = { like = "gp3" }',
            '# profile = "drive.toml"  # of a measured drive: storagelab drives fit',
        ]
    lines += ["\n# [volumes.new]", '# limit = { like = "gp3" }', "# [layouts.log-on-new]", '# log = "new"']
    if manifest.machine is not None:
        lines.append(f"\n[server]\ncpus = {manifest.machine.cpus}")
    return "\n".join(lines) + "\n"


# --- the volumes of the captured objects in a layout ------------------------------------------------------------------


def placed(capture: Capture, asked: LayoutRequest, volumes: Collection[str], file: str, key: str) -> model.Layout:
    """The requested layout. Raises SpecError if it names an object or a volume that does not exist."""
    wanted = {f"{key}.objects.{name}": volume for name, volume in asked.objects.items()} | {f"{key}.log": asked.log}
    for place, volume in wanted.items():
        if volume is not None and volume not in volumes:
            hint = choices(volume, volumes, "The file has")
            raise SpecError(f"no volume is named {volume!r}", file=file, key=place, hint=hint)
    placement = Placement(asked.objects)
    objects = {one.id: one for one in capture.manifest.objects}
    named = {name: _object(objects, one) for name, one in objects.items() if one.kind in ("table", "index", "toast")}
    if problem := placement.problem(named.values()):
        raise SpecError(f"{problem.problem} of the capture", file=file, key=f"{key}.objects", hint=problem.hint)
    found = {one.id: _wanted(one, named.get(one.id), placement, asked) for one in capture.manifest.objects}
    together = {found[name] for name in named}
    if ALL_TABLES in found and len(together) == 1:
        found[ALL_TABLES] = together.pop()
    return model.Layout(
        {one.id: found[one.id] or one.volume for one in capture.manifest.objects},
        frozenset(name for name, volume in found.items() if volume is not None),
    )


def _wanted(one: CapturedObject, named: Object | None, placement: Placement, asked: LayoutRequest) -> str | None:
    if one.kind == "log":
        return asked.log
    if one.kind == "temporary":
        return placement.words.get(TEMPORARY)
    return None if named is None else placement.volume_of(named)


def _object(objects: Mapping[str, CapturedObject], one: CapturedObject) -> Object:
    """The object with its own name. TOAST data gets the name of its table, because both move together."""
    of = objects.get(one.id.removesuffix(TOAST), one)
    return Object((of.name,), "index" if one.kind == "index" else "table", of.schema_ or "")
