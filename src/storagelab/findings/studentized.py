"""Critical values of simultaneous tests: Student's t, Tukey's studentized range, Dunnett's maximum. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import special

Vector = NDArray[np.float64]

CAUTION = 0.65
"""With 0, one noisy cell would look slow in 6 to 8 % of experiments; with 1, a tenth fewer 5 % slow-downs would be
found.
"""
CAUTION_ALIKE = 0.6
"""As `CAUTION`, where no cell looks noisier than others: divided by a cell's degrees of freedom, as with few runs a
noisy cell may look quiet. With 0, one noisy cell would look slow in 7 to 8 % of experiments with 3 runs.
"""
MANY = 1e5
"""Beyond this, more degrees of freedom make no difference."""


@lru_cache(maxsize=4096)
def t_point(df: float, alpha: float) -> float:
    """The value that |Student's t| exceeds with probability `alpha`."""
    return float(-special.stdtrit(df, alpha / 2))


def t_tail(t: float, df: float) -> float:
    """P(|Student's t| > t)."""
    return float(2 * special.stdtr(df, -abs(t)))


@dataclass(frozen=True)
class Family:
    """Differences tested together, with an error rate for the whole family.

    "tukey": all differences between `count` rows, whose best was picked by looking at the data, in each of `families`.
    "bonferroni": `count` differences named beforehand. `cautious`: the level of a difference's own test falls with this
    power of their number.
    """

    kind: str
    count: int
    families: int = 1
    cautious: float = CAUTION

    def tail(self, t: float, df: float) -> float:
        """P(any standardised difference of the family exceeds t) if nothing differs."""
        if self.kind == "tukey" and self.count > 2:
            return min(1.0, range_tail(t * math.sqrt(2), self.count, df) * self.families)
        return min(1.0, t_tail(t, df) * self.comparisons)

    def point(self, df: float, alpha: float) -> float:
        """The t whose `tail` is `alpha`."""
        return _point(self, round(df, 1), alpha)

    @property
    def caution(self) -> float:
        """The divisor of the level of a difference's own test; the full number would find nothing in five runs."""
        things = self.count * self.families if self.kind == "tukey" else self.count + 1
        return float((things / 2) ** self.cautious)

    @property
    def comparisons(self) -> int:
        return self.families if self.kind == "tukey" else self.count


def cautious(runs: float, *, alike: bool) -> float:
    """`Family.cautious` of cells with so many runs; `alike`: none looks noisier than others."""
    return min(CAUTION, CAUTION_ALIKE / (runs - 1)) if alike else CAUTION


def tukey(rows: int, families: int = 1, cautious: float = CAUTION) -> Family:
    return Family("tukey", rows, families, cautious)


def bonferroni(comparisons: int) -> Family:
    return Family("bonferroni", comparisons)


@lru_cache(maxsize=4096)
def _point(family: Family, df: float, alpha: float) -> float:
    if family.kind == "bonferroni" or family.count <= 2:
        return t_point(df, alpha / family.comparisons)
    # At least the level of one comparison, at most that of all of them as if they were independent.
    of_one, of_all = (t_point(df, alpha / family.families / times) for times in (1, math.comb(family.count, 2)))
    return _root(lambda t: family.tail(t, df) - alpha, of_one, of_all)


def _root(of: Callable[[float], float], low: float, high: float) -> float:
    from scipy import optimize  # when it is needed, as it takes half a second: every command loads this module

    return float(optimize.brentq(of, 0.999 * low, 1.001 * high, xtol=1e-6))


# ---------------------------------------------------------------------------------------------------------------------
# The studentized range
# ---------------------------------------------------------------------------------------------------------------------


def range_tail(q: float, cells: int, df: float) -> float:
    """P(studentized range of `cells` means > q), `df` degrees of freedom.

    Like scipy.stats.studentized_range.sf, about a hundred times faster: reports of a thousand cells and simulations of
    thousands of experiments need it. The outer integral over log s is a trapezoid rule, which converges fast on a
    smooth bump; the inner one comes from a spline (`_range_tail_known_sd`).
    """
    log_s, weights = _log_sd_density(df)
    return min(1.0, float(weights @ _range_tail_known_sd(cells)(np.minimum(q * np.exp(log_s), 40.0))))


@lru_cache(maxsize=4096)
def _log_sd_density(df: float) -> tuple[Vector, Vector]:
    """Nodes and weights of x = log s, s being an estimated sd over the true one; its density is proportional to
    exp(df (x - e^2x / 2)).
    """
    df = min(df, MANY)
    reach = math.sqrt(30 / df)
    log_s = np.linspace(-30 / df - reach, reach, 241)
    density = np.exp(df * (log_s - np.exp(2 * log_s) / 2 + 0.5))
    return log_s, density / density.sum()


@lru_cache(maxsize=64)
def _range_tail_known_sd(cells: int) -> Callable[[Vector], Vector]:
    """1 - W(w), W = distribution of the range of `cells` standard normals = cells * integral of
    phi(z) (Phi(z) - Phi(z - w))^(cells - 1) over the largest, z (Tukey 1953)."""
    z = np.linspace(-8.5, 8.5, 341)
    w = np.linspace(0, 40, 1201)
    inner = special.ndtr(z) - special.ndtr(z - w[:, None])
    weights = cells * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    return _spline(w, np.clip(1 - inner ** (cells - 1) @ weights, 0.0, 1.0))


def _spline(x: Vector, y: Vector) -> Callable[[Vector], Vector]:
    from scipy import interpolate  # when it is needed, likewise

    return cast("Callable[[Vector], Vector]", interpolate.CubicSpline(x, y))


# ---------------------------------------------------------------------------------------------------------------------
# Dunnett's maximum
# ---------------------------------------------------------------------------------------------------------------------


def maximum_tail(t: float, others: int, df: float) -> float:
    """P(any of `others` means lies more than t standardised differences below one and the same mean): Dunnett 1955,
    one-sided, all means equally exact."""
    log_s, weights = _log_sd_density(df)
    return min(1.0, float(weights @ _maximum_tail_known_sd(others)(np.minimum(t * np.exp(log_s), 20.0))))


@lru_cache(maxsize=4096)
def maximum_point(others: int, df: float, alpha: float) -> float:
    """The t whose `maximum_tail` is `alpha`."""
    # One-sided: t_point takes both sides.
    of_one, of_all = (t_point(df, 2 * alpha / times) for times in (1, others))
    return _root(lambda t: maximum_tail(t, others, df) - alpha, of_one, of_all)


@lru_cache(maxsize=64)
def _maximum_tail_known_sd(others: int) -> Callable[[Vector], Vector]:
    """1 - integral of phi(z) Phi(z + t sqrt 2)^others over the one mean, z."""
    z = np.linspace(-8.5, 8.5, 341)
    t = np.linspace(0, 20, 801)
    inner = special.ndtr(z + t[:, None] * math.sqrt(2))
    weights = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    return _spline(t, np.clip(1 - inner**others @ weights, 0.0, 1.0))
