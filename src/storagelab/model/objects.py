"""Decides the volume of each database object, by the names and patterns of `layout.objects`."""

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
"""The keywords for common cases. Maps each keyword to its meaning."""
_MOST_LISTED = 40
Kind = Literal["table", "index"]


class Object(NamedTuple):
    """A table, an index, or a partition of one of them. `names` has the object's own name, then the names of the tables
    of which it is a partition, the nearest table first. `spread` says whether the object is one of the partitions that
    are placed in turn on the data files. `bytes` is the size, if known.
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
    """The reason why a placement is impossible, and how to solve it."""

    problem: str
    hint: str


class Placement:
    """The objects that a cell places on separate volumes. `asked` maps names, patterns and keywords to volumes.

    A pattern with a dot is compared with schema and name. Any other pattern is compared only with the name. Names and
    patterns have priority over keywords. Those that match a partition have priority over those that match its table.
    """

    def __init__(self, asked: Mapping[str, str]) -> None:
        self.words = {name: volume for name, volume in asked.items() if name in WORDS}
        self.patterns = {name: volume for name, volume in asked.items() if name not in WORDS}

    def volume_of(self, one: Object) -> str | None:
        """Returns the volume on which the object is placed, or None if it is in the data files."""
        found = self._nearest(one)
        if found:
            return self.patterns[found[0]]
        if one.kind == "index":
            return self.words.get(INDEXES)
        return None if one.spread else self.words.get(TABLES)

    def problem(self, objects: Collection[Object]) -> Problem | None:
        """Returns the first problem: a pattern that matches no object, or two patterns that place one object on
        different volumes. Returns None if there is none.
        """
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
        """Returns the patterns that match the object's own name. If there are none, returns those that match the name
        of the nearest table that contains the object."""
        for name in one.names:
            if found := [pattern for pattern in self.patterns if _matches(pattern, one.schema, name)]:
                return found
        return []


def _matches(pattern: str, schema: str, name: str) -> bool:
    return fnmatchcase(f"{schema}.{name}" if "." in pattern else name, pattern)


def _there_are(objects: Collection[Object]) -> str:
    """Names the existing objects as text. Partitions are represented by their table or index."""
    whole: Sequence[str] = list(
        dict.fromkeys(f"{one.schema}.{one.names[-1]}" if one.schema else one.names[-1] for one in objects)
    )
    more = f" and {len(whole) - _MOST_LISTED} more" if len(whole) > _MOST_LISTED else ""
    return f"There are {', '.join(whole[:_MOST_LISTED])}{more}." if whole else "There are none."
