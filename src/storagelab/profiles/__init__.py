"""Profiles of drives and of the simulated server: every figure with its label and its source.

Ready-made ones are in this folder, the server's in `servers`. A drive's profile may be any file.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from storagelab.errors import PreflightError
from storagelab.model.config import OPERATING_SYSTEM
from storagelab.model.hints import choices
from storagelab.model.values import Frozen, Scalar
from storagelab.spec import small_files
from storagelab.spec.keys import dotted

Label = Literal["derived", "published", "fitted"]
P = TypeVar("P", bound="_Profile")
Shelf = Path | dict[str, str]
"""Where the user's own profiles are: in the folder to which their names are relative, or, by these names, here."""


class Figure(Frozen):
    """A figure and its source; its name ends with its unit."""

    value: Scalar
    label: Label
    source: str = Field(min_length=1)
    bounds: tuple[int | float, int | float] | None = Field(
        None, description="the least and the most that a fit may choose"
    )
    fitted_on: tuple[str, ...] = Field((), description="the numbers of the published figures it was fitted on")


class Geometry(Frozen):
    raw_bytes: Figure
    flash_page_bytes: Figure
    pages_per_block: Figure
    erase_block_pages: Figure
    dies: Figure


class Timing(Frozen):
    read_ns: Figure
    program_ns: Figure
    erase_ns: Figure
    jitter_per_mille: Figure
    programs_before_read: Figure
    read_command_ns: Figure
    write_command_ns: Figure
    link_read_bytes_per_s: Figure
    link_write_bytes_per_s: Figure
    buffer_pages: Figure


class Cleaning(Frozen):
    victim: Figure
    streams: Figure
    start_per_mille: Figure
    stop_per_mille: Figure
    pace_per_mille: Figure
    idle_after_ns: Figure
    idle_per_mille: Figure


class Mapping(Frozen):
    per_data_bytes: Figure
    advised_bytes: Figure
    worst_case_bytes: dict[str, Figure] = Field(min_length=1)
    extent_bytes: Figure


class Driver(Frozen):
    host_cpu_ns: Figure
    host_cpu_sector_ns: Figure
    ram_divisor: Figure
    padding_per_mille: Figure | None = None


class Platters(Frozen):
    usable_bytes: Figure
    sector_bytes: Figure
    revolutions_per_minute: Figure
    surfaces: Figure
    outer_bytes_per_s: Figure
    inner_bytes_per_s: Figure
    track_switch_ns: Figure


class Arm(Frozen):
    track_to_track_ns: Figure
    average_read_ns: Figure
    average_write_ns: Figure
    full_stroke_ns: Figure


class Electronics(Frozen):
    command_ns: Figure
    interface_bytes_per_s: Figure
    read_ahead_bytes: Figure
    order: Figure
    queue_depth: Figure
    patience_ns: Figure
    host_cpu_ns: Figure


class _Profile(Frozen):
    name: str
    title: str

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Every figure under its path, as in the file."""
        yield from _figures(self, ())


class _Drive(_Profile):
    price_usd: Figure | None = Field(None, description="the price of one; for sizing only, no simulation depends on it")


class FlashProfile(_Drive):
    """A flash drive; crates/sim/src/flash/profile.rs defines each figure, and refuses impossible values."""

    kind: Literal["flash"]
    geometry: Geometry
    formats: dict[str, Figure] = Field(min_length=1)
    factory_format: Figure | None = Field(None, description="its format when new; required if there are several")
    timing: Timing
    cleaning: Cleaning
    trim: Figure
    mapping: Mapping
    drivers: dict[str, Driver] = Field(min_length=1)

    @property
    def made_in(self) -> str | None:
        """The format of a new drive; None if unknown."""
        if self.factory_format is not None:
            return str(self.factory_format.value)
        return next(iter(self.formats)) if len(self.formats) == 1 else None

    @property
    def sectors(self) -> tuple[int, ...]:
        """The possible sector sizes, in bytes."""
        return tuple(sorted(int(size) for size in self.mapping.worst_case_bytes))

    def map_bytes(self, data_bytes: float, driver: str, sector_bytes: int, extent_bytes: int | None = None) -> float:
        """Host memory for the map of this much data. `extent_bytes` lie together, by default as a database writes them; one
        sector is the worst case. The same as in crates/sim/src/flash/mapping_ram.rs."""
        extent = max(extent_bytes or int(self.mapping.extent_bytes.value), sector_bytes)
        worst = float(self.mapping.worst_case_bytes[str(sector_bytes)].value)
        of_entries = data_bytes / float(self.mapping.per_data_bytes.value) * sector_bytes / extent
        return worst * of_entries / float(self.drivers[driver].ram_divisor.value)


class DiskProfile(_Drive):
    """A disk; crates/sim/src/disk/profile.rs defines each figure, and refuses impossible values."""

    kind: Literal["disk"]
    platters: Platters
    arm: Arm
    electronics: Electronics

    @property
    def formats(self) -> dict[str, Figure]:
        """The formats: none, because a disk can be used in only one way."""
        return {}

    @property
    def drivers(self) -> dict[str, Driver]:
        """The driver versions: none that matter."""
        return {}

    @property
    def sectors(self) -> tuple[int, ...]:
        """The sector size, in bytes."""
        return (int(self.platters.sector_bytes.value),)


class ServerProfile(_Profile):
    """A database server; crates/sim/src/scenario/server.rs defines each figure, and refuses impossible values."""

    kind: Literal["server"]
    costs: dict[str, Figure] = Field(description="what operations cost, in time, bytes or number")
    switches: dict[str, Figure] = Field(description="how operations are done; a spec's omissions default to these")


Profile = FlashProfile | DiskProfile
_DRIVES: dict[str, type[Profile]] = {"flash": FlashProfile, "disk": DiskProfile}


def _figures(inside: object, parts: tuple[str, ...]) -> Iterator[tuple[str, Figure]]:
    if isinstance(inside, Figure):
        yield dotted(parts), inside
    elif isinstance(inside, BaseModel | dict):
        for name, value in dict(inside).items():
            yield from _figures(value, (*parts, name))


def ready_made() -> tuple[str, ...]:
    """Names of the profiles that come with storagelab."""
    files = resources.files(__name__).iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def load(name: str, folder: Shelf, key: str | None = None) -> Profile:
    """The profile called `name`, or in the file `name`, from `folder`. Raises PreflightError naming `key`."""
    try:
        return _drive_of(text_of(name, folder, key))
    except ValueError as error:
        raise _unusable(name, str(error), key) from None


@functools.cache
def server() -> ServerProfile:
    """The profile of the simulated server."""
    text = resources.files(__name__).joinpath("servers", "sql-server-2008.toml").read_text(encoding="utf-8")
    return _checked(tomllib.loads(text), ServerProfile)


def is_file(name: str) -> bool:
    """Whether this names a file of the user's, and no ready-made profile."""
    return name.endswith(".toml") or "/" in name


def text_of(name: str, folder: Shelf, key: str | None = None) -> str:
    """The file of the profile, unchecked. Raises PreflightError naming `key` if there is none."""
    if not is_file(name) and name not in ready_made():
        hint = choices(name, ready_made(), "There are") + " Name a file of your own with its ending: drives/my.toml"
        raise PreflightError(f"no profile is named {name!r}", key=key, hint=hint)
    try:
        if is_file(name):
            if not isinstance(folder, Path):
                return folder[name]
            return small_files.text_of(folder / Path(name).expanduser())
        return resources.files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    except (OSError, RuntimeError, ValueError) as error:
        raise _unusable(name, getattr(error, "strerror", None) or str(error), key) from None


def _unusable(name: str, reason: str, key: str | None) -> PreflightError:
    hint = "`storagelab profiles show iodrive-320 --toml` prints a complete one to start from"
    return PreflightError(f"the profile {name} can't be used: {reason}", key=key, hint=hint)


def _checked(content: dict[str, object], kind: type[P]) -> P:
    """A profile of this kind, checked. Raises ValueError, in plain words, for the first thing that is wrong."""
    try:
        profile = kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{dotted(first['loc'])}: {_PLAIN.get(first['type'], first['msg'].lower())}") from None
    for name, figure in profile.figures():
        if wanted := _not_of_its_kind(name, figure.value):
            raise ValueError(f"{name} must be {wanted}, not {figure.value!r}")
        if wrong_bounds := _wrong_bounds(figure):
            raise ValueError(f"{name}.bounds: {wrong_bounds}")
    return profile


@functools.lru_cache(64)
def _drive_of(text: str) -> Profile:
    """Each slice of a block asks for its drives again."""
    return _checked_drive(tomllib.loads(text))


def _checked_drive(content: dict[str, object]) -> Profile:
    """A drive's profile, checked. Raises ValueError, in plain words, for the first thing that is wrong."""
    kind = content.get("kind")
    if kind not in _DRIVES:
        raise ValueError(f"kind: {'is missing' if kind is None else repr(kind)}, must be {' or '.join(_DRIVES)}")
    profile = _checked(content, _DRIVES[str(kind)])
    if not isinstance(profile, FlashProfile):
        return profile
    if OPERATING_SYSTEM in profile.formats:
        raise ValueError(
            f"formats.{OPERATING_SYSTEM}: is the name in specs for a drive that its maker's utility never formatted"
        )
    if profile.factory_format is not None and profile.made_in not in profile.formats:
        raise ValueError(f"factory_format: {profile.made_in!r} is not one of its formats: {', '.join(profile.formats)}")
    if wrong := [size for size in profile.mapping.worst_case_bytes if not size.isdigit()]:
        raise ValueError(f"mapping.worst_case_bytes.{wrong[0]}: is not a sector size in bytes")
    return profile


_WORDS = {
    "cleaning.victim": ("greedy", "fifo"),
    "cleaning.streams": ("separate", "shared"),
    "electronics.order": ("fifo", "elevator", "shortest"),
}
_LARGE = ("_ns", "_per_s", "raw_bytes", "per_data_bytes", "advised_bytes", "usable_bytes", "read_ahead_bytes")


def _not_of_its_kind(name: str, value: Scalar) -> str:
    """What a figure must be if it is of the wrong kind; empty if its kind is right. The core checks everything else."""
    if name.startswith("switches."):
        return ""
    if name == "trim":
        return "" if isinstance(value, bool) else "true or false"
    if name == "factory_format":
        return "" if isinstance(value, str) else "the name of a format"
    if name in _WORDS:
        return "" if value in _WORDS[name] else " or ".join(_WORDS[name])
    if name == "price_usd":
        priced = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
        return "" if priced else "a number of dollars, more than 0"
    large = name.endswith(_LARGE) or name.startswith(("formats.", "mapping.worst_case_bytes."))
    most = 2**63 - 1 if large else 2**32 - 1
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
    return "" if whole else f"a whole number from 0 to {most}"


def _wrong_bounds(figure: Figure) -> str:
    """What is wrong with the bounds of a figure; empty if nothing is."""
    if figure.bounds is None:
        return ""
    low, high = figure.bounds
    if figure.label != "fitted":
        return f"are for fitted figures, and this one is {figure.label}"
    if isinstance(figure.value, str | bool):
        return "are for numbers"
    if low >= high:
        return f"{low:g} must be less than {high:g}"
    return "" if low <= figure.value <= high else f"the value {figure.value:g} is not within {low:g} to {high:g}"


_PLAIN = {
    "missing": "is missing",
    "extra_forbidden": "is not a figure of a profile",
    "literal_error": "must be derived, published or fitted",
    "string_too_short": "is empty: every figure needs a source",
    "model_type": "must be a table with value, label and source",
}
