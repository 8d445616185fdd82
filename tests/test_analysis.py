"""Whole experiments: the right conclusions, their certainty, and no wrong ones. All samples are fabricated."""

import random

import pytest
from builders import (
    analysed,
    make_campaign,
    make_experiment,
    make_measurement,
    make_plan,
    make_planned,
    make_run,
    make_runs,
    ten_seconds,
)  # fmt: skip

from storagelab.findings.analysis import TREND_WAITS_MAX, analyse
from storagelab.findings.model import Findings
from storagelab.spec.matrix import expand

FILES_AND_LOG = {"layout.data_files": [1, 2, 4, 8, 16], "layout.log": ["a", "b"]}


def noisy(factor_of):
    """Ten seconds with 1 % of noise, times `factor_of(levels)`."""
    return lambda levels, repetition: ten_seconds(levels, repetition) * factor_of(levels)


# --- Verdicts --------------------------------------------------------------------------------------------------------


def test_one_cell_that_is_faster_than_all_others_wins():
    findings = analysed(
        {"layout.data_files": [1, 2, 4]}, elapsed=noisy(lambda levels: 0.8 if levels["layout.data_files"] == 2 else 1)
    )
    assert findings.verdict == "winner"
    assert findings.best == ("cell-002",)
    assert findings.tied == ()
    assert (findings.fastest, findings.loads, findings.load_of("cell-001")) == ("cell-002", (), None)
    for comparison in findings.comparisons:
        assert comparison.best_cell_id == "cell-002"
        assert comparison.ratio.low < 1.25 < comparison.ratio.high
        assert comparison.tested


def test_cells_that_are_as_good_as_the_best_are_named_with_it():
    findings = analysed(FILES_AND_LOG, elapsed=noisy(lambda levels: 1.2 if levels["layout.log"] == "a" else 1))
    assert findings.verdict == "best-set"
    assert len(findings.best) == 5
    assert findings.best[1:] == findings.tied
    assert {findings.cell(cell_id).levels["layout.log"] for cell_id in findings.best} == {"b"}
    assert findings.cell(findings.worst).levels["layout.log"] == "a"


def test_a_factor_that_changes_nothing_leaves_all_cells_indistinguishable():
    findings = analysed(FILES_AND_LOG)
    assert findings.verdict == "indistinguishable"
    assert set(findings.best) == {cell.cell_id for cell in findings.cells}
    assert not any(effect.distinguishable for effect in findings.effects)


def test_with_one_repetition_there_is_no_verdict_and_no_interval():
    findings = analysed(
        {"layout.data_files": [1, 2]}, repetitions=1, elapsed=lambda levels, _: float(levels["layout.data_files"])
    )
    assert findings.verdict == "too-few-runs"
    assert (findings.best, findings.tied, findings.fastest, findings.worst) == ((), (), "cell-001", "cell-002")
    (comparison,) = findings.comparisons
    assert (comparison.ratio.value, comparison.ratio.low, comparison.tested) == (2.0, None, False)
    assert findings.cell("cell-001").elapsed_s.mean.low is None
    assert findings.effects[0].ratio.low is None


def test_a_single_cell_is_measured_and_compared_with_nothing():
    findings = analysed({"layout.data_files": [4]})
    assert findings.verdict == "single-cell"
    assert (findings.best, findings.worst, findings.comparisons, findings.effects) == (("cell-001",), None, (), ())
    assert findings.cell("cell-001").elapsed_s.mean.low < 10 < findings.cell("cell-001").elapsed_s.mean.high


def test_an_experiment_without_runs_has_findings_too():
    experiment = make_experiment({"layout.data_files": [1, 2]})
    findings = analyse(experiment, make_plan(experiment), ())
    assert findings.verdict == "too-few-runs"
    assert (findings.runs_planned, findings.runs_stored, findings.provenance, findings.fastest) == (10, 0, None, None)
    assert findings.cell("cell-001").elapsed_s is None
    assert analyse(*make_planned({"layout.data_files": [1]}), ()).best == ()


def test_the_order_in_which_runs_are_handed_over_changes_nothing():
    experiment, plan = make_planned(FILES_AND_LOG)
    runs = list(make_runs(experiment, plan))
    before = analyse(experiment, plan, runs)
    random.Random(1).shuffle(runs)
    assert analyse(experiment, plan, runs) == before


# --- Cells that do different work ------------------------------------------------------------------------------------


def test_a_cell_that_inserts_more_rows_is_not_slower_for_that():
    findings = analysed(
        {"workload.rows_per_connection": [10_000, 20_000, 40_000]},
        elapsed=lambda levels, repetition: (
            levels["workload.rows_per_connection"] / 10_000 * ten_seconds(levels, repetition)
        ),
    )
    assert (findings.compared, findings.verdict) == ("time-per-row", "one-layout")
    assert not any(effect.distinguishable for effect in findings.effects)
    assert findings.effects[0].ratio.value == pytest.approx(1, abs=0.05)


def test_the_cell_with_more_rows_a_second_is_the_fast_end_though_it_takes_longer():
    findings = analysed(
        {"workload.connections": [1, 200]}, elapsed=noisy(lambda levels: 1 + levels["workload.connections"] / 20)
    )
    best = findings.cell(findings.fastest)
    assert (findings.verdict, best.levels["workload.connections"]) == ("one-layout", 200)
    assert (findings.best, findings.tied, findings.comparisons) == ((), (), ())
    assert best.elapsed_s.mean.value > findings.cell(findings.worst).elapsed_s.mean.value
    (effect,) = findings.effects
    assert effect.distinguishable
    assert effect.ratio.value == pytest.approx(11 / 1.05 / 200, rel=0.05)


# --- Blocks ----------------------------------------------------------------------------------------------------------


def in_blocks(elapsed, provenance="measured", factors=None, repetitions=5) -> Findings:
    """Two blocks, one per place of the log, each with one to three numbers of files."""
    factors = factors or {"layout.log": ["a", "b"], "layout.data_files": [1, 2, 4]}
    experiment = make_experiment(factors, repetitions, costly=("layout.log",))
    plan = expand(experiment)
    runs = [
        run.model_copy(update={"measurement": run.measurement.model_copy(update={"provenance": provenance})})
        for run in make_runs(experiment, plan, elapsed=elapsed)
    ]
    return analyse(experiment, plan, runs)


def log_b_takes_twice_as_long(levels):
    return 2 if levels["layout.log"] == "b" else 1


def test_cells_of_different_blocks_are_never_told_apart():
    findings = in_blocks(noisy(log_b_takes_twice_as_long))
    assert (findings.verdict, len(findings.best)) == ("indistinguishable", 6)
    (across,) = [row for row in findings.comparisons if row.across_blocks]
    assert across.ratio.value == pytest.approx(2, rel=0.02)
    assert (across.ratio.low, across.tested, across.distinguishable) == (None, False, False)
    log = [effect for effect in findings.effects if effect.factor == "layout.log"]
    assert len(log) == 4
    for effect in log:
        assert (effect.across_blocks, effect.distinguishable, effect.ratio.low) == (True, False, None)


def test_within_a_block_the_slower_cells_are_found_and_the_best_of_each_block_is_kept():
    findings = in_blocks(
        noisy(lambda levels: log_b_takes_twice_as_long(levels) * (1 if levels["layout.data_files"] == 4 else 1.3))
    )
    assert findings.verdict == "best-set"
    assert [findings.cell(cell_id).levels for cell_id in findings.best] == [
        {"layout.log": "a", "layout.data_files": 4},
        {"layout.log": "b", "layout.data_files": 4},
    ]
    for row in findings.comparisons:
        same = findings.cell(row.cell_id).levels["layout.log"] == findings.cell(row.best_cell_id).levels["layout.log"]
        assert row.distinguishable == same
    files = [effect for effect in findings.effects if effect.factor == "layout.data_files" and not effect.at]
    assert [effect.distinguishable for effect in files] == [False, True]


def test_blocks_of_one_cell_allow_no_verdict_but_are_not_too_few_runs():
    findings = in_blocks(noisy(log_b_takes_twice_as_long), factors={"layout.log": ["a", "b"]})
    assert (findings.verdict, findings.best, findings.tied) == ("untested", (), ())
    (row,) = findings.comparisons
    assert (row.across_blocks, row.tested, row.ratio.low) == (True, False, None)
    assert row.ratio.value == pytest.approx(2, rel=0.05)
    assert in_blocks(ten_seconds, factors={"layout.log": ["a", "b"]}, repetitions=1).verdict == "too-few-runs"


def test_simulated_blocks_are_compared_as_nothing_drifts_between_them():
    findings = in_blocks(noisy(log_b_takes_twice_as_long), provenance="simulated")
    assert (findings.verdict, len(findings.best)) == ("best-set", 3)
    assert "blocks" not in {caution.kind for caution in findings.cautions}
    assert not any(row.across_blocks for row in findings.comparisons)


# --- Runs ------------------------------------------------------------------------------------------------------------


def test_the_latest_usable_attempt_counts_and_failed_runs_are_only_counted():
    experiment, plan = make_planned({"layout.data_files": [1]}, repetitions=2)
    (cell,), (first, second) = plan.cells, plan.runs
    runs = [
        make_run(first, cell, make_measurement(cell.config, 99.0, None), attempt=1),
        make_run(first, cell, make_measurement(cell.config, 10.0, None), attempt=2),
        make_run(first, cell, None, "the disk is full", attempt=3),
        make_run(second, cell, None, "the disk is full", attempt=1),
        make_run(second, cell, make_measurement(cell.config, 12.0, None), attempt=2),
    ]
    summary = analyse(experiment, plan, runs).cell(cell.cell_id)
    assert [point.value for point in summary.elapsed_s.points] == [10.0, 12.0]
    assert (summary.runs_planned, summary.runs_ok, summary.runs_failed) == (2, 2, 2)


def test_runs_of_a_cell_that_is_not_in_the_plan_are_not_used():
    experiment, plan, runs = make_campaign({"layout.data_files": [1, 2]})
    stranger = runs[0].model_copy(update={"cell_id": "of-another-spec"})
    assert analyse(experiment, plan, [*runs, stranger]).cells == analyse(experiment, plan, runs).cells


# --- Effects ---------------------------------------------------------------------------------------------------------


def test_each_level_is_set_against_the_first_over_all_cells_and_at_each_other_level():
    findings = analysed(FILES_AND_LOG, elapsed=noisy(lambda levels: 0.75 if levels["layout.log"] == "b" else 1))
    (log,) = [effect for effect in findings.effects if effect.factor == "layout.log" and not effect.at]
    assert (log.level, log.baseline, log.pairs, log.distinguishable) == ("b", "a", 25, True)
    assert log.ratio.low < 0.75 < log.ratio.high
    at = [effect.at for effect in findings.effects if effect.factor == "layout.log" and effect.at]
    assert at == [{"layout.data_files": files} for files in (1, 2, 4, 8, 16)]
    files = [effect for effect in findings.effects if effect.factor == "layout.data_files"]
    assert len(files) == 4 + 2 * 4
    assert not any(effect.distinguishable for effect in files)


def test_true_and_1_are_different_levels():
    findings = analysed({"x": [True, 1]}, elapsed=noisy(lambda levels: 1.5 if levels["x"] is True else 1.0))
    (effect,) = findings.effects
    assert effect.ratio.value == pytest.approx(1 / 1.5, rel=0.05)


# --- Waits -----------------------------------------------------------------------------------------------------------


def test_the_story_of_the_extension_lock_can_be_read_while_times_stay_within_noise():
    findings = analysed(FILES_AND_LOG)
    assert findings.verdict == "indistinguishable"
    trends = [trend for trend in findings.wait_trends if trend.wait_type == "Lock:extend"]
    assert [trend.at for trend in trends] == [{"layout.log": "a"}, {"layout.log": "b"}]
    for trend in trends:
        assert (trend.factor, trend.levels, trend.category) == ("layout.data_files", (1, 2, 4, 8, 16), "allocation")
        assert trend.shares == pytest.approx((0.25, 0.20, 0.12, 0.03, 0.02), abs=0.005)


def test_a_small_wait_for_allocation_is_not_crowded_out_by_larger_waits():
    shares = {f"LWLock:Number{number}": 0.07 for number in range(TREND_WAITS_MAX + 2)} | {"Lock:extend": 0.02}
    findings = analysed({"layout.data_files": [1, 2]}, waits=lambda *_: shares)
    shown = [trend.wait_type for trend in findings.wait_trends]
    assert "Lock:extend" in shown
    assert len(shown) == TREND_WAITS_MAX


def test_without_data_files_as_a_factor_waits_follow_the_first_factor_of_numbers():
    findings = analysed({"layout.log": ["a", "b"], "workload.connections": [32, 8, 16]})
    assert {trend.factor for trend in findings.wait_trends} == {"workload.connections"}
    assert {trend.levels for trend in findings.wait_trends} == {(8, 16, 32)}


def test_a_level_without_waits_has_an_unknown_share_and_not_zero():
    experiment, plan = make_planned({"layout.data_files": [1, 2, 4]})
    runs = [run for run in make_runs(experiment, plan) if run.levels["layout.data_files"] != 2]
    for trend in analyse(experiment, plan, runs).wait_trends:
        assert [share is None for share in trend.shares] == [False, True, False]


def test_the_waits_that_changed_most_between_best_and_worst_come_first():
    def waits(levels, _):
        of_log = 0.2 if levels["layout.data_files"] == 1 else 0.35
        return {"Lock:extend": 0.7 - 2 * of_log, "IO:WALSync": of_log, "LWLock:WALWrite": of_log} | {
            "IO:DataFileRead": 0.1
        }

    findings = analysed(
        {"layout.data_files": [1, 8]}, waits=waits, elapsed=noisy(lambda levels: 2 / levels["layout.data_files"])
    )
    change = findings.wait_changes[0]
    assert (change.wait_type, change.best_s, change.best_share) == (
        "Lock:extend",
        pytest.approx(0, abs=0.1),
        pytest.approx(0, abs=0.001),
    )
    assert change.worst_share == pytest.approx(0.30, abs=0.05)
    moved = [abs(row.worst_share - row.best_share) for row in findings.wait_changes]
    assert moved == sorted(moved, reverse=True)


def test_where_waits_were_not_observed_nothing_is_said_of_them():
    findings = analysed({"layout.data_files": [1, 2]}, waits=None)
    assert (findings.wait_changes, findings.wait_trends) == ((), ())
    assert findings.cell("cell-001").available_s is None
