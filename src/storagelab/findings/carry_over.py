"""Whether the layout of the run before explains times, and the times without that. Pure.

The model is log time = cell + round + what came before + residual, where what came before is the cell of the run before
or, of many cells, the level of each of its factors. It is tested by the F test of these effects together. Where they
are taken out of the times, the residuals are made as much larger as the comparisons of cells become less sure by that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from storagelab.findings import stats
from storagelab.findings.samples import ALPHA
from storagelab.model.measurement import Run, host_of
from storagelab.model.plan import Cell, Plan
from storagelab.model.values import JsonValue

CHANGE_LEAST = 0.02
"""Smaller effects of the run before are of no use to a reader."""
CELLS_LEAST = 5
"""Times of fewer cells are not corrected: what runs leave behind for two or three runs looks much like what they leave
for one, so that the correction would err. A balanced order lets it hit all alike."""
CORRECTED_P_VALUE = 0.005
"""Times are corrected only for what is nearly certain. Where runs are like those just before them, the test finds
something in 8 of 100 experiments with five layouts in which runs leave nothing behind, and correcting for it makes
differences."""
_FREE_LEAST = 2
"""Degrees of freedom that must be left for the residuals."""
_CELLS_MOST = 8
"""Of more cells, and several factors, the levels before are looked at."""
_COLUMNS_MOST = 40

Matrix = stats.Matrix
Places = NDArray[np.intp]


@dataclass(frozen=True)
class CarriedOver:
    """What runs leave behind: runs after `levels` take `change` longer than others (0.12 for 12 %), shorter if
    negative; of all levels this is the one that differs most. `without` = the times without such effects; `lost` = the
    degrees of freedom that they took; `corrected`: verdicts rest on the times without them."""

    levels: Mapping[str, JsonValue]
    change: float
    p_value: float
    without: Matrix
    lost: int
    corrected: bool


def cells_before(
    plan: Plan, used: Mapping[str, Mapping[int, Run]], runs: Iterable[Run], rounds: Sequence[int]
) -> Places:
    """The place in the plan's cells of the run made before each one, as cells x rounds; -1 for the first run of a
    block, and where none is used. Failed and burn-in runs count as predecessors, too."""
    row = {cell.cell_id: place for place, cell in enumerate(plan.cells)}
    column = {repetition: place for place, repetition in enumerate(rounds)}
    before = np.full((len(row), len(column)), -1)
    last: dict[tuple[str, int], str] = {}
    host = ""
    for run in sorted(runs, key=lambda run: (run.started_at, run.sequence, run.attempt)):
        host = host_of(run) or host  # a run that failed doesn't say
        earlier = last.get((host, run.block))
        last[host, run.block] = run.cell_id
        chosen = used.get(run.cell_id, {}).get(run.repetition)
        if earlier in row and chosen is not None and chosen.attempt == run.attempt and run.repetition in column:
            before[row[run.cell_id], column[run.repetition]] = row[earlier]
    return before


def carried_over(cells: Sequence[Cell], log_s: Matrix, before: Places, blocks: Sequence[int]) -> CarriedOver | None:
    """None if the runs before make no difference that is surely there, or if too few runs are made to tell."""
    columns = _columns(cells, before)
    there = ~np.isnan(log_s)
    if not 1 < len(columns) <= _COLUMNS_MOST:
        return None
    fitted = stats.fit(log_s, blocks)
    # A run without one before it counts as one after the usual mix.
    known = there & (before >= 0)
    shares = np.array([column[known].mean() if known.any() else 0.0 for _, column in columns])
    raw = np.array([
        np.where(there, np.where(before < 0, share, column), np.nan)
        for (_, column), share in zip(columns, shares, strict=True)
    ])  # fmt: skip
    own = np.array([stats.residuals_of(one, blocks)[there] for one in raw]).T
    values, vectors = np.linalg.eigh(own.T @ own)
    kept = values > 1e-6 * max(float(values.max()), 1.0)
    lost = int(kept.sum())
    free = fitted.df - lost
    if not lost or free < _FREE_LEAST:
        return None
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    residuals = fitted.residuals[there]
    effects = inverse @ own.T @ residuals
    left = residuals - own @ effects
    rest = max(float(left @ left) / free, stats.VARIANCE_FLOOR)
    explained = max(float(residuals @ residuals) - float(left @ left), 0.0)
    p_value = float(special.fdtrc(lost, free, explained / lost / rest))
    changes = _changes(columns, effects, shares)
    worst = int(np.argmax(np.abs(changes)))
    if p_value >= ALPHA or abs(math.expm1(changes[worst])) < CHANGE_LEAST:
        return None
    taken = np.where(there, np.tensordot(effects, raw - shares[:, None, None], 1), np.nan)
    without = stats.fit(log_s - taken, blocks)
    wider = math.sqrt(_less_sure(raw, inverse, without, blocks) * fitted.df / free)
    return CarriedOver(
        levels=columns[worst][0], change=math.expm1(changes[worst]), p_value=p_value,
        without=np.asarray(without.log_s + (wider - 1) * without.residuals), lost=lost,
        corrected=len(cells) >= CELLS_LEAST and p_value < CORRECTED_P_VALUE,
    )  # fmt: skip


def fit(
    log_s: Matrix,
    blocks: Sequence[int],
    found: CarriedOver | None,
    of_rounds: Callable[[Matrix, Sequence[int]], stats.Fit] = stats.fit,
) -> stats.Fit:
    """The fit of the times, without what runs leave behind if they are to be corrected for it."""
    fitted = of_rounds(log_s, blocks)
    if found is None or not found.corrected:
        return fitted
    return replace(of_rounds(found.without, blocks), df=fitted.df - found.lost)


def _columns(cells: Sequence[Cell], before: Places) -> list[tuple[dict[str, JsonValue], Matrix]]:
    """What may have come before, and where it did."""
    varied = [name for name in cells[0].levels if len({repr(cell.levels[name]) for cell in cells}) > 1]
    if len(cells) <= _CELLS_MOST or len(varied) < 2:
        return [(dict(cell.levels), (before == place).astype(float)) for place, cell in enumerate(cells)]
    found: dict[tuple[str, str], tuple[dict[str, JsonValue], Matrix]] = {}
    for place, cell in enumerate(cells):
        for name in varied:
            _, column = found.setdefault(
                (name, repr(cell.levels[name])), ({name: cell.levels[name]}, np.zeros(before.shape))
            )
            column += before == place
    return list(found.values())


def _changes(columns: Sequence[tuple[dict[str, JsonValue], Matrix]], effects: Matrix, shares: Matrix) -> Matrix:
    """The effect of each level against the mean of the others of its factor."""
    names = [tuple(levels) for levels, _ in columns]
    found = np.zeros(len(columns))
    for number, name in enumerate(names):
        others = [other for other, one in enumerate(names) if one == name and other != number and shares[other] > 0]
        if others and shares[number] > 0:
            found[number] = effects[number] - effects[others].mean()
    return found


def _less_sure(raw: Matrix, inverse: Matrix, fitted: stats.Fit, blocks: Sequence[int]) -> float:
    """By what factor the variance of a difference of two cells grows at most, as what came before them is only
    estimated.
    """
    measured = np.flatnonzero(fitted.runs > 0)
    of_cell = np.array([np.nanmean(raw[:, cell], axis=1) for cell in measured])
    of_block = np.asarray(blocks)[measured]
    most = 1.0
    for place in range(len(measured)):
        apart = of_cell - of_cell[place]
        grown = np.einsum("ij,jk,ik->i", apart, inverse, apart)
        without = 1 / fitted.runs[measured] + 1 / fitted.runs[measured[place]]
        same = of_block == of_block[place]
        most = max(most, float((1 + grown / without)[same].max()))
    return most
