"""Writes keys of a spec as TOML: one line for each key, by its full name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Place = tuple[str, ...]
"""A key by the names of its tables and its own."""


def leaves(table: Mapping[str, Any], above: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every key below a table with its value; a table without keys is its own value."""
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name), value


def line(place: Place, value: Any) -> str:
    return f"{'.'.join(map(json.dumps, place))} = {value_text(value)}"


def value_text(value: Any) -> str:
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return str(value).lower()
        case dict():
            return "{ " + ", ".join(line((name,), inside) for name, inside in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(value_text, value)) + "]"
    return str(value)
