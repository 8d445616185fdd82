"""Orders by chance, which depend only on a seed. Pure.

What a run leaves behind, such as dirty pages or a drive's debt of garbage collection, makes the next runs slower. Where
some layout comes after it more often than others, that looks like a property of the layout. So in a balanced order each
layout follows every layout, itself included, about equally often: in the next place, and also two and three places
later. Each is also in even and odd places, and first to last in a round, about equally often. Finney and Outhwaite
(1956, Proceedings of the Royal Society B 145) gave such orders for some numbers of treatments and runs. Here they are
found for any: of the layouts left in a round, one comes next that has followed the last three least often.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from typing import TypeVar

from storagelab.model.plan import Cell

LAGS = {1: 6, 2: 3, 3: 2}
"""Places later -> the weight of an imbalance there: what a run leaves behind gets less from run to run."""
FEW = 5
"""Up to so many layouts, two rounds at a time are made in one order. In complete rounds of few, a layout hardly ever
follows itself, so what it leaves behind would always hit the others."""
_CLOCK = 3
"""The weight of an imbalance between the even and the odd places, and between the places of a round: what disturbs
every second run, or one of each round, is to disturb all layouts alike."""
_MANY = 200
"""With more layouts than this, a plain shuffle is as good: hardly any two follow each other twice."""
_CANDIDATES = 8
"""Layouts that are looked at for the next place."""
_TRIES = 64
"""So many layouts are placed, in several tries, to find the best order of a round."""
_LONG = 100
"""From this round on, the first try is good enough: it has many rounds to even out."""

T = TypeVar("T")
_Names = tuple[int, ...]


def balanced(
    cells: Sequence[Cell], repetitions: int, seed: int, stream: str, *, whole: bool = False
) -> Iterator[tuple[int, Cell]]:
    """(repetition, cell) of all runs of a block. Each repetition is a complete round by itself, or, of `FEW` layouts,
    two are made in turns; `whole` = never that. More repetitions change nothing of earlier rounds, but for an odd last
    one."""
    if len(cells) > _MANY:
        for repetition in range(1, repetitions + 1):
            yield from ((repetition, cell) for cell in shuffled(cells, seed, f"round/{stream}/{repetition}"))
        return
    names = _names(cells)
    followed = _Followed(len(cells))
    width = 2 if len(cells) <= FEW and not whole else 1
    for first in range(1, repetitions + 1, width):
        rounds = range(first, min(first + width, repetitions + 1))
        tries = max(1, _TRIES // len(cells)) if first < _LONG else 1
        found = [
            _filled(names, len(rounds), followed, seed, f"balanced/{stream}/{first}/{one}") for one in range(tries)
        ]
        _, chosen = min(found, key=lambda one: one[0])
        turns: Counter[int] = Counter()
        for number in chosen:
            followed.add(names[number])
            yield rounds[turns[number]], cells[number]
            turns[number] += 1


def _names(cells: Sequence[Cell]) -> list[_Names]:
    """What is counted of each cell: the cell itself and, of several factors, its levels."""
    varied = [name for name in cells[0].levels if len({repr(cell.levels[name]) for cell in cells}) > 1]
    names: list[_Names] = []
    numbers: list[dict[str, int]] = [{} for _ in varied]
    for number, cell in enumerate(cells):
        levels = [of.setdefault(repr(cell.levels[name]), len(of)) for name, of in zip(varied, numbers, strict=True)]
        names.append((number, *levels) if len(varied) > 1 else (number,))
    return names


class _Followed:
    """How often what followed what: `counts` by places between, kind of name, the earlier and the later name; `clocks`
    by period, phase and cell."""

    def __init__(self, cells: int) -> None:
        self.counts: Counter[tuple[int, int, int, int]] = Counter()
        self.clocks: Counter[tuple[int, int, int]] = Counter()
        self.periods = sorted({2, cells})
        self.last: list[_Names] = []
        """The latest first."""
        self.placed = 0

    def copy(self) -> _Followed:
        made = copy(self)
        made.counts, made.clocks = self.counts.copy(), self.clocks.copy()
        return made

    def cost(self, names: _Names) -> int:
        """How often the last ones were followed by this one, and this one had such a place, weighted."""
        counts = self.counts
        clocks = sum(self.clocks[period, self.placed % period, names[0]] for period in self.periods)
        return _CLOCK * clocks + sum(
            LAGS[lag] * counts[lag, kind, earlier[kind], name]
            for lag, earlier in enumerate(self.last, start=1)
            for kind, name in enumerate(names)
        )

    def add(self, names: _Names) -> None:
        for lag, earlier in enumerate(self.last, start=1):
            for kind, name in enumerate(names):
                self.counts[lag, kind, earlier[kind], name] += 1
        for period in self.periods:
            self.clocks[period, self.placed % period, names[0]] += 1
        self.placed += 1
        self.last = [names, *self.last][: len(LAGS)]


def _filled(
    names: Sequence[_Names], rounds: int, followed: _Followed, seed: int, stream: str
) -> tuple[int, tuple[int, ...]]:
    """An order of so many rounds by places in `names`, and how unbalanced it is: the least costly of the next few in a
    random order comes next."""
    followed = followed.copy()
    left = shuffled([number for number in range(len(names)) for _ in range(rounds)], seed, stream)
    chosen: list[int] = []
    total = 0
    while left:
        costs = [followed.cost(names[number]) for number in left[:_CANDIDATES]]
        least = min(costs)
        number = left.pop(costs.index(least))
        followed.add(names[number])
        chosen.append(number)
        total += least
    return total, tuple(chosen)


def shuffled(items: Sequence[T], seed: int, stream: str) -> list[T]:
    """`items` in a random order that depends only on `seed`, `stream` and the number of items.

    Fisher and Yates's shuffle, as Knuth gives it (The Art of Computer Programming, volume 2, algorithm 3.4.2P), driven
    by SHA-256 rather than Python's generator, so that no later version of Python can change the order of an experiment.
    """
    result = list(items)
    for last in range(len(result) - 1, 0, -1):
        other = draw(f"{seed}/{stream}/{last}") % (last + 1)
        result[last], result[other] = result[other], result[last]
    return result


def draw(text: str) -> int:
    """256 random bits, enough that the remainder modulo any number of cells is uniform."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
