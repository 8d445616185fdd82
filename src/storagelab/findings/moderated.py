"""Each cell's variance: one for all cells where none is surely noisier, or shrunk towards that of the typical cell.
Pure.

Cochran 1941, "The distribution of the largest of a set of estimated variances", Annals of Eugenics 11.
Smyth 2004, "Linear models and empirical Bayes methods", Stat. Appl. Genet. Mol. Biol. 3(1), article 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from storagelab.findings.studentized import MANY, t_point

Matrix = NDArray[np.float64]

ALIKE_P_VALUE = 0.1
"""Cells whose largest variance is as large by chance more often than this share one variance."""


@dataclass(frozen=True)
class Moderated:
    """The `variance` of each cell and of the `typical` one, and the degrees of freedom that other cells add to a cell's
    own; `alike`: all cells share one variance."""

    variance: Matrix
    typical: float
    prior_df: float
    alike: bool


def moderated(own: Matrix, df: Matrix) -> Moderated:
    """The variances of cells from their `own` ones, NaN where a cell has none."""
    known = ~np.isnan(own)
    if not known.any():
        return Moderated(own, math.nan, MANY, alike=False)
    own, df = own[known], df[known]
    if _alike(own, df):
        typical = float(np.average(own, weights=df))
        return Moderated(np.full(len(known), typical), typical, MANY, alike=True)
    logs = np.log(own) - special.digamma(df / 2) + np.log(df / 2)
    spread = np.var(logs, ddof=1) - np.mean(special.polygamma(1, df / 2)) if len(own) > 1 else 0.0
    if spread <= 1e-4:
        prior_df, typical = MANY, float(np.average(own, weights=df))
    else:
        prior_df = 2 * _inverse_trigamma(float(spread))
        typical = math.exp(np.mean(logs) + special.digamma(prior_df / 2) - math.log(prior_df / 2))
    variance = np.full(len(known), typical)
    variance[known] = (prior_df * typical + df * own) / (prior_df + df)
    return Moderated(variance, typical, prior_df, alike=False)


def _alike(own: Matrix, df: Matrix) -> bool:
    """Cochran's test: is the largest variance, against that of all other cells, one that chance makes?"""
    if len(own) < 2:
        return True
    sums, rest_df = own * df, df.sum() - df
    p_values = special.fdtrc(df, rest_df, own / ((sums.sum() - sums) / rest_df))
    return float(p_values.min()) * len(own) > ALIKE_P_VALUE


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


# --- how skewed noise is, by the residuals of a fit -------------------------------------------------------------------

SKEWED_P_VALUE = 0.1
"""Residuals whose third moments differ from 0 by chance no more often than this are skewed."""


def skewness_of(left: Matrix, floor: float) -> float:
    """The skewness of all residuals; 0 if their variance is below `floor`."""
    variance = float(np.nanmean(left**2))
    return 0.0 if variance < floor else float(np.nanmean(left**3)) / variance**1.5


def sure_skewness_of(left: Matrix, floor: float) -> float:
    """The same; 0 also where chance or a single cell may explain it: a t test over cells, 5 % a side."""
    of_cells = np.nansum(left**3, axis=1)
    if len(of_cells) < 2:
        return 0.0
    least = t_point(len(of_cells) - 1, SKEWED_P_VALUE) * of_cells.std(ddof=1) / math.sqrt(len(of_cells))
    return skewness_of(left, floor) if abs(of_cells.mean()) > least else 0.0
