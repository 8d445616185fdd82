"""What a look at a race decides, and that all looks of all races together keep their error."""

import math

import numpy as np
import pytest

from bench.drawn_races import KINDS, NOISY, article, equal, race
from storagelab.findings import irregular, raced
from storagelab.findings.raced import Standing


def looked(log_s, *, within: float = 0.0, first_look: int = 3) -> Standing:
    """The standing after all rounds of `log_s`, in which nobody rests."""
    standing = Standing(tuple(range(len(log_s))))
    for rounds in range(1, log_s.shape[1] + 1):
        fit = irregular.fit(log_s[:, :rounds], [0] * len(log_s))
        standing = raced.look(standing, fit, within=within, first_look=first_look)
    return standing


def times(levels, rounds: int, noise: float = 0.01, seed: int = 1):
    return np.log(np.array(levels, dtype=float))[:, None] + np.random.default_rng(seed).normal(
        0, noise, (len(levels), rounds)
    )


@pytest.mark.parametrize("first", [2, 3])
def test_the_errors_of_all_looks_there_can_be_add_up_to_four_per_cent(first):
    assert sum(raced.error_of(look, first) for look in range(first, 100_000)) == pytest.approx(0.04, abs=1e-5)


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


def test_races_that_earlier_versions_began_look_after_two_rounds():
    log_s = times([1, 1.06, 2, 2.1, 2.2, 2.3], 5)
    assert {left.cell for left in looked(log_s[:, :2], first_look=2).left} == {2, 3, 4, 5}


def test_whoever_left_stays_away():
    log_s = times([1, 1, 3, 1], 4)
    log_s[2, 3] = math.log(0.01)  # a run that should not be there
    assert 2 not in looked(log_s).racing


def test_two_runs_that_happen_to_agree_are_no_reason_to_leave():
    log_s = times([1, 1, 1, 1.2], 2, noise=0.03)
    log_s[3] = math.log(1.2)
    assert 3 in looked(log_s, first_look=2).racing


def test_with_a_margin_the_race_ends_when_nobody_can_be_faster_by_more():
    log_s = times([1, 1, 1.0005, 1.5], 4, noise=0.002)
    without, with_margin = looked(log_s), looked(log_s, within=0.03)
    assert len(without.running) == 3
    assert len(with_margin.racing) == 3, "they may still be the fastest"
    assert with_margin.running == ()
    assert with_margin.at_most_slower <= 1.03


def test_a_layout_whose_runs_all_failed_is_not_waited_for():
    log_s = times([1, 1.01, 1], 3)
    log_s[1] = np.nan
    standing = looked(log_s)
    assert standing.silent == (1,)
    assert 1 not in standing.running


def test_a_race_in_which_every_run_failed_ends():
    assert looked(np.full((3, 3), np.nan)).running == ()


def test_two_layouts_need_more_than_two_rounds():
    assert len(looked(times([1, 2], 2)).racing) == 2
    assert len(looked(times([1, 2], 4)).racing) == 1


def test_a_race_with_a_clear_field_costs_at_most_three_quarters_of_the_runs():
    truth = article("random-inserts", own_noise=True)
    made = [race(truth, "normal", np.random.default_rng(seed)) for seed in range(3)]
    assert sum(one.runs for one in made) <= 0.75 * 3 * truth.full_runs
    assert all(truth.best in one.standing.racing for one in made)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layouts", [5, 16])
def test_at_most_one_race_in_twenty_loses_one_of_the_fastest(kind, layouts):
    """Of races with one noisy layout, one in 17, as of any verdict. `make bench ARGS="--only races"` draws 1,000 of
    each.
    """
    races = 250
    lost = sum(bool(race(equal(layouts), kind, np.random.default_rng(seed)).standing.left) for seed in range(races))
    most = 0.06 if "noisy" in kind else 0.05
    assert lost / races <= most + 2 * math.sqrt(most * (1 - most) / races)


def test_a_few_races_with_a_noisy_layout_lose_almost_none():
    lost = sum(bool(race(equal(5), NOISY, np.random.default_rng(seed)).standing.left) for seed in range(40))
    assert lost <= 7, "6 % of races: this many of 40 come about once in 500 times"
