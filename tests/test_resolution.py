"""A time's error is at least a tick of the clock, and a difference that doesn't matter makes no winner."""

import math

import numpy as np
import pytest
from builders import make_experiment, make_plan, make_runs

from storagelab.findings.analysis import analyse
from storagelab.findings.basis import grain_of, tick_of
from storagelab.findings.model import Findings

FILES = "layout.data_files"


def analysed(times_s: dict[int, float], noise: float = 0.0, **fields) -> Findings:
    """Five runs of each number of data files, in its time."""
    experiment = make_experiment({FILES: list(times_s)}, 5, **fields)
    plan, rng = make_plan(experiment), np.random.default_rng(80)

    def elapsed(levels, _):
        return times_s[levels[FILES]] * math.exp(rng.normal(0, noise))

    return analyse(experiment, plan, make_runs(experiment, plan, elapsed=elapsed))


def test_the_tick_shows_where_equal_times_are_multiples_of_one_step():
    assert tick_of([1.01, 1.02, 1.01, 1.02, 1.02]) == pytest.approx(0.01 / 1.01)
    assert tick_of([2.00, 2.03, 2.02, 2.00, 2.03, 2.02]) == pytest.approx(0.01 / 2)
    assert tick_of([1.01, 1.03, 1.01, 1.03]) == pytest.approx(0.01 / 1.01)


def test_times_that_differ_or_agree_without_a_step_show_no_tick():
    assert tick_of(list(np.random.default_rng(81).uniform(1, 2, 50))) == 0
    assert tick_of([1.2345678, 1.2345678, 1.9271041, 1.9271041]) == 0
    assert tick_of([3.0] * 8) == 0
    assert tick_of([]) == 0


def test_a_run_that_does_forty_transactions_is_known_to_a_fortieth():
    assert grain_of([40, 50]) == 1 / 40
    assert grain_of([0]) == grain_of([]) == 0


def test_layouts_that_are_one_tick_apart_have_no_winner_and_an_interval_of_a_tick():
    findings = analysed({1: 1.00, 4: 1.01})
    assert findings.verdict == "indistinguishable"
    (row,) = findings.comparisons
    assert row.ratio.low == pytest.approx(1, abs=1e-4)
    assert row.ratio.high == pytest.approx(1.02, abs=1e-3)
    assert findings.at_most_slower == pytest.approx(1, abs=0.001)
    assert row.at_most_slower == pytest.approx(1.02, abs=0.001)


def test_layouts_that_are_many_ticks_apart_have_a_winner():
    assert analysed({1: 1.00, 4: 1.01, 8: 1.10}).not_compared == ()
    findings = analysed({1: 1.00, 4: 1.10, 8: 1.11})
    assert (findings.verdict, findings.fastest) == ("winner", "cell-001")


def test_a_difference_below_half_a_percent_makes_no_winner_however_sure_it_is():
    small, larger = analysed({1: 10.0, 4: 10.03}, noise=1e-4), analysed({1: 10.0, 4: 10.08}, noise=1e-4)
    assert (small.verdict, larger.verdict) == ("indistinguishable", "winner")
    assert small.comparisons[0].tested
    assert small.at_most_slower < 1.005
    assert not any(effect.distinguishable for effect in small.effects)
    assert all(effect.distinguishable for effect in larger.effects)


def test_what_the_spec_is_indifferent_to_makes_no_winner_either():
    times_s = {1: 10.0, 4: 10.2}
    assert analysed(times_s, noise=1e-3).verdict == "winner"
    assert analysed(times_s, noise=1e-3, indifferent="3%").verdict == "indistinguishable"
    assert analysed(times_s, noise=1e-3, indifferent="1%").verdict == "winner"
