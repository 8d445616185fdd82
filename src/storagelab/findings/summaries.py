"""Summarises the runs of each cell. The functions are pure.

If runs were made on several hosts, intervals are calculated from the hosts' means, because all runs of a host share the
host's effect.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from storagelab.findings import hosts, limits
from storagelab.findings.basis import Basis, lost_in_crash
from storagelab.findings.cell import Bound, Spent, in_classes, spent
from storagelab.findings.comparable import is_steady
from storagelab.findings.kinds import drive_trends, found_in_cell
from storagelab.findings.model import CellSummary, Compared, Estimate, JudgedByLoad, Point, Sample
from storagelab.findings.times import FIGURES, figure_s, figures_of_cell, figures_s, latency_of, measured, with_syncs
from storagelab.model.config import Config
from storagelab.model.measurement import RAW_IO, Latency, Measurement, Run, host_of, merged
from storagelab.model.plan import Cell, Factor, Plan, price_of
from storagelab.model.values import Frozen
from storagelab.model.waits import Conservation, RawWaits, WaitStat, conservation, mean_of_runs, normalise
from storagelab.stats import intervals
from storagelab.stats.fit import mean_time
from storagelab.words.names import labels_of

_Runs = Mapping[int, Measurement]
"""The runs of a cell that have figures, by repetition."""
_Values = Iterable[tuple[int, float | None]]
"""Pairs (repetition, value of its run)."""


def summaries(
    factors: Sequence[Factor], plan: Plan, runs: Sequence[Run], basis: Basis, *, by_class: bool = False
) -> tuple[CellSummary, ...]:
    """The summary of each cell over its repetitions, with arithmetic means. If `by_class` is true, waits of one
    category are joined."""
    labels = labels_of(factors)
    planned = Counter(run.cell_id for run in plan.runs if not run.burn_in)
    failed = Counter(run.cell_id for run in runs if not run.usable and not run.burn_in)
    return tuple(
        _summary(
            cell, basis, by_class, stretch=stretch, runs_planned=planned[cell.cell_id],
            runs_failed=failed[cell.cell_id], labels=labels, price_per_month=price_of(cell, factors),
        )
        for cell, stretch in zip(plan.cells, basis.blocks, strict=True)
    )  # fmt: skip


def _summary(cell: Cell, basis: Basis, by_class: bool, **known: Any) -> CellSummary:
    """The summary of a cell, calculated from its runs. `known` has the fields whose values the caller has already."""
    used, config = basis.used[cell.cell_id], cell.config
    runs = dict(measured(used))
    made_on = {repetition: host_of(used[repetition]) for repetition in runs} if basis.fleet is not None else {}
    waited = _waited(runs, config, basis.compared, by_class)
    in_verdicts = [one for one in waited if (cell.cell_id, one.repetition) not in basis.left_out]
    statuses = Counter(run.status for run in used.values())

    def sample(values: _Values) -> Sample | None:
        return _sample(values, made_on)

    def over_hosts(of: Sequence[_PerRun]) -> tuple[_PerRun, ...]:
        if not made_on:
            return tuple(of)
        names = [made_on[one.repetition] for one in in_verdicts]
        return tuple(replace(one, by_run_s=tuple(hosts.means(one.by_run_s, names))) for one in of)

    figure = latency_of(basis.compared)
    timed = [(at, one.latency) for at, one in runs.items() if one.latency is not None]
    if figure is None:
        latency = _latency([(made_on.get(at, ""), one) for at, one in timed])
    else:
        counted = [(made_on.get(at, ""), one) for at, one in timed if (cell.cell_id, at) not in basis.left_out]
        latency = _latency_of_runs(counted)
    return CellSummary(
        cell_id=cell.cell_id,
        levels=cell.levels,
        provenance=next((one.provenance for one in runs.values()), None),
        runs_ok=statuses["ok"],
        runs_unverified=statuses["unverified"],
        connections=config.workload.sessions,
        data_files=config.layout.data_files,
        elapsed_s=sample((repetition, one.elapsed_s) for repetition, one in runs.items()),
        work_per_s=sample((repetition, one.work_per_s) for repetition, one in runs.items()),
        work=_mean([float(one.unwatched_work) for one in runs.values()]),
        checkpoint_s=sample((repetition, one.checkpoint_s) for repetition, one in runs.items()),
        latency=latency,
        judged=None if figure is None else sample((at, figure_s(one, figure)) for at, one in timed),
        raw_io=_raw_io(runs, made_on, latency),
        steady=is_steady([*runs.values()]) if config.target.raw_io else None,
        waits=mean_of_runs([one.rows for one in waited]) if waited else (),
        waits_asked=config.measure.waits,
        wait_shares=_wait_shares(waited, made_on),
        available_s=_mean([one.available_s for one in waited]),
        each_s=_mean([one.available_s / one.transactions for one in waited if one.transactions]),
        explained=_mean([share for one in waited if (share := one.audit.explained) is not None]),
        drive_states=tuple(drive_trends.states([*runs.values()])),
        spent=over_hosts(spent([(one.shares, one.audit, one.rows) for one in in_verdicts])),
        bounds=over_hosts(
            limits.bounds([(runs[one.repetition], one.shares / one.raw.connections) for one in in_verdicts])
        ),
        drives=_drives(config),
        capacity_bytes=next((_capacity(config, one.environment) for one in runs.values()), None),
        found=found_in_cell([*runs.values()], config),
        volatile=any(lost_in_crash(config, one) for one in runs.values()),
        **known,
    )


_PerRun = TypeVar("_PerRun", Spent, Bound)


class _Waited(NamedTuple):
    """How the time of a run was spent. `transactions` is the number of transactions by which the time is divided; 0 if
    the time is divided by the connections."""

    repetition: int
    raw: RawWaits
    rows: Sequence[WaitStat]
    audit: Conservation
    transactions: float

    @property
    def shares(self) -> float:
        """The number of transactions or of connections by which the run's seconds are divided."""
        return self.transactions or self.raw.connections

    @property
    def available_s(self) -> float:
        return self.raw.connections * self.raw.elapsed_s


def _waited(runs: _Runs, config: Config, compared: Compared, by_class: bool) -> list[_Waited]:
    """How each run's time was spent. If the spec sets the length of runs, runs differ in their work, so waits explain
    the time of the mean transaction. The same is true of a latency, unless it includes time before the transaction
    begins.
    """
    by_latency = latency_of(compared) is not None and config.workload.without_rate
    by_transaction = compared == "time-per-transaction" or by_latency
    return [
        _Waited(
            repetition, raw, in_classes(normalise(raw)) if by_class else normalise(raw), conservation(raw),
            one.unwatched_work if by_transaction else 0,
        )
        for repetition, one in runs.items() if (raw := one.waits) is not None
    ]  # fmt: skip


def _sample(values: _Values, made_on: Mapping[int, str]) -> Sample | None:
    points = [Point(repetition=repetition, value=value) for repetition, value in values if value is not None]
    sample = summarise(points)
    if sample is None or not made_on:
        return sample
    means = hosts.means([one.value for one in points], [made_on[one.repetition] for one in points])
    return sample.model_copy(update={"mean": intervals.positive_mean_estimate(means)})


def summarise(points: Sequence[Point]) -> Sample | None:
    """Summarises a quantity over the runs of a cell; None if there are no runs."""
    values = [point.value for point in points]
    if not values:
        return None
    return Sample(
        mean=intervals.positive_mean_estimate(values),
        median=statistics.median(values),
        sd=intervals.sd(values) if len(values) > 1 else None,
        minimum=min(values),
        maximum=max(values),
        points=tuple(points),
    )


def _latency(of_runs: Sequence[tuple[str, Latency]]) -> dict[str, Estimate]:
    """The latency figures over all operations of a cell's runs, by name. Intervals are from the scatter of runs or, if
    there are several hosts, of hosts.
    """
    of_host: dict[str, list[Latency]] = {}
    for name, latency in of_runs:
        of_host.setdefault(name, []).append(latency)
    if len(of_host) < 2:
        return figures_of_cell([latency for _, latency in of_runs])
    return figures_of_cell([one for one in map(merged, of_host.values()) if one is not None])


def _latency_of_runs(of_runs: Sequence[tuple[str, Latency]]) -> dict[str, Estimate]:
    """The latency figures of a cell if one of them is judged. All are calculated as the judged one is: as geometric
    means over runs or, if there are several hosts, over hosts. A figure is left out if one of the runs is too short for
    it.
    """
    hosts_of, figures = [host for host, _ in of_runs], [figures_s(latency) for _, latency in of_runs]
    known = [name for name in FIGURES if figures and all(of_run.get(name) for of_run in figures)]
    logs = {name: hosts.means([math.log(of_run[name]) for of_run in figures], hosts_of) for name in known}
    means = {name: intervals.mean_estimate(of_name) for name, of_name in logs.items()}
    return {name: intervals.from_logs(mean.value, mean.half_width or math.inf) for name, mean in means.items()}


def _raw_io(runs: _Runs, made_on: Mapping[int, str], latency: Mapping[str, Estimate]) -> dict[str, Sample]:
    """The samples of each counter of raw I/O; empty if there are none. The means of latency figures are replaced by the
    cell's `latency`, if all runs have latencies."""
    counted = {repetition: with_syncs(one.counters.get(RAW_IO, {})) for repetition, one in runs.items()}
    found = {}
    for name in dict.fromkeys(name for counters in counted.values() for name in counters):
        values = ((repetition, counters.get(name)) for repetition, counters in counted.items())
        # Percentiles are calculated from all requests, even if several hosts made them.
        sample = _sample(values, {} if name.startswith("latency_") else made_on)
        assert sample is not None
        found[name] = sample
    for name, together in latency.items() if all(one.latency is not None for one in runs.values()) else ():
        if (counter := f"latency_{name}_s") in found:
            found[counter] = found[counter].model_copy(update={"mean": together})
    return found


def _wait_shares(waited: Sequence[_Waited], made_on: Mapping[int, str]) -> dict[str, Estimate]:
    """The share of each wait type in the runs' session time, with its interval over the runs or hosts. If a run has no
    wait of a type, its share is 0."""
    of_type: dict[str, list[float]] = {}
    for number, one in enumerate(waited):
        for row in one.rows if one.available_s > 0 else ():
            of_type.setdefault(row.wait_type, [0.0] * len(waited))[number] = row.wait_s / one.available_s
    names = [made_on.get(one.repetition, "") for one in waited]
    return {wait_type: intervals.mean_estimate(hosts.means(shares, names)) for wait_type, shares in of_type.items()}


def _drives(config: Config) -> int:
    """The number of drives on which data and log are. A volume whose drives are not declared counts as one drive."""
    names = {*(config.layout.data or config.volumes), *([config.layout.log] if config.layout.log else [])}
    places = {place for name in names if name in config.volumes for place in (config.volumes[name].drives or [name])}
    return sum(_count(config, place) for place in places)


def _count(config: Config, drive: str) -> int:
    return config.drives[drive].count if drive in config.drives else 1


def _capacity(config: Config, environment: Mapping[str, object]) -> float | None:
    """The usable capacity (bytes) of the data's volumes, after formatting and RAID; None if unknown. It is calculated
    from the sizes of drives that the run stored.
    """
    known = environment.get("drives")
    capacities = []
    for name in config.layout.data or config.volumes:
        drives = config.volumes[name].drives or () if name in config.volumes else ()
        facts = [known.get(config.single_drives.get(one, one)) for one in drives] if isinstance(known, Mapping) else []
        found = [one.get("usable_bytes") for one in facts if isinstance(one, Mapping)]
        capacity = [float(one) for one in found if isinstance(one, int | float)]
        if not drives or len(capacity) < len(drives):
            return None
        number, raid = sum(_count(config, one) for one in drives), config.volumes[name].raid
        used = {"1": 1.0, "5": number - 1.0, "10": number / 2, "100": number / 2}.get(raid or "0", float(number))
        capacities.append(used * min(capacity))
    return sum(capacities) if capacities else None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


# ---------------------------------------------------------------------------------------------------------------------
# Means and intervals by which cells are compared
# ---------------------------------------------------------------------------------------------------------------------


def with_fitted_means(
    cells: Sequence[CellSummary], basis: Basis, judged: JudgedByLoad, compared: Compared
) -> tuple[CellSummary, ...]:
    """The cells with the means that comparisons use. These are adjusted geometric means of the runs that verdicts use.
    Arithmetic means are not used, because one odd run can reverse their order.
    """
    fitted = basis.fitted
    picked_from = {load.fastest: len(load.cells) for load in judged.loads} or {
        judged.fastest: max(1, sum(cell.elapsed_s is not None for cell in cells))
    }
    return tuple(
        # A cell has no fitted mean if all its runs were made on hosts whose runs are not fitted.
        cell if cell.work_per_s is None or math.isnan(fitted.cells[index])
        else _fitted(cell, mean_time(fitted, index, picked_from.get(cell.cell_id, 1)), compared)
        for index, cell in enumerate(cells)
    )  # fmt: skip


def _fitted(cell: CellSummary, time: Estimate, compared: Compared) -> CellSummary:
    """The cell with its fitted mean `time`: the time of a run, the time of a unit of work, or a latency."""
    shown = _figures(cell, time, compared)
    update: dict[str, Any] = {
        name: sample.model_copy(update={"mean": shown[name], "adjusted": shown[name]})
        for name in shown if (sample := getattr(cell, name)) is not None
    }  # fmt: skip
    if (figure := latency_of(compared)) and figure in cell.latency:  # so that reports show only one value of it
        update["latency"] = {**cell.latency, figure: shown["judged"]}
    if cell.each_s is not None and (compared == "latency-mean" or _of_set_time(compared)):
        update["each_s"] = time.value if latency_of(compared) else time.value * cell.connections
    return cell.model_copy(update=update)


def _of_set_time(compared: Compared) -> bool:
    """Whether the spec sets the length of runs. Then the work of a run shows its speed."""
    return compared in ("time-per-request", "time-per-transaction")


def _figures(cell: CellSummary, time: Estimate, compared: Compared) -> dict[str, Estimate]:
    """The means that can be calculated from the cell's `time`, by the names of the samples."""
    if latency_of(compared):
        return {"judged": time}
    work = cell.work or 1.0
    of_run = time if compared == "elapsed" else _mapped(time, lambda seconds: seconds * work)
    rate = {"work_per_s": _mapped(of_run, lambda seconds: work / seconds)}
    return rate if _of_set_time(compared) else {**rate, "elapsed_s": of_run}


def _mapped(estimate: Estimate, figure: Callable[[float], float]) -> Estimate:
    """Converts an estimate to another figure. The ends of the new interval are in ascending order."""
    if estimate.low is None or estimate.high is None:
        return Estimate(value=figure(estimate.value))
    low, high = sorted((figure(estimate.low), figure(estimate.high)))
    return Estimate(value=figure(estimate.value), low=low, high=high)


def without_intervals(value: Any) -> Any:
    """Removes the intervals of all estimates in a value. Used if all runs of a cell were made in one period, because
    their scatter does not show the error of their mean."""
    match value:
        case Estimate():
            return Estimate(value=value.value)
        case Frozen():
            return value.model_copy(update={name: without_intervals(part) for name, part in value})
        case dict():
            return {name: without_intervals(part) for name, part in value.items()}
        case tuple():
            return tuple(map(without_intervals, value))
    return value
