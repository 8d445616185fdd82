"""Profiles of drives and of the simulated server. Every figure has its label and its source.

Ready-made profiles are in this folder, and the server's profile is in `servers`. A drive's profile may be any file.
Profiles that `storagelab drives fit` measured are in a folder of the user (`own_folder`). They have names, too."""

from __future__ import annotations

import functools
import json
import os
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from storagelab import _sim
from storagelab.errors import PreflightError, choices
from storagelab.model.values import Frozen, Scalar
from storagelab.model.volume import OPERATING_SYSTEM
from storagelab.spec import given_files
from storagelab.spec.keys import dotted

# --- what the simulator's core declares -------------------------------------------------------------------------------

Label = Literal["published", "measured", "derived", "fitted", "assumed"]


class DeclaredFigure(Frozen):
    """A figure of a profile, as the core declares it: its path, its meaning, and its limits. In the path, `*` stands
    for names that the profile chooses.
    """

    path: str
    meaning: str
    kind: Literal["number", "boolean", "words", "text"]
    least: int = 0
    most: int = 0
    words: tuple[str, ...] = ()
    optional: bool = False

    def wanted(self, value: Scalar) -> str:
        """Returns the requirement that `value` does not meet, or "" if it meets all requirements."""
        match self.kind:
            case "boolean":
                return "" if isinstance(value, bool) else "true or false"
            case "words":
                return "" if value in self.words else " or ".join(self.words)
            case "text":
                return "" if isinstance(value, str) else "a text"
            case _:
                whole = isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most
                return "" if whole else f"a whole number from {self.least} to {self.most}"


class Constant(Frozen):
    """A figure in the core. It is a default of `owner` (if `is_default`), or a constant that no spec can set."""

    owner: str
    name: str
    value: int
    label: Label
    source: str
    bounds: tuple[int, int] | None = None
    fitted_on: tuple[str, ...] = Field(())
    is_default: bool


@functools.cache
def _all() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(_sim.declared())
    return content


def kinds() -> tuple[str, ...]:
    """Returns the kinds of drives. The two kinds of the articles come first."""
    first = ("flash", "disk")
    return (*first, *(kind for kind in _all()["drives"] if kind not in first))


@functools.cache
def figures_of(kind: str) -> tuple[DeclaredFigure, ...]:
    """Returns the figures of a drive of this kind, in order. `server` is also a kind."""
    groups = [("costs", _all()["costs"])] if kind == "server" else _all()["drives"][kind]
    return tuple(_declared(group, figure) for group, figures in groups for figure in figures)


def _declared(group: str, figure: dict[str, Any]) -> DeclaredFigure:
    path = ".".join(part for part in (group, figure["name"], "*" if figure["table"] else "") if part)
    return DeclaredFigure(path=path, meaning=figure["meaning"], optional=figure["optional"], **figure["wanted"])


@functools.cache
def constants() -> tuple[Constant, ...]:
    """Returns all figures that are in no profile."""
    return tuple(Constant(**content) for content in _all()["constants"])


def default_of(owner: str, name: str) -> int:
    """Returns the core's default for a key that a spec leaves out."""
    (value,) = (one.value for one in constants() if (one.owner, one.name, one.is_default) == (owner, name, True))
    return value


# --- profiles ---------------------------------------------------------------------------------------------------------

P = TypeVar("P", bound="_Profile")
Shelf = Path | dict[str, str]
"""The folder at which relative names of the user's own profiles start, or a mapping of names to the texts of
profiles."""


class Figure(Frozen):
    """A figure with its source. The name of a figure ends with its unit."""

    value: Scalar
    label: Label
    source: str = Field(min_length=1)
    bounds: tuple[int | float, int | float] | None = None
    """The smallest and the largest value that a fit may choose for the figure."""
    fitted_on: tuple[str, ...] = ()
    """The numbers of the published figures to which the figure was fitted."""


class Group(BaseModel):
    """Figures by their names. The core declares these names (`declared`). Code reads them as attributes:
    `profile.timing.read_ns`.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Figure] = Field(init=False)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Figure: ...


class Mapping(Group):
    worst_case_bytes: dict[str, Figure] = Field(min_length=1)


class _Profile(Frozen):
    name: str
    title: str

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Yields every figure with its path in the file. The order is that in which the core declares them."""
        found = [(_place(self, parts), dotted(parts), figure) for parts, figure in _figures(self, ())]
        yield from ((name, figure) for _, name, figure in sorted(found, key=lambda one: one[0]))

    def declared(self) -> tuple[DeclaredFigure, ...]:
        """Returns the figures that the core declares for this kind."""
        return figures_of(str(dict(self)["kind"]))


class _Drive(_Profile):
    price_usd: Figure | None = None
    """The price of one drive, only for sizing. No simulation depends on it."""
    measurement: dict[str, Any] | None = None
    """The measurement of a drive of kind "measured" (`storagelab.drives`). No simulation depends on it."""

    def for_core(self) -> dict[str, object]:
        """Returns the figures in the form that the simulator's core takes."""
        return self.model_dump(exclude_none=True, exclude=set(_NOT_OF_THE_CORE))


class FlashProfile(_Drive):
    """A flash drive."""

    kind: Literal["flash"]
    geometry: Group
    formats: dict[str, Figure] = Field(min_length=1)
    factory_format: Figure | None = None
    """The format of a new drive. Required if there are several formats."""
    timing: Group
    cleaning: Group
    trim: Figure
    mapping: Mapping
    drivers: dict[str, Group] = Field(min_length=1)

    @property
    def made_in(self) -> str | None:
        """The format of a new drive. The value is None if it is unknown."""
        if self.factory_format is not None:
            return str(self.factory_format.value)
        return next(iter(self.formats)) if len(self.formats) == 1 else None

    @property
    def sectors(self) -> tuple[int, ...]:
        """The possible sector sizes, in bytes."""
        return tuple(sorted(int(size) for size in self.mapping.worst_case_bytes))

    def usable_bytes(self, format: str) -> int:  # noqa: A002 - as of a flash drive
        """Returns the number of bytes that the host can use in one of the drive's formats."""
        return int(self.formats[format].value)

    def map_bytes(self, data_bytes: float, driver: str, sector_bytes: int, extent_bytes: int | None = None) -> float:
        """Returns the host memory, in bytes, for the map of this much data. Data are written in pieces of
        `extent_bytes`. The default is a database's extent, and one sector is the worst case. The formula is that of
        crates/sim/src/flash/mapping_ram.rs.
        """
        extent = max(extent_bytes or int(self.mapping.extent_bytes.value), sector_bytes)
        worst = float(self.mapping.worst_case_bytes[str(sector_bytes)].value)
        of_entries = data_bytes / float(self.mapping.per_data_bytes.value) * sector_bytes / extent
        return worst * of_entries / float(self.drivers[driver].ram_divisor.value)


class DeviceProfile(_Drive):
    """A drive without formats and drivers. Its groups of figures are those that the core declares for its kind."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, Group] = Field(init=False)

    kind: str

    @property
    def formats(self) -> dict[str, Figure]:
        """The formats. This drive has none."""
        return {}

    @property
    def drivers(self) -> dict[str, Group]:
        """The driver versions. This drive has none."""
        return {}

    @property
    def _host(self) -> Group:
        """The group with the figures that the host sees."""
        return (self.__pydantic_extra__ or {})["platters" if self.kind == "disk" else "host"]

    @property
    def sectors(self) -> tuple[int, ...]:
        """The sector sizes in bytes. This drive has one."""
        return (int(self._host.sector_bytes.value),)

    def usable_bytes(self, format: str) -> int:  # noqa: A002, ARG002 - as of a flash drive
        """Returns the number of bytes that the host can use."""
        return int(self._host.usable_bytes.value)


class ServerProfile(_Profile):
    """A database server."""

    kind: Literal["server"]
    costs: dict[str, Figure]
    """The costs of operations, in time, bytes or counts."""
    switches: dict[str, Figure]
    """Settings of how operations are done. They are the defaults of the keys that a spec leaves out."""


Profile = FlashProfile | DeviceProfile


def _figures(inside: object, parts: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Figure]]:
    if isinstance(inside, Figure):
        yield parts, inside
    elif isinstance(inside, BaseModel | dict):
        for name, value in dict(inside).items():
            if (*parts, name) != (_MEASUREMENT,):
                yield from _figures(value, (*parts, name))


def _declared_as(one: DeclaredFigure, parts: tuple[str, ...]) -> bool:
    """Whether `one` declares the figure at `parts`. The profile may choose the parts for which the declaration
    has `*`.
    """
    wanted = one.path.split(".")
    return len(wanted) == len(parts) and all(a in ("*", b) for a, b in zip(wanted, parts, strict=True))


def _place(profile: _Profile, parts: tuple[str, ...]) -> int:
    """Returns the position of a figure in the declaration. If it is not declared, its position is after all others."""
    places = (place for place, one in enumerate(profile.declared()) if _declared_as(one, parts))
    return next(places, len(profile.declared()))


def ready_made() -> tuple[str, ...]:
    """Returns the names of the profiles that come with storagelab."""
    files = resources.files(__name__).iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def own_folder() -> Path:
    """Returns the folder of the user's own profiles that have names. `storagelab drives fit` writes them."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "storagelab" / "drives"


def own() -> tuple[str, ...]:
    """Returns the names of the user's own profiles."""
    return tuple(sorted(file.stem for file in own_folder().glob("*.toml")))


def load(name: str, folder: Shelf, key: str | None = None) -> Profile:
    """Returns the profile with the name `name`, or in the file `name`, which may be relative to `folder`. Raises
    PreflightError that names `key`.
    """
    try:
        return _drive_of(text_of(name, folder, key))
    except ValueError as error:
        raise _unusable(name, str(error), key) from None


@functools.cache
def server() -> ServerProfile:
    """Returns the profile of the simulated server."""
    text = resources.files(__name__).joinpath("servers", "sql-server-2008.toml").read_text(encoding="utf-8")
    return _checked(tomllib.loads(text), ServerProfile)


def is_own(name: str) -> bool:
    """Whether this is the name of a profile or file of the user, and not that of a ready-made profile."""
    return _is_file(name) or (name not in ready_made() and name in own())


def _is_file(name: str) -> bool:
    return name.endswith(".toml") or "/" in name


def text_of(name: str, folder: Shelf, key: str | None = None) -> str:
    """Returns the text of the profile's file, without checking it. Raises PreflightError that names `key` if there is
    no such file.
    """
    if not isinstance(folder, Path) and name in folder:
        return folder[name]
    if not _is_file(name) and name not in (*ready_made(), *own()):
        hint = (
            choices(name, (*ready_made(), *own()), "There are")
            + " Name a file of your own with its ending: drives/my.toml"
        )
        raise PreflightError(f"no profile is named {name!r}", key=key, hint=hint)
    try:
        if is_own(name):
            place = folder / Path(name).expanduser() if _is_file(name) and isinstance(folder, Path) else None
            return given_files.text_of(place or own_folder() / f"{name}.toml")
        return resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    except (OSError, RuntimeError, ValueError) as error:
        raise _unusable(name, getattr(error, "strerror", None) or str(error), key) from None


def _unusable(name: str, reason: str, key: str | None) -> PreflightError:
    hint = "`storagelab drives show iodrive-320 --toml` prints a complete one to start from"
    return PreflightError(f"the profile {name} can't be used: {reason}", key=key, hint=hint)


def _checked(content: dict[str, object], kind: type[P]) -> P:
    """Returns a checked profile of this kind. Raises ValueError with a plain message about the first mistake."""
    try:
        profile = kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{dotted(first['loc'])}: {_PLAIN.get(first['type'], first['msg'].lower())}") from None
    _check_names(profile)
    for parts, figure in _figures(profile, ()):
        name = dotted(parts)
        if wanted := _wanted(profile, parts, figure.value):
            raise ValueError(f"{name} must be {wanted}, not {figure.value!r}")
        if wrong_bounds := _wrong_bounds(figure):
            raise ValueError(f"{name}.bounds: {wrong_bounds}")
    return profile


def _check_names(profile: _Profile) -> None:
    """Checks that the profile has all declared figures, and no others. Raises ValueError for a missing or undeclared
    figure."""
    there = [parts for parts, _ in _figures(profile, ())]
    for one in profile.declared():
        if not one.optional and not any(_declared_as(one, parts) for parts in there):
            raise ValueError(f"{one.path}: is missing")
    for name, driver in getattr(profile, "drivers", {}).items():
        for one in profile.declared():
            if one.path.startswith("drivers.") and not one.optional and one.path.split(".")[2] not in dict(driver):
                raise ValueError(f"{dotted(('drivers', name, one.path.split('.')[2]))}: is missing")
    for parts in there:
        if parts[0] not in _NOT_OF_THE_CORE and not any(_declared_as(one, parts) for one in profile.declared()):
            raise ValueError(f"{dotted(parts)}: {_PLAIN['extra_forbidden']}")


@functools.lru_cache(64)
def _drive_of(text: str) -> Profile:
    """Returns a checked profile of a drive. The result is cached, because each batch of a block needs its
    drives again.
    """
    # Raises ValueError with a plain message about the first mistake.
    content = given_files.toml_of(text)
    kind = content.get("kind")
    if kind not in kinds():
        raise ValueError(f"kind: {'is missing' if kind is None else repr(kind)}, must be {' or '.join(kinds())}")
    groups = {one.path.partition(".")[0] for one in figures_of(str(kind))}
    for name in sorted(content.keys() - groups - _Drive.model_fields.keys() - {"kind"}):
        inside = content[name]
        if not (isinstance(inside, dict) and all(isinstance(one, dict) for one in inside.values())):
            raise ValueError(f"{dotted((name,))}: {_PLAIN['extra_forbidden']}")
    models: dict[object, type[Profile]] = {"flash": FlashProfile}
    profile = _checked(content, models.get(kind, DeviceProfile))
    if not isinstance(profile, FlashProfile):
        return profile
    if OPERATING_SYSTEM in profile.formats:
        raise ValueError(
            f"formats.{OPERATING_SYSTEM}: is reserved: in specs it means a drive that its "
            "maker's utility never formatted"
        )
    if profile.factory_format is not None and profile.made_in not in profile.formats:
        raise ValueError(f"factory_format: {profile.made_in!r} is not one of its formats: {', '.join(profile.formats)}")
    if wrong := [size for size in profile.mapping.worst_case_bytes if not size.isdigit()]:
        raise ValueError(f"mapping.worst_case_bytes.{wrong[0]}: is not a sector size in bytes")
    return profile


_MEASUREMENT = "measurement"
_NOT_OF_THE_CORE = ("switches", "price_usd", _MEASUREMENT)


def _wanted(profile: _Profile, parts: tuple[str, ...], value: Scalar) -> str:
    """Returns the required type of a figure if its type is wrong, otherwise "". The core checks everything else."""
    if parts[0] == "switches":
        return ""
    if parts[0] == "price_usd":
        priced = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
        return "" if priced else "a number of dollars, more than 0"
    if parts[0] == "factory_format":
        return "" if isinstance(value, str) else "the name of a format"
    (one,) = (one for one in profile.declared() if _declared_as(one, parts))
    return one.wanted(value)


def _wrong_bounds(figure: Figure) -> str:
    """Returns what is wrong with a figure's bounds, or "" if they are valid."""
    if figure.bounds is None:
        return ""
    low, high = figure.bounds
    if figure.label not in ("fitted", "assumed"):
        return f"are for fitted and assumed figures, and this one is {figure.label}"
    if isinstance(figure.value, str | bool):
        return "are for numbers"
    if low >= high:
        return f"{low:g} must be less than {high:g}"
    return "" if low <= figure.value <= high else f"the value {figure.value:g} is not within {low:g} to {high:g}"


_PLAIN = {
    "missing": "is missing",
    "extra_forbidden": "is not a figure of a profile",
    "literal_error": "must be published, measured, derived, fitted or assumed",
    "string_too_short": "is empty: every figure needs a source",
    "model_type": "must be a table with value, label and source",
}
