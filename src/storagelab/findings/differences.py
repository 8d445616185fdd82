"""How far two cells, or two levels of a factor, are apart, and what that may be off by. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from storagelab.findings.model import Estimate
from storagelab.findings.samples import ALPHA, CONFIDENCE, from_logs


@dataclass(frozen=True)
class Difference:
    """A ratio of elapsed times with its simultaneous interval, which leaves 1 out if and only if `p_value` < 0.05.

    Neither exists if fewer than two rounds are common. Runs so wild that they bound nothing give a p-value alone. A test at a
    stricter level than 5 % has its p-value scaled to that level, and a correspondingly wider interval. `pairs` = the number
    of within-round ratios behind it. Up to `margin`, on the log scale, it doesn't matter.
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
