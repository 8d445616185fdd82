"""Samples -> estimates: what may honestly be said of times measured in complete rounds. Pure.

`log_s` is always a matrix of natural logarithms of elapsed seconds (or of seconds per row), one row per cell and one
column per round (repetition), NaN where a run is missing. Cells of a round ran near each other in time, so that the
pairs within a round share its luck, and their ratios are free of it.

The test behind `compare_with_best` and `effects` asks two things at once, so that neither a quiet nor a wild cell
misleads:

1. The difference exceeds a simultaneous critical value times the larger of two standard errors: that of the pair's own
   differences, and a moderated one. Moderation shrinks each cell's variance towards the typical cell's, the more, the
   more alike the cells are (Smyth 2004, "Linear models and empirical Bayes methods", Stat. Appl. Genet. Mol. Biol.
   3(1), article 3). Alike cells so share their degrees of freedom; one noisy cell neither hides the others nor passes
   for a quiet one. The critical value is Tukey's studentized range over all cells, as the best cell is picked by
   looking at the data.
2. The pair's own differences pass a paired t test alone, at a level that falls slowly with the number of cells.

Nothing is said of a cell with fewer than two rounds in common with the best, nor may anything be said of two cells of
different blocks: no pair of runs sees how the machine changed from one block to the next. How often experiments without
any difference name a loser all the same, and how often a real difference is found, is measured by tests/test_stats.py
(figures there).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate, optimize, special

from storagelab.findings import Estimate, Point, Sample

Matrix = NDArray[np.float64]
Pairs = Sequence[tuple[int, int]]

CONFIDENCE = 0.95
ALPHA = 1 - CONFIDENCE
VARIANCE_FLOOR = 1e-14
"""Of log seconds: clocks and schedulers don't repeat better than a part in ten million."""
VALUES_LEAST = 3
"""Below it an interval says more of Student's t than of the runs: of two values it is 13 standard errors wide."""
MANY = 1e5
"""Degrees of freedom from which on more make no difference."""


# ---------------------------------------------------------------------------------------------------------------------
# One cell
# ---------------------------------------------------------------------------------------------------------------------


def mean_estimate(values: Sequence[float]) -> Estimate:
    """The mean with its 95 % t interval; without one below three values."""
    mean = statistics.fmean(values)
    if len(values) < VALUES_LEAST:
        return Estimate(value=mean)
    half = _half_width(values)
    return Estimate(value=mean, low=mean - half, high=mean + half, confidence=CONFIDENCE)


def positive_mean_estimate(values: Sequence[float]) -> Estimate:
    """The arithmetic mean of quantities that can't be negative, with a 95 % interval that can't be either.

    It is the t interval of the logarithm of the mean, whose standard error is that of the mean over the mean (delta
    method): mean / f to mean * f. At a few per cent of scatter it is the usual t interval to the digit shown. An
    interval of mean logarithms would be one of the geometric mean, which no table shows. None below three values.
    """
    plain = mean_estimate(values)
    if plain.high is None or plain.value <= 0:
        return Estimate(value=plain.value)
    factor = math.exp((plain.high - plain.value) / plain.value)
    return Estimate(value=plain.value, low=plain.value / factor, high=plain.value * factor, confidence=CONFIDENCE)


def _half_width(values: Sequence[float]) -> float:
    return _t_point(len(values) - 1, ALPHA) * _sd(values) / math.sqrt(len(values))


def _sd(values: Sequence[float]) -> float:
    """The standard deviation of a sample. `statistics.stdev` is exact in fractions, and a tenth of a large report's time."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


@lru_cache(maxsize=4096)
def _t_point(df: float, alpha: float) -> float:
    """What |Student's t| exceeds with probability `alpha`."""
    return float(-special.stdtrit(df, alpha / 2))


def summarise(points: Sequence[Point]) -> Sample | None:
    """A quantity over the runs of a cell; None without runs."""
    values = [point.value for point in points]
    if not values:
        return None
    return Sample(
        mean=positive_mean_estimate(values),
        median=statistics.median(values),
        sd=_sd(values) if len(values) > 1 else None,
        minimum=min(values),
        maximum=max(values),
        points=tuple(points),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Cells and rounds together
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """log_s = cell + round + residual by least squares, and how noisy each cell is.

    `cells` is NaN for a cell without runs. `variance` is moderated, of one run, and counts `prior_df` degrees of
    freedom on top of the cell's own. `df` = degrees of freedom of all residuals; below 1 no test is possible.
    """

    log_s: Matrix
    cells: Matrix
    residuals: Matrix
    variance: Matrix
    prior_df: float
    df: int


@dataclass(frozen=True)
class Difference:
    """A ratio of elapsed times with its simultaneous interval, which leaves 1 out if and only if `p_value` < 0.05.

    Neither is there where fewer than two rounds are common. `pairs` = how many ratios of one round it rests on.
    """

    ratio: Estimate
    p_value: float | None
    pairs: int

    @property
    def distinguishable(self) -> bool:
        return self.p_value is not None and self.p_value < ALPHA


def fit(log_s: Matrix, blocks: Sequence[int] = ()) -> Fit:
    """Cells and rounds of `log_s`, fitted together so that a missing run biases no cell.

    `blocks` = the block of each cell; none = one for all. Each block has rounds of its own, as the n-th rounds of two
    blocks were far apart in time.
    """
    of_cell = np.asarray(blocks or [0] * len(log_s))
    cells, residuals = np.full(len(log_s), np.nan), np.full(log_s.shape, np.nan)
    # Taking the rounds out takes one cell's worth of scatter with it; a block of one cell keeps none.
    kept = np.zeros(len(log_s))
    df = 0
    for block in np.unique(of_cell):
        rows = np.flatnonzero(of_cell == block)
        cells[rows], residuals[rows], of_block = _cells_and_rounds(log_s[rows])
        measured = int((~np.isnan(cells[rows])).sum())
        kept[rows] = 1 - 1 / max(1, measured)
        df += of_block
    variance, prior_df = _moderated_variances(residuals, kept)
    return Fit(log_s=log_s, cells=cells, residuals=residuals, variance=variance, prior_df=prior_df, df=df)


def collapse(fitted: Fit, groups: Sequence[Sequence[int]], blocks: Sequence[int] = ()) -> Fit:
    """A fit whose rows are averages over `groups` of cells (geometric means of times), free of what rounds brought.

    Its noise is that of the averages, so that what hits all cells of a group at once is not taken for chance.
    """
    return fit(np.array([fitted.cells[group].mean() + _average(fitted.residuals[group]) for group in groups]), blocks)


def _cells_and_rounds(log_s: Matrix) -> tuple[Matrix, Matrix, int]:
    """Cells of one block, the residuals that cells and rounds leave, and these residuals' degrees of freedom."""
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
    df = int(there.sum() - (runs_of_cell > 0).sum() - (runs_of_round > 0).sum() + 1) if there.any() else 0
    return np.where(runs_of_cell > 0, cells, np.nan), residuals, df


def _moderated_variances(residuals: Matrix, kept: Matrix) -> tuple[Matrix, float]:
    """Each cell's variance, shrunk towards the typical one, and the degrees of freedom that the shrinking is worth.

    `kept` = the share of a cell's scatter that residuals still hold; where it is 0 they tell nothing.
    """
    df = (~np.isnan(residuals)).sum(axis=1) - 1
    repeated = (df > 0) & (kept > 0)
    if not repeated.any():
        return np.full(len(df), np.nan), MANY
    own_df = df[repeated].astype(float)
    own = np.maximum(np.nansum(residuals[repeated] ** 2, axis=1) / own_df / kept[repeated], VARIANCE_FLOOR)
    logs = np.log(own) - special.digamma(own_df / 2) + np.log(own_df / 2)
    spread = np.var(logs, ddof=1) - np.mean(special.polygamma(1, own_df / 2)) if len(own) > 1 else 0.0
    if spread <= 1e-4:
        prior_df, typical = MANY, float(np.average(own, weights=own_df))
    else:
        prior_df = 2 * _inverse_trigamma(float(spread))
        typical = math.exp(np.mean(logs) + special.digamma(prior_df / 2) - math.log(prior_df / 2))
    variance = np.full(len(df), typical)
    variance[repeated] = (prior_df * typical + own_df * own) / (prior_df + own_df)
    return variance, prior_df


def _inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = value, by Newton's method on 1/trigamma, which is convex (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, x))
        x += step
        if abs(step) < 1e-9 * x:
            break
    return x


# ---------------------------------------------------------------------------------------------------------------------
# Verdicts
# ---------------------------------------------------------------------------------------------------------------------


def fastest(fitted: Fit) -> int | None:
    """Index of the cell with the smallest round-adjusted time; one with a single run only if no other has more."""
    runs = (~np.isnan(fitted.log_s)).sum(axis=1)
    eligible = runs >= min(2, runs.max(initial=0))
    return int(np.argmin(np.where(eligible & (runs > 0), fitted.cells, np.inf))) if runs.any() else None


def compare_with_best(
    fitted: Fit, best: int, among: Collection[int] | None = None, families: int = 1
) -> list[Difference | None]:
    """Each cell's time over the best cell's, None for the best itself and for cells without runs.

    Intervals hold together at 95 %, over all cells and over the choice of the best (Tukey). That covers as well a best
    cell for each block: within blocks cells are never further apart than over all of them. Where cells are compared in
    several `families`, each with a best of its own, they hold together over all of these (Bonferroni); `among` are then
    the cells of this one, and all others get None.
    """
    among = range(len(fitted.cells)) if among is None else among
    cells = int((~np.isnan(fitted.cells[sorted(among)])).sum())
    differences: list[Difference | None] = []
    for cell in range(len(fitted.cells)):
        if cell == best or math.isnan(fitted.cells[cell]) or cell not in among:
            differences.append(None)
        else:
            differences.append(_judge(fitted, [(cell, best)], fitted, (cell, best), _tukey(cells, families)))
    return differences


def effects(fitted: Fit, levels: Sequence[Pairs], comparisons: int) -> list[Difference | None]:
    """What sets each level of a factor apart from the baseline: the geometric mean of all ratios of one round.

    `levels` holds, for each level, pairs of (cell of that level, cell of the baseline) that are equal in all else. Each
    pair's log ratios are averaged over its rounds, then over pairs. Where there are several pairs, levels are compared
    as a whole and their noise is taken from their averages in each round, so that what hits all cells of a level at
    once counts as noise too. Bonferroni over `comparisons`. None for a level of which no pair has a round in common.
    """
    critical = _bonferroni(comparisons)
    if all(len(pairs) <= 1 for pairs in levels):
        return [_judge(fitted, pairs, fitted, pairs[0], critical) if pairs else None for pairs in levels]
    baseline = sorted({other for pairs in levels for _, other in pairs})
    whole = [baseline, *([one for one, _ in pairs] for pairs in levels)]
    averages = fit(np.array([_average(fitted.residuals[cells]) for cells in whole]))
    return [
        _judge(fitted, pairs, averages, (number, 0), critical) if pairs else None
        for number, pairs in enumerate(levels, start=1)
    ]


def _average(rows: Matrix) -> Matrix:
    """Mean over `rows` in each round, NaN in rounds where all are missing."""
    there = ~np.isnan(rows)
    count = there.sum(axis=0)
    return np.where(count > 0, np.nansum(rows, axis=0) / np.maximum(count, 1), np.nan)


@dataclass(frozen=True)
class _Critical:
    """A two-sided simultaneous test: tail probability of a standardised difference, and the 5 % point."""

    kind: str
    count: int
    families: int = 1

    def tail(self, t: float, df: float) -> float:
        if self.kind == "tukey" and self.count > 2:
            return min(1.0, range_tail(t * math.sqrt(2), self.count, df) * self.families)
        times = self.families if self.kind == "tukey" else self.count
        return min(1.0, float(2 * special.stdtr(df, -t) * times))

    def point(self, df: float) -> float:
        return _critical_point(self, round(df, 1))

    @property
    def caution(self) -> float:
        """What the level of a pair's own t test is divided by."""
        things = self.count * self.families if self.kind == "tukey" else self.count + 1
        return float((things / 2) ** (1 / 6))


def _tukey(cells: int, families: int) -> _Critical:
    return _Critical("tukey", cells, families)


def _bonferroni(comparisons: int) -> _Critical:
    return _Critical("bonferroni", comparisons)


@lru_cache(maxsize=4096)
def _critical_point(critical: _Critical, df: float) -> float:
    if critical.kind == "bonferroni" or critical.count <= 2:
        times = critical.count if critical.kind == "bonferroni" else critical.families
        return _t_point(df, ALPHA / times)
    return float(optimize.brentq(lambda t: critical.tail(t, df) - ALPHA, 1.0, 1e5, xtol=1e-6))


def _judge(fitted: Fit, pairs: Pairs, noise: Fit, noisy: tuple[int, int], critical: _Critical) -> Difference | None:
    """The difference within `pairs`, held against its own scatter and the moderated variance of two rows of `noise`."""
    log_ratios = np.array([fitted.log_s[one] - fitted.log_s[other] for one, other in pairs])
    common = (~np.isnan(log_ratios)).sum(axis=1)
    kept = common > 0
    if not kept.any():
        return None
    log_ratios = log_ratios[kept]
    of_pair = np.nanmean(log_ratios, axis=1)
    value, total = float(of_pair.mean()), int(common.sum())
    own_se, rounds = _own_standard_error(log_ratios, of_pair)
    if own_se is None or noise.df < 1:
        return Difference(Estimate(value=math.exp(value)), None, total)

    moderated_se = math.sqrt(float(noise.variance[noisy[0]] + noise.variance[noisy[1]]) / rounds)
    df = min(noise.prior_df + rounds - 1, float(noise.df))
    standard_error = max(moderated_se, own_se)
    # A pair's own scatter is the only witness of a noisy cell; with more cells to choose from it must be surer.
    caution = critical.caution
    own_point = _t_point(rounds - 1, ALPHA / caution)
    half = max(critical.point(df) * standard_error, own_point * own_se)
    p_value = max(
        critical.tail(abs(value) / standard_error, round(df, 1)),
        min(1.0, float(2 * special.stdtr(rounds - 1, -abs(value) / own_se) * caution)),
    )
    ratio = Estimate(
        value=math.exp(value), low=math.exp(value - half), high=math.exp(value + half), confidence=CONFIDENCE
    )
    return Difference(ratio, p_value, total)


def _own_standard_error(log_ratios: Matrix, of_pair: Matrix) -> tuple[float | None, int]:
    """Standard error of the mean log ratio from its scatter over rounds, and the number of rounds."""
    present = ~np.isnan(log_ratios)
    rounds = int(present.any(axis=0).sum())
    if rounds < 2:
        return None, rounds
    deviations = np.where(present, log_ratios - of_pair[:, None], 0.0).sum(axis=0) / len(of_pair)
    variance = float((deviations**2).sum()) / (rounds - 1)
    return math.sqrt(max(variance, 2 * VARIANCE_FLOOR / len(of_pair)) / rounds), rounds


# ---------------------------------------------------------------------------------------------------------------------
# The studentized range
# ---------------------------------------------------------------------------------------------------------------------


def range_tail(q: float, cells: int, df: float) -> float:
    """P(studentized range of `cells` means > q), `df` degrees of freedom.

    As scipy.stats.studentized_range.sf, some hundred times faster: reports of a thousand cells and simulations of
    thousands of experiments need it. The outer integral over log s is a trapezoid rule, which converges fast on a
    smooth bump; the inner one comes from a spline (`_range_tail_known_sd`).
    """
    log_s, weights = _log_sd_density(df)
    return float(min(1.0, weights @ _range_tail_known_sd(cells)(np.minimum(q * np.exp(log_s), 40.0))))


@lru_cache(maxsize=4096)
def _log_sd_density(df: float) -> tuple[Matrix, Matrix]:
    """Nodes and weights of x = log s, s being an estimated sd over the true one; its density goes as
    exp(df (x - e^2x / 2)).
    """
    df = min(df, MANY)
    reach = math.sqrt(30 / df)
    log_s = np.linspace(-30 / df - reach, reach, 241)
    density = np.exp(df * (log_s - np.exp(2 * log_s) / 2 + 0.5))
    return log_s, density / density.sum()


@lru_cache(maxsize=64)
def _range_tail_known_sd(cells: int) -> interpolate.CubicSpline:
    """1 - W(w), W = distribution of the range of `cells` standard normals = cells * integral of
    phi(z) (Phi(z) - Phi(z - w))^(cells - 1) over the largest, z (Tukey 1953)."""
    z = np.linspace(-8.5, 8.5, 341)
    w = np.linspace(0, 40, 1201)
    inner = special.ndtr(z) - special.ndtr(z - w[:, None])
    weights = cells * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    return interpolate.CubicSpline(w, np.clip(1 - inner ** (cells - 1) @ weights, 0.0, 1.0))


# ---------------------------------------------------------------------------------------------------------------------
# Doubts
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outlier:
    """A run far from what its cell and round let expect: `ratio` = its time over that, `deviation` in robust sds."""

    cell: int
    round: int
    ratio: float
    deviation: float


OUTLIER_DEVIATION = 3.5
OUTLIER_CHANGE = 0.05
MEDIAN_EFFICIENCY = 0.37
"""What a median of absolute deviations knows of a normal spread, against all of the sample (Hampel 1974)."""


def outliers(log_s: Matrix) -> list[Outlier]:
    """Runs whose residual from medians of cell and round exceeds 5 %, 3.5 robust sds, and what chance would reach.

    The last grows with the number of runs, so that of 20 clean experiments about one is accused. Cells of fewer than
    four runs are not judged, nor experiments of fewer than twelve: a median of three is one of them.
    """
    runs_of_cell = (~np.isnan(log_s)).sum(axis=1)
    judged = runs_of_cell >= 4
    if judged.sum() < 2 or runs_of_cell[judged].sum() < 12:
        return []
    kept = log_s[:, (~np.isnan(log_s[judged])).any(axis=0)]
    rounds_at = np.flatnonzero((~np.isnan(log_s[judged])).any(axis=0))
    residuals = kept[judged]
    for _ in range(4):
        residuals = residuals - np.nanmedian(residuals, axis=1, keepdims=True)
        residuals = residuals - np.nanmedian(residuals, axis=0, keepdims=True)
    count = int((~np.isnan(residuals)).sum())
    free = max(1, count - residuals.shape[0] - residuals.shape[1] + 1)
    # Medians pass through as many residuals as they have parameters; those zeros say nothing of the spread.
    sizes = np.sort(np.abs(residuals[~np.isnan(residuals)]))[count - free :]
    sd = max(float(np.median(sizes)) / 0.6745, math.sqrt(VARIANCE_FLOOR))
    chance = _t_point(MEDIAN_EFFICIENCY * free, ALPHA / count)
    limit = max(max(OUTLIER_DEVIATION, chance) * sd, math.log1p(OUTLIER_CHANGE))
    found = np.argwhere(np.abs(np.nan_to_num(residuals)) > limit)
    cells_at = np.flatnonzero(judged)
    return [
        Outlier(
            cell=int(cells_at[row]), round=int(rounds_at[column]), ratio=math.exp(residuals[row, column]),
            deviation=float(residuals[row, column] / sd),
        )
        for row, column in found
    ]  # fmt: skip


@dataclass(frozen=True)
class Drift:
    """How times moved while a cell was repeated: `change` = relative change from its first round to its last."""

    change: float
    p_value: float


def drift(log_s: Sequence[float], cells: Sequence[int], sequence: Sequence[float]) -> Drift | None:
    """The straight trend of times on place in the order, each cell measured against itself; None if it can't be told.

    Rounds are NOT taken out here: a drift is what they absorb.
    """
    times, at = _centred(log_s, cells), _centred(sequence, cells)
    df = len(times) - len(set(cells)) - 1
    spread = float(at @ at)
    if df < 3 or spread <= 0:
        return None
    slope = float(at @ times) / spread
    rest = float(((times - slope * at) ** 2).sum()) / df
    standard_error = math.sqrt(max(rest, VARIANCE_FLOOR) / spread)
    return Drift(
        change=math.expm1(slope * float(at.max() - at.min())),
        p_value=float(2 * special.stdtr(df, -abs(slope) / standard_error)),
    )


def _centred(values: Sequence[float], groups: Sequence[int]) -> Matrix:
    """`values` less the mean of their group."""
    flat = np.asarray(values, dtype=float)
    _, at = np.unique(np.asarray(groups), return_inverse=True)
    means = np.bincount(at, weights=flat) / np.bincount(at)
    return np.asarray(flat - means[at])
