"""Runs of one cell, or any small sample -> estimates with intervals. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from storagelab.findings.model import Estimate, Point, Sample
from storagelab.findings.studentized import t_point
from storagelab.model.values import MOST

CONFIDENCE = 0.95
ALPHA = 1 - CONFIDENCE
VALUES_LEAST = 3
"""With fewer values, an interval reflects Student's t more than the runs: for two values it is 13 standard errors
wide.
"""

KNOWN = 2.0
"""A bound above this factor says no more than that it is not known how much longer one takes than the other."""

FURTHEST = 5 * math.log(MOST)
"""No sure difference of log times has an interval that reaches so far, as figures are below `MOST`."""


def from_logs(value: float, down: float, up: float | None = None) -> Estimate:
    """e^`value` with the 95 % interval from e^(value - down) to e^(value + up); `up` is `down` if not given.

    An interval wider than any two figures can be apart has no ends: the runs don't bound the value.
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


def summarise(points: Sequence[Point]) -> Sample | None:
    """Summarises a quantity over the runs of a cell; None without runs."""
    values = [point.value for point in points]
    if not values:
        return None
    return Sample(
        mean=positive_mean_estimate(values),
        median=statistics.median(values),
        sd=sd(values) if len(values) > 1 else None,
        minimum=min(values),
        maximum=max(values),
        points=tuple(points),
    )
