"""Estimates with intervals from the runs of one cell or from any small sample. Pure.

They need critical values of Student's t, Tukey's studentized range and Dunnett's maximum. The last two are computed
here by the same quadrature. Tests compare them with `scipy.stats`. storagelab does not use `scipy.stats` for this,
because its import needs 1.8 s of CPU time, and each value of its studentized range needs 0.1 to 0.6 s.
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
"""If there are more degrees of freedom than this, their number makes no difference."""
_Z = np.linspace(-8, 8, 161)
_Z_WEIGHTS = np.exp(-(_Z**2) / 2) / math.sqrt(2 * math.pi) * (_Z[1] - _Z[0])


@lru_cache(maxsize=4096)
def t_point(df: float, alpha: float) -> float:
    """The critical value: |Student's t| exceeds it with the probability `alpha`."""
    return float(-special.stdtrit(df, alpha / 2))


@lru_cache(maxsize=4096)
def range_point(count: int, df: float, alpha: float) -> float:
    """The critical value of `count` equal means: with the probability `alpha`, at least one standardised difference of
    two of them exceeds it (Tukey 1953).
    """
    if count <= 2:
        return t_point(df, alpha)

    def below(differences: Vector) -> Vector:
        inner = special.ndtr(_Z) - special.ndtr(_Z - differences[:, None] * math.sqrt(2))
        return np.asarray(count * (inner ** (count - 1) @ _Z_WEIGHTS))

    return _point(below, df, alpha, t_point(df, alpha), t_point(df, alpha / math.comb(count, 2)))


@lru_cache(maxsize=4096)
def maximum_point(others: int, df: float, alpha: float) -> float:
    """The one-sided critical value of a mean and `others` equal means: with the probability `alpha`, the standardised
    difference from at least one of them exceeds it (Dunnett 1955).
    """
    if others <= 1:
        return t_point(df, 2 * alpha)

    def below(differences: Vector) -> Vector:
        return np.asarray(special.ndtr(_Z + differences[:, None] * math.sqrt(2)) ** others @ _Z_WEIGHTS)

    return _point(below, df, alpha, t_point(df, 2 * alpha), t_point(df, 2 * alpha / others))


def _point(below: Callable[[Vector], Vector], df: float, alpha: float, low: float, high: float) -> float:
    """The value t with P(t s > a standardised difference) = 1 - `alpha`. s is the estimated sd divided by the true sd.

    t is searched between `low`, the value for one comparison, and `high`, the value for independent comparisons.
    """
    log_s, weights = _log_sd_density(df)
    for _ in range(28):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - weights @ below(middle * np.exp(log_s)) > alpha else (low, middle)
    return (low + high) / 2


@lru_cache(maxsize=4096)
def _log_sd_density(df: float) -> tuple[Vector, Vector]:
    """The nodes and weights of x = log s. The density of x is proportional to exp(df (x - e^2x / 2))."""
    df = min(df, MANY)
    reach = math.sqrt(30 / df)
    log_s = np.linspace(-30 / df - reach, reach, 81)
    density = np.exp(df * (log_s - np.exp(2 * log_s) / 2 + 0.5))
    return log_s, density / density.sum()


# --- estimates --------------------------------------------------------------------------------------------------------

VALUES_LEAST = 3
"""The least number of values for an interval. With fewer values, an interval depends more on Student's t than on the
runs: with two values, its half width is 13 standard errors.
"""

FURTHEST = 5 * math.log(MOST)
"""Log times can't differ by more than this, because figures are below `MOST`."""


def from_logs(value: float, down: float, up: float | None = None) -> Estimate:
    """e^`value`, with the 95 % interval from e^(value - down) to e^(value + up). If `up` is None, it equals `down`.

    If the interval is wider than the possible range of figures, the estimate has no interval, because the runs give no
    bounds.
    """
    up = down if up is None else up
    if not max(abs(value - down), abs(value + up)) <= FURTHEST:
        return Estimate(value=math.exp(value))
    return Estimate(value=math.exp(value), low=math.exp(value - down), high=math.exp(value + up), confidence=CONFIDENCE)


def mean_estimate(values: Sequence[float]) -> Estimate:
    """The mean with its 95 % t interval. With fewer than three values, there is no interval."""
    mean = statistics.fmean(values)
    if len(values) < VALUES_LEAST:
        return Estimate(value=mean)
    half = t_point(len(values) - 1, ALPHA) * sd(values) / math.sqrt(len(values))
    return Estimate(value=mean, low=mean - half, high=mean + half, confidence=CONFIDENCE)


def positive_mean_estimate(values: Sequence[float]) -> Estimate:
    """The arithmetic mean of quantities that can't be negative. The 95 % interval of the mean can't be negative,
    either.

    The interval is a t interval of the logarithm of the mean, from mean / f to mean * f. The standard error of this
    logarithm is the standard error of the mean divided by the mean (delta method). If the values scatter by only a few
    per cent, the interval equals the usual t interval in the shown digits. If there are fewer than three values, the
    mean has no interval.
    """
    plain = mean_estimate(values)
    if plain.high is None or plain.value <= 0:
        return Estimate(value=plain.value)
    factor = math.exp((plain.high - plain.value) / plain.value)
    return Estimate(value=plain.value, low=plain.value / factor, high=plain.value * factor, confidence=CONFIDENCE)


def sd(values: Sequence[float]) -> float:
    """The standard deviation of a sample. `statistics.stdev` is not used, because it computes with exact fractions.
    This would take a tenth of the time of a large report.
    """
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


# --- the change of a quantity from the runs of one cell to those of another, or averaged over pairs of cells ----------

DF_LEAST = 2.0
"""The least number of degrees of freedom for a useful interval."""


class Change(NamedTuple):
    """The change between the two cells of a pair: the two means, the variance of each, and their degrees of freedom."""

    before: float
    after: float
    variances: tuple[float, float] = (0.0, 0.0)
    dfs: tuple[int, int] = (1, 1)


NONE = Change(0.0, 0.0)


def change(before: Sequence[float], after: Sequence[float]) -> Change:
    """The change from the runs of one cell to the runs of another cell."""
    return Change(
        sum(before) / len(before), sum(after) / len(after), (_variance(before), _variance(after)),
        (max(1, len(before) - 1), max(1, len(after) - 1)),
    )  # fmt: skip


def _variance(values: Sequence[float]) -> float:
    """The variance of the mean of the values. Returns NaN for a single value."""
    return sd(values) ** 2 / len(values) if len(values) > 1 else math.nan


def mean(rows: Sequence[Change]) -> tuple[float, float]:
    """The mean before the change and the mean after it, both averaged over the pairs."""
    return sum(row.before for row in rows) / len(rows), sum(row.after for row in rows) / len(rows)


def estimate(rows: Sequence[Change], alpha: float) -> Estimate:
    """The mean change of the pairs with its interval. The error probability of the interval is `alpha`.

    There is no interval if `alpha` is 0 or if there are too few runs. The samples must be independent (Welch 1947;
    degrees of freedom by Satterthwaite 1946).
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
    """Whether the interval shows a difference: it must exist and not contain 0."""
    return one.low is not None and one.high is not None and not one.low <= 0 <= one.high
