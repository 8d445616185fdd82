"""Runs of one cell, or any small sample -> estimates with intervals. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from storagelab.model.values import MOST, Estimate
from storagelab.stats.points import ALPHA, CONFIDENCE, MANY, t_point

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

    It is the t interval of the logarithm of the mean, whose standard error is that of the mean over the mean (delta
    method): mean / f to mean * f. If values scatter by a few per cent, it equals the usual t interval in the digits
    shown. None below three values.
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
    """The variance of their mean; nan for one value."""
    return sd(values) ** 2 / len(values) if len(values) > 1 else math.nan


def mean(rows: Sequence[Change]) -> tuple[float, float]:
    """Before and after, averaged over the pairs."""
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
