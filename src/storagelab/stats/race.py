"""The rule for races: after each complete round, the cells that are surely slower leave. Pure.

Every cell still in the race runs once in each round. From the third round on, the race is evaluated after each round (a
look). Each cell is compared with the cell in front by the test of the verdicts (`contrast.compare_with_best`), with the
number of comparisons at the start, because the cell in front was selected from the data. A look may err with a small
probability (`error_of`). Most of the error belongs to the last planned round (O'Brien and Fleming 1979, Biometrics 35).
In a race without looks, this round has all of the error. These probabilities add up to 4 % over all possible rounds,
and 1 % is left for the other statements of a report. So all statements of all looks hold together at 95 %, whenever the
race ends: the cells that left, and the bounds by which the other cells may be slower than the fastest.
docs/records/monte-carlo.md says how often the fastest is lost, and how many runs races take.

A race is a function of the times of its complete rounds. An interrupted race makes the same decisions when it
continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from storagelab.stats.contrast import KNOWN, Difference, Family, compare_with_best, ratios, with_best
from storagelab.stats.fit import Fit
from storagelab.stats.intervals import ALPHA

LOOK_FROM = 3
"""Two runs of a cell hardly show its scatter, and both may be slow only because they were the first runs."""
SHARE = 0.8
"""The part of the report's error of 5 % for all looks together, the same as for the verdict of any other experiment."""
_LATE = 0.1
"""The share of this error for all rounds after the planned ones together; a budget may add such rounds."""
_RISE = 4.5
"""With five rounds planned, the looks after rounds 3, 4 and 5 have 10, 27 and 63 % of the rest of the error."""


def error_of(look: int, planned: int, before: int) -> float:
    """The error probability of the look after this round, with `planned` rounds, if the previous look was after round
    `before`.
    """
    return ALPHA * SHARE * (_spent(look, planned) - _spent(before, planned))


def _spent(rounds: int, planned: int) -> float:
    """The share of the error that all looks up to this round have."""
    planned = max(planned, LOOK_FROM)
    if rounds < LOOK_FROM:
        return 0.0
    return float((1 - _LATE) * min(1.0, rounds / planned) ** _RISE) + _LATE * (1 - planned / max(rounds, planned))


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

    `racing` has the cells still in the race, the cell in front first, and `differences` has the difference between each
    of these and the first, at the last look. `silent` cells left because none of their runs succeeded. `cleared` has,
    for each cell that was ever in front, the other cells that are surely not faster than this cell by more than the
    race's margin.
    """

    racing: tuple[int, ...]
    rounds: int = 0
    left: tuple[Left, ...] = ()
    silent: tuple[int, ...] = ()
    differences: Mapping[int, Difference] = field(default_factory=dict)
    cleared: Mapping[int, frozenset[int]] = field(default_factory=dict)
    looked: tuple[Fit, Family, float] | None = field(default=None, compare=False, repr=False)

    @property
    def running(self) -> tuple[int, ...]:
        """The cells that run in the next round: the cell in front, and all cells in the race that may be faster than it
        by more than the margin. Empty if the race is decided.
        """
        rest = [cell for cell in self.racing[1:] if cell not in self.cleared.get(self.racing[0], ())]
        return (self.racing[0], *rest) if rest else ()

    def at_most_slower(self, cell: int) -> float | None:
        """The upper bound of the ratio of a remaining cell's time to that of the truly fastest cell, if the last look
        gives a bound. The bound is valid because the intervals of all ratios to the first cell hold together.
        """
        others = [one for one in self.racing if one != cell]
        if not others:
            return 1.0
        if self.looked is None:
            return None
        fit, family, error = self.looked
        lows = [one.ratio.low for one in ratios(fit, others, cell, family, error).values() if one.ratio.low]
        most = max([1.0, *(1 / low for low in lows)])
        return most if len(lows) == len(others) and most <= KNOWN else None


def look(standing: Standing, fit: Fit, rounds: int, planned: int, families: int = 1, within: float = 0.0) -> Standing:
    """The standing after so many of the `planned` rounds. `fit` is the fit of all cells; `families` counts the races
    that share the error.
    """
    if rounds < LOOK_FROM:
        return replace(standing, rounds=rounds)
    ran, silent = standing.running, [cell for cell in standing.racing if not fit.runs[cell]]
    racing = sorted((cell for cell in standing.racing if cell not in silent), key=lambda cell: float(fit.cells[cell]))
    now = replace(standing, rounds=rounds, racing=tuple(racing), silent=(*standing.silent, *silent))
    if not racing:
        return now
    first = next((cell for cell in racing if cell in ran), racing[0])
    error = error_of(rounds, planned, standing.rounds)
    everybody = tuple(sorted((*now.racing, *now.silent, *(one.cell for one in now.left))))
    compared = compare_with_best(fit, first, everybody, families, error)
    differences = {cell: one for cell, one in compared.items() if cell in racing}
    slower = {cell: one for cell, one in differences.items() if one.slower}
    staying = {cell: one for cell, one in differences.items() if cell not in slower}
    return replace(
        now,
        racing=(first, *(cell for cell in racing if cell not in (first, *slower))),
        left=(*now.left, *(Left(cell, rounds, first, one) for cell, one in slower.items())),
        differences=staying,
        looked=(fit, with_best(fit, int((fit.runs[list(everybody)] > 0).sum()), families), error),
        cleared={**now.cleared, first: now.cleared.get(first, frozenset()) | _not_faster(staying, within)},
    )


def _not_faster(differences: Mapping[int, Difference], within: float) -> set[int]:
    """The cells that are surely not faster than the first by more than the margin."""
    lows = {cell: one.ratio.low for cell, one in differences.items()}
    return {cell for cell, low in lows.items() if low is not None and low * (1 + within) >= 1}
