"""Whether the load changed in the middle of a capture, and when.

The rate is split where its two sides differ most. That is a change if the sides differ by more than noise as slow as
that of the rate itself would make them, and by an amount that matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

_FEWEST = 20
"""Intervals that a judgement needs."""
_AT_EACH_END = 5
"""Intervals on each side of a change."""
_CERTAIN = 6.0
"""Standard errors between the two sides. Of 1,000 drawn rates without a change (20 to 600 intervals, spread 10 or 30
%), at most 0.1 % come so far if neighbours correlate by up to 0.5, 2.8 % at 0.8, and 5.5 % at 0.9; with bursts of
checkpoints none. A rate that doubles in the middle is found in 87 to 100 % with a spread of 10 %; with 30 % only in
long captures.
"""
_MATTERS = 0.25
"""A change is at least this share of the larger side."""


class LoadChange(NamedTuple):
    """The rate before and after, and the interval in which it changed."""

    interval: int
    before: float
    after: float


def load_change(rates: Sequence[float]) -> LoadChange | None:
    """The largest change of a rate by interval; None if noise explains it."""
    rate = np.asarray(rates, float)
    n = len(rate)
    if n < _FEWEST or not rate.any():
        return None
    at_least = max(_AT_EACH_END, n // 6)
    sums = np.concatenate([[0.0], np.cumsum(rate)])
    splits = np.arange(at_least, n - at_least + 1)
    left, right = sums[splits] / splits, (sums[n] - sums[splits]) / (n - splits)
    weight = np.sqrt(splits * (n - splits) / n)
    best = int(splits[np.argmax(np.abs(left - right) * weight)])
    before, after = float(rate[:best].mean()), float(rate[best:].mean())
    if abs(before - after) < _MATTERS * max(before, after):
        return None
    # The shorter side may lie within one swing, and then tells nothing of the noise.
    noise = max(_long_run_variance(rate[:best]), _long_run_variance(rate[best:]))
    error = np.sqrt(noise / best + noise / (n - best))
    return LoadChange(best, before, after) if abs(before - after) > _CERTAIN * error else None


def _long_run_variance(part: np.ndarray[Any, np.dtype[Any]]) -> float:
    """The variance of a mean of many, for each value: neighbours that are alike tell less than independent ones. At
    least that of counting.
    """
    off = part - part.mean()
    n, variance = len(part), float(np.mean(off**2))
    reach = min(n // 3, int(2 * n ** (1 / 3)) + 1)
    total = variance
    for lag in range(1, reach + 1):
        total += 2 * (1 - lag / (reach + 1)) * float(np.dot(off[lag:], off[:-lag])) / n
    # Few values tell their own likeness badly, and too low.
    return max(total, variance, float(part.mean())) * n / max(1, n - reach - 1)
