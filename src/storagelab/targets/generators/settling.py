"""Whether a load's throughput has settled: no trend is left in it that would move the part of a run that counts. Pure.

Lines are fitted through the last seconds, over windows of several lengths: a short one sees that a steep climb is over, and
only a long one averages out noise. Throughput has settled once the line of one window is surely so flat that it would move by
less than 2 % over the counted part. docs/records/monte-carlo.md says why, and what came out on drawn loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Numbers = NDArray[np.float64]

BAND = 0.02
"""How much throughput may still move over the counted part, as a share of it."""
LEAST_S = 10
"""No window is shorter, so no warm-up is."""
_LONGER = 1.3
"""Each window is longer than the one before by this factor."""
_CONFIDENCE = 0.9
_NOTHING = 1e-9
_MOST_AUTOCORRELATION = 0.95


class Trend(NamedTuple):
    """How much throughput would move over the counted part, as a share of its mean, and the half-width of that, in the
    window that bounds it best."""

    change: Numbers
    half: Numbers

    @property
    def bound(self) -> Numbers:
        return np.abs(self.change) + self.half

    @property
    def settled(self) -> NDArray[np.bool_]:
        return self.bound < BAND


def trend(rates: Numbers, counted_s: float) -> Trend | None:
    """At the end of one or several series, whose last axis is throughput second by second; None if they are too short."""
    best: Trend | None = None
    for length in _lengths(rates.shape[-1]):
        here = _line(rates[..., -length:], counted_s)
        if best is None:
            best = here
        else:
            nearer = here.bound < best.bound
            best = Trend(*(np.where(nearer, new, old) for new, old in zip(here, best, strict=True)))
    return best


def _lengths(seconds: int) -> Iterator[int]:
    length = float(LEAST_S)
    while round(length) <= seconds:
        yield round(length)
        length *= _LONGER


def _line(window: Numbers, counted_s: float) -> Trend:
    """The least-squares line through one window. Neighbouring seconds are alike, which makes a line less sure than its
    residuals look: their autocorrelation widens its interval and takes degrees of freedom from it."""
    number = window.shape[-1]
    at = np.arange(number) - (number - 1) / 2
    mean = window.mean(-1)
    slope = window @ at / (at @ at)
    residuals = window - mean[..., None] - slope[..., None] * at
    squares = np.einsum("...i,...i", residuals, residuals) + np.finfo(float).tiny
    alike = np.einsum("...i,...i", residuals[..., 1:], residuals[..., :-1]) / squares
    alike += (2 + 3 * np.maximum(alike, 0)) / number  # residuals of a fitted line look less alike than they are
    alike = np.clip(alike, 0, _MOST_AUTOCORRELATION)
    wider = (1 + alike) / (1 - alike)
    freedom = np.maximum(number / wider - 2, 1)
    error = np.sqrt(squares / (number - 2) / (at @ at) * wider)
    share = counted_s / np.maximum(mean, _NOTHING)
    standstill = np.where(mean > _NOTHING, 0.0, np.inf)  # where nothing is done, nothing has settled
    return Trend(slope * share, stdtrit(freedom, _CONFIDENCE) * error * share + standstill)
