"""A race for a good layout: who runs again, what it promises, and what its findings say."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from builders import make_experiment
from simulated_specs import ONE_BLOCK, SMALL
from test_raced import FILES, SLOW, order, raced

from bench.drawn_races import Rules, Truth, race
from storagelab.findings import halving, stats
from storagelab.findings.analysis import analyse
from storagelab.findings.halving import Halving
from storagelab.findings.kinds.good import GoodLayout
from storagelab.model.plan import Experiment, Race
from storagelab.report.words.answer import answer_lines
from storagelab.report.words.race import race_text
from storagelab.report.words.sentences import sentences
from storagelab.run.race import Racing, plan_of

SIXTEEN = Truth(np.log1p(np.arange(16) * 0.05), np.full(16, 0.01))


def experiment(within: float = 0.03, **fields) -> Experiment:
    return make_experiment({FILES: list(SLOW)}, race=Race(within=within, goal="good"), **fields)


def after(rounds: list[dict[int, float]], within: float = 0.03, repetitions: int = 5) -> Halving:
    """The standing after these rounds: cell -> time."""
    cells = 1 + max(rounds[0])
    standing, log_s = Halving(tuple(range(cells))), np.full((cells, len(rounds)), np.nan)
    for number, times in enumerate(rounds):
        for cell, time in times.items():
            log_s[cell, number] = math.log(time)
        standing = halving.look(standing, stats.fit(log_s[:, : number + 1]), 1, within, repetitions)
    return standing


def test_each_round_repeats_half_as_many_and_a_budget_begins_anew():
    assert [halving.size_of(number, 16, 5) for number in range(1, 8)] == [16, 8, 4, 2, 2, 16, 8]
    assert halving.runs_of(16, 5) == (24, 32)
    assert halving.runs_of(2, 3) == (4, 6)
    assert halving.runs_of(1, 3) == (3, 3)


def test_the_faster_half_runs_again():
    assert set(after([{0: 1.0, 1: 1.1, 2: 1.2, 3: 1.3}]).running) == {0, 1}


def test_a_layout_that_paused_comes_back_while_it_may_be_the_fastest():
    standing = after([{0: 1.0, 1: 1.05, 2: 1.06, 3: 3.0}, {0: 1.08, 1: 1.0}], repetitions=6)
    assert 3 not in standing.running
    assert len(standing.running) == 2
    again = after([{0: 1.0, 1: 1.001, 2: 1.002, 3: 3.0}, {0: 1.0, 1: 1.2}], repetitions=6)
    assert set(again.running) == {0, 2}


def test_the_race_ends_once_none_can_be_faster_by_more_than_the_margin():
    rounds = [{0: 1.0, 1: 1.5, 2: 2.0, 3: 3.0}, {0: 1.001, 1: 1.5}]
    assert after(rounds).running == ()
    assert after(rounds).at_most_slower == pytest.approx(1.0)


def test_before_layouts_are_repeated_no_bound_is_known():
    assert after([{0: 1.0, 1: 1.1}]).at_most_slower is None


def test_a_layout_without_a_time_does_not_run_again():
    assert 1 not in after([{0: 1.0, 1: math.nan, 2: 1.1, 3: 1.2}]).racing


def test_at_most_one_race_in_twenty_names_a_layout_that_is_slower_than_its_bound():
    made = [race(SIXTEEN, "normal", np.random.default_rng(seed), Rules(goal="good", within=0.03)) for seed in range(60)]
    wrong = sum(SIXTEEN.levels[one.standing.racing[0]] > math.log(one.standing.at_most_slower) for one in made)
    assert wrong <= 9, "5 % of races: more come about once in 1,000 times"
    assert sum(one.runs for one in made) <= 0.4 * 60 * SIXTEEN.full_runs


@pytest.mark.parametrize("stop_after", [1, 6, 8, 9, 10])
def test_an_interrupted_race_goes_on_as_if_it_had_not_been(stop_after):
    _, straight = raced(experiment())
    _, resumed = raced(experiment(), straight[:stop_after])
    assert order(resumed) == order(straight)


def test_its_runs_and_its_end_are_told():
    of, runs = raced(experiment())
    assert len(Racing(experiment(), []).state.possible) == 6 + 3 + 2 + 2 + 2
    assert 9 <= len(runs) < 15
    text = race_text(of.state)
    assert re.fullmatch(r"after round \d, the layout in front is at most [\d.]+ % slower .*; the race is over", text)
    begun = Racing(experiment(), runs[:6])
    assert race_text(begun.state).endswith("the layout in front may be much slower than the fastest; 3 run again")


def test_the_answer_names_a_good_layout_and_its_bound_and_not_the_fastest():
    spec = experiment()
    _, runs = raced(spec)
    findings = analyse(spec, plan_of(spec, runs), runs)
    (good,) = GoodLayout.of(findings)
    assert findings.cell(good.cell_id).levels[FILES] in (1, 2)
    assert (good.reached, good.over) == (True, True)
    use = next(line.text for line in answer_lines(findings) if line.about == "use")
    assert re.search(r", a good layout: at most [\d.]+ % slower than the fastest \(95 %\)\.$", use)
    told = " ".join(sentences(findings))
    assert "This was a race for a good layout: it made" in told
    assert "fastest:" not in told.lower()


def test_a_margin_that_was_not_reached_is_told_with_what_helps():
    spec = experiment(within=0.002)
    _, runs = raced(spec)
    findings = analyse(spec, plan_of(spec, runs), runs)
    (good,) = GoodLayout.of(findings)
    assert (good.reached, good.over) == (False, True)
    assert "was asked." in " ".join(line.text for line in answer_lines(findings))
    assert "--find-good --within 0.2% --budget 2h" in " ".join(sentences(findings))


def test_each_load_has_a_good_layout_of_its_own():
    spec = make_experiment({"workload.connections": [4, 16], FILES: list(SLOW)}, race=Race(within=0.03, goal="good"))
    _, runs = raced(spec)
    findings = analyse(spec, plan_of(spec, runs), runs)
    assert [one.load["workload.connections"] for one in GoodLayout.of(findings)] == [4, 16]
    lines = [line.text for line in answer_lines(findings) if line.about == "use"]
    assert [line.split(":")[0] for line in lines[:2]] == ["With 4 connections", "With 16 connections"]


def test_a_budget_goes_on_after_the_halving():
    spec = experiment(within=0.002)
    _, halved = raced(spec)
    _, longer = raced(spec, halved, budget_s=20 * len(halved) + 20 * 7.0)
    assert order(longer)[: len(halved)] == order(halved)
    assert len(longer) > len(halved)


def test_a_race_of_which_one_round_is_made_names_no_layout():
    spec = experiment()
    _, runs = raced(spec)
    findings = analyse(spec, plan_of(spec, runs[:6]), runs[:6])
    assert GoodLayout.of(findings) == ()
    assert findings.verdict == "too-few-runs"


def test_a_plan_says_how_many_runs_a_good_layout_takes(typed, home):
    spec = home / "small.toml"
    text = SMALL.replace(*ONE_BLOCK).replace("[1, 4]", "[1, 2, 4, 8]").replace("repetitions = 2", "repetitions = 4")
    spec.write_text(text.replace('order = "cell-by-cell"', 'order = "randomised"'))
    code, out, err = typed("plan", spec, "--find-good")
    assert code == 0, err
    assert "a race for a good layout takes 6 to 10 of them, at most 62 %" in " ".join(out.split())
