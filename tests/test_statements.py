"""The promise for a whole report, tried on drawn experiments. `make bench ARGS="--only statistics"` draws thousands."""

import numpy as np
import pytest
from builders import at_most

from bench import drawn
from storagelab.findings.statements import SHARES
from storagelab.stats.fit import mean_time

pytestmark = pytest.mark.slow

DRAWS = [(8, 5, 50), *(pytest.param(*each, marks=pytest.mark.campaign) for each in [(2, 5, 200), (5, 5, 80)])]


@pytest.mark.parametrize(("cells", "repetitions", "experiments"), DRAWS)
@pytest.mark.parametrize("kind", drawn.KINDS)
def test_where_nothing_differs_hardly_a_report_states_a_difference(kind, cells, repetitions, experiments):
    rate = 0.06 if kind.startswith("one cell") else 0.05
    false = sum(
        drawn.say(of, log_s).statements.name_a_difference
        for of, log_s in drawn.draw(kind, cells, repetitions, experiments)
    )
    assert false <= at_most(experiments, rate)


def test_the_shares_of_the_first_step_add_up_to_the_whole_error():
    assert sum(SHARES.values()) == pytest.approx(1)


def test_a_real_difference_is_stated_with_intervals_that_leave_none_out():
    rng, of = np.random.default_rng(60), drawn.design(8, 5)
    slow = [cell.levels[drawn.FILES] == 8 for cell in of.plan.cells]
    said = drawn.say(of, drawn.normal(of, rng) + 0.3 * np.array(slow)[:, None]).statements
    assert said.name_a_difference
    told = [row for row in (*said.judged.comparisons, *said.effects) if row.distinguishable]
    assert told
    assert all(row.ratio.low > 1 or row.ratio.high < 1 for row in told)


def test_where_nothing_is_stated_every_interval_reaches_as_far_as_no_difference():
    quiet = 0
    for of, log_s in drawn.draw("normal", 8, 5, 20):
        said = drawn.say(of, log_s).statements
        if not said.name_a_difference:
            quiet += 1
            rows = (*said.judged.comparisons, *said.effects, *said.speed_ups)
            assert all(row.ratio.low <= 1 <= row.ratio.high for row in rows)
    assert quiet > 10


@pytest.mark.parametrize("kind", ["normal", "skewed (lognormal)", "5 % of runs 30 % too long"])
def test_intervals_of_means_hold_the_truth_and_so_does_that_of_the_cell_picked_as_the_fastest(kind):
    held = of_fastest = 0
    for of, log_s in drawn.draw(kind, 8, 5, 60):
        said = drawn.say(of, log_s)
        for cell in range(8):
            mean = mean_time(said.fitted, cell, 8 if cell == said.fastest else 1)
            inside = mean.low <= 1 <= mean.high
            held += inside
            of_fastest += inside and cell == said.fastest
    assert held >= 0.90 * 60 * 8
    assert of_fastest >= 60 - at_most(60, 0.07)
