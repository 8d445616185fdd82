"""Finds odd runs, and makes a fit in which odd runs count only in the means of their own layouts. Pure.

A stall is a run that takes much longer than the other runs of its layout. A stall counts in the mean of its own layout.
Rounds and other layouts are estimated without stalls.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from storagelab.stats import fit as least_squares
from storagelab.stats.fit import VARIANCE_FLOOR, Fit, Matrix, Places
from storagelab.stats.intervals import ALPHA, t_point

OUTLIER_DEVIATION = 3.5
OUTLIER_CHANGE = 0.05
RUNS_LEAST = 4
"""No run is odd in a cell with fewer runs, because the median of three runs is one of these runs."""
MEDIAN_EFFICIENCY = 0.37
"""The efficiency of the median absolute deviation relative to the standard deviation, if values are normally
distributed (Hampel 1974).
"""
QUIET_SD = 1.1
"""A cell with an odd run is quiet if its other runs scatter at most this many times as much as a typical cell.
Otherwise, the cell is noisy.
"""
RARE_SHARE_MOST = 0.2
"""Odd runs count as rare only if they are at most this share of the runs of their cell."""
ODD_SHARE_MOST = 0.15
"""If a larger share of all runs is odd, such runs are normal for this machine."""


@dataclass(frozen=True)
class Outlier:
    """A run whose time is far from the expected time of its cell and round. `ratio` is its time divided by the expected
    time. `deviation` is the difference of their logarithms in robust sds.

    `rare` is True if three conditions hold. The run took too long. At most a fifth of the runs of its cell, or only one
    of them, took too long. The other runs of the cell scatter no more than the runs of other cells. Then the scatter of
    the cell's runs is estimated without the odd run. Otherwise, the cell is noisy.
    """

    cell: int
    round: int
    ratio: float
    deviation: float
    rare: bool


def outliers(log_s: Matrix) -> list[Outlier]:
    """The odd runs. Their residuals from the medians of cell and round exceed 5 %, 3.5 robust sds, and the limit of
    chance.

    The limit of chance grows with the number of runs, so that only about one of 20 experiments without odd runs has a
    false alarm. Cells with fewer than `RUNS_LEAST` runs and experiments with fewer than twelve are not checked.
    """
    runs_of_cell = (~np.isnan(log_s)).sum(axis=1)
    judged = runs_of_cell >= RUNS_LEAST
    if judged.sum() < 2 or runs_of_cell[judged].sum() < 12:
        return []
    rounds_at = np.flatnonzero((~np.isnan(log_s[judged])).any(axis=0))
    residuals = log_s[judged][:, rounds_at]
    for _ in range(4):
        residuals = residuals - _medians(residuals)
        residuals = residuals - _medians(residuals.T).T
    count = int((~np.isnan(residuals)).sum())
    free = max(1, count - residuals.shape[0] - residuals.shape[1] + 1)
    # Each median makes one residual zero. These zeros don't show the spread, so they are left out.
    sizes = np.sort(np.abs(residuals[~np.isnan(residuals)]))[count - free :]
    sd = max(float(np.median(sizes)) / 0.6745, math.sqrt(VARIANCE_FLOOR))
    chance = t_point(MEDIAN_EFFICIENCY * free, ALPHA / count)
    limit = max(max(OUTLIER_DEVIATION, chance) * sd, math.log1p(OUTLIER_CHANGE))
    found = np.argwhere(np.abs(np.nan_to_num(residuals)) > limit)
    few = len(found) <= max(2, ODD_SHARE_MOST * count)
    cells_at = np.flatnonzero(judged)

    def rare(row: int) -> bool:
        odd = [at for of, at in found if of == row]
        most = max(1, int(RARE_SHARE_MOST * runs_of_cell[cells_at[row]]))
        if not few or len(odd) > most or (residuals[row, odd] < 0).any():
            return False
        return _quiet(np.delete(residuals[row], odd), sd)

    return [
        Outlier(
            cell=int(cells_at[row]), round=int(rounds_at[column]), ratio=math.exp(residuals[row, column]),
            deviation=float(residuals[row, column] / sd), rare=rare(int(row)),
        )
        for row, column in found
    ]  # fmt: skip


def _medians(rows: Matrix) -> Matrix:
    """The median of each row without its NaN values, as a column. For few values, this is many times as fast as
    `np.nanmedian`.
    """
    ordered = np.sort(rows, axis=1)  # NaN values come last
    there = (~np.isnan(rows)).sum(axis=1, keepdims=True)
    low, high = (np.take_along_axis(ordered, np.maximum(of, 0), axis=1) for of in ((there - 1) // 2, there // 2))
    return np.where(there > 0, (low + np.where(there % 2, low, high)) / 2, np.nan)


def _quiet(residuals: Matrix, sd: float) -> bool:
    # The times of simulated cells may be equal to the last digit. Then they have no scatter.
    return float(np.nanstd(residuals, ddof=1)) <= QUIET_SD * max(sd, math.log1p(OUTLIER_CHANGE) / OUTLIER_DEVIATION)


def without(log_s: Matrix, runs: Iterable[Outlier]) -> Matrix:
    """The times, without the times of `runs`."""
    left = log_s.copy()
    for run in runs:
        left[run.cell, run.round] = np.nan
    return left


def fit(log_s: Matrix, blocks: Sequence[int] | Places = (), covariates: Sequence[Matrix] = ()) -> Fit:
    """The fit in which rare odd runs count in the means of their own cells, but don't change other estimates."""
    of_others = least_squares.fit(log_s, blocks, covariates=covariates)
    odd = [run for run in outliers(of_others.without_covariates(len(covariates))) if run.rare]
    return least_squares.fit(log_s, blocks, without(log_s, odd), covariates) if odd else of_others


def share_most(runs: int, stalled: int = 0) -> float:
    """The upper 95 % bound of the share of a layout's runs that stall. `stalled` of its `runs` have stalled.

    The bound is by Clopper and Pearson (1934, Biometrika 26). If no run has stalled, it is 1 - 0.05 ** (1 / runs).
    """
    return 1.0 if stalled >= runs else float(special.betaincinv(stalled + 1, runs - stalled, 1 - ALPHA))
