"""Each cell's variance, shrunk towards that of the typical cell. Pure.

Smyth 2004, "Linear models and empirical Bayes methods", Stat. Appl. Genet. Mol. Biol. 3(1), article 3.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from storagelab.findings.studentized import MANY

Matrix = NDArray[np.float64]


def moderated(own: Matrix, df: Matrix) -> tuple[Matrix, float, float]:
    """Each cell's variance, shrunk towards the typical one; the typical one; the degrees of freedom that shrinking adds."""
    known = ~np.isnan(own)
    if not known.any():
        return own, math.nan, MANY
    own, df = own[known], df[known]
    logs = np.log(own) - special.digamma(df / 2) + np.log(df / 2)
    spread = np.var(logs, ddof=1) - np.mean(special.polygamma(1, df / 2)) if len(own) > 1 else 0.0
    if spread <= 1e-4:
        prior_df, typical = MANY, float(np.average(own, weights=df))
    else:
        prior_df = 2 * _inverse_trigamma(float(spread))
        typical = math.exp(np.mean(logs) + special.digamma(prior_df / 2) - math.log(prior_df / 2))
    variance = np.full(len(known), typical)
    variance[known] = (prior_df * typical + df * own) / (prior_df + df)
    return variance, typical, prior_df


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
