"""The runs that are judged, and the fit by which their cells are compared: all findings are based on them. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from storagelab.findings import FitKind, between_blocks, cycles, hosts, irregular, stats
from storagelab.findings.between_blocks import BetweenBlocks
from storagelab.findings.disturbed import MachineCause, cause_of, slice_share
from storagelab.findings.model import Compared, Estimate
from storagelab.findings.samples import ALPHA
from storagelab.findings.stats import Fit
from storagelab.findings.times import blocks_judged, compared_of, log_times, measured, provenance_of, timed, usable_runs
from storagelab.model.engines import Provenances
from storagelab.model.measurement import Run, host_of, preparation_of
from storagelab.model.plan import Cell, Experiment, Plan
from storagelab.model.values import JsonValue

# --- what a run leaves behind for the next one ------------------------------------------------------------------------
# Whether the layout of the run before explains times, and the times without that. Pure.
#
# The model is log time = cell + round + what came before + residual, where what came before is the cell of the run
# before or, of many cells, the level of each of its factors. It is tested by the F test of these effects together.
# Where they are taken out of the times, the residuals are made as much larger as the comparisons of cells become less
# sure by that.

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


def fit_carried(
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


# --- the basis of verdicts --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Basis:
    """The runs that are judged, and the fit by which cells are compared.

    `blocks` = for each cell of the plan its stretch of time; `kept` = the times that are fitted; `odd` = runs that
    stand apart, `left_out` = those of them, by cell and repetition, that the fit leaves out, with the cause. `fleet` =
    the fits of hosts, if there are several: then `fitted` has a column for each host instead of each round.
    """

    used: dict[str, dict[int, Run]]
    provenance: Provenances | None
    compared: Compared
    rounds: tuple[int, ...]
    blocks: Sequence[int]
    kept: stats.Matrix
    fitted: stats.Fit
    odd: tuple[irregular.Outlier, ...]
    left_out: Mapping[tuple[str, int], MachineCause]
    in_stretches: bool
    fleet: hosts.Fitted | None = None
    carried: CarriedOver | None = None
    """What the run before explains of the times."""
    made_in: Places = field(default_factory=lambda: np.zeros((0, 0), dtype=int))
    """The number of the preparation in which each run was made, as cells x rounds; -1 without a run."""


def basis_of(experiment: Experiment, plan: Plan, runs: Sequence[Run], fit: FitKind = "robust") -> Basis:
    used = usable_runs(plan, runs)
    provenance = provenance_of(one for of_cell in used.values() for _, one in measured(of_cell))
    simulated = provenance == "simulated"
    in_stretches = experiment.order != "randomised" and not simulated
    compared = compared_of(plan)
    runs_timed = [timed(run) for of_cell in used.values() for run in of_cell.values()]
    rounds, log_s = log_times(plan, runs_timed, compared)
    # A race looks at its rounds one after the other, as one host makes them.
    several = None if experiment.race or provenance != "measured" else hosts.hosts_of(plan, used, rounds)
    odd = tuple(irregular.outliers(log_s) if several is None else hosts.outliers(several, log_s))
    causes = _causes(plan, used, rounds, odd) if fit == "robust" else {}
    blocks = _without_parts(plan, blocks_judged(plan, in_stretches=in_stretches, simulated=simulated), used)
    kept = irregular.without(log_s, causes)
    of_rounds = irregular.fit if fit == "robust" else stats.fit
    levels = [cell.levels for cell in plan.cells]
    fleet = None if several is None else hosts.fit(several, kept, blocks, of_rounds, levels)
    carried = None
    if provenance == "measured" and fleet is None and not in_stretches:
        before = cells_before(plan, used, runs, rounds)
        carried = carried_over(plan.cells, kept, before, blocks)
        if carried is not None and experiment.race is not None:
            carried = replace(carried, corrected=False)  # the race was decided by the times as they are
    together = fleet.together if fleet else fit_carried(kept, blocks, carried, of_rounds)
    kept = carried.without if carried is not None and carried.corrected else kept
    made_in = preparations_of(plan, used, rounds)
    if provenance == "measured" and fleet is None and not in_stretches:
        together = by_preparation(together, made_in, blocks)
    fitted = resolved(together, _tick(used, compared), experiment.margin)
    return Basis(
        used, provenance, compared, rounds, blocks, kept, fitted, odd,
        {(plan.cells[run.cell].cell_id, rounds[run.round]): cause for run, cause in causes.items()}, in_stretches,
        fleet,
        carried, made_in,
    )  # fmt: skip


def _without_parts(plan: Plan, blocks: Sequence[int], used: Mapping[str, Mapping[int, Run]]) -> Sequence[int]:
    """The blocks, with one of its own for each cell that can't be compared as its runs hold parts of checkpoint
    cycles.
    """
    alone, first = cycles.withheld(used), max(blocks, default=0) + 1
    return [
        first + place if cell.cell_id in alone else block
        for place, (cell, block) in enumerate(zip(plan.cells, blocks, strict=True))
    ]


def _tick(used: Mapping[str, Mapping[int, Run]], compared: Compared) -> float:
    """The share of its time by which a run is off at least, by its clock, by what it counts, or by its throttle."""
    runs = [one for of_cell in used.values() for _, one in measured(of_cell)]
    if compared in ("time-per-request", "time-per-transaction"):
        return grain_of([one.work.amount for one in runs])
    # A simulated clock has no ticks, and a latency is known within its bin, which is below what matters.
    timed_here = compared in ("elapsed", "time-per-row") and not any(one.provenance == "simulated" for one in runs)
    if not timed_here:
        return 0.0
    by_cell = {cell_id: [one for _, one in measured(of_cell)] for cell_id, of_cell in used.items()}
    return max(tick_of([one.elapsed_s for one in runs]), slice_share(by_cell))


def _causes(
    plan: Plan, used: Mapping[str, Mapping[int, Run]], rounds: Sequence[int], odd: Iterable[irregular.Outlier]
) -> dict[irregular.Outlier, MachineCause]:
    """The odd runs with a cause in their record that is the machine's."""
    found = {}
    for one in odd:
        runs = dict(measured(used[plan.cells[one.cell].cell_id]))
        run = runs.pop(rounds[one.round], None)
        cause = None if run is None else cause_of(run, [*runs.values()], one.ratio)
        if cause is not None:
            found[one] = cause
    return found


def ratio_of(basis: Basis, plan: Plan, one: str, other: str) -> Estimate | None:
    """The time of `other` over that of `one`. Its interval holds together with those of all other pairs of cells, so
    one may pick the pair after seeing the data. None if the two can't be tested.
    """
    places = {cell.cell_id: place for place, cell in enumerate(plan.cells)}
    first, second = places[one], places[other]
    blocks = basis.blocks if basis.fitted.between is None else basis.fitted.between.compared(basis.blocks)
    if blocks[first] != blocks[second]:
        return None
    found = stats.compare_with_best(basis.fitted, first)[second]
    return None if found is None or found.p_value is None else found.ratio


# --- the least difference of times that a verdict may rest on ---------------------------------------------------------
#
# What matters to the reader, and what clocks resolve.

MATTERS = 0.005
"""A layout that is slower by a smaller share is not worth a choice, unless the spec says what is (`indifferent`)."""
TIES_LEAST = 0.5
"""If so many runs take exactly as long as another one, a clock with coarse ticks made them equal."""
_ROUNDED_UP = 1 + 1e-6
"""Times that are one tick apart are so in the last digit, too."""
_STEPS = 4
"""Two times next to each other may be so many ticks apart."""


def resolved(fitted: Fit, tick: float, margin: float | None = None) -> Fit:
    """The fit whose differences are at least off by a `tick`, as a share of the time, and matter above the `margin`."""
    return replace(
        fitted, tick=_ROUNDED_UP * math.log1p(tick), margin=math.log1p(MATTERS if margin is None else margin)
    )


def tick_of(times_s: Sequence[float]) -> float:
    """The tick of the clock that measured these times, as a share of the shortest; 0 if it is too fine to show.

    Ticks show where many times are equal to the last digit, and all are multiples of the same step.
    """
    values = Counter(float(f"{time_s:.9g}") for time_s in times_s if time_s > 0)
    ties = sum(number for number in values.values() if number > 1)
    if len(values) < 2 or ties < TIES_LEAST * values.total():
        return 0.0
    different = np.array(sorted(values))
    gap = float(np.diff(different).min())
    for step in (gap / parts for parts in range(1, _STEPS + 1)):
        multiples = different / step
        if np.abs(multiples - np.round(multiples)).max() < 1e-3:
            return step / float(different[0])
    return 0.0


def grain_of(amounts: Sequence[int]) -> float:
    """The share by which a run of a set time is off, as only whole pieces of work are counted."""
    return 1 / min(amounts) if amounts and min(amounts) > 0 else 0.0


# --- which preparation each run belongs to, and the fit of cells that were prepared several times ---------------------


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


def by_preparation(fitted: stats.Fit, made_in: Places, blocks: Sequence[int]) -> stats.Fit:
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
