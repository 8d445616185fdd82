"""Tables as values: headings and texts, whatever they are printed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Align = Literal["text", "prose", "number"]
"""Names stay on one line, prose wraps, numbers stand to the right."""


@dataclass(frozen=True)
class Heading:
    """A column's heading, its alignment, and its meaning where the heading alone does not say."""

    text: str
    align: Align = "number"
    meaning: str = ""


class Table(NamedTuple):
    """Headings, and rows of as many texts."""

    headings: list[Heading]
    rows: list[list[str]]


def bare(value: str | float | int | None) -> str:
    """A figure in four digits; "" for one that is not known."""
    return "" if value is None else f"{float(value):,.4g}"
