"""Converts sizes and durations with units to bytes and seconds. Also converts the keys that take such values. `report`
formats sizes and durations."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from storagelab.errors import SpecError, refuse, shown

BYTES_PER_UNIT = {
    "": 1, "b": 1,
    "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
SECONDS_PER_UNIT = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

AUTO = "auto"

_SHOWN_CHARACTERS = 40
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str) -> int:
    """Returns the bytes in `text`, such as "64MB" or "128KiB". As in PostgreSQL and SQL Server, 1 KB is 1024 bytes.

    Raises ValueError that names the known units.
    """
    return round(_parse(text, BYTES_PER_UNIT, "bytes"))


def parse_seconds(text: str) -> float:
    """Returns the seconds in `text`, such as "250ms" or "5min". Raises ValueError that names the known units."""
    return _parse(text, SECONDS_PER_UNIT, "a duration")


def parse_warm_up(text: str) -> float | str:
    """Returns the seconds in `text`, or "auto" if storagelab must find the end of the warm-up. Raises ValueError like
    `parse_seconds`.
    """
    if text.strip() == AUTO:
        return AUTO
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise ValueError(f'{error}, or "{AUTO}"') from None


def _parse(text: str, factors: dict[str, float] | dict[str, int], what: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2].lower() not in factors:
        known = ", ".join(unit for unit in factors if unit)
        cut = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
        example = "64GB" if factors is BYTES_PER_UNIT else "5min"
        raise ValueError(f"{cut!r} is not {what}; write a number and one of {known}, such as {example}")
    quantity = float(match[1]) * factors[match[2].lower()]
    if math.isinf(quantity):
        raise ValueError(f"{text[:20]}... is out of range")
    return quantity


def parse_price(text: str) -> float:
    """Returns a price without its currency. Raises ValueError with an example."""
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise ValueError(f"{text!r} is not a price; write a number of at least 0, such as 120")


# --- keys that can be written with a unit -----------------------------------------------------------------------------


class Spelled(NamedTuple):
    """A key whose value is written with a unit. In `path`, a * stands for any name. The name of the plain key ends in
    the unit (`_bytes` or `_s`).
    """

    path: str
    example: str
    parse: Callable[[str], float | str] = parse_bytes

    @property
    def unit(self) -> str:
        return "bytes" if self.parse is parse_bytes else "seconds"

    @property
    def ending(self) -> str:
        return "_bytes" if self.parse is parse_bytes else "_s"


WITH_UNIT = (
    Spelled("between_runs.pause", "500ms", parse_seconds),
    Spelled("drives.*.host_ram", "16GB"),
    Spelled("layout.data_size", "160GB"),
    Spelled("layout.log_size", "8GB"),
    Spelled("server.memory", "16GB"),
    Spelled("volumes.*.cache.size", "512MB"),
    Spelled("volumes.*.file", "32GiB"),
    Spelled("volumes.*.offset", "1MiB"),
    Spelled("volumes.*.raid_chunk_size", "64KiB"),
    Spelled("volumes.*.read_ahead", "128KiB"),
    Spelled("volumes.*.size", "800GB"),
    Spelled("volumes.*.stripe", "128KiB"),
    Spelled("workload.block", "8KiB"),
    Spelled("workload.duration", "60s", parse_seconds),
    Spelled("workload.warm_up", "5s", parse_warm_up),
    Spelled("workload.warm_up_at_most", "10min", parse_seconds),
)
BY_NAME = {one.path.rpartition(".")[2] + one.ending: one for one in WITH_UNIT}
"""Maps the last part of each plain key to its entry in WITH_UNIT."""


@lru_cache(1024)  # called for each key of a cell
def _spelled(path: str) -> Spelled | None:
    """Returns the entry of WITH_UNIT whose path matches `path`, or None."""
    parts = path.split(".")
    for one in WITH_UNIT:
        words = one.path.split(".")
        if len(words) == len(parts) and all(word in ("*", part) for word, part in zip(words, parts, strict=True)):
            return one
    return None


def without_unit(path: str) -> str:
    """If `path` is written for values with a unit, returns the path of the plain key. Otherwise returns `path`."""
    spelled = _spelled(path)
    return path if spelled is None else path + spelled.ending


def value_with_unit(path: str, value: object) -> tuple[str, object]:
    """Converts a path and a value with a unit: `between_runs.pause` and "500ms" become `between_runs.pause_s` and 0.5.
    Returns any other path and value unchanged.

    Raises ValueError, with a message for users, if the value has no unit or an unknown unit.
    """
    spelled = _spelled(path)
    if spelled is None:
        return path, value
    key = path + spelled.ending
    if not isinstance(value, str):
        name = key.rpartition(".")[2]
        example = f'must be text with a unit, such as "{spelled.example}", not {shown(value)}'
        raise ValueError(f"{example}; in plain {spelled.unit}: {name}")
    return key, spelled.parse(value)


def with_unit_read(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Converts each value with a unit in `tables`, and stores it under the key without a unit. Raises SpecError that
    names the key.
    """
    errors: list[SpecError] = []
    read = {
        name: _units_read(content, name, errors) if isinstance(content, dict) else content
        for name, content in tables.items()
    }
    refuse(errors)
    return read


def _units_read(table: Mapping[str, Any], place: str, errors: list[SpecError]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, content in table.items():
        spelled = f"{place}.{name}"
        if isinstance(content, dict):
            result[name] = _units_read(content, spelled, errors)
            continue
        try:
            path, value = value_with_unit(spelled, content)
        except ValueError as error:
            errors.append(SpecError(str(error), key=spelled))
            continue
        key = path.rpartition(".")[2] if path != spelled else name
        if key != name and key in table:
            errors.append(SpecError(f"sets the same value as {path}", key=spelled, hint="Keep only one of them."))
        result[key] = value
    return result
