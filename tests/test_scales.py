"""Who is ruled out in small worlds, and that their bias is allowed for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.drawn_races import article
from bench.drawn_scales import BIASES, small_race
from bench.races import apart
from storagelab.findings import scales

CELLS = tuple(range(30))
TRUE = np.array([0.02 * cell for cell in CELLS])
ERROR = 0.02


def sifted(bias, times=TRUE):
    small = {cell: float(TRUE[cell] + bias[cell]) for cell in CELLS}
    gauged = scales.gauges(CELLS, small, seed=1)
    waiting = [cell for cell in CELLS if cell not in gauged and cell > 2]
    return scales.sift(waiting, small, gauged, times, 0, ERROR)


def test_gauges_are_drawn_at_random_before_any_result_is_known():
    one = scales.gauges(CELLS, dict.fromkeys(CELLS, 1.0), seed=1)
    assert scales.gauges(CELLS, {cell: float(cell) for cell in CELLS}, seed=1) == one
    assert scales.gauges(CELLS, dict.fromkeys(CELLS, 1.0), seed=2) != one
    assert len(one) == scales.GAUGES


def test_few_layouts_have_no_gauges_as_nobody_would_be_left_to_judge():
    few = CELLS[: 2 * scales.GAUGES - 1]
    assert scales.gauges(few, dict.fromkeys(few, 1.0), seed=1) == ()


def test_leaders_are_the_fastest_there_and_whoever_has_no_time_there():
    small = {cell: float(cell) for cell in CELLS if cell != 20}
    assert scales.leaders(CELLS, small, (0, 2)) == (1, 3, 4, 20)


def test_a_bias_common_to_all_layouts_cancels():
    rng = np.random.default_rng(1)
    scatter = rng.normal(0, 0.005, len(CELLS))
    alone, shifted = sifted(scatter), sifted(scatter + 1.0)
    assert alone.left == shifted.left
    assert alone.left
    assert shifted.mean - alone.mean == pytest.approx(1.0)


def test_the_more_the_bias_scatters_the_fewer_are_ruled_out():
    scatter = np.random.default_rng(1).normal(0, 1, len(CELLS))
    left = [len(sifted(sd * scatter).left) for sd in (0.005, 0.03, 0.2)]
    assert left[0] > left[1] > left[2] == 0


def test_whoever_is_ruled_out_is_further_behind_than_the_limit():
    bias = np.random.default_rng(1).normal(0, 0.01, len(CELLS))
    found = sifted(bias)
    assert {cell for cell in CELLS if TRUE[cell] + bias[cell] - found.mean > found.limit} >= {*found.left}


def test_nobody_is_ruled_out_where_too_few_layouts_ran_at_both_scales():
    times = np.where(TRUE < 0.1, TRUE, math.nan)
    found = sifted(np.zeros(len(CELLS)), times)
    assert found.pairs < scales.PAIRS_LEAST
    assert (found.left, found.limit) == ((), None)


@pytest.mark.slow
@pytest.mark.parametrize("bias", [name for name in BIASES if not name.startswith("the fastest")])
def test_the_fastest_is_seldom_lost_whatever_the_bias(bias):
    truth = apart(0.01, 24)
    races = [small_race(truth, bias, number) for number in range(10)]
    assert sum(one.loses(truth) for one in races) <= 2  # of 5 % each, three or more in one of 80 such tests


@pytest.mark.slow
def test_small_worlds_save_runs_where_they_are_like_the_large_ones():
    truth = article("random-inserts", own_noise=True)
    races = [small_race(truth, "common, 30 %", number) for number in range(3)]
    assert all(len(one.left) > len(truth.levels) / 3 for one in races)
    assert all(one.runs < truth.full_runs / 2 for one in races)
