"""Draws races that begin in small worlds, with a known bias between scales.

The bias of a layout is added to its log time in the small world. Races are made and judged by the code that
`run --find-best --small-worlds` uses; noise is normal, 3 % from run to run at either scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bench.drawn import Matrix, Rng
from bench.drawn_races import Truth, Vector
from storagelab.findings import racing, scales
from storagelab.findings.racing import Standing
from storagelab.findings.samples import ALPHA
from storagelab.run.small_worlds import ROUNDS

SPREAD = 0.05
Bias = Callable[[Rng, Truth], Vector]


def _none(rng: Rng, truth: Truth) -> Vector:  # noqa: ARG001
    return np.zeros(len(truth.levels))


def _common(rng: Rng, truth: Truth) -> Vector:  # noqa: ARG001
    return np.full(len(truth.levels), math.log(1.3))


def _random(rng: Rng, truth: Truth) -> Vector:
    return rng.normal(0, SPREAD, len(truth.levels))


def _heavy(rng: Rng, truth: Truth) -> Vector:
    return np.asarray(SPREAD * rng.standard_t(3, len(truth.levels)))


def _by_level(rng: Rng, truth: Truth) -> Vector:  # noqa: ARG001
    """Small worlds that shrink all differences by a fifth, so that the slow seem less slow and the fast less fast."""
    return -0.2 * (truth.levels - truth.levels.mean())


def _one(rng: Rng, truth: Truth) -> Vector:
    """Any one layout takes twice as long in the small world, and has no other bias."""
    bias = np.zeros(len(truth.levels))
    bias[rng.integers(len(bias))] = math.log(2)
    return bias


def _best(rng: Rng, truth: Truth) -> Vector:  # noqa: ARG001
    bias = np.zeros(len(truth.levels))
    bias[truth.best] = math.log(2)
    return bias


UNSEEN = "the fastest alone takes twice as long"
BIASES: Mapping[str, Bias] = {
    "none": _none, "common, 30 %": _common, "random, 5 %": _random, "random, heavy tails (t of 3 df)": _heavy,
    "shrinks differences by a fifth": _by_level, "any one layout takes twice as long": _one, UNSEEN: _best,
}  # fmt: skip


@dataclass(frozen=True)
class SmallRace:
    """How a drawn race ended: its runs at the spec's scale, and who left in small worlds."""

    standing: Standing
    left: tuple[int, ...]
    runs: int

    def loses(self, truth: Truth) -> bool:
        gone = {*self.left, *(one.cell for one in self.standing.left)}
        return any(truth.levels[cell] <= truth.levels[truth.best] for cell in gone)


def small_race(truth: Truth, bias: str, number: int) -> SmallRace:
    """The race with this number. Its gauges are drawn with a seed of their own, as in any experiment."""
    rng = np.random.default_rng(number)
    cells = tuple(range(len(truth.levels)))
    shifted = truth.levels + BIASES[bias](rng, truth)
    in_small = shifted[:, None] + rng.normal(0, 1, (len(cells), ROUNDS)) * truth.sds[:, None]
    small = dict(enumerate(racing.fitted(in_small, [0] * len(cells)).cells.tolist()))
    gauges = scales.gauges(cells, small, number)
    first = tuple(sorted((*gauges, *scales.leaders(cells, small, gauges)))) if gauges else cells
    waiting = tuple(cell for cell in cells if cell not in first)
    rounds = truth.repetitions + (scales.ROUNDS if gauges else 0)
    log_s: Matrix = np.full((len(cells), rounds), np.nan)
    standing, left, made = Standing(first), (), 0
    shares = 2 if gauges else 1
    while standing.running and standing.rounds < rounds:
        ran = list(standing.running)
        log_s[ran, standing.rounds] = truth.levels[ran] + rng.normal(0, 1, len(ran)) * truth.sds[ran]
        made += len(ran)
        fit = racing.fitted(log_s[:, : standing.rounds + 1], [0] * len(cells))
        standing = racing.look(standing, fit, shares)
        if waiting and standing.rounds == scales.ROUNDS:
            error = ALPHA * racing.SHARE / shares
            left = scales.sift(waiting, small, gauges, fit.cells, standing.racing[0], error).left
            standing, waiting = standing.joined([cell for cell in waiting if cell not in left]), ()
    return SmallRace(standing, left, made)
