"""Finds what makes times doubtful: odd runs, and a machine or drive that changed during the experiment. Pure.

Matrices are those of `stats`: natural logarithms of times, a row for each cell and a column for each round.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from storagelab.findings import stats
from storagelab.findings.samples import ALPHA
from storagelab.findings.stats import VARIANCE_FLOOR, Fit, Matrix
from storagelab.findings.studentized import t_point
from storagelab.model.values import MOST

OUTLIER_DEVIATION = 3.5
OUTLIER_CHANGE = 0.05
MEDIAN_EFFICIENCY = 0.37
"""The efficiency of the median absolute deviation for a normal spread, relative to the full sample (Hampel 1974)."""
Places = NDArray[np.intp]

QUIET_SD = 1.1
"""A cell whose other runs scatter up to this many times the typical cell is quiet, with an odd run; above it, noisy."""
RARE_SHARE_MOST = 0.2
"""Of a cell's runs."""
ODD_SHARE_MOST = 0.15
"""If more of the runs are odd, they are normal for this machine."""


# ---------------------------------------------------------------------------------------------------------------------
# Odd runs
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outlier:
    """A run far from the time expected of its cell and round: `ratio` = its time over that, `deviation` in robust sds.

    `rare`: it took too long, as did at most a fifth of its cell's runs (or one), and the others are as quiet as any.
    Their scatter is then known without it; otherwise the cell is noisy.
    """

    cell: int
    round: int
    ratio: float
    deviation: float
    rare: bool


def outliers(log_s: Matrix) -> list[Outlier]:
    """Runs whose residual from medians of cell and round exceeds 5 %, 3.5 robust sds, and what chance would produce.

    The last limit grows with the number of runs, so that about one clean experiment in 20 has a false alarm. Cells with
    fewer than four runs are not judged, nor experiments with fewer than twelve: a median of three is one of the three.
    """
    runs_of_cell = (~np.isnan(log_s)).sum(axis=1)
    judged = runs_of_cell >= 4
    if judged.sum() < 2 or runs_of_cell[judged].sum() < 12:
        return []
    rounds_at = np.flatnonzero((~np.isnan(log_s[judged])).any(axis=0))
    residuals = log_s[judged][:, rounds_at]
    for _ in range(4):
        residuals = residuals - _medians(residuals)
        residuals = residuals - _medians(residuals.T).T
    count = int((~np.isnan(residuals)).sum())
    free = max(1, count - residuals.shape[0] - residuals.shape[1] + 1)
    # Medians pass through as many residuals as they have parameters; those zeros say nothing about the spread.
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
    """The median of each row without its NaN, as a column: as `np.nanmedian`, many times faster for few values."""
    ordered = np.sort(rows, axis=1)  # NaN come last
    there = (~np.isnan(rows)).sum(axis=1, keepdims=True)
    low, high = (np.take_along_axis(ordered, np.maximum(of, 0), axis=1) for of in ((there - 1) // 2, there // 2))
    return np.where(there > 0, (low + np.where(there % 2, low, high)) / 2, np.nan)


def _quiet(residuals: Matrix, sd: float) -> bool:
    # Cells that agree to the last digit, as simulated ones may, have no scatter to judge by.
    return float(np.nanstd(residuals, ddof=1)) <= QUIET_SD * max(sd, math.log1p(OUTLIER_CHANGE) / OUTLIER_DEVIATION)


def without(log_s: Matrix, runs: Iterable[Outlier]) -> Matrix:
    """The same times without those of `runs`."""
    left = log_s.copy()
    for run in runs:
        left[run.cell, run.round] = np.nan
    return left


def fit(log_s: Matrix, blocks: Sequence[int] = ()) -> Fit:
    """The fit in which rare odd runs count in the means of their cells, but do not hide what the other runs show."""
    calm = without(log_s, (run for run in outliers(log_s) if run.rare))
    return stats.counting(stats.fit(calm, blocks), log_s, blocks)


# ---------------------------------------------------------------------------------------------------------------------
# Change along the way
# ---------------------------------------------------------------------------------------------------------------------

TOO_WIDE = math.log(100)
"""An interval of a change whose ends are a hundred times apart says nothing of its size."""
PERMUTATIONS = 199
ALIKE_LEAST = 1.64
"""Independent neighbours agree by more standard errors than this in one experiment of 20."""
KEPT_MOST = 0.9
STEP_T_LEAST = 2.5
"""Steps below this many standard errors are not worth the permutations: chance makes larger ones in most experiments.
"""


@dataclass(frozen=True)
class Drift:
    """A linear trend of times: `change` = relative change from the first run made to the last, of all or of a block;
    None if the runs don't tell how large it is."""

    change: float | None
    p_value: float
    explained: float
    """Share of the runs' scatter within cells."""


@dataclass(frozen=True)
class Step:
    """A jump of times: all runs after the place `after` in the order differ by `change` from those up to it."""

    after: float
    change: float
    p_value: float
    explained: float


def drift(
    log_s: Sequence[float], cells: Sequence[int], sequence: Sequence[float], length: float | None = None
) -> Drift | None:
    """The linear trend of times over the run order, each cell measured against itself; None if it can't be estimated.

    The slope is that within cells. The change is that over all runs given, even if each cell saw only a part of them,
    or over the `length` of a block if each block begins anew. A slope seen in a few neighbouring runs says little of
    many: if the 95 % interval of the change is too wide to say, or it is more than times can differ, the change is
    unknown. Rounds are NOT removed here: they would absorb the drift.
    """
    times, at = _centred(log_s, cells), _centred(sequence, cells)
    df = len(times) - len(set(cells)) - 1
    spread, total = float(at @ at), float(times @ times)
    if df < 3 or spread <= 0:
        return None
    slope = float(at @ times) / spread
    rest = max(total - slope**2 * spread, 0.0) / df
    order = np.argsort(np.asarray(sequence, dtype=float), kind="stable")
    longer = long_run_variance((times - slope * at)[order])
    standard_error = math.sqrt(longer * max(rest, VARIANCE_FLOOR) / spread)
    length = max(sequence) - min(sequence) if length is None else length
    log_change, half = slope * length, t_point(df, ALPHA) * standard_error * length
    return Drift(
        change=math.expm1(log_change) if abs(log_change) <= math.log(MOST) and 2 * half <= TOO_WIDE else None,
        p_value=float(2 * special.stdtr(df, -abs(slope) / standard_error)),
        explained=slope**2 * spread / max(total, VARIANCE_FLOOR),
    )


def step(log_s: Sequence[float], cells: Sequence[int], sequence: Sequence[float]) -> Step | None:
    """The place at which times changed most; None if no change is large enough to test.

    Every place is tried, each cell measured against itself. The p-value is that of the largest step, by permuting each
    cell's runs (as E-divisive finds change points: Matteson and James 2014, J. Am. Stat. Assoc. 109). Where runs near
    in time are alike, permuting hides that, so the step must be larger by as much as that lets means scatter more. A
    change between two cells that were run one after the other can't be seen.
    """
    order = np.argsort(np.asarray(sequence, dtype=float), kind="stable")
    times = _centred(log_s, cells)[order]
    _, of_cell = np.unique(np.asarray(cells)[order], return_inverse=True)
    df = len(times) - int(of_cell.max(initial=0)) - 2
    total = float(times @ times)
    if df < 3 or total <= len(times) * VARIANCE_FLOOR:
        return None
    weights = _weights(of_cell)
    places, explained = _largest_step(times, weights)
    rest = max(total - explained, VARIANCE_FLOOR) / df
    if math.sqrt(explained / rest) < STEP_T_LEAST:
        return None
    # The sum of deviations from the cells' means after the place, divided by the number of runs that it averages.
    height = float(times[places + 1 :].sum() / weights[places])
    after = np.arange(len(times)) > places
    left = times - height * _centred(after.tolist(), of_cell.tolist())
    surprising = explained / long_run_variance(left)
    random = np.random.default_rng(len(times))
    by_cell = np.argsort(of_cell, kind="stable")
    as_large = 0
    for _ in range(PERMUTATIONS):
        permuted = np.empty_like(times)
        permuted[by_cell] = times[np.lexsort((random.random(len(times)), of_cell))]
        as_large += _largest_step(permuted, weights)[1] >= surprising
    return Step(
        after=float(np.asarray(sequence, dtype=float)[order][places]), change=math.expm1(height),
        p_value=(1 + as_large) / (1 + PERMUTATIONS), explained=explained / total,
    )  # fmt: skip


def long_run_variance(left: Matrix) -> float:
    """How many times as much means of many runs in a row scatter as if runs were independent, from what is `left` of
    their times; 1 unless neighbours are surely alike. Each run is taken to keep a share of the deviation of the one
    before."""
    total = float(left @ left)
    share = float(left[1:] @ left[:-1]) / total if total > 0 else 0.0
    if share <= ALIKE_LEAST / math.sqrt(len(left)):
        return 1.0
    share = min(share + (1 + 4 * share) / len(left), KEPT_MOST)  # Marriott and Pope 1954, Biometrika 41
    return (1 + share) / (1 - share)


def _weights(of_cell: Places) -> Matrix:
    """For each place in the order, the sum over cells of n p (1 - p), p = the share of the cell's n runs after it."""
    runs = np.bincount(of_cell)
    done = np.zeros((len(runs),))
    weight = np.zeros(len(of_cell))
    now = 0.0
    for place, cell in enumerate(of_cell):
        now -= done[cell] * (runs[cell] - done[cell]) / runs[cell]
        done[cell] += 1
        now += done[cell] * (runs[cell] - done[cell]) / runs[cell]
        weight[place] = now
    return weight


def _largest_step(times: Matrix, weights: Matrix) -> tuple[int, float]:
    """The place after which a step explains most of the scatter, and the sum of squares that it explains."""
    up_to = np.cumsum(times)
    explained = np.where(weights > 1e-9, up_to**2 / np.maximum(weights, 1e-9), 0.0)
    place = int(np.argmax(explained))
    return place, float(explained[place])


def _centred(values: Sequence[float], groups: Sequence[int]) -> Matrix:
    """`values` minus the mean of their group."""
    flat = np.asarray(values, dtype=float)
    _, at = np.unique(np.asarray(groups), return_inverse=True)
    means = np.bincount(at, weights=flat) / np.bincount(at)
    return np.asarray(flat - means[at])
