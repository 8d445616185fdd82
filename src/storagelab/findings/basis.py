"""The runs that are judged, and the fit by which their cells are compared: what all findings rest on. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from storagelab.findings import irregular, stats
from storagelab.findings.evidence import blocks_of
from storagelab.findings.fit_kinds import FitKind
from storagelab.findings.model import Compared, Estimate
from storagelab.model.engines import Provenance
from storagelab.model.measurement import Measurement, Run
from storagelab.model.plan import Experiment, Plan


@dataclass(frozen=True)
class Basis:
    """The runs that are judged, and the fit by which cells are compared.

    `blocks` = for each cell of the plan its stretch of time; `odd` = runs that stand apart, `left_out` = those of them, by
    cell and repetition, that the fit leaves out.
    """

    used: dict[str, dict[int, Run]]
    provenance: Provenance | None
    compared: Compared
    rounds: tuple[int, ...]
    blocks: Sequence[int]
    fitted: stats.Fit
    odd: tuple[irregular.Outlier, ...]
    left_out: tuple[tuple[str, int], ...]
    in_stretches: bool


def basis_of(experiment: Experiment, plan: Plan, runs: Sequence[Run], fit: FitKind = "robust") -> Basis:
    used = usable_runs(plan, runs)
    provenance = next((one.provenance for of_cell in used.values() for _, one in measured(of_cell)), None)
    # A simulation has a seed per run and no drift from one block to the next: its world is made anew.
    simulated = provenance == "simulated"
    in_stretches = experiment.order == "cell-by-cell" and not simulated
    compared = _compared(plan)
    rounds, log_s = _log_s(plan, used, compared)
    odd = tuple(irregular.outliers(log_s))
    left_out = [run for run in odd if run.disturbed] if fit == "robust" else []
    blocks = blocks_judged(plan, in_stretches=in_stretches, simulated=simulated)
    kept = irregular.without(log_s, left_out)
    trended = experiment.order == "as-listed" and not simulated
    fitted = stats.fit(irregular.without_trend(kept, _places(plan, rounds)) if trended else kept, blocks)
    return Basis(
        used, provenance, compared, rounds, blocks, fitted, odd,
        tuple((plan.cells[run.cell].cell_id, rounds[run.round]) for run in left_out), in_stretches,
    )  # fmt: skip


def ratio_of(basis: Basis, plan: Plan, one: str, other: str) -> Estimate | None:
    """The time of `other` over that of `one`, with an interval that holds together with those of all other pairs of cells, so
    that one may pick a pair by looking. None where the two can't be tested."""
    places = {cell.cell_id: place for place, cell in enumerate(plan.cells)}
    first, second = places[one], places[other]
    if basis.blocks[first] != basis.blocks[second]:
        return None
    found = stats.compare_with_best(basis.fitted, first)[second]
    return None if found is None or found.p_value is None else found.ratio


def usable_runs(plan: Plan, runs: Sequence[Run]) -> dict[str, dict[int, Run]]:
    """cell_id -> repetition -> the latest attempt with figures, for every cell of the plan, in its order."""
    used: dict[str, dict[int, Run]] = {cell.cell_id: {} for cell in plan.cells}
    for run in sorted(runs, key=lambda run: (run.repetition, run.attempt)):
        if run.usable and not run.burn_in and run.cell_id in used:
            used[run.cell_id][run.repetition] = run
    return used


def measured(runs: Mapping[int, Run]) -> Iterator[tuple[int, Measurement]]:
    for repetition, run in runs.items():
        if run.measurement is not None:
            yield repetition, run.measurement


def blocks_judged(plan: Plan, *, in_stretches: bool, simulated: bool) -> Sequence[int]:
    """For each cell, the stretch of time in which it ran. Only cells of one stretch may be compared."""
    if in_stretches:
        return range(len(plan.cells))
    return (0,) * len(plan.cells) if simulated else blocks_of(plan)


def _compared(plan: Plan) -> Compared:
    work = {cell.config.workload.work for cell in plan.cells}
    if any(one.unit == "ms" for one in work):  # runs that all last as long as the spec says
        return "time-per-request"
    return "elapsed" if len(work) < 2 else "time-per-row"


def _log_s(
    plan: Plan, used: Mapping[str, Mapping[int, Run]], compared: Compared
) -> tuple[tuple[int, ...], stats.Matrix]:
    """The rounds, and log elapsed, of the run or per row, as cells x rounds.

    A round is a repetition: within a block of the plan it is complete, and close in time. Across blocks it is neither,
    so cells of different blocks may not be tested against each other.
    """
    rounds = sorted({repetition for runs in used.values() for repetition in runs})
    column = {repetition: index for index, repetition in enumerate(rounds)}
    log_s = np.full((len(plan.cells), len(rounds)), np.nan)
    for row, cell in enumerate(plan.cells):
        for repetition, measurement in measured(used[cell.cell_id]):
            share = 1 if compared == "elapsed" else max(measurement.work.amount, 1)
            log_s[row, column[repetition]] = math.log(max(measurement.elapsed_s, 1e-9) / share)
    return tuple(rounds), log_s


def _places(plan: Plan, rounds: Sequence[int]) -> stats.Matrix:
    """The places of all runs in the order, as cells x rounds."""
    row = {cell.cell_id: index for index, cell in enumerate(plan.cells)}
    column = {repetition: index for index, repetition in enumerate(rounds)}
    places = np.zeros((len(plan.cells), len(rounds)))
    for run in plan.runs:
        if run.repetition in column:
            places[row[run.cell_id], column[run.repetition]] = run.sequence
    return places
