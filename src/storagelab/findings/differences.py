"""How far two cells, or two levels of a factor, are apart, and what that may be off by. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from storagelab.findings.model import Estimate
from storagelab.findings.samples import ALPHA, CONFIDENCE, from_logs
from storagelab.findings.studentized import Family, t_point, t_tail


@dataclass(frozen=True)
class Difference:
    """A ratio of elapsed times with its simultaneous interval, which leaves 1 out if and only if `p_value` < 0.05.

    Neither exists if fewer than two rounds are common. Runs so wild that they bound nothing give a p-value alone. A
    test at a stricter level than 5 % has its p-value scaled to that level, and a correspondingly wider interval.
    `pairs` = the number of within-round ratios behind it. Up to `margin`, on the log scale, it doesn't matter.
    """

    ratio: Estimate
    p_value: float | None
    pairs: int
    margin: float = 0.0

    @property
    def distinguishable(self) -> bool:
        return self.p_value is not None and self.p_value < ALPHA and abs(math.log(self.ratio.value)) > self.margin


def between(one: Difference | None, least: Difference | None, most: Difference | None) -> Difference | None:
    """The difference, from the `least` that it may be to the `most`."""
    if one is None or least is None or most is None or least.p_value is None or most.p_value is None:
        return one
    value, low, high = one.ratio.value, least.ratio.low, most.ratio.high
    sense = least if min(value, least.ratio.value) > 1 else most if max(value, most.ratio.value) < 1 else None
    ratio = Estimate(value=value)
    if low is not None and high is not None:
        ratio = Estimate(value=value, low=min(low, value), high=max(high, value), confidence=CONFIDENCE)
    return Difference(ratio, 1.0 if sense is None else sense.p_value, one.pairs)


def by_ticks(one: Difference, tick: float, margin: float) -> Difference:
    """The difference as a ticking clock can measure it: uncertain by at least one tick."""
    value = math.log(one.ratio.value)
    ratio, p_value = one.ratio, 1.0 if one.p_value is not None and abs(value) <= tick else one.p_value
    if ratio.low is not None and ratio.high is not None and tick:
        low, high = min(math.log(ratio.low), value - tick), max(math.log(ratio.high), value + tick)
        ratio = from_logs(value, value - low, high - value)
    return Difference(ratio, p_value, one.pairs, margin)


@dataclass(frozen=True)
class Error:
    """A standard error and its degrees of freedom."""

    error: float
    df: float


def judged(value: float, pairs: int, errors: Sequence[Error], own: Error, family: Family, alpha: float) -> Difference:
    """A mean log ratio, tested against each of `errors` as one of the family, and cautiously against its own error."""
    own_df = round(own.df, 1)
    half = t_point(own_df, alpha / family.caution) * own.error
    p_value = min(1.0, t_tail(value / own.error, own_df) * family.caution)
    for one in errors:
        half = max(half, family.point(one.df, alpha) * one.error)
        p_value = max(p_value, family.tail(abs(value) / one.error, round(one.df, 1)))
    return Difference(from_logs(value, half), min(1.0, p_value * ALPHA / alpha), pairs)
