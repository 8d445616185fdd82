"""Estimates with intervals from the runs of one cell or any small sample, and the critical values that they need:
Student's t, Tukey's studentized range, Dunnett's maximum. Pure.

The last two are one quadrature, which tests compare with `scipy.stats`. That module takes 1.8 s of CPU time to import,
and 0.1 to 0.6 s for each value of the studentized range.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from storagelab.model.values import MOST, Estimate

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
    """The standardised difference by which one mean exceeds any of `others` equal means with probability `alpha`,
    one-sided (Dunnett 1955)."""
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


# --- estimates --------------------------------------------------------------------------------------------------------

VALUES_LEAST = 3
"""With fewer values, an interval depends more on Student's t than on the runs: for two values it is 13 standard errors
wide.
"""

FURTHEST = 5 * math.log(MOST)
"""Log times can't differ by more than this, because figures are below `MOST`."""


def from_logs(value: float, down: float, up: float | None = None) -> Estimate:
    """e^`value` with the 95 % interval from e^(value - down) to e^(value + up); `up` is `down` if not given.

    If an interval is wider than the possible range of figures, it has no ends: the runs don't bound the value.
    """
    up = down if up is None else up
    if not max(abs(value - down), abs(value + up)) <= FURTHEST:
        return Estimate(value=math.exp(value))
    return Estimate(value=math.exp(value), low=math.exp(value - down), high=math.exp(value + up), confidence=CONFIDENCE)


def mean_estimate(values: Sequence[float]) -> Estimate:
    """The mean with its 95 % t interval; no interval below three values."""
    mean = statistics.fmean(values)
    if len(values) < VALUES_LEAST:
        return Estimate(value=mean)
    half = t_point(len(values) - 1, ALPHA) * sd(values) / math.sqrt(len(values))
    return Estimate(value=mean, low=mean - half, high=mean + half, confidence=CONFIDENCE)


def positive_mean_estimate(values: Sequence[float]) -> Estimate:
    """The arithmetic mean of quantities that can't be negative, with a 95 % interval that can't be negative, either.

    It is the t interval of the logarithm of the mean, from mean / f to mean * f. The standard error of this logarithm
    is the mean's standard error divided by the mean (delta method). If values scatter by a few per cent, it equals the
    usual t interval in the digits shown. None below three values.
    """
    plain = mean_estimate(values)
    if plain.high is None or plain.value <= 0:
        return Estimate(value=plain.value)
    factor = math.exp((plain.high - plain.value) / plain.value)
    return Estimate(value=plain.value, low=plain.value / factor, high=plain.value * factor, confidence=CONFIDENCE)


def sd(values: Sequence[float]) -> float:
    """The standard deviation of a sample. `statistics.stdev` is exact in fractions, and would take a tenth of a
    large report's time.
    """
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


# --- the change of a quantity from the runs of one cell to those of another, or averaged over pairs of cells ----------

DF_LEAST = 2.0
"""With fewer degrees of freedom, an interval means nothing."""


class Change(NamedTuple):
    """One pair's change: the two means, the variance of each, and their degrees of freedom."""

    before: float
    after: float
    variances: tuple[float, float] = (0.0, 0.0)
    dfs: tuple[int, int] = (1, 1)


NONE = Change(0.0, 0.0)


def change(before: Sequence[float], after: Sequence[float]) -> Change:
    """The change from the runs of one cell to those of another."""
    return Change(
        sum(before) / len(before), sum(after) / len(after), (_variance(before), _variance(after)),
        (max(1, len(before) - 1), max(1, len(after) - 1)),
    )  # fmt: skip


def _variance(values: Sequence[float]) -> float:
    """The variance of the values' mean; nan for one value."""
    return sd(values) ** 2 / len(values) if len(values) > 1 else math.nan


def mean(rows: Sequence[Change]) -> tuple[float, float]:
    """The means before and after, averaged over the pairs."""
    return sum(row.before for row in rows) / len(rows), sum(row.after for row in rows) / len(rows)


def estimate(rows: Sequence[Change], alpha: float) -> Estimate:
    """The mean change over the pairs with its interval, whose error is `alpha`; no interval if `alpha` is 0 or there
    are too few runs.

    The samples are independent (Welch 1947; degrees of freedom by Satterthwaite 1946).
    """
    before, after = mean(rows)
    value = after - before
    parts = [
        (variance / len(rows) ** 2, df) for row in rows for variance, df in zip(row.variances, row.dfs, strict=True)
    ]
    variance = sum(part for part, _ in parts)
    if math.isnan(variance) or not alpha:
        return Estimate(value=value)
    spread = sum(part**2 / df for part, df in parts)
    df = min(variance**2 / spread, MANY) if spread else MANY
    if df < DF_LEAST:
        return Estimate(value=value)
    half = t_point(round(df, 1), alpha) * math.sqrt(variance)
    return Estimate(value=value, low=value - half, high=value + half)


def leaves_out_zero(one: Estimate) -> bool:
    """Whether an interval shows a difference."""
    return one.low is not None and one.high is not None and not one.low <= 0 <= one.high
