"""Finds doubts about the measurement itself, as values. Pure; `report` words them.

Each check below looks for one thing that can mislead a reader.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from storagelab.findings import caution_kinds as kinds
from storagelab.findings import irregular, raw_io_doubts, taken_cpu, unlike_hosts
from storagelab.findings.caution_kinds import Caution
from storagelab.findings.evidence import Evidence, blocks_of
from storagelab.findings.irregular import Outlier
from storagelab.model.durability import Loss
from storagelab.model.measurement import BEHIND_RATE, SETTLED, THROTTLED, Check, Measurement, host_of
from storagelab.model.plan import Plan
from storagelab.model.waits import CountedWaits, SampledWaits
from storagelab.model.workload import InsertLoad
from storagelab.spec.factors import is_condition, sets_load
from storagelab.targets.known import KNOWN

REPETITIONS_SOUND = 5
REPETITIONS_LEAST = 3
SHORT_RUN_S = 2.0
WAIT_PASSES_LEAST = 100
DRIFT_LEAST = 0.02
DRIFT_P_VALUE = 0.01
OBSERVER_CORE_SHARE_MOST = 0.04
EXPLAINED_LEAST, EXPLAINED_MOST = 0.80, 1.10
CPU_SHARE_MOST = 0.9
UNVERIFIED_MOST = 10


def cautions_of(evidence: Evidence) -> tuple[Caution, ...]:
    """Every doubt, the graver ones first, else in the order of the checks."""
    found = [caution for check in CHECKS for caution in check(evidence)]
    return tuple(sorted(found, key=lambda caution: caution.severity == "note"))


# ---------------------------------------------------------------------------------------------------------------------
# Runs that are missing, or not as asked
# ---------------------------------------------------------------------------------------------------------------------


def failed_runs(evidence: Evidence) -> Iterator[kinds.FailedRuns]:
    failed = [run for run in evidence.runs if not run.usable]
    if failed:
        reasons = Counter(run.reason for run in failed)
        lost = {(r.cell_id, r.repetition) for r in failed if r.repetition not in evidence.used.get(r.cell_id, {})}
        yield kinds.FailedRuns(
            cells=evidence.named(run.cell_id for run in failed), failed=len(failed), unrecovered=len(lost),
            planned=len(evidence.plan.runs), reason=reasons.most_common(1)[0][0],
        )  # fmt: skip


def missing_runs(evidence: Evidence) -> Iterator[kinds.MissingRuns]:
    stored = {(run.cell_id, run.repetition) for run in evidence.runs}
    missing = [run for run in evidence.plan.runs if (run.cell_id, run.repetition) not in stored]
    if missing:
        planned = len(evidence.plan.runs)
        yield kinds.MissingRuns(
            cells=evidence.named(run.cell_id for run in missing), missing=len(missing), stored=planned - len(missing),
            planned=planned,
        )  # fmt: skip


def unverified(evidence: Evidence) -> Iterator[kinds.Unverified]:
    """One for each setting that differs from what was asked."""
    cells: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    reasons: dict[tuple[str, str, str, str], str] = {}
    for cell_id, run, measurement in evidence.measurements():
        whats = [
            (check.name, check.asked, check.got, check.read_from)
            for check in measurement.unverified if check.name not in (SETTLED, BEHIND_RATE, THROTTLED)
        ]  # fmt: skip
        if run.status == "unverified" and not measurement.unverified:
            whats = [(run.reason, "", "", "")]
        for what in whats:
            cells[what].append(cell_id)
            reasons.setdefault(what, run.reason)
    for what in list(cells)[:UNVERIFIED_MOST]:
        name, asked, got, read_from = what
        yield kinds.Unverified(
            cells=evidence.named(cells[what]), what=name, asked=asked, got=got, read_from=read_from,
            runs=len(cells[what]), reason=reasons[what],
        )  # fmt: skip


def unsettled(evidence: Evidence) -> Iterator[kinds.Unsettled]:
    """Runs whose throughput still had a trend when they began to count."""
    if found := _failing(evidence, SETTLED):
        check, cells = found[0][1], evidence.named(cell_id for cell_id, _ in found)
        yield kinds.Unsettled(cells=cells, asked=check.asked, got=check.got, runs=len(found))


def behind_rate(evidence: Evidence) -> Iterator[kinds.BehindRate]:
    """Runs that did not begin as many transactions as they were to."""
    if found := _failing(evidence, BEHIND_RATE):
        check, cells = found[0][1], evidence.named(cell_id for cell_id, _ in found)
        yield kinds.BehindRate(cells=cells, asked=check.asked, got=check.got, runs=len(found))


def _failing(evidence: Evidence, name: str) -> list[tuple[str, Check]]:
    """The runs with a failed check of this name, by cell."""
    return [
        (cell_id, check)
        for cell_id, _, measurement in evidence.measurements() for check in measurement.unverified if check.name == name
    ]  # fmt: skip


def few_repetitions(evidence: Evidence) -> Iterator[kinds.SingleRepetition | kinds.FewRepetitions]:
    counts = {cell_id: len(runs) for cell_id, runs in evidence.used.items() if runs}
    if not counts or min(counts.values()) >= REPETITIONS_SOUND:
        return
    fewest = min(counts.values())
    yield (kinds.SingleRepetition if fewest == 1 else kinds.FewRepetitions)(
        severity="note" if fewest >= REPETITIONS_LEAST else "caution",
        cells=evidence.named(cell_id for cell_id, count in counts.items() if count == fewest),
        repetitions=fewest, sound=REPETITIONS_SOUND,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Times that can't be trusted
# ---------------------------------------------------------------------------------------------------------------------


def short_runs(evidence: Evidence) -> Iterator[kinds.ShortRuns]:
    medians = {cell.cell_id: cell.elapsed_s.median for cell in evidence.cells if cell.elapsed_s is not None}
    short = {cell_id: median for cell_id, median in medians.items() if median < SHORT_RUN_S}
    if short:
        yield kinds.ShortRuns(cells=evidence.named(short), shortest_s=min(short.values()), limit_s=SHORT_RUN_S)


def outlying_runs(evidence: Evidence) -> Iterator[kinds.OddRun]:
    """One for each cell."""
    of_cell: dict[int, list[Outlier]] = defaultdict(list)
    for outlier in evidence.odd:
        of_cell[outlier.cell].append(outlier)
    for cell, found in of_cell.items():
        worst = max(found, key=lambda outlier: abs(outlier.deviation))
        cell_id, repetition = evidence.plan.cells[cell].cell_id, evidence.rounds[worst.round]
        measurement = evidence.used[cell_id][repetition].measurement
        elapsed_s = measurement.elapsed_s if measurement is not None else math.nan
        yield kinds.OddRun(
            cells=evidence.named([cell_id]), repetition=repetition,
            elapsed_s=elapsed_s, expected_s=elapsed_s / worst.ratio, ratio=worst.ratio, deviation_sd=worst.deviation,
            runs=len(found), left_out=int((cell_id, repetition) in evidence.left_out),
        )  # fmt: skip


def run_in_blocks(evidence: Evidence) -> Iterator[kinds.RunInBlocks]:
    """None for simulated blocks, which don't affect each other; see also `two_provenances`."""
    plan = evidence.plan
    measured = [place for place, cell in enumerate(plan.cells) if not cell.config.simulated]
    blocks = blocks_of(plan)
    if len({blocks[place] for place in measured}) > 1 and evidence.provenance != "simulated":
        held = [factor.name for factor in evidence.experiment.factors if _held(evidence.plan, blocks, factor.name)]
        yield kinds.RunInBlocks(factors=tuple(held), blocks=len(set(blocks)))


def _held(plan: Plan, blocks: tuple[int, ...], factor: str) -> bool:
    """Whether a factor changes, but never within a block."""
    levels: dict[int, set[str]] = defaultdict(set)
    for block, cell in zip(blocks, plan.cells, strict=True):
        levels[block].add(repr(cell.levels.get(factor)))
    return all(len(values) == 1 for values in levels.values()) and len(set().union(*levels.values())) > 1


def changing(evidence: Evidence) -> Iterator[kinds.Drift | kinds.Step]:
    """Times drifted or jumped, whatever ran. A note for one block in random order: its rounds absorb it."""
    at: dict[tuple[str, str], int] = {}  # each host by itself: a slower one is no change along the way
    left_out = set(evidence.left_out)
    rows = [
        (math.log(max(m.elapsed_s, 1e-9)), at.setdefault((cell_id, host_of(run)), len(at)), float(run.sequence))
        for cell_id, run, m in evidence.measurements()
        if (cell_id, run.repetition) not in left_out
    ]
    if len(rows) < 6:
        return
    log_s, cells, sequence = zip(*rows, strict=True)
    order, blocks = evidence.experiment.order, len(set(blocks_of(evidence.plan)))
    drift = irregular.drift(log_s, cells, sequence, _longest_block(evidence))
    step = irregular.step(log_s, cells, sequence)
    severity: kinds.Severity = "note" if order == "randomised" and blocks == 1 else "caution"
    drifted = (
        drift is not None
        and drift.p_value < DRIFT_P_VALUE
        and (drift.change is None or abs(drift.change) > DRIFT_LEAST)
    )
    jumped = step is not None and step.p_value < DRIFT_P_VALUE and abs(step.change) > DRIFT_LEAST
    if step is not None and jumped and not (drifted and drift is not None and drift.explained >= step.explained):
        yield kinds.Step(
            severity=severity, change=step.change, p_value=step.p_value, order=order, blocks=blocks,
            run=1 + sum(place <= step.after for place in sequence), runs=len(rows),
        )  # fmt: skip
    elif drift is not None and drifted:
        yield kinds.Drift(severity=severity, change=drift.change, p_value=drift.p_value, order=order, blocks=blocks)


def _longest_block(evidence: Evidence) -> float:
    """The length of a block, from its first run made to its last, in places of the order. What a campaign that was stopped
    has still to do is no part of it: nobody knows whether times go on as they began."""
    places: dict[int, list[int]] = defaultdict(list)
    for run in evidence.runs:
        places[run.block].append(run.sequence)
    return float(max(max(of_block) - min(of_block) for of_block in places.values()))


def not_randomised(evidence: Evidence) -> Iterator[kinds.NotRandomised]:
    """What an order that is not random does to the answer.

    None if the drives start anew before every run: then runs don't affect each other.
    """
    order, provenance = evidence.experiment.order, evidence.provenance
    fresh = all(cell.config.between_runs.format_drives or not cell.config.drives for cell in evidence.plan.cells)
    if order == "randomised" or len(evidence.plan.cells) < 2 or (provenance == "simulated" and fresh):
        return
    yield kinds.NotRandomised(
        severity="note" if order == "as-listed" else "caution", order=order, provenance=provenance
    )


# ---------------------------------------------------------------------------------------------------------------------
# What observing costs, and what it can't see
# ---------------------------------------------------------------------------------------------------------------------


def observer_cost(evidence: Evidence) -> Iterator[kinds.ObserverDear]:
    cost_s: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for cell_id, _, m in evidence.measurements():
        if m.observer is not None and m.elapsed_s > 0:
            cost_s[cell_id].append((m.observer.sampler_cpu_s, m.observer.session_cpu_s or 0.0, m.elapsed_s))
    every = [cost for costs in cost_s.values() for cost in costs]
    if not every or _core_share(every) <= OBSERVER_CORE_SHARE_MOST:
        return
    yield kinds.ObserverDear(
        cells=evidence.named(cell_id for cell_id, of in cost_s.items() if _core_share(of) > OBSERVER_CORE_SHARE_MOST),
        core_share=_core_share(every), limit=OBSERVER_CORE_SHARE_MOST,
        sampler_core_share=sum(sampler for sampler, _, _ in every) / sum(elapsed for _, _, elapsed in every),
    )  # fmt: skip


def _core_share(costs: list[tuple[float, float, float]]) -> float:
    return sum(sampler + session for sampler, session, _ in costs) / sum(elapsed for _, _, elapsed in costs)


def few_wait_samples(evidence: Evidence) -> Iterator[kinds.FewWaitSamples]:
    passes: dict[str, float] = {}
    for cell_id, measurements in _by_cell(evidence).items():
        sampled = [
            m.waits.passes for m in measurements if isinstance(m.waits, SampledWaits) or (m.waits and m.waits.passes)
        ]
        if sampled and (median := statistics.median(sampled)) < WAIT_PASSES_LEAST:
            passes[cell_id] = median
    if passes:
        yield kinds.FewWaitSamples(cells=evidence.named(passes), passes=min(passes.values()), limit=WAIT_PASSES_LEAST)


def unexplained_time(evidence: Evidence) -> Iterator[kinds.Unexplained]:
    explained = {cell.cell_id: cell.explained for cell in evidence.cells if cell.explained is not None}
    outside = {id_: share for id_, share in explained.items() if not EXPLAINED_LEAST <= share <= EXPLAINED_MOST}
    if outside:
        yield kinds.Unexplained(
            cells=evidence.named(outside), lowest=min(outside.values()), highest=max(outside.values()),
            limit_low=EXPLAINED_LEAST, limit_high=EXPLAINED_MOST,
        )  # fmt: skip


def no_split(evidence: Evidence) -> Iterator[kinds.NoSplit]:
    reasons: Counter[str] = Counter()
    cells = set()
    for cell_id, _, m in evidence.measurements():
        if m.waits is not None and not _has_split(m):
            cells.add(cell_id)
            reasons[m.waits.no_split_reason] += 1
    if reasons:
        yield kinds.NoSplit(cells=evidence.named(cells), runs=reasons.total(), reason=reasons.most_common(1)[0][0])


def _has_split(measurement: Measurement) -> bool:
    waits = measurement.waits
    if isinstance(waits, CountedWaits) and any(row.signal_ns is not None for row in waits.rows):
        return waits.cpu_s is not None
    return waits is not None and waits.cpu_s is not None and (waits.runqueue_s is not None or not waits.passes)


# ---------------------------------------------------------------------------------------------------------------------
# The machine and the server
# ---------------------------------------------------------------------------------------------------------------------


def cpu_saturated(evidence: Evidence) -> Iterator[kinds.CpuSaturated]:
    """Storage is not the bottleneck."""
    shares: dict[str, float] = {}
    cpu_count = 0.0
    for cell_id, measurements in _by_cell(evidence).items():
        of_runs = []
        for m in measurements:
            cpus = _number(_table(m.environment, "host").get("cpu_count"))
            if cpus and m.waits is not None and m.waits.cpu_s is not None and m.elapsed_s > 0:
                cpu_count = cpus
                of_runs.append(m.waits.cpu_s / m.elapsed_s / cpus)
        if of_runs and (median := statistics.median(of_runs)) > CPU_SHARE_MOST:
            shares[cell_id] = median
    if shares:
        yield kinds.CpuSaturated(
            cells=evidence.named(shares), cpu_share=max(shares.values()), cpu_count=int(cpu_count), limit=CPU_SHARE_MOST
        )


def virtual_disks(evidence: Evidence) -> Iterator[kinds.VirtualDisk]:
    """One for each reason."""
    volumes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for _, _, m in evidence.measurements():
        for name, volume in _volumes(m):
            if volume.get("virtual") is True:
                volumes[_text(volume, "virtual_reason"), _text(volume, "device_model")].add(name)
    for (reason, model), names in volumes.items():
        yield kinds.VirtualDisk(volumes=tuple(sorted(names)), reason=reason, device_model=model)


def durability_off(evidence: Evidence) -> Iterator[kinds.DurabilityOff]:
    """One for each setting that gives up safety."""
    cells: dict[tuple[str, str, Loss], set[str]] = defaultdict(set)
    for cell_id, _, m in evidence.measurements():
        for setting in m.durability.settings if m.durability is not None else ():
            if setting.loses is not None:
                cells[setting.name, setting.value.lower(), setting.loses].add(cell_id)
    for (name, value, loses), of_cells in cells.items():
        yield kinds.DurabilityOff(cells=evidence.named(of_cells), setting=name, value=value, loses=loses)


def shared_devices(evidence: Evidence) -> Iterator[kinds.SharedDevice]:
    """Volumes that are throttled apart are apart, whatever device is below them."""
    volumes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for _, _, m in evidence.measurements():
        for name, volume in _volumes(m):
            if device := _text(volume, "device"):
                throttled = _text(volume, "device_numbers") if _table(volume, "throttle") else ""
                volumes[device, throttled].add(name)
    for (device, _), names in volumes.items():
        if len(names) > 1:
            yield kinds.SharedDevice(volumes=tuple(sorted(names)), device=device)


def allocation_latches(evidence: Evidence) -> Iterator[kinds.AllocationLatches]:
    """One for each server version that decides what more data files can gain, if numbers of data files are compared."""
    servers = [_table(m.environment, "server") for _, _, m in evidence.measurements()]
    for name in (name for name, engine in KNOWN.items() if engine.note_on_files is not None):
        of_engine = [cell.config for cell in evidence.plan.cells if cell.config.target.engine == name]
        if len({config.layout.data_files for config in of_engine}) < 2:
            continue
        majors = {_text(server, "version").partition(".")[0] for server in servers if server.get("engine") == name}
        for major in sorted(version for version in majors if version.isdigit()):
            yield kinds.AllocationLatches(major=int(major), engine=name)


def files_on_disks(evidence: Evidence) -> Iterator[kinds.FilesOnDisks]:
    """Simulated disks hold more data files than there are volumes, and numbers of data files are compared."""
    if evidence.provenance != "simulated" or len({cell.config.layout.data_files for cell in evidence.plan.cells}) < 2:
        return
    found: dict[str, tuple[tuple[str, ...], int, str]] = {}
    for cell_id, measurements in _by_cell(evidence).items():
        config = evidence.plan.cell(cell_id).config
        volumes, files = tuple(dict.fromkeys(config.data_volumes)), config.layout.data_files
        orders = _orders_of_disks(measurements[0], volumes)
        if orders and files > len(volumes):
            found[cell_id] = (volumes, files, " and ".join(sorted(orders)))
    if found:
        most = max(found.values(), key=lambda one: one[1])
        yield kinds.FilesOnDisks(cells=evidence.named(found), volumes=most[0], data_files=most[1], order=most[2])


def _orders_of_disks(measurement: Measurement, volumes: tuple[str, ...]) -> set[str]:
    """The orders in which the disks of these volumes serve their queues; flash drives have none."""
    drives = _table(measurement.environment, "drives")
    there = {name: volume for name, volume in _volumes(measurement) if name in volumes}
    named = {drive for volume in there.values() for drive in _text(volume, "drives").split(", ")}
    return {order for name in drives if name in named and (order := _text(_table(drives, name), "order"))}


def different_loads(evidence: Evidence) -> Iterator[kinds.DifferentLoads]:
    """Compared cells do different work, because a factor sets layout and load at once.

    If a factor sets only conditions, each condition has its own verdict.
    """
    factors = evidence.experiment.factors
    own = [factor.name for factor in factors if is_condition(factor)]
    groups: dict[str, set[tuple[str, float]]] = defaultdict(set)
    for cell in evidence.plan.cells:
        work = cell.config.workload
        if isinstance(work, InsertLoad):
            groups[repr([cell.levels[name] for name in own])].add((work.kind, work.reads_per_row))
    loads = max(map(len, groups.values()), default=0)
    if loads > 1:
        both = [factor.name for factor in factors if factor.name not in own and sets_load(factor)]
        yield kinds.DifferentLoads(factors=tuple(both), loads=loads)


# ---------------------------------------------------------------------------------------------------------------------
# Reading the evidence
# ---------------------------------------------------------------------------------------------------------------------


def _by_cell(evidence: Evidence) -> dict[str, list[Measurement]]:
    found: dict[str, list[Measurement]] = defaultdict(list)
    for cell_id, _, measurement in evidence.measurements():
        found[cell_id].append(measurement)
    return found


def _volumes(measurement: Measurement) -> Iterator[tuple[str, Mapping[str, object]]]:
    volumes = _table(measurement.environment, "volumes")
    for name in volumes:
        yield name, _table(volumes, name)


def _table(mapping: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The table under `key`, or an empty one: the content of an environment depends on what could be read."""
    value = mapping.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(mapping: Mapping[str, object], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


CHECKS: tuple[Callable[[Evidence], Iterator[Caution]], ...] = (
    failed_runs,
    missing_runs,
    unverified,
    unsettled,
    behind_rate,
    few_repetitions,
    short_runs,
    outlying_runs,
    run_in_blocks,
    not_randomised,
    changing,
    observer_cost,
    few_wait_samples,
    unexplained_time,
    no_split,
    *taken_cpu.CHECKS,
    cpu_saturated,
    virtual_disks,
    durability_off,
    shared_devices,
    allocation_latches,
    files_on_disks,
    different_loads,
    *raw_io_doubts.CHECKS,
    *unlike_hosts.CHECKS,
)
