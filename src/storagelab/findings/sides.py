"""Represents one campaign, or a history of several campaigns, as one side of a ratio: the mean log times of the matched
layouts, and their variances. The functions are pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from storagelab.findings.basis import Basis
from storagelab.findings.model import Compared, Findings
from storagelab.stats.fit import VARIANCE_FLOOR, Fit, fit, variance_of_one
from storagelab.stats.intervals import MANY
from storagelab.stats.order import long_run_variance

RUNS_LEAST = 2
"""A layout is tested only if each of the two campaigns has at least this many runs of it."""


@dataclass(frozen=True)
class Mean:
    """A mean of log times. `parts` has the parts of its variance, each with its degrees of freedom. `own` has such
    parts, but estimated only from the layout's own runs.
    """

    log_s: float
    parts: tuple[tuple[float, float], ...]
    own: tuple[tuple[float, float], ...]

    @property
    def variance(self) -> float:
        return math.fsum(part for part, _ in self.parts)

    def times(self, factor: int) -> Mean:
        """The same mean, with its variance multiplied by `factor`."""
        parts, own = (tuple((factor * part, df) for part, df in of) for of in (self.parts, self.own))
        return Mean(self.log_s, parts, own)

    def plus(self, part: tuple[float, float]) -> Mean:
        """The same mean with one more part of its variance. The part is the variance of an effect that all runs of the
        mean share."""
        return replace(self, parts=(*self.parts, part), own=(*self.own, part)) if self.parts else self


Side = list[Mean]
"""The means of one campaign or of a history: one for each matched layout, and then the mean over all matched
layouts."""


def side_of(findings: Findings, basis: Basis, ids: Sequence[str], compared: Compared) -> Side:
    """The side of one campaign. It has the means of the cells `ids`, in their order."""
    order = [cell.cell_id for cell in findings.cells]
    rows = [order.index(cell_id) for cell_id in ids]
    # If the campaign's own cells are compared by time per unit of work, the fitted times are already divided.
    divide = compared != "elapsed" and findings.compared == "elapsed"
    works = [(findings.cells[row].work or 1.0) if divide else 1.0 for row in rows]
    side = _of_fit(basis.fitted, rows, [basis.blocks[row] for row in rows], works)
    part = _of_alike_runs(basis, rows, side[-1].variance)
    return side if part is None else [one.plus(part) for one in side]


def _of_fit(fitted: Fit, rows: Sequence[int], blocks: Sequence[int], works: Sequence[float]) -> Side:
    cells = [_cell(fitted, row, math.log(work)) for row, work in zip(rows, works, strict=True)]
    return [*cells, _all(fitted, rows, blocks, cells)]


def history_of(before: Sequence[Side]) -> Side:
    """Makes one side of earlier campaigns. Its variance includes the scatter of a new campaign around their mean."""
    means = np.array([[one.log_s for one in side[:-1]] for side in before]).T
    side = _of_fit(fit(means), range(len(means)), [0] * len(means), [1.0] * len(means))
    return [one.times(len(before) + 1) for one in side]


def noisier(new: Side, before: Sequence[Side]) -> Side:
    """The means of the new campaign. Each variance is the amount by which it exceeds the mean variance of the earlier
    campaigns, or 0."""

    def beyond(mean: Mean, *others: Mean) -> Mean:
        more = max(0.0, mean.variance - math.fsum(one.variance for one in others) / len(others))
        parts = ((more, error_of(mean.parts)[1]),)
        return Mean(mean.log_s, parts, parts)

    return [beyond(*of) for of in zip(new, *before, strict=True)]


def _of_alike_runs(basis: Basis, rows: Sequence[int], known: float) -> tuple[float, float] | None:
    """The additional variance of the mean over the cells of `rows`, with its degrees of freedom, if neighbouring runs
    are surely correlated. Otherwise None. Additional means beyond the `known` variance. The scatter of rounds shows
    only a part of the variance if rounds are few and each lasts as long as the correlation.
    """
    if basis.fleet is not None:
        return None  # hosts are independent, and a few hosts can't show an effect of the order of runs
    fitted = basis.fitted
    at = [
        (run.sequence, row, basis.rounds.index(repetition))
        for row, of_cell in enumerate(basis.used.values()) for repetition, run in of_cell.items()
        if repetition in basis.rounds  # runs without a figure have no round
    ]  # fmt: skip
    deviations = fitted.log_s - fitted.cells[:, None]
    left = np.array([deviations[row, column] for _, row, column in sorted(at)])
    left = left[~np.isnan(left)]
    df = len(left) - int((~np.isnan(fitted.cells)).sum())
    longer = long_run_variance(left) if df > 0 else 1.0
    runs = float(fitted.runs[list(rows)].sum())
    beyond = longer * float(left @ left) / max(df, 1) / max(runs, 1.0) - known
    return (beyond, max(1.0, len(left) / longer - 1)) if longer > 1 and beyond > 0 else None


def _cell(fitted: Fit, row: int, shift: float) -> Mean:
    runs, log_s = int(fitted.runs[row]), float(fitted.cells[row]) - shift
    of_rounds = float(fitted.of_rounds[row])
    if runs < RUNS_LEAST or math.isnan(of_rounds):
        return Mean(log_s, (), ())
    variance, df = variance_of_one(fitted, fitted.every, row)
    kept = 1 - 1 / max(float(fitted.peers[row]), 1.0)
    own = np.var(fitted.log_s[row][~np.isnan(fitted.log_s[row])], ddof=1)
    parts = ((of_rounds / runs, runs - 1.0), (variance * kept / runs, df))
    return Mean(log_s, parts, ((float(own) / runs, runs - 1.0),))


def _all(fitted: Fit, rows: Sequence[int], blocks: Sequence[int], cells: Sequence[Mean]) -> Mean:
    """The mean over the matched layouts. Its variance is that of the means of rounds, estimated in each block."""
    parts: list[tuple[float, float]] = []
    for block in dict.fromkeys(blocks):
        inside = [row for row, of in zip(rows, blocks, strict=True) if of == block]
        # If a round lacks some layouts, its mean is adjusted by these layouts' times in other rounds.
        differences = fitted.log_s[inside] - fitted.cells[inside][:, None]
        there = ~np.isnan(differences)
        counted = there.sum(axis=0)
        rounds = (np.where(there, differences, 0.0).sum(axis=0) / np.maximum(counted, 1))[counted > 0]
        if len(rounds) < RUNS_LEAST:
            return Mean(float(np.mean([cell.log_s for cell in cells])), (), ())
        weight = len(inside) / len(rows)
        parts.append((weight**2 * float(np.var(rounds, ddof=1)) / len(rounds), len(rounds) - 1.0))
    return Mean(float(np.mean([cell.log_s for cell in cells])), tuple(parts), tuple(parts))


def error_of(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The standard error of a difference of means, and its degrees of freedom (Satterthwaite 1946). These are rounded
    down, because t falls fast where they are few. Example: with three runs on each side, and one side four times as
    noisy as the other, they are about 2.
    """
    variance = max(math.fsum(part for part, _ in parts), VARIANCE_FLOOR)
    spread = math.fsum(part**2 / df for part, df in parts if df)
    df = min(variance**2 / spread, MANY) if spread else MANY
    return math.sqrt(variance), float(max(1, math.floor(df + 1e-9)))
