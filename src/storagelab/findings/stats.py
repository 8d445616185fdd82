"""Samples -> estimates for times measured in complete rounds. Pure.

`log_s` is always a matrix of natural logarithms of elapsed seconds (or of seconds per row), one row per cell and one
column per round (repetition), NaN where a run is missing or left out. Cells of a round ran close together in time, so
pairs within a round share its effect, and their ratios are free of it.

The test behind `compare_with_best` and `effects` asks two things at once, so that neither a quiet nor a wild cell
misleads:

1. The difference exceeds a simultaneous critical value (`studentized`) times a standard error (`moderated`): all cells
   share one variance where none is surely noisier; otherwise each cell's is shrunk towards the typical cell's.
   The critical value of comparisons with the best is Tukey's studentized range over all cells, as
   the best cell is picked by looking at the data.
2. The difference passes Welch's t test, which uses only the variances of the cells it compares (Welch 1947,
   Biometrika 34), at a level that falls slowly with the number of cells (`studentized.caution`). So one noisy cell
   looks neither slow nor quiet.

A cell with fewer than two rounds in common with the best is not judged, nor are two cells of different blocks compared:
no pair of runs shows how the machine changed from one block to the next. How often experiments without any difference
name a loser anyway, and how often a real difference is found: docs/records/monte-carlo.md, simulated by
`make bench ARGS="--only statistics"`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storagelab.findings.between_blocks import BetweenBlocks
from storagelab.findings.differences import Difference, Error, between, by_ticks, judged
from storagelab.findings.model import Estimate
from storagelab.findings.moderated import moderated, skewness_of, sure_skewness_of
from storagelab.findings.samples import ALPHA, KNOWN
from storagelab.findings.strata import Strata
from storagelab.findings.studentized import Family, bonferroni, cautious, maximum_point, t_point, tukey

Matrix = NDArray[np.float64]
Pairs = Sequence[tuple[int, int]]

VARIANCE_FLOOR = 1e-14
"""The least variance of log seconds: clocks and schedulers don't repeat better than a part in ten million."""


# ---------------------------------------------------------------------------------------------------------------------
# Cells and rounds together
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """log_s = cell + round + residual by least squares, and how noisy each cell is.

    `cells` is NaN for a cell without runs. Variances are of one run: `own` from the cell's runs alone, NaN where they
    say nothing; `variance` moderated towards `typical`, which counts `prior_df` degrees of freedom more;
    `of_rounds` that of the rounds of the cell's block, the residuals' share in it included. `peers` = measured
    cells of its block. `df` = degrees of freedom of all residuals; below 1 no test is possible. `alike`: no cell is
    surely noisier than the others, so `variance` is one for all.

    Odd runs count in `log_s` and in all that is said of their cells. `calm` is the fit without them, from which rounds
    and all other cells are known; None if there are none. No difference is known better than by `tick`, or matters up
    to `margin`, both on the log scale. `strata` = how the columns differ in what factors do, if they are hosts.
    `between` = how cells of different blocks are compared, if they can be.
    """

    log_s: Matrix
    cells: Matrix
    residuals: Matrix
    own: Matrix
    variance: Matrix
    of_rounds: Matrix
    peers: Matrix
    typical: float
    prior_df: float
    df: int
    alike: bool
    calm: Fit | None = None
    tick: float = 0.0
    margin: float = 0.0
    strata: Strata | None = None
    between: BetweenBlocks | None = None

    @cached_property
    def runs(self) -> Matrix:
        """Runs of each cell."""
        return np.asarray((~np.isnan(self.log_s)).sum(axis=1), dtype=float)

    @property
    def caution(self) -> float:
        """`Family.cautious` of comparisons with the best."""
        least = self.runs[self.runs > 1].min(initial=math.inf)
        if self.between is not None:
            return cautious(min(least, self.between.least), alike=self.between.alike)
        return cautious(least, alike=self.alike)

    @cached_property
    def skewness(self) -> float:
        """The skewness of all residuals; 0 where chance or a single cell may explain it."""
        return sure_skewness_of(self.residuals[~np.isnan(self.cells)], VARIANCE_FLOOR)

    @cached_property
    def skewness_feared(self) -> float:
        """Half the skewness to the right that the runs show, be it chance or not: what is feared of a picked cell.

        Of two cells, the residuals mirror each other and show none, so each one's runs and rounds are used.
        """
        measured = ~np.isnan(self.cells)
        left = self.log_s - self.cells[:, None] if measured.sum() == 2 else self.residuals
        return max(0.0, skewness_of(left[measured], VARIANCE_FLOOR) / 2) if measured.sum() > 1 else 0.0

    @cached_property
    def bounds(self) -> dict[tuple[tuple[int, ...], tuple[int, ...], int], dict[int, float]]:
        """What `at_most_slower` has found so far: a report asks for it in both of its steps."""
        return {}

    def only(self, cells: Sequence[int]) -> Fit:
        """The same fit with the rows of these cells alone: what is computed of few among a thousand takes less time."""
        rows = list(cells)
        return replace(
            self, log_s=self.log_s[rows], cells=self.cells[rows], residuals=self.residuals[rows], own=self.own[rows],
            variance=self.variance[rows], of_rounds=self.of_rounds[rows], peers=self.peers[rows],
            calm=None if self.calm is None else self.calm.only(rows),
            strata=None if self.strata is None else self.strata.only(rows),
            between=None if self.between is None else self.between.only(rows),
        )  # fmt: skip


def fit(log_s: Matrix, blocks: Sequence[int] = ()) -> Fit:
    """Cells and rounds of `log_s`, fitted together so that a missing run biases no cell.

    `blocks` = the block of each cell; none = one for all. Each block has its own rounds, as the n-th rounds of two
    blocks were far apart in time.
    """
    of_cell = np.asarray(blocks or [0] * len(log_s))
    cells, of_rounds, peers = np.full(len(log_s), np.nan), np.full(len(log_s), np.nan), np.zeros(len(log_s))
    residuals = np.full(log_s.shape, np.nan)
    df = 0
    for block in np.unique(of_cell):
        rows = np.flatnonzero(of_cell == block)
        cells[rows], rounds, residuals[rows] = _cells_and_rounds(log_s[rows])
        measured, made = int((~np.isnan(cells[rows])).sum()), int((~np.isnan(rounds)).sum())
        peers[rows] = measured
        if made > 1:
            of_rounds[rows] = np.nanvar(rounds, ddof=1)
        df += int((~np.isnan(log_s[rows])).sum()) - measured - made + 1 if measured else 0
    own = _own_variances(residuals, peers)
    noise = moderated(own, (~np.isnan(residuals)).sum(axis=1) - 1.0)
    return Fit(
        log_s, cells, residuals, own, noise.variance, of_rounds, peers, noise.typical, noise.prior_df, df, noise.alike
    )


def residuals_of(values: Matrix, blocks: Sequence[int]) -> Matrix:
    """The residuals of `fit`, of any values of runs, without all else that it finds."""
    of_cell, found = np.asarray(blocks), np.full(values.shape, np.nan)
    for block in np.unique(of_cell):
        found[of_cell == block] = _cells_and_rounds(values[of_cell == block])[2]
    return found


def collapse(fitted: Fit, groups: Sequence[Sequence[int]], blocks: Sequence[int] = ()) -> Fit:
    """A fit whose rows are averages over `groups` of cells (geometric means of times), without the effects of rounds.

    Its noise is that of the averages, so that a disturbance of all cells of a group at once is not taken for chance.
    """
    log_s = np.array([fitted.cells[group].mean() + _average(fitted.residuals[group]) for group in groups])
    whole = (
        fit(log_s, blocks) if fitted.calm is None else counting(collapse(fitted.calm, groups, blocks), log_s, blocks)
    )
    return replace(whole, tick=fitted.tick, margin=fitted.margin)


def counting(calm: Fit, log_s: Matrix, blocks: Sequence[int] = ()) -> Fit:
    """The fit in which the odd runs count that `log_s` has and `calm` has not, or has as other times.

    They count in their own cells alone: what other cells and rounds are like is known from `calm`.
    """
    rows = np.flatnonzero(((log_s != calm.log_s) & ~(np.isnan(log_s) & np.isnan(calm.log_s))).any(axis=1))
    if not len(rows):
        return calm
    of_cell = np.asarray(blocks or [0] * len(log_s))
    cells, residuals, variance = calm.cells.copy(), calm.residuals.copy(), calm.variance.copy()
    for row in rows:
        rounds = _average((calm.log_s - calm.cells[:, None] - calm.residuals)[of_cell == of_cell[row]])
        adjusted = log_s[row] - rounds
        cells[row] = np.nanmean(adjusted)
        residuals[row] = adjusted - cells[row]
    own = np.where(np.isin(np.arange(len(cells)), rows), _own_variances(residuals, calm.peers), calm.own)
    variance[rows] = np.fmax(calm.variance[rows], own[rows])
    return replace(calm, log_s=log_s, cells=cells, residuals=residuals, own=own, variance=variance, calm=calm)


def _cells_and_rounds(log_s: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Cells and rounds of one block, rounds centred on zero, and the residuals."""
    there = ~np.isnan(log_s)
    filled = np.where(there, log_s, 0.0)
    runs_of_cell, runs_of_round = there.sum(axis=1), there.sum(axis=0)
    cells, rounds = np.zeros(log_s.shape[0]), np.zeros(log_s.shape[1])
    # Alternating least squares: exact after one turn when no run is missing.
    for _ in range(500):
        before = cells
        cells = (filled - there * rounds).sum(axis=1) / np.maximum(runs_of_cell, 1)
        rounds = (filled - there * cells[:, None]).sum(axis=0) / np.maximum(runs_of_round, 1)
        rounds -= rounds[runs_of_round > 0].mean() if there.any() else 0.0
        if np.abs(cells - before).max(initial=0.0) < 1e-12:
            break
    residuals = np.where(there, log_s - cells[:, None] - rounds, np.nan)
    return np.where(runs_of_cell > 0, cells, np.nan), np.where(runs_of_round > 0, rounds, np.nan), residuals


def _own_variances(residuals: Matrix, peers: Matrix) -> Matrix:
    """Each cell's variance from its own residuals; NaN for fewer than two runs, or if no other cell shares its rounds.

    Removing the rounds also removed one cell's worth of scatter.
    """
    df = (~np.isnan(residuals)).sum(axis=1) - 1
    known = (df > 0) & (peers > 1)
    kept = 1 - 1 / np.maximum(peers, 2)
    sums = np.nansum(residuals**2, axis=1) / np.maximum(df, 1) / kept
    return np.where(known, np.maximum(sums, VARIANCE_FLOOR), np.nan)


# ---------------------------------------------------------------------------------------------------------------------
# Verdicts
# ---------------------------------------------------------------------------------------------------------------------


def fastest(fitted: Fit) -> int | None:
    """Index of the cell with the smallest round-adjusted time; a cell with a single run only if no other has more."""
    runs = fitted.runs
    eligible = runs >= min(2, runs.max(initial=0))
    return int(np.argmin(np.where(eligible & (runs > 0), fitted.cells, np.inf))) if runs.any() else None


def compare_with_best(
    fitted: Fit,
    best: int,
    among: Collection[int] | None = None,
    families: int = 1,
    alpha: float = ALPHA,
    caution: float | None = None,
) -> list[Difference | None]:
    """Each cell's time over the best cell's, None for the best itself and for cells without runs.

    Intervals hold together at 1 - `alpha`, over all cells and over the choice of the best (Tukey). That also covers a
    best cell for each block: cells are never further apart within blocks than over all of them. If cells are compared
    in several `families`, each with its own best, they hold together over all of these (Bonferroni); `among` are then
    the cells of this family, and all others get None. `caution` is `Family.cautious`, if not the usual one.
    """
    places = list(range(len(fitted.cells))) if among is None else sorted({*among, best})
    part = fitted.only(places)
    counted = places if among is None or best in among else [cell for cell in places if cell != best]
    family = tukey(
        int((~np.isnan(fitted.cells[counted])).sum()), families, part.caution if caution is None else caution
    )

    def judge(fit: Fit, shift: int) -> list[Difference | None]:
        with_best = _with_best(fit, places.index(best) + shift)
        return [with_best.difference(row, family, alpha) for row in range(len(places))]

    found: list[Difference | None] = [None] * len(fitted.cells)
    for cell, difference in zip(places, _at_worst(part, judge), strict=True):
        found[cell] = difference if cell != best else None
    return found


def _at_worst(fitted: Fit, judge: Callable[[Fit, int], list[Difference | None]]) -> list[Difference | None]:
    """What `judge` finds of rows against others `shift` further down; where odd runs count, at the worst for either.

    An odd run only adds time. So one row takes at least the time of its calm runs, and at most that of all its runs: a
    row is slower than another if its calm runs take longer than all runs of that one.
    """
    every = judge(fitted, 0)
    if fitted.calm is not None:
        low, high = (judge(_above(*pair), len(fitted.cells)) for pair in ((fitted.calm, fitted), (fitted, fitted.calm)))
        every = [between(*three) for three in zip(every, low, high, strict=True)]
    return [None if one is None else by_ticks(one, fitted.tick, fitted.margin) for one in every]


def _above(rows: Fit, others: Fit) -> Fit:
    """The rows of one fit, with those of another below."""
    names = ("log_s", "cells", "residuals", "own", "variance", "of_rounds", "peers")
    both: dict[str, Any] = {name: np.concatenate([getattr(rows, name), getattr(others, name)]) for name in names}
    strata = rows.strata.above(others.strata) if rows.strata and others.strata else None
    apart = rows.between.above(others.between) if rows.between and others.between else None
    return replace(rows, **both, calm=None, strata=strata, between=apart)


def far_from_best(fitted: Fit, best: int, alpha: float, noisiest: float) -> list[Difference | None]:
    """As `compare_with_best`, where cells have too few runs to show their own scatter: any may be `noisiest` times as
    noisy as all are on average.

    That asks for a multiple of what the choice of the best asks for, so nothing is added for it.
    """
    with_best = _with_best(fitted, best)
    pooled = float(np.nanmean(fitted.own)) if not np.isnan(fitted.own).all() else math.nan
    return [
        None if cell == best or not with_best.common[cell]
        else with_best.far_apart(cell, (noisiest**2 + 1) * pooled, float(fitted.df), alpha)
        for cell in range(len(fitted.cells))
    ]  # fmt: skip


def at_most_slower(fitted: Fit, cells: Collection[int], among: Collection[int], families: int = 1) -> dict[int, float]:
    """For each of `cells`, an upper bound for the ratio of its time to that of the truly fastest of `among`.

    The bounds hold together at 95 %, however the cells were picked: Hsu's multiple comparisons with the best (1984,
    Annals of Statistics 12). A cell that can't be compared with all of `among`, or may take more than `KNOWN` times as
    long, has none.
    """
    asked = tuple(cells), tuple(sorted(among)), families
    if asked not in fitted.bounds:
        places = sorted({*among, *cells})
        part, row = fitted.only(places), {cell: row for row, cell in enumerate(places)}
        rows = np.array([row[cell] for cell in asked[1]], dtype=int)
        bounds = {cell: _at_most_slower(part, row[cell], rows, families) for cell in cells}
        fitted.bounds[asked] = {cell: bound for cell, bound in bounds.items() if bound is not None}
    return fitted.bounds[asked]


def _at_most_slower(fitted: Fit, cell: int, among: NDArray[np.int_], families: int) -> float | None:
    calm = fitted.calm
    against = _with_best(fitted, cell) if calm is None else _with_best(_above(calm, fitted), cell + len(fitted.cells))
    others = among[among != cell]
    if not len(others):
        return 1.0
    if not against.testable[others].all():
        return None
    alpha = ALPHA / families
    caution = tukey(len(among), families, fitted.caution).caution
    # One-sided, as the maximum is: t_point takes both sides.
    moderated = _points(against.moderated_df[others], lambda df: maximum_point(len(others), df, alpha))
    alone = _points(against.own_df[others], lambda df: t_point(df, 2 * alpha / caution))
    half = np.maximum(moderated * against.moderated_errors[others], alone * against.own_errors[others])
    half = np.maximum(half, fitted.tick)
    log_bound = max(0.0, float((half - against.log_ratios[others]).max()))
    return math.exp(log_bound) if log_bound <= math.log(KNOWN) else None


def _points(df: Matrix, point: Callable[[float], float]) -> Matrix:
    """`point` of each number of degrees of freedom, rounded so that few are computed; usually all are the same."""
    if (df == df[0]).all():
        return np.full(len(df), point(round(float(df[0]), 1)))
    rounded, place = np.unique(np.round(df, 1), return_inverse=True)
    return np.array([point(float(one)) for one in rounded])[place]


@dataclass(frozen=True)
class _WithBest:
    """Every cell against the best: mean log ratio over the `common` rounds, and what it may be off by."""

    log_ratios: Matrix
    common: Matrix
    testable: Matrix
    moderated_errors: Matrix
    moderated_df: Matrix
    own_errors: Matrix
    own_df: Matrix

    def moderated(self, cell: int) -> Error:
        return Error(float(self.moderated_errors[cell]), float(self.moderated_df[cell]))

    def own(self, cell: int) -> Error:
        return Error(float(self.own_errors[cell]), float(self.own_df[cell]))

    def difference(self, cell: int, family: Family, alpha: float) -> Difference | None:
        common = int(self.common[cell])
        if not common:
            return None
        value = float(self.log_ratios[cell])
        if not self.testable[cell]:
            return Difference(Estimate(value=math.exp(value)), None, common)
        return judged(value, common, [self.moderated(cell)], self.own(cell), family, alpha)

    def far_apart(self, cell: int, variance: float, df: float, alpha: float) -> Difference:
        """Against a `variance` of differences that is not the cell's own, unless its own is larger."""
        value, common = float(self.log_ratios[cell]), int(self.common[cell])
        if not self.testable[cell]:
            return Difference(Estimate(value=math.exp(value)), None, common)
        error = Error(max(math.sqrt(variance / common), float(self.own_errors[cell])), df)
        return judged(value, common, [error], error, bonferroni(1), alpha)


def _with_best(fitted: Fit, best: int) -> _WithBest:
    """Computes all at once, as a report may have a thousand cells."""
    differences = fitted.log_s - fitted.log_s[best]
    there = ~np.isnan(differences)
    common = there.sum(axis=1).astype(float)
    rounds = np.maximum(common, 1)
    own = np.where(np.isnan(fitted.own), fitted.typical, fitted.own)
    df, correlation = np.maximum(fitted.runs - 1, 1), 1 / np.maximum(fitted.peers - 1, 1)
    variance = own + own[best]
    # As in `_welch`, for a pair.
    spread = own**2 / df + own[best] ** 2 / df[best] + 2 * correlation**2 * own * own[best] / np.sqrt(df * df[best])
    moderated_errors = np.sqrt((fitted.variance + fitted.variance[best]) / rounds)
    moderated_df = np.minimum(fitted.prior_df + rounds - 1, fitted.df)
    if fitted.strata is not None:
        moderated_errors, moderated_df = fitted.strata.errors(best)
    found = _WithBest(
        log_ratios=np.where(there, differences, 0.0).sum(axis=1) / rounds,
        common=common,
        testable=(common >= 2) & (fitted.df >= 1),
        moderated_errors=moderated_errors,
        moderated_df=moderated_df,
        own_errors=np.sqrt(variance / rounds),
        own_df=variance**2 / spread,
    )
    if fitted.between is None:
        return found
    apart, of_blocks = fitted.between.against(best)
    return replace(found, **{name: np.where(apart, values, getattr(found, name)) for name, values in of_blocks.items()})


def effects(fitted: Fit, levels: Sequence[Pairs], comparisons: int, alpha: float = ALPHA) -> list[Difference | None]:
    """The effect of each level of a factor against the baseline: the geometric mean of all within-round ratios.

    `levels` holds, for each level, pairs of (cell of that level, cell of the baseline) that agree in everything else.
    Each pair's log ratios are averaged over its rounds, then over pairs. If there are several pairs, levels are also
    compared as a whole, with the noise of their averages in each round, so that a disturbance of all cells of a level
    at once counts as noise too. Bonferroni over `comparisons`. None for a level without a pair that shares a round.
    """
    family = bonferroni(comparisons)

    def judge(of: Fit, shift: int) -> list[Difference | None]:
        shifted = [[(one, other + shift) for one, other in pairs] for pairs in levels]
        whole = None
        if any(len(pairs) > 1 for pairs in shifted):
            baseline = sorted({other for pairs in shifted for _, other in pairs})
            rows = [baseline, *([one for one, _ in pairs] for pairs in shifted)]
            whole = fit(np.array([_average(of.residuals[cells]) for cells in rows]))
        return [
            _of_a_level(of, pairs, whole, number, family, alpha) if pairs else None
            for number, pairs in enumerate(shifted, start=1)
        ]

    return _at_worst(fitted, judge)


def _average(rows: Matrix) -> Matrix:
    """The mean over `rows` in each round, NaN in rounds where all are missing."""
    there = ~np.isnan(rows)
    count = there.sum(axis=0)
    return np.where(count > 0, np.nansum(rows, axis=0) / np.maximum(count, 1), np.nan)


def _of_a_level(
    fitted: Fit, pairs: Pairs, whole: Fit | None, number: int, family: Family, alpha: float
) -> Difference | None:
    """`whole` = the fit of the levels as a whole, the baseline first and this one at `number`."""
    if fitted.between is not None and fitted.between.apart(pairs):
        return fitted.between.of_a_level(pairs, family, alpha)
    log_ratios = np.array([fitted.log_s[one] - fitted.log_s[other] for one, other in pairs])
    common = (~np.isnan(log_ratios)).sum(axis=1)
    kept = [pair for pair, rounds in zip(pairs, common, strict=True) if rounds]
    if not kept:
        return None
    value, total = float(np.nanmean(log_ratios[common > 0], axis=1).mean()), int(common.sum())
    rounds = int((~np.isnan(log_ratios)).any(axis=0).sum())
    if rounds < 2 or fitted.df < 1 or (whole is not None and whole.df < 1):
        return Difference(Estimate(value=math.exp(value)), None, total)
    cells = [cell for pair in kept for cell in pair]
    of_pair = [count for count in common if count for _ in range(2)]
    variances = sum(float(fitted.variance[cell]) / count for cell, count in zip(cells, of_pair, strict=True))
    errors = [Error(math.sqrt(variances) / len(kept), min(fitted.prior_df + rounds - 1, float(fitted.df)))]
    if whole is not None:
        of_levels = float(whole.variance[number] + whole.variance[0]) / rounds
        errors.append(Error(math.sqrt(of_levels), min(whole.prior_df + rounds - 1, float(whole.df))))
    own = _welch(fitted, cells, of_pair, len(kept))
    return judged(value, total, errors, own, family, alpha)


def _welch(fitted: Fit, cells: Sequence[int], counts: Sequence[int], pairs: int) -> Error:
    """The standard error of a mean over `pairs` of differences, from the own variances of their `cells`, each over so
    many rounds as `counts` says.

    Degrees of freedom by Satterthwaite; as rounds were taken out, the residuals of two of n cells correlate by
    -1/(n - 1).
    """
    own = np.where(np.isnan(fitted.own[list(cells)]), fitted.typical, fitted.own[list(cells)])
    parts = own / np.asarray(counts) / pairs**2
    df = np.maximum(fitted.runs[list(cells)] - 1.0, 1.0)
    correlation = 1 / np.maximum(fitted.peers[list(cells)] - 1, 1) ** 2
    scaled = parts / np.sqrt(df)
    spread = float((scaled**2 * (1 - correlation)).sum() + (scaled * np.sqrt(correlation)).sum() ** 2)
    return Error(math.sqrt(float(parts.sum())), float(parts.sum()) ** 2 / spread)
