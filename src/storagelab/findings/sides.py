"""One campaign, or a history of several, as one side of a ratio: mean log times of the matched layouts, and their
variances. Pure.
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
"""With fewer runs of a layout in either campaign, nothing is tested."""


@dataclass(frozen=True)
class Mean:
    """A mean of log times. `parts`: the parts of its variance, with degrees of freedom; `own`: these parts from its
    runs alone.
    """

    log_s: float
    parts: tuple[tuple[float, float], ...]
    own: tuple[tuple[float, float], ...]

    @property
    def variance(self) -> float:
        return math.fsum(part for part, _ in self.parts)

    def times(self, factor: int) -> Mean:
        """The mean with its variance multiplied by this factor."""
        parts, own = (tuple((factor * part, df) for part, df in of) for of in (self.parts, self.own))
        return Mean(self.log_s, parts, own)

    def plus(self, part: tuple[float, float]) -> Mean:
        """The mean with another part of the variance: the variance of an effect that all of its runs share."""
        return replace(self, parts=(*self.parts, part), own=(*self.own, part)) if self.parts else self


Side = list[Mean]
"""One campaign, or a history: the mean of each matched layout and, last, the mean over all of them."""


def side_of(findings: Findings, basis: Basis, ids: Sequence[str], compared: Compared) -> Side:
    """The side of one campaign, of the cells with these ids."""
    order = [cell.cell_id for cell in findings.cells]
    rows = [order.index(cell_id) for cell_id in ids]
    # If the campaign's own cells are compared by time per work, the fit is of that already.
    divide = compared != "elapsed" and findings.compared == "elapsed"
    works = [(findings.cells[row].work or 1.0) if divide else 1.0 for row in rows]
    side = _of_fit(basis.fitted, rows, [basis.blocks[row] for row in rows], works)
    part = _of_alike_runs(basis, rows, side[-1].variance)
    return side if part is None else [one.plus(part) for one in side]


def _of_fit(fitted: Fit, rows: Sequence[int], blocks: Sequence[int], works: Sequence[float]) -> Side:
    cells = [_cell(fitted, row, math.log(work)) for row, work in zip(rows, works, strict=True)]
    return [*cells, _all(fitted, rows, blocks, cells)]


def history_of(before: Sequence[Side]) -> Side:
    """Earlier campaigns as one side, whose variance includes the scatter of a further campaign around their mean."""
    means = np.array([[one.log_s for one in side[:-1]] for side in before]).T
    side = _of_fit(fit(means), range(len(means)), [0] * len(means), [1.0] * len(means))
    return [one.times(len(before) + 1) for one in side]


def noisier(new: Side, before: Sequence[Side]) -> Side:
    """The new campaign, with only the variance by which its runs scatter more than earlier campaigns' runs."""

    def beyond(mean: Mean, *others: Mean) -> Mean:
        more = max(0.0, mean.variance - math.fsum(one.variance for one in others) / len(others))
        parts = ((more, error_of(mean.parts)[1]),)
        return Mean(mean.log_s, parts, parts)

    return [beyond(*of) for of in zip(new, *before, strict=True)]


def _of_alike_runs(basis: Basis, rows: Sequence[int], known: float) -> tuple[float, float] | None:
    """If neighbouring runs are surely correlated, the variance of the mean over the cells of `rows` beyond the `known`
    variance, and its degrees of freedom; otherwise None. The scatter of rounds shows less than this variance if rounds
    are few and each lasts as long as the correlation.
    """
    if basis.fleet is not None:
        return None  # hosts are independent, and few hosts show nothing of the order of their runs
    fitted = basis.fitted
    at = [
        (run.sequence, row, basis.rounds.index(repetition))
        for row, of_cell in enumerate(basis.used.values()) for repetition, run in of_cell.items()
        if repetition in basis.rounds  # not those without a figure
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
    """The mean over the matched layouts, from each block's rounds, with the variance of these."""
    parts: list[tuple[float, float]] = []
    for block in dict.fromkeys(blocks):
        inside = [row for row, of in zip(rows, blocks, strict=True) if of == block]
        # A round without some layouts is adjusted to the mean of all, by the times of those layouts in other rounds.
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
    """The standard error of a difference of means, and its degrees of freedom (Satterthwaite 1946), rounded down:
    for three runs each, and one campaign four times as noisy, there are about 2, where t falls fast.
    """
    variance = max(math.fsum(part for part, _ in parts), VARIANCE_FLOOR)
    spread = math.fsum(part**2 / df for part, df in parts if df)
    df = min(variance**2 / spread, MANY) if spread else MANY
    return math.sqrt(variance), float(max(1, math.floor(df + 1e-9)))
