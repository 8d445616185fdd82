"""Makes differences with simultaneous intervals from contrasts of a fit. Pure.

A contrast is a weighted sum of the means of cells. Its weights add up to 0. Its exponential is a ratio of times. A
difference must meet two conditions, so that neither a quiet nor a noisy cell leads to a wrong result:

1. The difference is larger than its standard error times a simultaneous critical value. The standard error uses the
   common variance of all cells. For comparisons with the best cell, the critical value is Tukey's studentized range
   over all cells, because the best cell is selected from the data. For differences that are named before the runs, it
   is Bonferroni's.
2. The difference passes Welch's t test, which uses only the variances of the compared cells (Welch 1947, Biometrika
   34). The level of this test falls slowly with the number of cells (`Family.cautious`). So a noisy cell looks neither
   slow nor quiet.

An odd run takes too long, never too little time. So the mean time of a cell is at least the mean of its runs without
odd runs, and at most the mean of all its runs. Cell A is slower than cell B if the runs of A without odd runs take
longer than all runs of B.

Within a block, runs are the sample. Cells of different blocks are compared by preparations (`fit.Preparations`).
docs/records/monte-carlo.md has the error rates and the power. `make bench ARGS="--only statistics"` measures them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storagelab.model.values import KNOWN, Estimate
from storagelab.stats.fit import VARIANCE_FLOOR, Fit, Means, Places, Preparations, Vector
from storagelab.stats.intervals import ALPHA, MANY, from_logs, maximum_point, range_point, t_point

CAUTION = 0.65
"""The value of `Family.cautious` if a cell is noisier than others. With 0, a noisy cell would look slow in 6 to 8 % of
experiments. With 1, a tenth of the slow-downs of 5 % would be missed.
"""
CAUTION_ALIKE = 0.6
"""If no cell looks noisier than others, `Family.cautious` is this value divided by a cell's degrees of freedom. With
few runs, a noisy cell may look quiet. With 0, a noisy cell would look slow in 7 to 8 % of experiments with 3 runs.
"""
RUNS_LEAST = 2
"""If a cell has fewer runs than this, or a block has fewer preparations, there is no test."""
_NONE = 1e-6


@dataclass(frozen=True)
class Difference:
    """A ratio of times with its simultaneous interval.

    `tested` is False if there are too few runs for a test. Then the ratio has no interval. It also has none if the runs
    scatter so much that they give no bounds. Differences of at most `margin` don't matter. `margin` is on the log
    scale.
    """

    ratio: Estimate
    tested: bool
    margin: float = 0.0

    @property
    def distinguishable(self) -> bool:
        low, high = self.ratio.low, self.ratio.high
        if not self.tested or low is None or high is None:
            return False
        return not low <= 1 <= high and abs(math.log(self.ratio.value)) > self.margin

    @property
    def slower(self) -> bool:
        return self.distinguishable and self.ratio.value > 1


def wider(one: Difference, other: Difference) -> Difference:
    """The first difference, with an interval that contains both intervals. If one of the two is untested, the result is
    untested and has no interval.
    """
    low, high, least, most = one.ratio.low, one.ratio.high, other.ratio.low, other.ratio.high
    if low is None or high is None or least is None or most is None:
        return replace(one, ratio=Estimate(value=one.ratio.value), tested=one.tested and other.tested)
    return replace(one, ratio=one.ratio.model_copy(update={"low": min(low, least), "high": max(high, most)}))


@dataclass(frozen=True)
class Family:
    """Differences that are tested together. The error rate is for the whole family.

    There are three kinds. "range": all differences between `count` rows, whose best was selected from the data, in each
    of `families`. "maximum": each of `count` rows against all others, one-sided. "named": `count` differences that were
    named before the runs.

    `cautious` is a power: the level of each difference's own test falls with this power of the number of differences.
    """

    kind: Literal["range", "maximum", "named"]
    count: int
    families: int = 1
    cautious: float = CAUTION

    def point(self, df: float, alpha: float) -> float:
        """The critical value: if nothing differs, at least one standardised difference of the family exceeds it with
        the probability `alpha`.
        """
        df = round(min(df, MANY), 1)
        match self.kind:
            case "range":
                return range_point(self.count, df, alpha / self.families)
            case "maximum":
                return maximum_point(self.count - 1, df, alpha / self.families)
        return t_point(df, alpha / self.count)

    def level(self, alpha: float) -> float:
        """The two-sided level of each difference's own test. If `alpha` were divided by the number of differences, five
        runs could find nothing.
        """
        things = self.count + 1 if self.kind == "named" else self.count * self.families
        sides = 2 if self.kind == "maximum" else 1  # `t_point` is two-sided, but "maximum" is one-sided
        return alpha * sides / float((things / 2) ** self.cautious)


def named(count: int) -> Family:
    return Family("named", count)


def with_best(fitted: Fit, count: int, families: int = 1) -> Family:
    """The family of comparisons with the best of `count` cells."""
    return Family("range", count, families, caution_of(fitted))


def caution_of(fitted: Fit) -> float:
    """`Family.cautious` of comparisons with the best."""
    runs, alike = fitted.runs, fitted.alike
    if fitted.preparations is not None:
        runs, alike = np.concatenate([runs, fitted.preparations.counts]), fitted.preparations.alike
    return cautious(runs[runs > 1].min(initial=math.inf), alike=alike)


def cautious(runs: float, *, alike: bool) -> float:
    """`Family.cautious` of cells with `runs` runs. `alike` is True if no cell looks noisier than others."""
    return min(CAUTION, CAUTION_ALIKE / (runs - 1)) if alike else CAUTION


# ---------------------------------------------------------------------------------------------------------------------
# The errors of contrasts
# ---------------------------------------------------------------------------------------------------------------------


class _Sums(NamedTuple):
    """Several contrasts. `value` has their log ratios.

    `error` and `df` are the standard errors and their degrees of freedom with the common variance. `own_error` and
    `own_df` are the same with the cells' own variances.
    """

    value: Vector
    tested: NDArray[np.bool_]
    error: Vector
    df: Vector
    own_error: Vector
    own_df: Vector

    def half(self, family: Family, alpha: float) -> Vector:
        """Half the width of each interval on the log scale, for the contrasts that can be tested."""
        together = _points(self.df, lambda df: family.point(df, alpha)) * self.error
        alone = _points(self.own_df, lambda df: t_point(df, family.level(alpha))) * self.own_error
        return np.maximum(together, alone)


def _points(df: Vector, point: Callable[[float], float]) -> Vector:
    """Computes `point` for each element of `df`. The elements are rounded first, so that `point` is computed for few
    values.
    """
    rounded, place = np.unique(np.round(np.clip(df, 1, MANY), 1), return_inverse=True)
    return np.array([point(float(one)) for one in rounded])[place]


def _sums(fitted: Fit, cells: Places, weights: Vector, plus: Means, minus: Means) -> _Sums:
    """Contrasts of `cells` with `weights`. Both are contrasts x terms.

    The means of cells with a positive weight are from `plus`. The means of the other cells are from `minus`.
    """
    used = weights != 0

    def of(name: Literal["log_s", "runs", "own", "variance"]) -> Vector:
        return np.asarray(np.where(weights > 0, getattr(plus, name)[cells], getattr(minus, name)[cells]))

    runs = np.where(used, of("runs"), np.inf)
    dfs = np.maximum(runs - 1, 1)
    shares = weights**2 / np.maximum(runs, 1)
    shift = (weights[:, :, None] * fitted.columns[cells]).sum(axis=1)
    unsure = np.einsum("ij,jk,ik->i", shift, fitted.inverse, shift) * fitted.pooled
    parts = np.where(used, shares * of("variance"), 0.0)
    noisy = np.where(fitted.noisier[cells], parts, 0.0)
    shared = (parts - noisy).sum(axis=1) + unsure
    variance = shared + noisy.sum(axis=1)
    spread = shared**2 / max(fitted.df, 1.0) + (noisy**2 / dfs).sum(axis=1)
    own = of("own")
    alone = np.where(used, shares * np.where(np.isnan(own), fitted.pooled, own), 0.0)
    scaled = alone / np.sqrt(dfs)
    # The effects of rounds are removed. So the residuals of two of n cells have the correlation -1/(n - 1).
    alike = 1 / np.maximum(fitted.peers[cells] - 1, 1) ** 2
    own_spread = (scaled**2 * (1 - alike)).sum(axis=1) + (scaled * np.sqrt(alike)).sum(axis=1) ** 2
    estimable = np.abs(shift - shift @ fitted.estimable).max(axis=1, initial=0.0) < _NONE
    apart = _across(fitted, cells, weights)
    found = _Sums(
        value=np.where(used, weights * of("log_s"), 0.0).sum(axis=1),
        tested=~apart & estimable & (runs.min(axis=1) >= RUNS_LEAST) & (fitted.df >= 1),
        error=np.sqrt(variance),
        df=variance**2 / np.maximum(spread, 1e-300),
        own_error=np.sqrt(alone.sum(axis=1) + unsure),
        own_df=alone.sum(axis=1) ** 2 / np.maximum(own_spread, 1e-300),
    )
    if fitted.preparations is not None:
        for row in np.flatnonzero(apart):
            one = _of_preparations(fitted, fitted.preparations, cells[row], weights[row], plus, minus)
            for values, value in zip(found, one, strict=True):
                values[row] = value
    return found


def _across(fitted: Fit, cells: Places, weights: Vector) -> NDArray[np.bool_]:
    """For each contrast: whether it is between blocks. It is if its weights don't add up to 0 within each block."""
    blocks = fitted.blocks[cells]
    if len(np.unique(blocks)) < 2:
        return np.zeros(len(cells), dtype=bool)
    return np.array([
        any(abs(weight[of == block].sum()) > _NONE for block in np.unique(of))
        for of, weight in zip(blocks, weights, strict=True)
    ], dtype=bool)  # fmt: skip


def _of_preparations(
    fitted: Fit, prepared: Preparations, cells: Places, weights: Vector, plus: Means, minus: Means
) -> tuple[float, bool, float, float, float, float]:
    """A contrast between blocks, as a row of `_Sums`.

    The weighted cells of each preparation are added first. So an effect that the cells of a preparation share counts as
    noise.
    """
    figures = np.where(
        (weights > 0)[:, None],
        *(prepared.calm[cells] if of is fitted.calm else prepared.every[cells] for of in (plus, minus)),
    )
    value, shared, own = 0.0, 0.0, []
    for block in np.unique(fitted.blocks[cells[weights != 0]]):
        rows = np.flatnonzero((fitted.blocks[cells] == block) & (weights != 0))
        sums = (weights[rows, None] * figures[rows]).sum(axis=0)
        sums = sums[~np.isnan(sums)]
        value += float(sums.mean()) if len(sums) else float((weights[rows] * np.nanmean(figures[rows], axis=1)).sum())
        if len(sums) < RUNS_LEAST:
            return value, False, 0.0, 1.0, 0.0, 1.0
        own.append((max(float(sums.var(ddof=1)), VARIANCE_FLOOR) / len(sums), len(sums) - 1))
        shared += float(weights[rows].sum()) ** 2 * float(prepared.variance[cells[rows[0]]]) / len(sums)
    parts, dfs = np.array(own).T
    own_df = parts.sum() ** 2 / (parts**2 / dfs).sum()
    return value, True, math.sqrt(shared), prepared.df, math.sqrt(parts.sum()), own_df


# ---------------------------------------------------------------------------------------------------------------------
# Differences
# ---------------------------------------------------------------------------------------------------------------------


def contrasts(fitted: Fit, cells: Places, weights: Vector, family: Family, alpha: float = ALPHA) -> list[Difference]:
    """The differences for contrasts of `cells` with `weights`. Both are contrasts x terms. All cells must have runs.

    With the probability 1 - `alpha`, all intervals of the family are right.
    """
    every, calm = fitted.every, fitted.calm
    both = _sums(fitted, cells, weights, every, every)
    half = both.half(family, alpha)
    low, high, tested = both.value - half, both.value + half, both.tested
    if calm is not every:
        least, most = _sums(fitted, cells, weights, calm, every), _sums(fitted, cells, weights, every, calm)
        low = np.minimum(both.value, least.value - least.half(family, alpha))
        high = np.maximum(both.value, most.value + most.half(family, alpha))
        tested = tested & least.tested & most.tested
    low, high = np.minimum(low, both.value - fitted.tick), np.maximum(high, both.value + fitted.tick)
    return [
        Difference(from_logs(value, value - at_least, at_most - value) if test else Estimate(value=math.exp(value)),
                   bool(test), fitted.margin)
        for value, at_least, at_most, test in zip(both.value.tolist(), low.tolist(), high.tolist(), tested, strict=True)
    ]  # fmt: skip


def ratios(fitted: Fit, cells: Sequence[int], base: int, family: Family, alpha: float = ALPHA) -> dict[int, Difference]:
    """For each of `cells`: its time divided by the time of `base`. Leaves out `base` itself and cells without runs."""
    rows = [cell for cell in cells if cell != base and fitted.runs[cell]]
    if not rows or not fitted.runs[base]:
        return {}
    return dict(zip(rows, contrasts(fitted, *_pairs(rows, base), family, alpha), strict=True))


def _pairs(rows: Sequence[int] | Places, base: int) -> tuple[Places, Vector]:
    return np.array([[row, base] for row in rows]), np.tile([1.0, -1.0], (len(rows), 1))


def compare_with_best(
    fitted: Fit, best: int, cells: Sequence[int] | None = None, families: int = 1, alpha: float = ALPHA
) -> dict[int, Difference]:
    """Like `ratios`, but the base was selected as the best of `cells`, or of all cells if `cells` is None (Tukey).

    The intervals also hold for the best cell of each block, because the range within a block is at most the range of
    all cells. If cells are compared in several `families`, each with its own best cell, the intervals of all families
    hold together (Bonferroni).
    """
    among = range(len(fitted.cells)) if cells is None else cells
    count = int((fitted.runs[list(among)] > 0).sum())
    return ratios(fitted, among, best, with_best(fitted, count, families), alpha)


# ---------------------------------------------------------------------------------------------------------------------
# The cells that may be the fastest
# ---------------------------------------------------------------------------------------------------------------------


def may_be_fastest(fitted: Fit, cells: Sequence[int], families: int = 1) -> list[int]:
    """Those of `cells` that may be the fastest. The first is the cell with the shortest measured time.

    With 95 % probability, a truly fastest cell is among them, for any number of cells (Hsu 1984, Annals of Statistics
    12). Cells that can't be compared with the first cell are left out, although they may not be slower.
    """
    first = fitted.fastest(cells)
    if first is None:
        return []
    others = np.array([cell for cell in cells if cell != first and fitted.runs[cell]], dtype=int)
    if not len(others):
        return [first]
    sums, half = _one_sided(fitted, others, first, len(others) + 1, families)
    # A cell remains if it is slower by less than the margin, because such a difference does not matter.
    staying = sums.tested & ((sums.value - half <= fitted.tick) | (sums.value <= fitted.margin))
    return [first, *sorted(others[staying].tolist(), key=lambda cell: float(fitted.cells[cell]))]


def at_most_slower(fitted: Fit, cells: Sequence[int], among: Sequence[int], families: int = 1) -> dict[int, float]:
    """For each of `cells`: an upper bound of its time divided by the time of the truly fastest of `among`.

    All bounds hold together at 95 %, even if the cells were selected from the data (Hsu). A cell has no bound if it
    can't be compared with all of `among`, or if the bound would be above `KNOWN`.
    """
    found = {}
    for cell in cells:
        others = np.array([other for other in among if other != cell], dtype=int)
        if not len(others):
            found[cell] = 1.0
            continue
        sums, half = _one_sided(fitted, others, cell, len(others) + 1, families)
        log_bound = max(0.0, float((np.maximum(half, fitted.tick) - sums.value).max()))
        if sums.tested.all() and log_bound <= math.log(KNOWN):
            found[cell] = math.exp(log_bound)
    return found


def _one_sided(fitted: Fit, others: Places, cell: int, count: int, families: int) -> tuple[_Sums, Vector]:
    """For each of `others`: its time without odd runs, divided by the time of all runs of `cell`. Also returns half the
    width of the one-sided interval of this ratio. The width is on the log scale.
    """
    sums = _sums(fitted, *_pairs(others, cell), fitted.calm, fitted.every)
    return sums, sums.half(Family("maximum", count, families, caution_of(fitted)), ALPHA)
