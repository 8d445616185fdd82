"""Derives an experiment's findings from its runs: the conclusions with their uncertainty. The functions are pure. The
package `report` writes the text."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from storagelab.findings import FitKind, hosts
from storagelab.findings.basis import Evidence, basis_of
from storagelab.findings.cautions import cautions_of
from storagelab.findings.cell import native_names
from storagelab.findings.effects import combinations, key
from storagelab.findings.kinds import found_in
from storagelab.findings.model import CellSummary, Estimate, Findings, WaitChange, WaitTrend
from storagelab.findings.summaries import summaries, with_fitted_means, without_intervals
from storagelab.findings.times import of_set_time, unit_of
from storagelab.findings.verdicts import loads_of
from storagelab.findings.why import wait_each_s
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Factor, Plan
from storagelab.model.waits import WaitStat
from storagelab.spec.naming import axis_factor, in_order, is_numeric


def analyse(experiment: Experiment, plan: Plan, runs: Sequence[Run], fit: FitKind = "robust") -> Findings:
    """All findings of an experiment from the runs stored so far. For each cell and repetition, the latest usable
    attempt is used.

    Failed runs are only counted. Burn-in runs are not judged. The robust fit leaves out an odd run if the run's record
    shows that the machine caused it. Other odd runs are used, and a caution names them.
    """
    basis = basis_of(experiment, plan, runs, fit)
    compared, stated = basis.compared, basis.stated
    judged = stated.judged
    cells = with_fitted_means(summaries(experiment.factors, plan, runs, basis), basis, judged, compared)
    by_wait = cells
    # Engines have no common names of waits, so engines are compared by categories of waits.
    several_engines = len({cell.config.target.engine for cell in plan.cells}) > 1
    if several_engines:
        by_wait = summaries(experiment.factors, plan, runs, basis, by_class=True)
        by_wait = with_fitted_means(by_wait, basis, judged, compared)
        cells = tuple(
            one.model_copy(update={"spent": joined.spent}) for one, joined in zip(cells, by_wait, strict=True)
        )
    if basis.in_stretches:
        cells, by_wait = without_intervals(cells), without_intervals(by_wait)
    trends = tuple(wait_trends(experiment.factors, by_wait))
    loads = [places for _, places in loads_of(experiment.factors, plan.cells)]
    evidence = Evidence(experiment, plan, tuple(runs), cells, basis)
    return Findings(
        experiment=experiment.name,
        question=experiment.question,
        provenance=basis.provenance,
        order=experiment.order,
        factors=experiment.factors,
        runs_planned=len(plan.runs),
        runs_stored=len({(run.cell_id, run.repetition) for run in runs}),
        **dict(judged),
        fit=fit,
        left_out=tuple(basis.left_out),
        cells=cells,
        effects=stated.effects,
        wait_changes=wait_changes(by_wait, judged.fastest, judged.worst),
        wait_trends=trends if not basis.in_stretches else without_intervals(trends),
        cautions=cautions_of(evidence),
        compared=compared,
        set_time=of_set_time(plan),
        unit=unit_of(plan),
        dependences=stated.dependences,
        speed_ups=stated.speed_ups,
        found=found_in(evidence),
        fleet=None if basis.fleet is None else hosts.summarise(basis.fleet, plan, loads, basis.blocks),
        prefer=experiment.prefer,
        indifferent=experiment.margin,
        wait_names=native_names(row for cell in cells for row in cell.waits) if several_engines else {},
    )


# --- the waits that differ most between two cells, and how the largest waits change along a factor --------------------

WAIT_CHANGES_MAX = 8
TREND_PANELS_MAX = 12
TREND_WAITS_MAX = 8


def wait_changes(cells: Sequence[CellSummary], fastest: str | None, slowest: str | None) -> tuple[WaitChange, ...]:
    """The waits (and CPU time) that differ most between the cells `fastest` and `slowest`, the largest difference
    first. Empty if one of the cells has no waits."""
    by_id = {cell.cell_id: cell for cell in cells}
    best, worst = by_id.get(fastest or ""), by_id.get(slowest or "")
    if best is None or worst is None or not best.available_s or not worst.available_s:
        return ()
    of_best, of_worst = ({row.wait_type: row for row in cell.waits} for cell in (best, worst))
    changes = []
    for wait_type, row in (of_worst | of_best).items():
        each_s = (wait_each_s(cell, wait_type) for cell in (best, worst))
        best_each_s, worst_each_s = (None if one is None else one.value for one in each_s)
        best_s, worst_s = (of[wait_type].wait_s if wait_type in of else 0.0 for of in (of_best, of_worst))
        changes.append(
            WaitChange(
                wait_type=wait_type, analogue=row.analogue, category=row.category, best_s=best_s, worst_s=worst_s,
                best_share=best_s / best.available_s, worst_share=worst_s / worst.available_s,
                best_each_s=best_each_s, worst_each_s=worst_each_s,
            )
        )  # fmt: skip
    changes.sort(key=lambda change: (-_moved(change), change.wait_type))
    return tuple(changes[:WAIT_CHANGES_MAX])


def _moved(change: WaitChange) -> float:
    if change.best_each_s is None or change.worst_each_s is None:
        return abs(change.worst_share - change.best_share)
    return abs(change.worst_each_s - change.best_each_s)


def wait_trends(factors: Sequence[Factor], cells: Sequence[CellSummary]) -> Iterator[WaitTrend]:
    """The shares of the largest waits along the ordered factor, for each combination of the other factors. All
    combinations have the same waits in the same order.
    """
    factor = axis_factor([factor for factor in factors if is_numeric(factor)])
    if factor is None:
        return
    levels = tuple(in_order(factor))
    at = {key(cell.levels): cell for cell in cells}
    wait_types = _largest_waits(cells)
    for others in itertools.islice(combinations(cells, factor), TREND_PANELS_MAX):
        along = [at.get(key({**others, factor.name: level})) for level in levels]
        for wait in wait_types:
            estimates = tuple(_share_in(cell, wait.wait_type) for cell in along)
            each_s = tuple(None if cell is None else wait_each_s(cell, wait.wait_type) for cell in along)
            yield WaitTrend(
                wait_type=wait.wait_type,
                analogue=wait.analogue,
                category=wait.category,
                factor=factor.name,
                at=others,
                levels=levels,
                shares=tuple(None if estimate is None else estimate.value for estimate in estimates),
                estimates=estimates,
                each_s=each_s if any(each_s) else (),
            )


def _share_in(cell: CellSummary | None, wait_type: str) -> Estimate | None:
    """The share of a wait in a cell. It is 0 if the cell's wait statistics lack this wait, and None if the cell has no
    wait statistics."""
    return None if cell is None or not cell.waits else cell.wait_shares.get(wait_type, Estimate(value=0.0))


def _largest_waits(cells: Sequence[CellSummary]) -> list[WaitStat]:
    """The wait types (and CPU time) with the largest shares in any cell, sorted by category and then by share.

    Waits for allocation are always chosen first. They are small compared with waits for the log, but they are the
    reason to use more files.
    """
    peak: dict[str, tuple[float, WaitStat]] = {}
    for cell in cells:
        for row in cell.waits if cell.available_s else ():
            share = row.wait_s / (cell.available_s or 1.0)
            if share > peak.get(row.wait_type, (0.0, row))[0]:
                peak[row.wait_type] = (share, row)
    largest = sorted(peak.values(), key=lambda item: (item[1].category != "allocation", -item[0], item[1].wait_type))[
        :TREND_WAITS_MAX
    ]
    of_category: dict[str, float] = defaultdict(float)
    for share, row in largest:
        of_category[row.category] = max(of_category[row.category], share)
    largest.sort(key=lambda item: (-of_category[item[1].category], item[1].category, -item[0], item[1].wait_type))
    return [row for _, row in largest]
