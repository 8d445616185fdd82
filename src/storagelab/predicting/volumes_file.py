"""The file of volumes and layouts that a prediction is asked for: its keys and their meaning."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from storagelab.capture.folder import ALL_TABLES, Capture, CapturedObject, Manifest
from storagelab.errors import SpecError
from storagelab.model.hints import choices
from storagelab.model.limits import LimitConfig
from storagelab.model.objects import TEMPORARY, Object, Placement
from storagelab.model.values import Described, LeftOut
from storagelab.spec import given_files, keys

_HINT = 'Write [volumes.NAME] with limit = { like = "gp3" } or profile = "drive.toml" for each volume.'


class VolumeFigures(Described):
    """What a volume can do: by its limits, or by a profile that `storagelab drives fit` measured."""

    limit: Annotated[LimitConfig | None, LeftOut("as the profile has it")] = None
    """The most that it does in a second: the keys of a spec's limit, or a cloud disk's name in `like`."""
    profile: Annotated[str | None, LeftOut("none")] = None
    """The file of a measured drive's profile; relative paths begin at the folder of this file."""
    captured: tuple[str, ...] = ()
    """The volumes of the capture that it is, by their names there, if it has another name here."""
    size_bytes: Annotated[int | None, LeftOut("100 GB")] = Field(None, ge=2**24, lt=2**63)
    """Its size, for cloud disks whose limits grow with it."""
    latency_s: float = Field(0.0, ge=0, le=60)
    """With a limit: the time of a request that the limit doesn't hold back."""
    shared: Annotated[bool | None, LeftOut("true for a cloud disk, false for other limits")] = None
    """With a limit: whether reads and writes share it."""


class LayoutAsked(Described):
    """A layout to predict. What it doesn't name stays where it was captured."""

    objects: dict[str, str] = Field(default_factory=dict)
    """Tables and indexes by name or pattern, and the words `tables`, `indexes` and `temp`, each with its volume, as in
    `layout.objects` of a spec."""
    log: Annotated[str | None, LeftOut("where it was captured")] = None
    """The volume of the log."""


class ServerFigures(Described):
    """What is known of the server besides its volumes."""

    cpus: Annotated[int | None, LeftOut("never a limit")] = Field(None, ge=1, le=65536)
    """The CPUs that the server has."""


class Asked(Described):
    """The whole file."""

    volumes: dict[str, VolumeFigures] = Field(min_length=1)
    layouts: dict[str, LayoutAsked] = Field(default_factory=dict)
    server: ServerFigures = ServerFigures()


def load(file: Path) -> Asked:
    """Reads the file. Raises SpecError that names file, key and way out."""
    try:
        tables: dict[str, Any] = given_files.toml_of(given_files.text_of(file))
    except FileNotFoundError:
        raise SpecError("there is no such file", file=file, hint=_HINT) from None
    except (OSError, ValueError) as error:
        raise SpecError(f"can't be read: {getattr(error, 'strerror', error)}", file=file, hint=_HINT) from None
    try:
        asked = keys.checked(Asked, keys.with_unit_read(tables))
    except SpecError as error:
        raise SpecError(error.problem, file=file, key=error.key, hint=error.hint) from None
    for name, one in asked.volumes.items():
        if (one.limit is None) == (one.profile is None):
            raise SpecError("needs either a limit or a profile", file=file, key=f"volumes.{name}", hint=_HINT)
    return asked


def skeleton(manifest: Manifest) -> str:
    """A file for this capture, in which the figures are to be filled in."""
    lines = ["# What each volume can take, and the layouts to predict. Give each volume a limit or a profile."]
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


# --- where a layout puts the captured objects -------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The volume of each captured object, by its id."""

    places: Mapping[str, str]
    named: frozenset[str] = frozenset()
    """The objects that were asked for by name, pattern or word."""

    def volume_of(self, one: CapturedObject) -> str:
        return self.places[one.id]


def present(capture: Capture) -> Layout:
    """The captured layout."""
    return Layout({one.id: one.volume for one in capture.manifest.objects})


def placed(capture: Capture, asked: LayoutAsked, volumes: Collection[str], file: str, key: str) -> Layout:
    """The layout that is asked for. Raises SpecError for an object or a volume that doesn't exist."""
    wanted = {f"{key}.objects.{name}": volume for name, volume in asked.objects.items()} | {f"{key}.log": asked.log}
    for place, volume in wanted.items():
        if volume is not None and volume not in volumes:
            hint = choices(volume, volumes, "The file has")
            raise SpecError(f"no volume is named {volume!r}", file=file, key=place, hint=hint)
    placement = Placement(asked.objects)
    named = {one.id: _object(one) for one in capture.manifest.objects if one.kind in ("table", "index", "toast")}
    if problem := placement.problem(named.values()):
        raise SpecError(f"{problem.problem} of the capture", file=file, key=f"{key}.objects", hint=problem.hint)
    found = {one.id: _wanted(one, named.get(one.id), placement, asked) for one in capture.manifest.objects}
    together = {found[name] for name in named}
    if ALL_TABLES in found and len(together) == 1:
        found[ALL_TABLES] = together.pop()
    return Layout(
        {one.id: found[one.id] or one.volume for one in capture.manifest.objects},
        frozenset(name for name, volume in found.items() if volume is not None),
    )


def _wanted(one: CapturedObject, named: Object | None, placement: Placement, asked: LayoutAsked) -> str | None:
    if one.kind == "log":
        return asked.log
    if one.kind == "temporary":
        return placement.words.get(TEMPORARY)
    return None if named is None else placement.volume_of(named)


def _object(one: CapturedObject) -> Object:
    return Object((one.name,), "index" if one.kind == "index" else "table", one.schema_ or "")
