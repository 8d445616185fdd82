"""The rule for races: after each complete round, the cells that are surely slower leave the race. Pure.

Each cell in the race runs once in each round. From the third round on, the race is evaluated after each round. This
evaluation is a look. A look compares each cell with the leader, the cell with the shortest mean time, by the test for
verdicts (`contrast.compare_with_best`). The leader is selected from the data. So the test always uses the number of
cells at the start of the race.

Each look may be wrong with a small probability (`error_of`). The look after the last planned round has most of the
error probability. Without looks, it would have all of it (O'Brien and Fleming 1979, Biometrics 35). The sum of these
probabilities over all possible rounds is 4 %. The other statements of a report have the remaining 1 %. So all
statements of all looks hold together at 95 %, in whatever round the race ends. The statements are: which cells have
left, and by how much the other cells may be slower than the fastest. docs/records/monte-carlo.md says how often the
fastest cell leaves by mistake, and how many runs races need.

The decisions of a race depend only on the times of its complete rounds. So if an interrupted race continues, it makes
the same decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from storagelab.model.values import KNOWN
from storagelab.stats.contrast import Difference, Family, compare_with_best, ratios, with_best
from storagelab.stats.fit import Fit
from storagelab.stats.intervals import ALPHA

LOOK_FROM = 3
"""The first look is after this round. Two runs of a cell hardly show its scatter, and the first runs may be slow."""
SHARE = 0.8
"""The share of a report's error probability of 5 % for all looks together. The verdict of any other experiment has the
same share.
"""
_LATE = 0.1
"""The share of this error probability for all rounds after the planned rounds together. A budget may add such rounds.
"""
_RISE = 4.5
"""With this value and five planned rounds, the looks after rounds 3, 4 and 5 have 10, 27 and 63 % of the remaining
error probability.
"""


def error_of(look: int, planned: int, before: int) -> float:
    """The error probability of the look after round `look`, if the previous look was after round `before`.

    `planned` is the number of planned rounds.
    """
    return ALPHA * SHARE * (_spent(look, planned) - _spent(before, planned))


def _spent(rounds: int, planned: int) -> float:
    """The share of the error probability of all looks until this round."""
    planned = max(planned, LOOK_FROM)
    if rounds < LOOK_FROM:
        return 0.0
    return float((1 - _LATE) * min(1.0, rounds / planned) ** _RISE) + _LATE * (1 - planned / max(rounds, planned))


@dataclass(frozen=True)
class Left:
    """A cell that left the race after a round, because it was surely slower than the `leader` after this round."""

    cell: int
    after: int
    leader: int
    difference: Difference


@dataclass(frozen=True)
class Standing:
    """The state of a race after some of its rounds.

    `racing` has the cells that are still in the race. The leader is the first. `differences` has the difference between
    each of the others and the leader, at the last look. The `silent` cells have left because none of their runs
    succeeded. For each cell that has ever been the leader, `cleared` has the cells that are not faster than it by more
    than the margin of the race.
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
        """The cells that run in the next round: the leader, and all cells in the race that may be faster than the
        leader by more than the margin. The value is empty if the race is decided.
        """
        rest = [cell for cell in self.racing[1:] if cell not in self.cleared.get(self.racing[0], ())]
        return (self.racing[0], *rest) if rest else ()

    def at_most_slower(self, cell: int) -> float | None:
        """An upper bound of the time of a cell in the race, divided by the time of the truly fastest cell.

        It follows from the intervals of all ratios to the leader, which hold together. Returns None if the last look
        gives no bound.
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
    """The state of the race after `rounds` of the `planned` rounds.

    `fit` is the fit of all cells. `families` is the number of races that share the error probability.
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
    """The cells that are surely not faster than the leader by more than the margin `within`."""
    lows = {cell: one.ratio.low for cell, one in differences.items()}
    return {cell for cell, low in lows.items() if low is not None and low * (1 + within) >= 1}
