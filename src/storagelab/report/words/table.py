"""Tables and short reports as values, which terminal, Markdown and page lay out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """A figure in four digits, without a power of ten if it is large; "" if it is unknown."""
    text = "" if value is None else f"{float(value):,.4g}"
    return f"{float(text):,.0f}" if "e+" in text else text


@dataclass(frozen=True)
class Part:
    """A table with its caption. `ranks`: the columns that a narrow terminal drops, the highest first."""

    caption: str
    table: Table
    ranks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Paper:
    """A short report. The verdict comes first; `provenance` is part of every figure below it. `picture` has lines of
    letters, for Markdown."""

    title: str
    provenance: str
    verdict: str
    notes: Sequence[str]
    parts: Sequence[Part]
    picture: Sequence[str] = ()

    def opened_by(self, sentence: str, picture: Sequence[str] = ()) -> Paper:
        """The same, with a sentence before its verdict, and a picture."""
        return replace(self, verdict=f"{sentence} {self.verdict}", picture=picture)
