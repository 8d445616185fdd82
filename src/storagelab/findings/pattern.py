"""Describes a set of layouts by a pattern: which levels of which factors, and which factors do not matter. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from storagelab.findings.answer_kinds import Good, Pattern
from storagelab.model.plan import Factor
from storagelab.model.values import JsonValue

STARTS_MOST = 8
"""The number of layouts from which a pattern is grown. The first pattern that holds all is taken, else the largest."""

Levels = Mapping[str, JsonValue]
_Box = list[set[int]]


def pattern_of(factors: Sequence[Factor], layouts: Sequence[Levels], tied: Sequence[int]) -> tuple[Pattern, list[int]]:
    """The largest pattern found that holds only tied layouts, and the places of these; `tied` = places in `layouts`.

    A pattern is grown from one layout, each time by the level that adds most tied layouts and no others. Combinations
    that were not tried don't prevent it.
    """
    levels = [[level.value for level in factor.levels] for factor in factors]
    places = np.array(
        [
            [_place(known, layout[factor.name]) for factor, known in zip(factors, levels, strict=True)]
            for layout in layouts
        ],
        dtype=int,
    ).reshape(len(layouts), len(factors))
    good = np.zeros(len(layouts), dtype=bool)
    good[list(tied)] = True
    best: tuple[int, _Box] | None = None
    step = max(1, (len(tied) + STARTS_MOST - 1) // STARTS_MOST)
    for start in list(tied)[::step]:
        box = _grown(places, good, start)
        held = int(_inside(places, box).sum())
        if best is None or held > best[0]:
            best = held, box
        if held == len(tied):
            break
    assert best is not None, "a pattern of nothing"
    _, box = best
    everywhere = [set(column.tolist()) for column in places.T]
    pattern = Pattern(
        needed=tuple(
            Good(factor=factor.name, levels=tuple(known[place] for place in sorted(inside)))
            for factor, known, inside, there in zip(factors, levels, box, everywhere, strict=True)
            if inside != there
        ),
        free=tuple(
            factor.name
            for factor, inside, there in zip(factors, box, everywhere, strict=True)
            if inside == there and len(there) > 1
        ),
    )
    return pattern, np.flatnonzero(_inside(places, box)).tolist()


def _place(known: Sequence[JsonValue], value: JsonValue) -> int:
    """The place of a level, found by its text: 1 equals true, but is another level."""
    return next(place for place, one in enumerate(known) if repr(one) == repr(value))


def _inside(places: np.ndarray, box: _Box) -> np.ndarray:
    inside = np.ones(len(places), dtype=bool)
    for column, levels in zip(places.T, box, strict=True):
        inside &= np.isin(column, list(levels))
    return inside


def _grown(places: np.ndarray, good: np.ndarray, start: int) -> _Box:
    box: _Box = [{int(place)} for place in places[start]]
    while True:
        now = int(_inside(places, box).sum())
        found: tuple[int, int, int] | None = None
        for factor, column in enumerate(places.T):
            for level in sorted(set(column.tolist()) - box[factor]):
                wider = [inside | {level} if at == factor else inside for at, inside in enumerate(box)]
                inside = _inside(places, wider)
                added = int(inside.sum()) - now
                if added and good[inside].all() and (found is None or added > found[0]):
                    found = added, factor, level
        if found is None:
            return box
        box[found[1]].add(found[2])
