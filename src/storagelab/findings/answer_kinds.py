"""The parts of an experiment's answer, as values: choices, bounds, gains, causes and cautions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from storagelab.findings.cell import LimitedRate
from storagelab.findings.model import Compared, Estimate, Verdict
from storagelab.model.engines import Provenances
from storagelab.model.plan import Factor, Preference
from storagelab.model.values import Described, Frozen, JsonValue


class Good(Frozen):
    """A factor that matters, and its best levels, which don't differ."""

    factor: str
    levels: tuple[JsonValue, ...]


class Pattern(Frozen):
    """A pattern that describes a set of layouts: all combinations of the `needed` levels, at any level of the `free`
    factors.
    """

    needed: tuple[Good, ...]
    free: tuple[str, ...]


class Pick(Described):
    """The cheapest, by the spec's `prefer`, of the layouts to use that are almost as fast as the fastest."""

    cell_id: str
    """Its id."""
    levels: dict[str, JsonValue]
    """Its levels."""
    decided_by: tuple[Preference, ...]
    """The preferences that left others out, in their order; `fastest` alone: no other mean is near."""
    within: float | None = None
    """They chose among those of `meant` that take at most this share longer than the fastest; `null` if levels that are
    surely slower were left out, too."""
    at_most_slower: float | None = None
    """As below, of this layout alone."""
    capacity_bytes: float | None = None
    """The capacity of the data's volumes, or `null`."""
    keeps: str | None = None
    """The factor on which that capacity depends."""
    capacities: tuple[tuple[JsonValue, float], ...] = ()
    """That factor's levels, each with its capacity in bytes."""


class Choice(Described):
    """What to use, the same under all `loads`."""

    loads: tuple[dict[str, JsonValue], ...]
    """The levels of the loads that it holds for; empty if only layouts are varied."""
    verdict: Verdict
    """The verdict under these loads."""
    layouts: int
    """How many layouts were compared."""
    tied: tuple[str, ...]
    """The ids of the best set."""
    meant: tuple[str, ...]
    """Those of them that `pattern` describes, with a cell for each load."""
    pattern: Pattern
    """`needed`: each `factor` that matters, with its good `levels`. `free`: factors whose levels don't matter."""
    pick: Pick | None
    """The cheapest of `meant`, by the spec's `prefer`; `null` while layouts still wait for their runs."""
    lowest: Estimate | None = None
    """The shortest mean time of `meant`, or the lowest rate; `null` over several loads."""
    highest: Estimate | None = None
    """The longest mean time, or the highest rate."""
    at_most_slower: float | None = None
    """An upper bound (95 %) for the time of any of `meant` over that of the truly fastest, as far as the intervals of
    their ratios reach, or farther; `null` if it is unknown."""
    same: bool = False
    """Whether that bound is within `indifferent`."""
    next_slower: str | None = None
    """The nearest cell that is told apart."""
    leads: tuple[Estimate, ...] = ()
    """Its ratio of times to the fastest; over several loads the smallest and the largest."""


class Gain(Described):
    """The gain from the good levels of a factor, with all else equal. Without good levels, it is relative to the
    factor's first level.
    """

    factor: str
    """The factor."""
    levels: tuple[JsonValue, ...]
    """Its good levels. If any level will do: all but the first."""
    reference: JsonValue
    """The level that they are compared with."""
    best: Estimate
    """The smallest ratio of time to the reference, with its joint interval."""
    worst: Estimate
    """The largest one."""
    seen: bool
    """Whether any of the differences is told apart from chance."""
    sure: bool
    """Whether all are."""
    same: bool = False
    """Whether all intervals lie within `indifferent`."""
    untested: bool = False
    """The levels were run in different blocks."""
    depends_on: tuple[str, ...] = ()
    """Factors on which the size of the effect, or the best level, depends."""


class Limit(Frozen):
    """A volume that was at its limit in the longer runs: its requests fill `share` of their time."""

    volume: str
    rate: LimitedRate
    limit: float
    share: float


class Cause(Described):
    """The wait that changed most from one level of a factor to others, or a volume's limit. Seconds are per connection,
    averaged over all other factors.
    """

    factor: str
    """The factor."""
    before: tuple[JsonValue, ...]
    """From these levels ..."""
    after: tuple[JsonValue, ...]
    """... to those."""
    wait: str | None
    """The wait that changed most in the direction of the time; `null` where a volume's limit sets the pace."""
    limit: Limit | None = None
    """That limit, or `null`."""
    from_s: float
    """Seconds in the wait before; with a limit, the volumes' shortest time."""
    to_s: float
    """The same after."""
    total_from_s: float
    """Seconds in all before."""
    total_to_s: float
    """Seconds in all after."""


class SlowestAtLimit(Described):
    """The slowest layout, if a volume's limit surely explains most of the time by which it is slower than the
    fastest."""

    cell_id: str
    """The slowest cell."""
    limit: Limit
    """The volume that was at its limit there."""


class Next(Described):
    """The next step to make the result more certain."""

    step: str
    """`runs`: make the missing runs. `repetitions`: make more repetitions. `race`: give the race more rounds. Otherwise
    the kind of caution whose cause should be removed."""
    repetitions: int | None = None
    """The total number of repetitions to make."""
    effect: float | None = None
    """The difference, as a share of the time, that these find in 4 of 5 experiments."""


"""Facts that keep an experiment from answering its question, or a part of it. Cautions add further facts."""


class Answer(Frozen):
    """Everything that a decision needs."""

    provenance: Provenances | None
    """The provenance that the findings state."""
    runs: int
    """Usable runs, without burn-in runs."""
    runs_planned: int
    """Runs that the spec asks for, without burn-in runs."""
    layouts: int
    """How many layouts were compared (each counted once, whatever its loads)."""
    compared: Compared
    """As in the findings."""
    unable: tuple[str, ...]
    """Facts that keep the runs from answering the question or a part of it: `nothing-measured`, `too-few-runs`,
    `untested`, `not-compared` (a layout has no result), and those of cautions.
    """
    choices: tuple[Choice, ...]
    """The layouts to use: one choice for each group of loads with the same best layouts; none while nothing is
    judged."""
    gains: tuple[Gain, ...]
    """The gain from each factor, the largest first."""
    causes: tuple[Cause, ...]
    """Which wait changed with a factor, or which volume was at its limit."""
    slowest_at_limit: SlowestAtLimit | None = None
    """The slowest layout, if a volume's limit explains its time."""
    cautions: tuple[str, ...]
    """Kinds of cautions that are not in `unable`, the most serious first."""
    indifferent: float | None = None
    """The margin that the spec sets, as a share."""
    next: Next | None = None
    """The next step to make the result more certain; None if there is none."""
    no_verdict: str | None = None
    """The fact in `unable` because of which there is no verdict on storage."""


# --- the pattern that describes a set of layouts ----------------------------------------------------------------------

STARTS_MOST = 8
"""The number of layouts from which a pattern is grown. The first pattern that contains all layouts is used, otherwise
the largest."""

Levels = Mapping[str, JsonValue]
_Box = list[set[int]]


def pattern_of(factors: Sequence[Factor], layouts: Sequence[Levels], tied: Sequence[int]) -> tuple[Pattern, list[int]]:
    """The largest pattern found that holds only tied layouts, and their places; `tied` has places in `layouts`.

    A pattern is grown from one layout. Each step adds the level that adds the most tied layouts and no others.
    Combinations that were not tried are ignored.
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
    """The place of a level, found by its text, because 1 equals true but is another level."""
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
