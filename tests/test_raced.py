"""The layouts that run next in a race, after any earlier runs, and the findings of a race."""

import math
import random

import numpy as np
import pytest
from builders import make_experiment, make_measurement, make_run

from bench import drawn
from storagelab.errors import SpecError
from storagelab.findings.analysis import analyse
from storagelab.findings.kinds.race import RaceSummary
from storagelab.findings.times import timed
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, PlannedRun, Race
from storagelab.report.charts.effects import UNDECIDED, effect_table, of_choices
from storagelab.report.words.answer import opening
from storagelab.report.words.sentences import sentences
from storagelab.run.stored import Racing, plan_of
from storagelab.stats import race, stalls
from storagelab.stats.race import Standing
from storagelab.verbs._running import race_text

FILES = "layout.data_files"
SLOW = {1: 1.0, 2: 1.001, 4: 1.5, 8: 2.0, 16: 2.5, 32: 3.0}


def experiment(**fields) -> Experiment:
    return make_experiment({FILES: list(SLOW)}, race=Race(), **fields)


def elapsed_s(levels, repetition: int) -> float:
    noise = random.Random(f"{levels}{repetition}").gauss(0, 0.005)
    return 10 * SLOW[levels[FILES]] * (1 + noise)


def made(of: Racing, planned: PlannedRun, reason: str = "") -> Run:
    cell = of.state.plan.cell(planned.cell_id)
    measured = None if reason else make_measurement(cell.config, elapsed_s(cell.levels, planned.repetition), None, None)
    return make_run(planned, cell, measured, reason)


def raced(
    spec: Experiment, runs: list[Run] | None = None, *, budget_s: float | None = None
) -> tuple[Racing, list[Run]]:
    """The race, to its end."""
    runs = list(runs or [])
    of = Racing(spec, runs, budget_s)
    while of.state.possible:
        stored = {(run.cell_id, run.repetition) for run in runs}
        for planned in of.state.plan.runs:
            if (planned.cell_id, planned.repetition) not in stored:
                runs.append(made(of, planned))
                of.note_finished(runs[-1])
        of.further()
    return of, runs


def order(runs: list[Run]) -> list[tuple[int, str, int]]:
    return [(run.sequence, run.cell_id, run.repetition) for run in runs]


def test_slow_layouts_are_repeated_three_times_and_the_fastest_as_often_as_the_spec_says():
    of, runs = raced(experiment())
    repeated = {cell.levels[FILES]: sum(run.cell_id == cell.cell_id for run in runs) for cell in of.state.plan.cells}
    assert repeated == {1: 5, 2: 5, 4: 3, 8: 3, 16: 3, 32: 3}
    assert [run.sequence for run in runs] == list(range(len(runs)))


@pytest.mark.parametrize("stop_after", [1, 6, 11, 12, 13, 15])
def test_an_interrupted_race_goes_on_as_if_it_had_not_been(stop_after):
    _, straight = raced(experiment())
    _, resumed = raced(experiment(), straight[:stop_after])
    assert order(resumed) == order(straight)


def test_a_budget_repeats_those_in_the_race_until_it_is_spent():
    of, runs = raced(experiment(), budget_s=30 * 20.0)  # every fabricated run takes 20 s of it
    assert len(runs) in (29, 30)
    assert max(run.repetition for run in runs) > 5
    assert of.state.short or not of.state.groups[0].standing.running


def test_a_budget_is_time_on_the_clock_however_many_runs_are_made_at_once():
    def side_by_side(run: Run) -> Run:
        hour, minute = divmod(run.sequence // 2, 60)
        return run.model_copy(update={"started_at": f"2026-01-01T{hour:02d}:{minute:02d}:00+00:00"})

    _, alone = raced(experiment(), budget_s=20 * 20.0)
    two = Racing(experiment(), [], 20 * 20.0)
    runs: list[Run] = []
    while two.state.possible:
        for planned in two.state.plan.runs[len(runs) :]:
            runs.append(side_by_side(made(two, planned)))
            two.note_finished(runs[-1])
        two.further()
    assert abs(len(runs) - 2 * len(alone)) <= 3


def test_a_budget_may_be_raised_later():
    _, runs = raced(experiment(), budget_s=13 * 20.0)
    _, further = raced(experiment(), runs, budget_s=20 * 20.0)
    assert order(further)[: len(runs)] == order(runs)
    assert len(further) > len(runs)


def test_the_first_round_is_made_however_small_the_budget():
    _, runs = raced(experiment(), budget_s=1.0)
    assert len(runs) == len(SLOW)


def test_blocks_of_a_real_server_race_one_after_the_other():
    spec = make_experiment({"layout.log": ["a", "b"], FILES: [1, 2, 4, 8]}, race=Race(), costly=("layout.log",))
    of, runs = raced(spec)
    blocks = [run.block for run in runs]
    assert blocks == sorted(blocks)
    assert [len(group.cells) for group in of.state.groups] == [4, 4]
    assert all(len(group.standing.racing) < 4 for group in of.state.groups)


def test_each_load_has_a_race_of_its_own():
    spec = make_experiment({"workload.connections": [4, 16], FILES: list(SLOW)}, race=Race())
    of, _ = raced(spec)
    assert [len(group.cells) for group in of.state.groups] == [6, 6]
    assert all(len(group.standing.left) == 4 for group in of.state.groups)


def test_measured_layouts_in_the_same_order_in_every_round_can_not_be_raced():
    with pytest.raises(SpecError, match="the same order in every round are not judged"):
        Racing(experiment(order="as-listed"), [])


def test_a_stored_race_in_the_same_order_in_every_round_is_shown_and_not_judged():
    """Earlier versions made such races."""
    _, runs = raced(experiment())
    spec = experiment(order="as-listed")
    findings = analyse(spec, plan_of(spec, runs), runs)
    assert findings.verdict == "untested"
    assert list(RaceSummary.of(findings)) == []


def test_layouts_in_stretches_of_time_can_not_be_raced():
    with pytest.raises(SpecError, match=r"order: can't be raced.*\n  Set order = "):
        Racing(experiment(order="cell-by-cell"), [])


def test_findings_are_those_of_the_race():
    spec = experiment()
    _, runs = raced(spec)
    plan = plan_of(spec, runs)
    assert len(plan.runs) == len(runs)
    findings = analyse(spec, plan, runs)
    levels = {cell.cell_id: cell.levels[FILES] for cell in findings.cells}
    assert {levels[cell] for cell in findings.best} == {1, 2}
    assert {levels[row.cell_id] for row in findings.comparisons if row.distinguishable} == {4, 8, 16, 32}
    (race,) = RaceSummary.of(findings)
    assert {one.after_round for one in race.left} == {3}
    assert {levels[cell] for cell in race.open} == {1, 2}
    told = " ".join(RaceSummary.sentences(findings))
    assert "22 runs instead of 30" in told
    assert "4 layouts left because they are surely slower: 4 after round 3" in told
    assert "2 layouts may still be the fastest" in told
    for within, given in {0.0: "", 0.025: " --within 2.5%"}.items():
        margin = findings.model_copy(update={"found": {"race": (race.model_copy(update={"within": within}),)}})
        assert (
            f"Next: repeat the layouts that are left: storagelab run SPEC --find-best{given} --budget"
            in opening(margin).next
        )


def test_a_race_tells_what_runs_leave_behind_and_is_not_corrected_for_it():
    spec = make_experiment({FILES: list(SLOW)}, race=Race())
    of = Racing(spec, [])
    runs: list[Run] = []
    while of.state.possible:
        for planned in of.state.plan.runs[len(runs) :]:
            cell = of.state.plan.cell(planned.cell_id)
            longer = 1.2 if runs and runs[-1].cell_id == of.state.plan.cells[0].cell_id else 1.0
            time_s = longer * (10 + random.Random(planned.seed).gauss(0, 0.05))
            runs.append(make_run(planned, cell, make_measurement(cell.config, time_s, None, None)))
            of.note_finished(runs[-1])
        of.further()
    findings = analyse(spec, of.state.plan, runs)
    (told,) = (one for one in findings.cautions if one.kind == "carry-over")
    assert (told.levels, told.corrected) == ({FILES: 1}, False)
    assert told.change == pytest.approx(0.2, abs=0.05)
    assert findings.verdict == "indistinguishable"


def test_a_round_is_told_in_a_line():
    of, runs = raced(experiment())
    assert race_text(of.state) == "after round 5, 2 of 6 layouts may still be the fastest; no more rounds"
    begun = Racing(experiment(), runs[:18])
    assert race_text(begun.state) == "after round 3, 2 of 6 layouts may still be the fastest; all of them run again"
    assert timed(runs[0]).wall_s == 20.0


def test_the_evidence_of_a_race_calls_nothing_equal_that_the_ladder_calls_slower():
    spec = make_experiment({FILES: list(SLOW), "layout.log": ["a", "b"]}, race=Race())
    _, runs = raced(spec)
    findings = analyse(spec, plan_of(spec, runs), runs)
    assert any(not one.distinguishable for one in findings.effects)
    told = " ".join(sentences(findings))
    assert "told apart from" not in told
    assert "so the ladder may show more differences" in told
    assert all(row[-1] != UNDECIDED for row in effect_table(of_choices(findings, findings.effects, at=False)).rows)
    assert "3 to 5 runs each" in opening(findings).doubt


# --- what a look at a race decides ------------------------------------------------------------------------------------


PLANNED = 5


def looked(log_s, within: float = 0.0) -> Standing:
    """The standing after all rounds of `log_s`, of five planned, in which nobody rests."""
    standing = Standing(tuple(range(len(log_s))))
    for rounds in range(1, log_s.shape[1] + 1):
        standing = race.look(standing, stalls.fit(log_s[:, :rounds]), rounds, PLANNED, within=within)
    return standing


def times(levels, rounds: int, noise: float = 0.01, seed: int = 1):
    return np.log(np.array(levels, dtype=float))[:, None] + np.random.default_rng(seed).normal(
        0, noise, (len(levels), rounds)
    )


@pytest.mark.parametrize("planned", [1, 3, 5, 20])
def test_the_errors_of_all_looks_there_can_be_add_up_to_four_per_cent(planned):
    errors = [race.error_of(look, planned, look - 1) for look in range(race.LOOK_FROM, 100_000)]
    assert sum(errors) == pytest.approx(0.04, abs=1e-5)
    assert sum(errors[: max(planned, 3) - 2]) == pytest.approx(0.036), "what the planned rounds spend"
    assert max(errors) == errors[max(planned, 3) - 3], "most is spent at the last planned round"


def test_nobody_leaves_before_the_third_round():
    assert looked(times([1, 100, 1], 2)).racing == (0, 1, 2)


def test_a_layout_that_is_much_slower_leaves_after_three_rounds_and_a_little_slower_one_later():
    log_s = times([1, 1.03, 2, 2.1, 2.2, 2.3], 5)
    assert {left.cell for left in looked(log_s[:, :3]).left} == {2, 3, 4, 5}
    assert [(left.cell, left.after > 3, left.leader) for left in looked(log_s).left if left.cell == 1] == [(1, True, 0)]
    assert looked(log_s).running == ()


def test_a_layout_that_is_slow_in_its_first_two_runs_only_stays():
    log_s = times([1, 1.05, 1.1, 1.15, 1.2, 1.25], 5)
    log_s[0, :2] += math.log(1.7)
    assert 0 in looked(log_s).racing


def test_whoever_left_stays_away():
    log_s = times([1, 1, 3, 1], 4)
    log_s[2, 3] = math.log(0.01)  # a run that should not be there
    assert 2 not in looked(log_s).racing


def test_with_a_margin_the_race_ends_when_nobody_can_be_faster_by_more():
    log_s = times([1, 1, 1.0005, 1.5], 4, noise=0.002)
    without, with_margin = looked(log_s), looked(log_s, within=0.03)
    assert len(without.running) == 3
    assert len(with_margin.racing) == 3, "they may still be the fastest"
    assert with_margin.running == ()
    first, *rest = map(with_margin.at_most_slower, with_margin.racing)
    assert 1 <= first <= 1.03
    assert all(1 < bound < 1.06 for bound in rest), "as the intervals of the ladder say"


def test_a_layout_whose_runs_all_failed_is_not_waited_for():
    log_s = times([1, 1.01, 1], 3)
    log_s[1] = np.nan
    standing = looked(log_s)
    assert standing.silent == (1,)
    assert 1 not in standing.running


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in drawn.KINDS if kind != "drift"])
@pytest.mark.parametrize(
    ("layouts", "races"), [(5, 40), *(pytest.param(many, 250, marks=pytest.mark.campaign) for many in (5, 16))]
)
def test_at_most_one_race_in_twenty_loses_one_of_the_fastest(kind, layouts, races):
    """Of races with one noisy layout, one in 17, as of any verdict. `make bench ARGS="--only races"` draws more."""
    lost = sum(bool(looked(log_s).left) for _, log_s in drawn.draw(kind, layouts, PLANNED, races))
    rate = 0.06 if "one cell" in kind else 0.05
    assert lost <= rate * races + 3 * math.sqrt(rate * (1 - rate) * races)
