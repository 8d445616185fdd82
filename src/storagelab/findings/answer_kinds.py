"""The parts of an experiment's answer as values: choices, bounds, gains, causes and cautions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from pydantic import Field

from storagelab.findings.cell import LimitedRate
from storagelab.findings.model import Compared, Estimate, Verdict
from storagelab.model.engines import Provenances
from storagelab.model.plan import Factor, Preference
from storagelab.model.values import Described, Frozen, JsonValue


class Good(Frozen):
    """A factor that matters, with its best levels. These levels can't be distinguished."""

    factor: str
    levels: tuple[JsonValue, ...]


class Pattern(Frozen):
    """A pattern that describes a set of layouts. It contains all combinations of the `needed` levels with any levels of
    the `free` factors, at most one of them excepted.
    """

    needed: tuple[Good, ...]
    free: tuple[str, ...]


class Pick(Described):
    """The layout to use by default: of the layouts that are almost as fast as the fastest, the cheapest by the spec's
    `prefer`."""

    cell_id: str
    """The id of the layout's cell."""
    levels: dict[str, JsonValue]
    """The layout's levels."""
    decided_by: tuple[Preference, ...]
    """The preferences that excluded other layouts, in the order of the spec. Only `fastest`: no other layout's mean was
    near enough."""
    within: float | None = None
    """The preferences chose among the layouts of `meant` that take at most this share more time than the fastest;
    `null` if layouts with surely slower levels were excluded, too."""
    at_most_slower: float | None = None
    """An upper bound (95 %) of this layout's time divided by the time of the truly fastest; `null` if unknown."""
    capacity_bytes: float | None = None
    """The capacity of the data's volumes; `null` if unknown."""
    keeps: str | None = None
    """The factor on which this capacity depends."""
    capacities: tuple[tuple[JsonValue, float], ...] = ()
    """The levels of the factor `keeps`, each with its capacity in bytes."""


class Choice(Described):
    """The layouts to use, which are the same under all `loads`."""

    loads: tuple[dict[str, JsonValue], ...]
    """The levels of the loads for which the choice holds; empty if only layouts are varied."""
    verdict: Verdict
    """The verdict under these loads."""
    layouts: int
    """How many layouts were compared."""
    tied: tuple[str, ...]
    """The ids of the cells that may be the fastest."""
    meant: tuple[str, ...]
    """The ids of those cells of `tied` that `pattern` describes, with a cell for each load."""
    pattern: Pattern
    """`needed`: each `factor` that matters, with its good `levels`. `free`: factors whose levels don't matter."""
    but_not: tuple[str, ...] = ()
    """The ids of the cells that `pattern` describes although they are not in `tied`: at most one for each load."""
    pick: Pick | None
    """The cheapest layout of `meant`, by the spec's `prefer`; `null` while runs of some layouts are missing."""
    lowest: Estimate | None = None
    """The shortest mean time, or the lowest mean rate, of the cells of `meant`; `null` if there are several loads."""
    highest: Estimate | None = None
    """The longest mean time, or the highest mean rate, of the cells of `meant`; `null` if there are several loads."""
    at_most_slower: float | None = None
    """An upper bound (95 %), for any layout of `meant`, of its time divided by the time of the truly fastest. It is not
    below the upper end of any of their ratios' intervals; `null` if unknown."""
    same: bool = False
    """Whether `at_most_slower` is within `indifferent`."""
    next_slower: str | None = None
    """The fastest of the cells that are surely slower than the best."""
    leads: tuple[Estimate, ...] = ()
    """The time of `next_slower` divided by the time of the fastest; if there are several loads, the smallest and the
    largest of their ratios."""


class Gain(Described):
    """The gain from the good levels of a factor, with all else equal. If the factor has no good levels, the gain is
    relative to its first level.
    """

    factor: str
    """The factor."""
    levels: tuple[JsonValue, ...]
    """The factor's good levels. If its level does not matter, all levels except the first."""
    reference: JsonValue
    """The level with which `levels` are compared."""
    best: Estimate
    """The smallest ratio of a level's time to the reference's time, with its joint interval."""
    worst: Estimate
    """The largest of these ratios, with its joint interval."""
    seen: bool
    """Whether at least one of the differences is significant."""
    sure: bool
    """Whether all of the differences are significant."""
    same: bool = False
    """Whether the intervals of all ratios are within `indifferent`."""
    untested: bool = False
    """Whether the levels ran in different blocks, so that their difference is untested."""
    depends_on: tuple[str, ...] = ()
    """The factors on which the size of the effect, or the best level, depends."""


class Limit(Frozen):
    """A volume that was at its limit in the slower runs. At this limit, the volume's requests take `share` of the runs'
    time."""

    volume: str
    rate: LimitedRate
    limit: float
    share: float


class Cause(Described):
    """The cause of most of the change of time from one level of a factor to others: a wait or a volume's limit. Seconds
    are those of the mean connection, averaged over all other factors.
    """

    factor: str
    """The factor."""
    before: tuple[JsonValue, ...]
    """The levels before the change."""
    after: tuple[JsonValue, ...]
    """The levels after the change."""
    wait: str | None
    """The wait that changed most in the direction of the time; `null` if a volume's limit sets the pace."""
    at: dict[str, JsonValue] = Field(default_factory=dict)
    """The load under which the levels were compared. Empty if the seconds are means over all other factors."""
    sure: bool = True
    """False if no wait surely explains a quarter of the change. Then `wait` is the largest part of it."""
    limit: Limit | None = None
    """The limit of the volume that sets the pace; `null` if no volume does."""
    from_s: float
    """Seconds in the wait at the levels `before`. If a volume's limit is the cause, the shortest time that the volumes
    allow."""
    to_s: float
    """The same at the levels `after`."""
    total_from_s: float
    """The whole time in seconds at the levels `before`."""
    total_to_s: float
    """The whole time in seconds at the levels `after`."""


class SlowestAtLimit(Described):
    """The slowest layout and the volume whose limit surely explains most of its extra time. The extra time is relative
    to the fastest layout."""

    cell_id: str
    """The slowest cell."""
    limit: Limit
    """The volume that was at its limit in the slowest cell."""


class Next(Described):
    """The next step to make the result more certain."""

    step: str
    """`runs`: make the missing runs. `repetitions`: make more repetitions. `race`: give the race more rounds. Any other
    value is the kind of caution whose cause should be removed."""
    repetitions: int | None = None
    """The total number of repetitions to make."""
    effect: float | None = None
    """The difference, as a share of the time, that this number of repetitions finds in 4 of 5 experiments."""


"""Facts because of which an experiment can't answer its question or a part of it. Cautions add further facts."""


class Answer(Frozen):
    """Everything that is needed for a decision."""

    provenance: Provenances | None
    """The provenance that the findings state."""
    runs: int
    """The number of usable runs, without burn-in runs."""
    runs_planned: int
    """The number of runs that the spec asks for, without burn-in runs."""
    layouts: int
    """The number of compared layouts. A layout that ran under several loads counts once."""
    compared: Compared
    """The quantity that ratios compare, as in the findings."""
    unable: tuple[str, ...]
    """The facts because of which the runs can't answer the question or a part of it: `nothing-measured`,
    `too-few-runs`, `untested`, `not-compared` (a layout has no result), and the facts that cautions add.
    """
    choices: tuple[Choice, ...]
    """The layouts to use: one choice for each group of loads with the same best layouts. Empty while there is no
    verdict."""
    gains: tuple[Gain, ...]
    """The gain from each factor, the largest first."""
    causes: tuple[Cause, ...]
    """The waits that changed with factors, and the volumes that were at their limits."""
    slowest_at_limit: SlowestAtLimit | None = None
    """The slowest layout, if a volume's limit explains why it is slow."""
    cautions: tuple[str, ...]
    """The kinds of cautions that are not in `unable`, the most serious first."""
    indifferent: float | None = None
    """The margin that the spec sets, as a share."""
    next: Next | None = None
    """The next step to make the result more certain; None if no step would help."""
    no_verdict: str | None = None
    """The fact in `unable` because of which there is no verdict on storage."""


# --- the pattern that describes a set of layouts ----------------------------------------------------------------------

STARTS_MOST = 8
"""A pattern is grown from each of at most this many tied layouts."""
EXCEPTED_FROM = 8
"""A pattern has an exception only if it contains at least this many tied layouts."""

Levels = Mapping[str, JsonValue]
_Box = list[set[int]]


def pattern_of(
    factors: Sequence[Factor], layouts: Sequence[Levels], tied: Sequence[int]
) -> tuple[Pattern, list[int], list[int]]:
    """The largest pattern found that contains the first of `tied`, the places of its tied layouts, and the place of its
    exception. `tied` has the places of the tied layouts in `layouts`.

    A pattern is grown from one layout. Each step adds the level that adds the most tied layouts and no others. Then
    patterns with one other layout are tried. Combinations that were not tried are ignored.
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
    step = max(1, (len(tied) + STARTS_MOST - 1) // STARTS_MOST)

    def worth(box: _Box) -> tuple[bool, bool, int, int]:
        inside = _inside(places, box)
        held, others = int((inside & good).sum()), int((inside & ~good).sum())
        return not others or held >= EXCEPTED_FROM, bool(inside[tied[0]]), held, -others

    box = max((_grown(places, good, start, most) for most, start in product((0, 1), list(tied)[::step])), key=worth)
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
    inside = _inside(places, box)
    return pattern, np.flatnonzero(inside & good).tolist(), np.flatnonzero(inside & ~good).tolist()


def _place(known: Sequence[JsonValue], value: JsonValue) -> int:
    """The place of a level in the list of known levels. Levels are compared by their texts, because 1 equals true in
    Python but is another level."""
    return next(place for place, one in enumerate(known) if repr(one) == repr(value))


def _inside(places: np.ndarray, box: _Box) -> np.ndarray:
    inside = np.ones(len(places), dtype=bool)
    for column, levels in zip(places.T, box, strict=True):
        inside &= np.isin(column, list(levels))
    return inside


def _grown(places: np.ndarray, good: np.ndarray, start: int, most: int) -> _Box:
    """The pattern grown from `start`. It contains at most `most` layouts that are not good."""
    box: _Box = [{int(place)} for place in places[start]]
    while True:
        now = int((_inside(places, box) & good).sum())
        found: tuple[int, int, int, int] | None = None
        for factor, column in enumerate(places.T):
            for level in sorted(set(column.tolist()) - box[factor]):
                wider = [inside | {level} if at == factor else inside for at, inside in enumerate(box)]
                inside = _inside(places, wider)
                added, others = int((inside & good).sum()) - now, int((inside & ~good).sum())
                if added and others <= most and (found is None or (added, -others) > found[:2]):
                    found = added, -others, factor, level
        if found is None:
            return box
        box[found[2]].add(found[3])
