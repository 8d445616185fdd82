"""Steady state by the storage industry's rule (SNIA, Solid State Storage Performance Test Specification): over five
rounds the rate stays within 20 % of its mean, and the fitted line changes by at most 10 % of it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from storagelab.model.measurement import Measurement

ROUNDS = 5
MOST_EXCURSION = 0.20
MOST_SLOPE = 0.10
_ROUNDS_OF_A_RUN = 10
RATE = "requests_per_s"
"""The column of a run's series that is judged."""


class Steadiness(NamedTuple):
    """Of five rounds, as shares of their mean: the range of the rate, and the change of the fitted line."""

    excursion: float
    slope: float

    @property
    def steady(self) -> bool:
        return self.excursion <= MOST_EXCURSION and self.slope <= MOST_SLOPE


def steadiness(rates: Sequence[float]) -> Steadiness | None:
    """The steadiness of the last five rounds; None if there are fewer, or nothing was done in them."""
    window = np.asarray(rates[-ROUNDS:], dtype=float)
    if len(window) < ROUNDS or window.mean() <= 0:
        return None
    line = float(np.polyfit(np.arange(ROUNDS), window, 1)[0])
    return Steadiness(float(np.ptp(window) / window.mean()), abs(line) * (ROUNDS - 1) / float(window.mean()))


def rounds_of(run: Measurement) -> list[float]:
    """The rounds of one run: tenths of its series, or single seconds of a short one. The remainder at its beginning
    does not count.
    """
    rates = [rate or 0.0 for rate in run.series.columns.get(RATE, ())]
    length = max(1, len(rates) // _ROUNDS_OF_A_RUN)
    whole = len(rates) // length * length
    return (
        [float(part.mean()) for part in np.split(np.asarray(rates[len(rates) - whole :]), whole // length)]
        if whole
        else []
    )


def is_steady(runs: Sequence[Measurement], *, simulated: bool = False) -> bool | None:
    """Whether each run of a cell ended in steady state; for runs without a series, whether the repetitions did. None if
    there are fewer than five rounds. Of `simulated` runs, the repetitions come first: a drive keeps its state from run
    to run, and its rate within a run goes in steps if its life is scaled down.
    """
    first, then = (_by_repetitions, _by_series) if simulated else (_by_series, _by_repetitions)
    judged = first(runs)
    return then(runs) if judged is None else judged


def _by_series(runs: Sequence[Measurement]) -> bool | None:
    of_runs = [steadiness(rounds_of(run)) for run in runs]
    return all(one is not None and one.steady for one in of_runs) if of_runs and None not in of_runs else None


def _by_repetitions(runs: Sequence[Measurement]) -> bool | None:
    over_runs = steadiness([run.work_per_s or 0.0 for run in runs])
    return None if over_runs is None else over_runs.steady
