"""Of many servers whose settings differ in numbers alone, those that stand for all.

What a server refuses is too little or too much: a lock table that does not fit into memory, more connections than files
that it may open, fewer than it keeps for superusers. So if those with the least and the most of each number are accepted,
so are those between them. Words, such as "on" or "fsync", and numbers in different units are not ordered: each
combination of them is looked at by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

_NUMBER = re.compile(r"([-+]?[0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")

_T = TypeVar("_T")
Texts = Mapping[str, str]
"""Settings as the server reads them."""


def standing_for(items: Sequence[_T], texts_of: Callable[[_T], Texts]) -> list[_T]:
    """Those of the items, in their order, whose settings stand for all."""
    alike: dict[tuple[tuple[str, str], ...], list[int]] = {}
    numbers = []
    for position, item in enumerate(items):
        words, amounts = _parted(texts_of(item))
        numbers.append(amounts)
        alike.setdefault(words, []).append(position)
    chosen: set[int] = set()
    for group in alike.values():
        chosen |= _extremes(group, numbers)
    return [items[position] for position in sorted(chosen)]


def _extremes(group: Sequence[int], numbers: Sequence[Mapping[str, float]]) -> set[int]:
    """For each number that differs, the first item with the least and with the most of it. Among equals, that with the
    least or the most of the others, too: what they take together counts as well."""
    differing = [name for name in numbers[group[0]] if len({numbers[position][name] for position in group}) > 1]
    found = set() if differing else {group[0]}
    for name in differing:
        names = [name, *(other for other in differing if other != name)]
        by_amounts = {position: [numbers[position][one] for one in names] for position in group}
        found |= {min(group, key=by_amounts.__getitem__), max(group, key=by_amounts.__getitem__)}
    return found


def _parted(texts: Texts) -> tuple[tuple[tuple[str, str], ...], dict[str, float]]:
    """What must be the same, words and the units of numbers, and the numbers."""
    words, numbers = [], {}
    for name, text in sorted(texts.items()):
        number = _NUMBER.fullmatch(text.strip())
        if number is None:
            words.append((name, text))
        else:
            words.append((name, f"a number of {number[2]}"))
            numbers[name] = float(number[1])
    return tuple(words), numbers
