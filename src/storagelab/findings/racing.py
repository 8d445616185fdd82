"""A race: after each complete round, layouts that are surely slower leave. Pure.

Every layout still in the race runs once in each round. From the third round on, the race is evaluated after each round
(a look). Each layout is compared with the one in front by the test of the verdicts (`stats.compare_with_best`), with
the number of comparisons as if none had left, since the one in front was picked by looking. A look may err with a small
probability, `error_of`. These probabilities add up to 4 % over all rounds that there can ever be, and 1 % is left for
the other statements of a report. So it does not matter how often a race is looked at, when it ends, or who decides to
continue: all statements of all its looks hold together at 95 %. That includes who left, and by how much the layout in
front may be slower than the fastest.

A race is a function of the times of its complete rounds. An interrupted race decides the same when it continues.

Two runs of a layout say nothing about its own scatter, nor whether both were slow only because they were its first. In
races that earlier versions began, the first look is after the second round. There, any layout is allowed to be five
times as noisy as the typical one (`NOISIEST`). docs/records/monte-carlo.md, simulated by `make bench ARGS="--only
races"`, says how often the fastest is lost, and how many runs races take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from storagelab.findings import stats
from storagelab.findings.differences import Difference
from storagelab.findings.samples import ALPHA, KNOWN
from storagelab.findings.stats import Fit
from storagelab.model.plan import RACES_LOOK_FROM

EARLIER_FIRST_LOOK = 2
"""Of races that earlier versions began."""
NOISIEST = 5.0
CAUTION = 0.3
"""How fast the level of a layout's own test falls with the number of layouts: more slowly than in a verdict, whose
error is not divided among looks.
"""
SHARE = 0.8
"""The share of the report's 5 % that all looks have together, the same as for the verdict of any other experiment."""
_EARLY = {3: {3: 0.4, 4: 0.15, 5: 0.15}, 2: {2: 0.15, 3: 0.25, 4: 0.15, 5: 0.15}}
"""By the first look, the shares of the first looks, which decide most."""
_LATE = 0.3
"""The share of all later looks together."""


def error_of(look: int, first_look: int = RACES_LOOK_FROM) -> float:
    """The error probability of the look after this round. All of them add up to 4 %."""
    early = _EARLY[first_look]
    if look in early:
        return ALPHA * SHARE * early[look]
    last = max(early)
    return (
        ALPHA * SHARE * _LATE * last / (look * (look - 1))
    )  # 1 / (n (n - 1)) from n = last + 1 on adds up to 1 / last


@dataclass(frozen=True)
class Left:
    """A cell that left the race after a round, surely slower than the `leader` of that time."""

    cell: int
    after: int
    leader: int
    difference: Difference


@dataclass(frozen=True)
class Standing:
    """A race among cells after some of its rounds.

    `racing` = those still in it, the one in front first. `differences` of each of them to the first, at the last look.
    `silent` = those that left because none of their runs succeeded. `cleared` = for each cell that was ever in front,
    the cells that are known not to be faster than it by more than the race's margin.
    """

    racing: tuple[int, ...]
    rounds: int = 0
    left: tuple[Left, ...] = ()
    silent: tuple[int, ...] = ()
    differences: Mapping[int, Difference] = field(default_factory=dict)
    cleared: Mapping[int, frozenset[int]] = field(default_factory=dict)

    @property
    def everybody(self) -> tuple[int, ...]:
        return tuple(sorted((*self.racing, *self.silent, *(one.cell for one in self.left))))

    @property
    def running(self) -> tuple[int, ...]:
        """The cells that run in the next round: of those in the race, the one in front and all that may be faster
        than it by more than the margin. Empty if the race is decided.
        """
        rest = [cell for cell in self.racing[1:] if cell not in self.cleared.get(self.racing[0], ())]
        return (self.racing[0], *rest) if rest else ()

    @property
    def at_most_slower(self) -> float | None:
        """How much slower than the truly fastest the first can be at most, as a ratio, if the last look gives a
        bound.
        """
        lows = [one.ratio.low for one in self.differences.values() if one.ratio.low is not None]
        most = max([1.0, *(1 / low for low in lows)]) if len(lows) == len(self.racing) - 1 else math.inf
        return most if most <= KNOWN else None


def look(
    standing: Standing, fit: Fit, families: int = 1, within: float = 0.0, first_look: int = RACES_LOOK_FROM
) -> Standing:
    """The standing after one more round. `fit` is that of all rounds up to it; `families` counts the races that
    share the error.

    The test is `stats.compare_with_best`, at the level of this look.
    """
    rounds = standing.rounds + 1
    if rounds < first_look:
        return replace(standing, rounds=rounds)
    ran, silent = standing.running, [cell for cell in standing.racing if not fit.runs[cell]]
    racing = sorted((cell for cell in standing.racing if cell not in silent), key=lambda cell: float(fit.cells[cell]))
    now = replace(standing, rounds=rounds, racing=tuple(racing), silent=(*standing.silent, *silent))
    if not racing:
        return now
    first = next((cell for cell in racing if cell in ran), racing[0])
    differences = _differences(now, first, fit, families, first_look)
    slower = {cell: one for cell, one in differences.items() if one.distinguishable and one.ratio.value > 1}
    staying = {cell: one for cell, one in differences.items() if cell not in slower}
    return replace(
        now,
        racing=(first, *(cell for cell in racing if cell not in (first, *slower))),
        left=(*now.left, *(Left(cell, rounds, first, one) for cell, one in slower.items())),
        differences=staying,
        cleared={**now.cleared, first: now.cleared.get(first, frozenset()) | _not_faster(staying, within)},
    )


def _differences(standing: Standing, first: int, fit: Fit, families: int, first_look: int) -> dict[int, Difference]:
    """Of each cell in the race to the first."""
    error = error_of(standing.rounds, first_look)
    if standing.rounds == EARLIER_FIRST_LOOK:  # two runs of a layout are judged differently
        compared = stats.far_from_best(fit, first, error / families, NOISIEST)
    else:
        compared = stats.compare_with_best(fit, first, standing.everybody, families, error, CAUTION)
    return {cell: one for cell in standing.racing if (one := compared[cell]) is not None}


def _not_faster(differences: Mapping[int, Difference], within: float) -> set[int]:
    """The cells that are surely not faster than the first by more than the margin."""
    lows = {cell: one.ratio.low for cell, one in differences.items()}
    return {cell for cell, low in lows.items() if low is not None and low * (1 + within) >= 1}
