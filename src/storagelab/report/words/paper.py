"""A short report as values: a verdict, notes and tables; the same on a terminal, as Markdown and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from storagelab.report.words.table import Table


@dataclass(frozen=True)
class Part:
    """A table with its caption. `ranks`: the columns that a narrow terminal drops, the highest first."""

    caption: str
    table: Table
    ranks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Paper:
    """The verdict comes first; `provenance` is part of every figure below it."""

    title: str
    provenance: str
    verdict: str
    notes: Sequence[str]
    parts: Sequence[Part]
