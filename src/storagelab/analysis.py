"""Runs -> Findings: what the experiment says, and how surely. Pure; the words are report's."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from storagelab import stats
from storagelab.cautions import Evidence, cautions_of
from storagelab.findings import (
    CellSummary,
    Comparison,
    Effect,
    Estimate,
    Findings,
    Point,
    Verdict,
    WaitChange,
    WaitTrend,
)
from storagelab.model import Cell, Experiment, Factor, Measurement, Plan, Run
from storagelab.values import JsonValue
from storagelab.waits import WaitStat, conservation, mean_of_runs, normalise

EFFECT_ROWS_MAX = 40
"""Effects per combination of the other factors are left out beyond this: nobody reads a longer table."""
WAIT_CHANGES_MAX = 8
TREND_PANELS_MAX = 12
TREND_WAITS_MAX = 8
FILES_FACTOR = "layout.data_files"

_Key = str


def analyse(experiment: Experiment, plan: Plan, runs: Sequence[Run]) -> Findings:
    """All findings of an experiment from the runs stored so far: of each cell and repetition the latest usable attempt.

    Failed runs are counted, and nothing else of them is used.
    """
    used = usable_runs(plan, runs)
    summaries = tuple(_summaries(plan, runs, used))
    rounds, log_s = _log_s(plan, used)
    fitted = stats.fit(log_s)
    fastest, worst = stats.fastest(fitted), _worst(fitted)
    comparisons = _comparisons(plan, fitted, fastest)
    verdict = _verdict(plan, comparisons)
    ids = [cell.cell_id for cell in plan.cells]
    tied = () if verdict == "too-few-runs" else tuple(row.cell_id for row in comparisons if not row.distinguishable)
    best = () if verdict == "too-few-runs" or fastest is None else (ids[fastest], *tied)
    extremes = None if fastest is None or worst is None else (summaries[fastest], summaries[worst])
    return Findings(
        experiment=experiment.name,
        question=experiment.question,
        provenance=next((cell.provenance for cell in summaries if cell.provenance is not None), None),
        factors=experiment.factors,
        runs_planned=len(plan.runs),
        runs_stored=len({(run.cell_id, run.repetition) for run in runs}),
        verdict=verdict,
        best=best,
        tied=tied,
        worst=None if worst is None else ids[worst],
        fastest=None if fastest is None else ids[fastest],
        cells=summaries,
        comparisons=comparisons,
        effects=tuple(_effects(experiment.factors, plan.cells, fitted)),
        wait_changes=() if extremes is None else _wait_changes(*extremes),
        wait_trends=tuple(_wait_trends(experiment.factors, summaries)),
        cautions=cautions_of(Evidence(experiment, plan, tuple(runs), used, summaries, rounds, log_s)),
    )


def usable_runs(plan: Plan, runs: Sequence[Run]) -> dict[str, dict[int, Run]]:
    """cell_id -> repetition -> the latest attempt that has figures; every cell of the plan is there, in its order."""
    used: dict[str, dict[int, Run]] = {cell.cell_id: {} for cell in plan.cells}
    for run in sorted(runs, key=lambda run: (run.repetition, run.attempt)):
        if run.usable and run.cell_id in used:
            used[run.cell_id][run.repetition] = run
    return used


def _measured(runs: Mapping[int, Run]) -> Iterator[tuple[int, Measurement]]:
    for repetition, run in runs.items():
        if run.measurement is not None:
            yield repetition, run.measurement


# ---------------------------------------------------------------------------------------------------------------------
# Cells
# ---------------------------------------------------------------------------------------------------------------------


def _summaries(plan: Plan, runs: Sequence[Run], used: Mapping[str, Mapping[int, Run]]) -> Iterator[CellSummary]:
    planned = Counter(run.cell_id for run in plan.runs)
    failed = Counter(run.cell_id for run in runs if not run.usable)
    for cell in plan.cells:
        yield _summary(cell, planned[cell.cell_id], failed[cell.cell_id], used[cell.cell_id])


def _summary(cell: Cell, planned: int, failed: int, runs: Mapping[int, Run]) -> CellSummary:
    measured = list(_measured(runs))
    raw_waits = [measurement.waits for _, measurement in measured if measurement.waits is not None]
    explained = [share for raw in raw_waits if (share := conservation(raw).explained) is not None]
    rows = [normalise(raw) for raw in raw_waits]
    available_s = [raw.connections * raw.elapsed_s for raw in raw_waits]
    return CellSummary(
        cell_id=cell.cell_id,
        levels=cell.levels,
        provenance=measured[0][1].provenance if measured else None,
        runs_planned=planned,
        runs_ok=sum(run.status == "ok" for run in runs.values()),
        runs_unverified=sum(run.status == "unverified" for run in runs.values()),
        runs_failed=failed,
        connections=cell.config.workload.connections,
        data_files=cell.config.layout.data_files,
        elapsed_s=stats.summarise([Point(repetition=r, value=m.elapsed_s) for r, m in measured]),
        rows_per_s=stats.summarise(
            [Point(repetition=r, value=m.rows / m.elapsed_s) for r, m in measured if m.elapsed_s > 0]
        ),
        checkpoint_s=stats.summarise(
            [Point(repetition=r, value=m.checkpoint_s) for r, m in measured if m.checkpoint_s is not None]
        ),
        waits=mean_of_runs(rows) if rows else (),
        wait_shares=_wait_shares(rows, available_s),
        available_s=_mean(available_s),
        explained=_mean(explained),
    )


def _wait_shares(runs: Sequence[Sequence[WaitStat]], available_s: Sequence[float]) -> dict[str, Estimate]:
    """Each wait type's share of a run's connection time, over the runs; a type that a run didn't see counts as 0 there."""
    of_type: dict[str, list[float]] = {}
    for number, (rows, available) in enumerate(zip(runs, available_s, strict=True)):
        for row in rows if available > 0 else ():
            of_type.setdefault(row.wait_type, [0.0] * len(runs))[number] = row.wait_s / available
    return {wait_type: stats.mean_estimate(shares) for wait_type, shares in of_type.items()}


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _log_s(plan: Plan, used: Mapping[str, Mapping[int, Run]]) -> tuple[tuple[int, ...], stats.Matrix]:
    """The rounds, and log elapsed as cells x rounds.

    A round is a repetition: within a block of the plan it is complete, and close in time. Over blocks it pairs runs
    that were not neighbours, which costs precision and not truth, as the test asks the pairs how much they scatter.
    """
    rounds = sorted({repetition for runs in used.values() for repetition in runs})
    column = {repetition: index for index, repetition in enumerate(rounds)}
    log_s = np.full((len(plan.cells), len(rounds)), np.nan)
    for row, cell in enumerate(plan.cells):
        for repetition, measurement in _measured(used[cell.cell_id]):
            log_s[row, column[repetition]] = math.log(max(measurement.elapsed_s, 1e-9))
    return tuple(rounds), log_s


# ---------------------------------------------------------------------------------------------------------------------
# The best set
# ---------------------------------------------------------------------------------------------------------------------


def _worst(fitted: stats.Fit) -> int | None:
    there = ~np.isnan(fitted.cells)
    return int(np.argmax(np.where(there, fitted.cells, -np.inf))) if there.sum() > 1 else None


def _comparisons(plan: Plan, fitted: stats.Fit, best: int | None) -> tuple[Comparison, ...]:
    """Every other cell against the best, fastest first."""
    if best is None:
        return ()
    rows = [
        Comparison(
            cell_id=cell.cell_id,
            best_cell_id=plan.cells[best].cell_id,
            ratio=difference.ratio,
            p_value=difference.p_value,
            # With runs missing, the common rounds may say the opposite of all rounds: then it isn't slower for sure.
            distinguishable=difference.distinguishable and difference.ratio.value > 1,
        )
        for cell, difference in zip(plan.cells, stats.compare_with_best(fitted, best), strict=True)
        if difference is not None
    ]
    return tuple(sorted(rows, key=lambda row: (row.ratio.value, row.cell_id)))


def _verdict(plan: Plan, comparisons: Sequence[Comparison]) -> Verdict:
    if len(plan.cells) == 1:
        return "single-cell"
    if all(row.p_value is None for row in comparisons):
        return "too-few-runs"
    slower = sum(row.distinguishable for row in comparisons)
    if slower == 0:
        return "indistinguishable"
    return "winner" if slower == len(comparisons) else "best-set"


# ---------------------------------------------------------------------------------------------------------------------
# Effects
# ---------------------------------------------------------------------------------------------------------------------


def _effects(factors: Sequence[Factor], cells: Sequence[Cell], fitted: stats.Fit) -> Iterator[Effect]:
    """Each level against its factor's first: over all matched cells, then at each combination of the other factors."""
    at = {_key(cell.levels): index for index, cell in enumerate(cells)}
    for factor in factors:
        if len(factor.levels) < 2:
            continue
        baseline = factor.levels[0].value
        others = _combinations(cells, factor)
        groups: list[tuple[dict[str, JsonValue], list[dict[str, JsonValue]]]] = [({}, others)]
        if len(others) > 1 and len(others) * (len(factor.levels) - 1) <= EFFECT_ROWS_MAX:
            groups += [(fixed, [fixed]) for fixed in others]
        for index, (fixed, combinations) in enumerate(groups):
            # All rows at fixed levels of other factors are one family: the more of them, the surer each must be.
            comparisons = (len(factor.levels) - 1) * (1 if index == 0 else len(others))
            levels = factor.levels[1:]
            pairs = [_pairs(at, factor.name, level.value, baseline, combinations) for level in levels]
            for level, row in zip(levels, stats.effects(fitted, pairs, comparisons), strict=True):
                if row is not None:
                    yield Effect(
                        factor=factor.name, level=level.value, baseline=baseline, at=fixed, ratio=row.ratio,
                        pairs=row.pairs, distinguishable=row.distinguishable,
                    )  # fmt: skip


def _pairs(
    at: Mapping[_Key, int],
    factor: str,
    level: JsonValue,
    baseline: JsonValue,
    combinations: Sequence[Mapping[str, JsonValue]],
) -> list[tuple[int, int]]:
    """Indices of cells that differ in `factor` alone; combinations that were excluded have none."""
    found = (
        (at.get(_key({**others, factor: level})), at.get(_key({**others, factor: baseline}))) for others in combinations
    )
    return [(one, other) for one, other in found if one is not None and other is not None]


def _combinations(cells: Sequence[Cell] | Sequence[CellSummary], factor: Factor) -> list[dict[str, JsonValue]]:
    """The combinations of the other factors' levels that occur, in the cells' order."""
    others = ({name: value for name, value in cell.levels.items() if name != factor.name} for cell in cells)
    return list({_key(levels): levels for levels in others}.values())


def _key(levels: Mapping[str, JsonValue]) -> _Key:
    """What stands for a combination of levels in a dict: levels may be lists, and true is not 1."""
    return json.dumps(levels, sort_keys=True)


# ---------------------------------------------------------------------------------------------------------------------
# Waits
# ---------------------------------------------------------------------------------------------------------------------


def _wait_changes(best: CellSummary, worst: CellSummary) -> tuple[WaitChange, ...]:
    """The waits, and CPU, whose share of connections x elapsed differs most between two cells."""
    if not best.available_s or not worst.available_s:
        return ()
    of_best, of_worst = _by_type(best), _by_type(worst)
    changes = []
    for wait_type in {**of_best, **of_worst}:
        row = of_best.get(wait_type) or of_worst[wait_type]
        best_s, worst_s = _seconds(of_best.get(wait_type)), _seconds(of_worst.get(wait_type))
        changes.append(
            WaitChange(
                wait_type=wait_type,
                analogue=row.analogue,
                category=row.category,
                best_s=best_s,
                worst_s=worst_s,
                best_share=best_s / best.available_s,
                worst_share=worst_s / worst.available_s,
            )
        )
    changes.sort(key=lambda change: (-abs(change.worst_share - change.best_share), change.wait_type))
    return tuple(changes[:WAIT_CHANGES_MAX])


def _by_type(cell: CellSummary) -> dict[str, WaitStat]:
    return {row.wait_type: row for row in cell.waits}


def _seconds(row: WaitStat | None) -> float:
    return 0.0 if row is None else row.wait_s


def _wait_trends(factors: Sequence[Factor], cells: Sequence[CellSummary]) -> Iterator[WaitTrend]:
    """How shares move along the ordered factor: the same waits, in the same order, at all combinations of others."""
    factor = _ordered_factor(factors)
    if factor is None:
        return
    levels = tuple(sorted((level.value for level in factor.levels), key=_number))
    at = {_key(cell.levels): cell for cell in cells}
    wait_types = _largest_waits(cells)
    for others in itertools.islice(_combinations(cells, factor), TREND_PANELS_MAX):
        along = [at.get(_key({**others, factor.name: level})) for level in levels]
        for wait in wait_types:
            estimates = tuple(_share_in(cell, wait.wait_type) for cell in along)
            yield WaitTrend(
                wait_type=wait.wait_type,
                analogue=wait.analogue,
                category=wait.category,
                factor=factor.name,
                at=others,
                levels=levels,
                shares=tuple(None if estimate is None else estimate.value for estimate in estimates),
                estimates=estimates,
            )


def _share_in(cell: CellSummary | None, wait_type: str) -> Estimate | None:
    """None where the cell has no wait statistics; 0 where it has, and the wait was not seen."""
    return None if cell is None or not cell.waits else cell.wait_shares.get(wait_type, Estimate(value=0.0))


def _ordered_factor(factors: Sequence[Factor]) -> Factor | None:
    """The number of data files, or else the first factor of numbers."""
    varied = [factor for factor in factors if len(factor.levels) > 1]
    numeric = [factor for factor in varied if all(_is_number(level.value) for level in factor.levels)]
    return next((factor for factor in numeric if factor.name == FILES_FACTOR), next(iter(numeric), None))


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _largest_waits(cells: Sequence[CellSummary]) -> list[WaitStat]:
    """The wait types, and CPU, that reach the largest shares anywhere, by category and then by share.

    Waits for allocation come first: they are small beside the log's, and yet the reason why one asks for more files.
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
