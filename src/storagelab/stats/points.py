"""Critical values: Student's t, Tukey's studentized range, Dunnett's maximum. Pure.

The last two are one quadrature, which tests compare with `scipy.stats`. That module takes 1.8 s of CPU time to import,
and 0.1 to 0.6 s for each value of the studentized range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

Vector = NDArray[np.float64]

CONFIDENCE = 0.95
ALPHA = 1 - CONFIDENCE
MANY = 1e5
"""Beyond this, more degrees of freedom make no difference."""
_Z = np.linspace(-8, 8, 161)
_Z_WEIGHTS = np.exp(-(_Z**2) / 2) / math.sqrt(2 * math.pi) * (_Z[1] - _Z[0])


@lru_cache(maxsize=4096)
def t_point(df: float, alpha: float) -> float:
    """The value that |Student's t| exceeds with probability `alpha`."""
    return float(-special.stdtrit(df, alpha / 2))


@lru_cache(maxsize=4096)
def range_point(count: int, df: float, alpha: float) -> float:
    """The standardised difference that any two of `count` equal means exceed with probability `alpha` (Tukey 1953)."""
    if count <= 2:
        return t_point(df, alpha)

    def below(differences: Vector) -> Vector:
        inner = special.ndtr(_Z) - special.ndtr(_Z - differences[:, None] * math.sqrt(2))
        return np.asarray(count * (inner ** (count - 1) @ _Z_WEIGHTS))

    return _point(below, df, alpha, t_point(df, alpha), t_point(df, alpha / math.comb(count, 2)))


@lru_cache(maxsize=4096)
def maximum_point(others: int, df: float, alpha: float) -> float:
    """The standardised difference by which one mean exceeds any of `others` equal ones with probability `alpha`: one
    side (Dunnett 1955)."""
    if others <= 1:
        return t_point(df, 2 * alpha)

    def below(differences: Vector) -> Vector:
        return np.asarray(special.ndtr(_Z + differences[:, None] * math.sqrt(2)) ** others @ _Z_WEIGHTS)

    return _point(below, df, alpha, t_point(df, 2 * alpha), t_point(df, 2 * alpha / others))


def _point(below: Callable[[Vector], Vector], df: float, alpha: float, low: float, high: float) -> float:
    """The t with P(t s > a standardised difference) = 1 - `alpha`, where s is an estimated sd over the true one. The
    value lies between the value for one comparison and the value for independent comparisons.
    """
    log_s, weights = _log_sd_density(df)
    for _ in range(28):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - weights @ below(middle * np.exp(log_s)) > alpha else (low, middle)
    return (low + high) / 2


@lru_cache(maxsize=4096)
def _log_sd_density(df: float) -> tuple[Vector, Vector]:
    """Nodes and weights of x = log s; its density is proportional to exp(df (x - e^2x / 2))."""
    df = min(df, MANY)
    reach = math.sqrt(30 / df)
    log_s = np.linspace(-30 / df - reach, reach, 81)
    density = np.exp(df * (log_s - np.exp(2 * log_s) / 2 + 0.5))
    return log_s, density / density.sum()
