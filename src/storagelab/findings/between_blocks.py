"""How cells of different blocks are compared: by the scatter of blocks that prepared the same levels again. Pure.

It is the analysis of a split-plot experiment. A block is one preparation, such as one formatting of a drive, and all
runs of the block share its luck. So cells of different blocks are compared by one figure for each preparation, a cell's
mean over its runs there, and these figures are the sample: as many degrees of freedom as there are preparations beyond
one of each kind. Cells of the same blocks are compared round by round, as in any experiment, and need none of this.

Preparations of different kinds are not paired: they follow each other in random order, and a drift makes them scatter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storagelab.findings.differences import Difference, Error, judged
from storagelab.findings.model import Estimate
from storagelab.findings.moderated import moderated
from storagelab.findings.studentized import Family

Matrix = NDArray[np.float64]
Pairs = Sequence[tuple[int, int]]
_LEAST = 2
"""Preparations of a kind that show how much preparing again changes times."""
_FLOOR = 1e-14


class Mean(NamedTuple):
    """The mean of a cell's figures, with its error."""

    log_s: float
    error: float
    df: float


@dataclass(frozen=True)
class BetweenBlocks:
    """The figures of preparations, a row for each cell and a column for each preparation, NaN where it has none.

    `kinds` = the kind of preparation of each cell: its levels of the costly factors. Variances are of one figure: `own`
    of each cell, NaN where its kind was prepared once; `variance` the mean of its kind's cells, moderated towards that
    of all kinds, which counts `prior_df`. `df` = preparations beyond one of each kind. `alike`: no kind surely varies
    more.
    """

    figures: Matrix
    kinds: NDArray[np.intp]
    own: Matrix
    variance: Matrix
    prior_df: float
    df: int
    alike: bool

    @property
    def counts(self) -> Matrix:
        """The preparations of each cell."""
        return np.asarray((~np.isnan(self.figures)).sum(axis=1), dtype=float)

    @property
    def least(self) -> float:
        """The fewest preparations of a kind that was prepared again."""
        counts = self.counts
        return float(counts[counts >= _LEAST].min(initial=math.inf))

    def only(self, rows: Sequence[int]) -> BetweenBlocks:
        return replace(
            self, figures=self.figures[rows], kinds=self.kinds[rows], own=self.own[rows], variance=self.variance[rows]
        )

    def above(self, other: BetweenBlocks) -> BetweenBlocks:
        """With the rows of another below."""
        return replace(
            self,
            figures=np.concatenate([self.figures, other.figures]),
            kinds=np.concatenate([self.kinds, other.kinds]),
            own=np.concatenate([self.own, other.own]),
            variance=np.concatenate([self.variance, other.variance]),
        )

    def compared(self, blocks: Sequence[int]) -> list[int]:
        """The blocks of cells, with one number for all that can be compared."""
        again = self.counts >= _LEAST
        first = min((block for block, many in zip(blocks, again, strict=True) if many), default=0)
        return [first if many else block for block, many in zip(blocks, again, strict=True)]

    def against(self, best: int) -> tuple[NDArray[np.bool_], dict[str, Matrix]]:
        """Which cells are of another kind than the `best`; and of these, by name, what `stats` asks of a comparison."""
        counts = self.counts
        many = np.maximum(counts, 1)
        means = np.where(counts > 0, np.nansum(self.figures, axis=1) / many, np.nan)
        own = np.where(np.isnan(self.own), self.variance, self.own)
        parts, of_best = own / many, own[best] / many[best]
        spread = parts**2 / np.maximum(counts - 1, 1) + of_best**2 / max(counts[best] - 1, 1)
        common = np.where(np.isnan(means - means[best]), 0.0, np.minimum(counts, counts[best]))
        return self.kinds != self.kinds[best], {
            "log_ratios": np.where(common > 0, means - means[best], 0.0),
            "common": common,
            "testable": common >= _LEAST,
            "moderated_errors": np.sqrt(self.variance / many + self.variance[best] / many[best]),
            "moderated_df": np.minimum(self.prior_df + counts + counts[best] - 2, float(max(self.df, 1))),
            "own_errors": np.sqrt(parts + of_best),
            "own_df": (parts + of_best) ** 2 / np.maximum(spread, 1e-300),
        }

    def mean(self, cell: int) -> Mean:
        figures = self.figures[cell]
        many = float(self.counts[cell])
        df = min(self.prior_df + many - 1, float(max(self.df, 1)))
        return Mean(float(np.nanmean(figures)), math.sqrt(float(self.variance[cell]) / many), df)

    def apart(self, pairs: Pairs) -> bool:
        return any(self.kinds[one] != self.kinds[other] for one, other in pairs)

    def of_a_level(self, pairs: Pairs, family: Family, alpha: float) -> Difference | None:
        """The effect of a level by pairs of (cell of that level, cell of the baseline), all of different kinds.

        In each preparation, the cells of a level are averaged first, so that what they share counts as noise.
        """
        there = [(one, other) for one, other in pairs if self.counts[[one, other]].min() > 0]
        if not there:
            return None
        weights = np.zeros(len(self.kinds))
        for one, other in there:
            weights[one] += 1 / len(there)
            weights[other] -= 1 / len(there)
        value, pooled, own = 0.0, [], []
        for kind in np.unique(self.kinds[weights != 0]):
            rows = np.flatnonzero((self.kinds == kind) & (weights != 0))
            figures = (weights[rows, None] * self.figures[rows]).sum(axis=0)
            figures = figures[~np.isnan(figures)]
            if len(figures):
                value += float(figures.mean())
            if len(figures) < _LEAST or any(self.kinds[one] == self.kinds[other] for one, other in there):
                return Difference(Estimate(value=math.exp(self._plain(weights))), None, 0)
            own.append((max(float(figures.var(ddof=1)), _FLOOR), len(figures), float(weights[rows].sum()) ** 2))
        # A figure of each kind with the weight of its cells: variances are alike for equal weights.
        scales = np.array([scale or 1.0 for *_, scale in own])
        alone, counts = np.array([variance for variance, *_ in own]), np.array([float(count) for _, count, _ in own])
        shared = moderated(alone / scales, counts - 1)
        pooled = shared.variance * scales / counts
        df = min(shared.prior_df + float(counts.min()) - 1, float((counts - 1).sum()))
        parts = alone / counts
        welch = Error(math.sqrt(parts.sum()), float(parts.sum() ** 2 / (parts**2 / (counts - 1)).sum()))
        return judged(value, int(counts.min()), [Error(math.sqrt(pooled.sum()), df)], welch, family, alpha)

    def _plain(self, weights: Matrix) -> float:
        rows = np.flatnonzero(weights)
        return float((weights[rows] * np.nanmean(self.figures[rows], axis=1)).sum())


def of_figures(figures: Matrix, kinds: Sequence[int]) -> BetweenBlocks | None:
    """None if no two kinds were prepared more than once."""
    of_cell = np.asarray(kinds)
    counts = (~np.isnan(figures)).sum(axis=1)
    if len(set(of_cell[counts >= _LEAST])) < _LEAST:
        return None
    own = np.full(len(figures), np.nan)
    for row in np.flatnonzero(counts >= _LEAST):
        own[row] = max(float(np.nanvar(figures[row], ddof=1)), _FLOOR)
    different = np.unique(of_cell)
    # Cells of one kind share the luck of its preparations: they add no degrees of freedom.
    of_kind = np.array([
        float(np.nanmean(own[of_cell == kind])) if (counts[of_cell == kind] >= _LEAST).any() else math.nan
        for kind in different
    ])  # fmt: skip
    made = np.array([float(counts[of_cell == kind].max(initial=0)) for kind in different])
    shared = moderated(of_kind, made - 1)
    variance = shared.variance[np.searchsorted(different, of_cell)]
    df = int((made[made >= _LEAST] - 1).sum())
    return BetweenBlocks(figures, of_cell, own, variance, shared.prior_df, df, shared.alike)
