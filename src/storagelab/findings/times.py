"""Stored runs -> times as a matrix, a row for each cell of a plan and a column for each round. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from storagelab.findings import stats
from storagelab.findings.evidence import blocks_of
from storagelab.findings.model import Compared
from storagelab.model.engines import Provenances
from storagelab.model.measurement import Measurement, Run
from storagelab.model.plan import Plan


class Lap(NamedTuple):
    """What judging by time takes of a run. `elapsed_s` is None where the run has no figures."""

    cell_id: str
    repetition: int
    attempt: int
    elapsed_s: float | None
    work: int
    wall_s: float


def lap_of(run: Run) -> Lap:
    measured = run.measurement if run.usable else None
    elapsed_s, work = (None, 0) if measured is None else (measured.elapsed_s, measured.work.amount)
    return Lap(run.cell_id, run.repetition, run.attempt, elapsed_s, work, run.wall_s)


def log_times(plan: Plan, laps: Iterable[Lap], compared: Compared) -> tuple[tuple[int, ...], stats.Matrix]:
    """The rounds, and log elapsed, of the run or per row, as cells x rounds.

    A round is a repetition: within a block of the plan it is complete, and close in time. Across blocks it is neither,
    so cells of different blocks may not be tested against each other.
    """
    timed = [(lap, lap.elapsed_s) for lap in laps if lap.elapsed_s is not None]
    rounds = sorted({lap.repetition for lap, _ in timed})
    row = {cell.cell_id: index for index, cell in enumerate(plan.cells)}
    column = {repetition: index for index, repetition in enumerate(rounds)}
    log_s = np.full((len(plan.cells), len(rounds)), np.nan)
    for lap, elapsed_s in timed:
        share = 1 if compared == "elapsed" else max(lap.work, 1)
        log_s[row[lap.cell_id], column[lap.repetition]] = math.log(max(elapsed_s, 1e-9) / share)
    return tuple(rounds), log_s


def places_of(plan: Plan, rounds: Sequence[int]) -> stats.Matrix:
    """The places of all runs in the order, as cells x rounds."""
    row = {cell.cell_id: index for index, cell in enumerate(plan.cells)}
    column = {repetition: index for index, repetition in enumerate(rounds)}
    places = np.zeros((len(plan.cells), len(rounds)))
    for run in plan.runs:
        if run.repetition in column:
            places[row[run.cell_id], column[run.repetition]] = run.sequence
    return places


def blocks_judged(plan: Plan, *, in_stretches: bool, simulated: bool) -> Sequence[int]:
    """For each cell, the stretch of time in which it ran. Only cells of one stretch may be compared.

    All simulated cells share one: a simulation has a seed per run and no drift from one block to the next, because its world
    is made anew. Beside measured cells, none of these is in it. `simulated` = all cells are.
    """
    if simulated:
        return (0,) * len(plan.cells)
    stretches = range(len(plan.cells)) if in_stretches else blocks_of(plan)
    pairs = list(zip(plan.cells, stretches, strict=True))
    shared = min((stretch for cell, stretch in pairs if cell.config.simulated), default=0)
    return [shared if cell.config.simulated else stretch for cell, stretch in pairs]


def provenance_of(measurements: Iterable[Measurement]) -> Provenances | None:
    """None if there are none."""
    found = sorted({one.provenance for one in measurements})
    return "measured and simulated" if len(found) > 1 else next(iter(found), None)


def compared_of(plan: Plan) -> Compared:
    work = {cell.config.workload.work for cell in plan.cells}
    if any(one.unit == "ms" for one in work):  # runs that all last as long as the spec says
        return "time-per-request"
    return "elapsed" if len(work) < 2 else "time-per-row"


def usable_runs(plan: Plan, runs: Sequence[Run]) -> dict[str, dict[int, Run]]:
    """cell_id -> repetition -> the latest attempt with figures, for every cell of the plan, in its order."""
    used: dict[str, dict[int, Run]] = {cell.cell_id: {} for cell in plan.cells}
    for run in sorted(runs, key=lambda run: (run.repetition, run.attempt)):
        if run.usable and not run.burn_in and run.cell_id in used:
            used[run.cell_id][run.repetition] = run
    return used


def measured(runs: Mapping[int, Run]) -> Iterator[tuple[int, Measurement]]:
    """The runs of a cell that have figures, by repetition."""
    for repetition, run in runs.items():
        if run.measurement is not None:
            yield repetition, run.measurement
