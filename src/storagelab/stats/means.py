"""The mean time of one cell, and its error. Pure."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from storagelab.model.values import Estimate
from storagelab.stats.fit import VARIANCE_FLOOR, Fit, Matrix, Means
from storagelab.stats.points import ALPHA, MANY, t_point
from storagelab.stats.samples import VALUES_LEAST, from_logs

NOISY_P_VALUE = 0.01
"""If chance makes a cell as noisy with less than this probability, its interval is from its own scatter alone."""
SKEWED_P_VALUE = 0.1
"""Residuals are skewed if their third moments differ from 0 by chance with at most this probability."""


def mean_time(fitted: Fit, cell: int, picked_from: int = 1) -> Estimate:
    """The geometric mean time of a cell, adjusted for missed rounds, with its 95 % interval; none below three runs.

    Its variance is the sum of two: that of the round effects, which all cells share, and that of the cell's own scatter
    (degrees of freedom by Satterthwaite 1946). A cell selected as the fastest of `picked_from` looks faster than it is
    in the long run, so its interval extends further up (Bonferroni, for that many equal cells).

    If noise is surely skewed, the interval extends further towards the long tail by Johnson's adjustment of t (1978,
    Journal of the American Statistical Association 73), because a small sample may contain no runs of the tail. The
    selected cell may be the fastest because it contains none, so its interval is extended upwards even if skewness
    can't be shown. Odd runs can only add time, so the lower end of a cell's interval comes from its runs without odd
    ones.
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
    """The distances from the mean to the two ends of the interval, on the log scale; None if there are too few runs."""
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
    """The extension of a t interval for each unit of skewness, in standard errors over the root of the runs."""
    return (1 + 2 * point**2) / 6


def variance_of_one(fitted: Fit, means: Means, cell: int) -> tuple[float, float]:
    """The variance of a cell's run without its round's effect, and its degrees of freedom."""
    own, own_df = float(means.own[cell]), float(max(means.runs[cell] - 1, 1))
    if math.isnan(own):
        return 0.0, own_df
    if fitted.noisier[cell] or special.fdtrc(own_df, MANY, own / fitted.pooled) < NOISY_P_VALUE:
        return own, own_df
    return float(means.variance[cell]), max(fitted.df, 1.0)


# --- how skewed noise is, by the residuals ----------------------------------------------------------------------------


def _skewness(left: Matrix) -> float:
    """The skewness of all residuals; 0 if they hardly scatter."""
    variance = float(np.nanmean(left**2))
    return 0.0 if variance < VARIANCE_FLOOR else float(np.nanmean(left**3)) / variance**1.5


def _sure_skewness(fitted: Fit, means: Means) -> float:
    """The skewness, or 0 if chance or a single cell may explain it: a t test over cells, 5 % on each side."""
    left = means.residuals[~np.isnan(fitted.cells)]
    of_cells = np.nansum(left**3, axis=1)
    if len(of_cells) < 2:
        return 0.0
    least = t_point(len(of_cells) - 1, SKEWED_P_VALUE) * of_cells.std(ddof=1) / math.sqrt(len(of_cells))
    return _skewness(left) if abs(of_cells.mean()) > least else 0.0


def _skewness_feared(fitted: Fit, means: Means) -> float:
    """Half the skewness to the right that the runs show, even if it is chance: a safety margin for a selected cell.

    With two cells, the residuals mirror each other and show no skewness, so each cell's runs and rounds are used.
    """
    measured = ~np.isnan(fitted.cells)
    left = fitted.log_s - fitted.cells[:, None] if measured.sum() == 2 else means.residuals
    return max(0.0, _skewness(left[measured]) / 2) if measured.sum() > 1 else 0.0
