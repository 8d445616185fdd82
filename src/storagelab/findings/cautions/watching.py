"""Cautions about the cost of sampling waits, and about gaps in the samples."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from storagelab.findings.basis import Evidence
from storagelab.findings.cautions.short_runs import length_key
from storagelab.findings.model import Caution, Findings, Severity
from storagelab.findings.times import figure_s
from storagelab.model.measurement import Measurement
from storagelab.model.values import Estimate
from storagelab.model.waits import CountedWaits, SampledWaits
from storagelab.stats.intervals import from_logs, mean_estimate
from storagelab.words.names import in_brackets, without_stop
from storagelab.words.numbers import count, percent, plural, times_estimate

# --- the cost of sampling ---------------------------------------------------------------------------------------------
# Periods of runs with sampling are compared with periods without sampling.


class WatchingCost(NamedTuple):
    """Figures of periods with sampling divided by those of periods without, as means over `runs`. With fewer than three
    runs, the ratios have no intervals."""

    runs: int
    throughput: Estimate
    p99: Estimate | None
    """None if there are too few transactions for a percentile"""


def watching_cost(measurements: Iterable[Measurement]) -> WatchingCost | None:
    """The cost of sampling; None if no run had both periods with and periods without sampling."""
    throughput, p99 = list[float](), list[float]()
    for one in measurements:
        turns = one.turns
        if turns is None:
            continue
        rate = turns.unwatched_transactions / turns.unwatched_s
        throughput.append(math.log(turns.watched_transactions / turns.watched_s / rate))
        watched, unwatched = (
            None if latency is None else figure_s(latency, "p99") for latency in (turns.watched_latency, one.latency)
        )
        if watched and unwatched:
            p99.append(math.log(watched / unwatched))
    if not throughput:
        return None
    return WatchingCost(len(throughput), _ratio(throughput), _ratio(p99) if len(p99) == len(throughput) else None)


def _ratio(logs: list[float]) -> Estimate:
    mean = mean_estimate(logs)
    return Estimate(value=math.exp(mean.value)) if mean.high is None else from_logs(mean.value, mean.high - mean.value)


# --- cautions ---------------------------------------------------------------------------------------------------------

WAIT_PASSES_LEAST = 100
OBSERVER_CORE_SHARE_MOST = 0.04
SLOWER_LEAST = 0.01
EXPLAINED_LEAST, EXPLAINED_MOST = 0.80, 1.10


class ObserverDear(Caution):
    """Sampling takes much CPU time. The sampler and its session took `core_share` of one core, over all runs that were
    sampled all the time.
    """

    kind, group = "observer-cost", "waits"
    short = "watching the waits cost CPU time"
    core_share: float
    limit: float
    sampler_core_share: float

    def sentence(self, findings: Findings) -> str:
        return (
            f"Watching the waits{self.where(findings)} took {percent(self.core_share)} of one core. Above "
            f"{percent(self.limit)}, it may slow the load. Lower measure.sample_hz, or make measure.waits a factor to "
            "see the cost."
        )


class WatchedSlower(Caution):
    """The load is surely slower while it is sampled. `throughput` is the throughput of periods with sampling divided by
    that of periods without. `p99` is the same ratio of the 99th percentiles of latency.
    """

    kind, group = "watched-slower", "waits"
    short = "waits are those of a slower load"
    severity: Severity = "note"
    runs: int
    throughput: Estimate
    p99: Estimate | None
    least: float

    def sentence(self, findings: Findings) -> str:
        p99 = f", and the 99th percentile of latency {times_estimate(self.p99)}" if self.p99 is not None else ""
        return (
            f"While sessions are watched, throughput is {times_estimate(self.throughput)}{p99} that of unwatched "
            f"periods ({plural(self.runs, 'run')}). Throughput and latency are from unwatched periods alone, but waits "
            "are from watched periods. With a lower measure.sample_hz, the two differ less."
        )


class FewWaitSamples(Caution):
    """The figures of waits are from few samples. `passes` is the number of samples per run; it is the smallest of the
    cells' medians."""

    kind, group = "few-wait-samples", "waits"
    short = "few samples of waits"
    passes: int | float
    limit: int

    def sentence(self, findings: Findings) -> str:
        return (
            f"The shares of waits{self.where(findings)} are from only {count(self.passes)} samples per run. Rare waits "
            f"may be missing, and shares are rough. Make runs longer ({length_key(findings)}) or raise "
            f"measure.sample_hz until there are {count(self.limit)} or more."
        )


class Unexplained(Caution):
    """Waits and CPU time add up to too little or too much of connections x elapsed time. `lowest` and `highest` are the
    lowest and the highest share of the cells outside the limits, as means over the cell's runs.
    """

    kind, group = "conservation", "waits"
    short = "waits don't add up to the time"
    lowest: float
    highest: float
    limit_low: float
    limit_high: float

    def sentence(self, findings: Findings) -> str:
        figure = " to ".join(dict.fromkeys(percent(share) for share in (self.lowest, self.highest)))
        if self.lowest < 1 < self.highest:
            sense = "Samples found the connections asleep too seldom in some cells and too often in others"
        elif self.lowest > 1:
            sense = "Samples found the connections asleep more often than the kernel's figures allow"
        else:
            sense = "Samples found no wait for the remaining time"
        return (
            f"Waits + CPU explain {figure} of connections x elapsed time{self.where(findings)}. It should be about "
            f"100 %. {sense}. So the shares in tables of waits have an error of this size. Completion times are not "
            "affected. CPU and queueing are the kernel's exact figures, so the error is in the sampled waits. Longer "
            "runs reduce it only if there were few samples."
        )


class NoSplit(Caution):
    """Waits are not split into resource and signal time. `reason` is the most frequent reason."""

    kind, group = "no-split", "waits"
    short = "waits without their signal part"
    severity: Severity = "note"
    runs: int
    reason: str

    def sentence(self, findings: Findings) -> str:
        return (
            f"Waits are not split into resource and signal time in {plural(self.runs, 'run')}{self.where(findings)}"
            f"{in_brackets(without_stop(self.reason))}. These columns are empty, which does not mean zero. Run "
            "storagelab on the server's own Linux host, where the kernel reports the split."
        )


def check_observer_cost(evidence: Evidence) -> Iterator[ObserverDear]:
    cost_s: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for cell_id, _, m in evidence.measurements():
        if m.observer is not None and m.elapsed_s > 0 and m.turns is None:
            cost_s[cell_id].append((m.observer.sampler_cpu_s, m.observer.session_cpu_s or 0.0, m.elapsed_s))
    every = [cost for costs in cost_s.values() for cost in costs]
    if not every or _core_share(every) <= OBSERVER_CORE_SHARE_MOST:
        return
    yield ObserverDear(
        cells=evidence.named(cell_id for cell_id, of in cost_s.items() if _core_share(of) > OBSERVER_CORE_SHARE_MOST),
        core_share=_core_share(every), limit=OBSERVER_CORE_SHARE_MOST,
        sampler_core_share=sum(sampler for sampler, _, _ in every) / sum(elapsed for _, _, elapsed in every),
    )  # fmt: skip


def check_watched_slower(evidence: Evidence) -> Iterator[WatchedSlower]:
    cost = watching_cost(m for _, _, m in evidence.measurements())
    if cost is None or cost.throughput.high is None or cost.throughput.high >= 1 - SLOWER_LEAST:
        return
    yield WatchedSlower(runs=cost.runs, throughput=cost.throughput, p99=cost.p99, least=SLOWER_LEAST)


def _core_share(costs: list[tuple[float, float, float]]) -> float:
    return sum(sampler + session for sampler, session, _ in costs) / sum(elapsed for _, _, elapsed in costs)


def check_few_wait_samples(evidence: Evidence) -> Iterator[FewWaitSamples]:
    passes: dict[str, float] = {}
    for cell_id, measurements in evidence.by_cell().items():
        sampled = [
            m.waits.passes for m in measurements if isinstance(m.waits, SampledWaits) or (m.waits and m.waits.passes)
        ]
        if sampled and (median := statistics.median(sampled)) < WAIT_PASSES_LEAST:
            passes[cell_id] = median
    if passes:
        yield FewWaitSamples(cells=evidence.named(passes), passes=min(passes.values()), limit=WAIT_PASSES_LEAST)


def check_unexplained_time(evidence: Evidence) -> Iterator[Unexplained]:
    explained = {cell.cell_id: cell.explained for cell in evidence.cells if cell.explained is not None}
    outside = {id_: share for id_, share in explained.items() if not EXPLAINED_LEAST <= share <= EXPLAINED_MOST}
    if outside:
        yield Unexplained(
            cells=evidence.named(outside), lowest=min(outside.values()), highest=max(outside.values()),
            limit_low=EXPLAINED_LEAST, limit_high=EXPLAINED_MOST,
        )  # fmt: skip


def check_no_split(evidence: Evidence) -> Iterator[NoSplit]:
    reasons: Counter[str] = Counter()
    cells = set()
    for cell_id, _, m in evidence.measurements():
        if m.waits is not None and not _has_split(m):
            cells.add(cell_id)
            reasons[m.waits.no_split_reason] += 1
    if reasons:
        yield NoSplit(cells=evidence.named(cells), runs=reasons.total(), reason=reasons.most_common(1)[0][0])


def _has_split(measurement: Measurement) -> bool:
    waits = measurement.waits
    if isinstance(waits, CountedWaits) and any(row.signal_ns is not None for row in waits.rows):
        return waits.cpu_s is not None
    return waits is not None and waits.cpu_s is not None and (waits.runqueue_s is not None or not waits.passes)
