"""A verdict for each load: layouts are compared under the same load, and no load is ever fastest."""

import math

import numpy as np
from builders import make_campaign, make_experiment, make_plan, make_planned, make_runs, ten_seconds

from storagelab.findings import verdicts
from storagelab.findings.analysis import analyse
from storagelab.findings.answer import answer
from storagelab.findings.model import Findings, JudgedByLoad
from storagelab.model.values import JsonValue
from storagelab.model.volume import DriveConfig
from storagelab.report.charts import effects
from storagelab.report.sections.contents import opened
from storagelab.report.words.answer import opening
from storagelab.report.words.ladder import verdict_of
from storagelab.report.words.sentences import sentences
from storagelab.spec.matrix import expand
from storagelab.stats.fit import fit

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


def test_the_ends_are_those_of_the_load_under_which_layouts_are_furthest_apart():
    findings = analysed(
        {BATCH: [10, 1000], FILES: [1, 4]},
        lambda levels: small_batches_take_longer(levels) * (2 if levels == {BATCH: 1000, FILES: 4} else 1),
    )
    assert [findings.cell(cell_id).levels for cell_id in (findings.fastest, findings.worst)] == [
        {BATCH: 1000, FILES: 1},
        {BATCH: 1000, FILES: 4},
    ]
    assert [change.worst_share for change in findings.wait_changes]


def test_one_run_a_cell_is_too_few_for_any_load():
    for factors in ({BATCH: [10, 1000], FILES: [1, 4]}, {BATCH: [10, 1000]}):
        findings = analysed(factors, repetitions=1)
        assert (findings.verdict, findings.best) == ("too-few-runs", ())


def test_blocks_of_a_costly_load_need_no_comparison_between_blocks():
    findings = analysed({BATCH: [10, 1000], FILES: [1, 4]}, lambda levels: levels[FILES], costly=(BATCH,))
    assert [load.verdict for load in findings.loads] == ["winner", "winner"]
    assert not any(row.across_blocks for row in findings.comparisons)


def test_blocks_of_layouts_are_not_told_apart_under_any_load():
    findings = analysed({FILES: [1, 4], BATCH: [10, 1000]}, lambda levels: levels[FILES], costly=(FILES,))
    assert [(load.verdict, len(load.best)) for load in findings.loads] == [("untested", 0)] * 2
    assert findings.verdict == "untested"
    assert [row.across_blocks for row in findings.comparisons] == [True, True]


# --- What was not tested ---------------------------------------------------------------------------------------------


def verdict_on(log_s) -> JudgedByLoad:
    """The verdict on as many numbers of data files as there are rows."""
    experiment, plan = make_planned({FILES: list(range(1, len(log_s) + 1))}, repetitions=len(log_s[0]))
    return verdicts.judge(experiment.factors, plan, fit(log_s), [0] * len(log_s))


def test_while_a_layout_has_no_run_nothing_is_the_winner():
    judged = verdict_on(np.array([[1.0, 1.01, 0.99], [2.0, 2.01, 1.99], [np.nan] * 3]))
    assert (judged.verdict, judged.best, judged.not_compared) == ("best-set", ("cell-001",), ("cell-003",))


def test_a_layout_with_one_run_is_not_tied_but_not_compared():
    judged = verdict_on(np.array([[1.0, 1.01, 0.99], [1.0, 1.02, 0.98], [5.0, np.nan, np.nan]]))
    assert (judged.verdict, judged.tied, judged.not_compared) == ("indistinguishable", ("cell-002",), ("cell-003",))


def test_an_a_a_experiment_that_drifts_cell_by_cell_names_no_loser_and_gives_no_interval():
    experiment = make_experiment({FILES: [1, 2, 4, 8]}, repetitions=5, order="cell-by-cell")
    plan = expand(experiment)
    steps = iter(np.linspace(0, 0.05, len(plan.runs)))
    rng = np.random.default_rng(71)
    runs = make_runs(
        experiment, plan, elapsed=lambda levels, repetition: 10 * math.exp(next(steps) + rng.normal(0, 0.01))
    )
    findings = analyse(experiment, plan, runs)
    assert (findings.verdict, findings.best, findings.dependences) == ("untested", (), ())
    assert not any(row.distinguishable for row in (*findings.comparisons, *findings.effects, *findings.speed_ups))
    estimates = [row.ratio for row in (*findings.comparisons, *findings.effects)]
    for cell in findings.cells:
        estimates += [cell.elapsed_s.mean, cell.work_per_s.mean, *cell.wait_shares.values()]
    assert all(one.low is None and one.high is None for one in estimates)
    assert {verdict_of(findings, cell.cell_id).text for cell in findings.cells} == {"not judged"}
    assert any(caution.kind == "order" for caution in findings.cautions)
    tips = [str(row["tip"]) for row in effects.CHARTS[0].rows(findings, runs).rows]
    assert len(tips) == 3
    assert all(tip.endswith("(not tested: run at another time)") for tip in tips)


def test_simulated_runs_cell_by_cell_are_judged_and_the_answer_says_what_their_order_does():
    experiment, plan = make_planned({FILES: [1, 4]}, repetitions=5, order="cell-by-cell")
    on_flash = {"drives": {"ssd": DriveConfig(profile="iodrive-320")}}
    cells = [cell.model_copy(update={"config": cell.config.model_copy(update=on_flash)}) for cell in plan.cells]
    plan = plan.model_copy(update={"cells": tuple(cells)})
    measured = make_runs(
        experiment, plan, elapsed=lambda levels, n: ten_seconds(levels, n) * (1 if levels[FILES] == 4 else 1.5)
    )
    runs = [
        run.model_copy(update={"measurement": run.measurement.model_copy(update={"provenance": "simulated"})})
        for run in measured
    ]
    findings = analyse(experiment, plan, runs)
    assert findings.verdict == "winner"
    assert opening(findings).doubt.startswith("Doubt: layouts ran in order")


def test_layouts_that_are_not_compared_are_named_in_the_evidence_and_in_their_rows():
    def runs_kept(run) -> bool:
        return not (run.levels[FILES] == 8 and run.repetition > 1)

    experiment, plan, runs = make_campaign(
        {FILES: [1, 4, 8]},
        repetitions=5,
        elapsed=lambda levels, n: ten_seconds(levels, n) * (1 if levels[FILES] == 4 else 2),
    )
    findings = analyse(experiment, plan, [run for run in runs if runs_kept(run)])
    (left,) = [line for line in sentences(findings) if line.startswith("Not compared: ")]
    assert left == (
        "Not compared: 8 data files (fewer than two rounds with the fastest). Without them, no winner can be named."
    )
    assert verdict_of(findings, "cell-003").text == "not judged"


def test_a_layout_that_is_not_judged_stands_below_those_that_are_and_has_no_ratio_to_the_fastest_of_them():
    """Its one run was the fastest of all, which shows nothing yet."""
    experiment, plan, runs = make_campaign(
        {FILES: [1, 4, 8]}, 5, elapsed=lambda levels, n: ten_seconds(levels, n) * {1: 2, 4: 1, 8: 0.8}[levels[FILES]]
    )
    findings = analyse(experiment, plan, [run for run in runs if run.levels[FILES] != 8 or run.repetition < 2])
    (ladder,) = opened(findings).ladders
    assert [(rung.name, ladder.ratio_text(rung)) for rung in ladder.rungs] == [
        (("4 files",), "1.00"), (("1 file",), "2.01"), (("8 files",), ""),
    ]  # fmt: skip


def test_bars_of_one_length_are_one_ratio_under_all_loads_unless_that_would_press_most_of_them_together():
    def scales(most: float) -> set[tuple[float, float]]:
        slower = {(4, 8): 1.5, (32, 8): most}
        of = analysed({CONNECTIONS: [4, 32], FILES: [1, 8]}, lambda at: slower.get((at[CONNECTIONS], at[FILES]), 1.0))
        return {ladder.ends for ladder in opened(of).ladders}

    assert [len(scales(most)) for most in (20.0, 400.0)] == [1, 2]


# --- At most so much slower, and the same within a margin ------------------------------------------------------------


def test_equal_steady_layouts_are_called_the_same_within_the_margin_of_the_spec():
    steady = {"elapsed": lambda levels, repetition: 10 * math.exp(0.001 * math.sin(7 * repetition + levels[FILES]))}
    experiment, plan = make_planned({FILES: [1, 4, 8]}, 8, indifferent="3%")
    findings = analyse(experiment, plan, make_runs(experiment, plan, **steady))
    (choice,) = answer(findings).choices
    assert choice.same
    assert choice.at_most_slower < 1.03
    assert "the same within 3 % (95 %)." in opening(findings).head[0]


def test_noisy_layouts_are_not_called_the_same_and_the_margin_that_holds_is_named():
    findings = analysed({FILES: [1, 4, 8]}, indifferent="0.5%")
    assert "not shown to be the same within 0.5 %: each is at most" in opening(findings).head[0]
