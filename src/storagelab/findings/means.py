"""The mean time of one cell, and what it may be off by. Pure."""

from __future__ import annotations

import math

from scipy import special

from storagelab.findings import stats
from storagelab.findings.between_blocks import BetweenBlocks
from storagelab.findings.model import Estimate
from storagelab.findings.samples import ALPHA, VALUES_LEAST, from_logs
from storagelab.findings.studentized import MANY, t_point

NOISY_P_VALUE = 0.01
"""A cell noisier than chance makes one in this many typical cells gets an interval from its own scatter alone."""


def mean_time(fitted: stats.Fit, cell: int, picked_from: int = 1) -> Estimate:
    """The geometric mean time of a cell, adjusted for missed rounds, with its 95 % interval; none below three runs.

    Its variance is that of the round effects, which all cells share, and of the cell's own scatter (degrees of freedom
    by Satterthwaite 1946). A cell picked as the fastest of `picked_from` is faster here than in the long run; its
    interval reaches further up by as much as the fastest of that many equal cells can be too fast (Bonferroni).

    Where noise is surely skewed, the interval reaches further to the side of the rare runs by Johnson's adjustment of t
    (1978, Journal of the American Statistical Association 73): a few runs may hold none of them. The picked cell may be
    the fastest as it holds none, so its interval reaches up by that also where runs are too few to show surely that
    noise is skewed. Odd runs only add time, so the interval of a cell that has some reaches down no further than that
    of its other runs.
    """
    if fitted.between is not None and fitted.between.counts[cell] > 1:
        return _mean_of_preparations(fitted.between, cell, picked_from)
    value, runs = float(fitted.cells[cell]), int(fitted.runs[cell])
    if runs < VALUES_LEAST or math.isnan(fitted.of_rounds[cell]):
        return Estimate(value=math.exp(value))
    variance, df = variance_of_one(fitted, cell)
    of_rounds, of_cell = float(fitted.of_rounds[cell]) / runs, variance * (1 - 1 / fitted.peers[cell]) / runs
    total_df = (of_rounds + of_cell) ** 2 / max(of_rounds**2 / (runs - 1) + of_cell**2 / df, 1e-300)
    total_df = round(max(total_df, 1.0), 1)
    point = t_point(total_df, ALPHA)
    down = point * math.sqrt(of_rounds + of_cell)
    picked = t_point(round(df, 1), ALPHA / picked_from) ** 2 - t_point(round(df, 1), ALPHA) ** 2
    up = math.hypot(down, math.sqrt(picked * of_cell))
    lean = fitted.skewness * _adjustment(point) * math.sqrt(of_cell / runs)
    feared = fitted.skewness_feared * _adjustment(t_point(total_df, ALPHA / picked_from)) * math.sqrt(of_cell / runs)
    down, up = down + max(-lean, 0.0), up + max(lean, feared if picked_from > 1 else 0.0)
    if fitted.calm is not None and (low := mean_time(fitted.calm, cell).low) is not None:
        down = min(down, value - math.log(low))
    return from_logs(value, down, up)


def _adjustment(point: float) -> float:
    """By how much a t interval reaches further for each unit of skewness, in standard errors over the root of the
    runs.
    """
    return (1 + 2 * point**2) / 6


def _mean_of_preparations(between: BetweenBlocks, cell: int, picked_from: int) -> Estimate:
    """The mean of a cell that was prepared several times, by the scatter of its preparations."""
    one = between.mean(cell)
    down, picked = (t_point(round(one.df, 1), ALPHA / many) * one.error for many in (1, picked_from))
    return from_logs(one.log_s, down, picked)


def variance_of_one(fitted: stats.Fit, cell: int) -> tuple[float, float]:
    """The variance of a cell's run without its round's effect, and its degrees of freedom."""
    own, own_df = float(fitted.own[cell]), float(fitted.runs[cell] - 1)
    if math.isnan(own):
        return 0.0, own_df
    if special.fdtrc(own_df, MANY, own / fitted.typical) < NOISY_P_VALUE:
        return own, own_df
    return float(fitted.variance[cell]), min(fitted.prior_df + own_df, float(max(fitted.df, 1)))
