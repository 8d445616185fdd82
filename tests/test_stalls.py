"""Odd runs: found where they are and hardly anywhere else, counted in their own cells, and bounded where unseen."""

import math

import numpy as np
import pytest
from builders import at_most
from scipy import stats as scipy_stats

from storagelab.stats import stalls

NOISE = 0.03


def drawn_noise(cells, repetitions, rng):
    return rng.normal(0, NOISE, (cells, repetitions))


def noise_and_effects(cells, repetitions, rng):
    return drawn_noise(cells, repetitions, rng) + rng.normal(0, 0.2, repetitions)


def test_clean_experiments_have_hardly_an_outlier():
    rng = np.random.default_rng(40)
    accused = sum(bool(stalls.outliers(drawn_noise(8, 5, rng) * 3)) for _ in range(400))
    assert accused <= at_most(400, 0.05)


def test_a_run_that_took_half_as_long_again_is_found_and_no_other():
    rng = np.random.default_rng(41)
    log_s = noise_and_effects(6, 5, rng)
    log_s[4, 3] += math.log(1.5)
    (outlier,) = stalls.outliers(log_s)
    assert (outlier.cell, outlier.round) == (4, 3)
    assert outlier.ratio == pytest.approx(1.5, rel=0.1)
    assert outlier.deviation > stalls.OUTLIER_DEVIATION


def test_a_lone_odd_run_of_a_steady_cell_is_rare_and_those_of_a_noisy_cell_are_not():
    rng = np.random.default_rng(45)
    log_s = drawn_noise(8, 5, rng)
    log_s[2, 1] += math.log(1.5)
    log_s[5] *= 12
    told = {(run.cell, run.round): run.rare for run in stalls.outliers(log_s)}
    assert told[2, 1]
    assert not any(rare for (cell, _), rare in told.items() if cell == 5)
    left = stalls.without(log_s, [run for run in stalls.outliers(log_s) if run.rare])
    assert np.isnan(left).sum() == 1
    assert np.isnan(left[2, 1])


def test_two_of_ten_runs_that_stall_are_rare_and_two_of_five_are_what_the_cell_does():
    rng = np.random.default_rng(49)
    ten, five = drawn_noise(4, 10, rng) / 3, drawn_noise(6, 5, rng) / 3
    for log_s in (ten, five):
        log_s[1, [1, 3]] += math.log(1.5)
    assert [(run.cell, run.rare) for run in stalls.outliers(ten)] == [(1, True), (1, True)]
    assert [(run.cell, run.rare) for run in stalls.outliers(five)] == [(1, False), (1, False)]


def test_a_rare_odd_run_counts_in_its_own_cell_and_changes_nothing_that_is_said_of_others():
    rng = np.random.default_rng(50)
    calm = drawn_noise(8, 5, rng) / 3
    log_s = calm.copy()
    log_s[2, 1] += math.log(1.5)
    fitted = stalls.fit(log_s)
    without = stalls.fit(stalls.without(log_s, stalls.outliers(log_s)))
    others = np.arange(8) != 2
    for name in ("log_s", "own", "variance"):
        assert getattr(fitted.every, name)[others] == pytest.approx(getattr(without.every, name)[others])
    assert fitted.cells[2] == pytest.approx(without.cells[2] + math.log(1.5) / 5, abs=0.02)
    assert fitted.every.own[2] > 10 * without.every.own[2]


@pytest.mark.parametrize("runs", [1, 5, 10, 60])
def test_of_runs_without_a_stall_one_minus_the_root_of_a_twentieth_may_stall(runs):
    assert stalls.share_most(runs) == pytest.approx(1 - 0.05 ** (1 / runs))


def test_the_more_runs_stalled_the_more_may():
    assert stalls.share_most(5, 1) == pytest.approx(
        scipy_stats.binomtest(1, 5, alternative="less").proportion_ci().high
    )
    assert stalls.share_most(5) < stalls.share_most(5, 1) < stalls.share_most(5, 4) < stalls.share_most(5, 5) == 1
