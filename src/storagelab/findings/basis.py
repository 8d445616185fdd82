"""Chooses the runs that are judged, and fits their times. All findings are based on these. The functions are pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from pydantic import PlainSerializer

from storagelab.findings import FitKind, hosts
from storagelab.findings.comparable import MachineCause, cause_of, slice_share, withheld
from storagelab.findings.model import CellSummary, Compared, Estimate
from storagelab.findings.raced import Raced, raced
from storagelab.findings.statements import Statements, reaching_one, state
from storagelab.findings.times import blocks_judged, compared_of, log_times, measured, provenance_of, timed, usable_runs
from storagelab.model.config import Config
from storagelab.model.engines import Provenances
from storagelab.model.measurement import Measurement, Run, host_of, preparation_of
from storagelab.model.objects import TEMPORARY
from storagelab.model.plan import Experiment, Plan
from storagelab.stats import contrast, order, stalls
from storagelab.stats import fit as least_squares
from storagelab.stats.fit import Fit, Matrix, Places, prepared


def cells_before(
    plan: Plan, used: Mapping[str, Mapping[int, Run]], runs: Iterable[Run], rounds: Sequence[int]
) -> Places:
    """For each run, the place of the cell whose run was made before it, as a matrix of cells x rounds. It is -1 for the
    first run of a block and for runs that are not used. The run before may also be a failed run or a burn-in run."""
    row = {cell.cell_id: place for place, cell in enumerate(plan.cells)}
    column = {repetition: place for place, repetition in enumerate(rounds)}
    before = np.full((len(row), len(column)), -1)
    last: dict[tuple[str, int], str] = {}
    host = ""
    for run in sorted(runs, key=lambda run: (run.started_at, run.sequence, run.attempt)):
        host = host_of(run) or host  # a failed run does not record its host
        earlier = last.get((host, run.block))
        last[host, run.block] = run.cell_id
        chosen = used.get(run.cell_id, {}).get(run.repetition)
        if earlier in row and chosen is not None and chosen.attempt == run.attempt and run.repetition in column:
            before[row[run.cell_id], column[run.repetition]] = row[earlier]
    return before


# --- the basis of verdicts --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Basis:
    """The runs that are judged, and the fit by which cells are compared.

    `used` has each cell's runs that have figures, by repetition. `blocks` has the number of the period of each cell of
    the plan. `kept` has the times that are fitted. `left_out` maps (cell id, repetition) of the `odd` runs that the fit
    leaves out to the cause. `fleet` has the fits of hosts, if there are several. Then `fitted` has a column for each
    host instead of each round. `carried` is the effect of the previous run on times. `made_in` has the number of the
    preparation in which each run was made, as a matrix of cells x rounds, with -1 if there is no run.
    """

    experiment: Experiment
    plan: Plan
    runs: tuple[Run, ...]
    used: dict[str, dict[int, Run]]
    provenance: Provenances | None
    compared: Compared
    rounds: tuple[int, ...]
    blocks: Sequence[int]
    kept: Matrix
    fitted: Fit
    odd: tuple[stalls.Outlier, ...]
    left_out: Mapping[tuple[str, int], MachineCause]
    in_stretches: bool
    fleet: hosts.Fitted | None
    carried: order.CarriedOver | None
    made_in: Places

    @cached_property
    def race(self) -> Raced | None:
        if self.experiment.race is None or self.in_stretches:
            return None
        return raced(self.experiment, self.plan, list(map(timed, self.runs)), self.rounds, self.kept, self.fitted)

    @cached_property
    def stated(self) -> Statements:
        return state(self.experiment.factors, self.plan, self.fitted, self.blocks, self.race)


def basis_of(experiment: Experiment, plan: Plan, runs: Sequence[Run], fit: FitKind = "robust") -> Basis:
    used = usable_runs(plan, runs)
    provenance = provenance_of(one for of_cell in used.values() for _, one in measured(of_cell))
    in_stretches = experiment.order != "randomised" and provenance != "simulated"
    compared = compared_of(plan)
    rounds, log_s = log_times(plan, [timed(run) for of_cell in used.values() for run in of_cell.values()], compared)
    # A race tests its rounds one after the other, so all rounds must be from one host.
    several = None if experiment.race or provenance != "measured" else hosts.hosts_of(plan, used, rounds)
    odd = tuple(stalls.outliers(log_s) if several is None else hosts.outliers(several, log_s))
    causes = _causes(plan, used, rounds, odd) if fit == "robust" else {}
    blocks = blocks_judged(plan, in_stretches=in_stretches, simulated=provenance == "simulated")
    blocks = _without_parts(plan, blocks, used)
    kept = stalls.without(log_s, causes)
    of_rounds = stalls.fit if fit == "robust" else least_squares.fit
    fleet = None if several is None else hosts.fit(several, kept, blocks, of_rounds)
    in_turns = provenance == "measured" and fleet is None and not in_stretches
    carried = _carried(experiment, plan, used, runs, rounds, kept, blocks) if in_turns else None
    covariates = carried.covariates if carried is not None and carried.corrected else ()
    together = fleet.together if fleet else of_rounds(kept, blocks, covariates=covariates)
    made_in = preparations_of(plan, used, rounds)
    return Basis(
        experiment=experiment, plan=plan, runs=tuple(runs), used=used, provenance=provenance, compared=compared,
        rounds=rounds, blocks=blocks, kept=kept,
        fitted=resolved(
            prepared(together, made_in) if in_turns else together, _tick(used, compared), experiment.margin
        ),
        odd=odd,
        left_out={(plan.cells[run.cell].cell_id, rounds[run.round]): cause for run, cause in causes.items()},
        in_stretches=in_stretches, fleet=fleet, carried=carried, made_in=made_in,
    )  # fmt: skip


def _carried(
    experiment: Experiment,
    plan: Plan,
    used: Mapping[str, Mapping[int, Run]],
    runs: Iterable[Run],
    rounds: Sequence[int],
    kept: Matrix,
    blocks: Sequence[int],
) -> order.CarriedOver | None:
    before = cells_before(plan, used, runs, rounds)
    found = order.carried_over([cell.levels for cell in plan.cells], kept, before, blocks)
    # The layouts that left a race were judged by uncorrected times, so the report uses uncorrected times, too.
    return found if found is None or experiment.race is None else replace(found, corrected=False)


def _without_parts(plan: Plan, blocks: Sequence[int], used: Mapping[str, Mapping[int, Run]]) -> Sequence[int]:
    """The block of each cell. If a cell's runs contain parts of checkpoint cycles, the cell has its own block, because
    it can't be compared."""
    alone, first = withheld(used), max(blocks, default=0) + 1
    return [
        first + place if cell.cell_id in alone else block
        for place, (cell, block) in enumerate(zip(plan.cells, blocks, strict=True))
    ]


def _tick(used: Mapping[str, Mapping[int, Run]], compared: Compared) -> float:
    """The least relative error of a run's time. It is caused by the clock, by the unit of work, or by a throttle."""
    runs = [one for of_cell in used.values() for _, one in measured(of_cell)]
    if compared in ("time-per-request", "time-per-transaction"):
        return grain_of([one.work.amount for one in runs])
    # A simulated clock has no ticks, and the bins of latencies are narrower than the margin.
    timed_here = compared in ("elapsed", "time-per-row") and not any(one.provenance == "simulated" for one in runs)
    if not timed_here:
        return 0.0
    by_cell = {cell_id: [one for _, one in measured(of_cell)] for cell_id, of_cell in used.items()}
    return max(tick_of([one.elapsed_s for one in runs]), slice_share(by_cell))


def _causes(
    plan: Plan, used: Mapping[str, Mapping[int, Run]], rounds: Sequence[int], odd: Iterable[stalls.Outlier]
) -> dict[stalls.Outlier, MachineCause]:
    """The odd runs whose records show that the machine caused them, each with the cause."""
    found = {}
    for one in odd:
        runs = dict(measured(used[plan.cells[one.cell].cell_id]))
        run = runs.pop(rounds[one.round], None)
        cause = None if run is None else cause_of(run, [*runs.values()], one.ratio)
        if cause is not None:
            found[one] = cause
    return found


def ratio_of(basis: Basis, plan: Plan, one: str, other: str) -> Estimate | None:
    """The time of `other` divided by the time of `one`; None if the two cells can't be tested. If one of them is the
    best, the ratio is that of the report's comparison. Otherwise the interval is joint for all pairs of cells, so the
    reader may choose the pair after seeing the data.
    """
    for row in basis.stated.judged.comparisons:
        if {row.cell_id, row.best_cell_id} == {one, other}:
            return None if not row.tested else row.ratio if row.cell_id == other else row.ratio.inverse
    places = {cell.cell_id: place for place, cell in enumerate(plan.cells)}
    found = contrast.compare_with_best(basis.fitted, places[one]).get(places[other])
    if found is None or not found.tested:
        return None
    return found.ratio if basis.stated.name_a_difference else reaching_one(found.ratio)


# --- the least difference of times that a verdict may state -----------------------------------------------------------
# It is set by the margin that matters to the reader, and by the resolution of clocks.

MATTERS = 0.005
"""Differences between layouts that are smaller than this share don't matter, unless the spec sets `indifferent`."""
TIES_LEAST = 0.5
"""If at least this share of runs takes exactly as long as another run, the clock has coarse ticks."""
_ROUNDED_UP = 1 + 1e-6
"""Makes the tick slightly larger. So a difference of exactly one tick can't look larger because of rounding."""
_STEPS = 4
"""The smallest difference of two measured times is assumed to be at most this number of ticks."""


def resolved(fitted: Fit, tick: float, margin: float | None = None) -> Fit:
    """The fit with a least error and a margin. The error of each difference is at least `tick`, and differences up to
    `margin` don't matter. Both are shares of the time."""
    return replace(
        fitted, tick=_ROUNDED_UP * math.log1p(tick), margin=math.log1p(MATTERS if margin is None else margin)
    )


def tick_of(times_s: Sequence[float]) -> float:
    """The tick of the clock that measured these times, as a share of the shortest time; 0 if it is too small to matter.

    A tick is recognised if many times are equal to the last digit, and if all times are multiples of the same step.
    """
    values = Counter(float(f"{time_s:.9g}") for time_s in times_s if time_s > 0)
    if len(values) < 2 or sum(number for number in values.values() if number > 1) < TIES_LEAST * values.total():
        return 0.0
    different = np.array(sorted(values))
    for step in (float(np.diff(different).min()) / parts for parts in range(1, _STEPS + 1)):
        multiples = different / step
        if np.abs(multiples - np.round(multiples)).max() < 1e-3:
            return step / float(different[0])
    return 0.0


def grain_of(amounts: Sequence[int]) -> float:
    """The relative error of a run whose length the spec sets. The error arises because only whole units of work are
    counted."""
    return 1 / min(amounts) if amounts and min(amounts) > 0 else 0.0


# --- the preparation of each run --------------------------------------------------------------------------------------


def preparations_of(plan: Plan, used: Mapping[str, Mapping[int, Run]], rounds: Sequence[int]) -> Places:
    """The number of each run's preparation, as a matrix of cells x rounds, with -1 if there is no run."""
    numbers: dict[tuple[int, str], int] = {}
    found = np.full((len(plan.cells), len(rounds)), -1)
    for row, cell in enumerate(plan.cells):
        for column, repetition in enumerate(rounds):
            if (run := used[cell.cell_id].get(repetition)) is not None:
                found[row, column] = numbers.setdefault((run.block, preparation_of(run)), len(numbers))
    return found


# --- everything that cautions examine ---------------------------------------------------------------------------------

Names = Annotated[tuple[str, ...], PlainSerializer(", ".join)]
"""Names in a caution's figures, exported as one text with commas."""


@dataclass(frozen=True)
class Evidence:
    """All stored data of an experiment, with the summaries of its `cells` and the `basis` of its verdicts."""

    experiment: Experiment
    plan: Plan
    runs: tuple[Run, ...]
    cells: tuple[CellSummary, ...]
    basis: Basis

    def measurements(self) -> Iterator[tuple[str, Run, Measurement]]:
        for cell_id, runs in self.basis.used.items():
            for run in runs.values():
                if run.measurement is not None:
                    yield cell_id, run, run.measurement

    def by_cell(self) -> dict[str, list[Measurement]]:
        found: dict[str, list[Measurement]] = defaultdict(list)
        for cell_id, _, measurement in self.measurements():
            found[cell_id].append(measurement)
        return found

    @property
    def provenance(self) -> Provenances:
        """Whether the figures are measured, simulated or mixed; "measured" if there are no runs."""
        return self.basis.provenance or "measured"

    def named(self, cells: Iterable[str]) -> tuple[str, ...]:
        """The ids of the cells that a caution concerns, in the plan's order. Empty if the caution concerns all
        cells."""
        meant = set(cells)
        named = tuple(cell.cell_id for cell in self.plan.cells if cell.cell_id in meant)
        return () if len(named) == len(self.plan.cells) else named


def volumes_of(measurement: Measurement) -> Iterator[tuple[str, Mapping[str, object]]]:
    volumes = table_in(measurement.environment, "volumes")
    for name in volumes:
        yield name, table_in(volumes, name)


def is_in_memory(volume: Mapping[str, object]) -> bool:
    """Whether the facts of a volume say that its files are only in memory."""
    return volume.get("in_memory") is True or volume.get("filesystem") in ("tmpfs", "ramfs")


def lost_in_crash(config: Config, found: Measurement) -> set[str | None]:
    """The volumes of data or log whose content a crash of the machine loses, because they are in memory or nothing is
    synced. A volume that only temporary files use may be in memory."""
    placed = (name for what, name in config.placed.items() if what != TEMPORARY)
    kept = {*config.data_volumes, config.log_volume, *placed}
    if found.durability is not None and any(one.loses == "everything" for one in found.durability.settings):
        return kept
    return {name for name, facts in volumes_of(found) if name in kept and is_in_memory(facts)}


def table_in(mapping: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The table under `key`. If there is none, an empty table, because an environment contains only the values that
    could be read."""
    value = mapping.get(key)
    return value if isinstance(value, Mapping) else {}


def text_in(mapping: Mapping[str, object], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""
