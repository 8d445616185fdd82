"""Which preparation each run belongs to, and the fit of cells that were prepared several times. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from storagelab.findings import between_blocks, stats
from storagelab.findings.between_blocks import BetweenBlocks
from storagelab.model.measurement import Run, preparation_of
from storagelab.model.plan import Plan

Places = NDArray[np.intp]


def preparations_of(plan: Plan, used: Mapping[str, Mapping[int, Run]], rounds: Sequence[int]) -> Places:
    """The number of each run's preparation, as cells x rounds; -1 without a run."""
    numbers: dict[tuple[int, str], int] = {}
    found = np.full((len(plan.cells), len(rounds)), -1)
    for row, cell in enumerate(plan.cells):
        for column, repetition in enumerate(rounds):
            if (run := used[cell.cell_id].get(repetition)) is not None:
                found[row, column] = numbers.setdefault((run.block, preparation_of(run)), len(numbers))
    return found


def figures_of(log_s: stats.Matrix, made_in: Places, blocks: Sequence[int]) -> stats.Matrix:
    """The mean time of each cell in each preparation, adjusted for rounds that lack a run, as cells x preparations."""
    found = np.full((len(log_s), made_in.max(initial=-1) + 1), np.nan)
    of_cell = np.asarray(blocks)
    for number in range(found.shape[1]):
        rows, columns = (np.unique(places) for places in np.nonzero(made_in == number))
        for block in np.unique(of_cell[rows]):
            inside = rows[of_cell[rows] == block]
            times = np.where(made_in[inside] == number, log_s[inside], np.nan)[:, columns]
            found[inside, number] = stats.fit(times).cells
    return found


def fit(fitted: stats.Fit, made_in: Places, blocks: Sequence[int]) -> stats.Fit:
    """The fit, with what compares cells of different blocks where these were prepared several times."""
    if len(set(blocks)) < 2:
        return fitted
    found, calm = _between(fitted, made_in, blocks), fitted.calm
    if found is None or calm is None:
        return replace(fitted, between=found)
    of_calm = _between(calm, made_in, blocks)
    return fitted if of_calm is None else replace(fitted, between=found, calm=replace(calm, between=of_calm))


def _between(fitted: stats.Fit, made_in: Places, blocks: Sequence[int]) -> BetweenBlocks | None:
    return between_blocks.of_figures(figures_of(fitted.log_s, made_in, blocks), blocks)
