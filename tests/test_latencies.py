"""Percentiles of a cell: from the merged histogram of its runs, with correct intervals."""

import math
import random

import numpy as np
import pytest
from builders import make_experiment, make_plan, make_run
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats as scipy_stats

from storagelab.findings import times
from storagelab.findings.analysis import analyse
from storagelab.findings.kinds.slow_seconds import SlowSeconds
from storagelab.findings.model import CellSummary, Estimate, Findings, Sample
from storagelab.model.measurement import (
    Latency,
    Measurement,
    Resource,
    TimeSeries,
    WaitingTask,
    latency_of,
    merged,
    middle_of_bin,
)
from storagelab.report.charts import drawn_charts
from storagelab.report.sections.cells import cells_table


def histogram(values) -> Latency:
    made = latency_of((int(value), 1) for value in values)
    assert made is not None
    return made


def drawn(rng, operations=1000, noise=0.1, spread=0.5):
    """A run: latencies around 1 ms, all of them longer or shorter by the run's effect."""
    return 1e6 * np.exp(rng.normal(0, noise) + rng.normal(0, spread, operations))


def test_a_percentile_of_a_cell_is_within_a_hundredth_of_that_of_all_its_latencies():
    rng = np.random.default_rng(7)
    runs = [drawn(rng, 20_000) for _ in range(5)]
    found = times.figures_of_cell([histogram(one) for one in runs])
    for name, per_cent in times.PERCENTILES.items():
        assert found[name].value == pytest.approx(np.percentile(np.concatenate(runs), per_cent) / 1e9, rel=0.01)
    assert found["max"].value == pytest.approx(max(map(max, runs)) / 1e9)


def test_the_longest_latency_has_no_interval_and_neither_have_two_runs():
    rng = np.random.default_rng(3)
    runs = [histogram(drawn(rng)) for _ in range(3)]
    assert times.figures_of_cell(runs)["max"].low is None
    assert times.figures_of_cell(runs)["p99"].low is not None
    assert times.figures_of_cell(runs[:2])["p99"].low is None
    assert times.figures_of_cell([]) == {}


def test_a_percentile_that_no_operation_is_beyond_is_not_named():
    found = times.figures_of_cell([histogram(range(10**6, 10**6 + 500)) for _ in range(1)])
    assert set(found) == {"mean", "p50", "p95", "p99", "max"}


@pytest.mark.slow
def test_intervals_hold_the_true_percentile_in_95_of_100_cells():
    rng, cells, spread = np.random.default_rng(19), 150, math.hypot(0.1, 0.5)  # of all operations over all runs
    truths_s = {
        "mean": 1e-3 * math.exp(spread**2 / 2),
        "p50": 1e-3,
        "p99": 1e-3 * math.exp(spread * scipy_stats.norm.ppf(0.99)),
    }
    missed = dict.fromkeys(truths_s, 0)
    for _ in range(cells):
        found = times.figures_of_cell([histogram(drawn(rng, 400)) for _ in range(5)])
        for name, truth_s in truths_s.items():
            missed[name] += not found[name].low <= truth_s <= found[name].high
    assert max(missed.values()) <= scipy_stats.binom.ppf(0.999, cells, 0.06), missed


def cell(name: str, rate: float, p99_s: float) -> CellSummary:
    point = Estimate(value=p99_s, low=p99_s * 0.9, high=p99_s * 1.1)
    rated = Sample(mean=Estimate(value=rate), median=rate, sd=None, minimum=rate, maximum=rate, points=())
    return CellSummary(
        cell_id=name, levels={}, provenance="measured", runs_planned=3, runs_ok=3, runs_unverified=0, runs_failed=0,
        connections=1, data_files=1, work_per_s=rated, latency={"p99": point},
    )  # fmt: skip


def test_throughput_and_latency_disagree_only_where_their_intervals_do_not_meet():
    told_apart = {frozenset(("one", "other"))}
    found = times.disagreement([cell("one", 1000, 0.014), cell("other", 900, 0.010)], told_apart)
    assert (found.fastest, found.lowest) == ("one", "other")
    assert times.disagreement([cell("one", 1000, 0.012), cell("other", 900, 0.010)], told_apart) is None
    assert times.disagreement([cell("one", 1000, 0.010), cell("other", 900, 0.014)], told_apart) is None
    assert times.disagreement([cell("one", 1000, 0.010)], told_apart) is None


@pytest.mark.parametrize("judge", ["throughput", "p99.9"])
def test_the_percentiles_of_a_cell_rise_also_where_one_is_judged_and_one_run_stalled(judge):
    """FABRICATED: the p99 of all transactions is that of the run that stalled, above the mean of the runs' p99.9."""
    load = {"kind": "pgbench", "connections": 4, "threads": 1, "duration_s": 10.0}
    base = {"target": {"engine": "postgres"}, "volumes": {"a": {"path": "./a"}}, "layout": {"data": ["a"], "log": "a"},
            "workload": load, "measure": {"judge": judge}}  # fmt: skip
    experiment = make_experiment({"layout.data_files": [1, 4]}, 3, base=base)
    plan, runs = make_plan(experiment), []
    for planned in plan.runs:
        slow_ns = 300_000_000 if planned.repetition == 1 else 4_000_000
        latency = latency_of([(1_000_000, 9_000), (2_000_000, 600), (slow_ns, 380), (2 * slow_ns, 20)])
        made = Measurement(provenance="measured", elapsed_s=10.0, transactions=10_000, latency=latency)
        runs.append(make_run(planned, plan.cell(planned.cell_id), made))
    for cell in analyse(experiment, plan, runs).cells:
        values = [cell.latency[name].value for name in times.PERCENTILES]
        assert values == sorted(values)
        assert cell.latency["p99"].value == pytest.approx(0.3 if judge == "throughput" else 0.0169, rel=0.01)


# --- histograms: percentiles within a bin of the true ones, merging without loss --------------------------------------


LATENCIES = st.lists(st.integers(1, 10**12), min_size=1, max_size=300)


def _histogram(values: list[int]) -> Latency:
    made = latency_of((value, 1) for value in values)
    assert made is not None
    return made


def _nearest_rank(values: list[int], per_cent: float) -> float:
    return sorted(values)[max(1, math.ceil(per_cent / 100 * len(values))) - 1] / 1e9


@given(LATENCIES, st.sampled_from([1.0, 50.0, 95.0, 99.0, 99.9, 100.0]))
def test_a_percentile_is_within_half_a_bin_of_the_one_of_all_latencies(values: list[int], per_cent: float) -> None:
    assert _histogram(values).percentile_s(per_cent) == pytest.approx(_nearest_rank(values, per_cent), rel=1 / 256)


@given(LATENCIES)
def test_mean_and_extremes_are_exact(values: list[int]) -> None:
    made = _histogram(values)
    assert made.mean_s == pytest.approx(sum(values) / len(values) / 1e9)
    assert (made.least_ns, made.longest_ns, made.operations) == (min(values), max(values), len(values))


@given(LATENCIES, LATENCIES)
def test_merging_two_runs_gives_the_histogram_of_both(one: list[int], other: list[int]) -> None:
    assert merged([_histogram(one), _histogram(other)]) == _histogram(one + other)


@given(st.integers(0, 10**18))
def test_the_middle_of_a_bin_lies_in_its_bin(ns: int) -> None:
    assert middle_of_bin(middle_of_bin(ns)) == middle_of_bin(ns)


def test_the_percentile_of_two_runs_is_not_the_average_of_their_percentiles() -> None:
    drawn = random.Random(1)
    fast, slow = ([drawn.randrange(scale, 2 * scale) for _ in range(1000)] for scale in (10**6, 10**8))
    both = merged([_histogram(fast), _histogram(slow)])
    assert both.percentile_s(99) == pytest.approx(_nearest_rank(fast + slow, 99), rel=0.004)
    assert both.percentile_s(25) < 0.002 < _histogram(slow).percentile_s(25)


def test_no_operations_make_no_histogram() -> None:
    assert latency_of([]) is None
    assert latency_of([(5, 0)]) is None
    assert merged([]) is None


def test_values_without_counts_are_refused() -> None:
    with pytest.raises(ValidationError, match="one positive count for each value"):
        Latency(values_ns=(1, 2), counts=(1,), total_ns=1, least_ns=1, longest_ns=1)
    with pytest.raises(ValidationError, match="ascending"):
        Latency(values_ns=(2, 1), counts=(1, 1), total_ns=3, least_ns=1, longest_ns=2)


# --- seconds of the tail, where a percentile is judged ----------------------------------------------------------------


SECONDS = 100


def findings_of(judge: str = "p99", tells: bool = True) -> Findings:
    """FABRICATED: every tenth second has a checkpoint; then transactions take long and wait for the log. Volume a is
    busy by chance alone."""
    load = {"kind": "pgbench", "connections": 4, "threads": 1, "duration_s": SECONDS}
    base = {"target": {"engine": "postgres"}, "volumes": {"a": {"path": "./a"}}, "layout": {"data": ["a"], "log": "a"},
            "workload": load, "measure": {"judge": judge}}  # fmt: skip
    experiment = make_experiment({"layout.data_files": [1, 4]}, 3, base=base)
    plan, runs = make_plan(experiment), []
    for planned in plan.runs:
        rng, cell = random.Random(planned.seed), plan.cell(planned.cell_id)
        slow = [tells and second % 10 == 0 for second in range(SECONDS)]
        columns = {
            "latency_p99_s": tuple((0.05 if one else 0.01) * rng.uniform(0.9, 1.1) for one in slow),
            "checkpoint_s_per_s": tuple(0.8 if one else 0.0 for one in slow),
            "volume.a.busy_s_per_s": tuple(rng.random() for _ in slow),
        }
        waiting = tuple(
            WaitingTask(
                at_s=second + 0.5, wait_type="IO:WALSync", resource=Resource(kind="log"), sessions=4 if one else 1
            )
            for second, one in enumerate(slow)
        )
        latency = latency_of(
            [(round(1e7 * rng.uniform(0.99, 1.01)), 10_000), (50_000_000 if tells else 12_000_000, 200)]
        )
        runs.append(make_run(planned, cell, Measurement(
            provenance="measured", elapsed_s=SECONDS, transactions=10_200, latency=latency, waiting_tasks=waiting,
            series=TimeSeries(at_s=tuple(second + 1.0 for second in range(SECONDS)), columns=columns),
        )))  # fmt: skip
    return analyse(experiment, plan, runs)


def test_the_slow_seconds_tell_what_else_differed_in_them_and_not_what_differed_by_chance():
    for one in SlowSeconds.of(findings_of()):
        assert (one.seconds, one.slow) == (300, 30)
        assert [along.what for along in one.along] == ["checkpoint_s_per_s", "IO:WALSync"]
    first = SlowSeconds.sentences(findings_of())[0]
    assert " in the slowest 30 of 300 seconds, and 10" in first
    assert "a checkpoint ran 80 % of the time (0 %) and 4.0 sessions waited in IO:WALSync (1.0)" in first


def test_where_nothing_surely_differed_that_is_said():
    found = SlowSeconds.sentences(findings_of(tells=False))
    assert found
    assert all(text.endswith("Nothing else that was observed surely differed between them.") for text in found)


def test_a_verdict_by_means_has_no_slow_seconds():
    assert SlowSeconds.sentences(findings_of("mean")) == []


def test_kinds_of_sync_are_compared_by_the_mean_time_until_the_data_is_synced():
    """FABRICATED: fdatasync takes 0.2 ms after a write of 0.1 ms, and a dsync write takes 0.25 ms."""
    load = {"kind": "raw-io", "operation": "write", "pattern": "random", "block_bytes": 4096, "duration_s": 2.0}
    base = {"target": {"engine": "raw-io"}, "volumes": {"a": {"path": "./a"}}, "workload": load,
            "layout": {"data": ["a"], "data_size_bytes": 2**24}}  # fmt: skip
    experiment = make_experiment({"workload.sync": ["fdatasync", "dsync"]}, 3, base=base)
    plan, runs = make_plan(experiment), []
    for planned in plan.runs:
        cell = plan.cell(planned.cell_id)
        synced = cell.config.workload.sync == "fdatasync"
        latency = latency_of([(100_000 if synced else 250_000, 9_000)])
        syncs = {name: 2e-4 for name in ("sync_latency_mean_s", "sync_latency_p50_s", "sync_latency_p99_s") if synced}
        made = Measurement(
            provenance="measured", elapsed_s=2.0, requests=9_000, latency=latency,
            counters={"raw-io": {"latency_mean_s": latency.mean_s, "latency_p99_s": latency.mean_s, **syncs}},
            series=TimeSeries(at_s=(1.0,), columns={"write_latency_mean_s": (latency.mean_s,)}),
        )  # fmt: skip
        runs.append(make_run(planned, cell, made))
    findings = analyse(experiment, plan, runs)
    chart, over_time = (drawn_charts(findings, runs)[name] for name in ("latency", "latency-over-time"))
    assert over_time.data.lines == ["writes without their syncs, mean of each second", "writes, mean of each second"]
    assert over_time.finding.count("sync = dsync") == 2
    assert chart.finding.startswith("Lowest: sync = dsync: mean with sync 0.250 ms")
    assert chart.data.panels[:3] == ["mean with sync", "sync p50", "sync p99"]
    table = cells_table(findings).table
    place = [heading.text for heading in table.headings].index("mean with sync ms")
    assert sorted(row[place] for row in table.rows) == ["0.250", "0.300"]
    assert not times.disagreement(findings.cells, {frozenset(cell.cell_id for cell in plan.cells)})
