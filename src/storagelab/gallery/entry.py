"""A shared campaign: only words of storagelab's own, numbers, and ratios. Pure.

Every text must match a pattern, so an entry that somebody else made can't carry anything else.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from storagelab.model.values import Frozen

Word = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,59}$")]
Value = bool | int | float | Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 +._-]{0,39}$")]
Verdict = Literal["best", "tied", "slower", "not compared"]


class Host(Frozen):
    """The kind of machine."""

    cpus: int = Field(ge=1)
    memory_gib: int = Field(ge=0)
    architecture: Word
    virtual: bool


class Drive(Frozen):
    """The kind of drive under the data: no model, no size. `filesystem` and `limit` are "varies" if a factor sets them."""

    kind: Literal["NVMe", "SATA or SAS", "virtual disk", "network", "memory", "claim", "unknown"]
    made_of_file: bool
    filesystem: Word
    limit: Annotated[str, Field(pattern=r"^(none|varies|own figures|[a-z0-9.-]{1,40})$")]


class SharedFactor(Frozen):
    name: Word
    levels: tuple[Value, ...]


class Layout(Frozen):
    """`ratio` = its time over that of the best of its load, with a joint 95 % interval; None if they are not compared."""

    levels: dict[Word, Value]
    verdict: Verdict
    ratio: float | None = Field(None, gt=0)
    low: float | None = Field(None, gt=0)
    high: float | None = Field(None, gt=0)


class Entry(Frozen):
    """`cautions` are kinds of the report's cautions."""

    schema_: Literal[1] = Field(1, alias="schema")
    storagelab: Annotated[str, Field(pattern=r"^[0-9][0-9.]{0,19}$")]
    month: Annotated[str, Field(pattern=r"^20[0-9]{2}-[01][0-9]$")]
    engine: Word
    version: Annotated[str, Field(pattern=r"^([0-9]+(\.[0-9]+){0,2}|varies|unknown)$")]
    load: dict[Word, Value]
    settings: dict[Word, Value]
    drive: Drive
    host: Host
    factors: tuple[SharedFactor, ...] = Field(max_length=20)
    repetitions: int = Field(ge=1)
    layouts: tuple[Layout, ...] = Field(min_length=1, max_length=2_000)
    cautions: tuple[Word, ...] = ()

    @model_validator(mode="after")
    def _has_a_best_layout(self) -> Entry:
        if not any(layout.verdict == "best" for layout in self.layouts):
            raise ValueError("no layout is called the best, so nothing was judged")
        return self

    @property
    def family(self) -> str:
        """The versions that behave alike: PostgreSQL's first number, the first two of MariaDB and others."""
        return ".".join(self.version.split(".")[: 1 if self.engine == "postgres" else 2])


def why_not_compared(one: Entry, other: Entry) -> list[str]:
    """What keeps the ratios of two campaigns from being compared; empty if they may be."""
    parts = {
        "the engine": (one.engine, other.engine),
        "the family of versions": (one.family, other.family),
        "the load": (one.load, other.load),
        "the settings": (one.settings, other.settings),
        "the kind of drive, its file system or its limit": (one.drive, other.drive),
        "what varies": (one.factors, other.factors),
    }
    return [name for name, (first, second) in parts.items() if first != second]
