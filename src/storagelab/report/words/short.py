"""Short names of factors, and of several of their levels. Pure.

A factor's short name is the one that the spec gives it ([labels]), else the last word of its path: "format", not
"format of drive ssd".
"""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings.model import Findings
from storagelab.model.plan import Factor
from storagelab.model.values import JsonValue
from storagelab.words.names import (
    ALONE,
    DATA_FILES,
    factor_text,
    is_counted,
    is_number,
    one_of,
    short_factor,
    value_text,
)

_ITEMS = 4
"""How many levels of a list are written out."""


def listed_or(items: Sequence[str], word: str = "or") -> str:
    """Such as "1", "1 or 2", "1, 2 or 4"; "a, b; c or d" if items contain commas."""
    between = "; " if any(", " in item for item in items) else ", "
    return items[0] if len(items) == 1 else f"{between.join(items[:-1])} {word} {items[-1]}" if items else ""


class Names:
    """The names of an experiment's factors and levels."""

    def __init__(self, findings: Findings) -> None:
        self._factors = {factor.name: factor for factor in findings.factors}
        short = [short_factor(name) for name in self._factors]
        self._twice = {name for name in short if short.count(name) > 1}

    def factor(self, name: str) -> str:
        """ "files", "format", "driver"."""
        return self._label(self._factors[name], name) if name in self._factors else short_factor(name)

    def heading(self, name: str) -> str:
        """A factor as the heading of its column: "data files", "format"."""
        factor = self._factors[name]
        return factor_text(name) if name == DATA_FILES and name not in factor.labels else self.factor(name)

    def _label(self, factor: Factor, path: str) -> str:
        short = short_factor(path)
        return factor.labels.get(path) or (factor_text(path) if short in self._twice else short)

    def levels(self, name: str, levels: Sequence[JsonValue], *, full: bool = False) -> str:
        """The good levels of a factor: "4 or 8 files", "driver 2.2.3", "log on b", "PostgreSQL"; `full`: "data
        files".
        """
        factor = self._factors[name]
        texts, _ = self._grouped(factor, levels)
        many = self._many(factor, levels, texts)
        label = self.factor(name)
        if name in factor.labels and all(map(is_number, levels)):
            return f"{many} {one_of(label) if list(levels) == [1] else label}"
        if is_counted(name):
            label = "data files" if full and name == DATA_FILES else label
            return f"{many} {one_of(label) if list(levels) == [1] else label}"
        if name in ALONE:
            return f"{label} on {many}"
        return f"{label} {many}" if (not _is_labelled(factor) or not many[:1].isalpha()) else many

    def unimportant(self, name: str, levels: Sequence[JsonValue]) -> list[str]:
        """What varies among the good levels of a labelled factor without mattering: "sector size"."""
        return self._grouped(self._factors[name], levels)[1]

    def _many(self, factor: Factor, levels: Sequence[JsonValue], texts: Sequence[str]) -> str:
        """Several levels in few words: consecutive numbers as a range, most levels as "any but", else the first few."""
        if len(levels) > 2 and all(is_number(level.value) for level in factor.levels):
            row = sorted(float(str(level)) for level in levels)
            if sum(row[0] <= float(str(level.value)) <= row[-1] for level in factor.levels) == len(row):
                ordered = sorted(levels, key=lambda level: float(str(level)))
                return f"{value_text(ordered[0])} to {value_text(ordered[-1])}"
        if len(texts) <= _ITEMS:
            return listed_or(texts)
        good = {value_text(level) for level in levels}
        left = [text for level in factor.levels if (text := value_text(level.value)) not in good]
        if len(left) <= 2:
            return f"any but {listed_or(left, 'and')}"
        return listed_or([*texts[:2], f"{len(texts) - 2} more"])

    def _grouped(self, factor: Factor, levels: Sequence[JsonValue]) -> tuple[list[str], list[str]]:
        """The levels' texts, and what they need not mention. Labels that share their first part become one text if
        all labels with that part are there: "2.2.3" for "2.2.3, 512 B" and "2.2.3, 4 KB". The name of what differs
        among them is returned, too.
        """
        texts = [value_text(level) for level in levels]
        if not _is_labelled(factor) or len(levels) < 2:
            return texts, []
        of_head: dict[str, list[str]] = {}
        for level in factor.levels:
            of_head.setdefault(value_text(level.value).rpartition(", ")[0], []).append(value_text(level.value))
        grouped: dict[str, None] = {}
        free: dict[str, None] = {}
        for text in texts:
            head = text.rpartition(", ")[0]
            family = of_head.get(head, [])
            good = [one for one in family if one in texts]
            if head and 1 < len(family) == len(good):
                grouped[head] = None
                free |= dict.fromkeys(self._varying(factor, family))
            elif head and len(good) > 1:
                tails = [one.rpartition(", ")[2] for one in family]
                left = [tail for tail, one in zip(tails, family, strict=True) if one not in good]
                few = f"any but {left[0]}" if len(left) == 1 else listed_or([one.rpartition(", ")[2] for one in good])
                grouped[f"{head}, {few}"] = None
            else:
                grouped[text] = None
        return list(grouped), list(free)

    def _varying(self, factor: Factor, family: Sequence[str]) -> list[str]:
        """The short names of the paths that differ among labels with the same first part."""
        sets = [level.sets for level in factor.levels if value_text(level.value) in family]
        paths = dict.fromkeys(path for one in sets for path in one)
        return [self._label(factor, path) for path in paths if len({repr(one.get(path)) for one in sets}) > 1]


def _is_labelled(factor: Factor) -> bool:
    return any(set(level.sets) != {factor.name} for level in factor.levels)
