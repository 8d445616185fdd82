"""What a look at a race decides, and that all looks of all races together keep their error."""

import math

import numpy as np
import pytest

from bench import drawn
from storagelab.stats import race, stalls
from storagelab.stats.race import Standing

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
    assert with_margin.at_most_slower <= 1.03


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
