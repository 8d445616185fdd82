"""Layouts judged in small worlds: who is surely slower at the spec's scale although it ran only in a smaller one. Pure.

A small world is biased: a layout's log time there, less that at the spec's scale, is its bias. What is common to all
layouts cancels. What differs from layout to layout can mislead, so it is measured on layouts that run at both scales:
the `gauges`. These are drawn at random before any result is known, so that they stand for the whole field, the fastest
layout included. Beside them the fastest few of the small world run at both scales, as somebody good has to be in front;
they say nothing about the bias, since whoever leads in a small world is likely to be flattered by it.

A layout that ran in small worlds alone leaves if its time there, less the mean bias, is further behind the layout in front
than the bias of a further layout can explain: a prediction bound by Student's t from the gauges, one-sided, with the error
shared out over all layouts that are judged so (Bonferroni). The gauges' scatter holds the noise of runs at both scales,
too. The time of the layout in front is known as well as a gauge's, so its variance is counted like theirs.

What this can't see is a single layout whose bias stands alone, unless it is a gauge or among the leaders.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from storagelab.findings.samples import FURTHEST
from storagelab.findings.stats import Matrix
from storagelab.findings.studentized import t_point
from storagelab.spec.matrix import shuffled

GAUGES, LEADERS = 10, 3
PAIRS_LEAST = 6
"""With fewer layouts at both scales, the spread of the bias is not known well enough for anybody to leave."""
ROUNDS = 2
"""Rounds of the gauges and leaders at the spec's scale, before the others are judged."""


@dataclass(frozen=True)
class Sifted:
    """What small worlds say of the layouts that ran in them alone: who left, surely slower.

    `mean` and `sd` of the bias, a log ratio, over so many `pairs`; whoever was more than `limit`, a log ratio, behind the
    layout in front left. None where there were too few pairs.
    """

    left: tuple[int, ...] = ()
    pairs: int = 0
    mean: float | None = None
    sd: float | None = None
    limit: float | None = None


def gauges(cells: Sequence[int], small: Mapping[int, float], seed: int) -> tuple[int, ...]:
    """The layouts at random that are to run at both scales; none if too few are left to be judged by them."""
    known = [cell for cell in cells if cell in small]
    if len(known) < 2 * GAUGES:
        return ()
    return tuple(sorted(shuffled(known, seed, f"gauges/{cells[0]}")[:GAUGES]))


def leaders(cells: Sequence[int], small: Mapping[int, float], gauged: Sequence[int]) -> tuple[int, ...]:
    """The fastest layouts of the small worlds that are no gauges, and those without a time there."""
    timed = sorted((cell for cell in cells if cell in small and cell not in gauged), key=lambda cell: small[cell])
    return tuple(sorted((*timed[:LEADERS], *(cell for cell in cells if cell not in small))))


def sift(
    waiting: Sequence[int], small: Mapping[int, float], gauged: Sequence[int], times: Matrix, first: int, error: float
) -> Sifted:
    """The cells of `waiting` that leave.

    `small`, `times` = log times in small worlds and at the spec's scale (NaN = none); `first` = the layout in front;
    `error` = the probability that any of the fastest leaves.
    """
    biases = np.array([small[cell] - times[cell] for cell in gauged if not math.isnan(times[cell])])
    pairs = len(biases)
    if pairs < PAIRS_LEAST or not waiting or math.isnan(times[first]):
        return Sifted(pairs=pairs)
    mean, sd = float(biases.mean()), float(biases.std(ddof=1))
    # One-sided: t_point takes both sides. The 2 = the layout itself and the one in front.
    limit = t_point(pairs - 1.0, 2 * error / len(waiting)) * sd * math.sqrt(2 + 1 / pairs)
    if limit > FURTHEST:  # the bias differs so much from layout to layout that small worlds tell nothing
        return Sifted(pairs=pairs)
    left = tuple(cell for cell in waiting if cell in small and small[cell] - mean - times[first] > limit)
    return Sifted(left, pairs, mean, sd, limit)
