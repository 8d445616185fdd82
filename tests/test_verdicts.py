"""A verdict for each load: layouts are held against each other under the same load, and no load is ever fastest."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import make_experiment, make_plan, make_runs, runs_in_order, ten_seconds
from hypothesis import given, settings
from hypothesis import strategies as st

from storagelab import stats, verdicts
from storagelab.analysis import analyse
from storagelab.findings import Findings
from storagelab.matrix import expand
from storagelab.report import wording
from storagelab.values import JsonValue

FILES, LOG, BATCH, CONNECTIONS = (
    "layout.data_files", "layout.log", "workload.rows_per_transaction", "workload.connections",
)  # fmt: skip


def analysed(factors, slower=lambda levels: 1.0, repetitions=5, **fields) -> Findings:
    """FABRICATED: ten seconds with 1 % of scatter, times what `slower(levels)` says."""
    experiment = make_experiment(factors, repetitions, **fields)
    plan = expand(experiment) if fields else make_plan(experiment)
    runs = make_runs(
        experiment, plan, elapsed=lambda levels, repetition: ten_seconds(levels, repetition) * slower(levels)
    )
    return analyse(experiment, plan, runs)


def small_batches_take_longer(levels) -> float:
    return 3.0 if levels[BATCH] == 10 else 1.0


def layouts(findings: Findings, cell_ids) -> list[JsonValue]:
    return [findings.cell(cell_id).levels[FILES] for cell_id in cell_ids]


def test_without_a_factor_that_is_a_load_there_is_one_verdict():
    findings = analysed({FILES: [1, 4]}, lambda levels: 1 / levels[FILES])
    assert (findings.verdict, findings.loads, findings.load_of("cell-001")) == ("winner", (), None)


def test_each_load_has_a_verdict_of_its_own_and_the_lighter_load_wins_nothing():
    best = {10: 1, 1000: 4}
    findings = analysed(
        {BATCH: [10, 1000], FILES: [1, 4, 8]},
        lambda levels: small_batches_take_longer(levels) * (1 if levels[FILES] == best[levels[BATCH]] else 1.2),
    )
    assert findings.verdict == "by-load"
    assert [(load.load, load.verdict, layouts(findings, load.best)) for load in findings.loads] == [
        ({BATCH: 10}, "winner", [1]),
        ({BATCH: 1000}, "winner", [4]),
    ]
    assert layouts(findings, findings.best) == [1, 4]
    assert findings.tied == ()


def test_cells_are_held_against_cells_of_the_same_load_only():
    findings = analysed({BATCH: [10, 100, 1000], FILES: [1, 4], LOG: ["a", "b"]}, small_batches_take_longer)
    assert len(findings.comparisons) == 9
    for row in findings.comparisons:
        assert findings.load_of(row.cell_id) == findings.load_of(row.best_cell_id)
    assert {load.verdict for load in findings.loads} == {"indistinguishable"}
    assert sorted(cell_id for load in findings.loads for cell_id in load.cells) == [
        cell.cell_id for cell in findings.cells
    ]


def test_several_factors_of_the_load_make_a_load_of_each_combination():
    findings = analysed({CONNECTIONS: [1, 16], FILES: [1, 4], BATCH: [10, 1000]})
    assert [load.load for load in findings.loads] == [
        {CONNECTIONS: connections, BATCH: batch} for connections in (1, 16) for batch in (10, 1000)
    ]


def test_where_nothing_but_the_load_is_varied_nothing_is_best_and_each_level_has_its_cost():
    findings = analysed({BATCH: [10, 1000]}, small_batches_take_longer)
    assert (findings.verdict, findings.best, findings.tied, findings.comparisons) == ("one-layout", (), (), ())
    ends = [findings.cell(cell_id).levels[BATCH] for cell_id in (findings.fastest, findings.worst)]
    assert ends == [1000, 10]
    (effect,) = findings.effects
    assert effect.distinguishable
    assert effect.ratio.value == pytest.approx(1 / 3, rel=0.02)


def test_the_ends_are_those_of_the_load_under_which_layouts_are_furthest_apart():
    findings = analysed(
        {BATCH: [10, 1000], FILES: [1, 4]},
        lambda levels: small_batches_take_longer(levels) * (2 if levels == {BATCH: 1000, FILES: 4} else 1),
    )
    assert [findings.cell(cell_id).levels for cell_id in (findings.fastest, findings.worst)] == [
        {BATCH: 1000, FILES: 1},
        {BATCH: 1000, FILES: 4},
    ]
    shares = [change.worst_share for change in findings.wait_changes]
    assert shares


def test_one_run_a_cell_is_too_few_for_any_load():
    for factors in ({BATCH: [10, 1000], FILES: [1, 4]}, {BATCH: [10, 1000]}):
        findings = analysed(factors, repetitions=1)
        assert (findings.verdict, findings.best) == ("too-few-runs", ())


def test_a_load_that_one_layout_alone_has_borne_has_nothing_to_compare():
    findings = analysed(
        {BATCH: [10, 1000], FILES: [1, 4]}, lambda levels: levels[FILES],
        excludes=({BATCH: 10, FILES: 4},), order="as-listed",
    )  # fmt: skip
    assert [load.verdict for load in findings.loads] == ["single-cell", "winner"]
    assert findings.verdict == "by-load"


def test_blocks_of_a_costly_load_need_no_comparison_between_blocks():
    findings = analysed({BATCH: [10, 1000], FILES: [1, 4]}, lambda levels: levels[FILES], costly=(BATCH,))
    assert [load.verdict for load in findings.loads] == ["winner", "winner"]
    assert not any(row.across_blocks for row in findings.comparisons)


def test_blocks_of_layouts_are_not_told_apart_under_any_load():
    findings = analysed({FILES: [1, 4], BATCH: [10, 1000]}, lambda levels: levels[FILES], costly=(FILES,))
    assert [(load.verdict, len(load.best)) for load in findings.loads] == [("untested", 0)] * 2
    assert findings.verdict == "untested"
    assert [row.across_blocks for row in findings.comparisons] == [True, True]


@settings(max_examples=12, deadline=None)
@given(st.lists(st.floats(0.001, 1e5), min_size=24, max_size=24), st.sets(st.integers(0, 23)))
def test_any_times_and_any_failures_lead_to_consistent_verdicts_that_can_be_worded(times, lost):
    experiment = make_experiment({BATCH: [10, 1000], FILES: [1, 2, 4]}, repetitions=4)
    plan = make_plan(experiment)
    findings = analyse(experiment, plan, runs_in_order(experiment, plan, times, lost))
    slower = {row.cell_id for row in findings.comparisons if row.distinguishable}
    for load in findings.loads:
        assert (load.verdict == "winner") == (len(load.best) == 1 and not load.not_compared)
        assert {*load.not_compared}.isdisjoint(load.best)
        assert (load.verdict == "too-few-runs") == (not load.best)
        assert slower.isdisjoint(load.best)
        assert {*load.best} <= {*load.cells}
    assert (findings.verdict == "by-load") == any(load.best for load in findings.loads)
    assert wording.headline(findings).endswith(".")
    for cell in findings.cells:
        assert wording.comparison_text(findings, cell.cell_id)
        wording.verdict_mark(findings, cell.cell_id)
    assert all(sentence.endswith(".") for sentence in wording.sentences(findings))


def test_of_experiments_of_many_loads_without_a_difference_one_in_twenty_at_most_names_a_loser():
    """The error holds over all loads together, not for each: 6 loads of 4 layouts, 400 times."""
    experiment = make_experiment({BATCH: [1, 2, 3, 4, 5, 6], FILES: [1, 2, 4, 8]})
    plan = make_plan(experiment)
    rng, wrong = np.random.default_rng(11), 0
    for _ in range(400):
        fitted = stats.fit(np.log(10) + rng.normal(0, 0.02, (24, 5)) + rng.normal(0, 0.05, 5))
        judged = verdicts.judge(experiment.factors, plan, fitted, [0] * 24)
        wrong += any(load.verdict != "indistinguishable" for load in judged.loads)
    assert wrong <= 0.05 * 400 + 2 * math.sqrt(0.05 * 0.95 * 400)


def test_a_layout_that_is_a_tenth_slower_under_one_load_alone_is_found_there_and_nowhere_else():
    experiment = make_experiment({BATCH: [1, 2, 3, 4, 5, 6], FILES: [1, 2, 4, 8]})
    plan = make_plan(experiment)
    rng = np.random.default_rng(12)
    for _ in range(20):
        log_s = np.log(10) + rng.normal(0, 0.01, (24, 5))
        log_s[2] += 0.1
        judged = verdicts.judge(experiment.factors, plan, stats.fit(log_s), [0] * 24)
        assert not {plan.cells[2].cell_id} & {*judged.best}
        assert judged.loads[0].verdict == "best-set"
