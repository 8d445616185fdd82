"""The change of a quantity from the runs of one cell to those of another, or averaged over pairs of cells. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from storagelab.findings.model import Estimate
from storagelab.findings.samples import sd
from storagelab.findings.studentized import MANY, t_point

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
