"""Tables as values, headings and texts, independent of the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Align = Literal["text", "prose", "number"]
"""Names stay on one line, prose wraps, numbers align right."""


@dataclass(frozen=True)
class Heading:
    """A column's heading, its alignment, and its meaning if the heading alone is unclear."""

    text: str
    align: Align = "number"
    meaning: str = ""


class Table(NamedTuple):
    """Headings, and rows with one text per heading."""

    headings: list[Heading]
    rows: list[list[str]]


def bare(value: str | float | int | None) -> str:
    """A figure in four digits; "" if it is unknown."""
    return "" if value is None else f"{float(value):,.4g}"
