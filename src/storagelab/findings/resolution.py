"""The least difference of times that a verdict may rest on: what matters to the reader, and what clocks resolve. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from storagelab.findings.stats import Fit

MATTERS = 0.005
"""A layout that is slower by a smaller share is not worth a choice, unless the spec says what is (`indifferent`)."""
TIES_LEAST = 0.5
"""If so many runs take exactly as long as another one, a clock with coarse ticks made them equal."""
_ROUNDED_UP = 1 + 1e-6
"""Times that are one tick apart are so in the last digit, too."""
_STEPS = 4
"""Two times next to each other may be so many ticks apart."""


def resolved(fitted: Fit, tick: float, margin: float | None = None) -> Fit:
    """The fit whose differences are at least off by a `tick`, as a share of the time, and matter above the `margin`."""
    return replace(
        fitted, tick=_ROUNDED_UP * math.log1p(tick), margin=math.log1p(MATTERS if margin is None else margin)
    )


def tick_of(times_s: Sequence[float]) -> float:
    """The tick of the clock that measured these times, as a share of the shortest; 0 if it is too fine to show.

    Ticks show where many times are equal to the last digit, and all are multiples of the same step.
    """
    values = Counter(float(f"{time_s:.9g}") for time_s in times_s if time_s > 0)
    ties = sum(number for number in values.values() if number > 1)
    if len(values) < 2 or ties < TIES_LEAST * values.total():
        return 0.0
    different = np.array(sorted(values))
    gap = float(np.diff(different).min())
    for step in (gap / parts for parts in range(1, _STEPS + 1)):
        multiples = different / step
        if np.abs(multiples - np.round(multiples)).max() < 1e-3:
            return step / float(different[0])
    return 0.0


def grain_of(amounts: Sequence[int]) -> float:
    """The share by which a run of a set time is off, as only whole pieces of work are counted."""
    return 1 / min(amounts) if amounts and min(amounts) > 0 else 0.0
