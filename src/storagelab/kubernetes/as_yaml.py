"""Writes plain tables and lists as YAML, whose text in quotes is that of JSON in ASCII."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

Value = str | int | bool | Mapping[str, "Value"] | Sequence["Value"]
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9/_-]*(\.[A-Za-z0-9/_-]+)*")
_NOT_IN_BLOCKS = re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff]| \n|^\s|\n\n$")
_BEYOND_ASCII = re.compile(r"[^\x20-\x7e]")  # JSON's escapes of these are pairs of surrogates, which YAML does not join
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def documents(objects: Sequence[Mapping[str, Value]]) -> str:
    return "---\n".join("\n".join(_lines(one, "")) + "\n" for one in objects)


def _lines(value: Value, before: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inside in value.items():
            yield from _entry(f"{before}{_scalar(name)}:", inside, before + "  ")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inside in value:
            first, *rest = _lines(inside, before + "  ") if _is_open(inside) else [_inline(inside)]
            yield f"{before}- {first.strip()}"
            yield from rest


def _entry(head: str, value: Value, below: str) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value and not _NOT_IN_BLOCKS.search(value):
        yield f"{head} |" + ("" if value.endswith("\n") else "-")
        yield from (below + line if line else "" for line in value.removesuffix("\n").split("\n"))
    elif _is_open(value):
        yield head
        yield from _lines(value, below)
    else:
        yield f"{head} {_inline(value)}"


def _is_open(value: Value) -> bool:
    """Whether it takes lines of its own."""
    return not isinstance(value, str) and isinstance(value, Mapping | Sequence) and bool(value)


def _inline(value: Value) -> str:
    return _scalar(value) if isinstance(value, str) else json.dumps(value)


def _scalar(text: str) -> str:
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return (
        text if plain else _BEYOND_ASCII.sub(lambda one: f"\\U{ord(one[0]):08x}", json.dumps(text, ensure_ascii=False))
    )
