"""Where a layout puts the captured objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from storagelab.capture.model import Capture, CapturedObject
from storagelab.errors import SpecError
from storagelab.model.hints import choices
from storagelab.model.objects import TEMPORARY, Object, Placement
from storagelab.predicting.volumes_file import LayoutAsked


@dataclass(frozen=True)
class Layout:
    """The volume of each captured object, by its id."""

    places: Mapping[str, str]

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
    return Layout({one.id: _volume(one, named.get(one.id), placement, asked) for one in capture.manifest.objects})


def _volume(one: CapturedObject, named: Object | None, placement: Placement, asked: LayoutAsked) -> str:
    if one.kind == "log":
        wanted = asked.log
    elif one.kind == "temporary":
        wanted = placement.words.get(TEMPORARY)
    else:
        wanted = None if named is None else placement.volume_of(named)
    return wanted or one.volume


def _object(one: CapturedObject) -> Object:
    return Object((one.name,), "index" if one.kind == "index" else "table", one.schema_ or "")
