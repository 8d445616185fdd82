"""Runs -> Findings: what the experiment says, and how surely. Pure; the words are report's."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from storagelab.findings import (
    FitKind,
    drive_states,
    hosts,
    latencies,
    limits,
    samples,
    spending,
    stats,
    steady,
    verdicts,
)
from storagelab.findings.basis import Basis, basis_of
from storagelab.findings.cautions import cautions_of
from storagelab.findings.effects import combinations, key
from storagelab.findings.evidence import Evidence
from storagelab.findings.kinds import found_in, found_in_cell
from storagelab.findings.model import (
    CellSummary,
    Compared,
    Estimate,
    Findings,
    JudgedByLoad,
    Point,
    Sample,
    WaitChange,
    WaitTrend,
)
from storagelab.findings.raced import raced
from storagelab.findings.statements import state
from storagelab.findings.times import lap_of, latency_of, measured, unit_of
from storagelab.findings.wait_classes import in_classes, native_names
from storagelab.model.config import Config
from storagelab.model.latency import Latency, merged
from storagelab.model.measurement import RAW_IO, Measurement, Run
from storagelab.model.measurement import host_of as made_on
from storagelab.model.plan import Cell, Experiment, Factor, Plan
from storagelab.model.waits import WaitStat, conservation, mean_of_runs, normalise
from storagelab.spec.axis import axis_factor, in_order, is_numeric

WAIT_CHANGES_MAX = 8
TREND_PANELS_MAX = 12
TREND_WAITS_MAX = 8


def analyse(experiment: Experiment, plan: Plan, runs: Sequence[Run], fit: FitKind = "robust") -> Findings:
    """All findings of an experiment from the runs stored so far: the latest usable attempt of each cell and repetition.

    Failed runs are counted but not used otherwise; burn-in runs are not judged. The robust fit leaves odd runs of quiet
    cells out of means and verdicts, and names them.
    """
    basis = basis_of(experiment, plan, runs, fit)
    compared, rounds, blocks = basis.compared, basis.rounds, basis.blocks
    laps = list(map(lap_of, runs)) if experiment.race else []
    race = raced(experiment, plan, laps, rounds, basis.kept, basis.fitted) if experiment.race else None
    stated = state(experiment.factors, plan, basis.fitted, blocks, race)
    judged = stated.judged
    summaries = tuple(_with_fitted_means(tuple(_summaries(plan, runs, basis)), basis.fitted, judged, compared))
    # Engines share no names of waits, so between engines compare what is waited for.
    several_engines = len({cell.config.target.engine for cell in plan.cells}) > 1
    compared_cells = summaries
    if several_engines:
        compared_cells = tuple(_summaries(plan, runs, basis, by_class=True))
        summaries = tuple(
            one.model_copy(update={"spent": joined.spent})
            for one, joined in zip(summaries, compared_cells, strict=True)
        )
    if basis.in_stretches:
        summaries, compared_cells = (
            tuple(map(without_intervals, cells)) for cells in (summaries, compared_cells)
        )  # fmt: skip
    by_id = {cell.cell_id: cell for cell in compared_cells}
    extremes = None if judged.fastest is None or judged.worst is None else (by_id[judged.fastest], by_id[judged.worst])
    evidence = Evidence(experiment, plan, tuple(runs), summaries, basis, race)
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
        left_out=basis.left_out,
        cells=summaries,
        effects=stated.effects,
        wait_changes=() if extremes is None else _wait_changes(*extremes),
        wait_trends=tuple(_wait_trends(experiment.factors, compared_cells)),
        cautions=cautions_of(evidence),
        compared=compared,
        unit=unit_of(plan),
        dependences=stated.dependences,
        speed_ups=stated.speed_ups,
        found=found_in(evidence),
        fleet=None
        if basis.fleet is None
        else hosts.summarise(
            basis.fleet, plan, [cells for _, cells in verdicts.loads_of(experiment.factors, plan.cells)], blocks
        ),
        prefer=experiment.prefer,
        indifferent=experiment.margin,
        wait_names=native_names(row for cell in summaries for row in cell.waits) if several_engines else {},
    )


def _with_fitted_means(
    cells: Sequence[CellSummary], fitted: stats.Fit, judged: JudgedByLoad, compared: Compared
) -> Iterator[CellSummary]:
    """The cells with the means that comparisons use, instead of arithmetic means, which one odd run can reverse."""
    picked_from = _picked_from(cells, judged)
    for index, cell in enumerate(cells):
        # A cell may have run only on hosts that take no part in the fit.
        if cell.elapsed_s is None or cell.rows_per_s is None or math.isnan(fitted.cells[index]):
            yield cell
            continue
        time = stats.mean_time(fitted, index, picked_from.get(cell.cell_id, 1))
        # All runs of raw I/O last as long as the spec says, so the time per request is compared.
        if latency_of(compared) is not None:
            each = {} if cell.each_s is None else {"each_s": time.value}
            yield (
                cell if cell.judged is None else cell.model_copy(update={"judged": _fitted(cell.judged, time), **each})
            )
            continue
        work = cell.work or 1.0
        of_run = time if compared == "elapsed" else _times(time, work)
        # A run that lasts as long as the spec says shows its speed by its work.
        set_time = compared in ("time-per-request", "time-per-transaction")
        update: dict[str, object] = {"rows_per_s": _fitted(cell.rows_per_s, _over(work, of_run))}
        if set_time and cell.each_s is not None:
            update["each_s"] = time.value * cell.connections
        if not set_time:
            update["elapsed_s"] = _fitted(cell.elapsed_s, of_run)
        yield cell.model_copy(update=update)


def _fitted(sample: Sample, mean: Estimate) -> Sample:
    return sample.model_copy(update={"mean": mean, "arithmetic": sample.mean})


def _picked_from(cells: Sequence[CellSummary], judged: JudgedByLoad) -> dict[str, int]:
    """For each cell that is the fastest of several, the number of these."""
    if judged.loads:
        return {load.fastest: len(load.cells) for load in judged.loads if load.fastest is not None}
    measured = sum(cell.elapsed_s is not None for cell in cells)
    return {judged.fastest: max(1, measured)} if judged.fastest is not None else {}


def _times(estimate: Estimate, factor: float) -> Estimate:
    low, high = (None if end is None else end * factor for end in (estimate.low, estimate.high))
    return Estimate(value=estimate.value * factor, low=low, high=high)


def _over(work: float, estimate: Estimate) -> Estimate:
    """`work` divided by a time."""
    low, high = (None if end is None else work / end for end in (estimate.high, estimate.low))
    return Estimate(value=work / estimate.value, low=low, high=high)


def without_intervals(cell: CellSummary) -> CellSummary:
    """The same without intervals: runs of one stretch of time don't show the error of their mean by their scatter."""
    names = ("elapsed_s", "rows_per_s", "checkpoint_s", "judged")
    samples_ = {name: None if (one := getattr(cell, name)) is None else _bare_sample(one) for name in names}
    return cell.model_copy(
        update={
            **samples_,
            "latency": {name: Estimate(value=one.value) for name, one in cell.latency.items()},
            "raw_io": {name: _bare_sample(one) for name, one in cell.raw_io.items()},
            "wait_shares": {name: Estimate(value=one.value) for name, one in cell.wait_shares.items()},
            "drive_states": tuple(
                one.model_copy(update={"mean": Estimate(value=one.mean.value)}) for one in cell.drive_states
            ),
        }
    )


def _bare_sample(sample: Sample) -> Sample:
    arithmetic = None if sample.arithmetic is None else Estimate(value=sample.arithmetic.value)
    return sample.model_copy(update={"mean": Estimate(value=sample.mean.value), "arithmetic": arithmetic})


# ---------------------------------------------------------------------------------------------------------------------
# Cells
# ---------------------------------------------------------------------------------------------------------------------


def _summaries(plan: Plan, runs: Sequence[Run], basis: Basis, *, by_class: bool = False) -> Iterator[CellSummary]:
    """Summarise a cell. With `by_class`, join the waits of each run by what is waited for."""
    planned = Counter(run.cell_id for run in plan.runs if not run.burn_in)
    failed = Counter(run.cell_id for run in runs if not run.usable and not run.burn_in)
    for cell, stretch in zip(plan.cells, basis.blocks, strict=True):
        yield _summary(cell, basis, planned[cell.cell_id], failed[cell.cell_id], stretch, by_class=by_class)


def _summary(cell: Cell, basis: Basis, planned: int, failed: int, stretch: int, *, by_class: bool) -> CellSummary:
    runs = basis.used[cell.cell_id]
    measured_runs = list(measured(runs))
    host_of = {repetition: made_on(run) for repetition, run in runs.items()} if basis.fleet is not None else {}
    waiting = [(repetition, one.waits) for repetition, one in measured_runs if one.waits is not None]
    in_verdicts = [host_of.get(one, "") for one, _ in waiting if (cell.cell_id, one) not in basis.left_out]
    raw_waits = [raw for _, raw in waiting]
    audits = [conservation(raw) for raw in raw_waits]
    explained = [share for audit in audits if (share := audit.explained) is not None]
    rows = [in_classes(normalise(raw)) if by_class else normalise(raw) for raw in raw_waits]
    available_s = [raw.connections * raw.elapsed_s for raw in raw_waits]
    work = cell.config.workload
    # Runs of a set time differ in what they do, so it is the mean transaction whose time waits explain. A mean latency is
    # that time too, unless it counts from a moment before the transaction began.
    by_latency = basis.compared == "latency-mean" and work.without_rate
    by_transaction = basis.compared == "time-per-transaction" or by_latency
    transactions_of = {r: m.work.amount for r, m in measured_runs if by_transaction and m.work.amount}
    summary = CellSummary(
        cell_id=cell.cell_id,
        levels=cell.levels,
        provenance=measured_runs[0][1].provenance if measured_runs else None,
        runs_planned=planned,
        runs_ok=sum(run.status == "ok" for run in runs.values()),
        runs_unverified=sum(run.status == "unverified" for run in runs.values()),
        runs_failed=failed,
        connections=work.sessions,
        data_files=cell.config.layout.data_files,
        elapsed_s=samples.summarise([Point(repetition=r, value=m.elapsed_s) for r, m in measured_runs]),
        rows_per_s=samples.summarise(
            [Point(repetition=r, value=rate) for r, m in measured_runs if (rate := m.work_per_s) is not None]
        ),
        work=_mean([float(m.work.amount) for _, m in measured_runs]),
        checkpoint_s=samples.summarise(
            [Point(repetition=r, value=m.checkpoint_s) for r, m in measured_runs if m.checkpoint_s is not None]
        ),
        latency=_latency([(host_of.get(r, ""), one.latency) for r, one in measured_runs if one.latency is not None]),
        judged=_judged(measured_runs, latency_of(basis.compared)),
        raw_io=_raw_io(measured_runs),
        steady=steady.is_steady([m for _, m in measured_runs]) if cell.config.target.raw_io else None,
        found=found_in_cell([m for _, m in measured_runs], cell.config),
        waits=mean_of_runs(rows) if rows else (),
        waits_asked=cell.config.measure.waits,
        wait_shares=_wait_shares(rows, available_s, [host_of.get(repetition, "") for repetition, _ in waiting]),
        available_s=_mean(available_s),
        explained=_mean(explained),
        drive_states=tuple(drive_states.states([measurement for _, measurement in measured_runs])),
        drives=_drives(cell.config),
        capacity_bytes=_capacity(cell.config, measured_runs[0][1].environment) if measured_runs else None,
        spent=spending.spent(
            [
                (transactions_of.get(repetition, raw.connections), audit, of_run)
                for (repetition, raw), audit, of_run in zip(waiting, audits, rows, strict=True)
                if (cell.cell_id, repetition) not in basis.left_out
            ]
        ),
        bounds=limits.bounds(
            [
                (one, transactions_of.get(repetition, one.waits.connections) / one.waits.connections)
                for repetition, one in measured_runs
                if one.waits is not None and (cell.cell_id, repetition) not in basis.left_out
            ]
        ),
        each_s=_mean(
            [raw.connections * raw.elapsed_s / transactions_of[r] for r, raw in waiting if r in transactions_of]
        ),
        stretch=stretch,
    )
    return _over_hosts(summary, host_of, in_verdicts) if host_of else summary


def _over_hosts(cell: CellSummary, host_of: Mapping[int, str], in_verdicts: Sequence[str]) -> CellSummary:
    """The same with intervals over the hosts: runs of one host share its luck. `in_verdicts` = the host of each run of which
    is known where its time went."""

    def over(sample: Sample | None) -> Sample | None:
        if sample is None:
            return None
        names = [host_of[point.repetition] for point in sample.points]
        mean = samples.positive_mean_estimate(hosts.means([point.value for point in sample.points], names))
        return sample.model_copy(update={"mean": mean})

    def of_hosts(by_run_s: Sequence[float]) -> tuple[float, ...]:
        return tuple(hosts.means(by_run_s, in_verdicts))

    names = ("elapsed_s", "rows_per_s", "checkpoint_s", "judged")
    return cell.model_copy(
        update={
            **{name: over(getattr(cell, name)) for name in names},
            # Percentiles are those of all requests, whichever host did them.
            "raw_io": {name: one if name.startswith("latency_") else over(one) for name, one in cell.raw_io.items()},
            "spent": tuple(replace(one, by_run_s=of_hosts(one.by_run_s)) for one in cell.spent),
            "bounds": tuple(replace(one, by_run_s=of_hosts(one.by_run_s)) for one in cell.bounds),
        }
    )


def _latency(of_runs: Sequence[tuple[str, Latency]]) -> dict[str, Estimate]:
    """The figures of all operations of a cell's runs, with intervals over its runs, or its hosts if there are several."""
    of_host: dict[str, list[Latency]] = {}
    for name, latency in of_runs:
        of_host.setdefault(name, []).append(latency)
    if len(of_host) < 2:
        return latencies.of_cell([latency for _, latency in of_runs])
    together = (merged(of) for of in of_host.values())
    return latencies.of_cell([one for one in together if one is not None])


def _judged(runs: Sequence[tuple[int, Measurement]], figure: str | None) -> Sample | None:
    """The sample of one figure of each run's latency; None if cells are not compared by one."""
    if figure is None:
        return None
    found = [
        (repetition, latencies.figure_s(one.latency, figure)) for repetition, one in runs if one.latency is not None
    ]
    return samples.summarise(
        [Point(repetition=repetition, value=value) for repetition, value in found if value is not None]
    )


def _drives(config: Config) -> int:
    """How many drives data and log lie on; where drives are not declared, how many volumes."""
    names = {*(config.layout.data or config.volumes), *([config.layout.log] if config.layout.log else [])}
    places = {place for name in names if name in config.volumes for place in (config.volumes[name].drives or [name])}
    return sum(_count(config, place) for place in places)


def _count(config: Config, drive: str) -> int:
    return config.drives[drive].count if drive in config.drives else 1


def _capacity(config: Config, environment: Mapping[str, object]) -> float | None:
    """The room on the volumes of the data, as the run found their drives: what formats and RAID leave; None if not known."""
    known = environment.get("drives")
    rooms = []
    for name in config.layout.data or config.volumes:
        drives = config.volumes[name].drives or () if name in config.volumes else ()
        facts = [known.get(config.single_drives.get(one, one)) for one in drives] if isinstance(known, Mapping) else []
        found = [one.get("usable_bytes") for one in facts if isinstance(one, Mapping)]
        room = [float(one) for one in found if isinstance(one, int | float)]
        if not drives or len(room) < len(drives):
            return None
        number, raid = sum(_count(config, one) for one in drives), config.volumes[name].raid
        used = {"1": 1.0, "5": number - 1.0, "10": number / 2, "100": number / 2}.get(raid or "0", float(number))
        rooms.append(used * min(room))
    return sum(rooms) if rooms else None


def _raw_io(measured: Sequence[tuple[int, Measurement]]) -> dict[str, Sample]:
    """The samples of each counter of raw I/O, if there are any. Percentiles are those of all requests of all runs."""
    points: dict[str, list[Point]] = defaultdict(list)
    for repetition, measurement in measured:
        for name, value in measurement.counters.get(RAW_IO, {}).items():
            points[name].append(Point(repetition=repetition, value=value))
    found = {name: sample for name, of in points.items() if (sample := samples.summarise(of)) is not None}
    histograms = [one.latency for _, one in measured if one.latency is not None]
    for name, together in latencies.of_cell(histograms).items() if len(histograms) == len(measured) else ():
        counter = f"latency_{name}_s"
        if counter in found:
            found[counter] = found[counter].model_copy(update={"mean": together})
    return found


def _wait_shares(
    runs: Sequence[Sequence[WaitStat]], available_s: Sequence[float], host_of: Sequence[str]
) -> dict[str, Estimate]:
    """Each wait type's share of a run's connection time, over the runs or hosts; a type absent from a run counts as 0."""
    of_type: dict[str, list[float]] = {}
    for number, (rows, available) in enumerate(zip(runs, available_s, strict=True)):
        for row in rows if available > 0 else ():
            of_type.setdefault(row.wait_type, [0.0] * len(runs))[number] = row.wait_s / available
    return {wait_type: samples.mean_estimate(hosts.means(shares, host_of)) for wait_type, shares in of_type.items()}


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


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
    """None if the cell has no wait statistics; 0 if it has, but without this wait."""
    return None if cell is None or not cell.waits else cell.wait_shares.get(wait_type, Estimate(value=0.0))


def _largest_waits(cells: Sequence[CellSummary]) -> list[WaitStat]:
    """The wait types, and CPU, that reach the largest shares anywhere, by category and then by share.

    Waits for allocation come first: they are small compared with the log's, but they are the reason to ask for more files.
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
