"""A race for a good layout: each round repeats half as many layouts as the one before. Pure.

After each round from the second on, the one in front is compared with all others. The bound says how much slower than
the truly fastest it may be. The race ends once the bound is within the margin, or after the spec's last round. Half as many
layouts as before run again: the one in front, and those that may still be faster than it by most. So a layout that
paused comes back if its one run was no better known than that.

A layout may have one run, and no scatter of its own. So all layouts lend it theirs (`stats.Fit.variance`), and the
difference of two layouts counts all of their runs, not only those of common rounds. The bound holds if the fastest layout
is not several times as noisy as the others: docs/records/monte-carlo.md has the figures. It holds for any layout that is
picked by looking (Hsu 1984), and at 95 % over all looks, as the error is divided among them (`racing.error_of`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from storagelab.findings import racing, stats
from storagelab.findings.differences import Difference
from storagelab.findings.racing import Standing
from storagelab.findings.samples import FURTHEST, KNOWN
from storagelab.findings.stats import Fit, Matrix
from storagelab.findings.studentized import maximum_point

FIRST_LOOK = 2
"""The first round after which some layouts have two runs, so that scatter can be seen."""


@dataclass(frozen=True)
class Halving(Standing):
    """A race for a good layout after some of its rounds. `again` = the cells that run in the next round; `bound` = the
    time of the first over that of the truly fastest is at most this, if that is known.
    """

    again: tuple[int, ...] = ()
    bound: float | None = None

    @property
    def running(self) -> tuple[int, ...]:
        return self.again if self.rounds else self.racing

    @property
    def at_most_slower(self) -> float | None:
        return self.bound if self.bound is not None and self.bound <= KNOWN else None


def size_of(number: int, layouts: int, repetitions: int) -> int:
    """The layouts that may run in a round: all in the first, then half as many each time, at least two. Rounds beyond the
    spec's, which a budget allows, begin anew.
    """
    times = (number - 1) % repetitions
    return max(2, -(-layouts // (1 << times)))


def runs_of(layouts: int, repetitions: int) -> tuple[int, int]:
    """The fewest and the most runs of a race of so many layouts: it ends after the first look, or after the last round."""
    sizes = [layouts, *(min(layouts, size_of(number, layouts, repetitions)) for number in range(2, repetitions + 1))]
    return (sum(sizes[:FIRST_LOOK]), sum(sizes)) if layouts > 1 else (repetitions, repetitions)


def look(standing: Halving, fit: Fit, families: int, within: float, repetitions: int) -> Halving:
    """The standing after one more round; as `racing.look`."""
    rounds, ran = standing.rounds + 1, standing.running
    timed = [cell for cell in standing.racing if fit.runs[cell]]
    silent = tuple(cell for cell in standing.racing if not fit.runs[cell])
    order = sorted(timed, key=lambda cell: float(fit.cells[cell]))
    now = replace(standing, rounds=rounds, racing=tuple(order), silent=(*standing.silent, *silent), again=())
    if len(order) < 2:
        return now
    size = size_of(rounds + 1, len(standing.everybody), repetitions)
    if rounds < FIRST_LOOK:
        return replace(now, again=tuple(order[:size]))
    first = next((cell for cell in order if cell in ran), order[0])
    bounds = _bounds(fit, first, now.everybody, families, racing.error_of(rounds, FIRST_LOOK))
    others = [cell for cell in order if cell != first]
    open_ = [cell for cell in others if not bounds[cell] <= math.log1p(within)]
    again = sorted(open_, key=lambda cell: -float(np.nan_to_num(bounds[cell], nan=math.inf)))[: size - 1]
    most = max(float(bounds[cell]) for cell in others)
    return replace(
        now,
        racing=(first, *others),
        differences=_differences(fit, first, now.everybody, families, rounds),
        again=(first, *again) if again else (),
        bound=math.exp(max(0.0, most)) if most <= FURTHEST else None,
    )


def _differences(fit: Fit, first: int, cells: tuple[int, ...], families: int, rounds: int) -> dict[int, Difference]:
    """Of each cell that shares rounds with the first, as verdicts judge it."""
    error = racing.error_of(rounds, FIRST_LOOK)
    compared = stats.compare_with_best(fit, first, cells, families, error, racing.CAUTION)
    return {cell: one for cell, one in enumerate(compared) if one is not None}


def _bounds(fit: Fit, first: int, cells: tuple[int, ...], families: int, error: float) -> Matrix:
    """How much slower than each cell the first may be at most, on the log scale; infinite if that is not known."""
    if fit.df < 1:
        return np.full(len(fit.cells), np.inf)
    there = [cell for cell in cells if fit.runs[cell]]
    spread = _of_rounds(fit.log_s[there], there.index(first))
    scatter = float(np.nansum(fit.residuals**2)) / fit.df
    variance = np.where(np.isnan(fit.variance), scatter, fit.variance)[there]
    runs, at = fit.runs[there], there.index(first)
    errors = np.sqrt(variance / runs + variance[at] / runs[at] + scatter * spread)
    df = np.minimum(fit.prior_df + np.minimum(runs, runs[at]) - 1, fit.df)
    alpha = error / racing.SHARE / families
    points = np.array([maximum_point(len(there) - 1, round(max(float(one), 1.0), 1), alpha) for one in df])
    found = np.full(len(fit.cells), -np.inf)
    found[there] = np.maximum(points * errors, fit.tick) - (fit.cells[there] - fit.cells[first])
    found[first] = 0.0
    return found


def _of_rounds(log_s: Matrix, first: int) -> Matrix:
    """What the rounds add to the variance of each cell's difference to the first, in variances of one run: cells that ran in
    other rounds are compared by what is known of these.
    """
    there = (~np.isnan(log_s)).astype(float)
    shares = there / there.sum(axis=1, keepdims=True)
    of_rounds = np.linalg.pinv(np.diag(there.sum(axis=0)) - there.T @ shares)
    apart = shares - shares[first]
    return np.asarray(np.einsum("ij,jk,ik->i", apart, of_rounds, apart))
