"""One least-squares fit of log responses: cell + round of its block + covariates + residual. Pure.

`log_s` is always a matrix of natural logarithms of seconds. The seconds are elapsed times, times for a piece of work,
or latencies. The matrix has a row for each cell and a column for each round. A value is NaN if its run is missing or
left out. The cells of a round ran soon after each other. So they share the effect of the round, and this effect cancels
out in their differences.

If runs were made on several hosts, or in several campaigns, the hosts or campaigns are the sample. Then a column is a
host or a campaign, and a value is the mean of a cell in it (Kalibera and Jones 2013, ISMM: the means of the highest
varying level of repetition are the sample). `Preparations` does the same for blocks that were prepared again.

Some odd runs may be stalls of a layout (`stalls`). They count in the means of their own cells. Rounds and all other
cells are estimated without them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from storagelab.model.values import Estimate
from storagelab.stats.intervals import ALPHA, MANY, VALUES_LEAST, from_logs, t_point

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Places = NDArray[np.intp]

VARIANCE_FLOOR = 1e-14
"""The least variance of log seconds, because clocks and schedulers are not more exact than 1 in 10 million."""
NOISIER_P_VALUE = 0.1
"""A cell is noisier than the others if chance alone would hardly explain its variance. The probability that the largest
of all variances is as large must be below this value."""


@dataclass(frozen=True)
class Means:
    """The mean of each cell. The value is NaN if the cell has no runs. `runs` is the number of its runs. `residuals`
    are cells x rounds.

    `own` and `variance` are variances of one run. `own` is from the residuals of the cell alone, and NaN if it has
    none. `variance` is pooled over all cells. Cells that are surely noisier have their own variance instead.
    """

    log_s: Vector
    runs: Vector
    residuals: Matrix
    own: Vector
    variance: Vector


@dataclass(frozen=True)
class Preparations:
    """The means of cells in each preparation of their block, as cells x preparations. Missing means are NaN.

    All runs of a preparation share its random effect, so cells of different blocks are compared by these means. `every`
    and `calm` are as in `Fit`. For each cell, `variance` is the variance of one such mean. It is pooled over the
    blocks, without blocks that surely vary more. `df` is the number of preparations, without the first of each block.
    """

    every: Matrix
    calm: Matrix
    variance: Vector
    df: float
    alike: bool

    @property
    def counts(self) -> Vector:
        """The number of preparations of each cell."""
        return np.asarray((~np.isnan(self.every)).sum(axis=1), dtype=float)


@dataclass(frozen=True)
class Fit:
    """The fit of `log_s`, which has all runs that count.

    `every` has the means of all runs, and `calm` the means without odd runs. If there are no odd runs, both are the
    same object. For each cell, `blocks` has its block, `peers` the number of measured cells in this block, and
    `of_rounds` the variance of the block's rounds. This variance includes the part that comes from residuals.

    `effects` are the estimated effects of rounds and covariates. `design` has their values, as effects x cells x
    rounds. `free` is the number of degrees of freedom of the residuals. `pooled` is the variance of the cells that are
    not `noisier`, and `df` its degrees of freedom. If `df` is below 1, no test is possible. `columns` has the mean of
    the design for each cell. `inverse` is the inverse of the design's information matrix. With it, the error of each
    contrast includes the effect of missing runs and of covariates. `estimable` projects on the estimable effects.

    `preparations` compare blocks, or are None. On the log scale, no difference is more exact than `tick`, and
    differences of at most `margin` don't matter.
    """

    log_s: Matrix
    every: Means
    calm: Means
    blocks: Places
    peers: Vector
    of_rounds: Vector
    effects: Vector
    design: Matrix
    free: float
    df: float
    pooled: float
    noisier: NDArray[np.bool_]
    columns: Matrix
    inverse: Matrix
    estimable: Matrix
    preparations: Preparations | None = None
    tick: float = 0.0
    margin: float = 0.0

    @property
    def cells(self) -> Vector:
        """The mean log time of each cell."""
        return self.every.log_s

    @property
    def runs(self) -> Vector:
        """The number of runs of each cell."""
        return self.every.runs

    @property
    def alike(self) -> bool:
        """Whether no cell is surely noisier than the others."""
        return not self.noisier.any()

    @property
    def compared(self) -> Places:
        """The block of each cell. All blocks that can be compared with each other have the same number here."""
        if self.preparations is None:
            return self.blocks
        again = self.preparations.counts > 1
        return np.where(again, self.blocks[again].min(initial=self.blocks.max(initial=0)), self.blocks)

    def without_covariates(self, count: int) -> Matrix:
        """The log times without the last `count` effects."""
        first = len(self.effects) - count
        return self.log_s - np.tensordot(self.effects[first:], self.design[first:], 1)

    def fastest(self, cells: Sequence[int] | Places | None = None) -> int | None:
        """The cell with the shortest mean time among `cells`, or among all cells if `cells` is None. A cell with a
        single run is chosen only if no cell has more runs. Returns None if no cell has runs.
        """
        among = np.arange(len(self.cells)) if cells is None else np.asarray(cells, dtype=int)
        runs = self.runs[among]
        if not runs.any():
            return None
        eligible = (runs > 0) & (runs >= min(2, runs.max()))
        return int(among[np.argmin(np.where(eligible, self.cells[among], np.inf))])


def fit(
    log_s: Matrix, blocks: Sequence[int] | Places = (), calm: Matrix | None = None, covariates: Sequence[Matrix] = ()
) -> Fit:
    """The fit of `log_s`.

    `blocks` has the block of each cell. If it is empty, all cells are in one block. Each block has its own rounds,
    because the n-th rounds of two blocks were far apart in time. `calm` has the log times without odd runs, or with
    other times for odd runs. `covariates` are other quantities that may explain times. Each is cells x rounds.
    """
    quiet = log_s if calm is None else calm
    of_cell = np.asarray(blocks if len(blocks) else [0] * len(log_s), dtype=int)
    there = ~np.isnan(quiet)
    runs = there.sum(axis=1).astype(float)
    many = np.maximum(runs, 1)
    peers = np.array([((runs > 0) & (of_cell == block)).sum() for block in of_cell], dtype=float)
    raw = _design(there, of_cell, peers, covariates)
    columns = np.where(there, raw, 0.0).sum(axis=2).T / many[:, None]
    # A block with one cell has one run per round, so its runs can't show the effects of covariates.
    shared = there & (peers > 1)[:, None]
    within = np.where(shared, raw - columns.T[:, :, None], 0.0).reshape(len(raw), there.size)
    information = within @ within.T
    inverse = np.linalg.pinv(information, rcond=1e-9, hermitian=True)
    means = np.where(there, quiet, 0.0).sum(axis=1) / many
    effects = inverse @ (within @ np.where(there, quiet - means[:, None], 0.0).ravel())
    explained = np.tensordot(effects, raw, 1)
    cells = np.where(runs > 0, means - columns @ effects, np.nan)
    residuals = np.where(there, (quiet - cells[:, None] - explained) * (peers > 1)[:, None], np.nan)
    free = np.where(peers > 1, (many - 1) * (1 - 1 / np.maximum(peers, 1)), 0.0)
    taken = (runs[peers > 1] > 0).sum() + round(float(np.trace(inverse @ information)))
    whole = float(max(0, there[peers > 1].sum() - taken))
    free *= whole / max(float(free.sum()), 1e-9)
    own = _own(residuals, free)
    noisier = surely_noisier(own, runs - 1)
    pooled, df = pool(own, free, noisier)
    calm_means = Means(cells, runs, residuals, own, np.where(noisier, own, pooled))
    every = calm_means if calm is None else _with_odd_runs(log_s, quiet, explained, calm_means, free)
    of_rounds = _variances_of_rounds(quiet - cells[:, None], of_cell)
    return Fit(
        log_s, every, calm_means, of_cell, peers, of_rounds, effects, raw, whole, df, pooled, noisier, columns, inverse,
        inverse @ information,
    )  # fmt: skip


def _design(there: NDArray[np.bool_], of_cell: Places, peers: Vector, covariates: Sequence[Matrix]) -> Matrix:
    """The values of the effects that are fitted in addition to cells, as columns x cells x rounds. The effects are the
    rounds of each block, except its first, and the covariates.
    """
    found = []
    for block in np.unique(of_cell[peers > 1]):
        inside = of_cell == block
        made = there[inside].any(axis=0)
        for column in np.flatnonzero(made)[1:]:
            one = np.where(inside[:, None] & made, -1 / made.sum(), 0.0)  # sums of rounds are 0, so cells are means
            one[inside, column] += 1
            found.append(one)
    return np.array([*found, *covariates]).reshape(len(found) + len(covariates), *there.shape)


def _own(residuals: Matrix, free: Vector) -> Vector:
    """The variance of each cell from its own residuals, which have `free` degrees of freedom. Returns NaN if a cell has
    no residuals.
    """
    sums = np.nansum(residuals**2, axis=1)
    return np.where(free > 0, np.maximum(sums / np.where(free > 0, free, 1), VARIANCE_FLOOR), np.nan)


def _with_odd_runs(log_s: Matrix, quiet: Matrix, explained: Matrix, calm: Means, free: Vector) -> Means:
    """Returns the means of all runs, including the odd runs. A run is odd if `quiet` lacks it or has another time for
    it.
    """
    odd = ((log_s != quiet) & ~(np.isnan(log_s) & np.isnan(quiet))).any(axis=1)
    if not odd.any():
        return calm
    runs = (~np.isnan(log_s)).sum(axis=1).astype(float)
    adjusted = log_s - explained
    cells = np.where(odd, np.nansum(adjusted, axis=1) / np.maximum(runs, 1), calm.log_s)
    residuals = np.where(odd[:, None], adjusted - cells[:, None], calm.residuals)
    own = np.where(odd, _own(residuals, free * np.maximum(runs - 1, 1) / np.maximum(calm.runs - 1, 1)), calm.own)
    return Means(cells, runs, residuals, own, np.where(odd, np.fmax(calm.variance, own), calm.variance))


def surely_noisier(own: Vector, free: Vector) -> NDArray[np.bool_]:
    """For each row: whether its variance is surely larger than the variance of the other rows.

    The noisiest row is tested first. Each row is tested against the remaining rows (Cochran 1941, Annals of Eugenics
    11). At most half of the rows can be noisier.
    """
    left = ~np.isnan(own) & (free > 0)
    found = np.zeros(len(own), dtype=bool)
    most = left.sum() // 2
    while found.sum() < most:
        sums, dfs = (own * free)[left], free[left]
        of_rest = (sums.sum() - sums) / (dfs.sum() - dfs)
        p_values = special.fdtrc(dfs, dfs.sum() - dfs, own[left] / np.maximum(of_rest, VARIANCE_FLOOR))
        if p_values.min() * len(p_values) > NOISIER_P_VALUE:
            break
        at = np.flatnonzero(left)[np.argmin(p_values)]
        found[at], left[at] = True, False
    return found


def pool(own: Vector, free: Vector, noisier: NDArray[np.bool_]) -> tuple[float, float]:
    """The common variance of the rows that are not `noisier`, and its degrees of freedom. Returns NaN if there are no
    such rows.
    """
    counted = (free > 0) & ~noisier
    df = float(free[counted].sum())
    return (float((own * free)[counted].sum() / df) if df else np.nan), df


def at_least(fitted: Fit, variance: float) -> Fit:
    """The fit with variances of at least this value, which is known from another source."""
    calm, every = (
        replace(of, own=np.maximum(of.own, variance), variance=np.maximum(of.variance, variance))
        for of in (fitted.calm, fitted.every)
    )
    calm = every if fitted.every is fitted.calm else calm
    return replace(fitted, every=every, calm=calm, pooled=max(fitted.pooled, variance))


def _variances_of_rounds(apart: Matrix, of_cell: Places) -> Vector:
    """For each cell: the variance of the rounds of its block. Returns NaN if the block has fewer than two rounds.

    `apart` has the log times without the means of their cells.
    """
    found = np.full(len(apart), np.nan)
    for block in np.unique(of_cell):
        rounds = average(apart[of_cell == block])
        rounds = rounds[~np.isnan(rounds)]
        if len(rounds) > 1:
            found[of_cell == block] = rounds.var(ddof=1)
    return found


def average(rows: Matrix) -> Vector:
    """The mean of each column. Returns NaN if all values of the column are missing."""
    count = (~np.isnan(rows)).sum(axis=0)
    return np.where(count > 0, np.nansum(rows, axis=0) / np.maximum(count, 1), np.nan)


def collapse(fitted: Fit, groups: Sequence[Sequence[int]], blocks: Sequence[int] = ()) -> Fit:
    """A fit with one row for each of `groups`. The row is the average of the group's cells without the effects of
    rounds, so that it is a geometric mean of times.

    Its noise is the noise of these averages. So a disturbance of all cells of a group counts as noise.
    """
    every, calm = (
        np.array([of.log_s[list(group)].mean() + average(of.residuals[list(group)]) for group in groups])
        for of in (fitted.every, fitted.calm)
    )
    whole = fit(every, blocks, None if fitted.every is fitted.calm else calm)
    return replace(whole, tick=fitted.tick, margin=fitted.margin)


def prepared(fitted: Fit, made_in: Places) -> Fit:
    """The fit with `preparations`, if two or more blocks were prepared again. Then cells of different blocks are
    compared by their means in each preparation.

    `made_in` has the number of the preparation of each run, as cells x rounds. It is -1 if there is no run.
    """
    if len(set(fitted.blocks)) < 2:
        return fitted
    every, calm = (_means_of_preparations(of, fitted, made_in) for of in (fitted.every, fitted.calm))
    counts = (~np.isnan(every)).sum(axis=1)
    kinds = np.unique(fitted.blocks[counts > 1])
    if len(kinds) < 2:
        return fitted
    # The cells of a block share the random effects of its preparations. So more cells add no degrees of freedom.
    of_kind = [calm[(fitted.blocks == kind) & (counts > 1)] for kind in kinds]
    own = np.array([max(float(np.nanvar(figures, axis=1, ddof=1).mean()), VARIANCE_FLOOR) for figures in of_kind])
    free = np.array([counts[fitted.blocks == kind].max() - 1.0 for kind in kinds])
    noisier = surely_noisier(own, free)
    pooled, df = pool(own, free, noisier)
    variance = np.full(len(counts), pooled)
    for kind, alone in zip(kinds[noisier], own[noisier], strict=True):
        variance[fitted.blocks == kind] = alone
    return replace(fitted, preparations=Preparations(every, calm, variance, df, alike=not noisier.any()))


def _means_of_preparations(of: Means, fitted: Fit, made_in: Places) -> Matrix:
    """The mean of each cell in each preparation. It is adjusted for rounds in which the cell has no run."""
    found = np.full((len(made_in), int(made_in.max(initial=-1)) + 1), np.nan)
    apart = fitted.log_s - fitted.cells[:, None] - fitted.every.residuals
    for number in range(found.shape[1]):
        here = (made_in == number) & ~np.isnan(of.residuals)
        cells = np.flatnonzero(here.any(axis=1))
        if not cells.size:  # each run of this preparation stalled
            continue
        rounds = average(apart[cells])[here.any(axis=0)]
        left = np.where(here, of.residuals, 0.0).sum(axis=1) / np.maximum(here.sum(axis=1), 1)
        found[cells, number] = of.log_s[cells] + np.nanmean(rounds) + left[cells]
    return found


# --- the mean time of one cell, and its error -------------------------------------------------------------------------

NOISY_P_VALUE = 0.01
"""If chance makes a cell as noisy as it is with less than this probability, its interval uses only its own scatter."""
SKEWED_P_VALUE = 0.1
"""Residuals count as skewed if chance gives third moments as far from 0 with at most this probability."""


def mean_time(fitted: Fit, cell: int, picked_from: int = 1) -> Estimate:
    """The geometric mean time of a cell, with its 95 % interval. The mean is adjusted for missed rounds. If there are
    fewer than three runs, the mean has no interval.

    The variance is the sum of two variances: of the effects of rounds, which all cells share, and of the cell's own
    scatter (degrees of freedom by Satterthwaite 1946). If a cell was selected as the fastest of `picked_from` cells,
    its measured time is probably too short. So its interval extends further up (Bonferroni, for `picked_from` equal
    cells).

    If the noise is surely skewed, the interval extends further towards the long tail, because a small sample may
    contain no runs of the tail. The extension is Johnson's adjustment of t (1978, Journal of the American Statistical
    Association 73). A selected cell may be the fastest only because its sample contains no such runs. So its interval
    extends further up even if the noise is not surely skewed. An odd run takes too long, never too little time. So the
    lower end of an interval is computed without odd runs.
    """
    prepared = fitted.preparations
    if prepared is not None and prepared.counts[cell] > 1:
        error = math.sqrt(float(prepared.variance[cell]) / float(prepared.counts[cell]))
        point = (t_point(round(prepared.df, 1), ALPHA / many) for many in (1, picked_from))
        return from_logs(float(np.nanmean(prepared.every[cell])), *(one * error for one in point))
    value = float(fitted.cells[cell])
    reach = _reach(fitted, fitted.every, cell, picked_from)
    if reach is None:
        return Estimate(value=math.exp(value))
    down, up = reach
    calm = None if fitted.calm is fitted.every else _reach(fitted, fitted.calm, cell, 1)
    if calm is not None:
        down = min(down, value - float(fitted.calm.log_s[cell]) + calm[0])
    return from_logs(value, down, up)


def _reach(fitted: Fit, means: Means, cell: int, picked_from: int) -> tuple[float, float] | None:
    """The distances from the mean to the two ends of the interval, on the log scale. Returns None if there are too few
    runs.
    """
    runs = float(means.runs[cell])
    if runs < VALUES_LEAST or math.isnan(fitted.of_rounds[cell]):
        return None
    variance, df = variance_of_one(fitted, means, cell)
    of_rounds, of_cell = float(fitted.of_rounds[cell]) / runs, variance * (1 - 1 / fitted.peers[cell]) / runs
    total_df = (of_rounds + of_cell) ** 2 / max(of_rounds**2 / (runs - 1) + of_cell**2 / df, 1e-300)
    total_df, df = round(max(total_df, 1.0), 1), round(df, 1)
    point = t_point(total_df, ALPHA)
    down = point * math.sqrt(of_rounds + of_cell)
    picked = t_point(df, ALPHA / picked_from) ** 2 - t_point(df, ALPHA) ** 2
    up = math.hypot(down, math.sqrt(picked * of_cell))
    scale = math.sqrt(of_cell / runs)
    lean = _sure_skewness(fitted, means) * _adjustment(point) * scale
    if picked_from > 1:
        feared = _skewness_feared(fitted, means) * _adjustment(t_point(total_df, ALPHA / picked_from)) * scale
        return down + max(-lean, 0.0), up + max(lean, feared)
    return down + max(-lean, 0.0), up + max(lean, 0.0)


def _adjustment(point: float) -> float:
    """The extension of a t interval for each unit of skewness. Its unit is a standard error divided by the square root
    of the number of runs.
    """
    return (1 + 2 * point**2) / 6


def variance_of_one(fitted: Fit, means: Means, cell: int) -> tuple[float, float]:
    """The variance of one run of a cell without the effect of its round, and the variance's degrees of freedom."""
    own, own_df = float(means.own[cell]), float(max(means.runs[cell] - 1, 1))
    if math.isnan(own):
        return 0.0, own_df
    if fitted.noisier[cell] or special.fdtrc(own_df, MANY, own / fitted.pooled) < NOISY_P_VALUE:
        return own, own_df
    return float(means.variance[cell]), max(fitted.df, 1.0)


def _skewness(left: Matrix) -> float:
    """The skewness of all residuals. 0 if they scatter almost not at all."""
    variance = float(np.nanmean(left**2))
    return 0.0 if variance < VARIANCE_FLOOR else float(np.nanmean(left**3)) / variance**1.5


def _sure_skewness(fitted: Fit, means: Means) -> float:
    """The skewness, or 0 if chance or a single cell may explain it: a t test over cells, with 5 % on each side."""
    left = means.residuals[~np.isnan(fitted.cells)]
    of_cells = np.nansum(left**3, axis=1)
    if len(of_cells) < 2:
        return 0.0
    least = t_point(len(of_cells) - 1, SKEWED_P_VALUE) * of_cells.std(ddof=1) / math.sqrt(len(of_cells))
    return _skewness(left) if abs(of_cells.mean()) > least else 0.0


def _skewness_feared(fitted: Fit, means: Means) -> float:
    """Half of the measured skewness to the right, even if chance may explain it. 0 if there is none.

    It is a safety margin for a selected cell. With two cells, the residuals of one are the negatives of the other's, so
    they show no skewness. Then the effects of rounds are not removed.
    """
    measured = ~np.isnan(fitted.cells)
    left = fitted.log_s - fitted.cells[:, None] if measured.sum() == 2 else means.residuals
    return max(0.0, _skewness(left[measured]) / 2) if measured.sum() > 1 else 0.0
