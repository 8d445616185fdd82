"""The volume of each database object, by the names and patterns of `layout.objects`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from storagelab.errors import shown

KEY = "layout.objects"
INDEXES, TABLES, TEMPORARY, LOG = "indexes", "tables", "temp", "log"
WORDS = {
    TABLES: "all tables that are not spread and not named",
    INDEXES: "all indexes that are not named",
    TEMPORARY: "temporary tables and files",
}
"""The keywords for common cases, and the meaning of each."""
_MOST_LISTED = 40
Kind = Literal["table", "index"]


class Object(NamedTuple):
    """A table, an index, or a partition of one. `names` are its own name and the names of the tables to which it
    belongs as a partition, the nearest first. `spread`: it is one of the partitions that are placed in turn on the data
    files. `bytes` is its size, if known.
    """

    names: tuple[str, ...]
    kind: Kind
    schema: str = ""
    spread: bool = False
    bytes: float | None = None

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def whole_name(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


class Problem(NamedTuple):
    """Why a placement is impossible, and a solution."""

    problem: str
    hint: str


class Placement:
    """The objects that a cell places on other volumes. `asked` maps names, patterns and words to volumes.

    A pattern with a dot is compared with schema and name, any other pattern only with the name. Names and patterns have
    priority over keywords, and those of a partition have priority over those of its table.
    """

    def __init__(self, asked: Mapping[str, str]) -> None:
        self.words = {name: volume for name, volume in asked.items() if name in WORDS}
        self.patterns = {name: volume for name, volume in asked.items() if name not in WORDS}

    def volume_of(self, one: Object) -> str | None:
        """The volume on which the object is placed; None if it lies in the data files."""
        found = self._nearest(one)
        if found:
            return self.patterns[found[0]]
        if one.kind == "index":
            return self.words.get(INDEXES)
        return None if one.spread else self.words.get(TABLES)

    def problem(self, objects: Collection[Object]) -> Problem | None:
        """The first pattern without an object, or the first two that place one object on different volumes."""
        for pattern in self.patterns:
            if not any(_matches(pattern, one.schema, name) for one in objects for name in one.names):
                return Problem(f"{shown(pattern)} matches no table and no index", _there_are(objects))
        for one in objects:
            found = self._nearest(one)
            other = next((pattern for pattern in found if self.patterns[pattern] != self.patterns[found[0]]), None)
            if other is not None:
                wanted = " and ".join(f"{shown(name)} on {self.patterns[name]}" for name in (found[0], other))
                return Problem(f"two patterns match {one.whole_name}: {wanted}", "Let one pattern match it.")
        return None

    def _nearest(self, one: Object) -> list[str]:
        """The patterns that match the object's own name, or otherwise the name of the nearest table that contains
        it."""
        for name in one.names:
            if found := [pattern for pattern in self.patterns if _matches(pattern, one.schema, name)]:
                return found
        return []


def _matches(pattern: str, schema: str, name: str) -> bool:
    return fnmatchcase(f"{schema}.{name}" if "." in pattern else name, pattern)


def _there_are(objects: Collection[Object]) -> str:
    """The existing objects; partitions only by their table or index."""
    whole: Sequence[str] = list(
        dict.fromkeys(f"{one.schema}.{one.names[-1]}" if one.schema else one.names[-1] for one in objects)
    )
    more = f" and {len(whole) - _MOST_LISTED} more" if len(whole) > _MOST_LISTED else ""
    return f"There are {', '.join(whole[:_MOST_LISTED])}{more}." if whole else "There are none."
