"""Finds how much times change if the same levels are prepared again. The functions are pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from pydantic import Field
from scipy import special

from storagelab.findings.basis import Evidence
from storagelab.findings.model import Estimate, Finding, Findings
from storagelab.stats.intervals import ALPHA, CONFIDENCE
from storagelab.words.numbers import percent


class PreparedAgain(Finding, use_attribute_docstrings=True):
    """How much times differ between preparations of the same levels."""

    kind, about = "prepared_again", "use"
    meaning = "The effect of another preparation on times, if the same levels were prepared several times."
    sd: Estimate
    """The standard deviation of the mean log times of preparations, including the scatter of their runs."""
    of_runs: float = Field(ge=0)
    """The standard deviation that the scatter of runs within a preparation alone would cause."""
    preparations: int = Field(ge=1)
    """The number of preparations."""
    least: int = Field(ge=1)
    """The smallest number of preparations of a level that was prepared several times."""

    def sentence(self, findings: Findings) -> str:  # noqa: ARG002
        low, high = self.sd.low, self.sd.high
        interval = "" if low is None or high is None else f" (95 % CI {_apart(low)} to {_apart(high)})"
        few = " Few preparations give wide intervals: raise blocks and repetitions." if self.least < _ENOUGH else ""
        return (
            f"Preparing again changes the time by ± {_apart(self.sd.value)}{interval}, over {self.preparations} "
            f"preparations. The scatter of runs alone would cause ± {_apart(self.of_runs)}. All intervals that compare "
            f"different preparations include this effect.{few}"
        )


_ENOUGH = 3


def _apart(sd: float) -> str:
    return percent(math.expm1(sd))


def find(evidence: Evidence) -> Iterator[PreparedAgain]:
    between = evidence.basis.fitted.preparations
    if between is None or between.df < 1:
        return
    again = between.counts > 1
    variance = float(np.average(between.variance[again], weights=between.counts[again] - 1))
    tails = (special.chdtri(between.df, ALPHA / 2), special.chdtri(between.df, 1 - ALPHA / 2))
    low, high = (math.sqrt(variance * between.df / float(tail)) for tail in tails)
    sd = math.sqrt(variance)
    made = {number for row in np.flatnonzero(again) for number in np.flatnonzero(~np.isnan(between.every[row]))}
    yield PreparedAgain(
        sd=Estimate(value=sd, low=min(low, sd), high=max(high, sd), confidence=CONFIDENCE),
        of_runs=_of_runs(evidence), preparations=len(made), least=int(between.counts[between.counts > 1].min()),
    )  # fmt: skip


def _of_runs(evidence: Evidence) -> float:
    """The standard deviation of a mean over the runs of a preparation, if preparations had no effect."""
    between, made_in = evidence.basis.fitted.preparations, evidence.basis.made_in
    assert between is not None
    squares, df, sizes = 0.0, 0, []
    for row, times in enumerate(evidence.basis.kept):
        for number in np.flatnonzero(~np.isnan(between.every[row])):
            runs = times[(made_in[row] == number) & ~np.isnan(times)]
            if len(runs):
                squares += float(((runs - runs.mean()) ** 2).sum())
                df += len(runs) - 1
                sizes.append(len(runs))
    return math.sqrt(squares / df / float(np.mean(sizes))) if df else 0.0
