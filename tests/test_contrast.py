"""The statements about differences: how often they are false or missed, and how often intervals contain the true value.
All samples are drawn with fixed seeds; docs/records/monte-carlo.md has more.
"""

import math

import numpy as np
import pytest
from builders import at_most
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from storagelab.model.values import Estimate
from storagelab.stats.contrast import Difference, at_most_slower, compare_with_best, contrasts, may_be_fastest, named
from storagelab.stats.fit import fit

pytestmark = pytest.mark.slow

KINDS = ["normal", "lognormal", "outliers", "drift", "one noisy", "half noisy"]
NOISE = 0.03
"""Run-to-run sd of log elapsed: 3 %."""


def simulated(kind: str, cells: int, repetitions: int, rng: np.random.Generator) -> np.ndarray:
    """Log elapsed of one experiment in which no cell differs from another in its mean."""
    shape = (cells, repetitions)
    normal = rng.normal(0, NOISE, shape)
    if kind == "normal":
        return normal
    if kind == "lognormal":
        # Seconds, not their logarithm, are skewed: 10 s and a little more, at times much more.
        return np.log(10 + rng.lognormal(0, 1, shape))
    if kind == "outliers":
        hiccup = (rng.random(shape) < 0.05) * rng.exponential(0.5, shape)
        return NOISE * rng.standard_t(3, shape) + hiccup
    if kind == "drift":
        return normal + 0.3 * np.arange(repetitions) / repetitions + rng.normal(0, 0.2, repetitions)
    noisier = np.ones(cells)
    noisier[: 1 if kind == "one noisy" else cells // 2] = 5
    return normal * noisier[:, None]


def losers(log_s: np.ndarray) -> list[int]:
    """The cells that are declared slower than the best."""
    fitted = fit(log_s)
    return [cell for cell, one in compare_with_best(fitted, fitted.fastest()).items() if one.slower]


def false_verdicts(kind: str, cells: int, repetitions: int, experiments: int) -> int:
    rng = np.random.default_rng([cells, repetitions, KINDS.index(kind)])
    return sum(bool(losers(simulated(kind, cells, repetitions, rng))) for _ in range(experiments))


# --- The best set ----------------------------------------------------------------------------------------------------

DESIGNS = [
    pytest.param(2, 5, 600, marks=pytest.mark.campaign), (4, 3, 600), (8, 5, 400),
    *(pytest.param(*each, marks=pytest.mark.campaign) for each in [(8, 3, 400), (16, 4, 200), (64, 3, 60)]),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "repetitions", "experiments"), DESIGNS)
@pytest.mark.parametrize("kind", KINDS[:4])
def test_an_experiment_without_a_difference_names_no_loser(kind, cells, repetitions, experiments):
    assert false_verdicts(kind, cells, repetitions, experiments) <= at_most(experiments, 0.05)


def test_a_real_difference_of_20_percent_is_found_nearly_always():
    rng = np.random.default_rng(20)
    slower = [1, 3, 4, 6]
    found = wrong = 0
    for _ in range(200):
        log_s = simulated("drift", 8, 5, rng)
        log_s[slower] += math.log(1.2)
        named = losers(log_s)
        found += len(set(named) & set(slower))
        wrong += bool(set(named) - set(slower))
    assert found >= 0.99 * 200 * len(slower)
    assert wrong <= at_most(200, 0.05)


def test_simultaneous_intervals_hold_all_true_ratios_in_95_of_100_experiments():
    rng = np.random.default_rng(23)
    true = np.log(np.linspace(1, 1.5, 6))
    missed = 0
    for _ in range(400):
        fitted = fit(simulated("drift", 6, 4, rng) + true[:, None])
        best = fitted.fastest()
        missed += any(
            not one.ratio.low <= math.exp(true[cell] - true[best]) <= one.ratio.high
            for cell, one in compare_with_best(fitted, best).items()
        )
    assert missed <= at_most(400, 0.05)


matrices = st.tuples(st.integers(2, 9), st.integers(2, 7), st.integers(0, 2**32 - 1), st.floats(0, 0.3))


@given(matrices, st.floats(0.01, 100))
def test_neither_the_unit_of_time_nor_a_slow_round_changes_a_verdict(drawn, unit):
    cells, repetitions, seed, step = drawn
    rng = np.random.default_rng(seed)
    log_s = simulated("normal", cells, repetitions, rng) + step * np.arange(cells)[:, None]
    moved = log_s + math.log(unit) + rng.normal(0, 1, repetitions)
    one, other = fit(log_s), fit(moved)
    best = one.fastest()
    assert best == other.fastest()
    assert may_be_fastest(one, range(cells)) == may_be_fastest(other, range(cells))
    after = compare_with_best(other, best)
    for cell, before in compare_with_best(one, best).items():
        assert before.ratio.low <= before.ratio.value <= before.ratio.high
        for end in ("value", "low", "high"):
            assert getattr(after[cell].ratio, end) == pytest.approx(getattr(before.ratio, end), rel=1e-6)


@given(matrices)
def test_a_missing_run_biases_no_cell(drawn):
    cells, repetitions, seed, _ = drawn
    rng = np.random.default_rng(seed)
    level = rng.normal(2, 1, cells)
    log_s = level[:, None] + rng.normal(0, 1, repetitions + 1)
    log_s[rng.integers(cells), rng.integers(repetitions + 1)] = np.nan
    for cell, one in compare_with_best(fit(log_s), 0).items():
        assert math.log(one.ratio.value) == pytest.approx(level[cell] - level[0], abs=1e-6)


def test_with_two_cells_the_interval_is_that_of_the_paired_t_test():
    log_s = np.array([[2.0, 2.3, 2.2, 2.6, 2.1], [2.1, 2.35, 2.4, 2.65, 2.25]])
    ratio = compare_with_best(fit(log_s), 0)[1].ratio
    expected = scipy_stats.ttest_rel(log_s[1], log_s[0]).confidence_interval()
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx(tuple(np.exp([0.11, *expected])))


def test_one_round_allows_no_test_and_no_interval():
    found = compare_with_best(fit(np.array([[2.0], [9.0], [3.0]])), 0)
    assert {(one.tested, one.ratio.low, one.ratio.high, one.slower) for one in found.values()} == {
        (False, None, None, False)
    }


def test_a_single_lucky_run_is_not_tested():
    found = compare_with_best(fit(np.array([[1.0, np.nan, np.nan], [2.0, 2.01, 2.02], [3.0, 3.02, 3.01]])), 1)
    assert [(cell, one.tested, one.slower) for cell, one in found.items()] == [(0, False, False), (2, True, True)]


def test_cells_without_a_round_in_common_are_compared_only_if_others_tell_of_their_rounds():
    log_s = np.array([[1.0, 1.01, np.nan, np.nan], [np.nan, np.nan, 1.5, 1.51]])
    assert not compare_with_best(fit(log_s), 0)[1].tested
    with_others = np.vstack([log_s, [[2.0, 2.01, 2.3, 2.31], [3.01, 3.0, 3.31, 3.3]]])
    (through_others,) = contrasts(fit(with_others), np.array([[1, 0]]), np.array([[1.0, -1.0]]), named(1))
    assert through_others.tested
    assert math.log(through_others.ratio.value) == pytest.approx(0.2, abs=0.01)
    assert compare_with_best(fit(np.array([[1.0, 1.1], [np.nan, np.nan]])), 0) == {}


def test_equal_times_to_the_last_digit_are_no_difference_and_one_without_noise_is():
    assert losers(np.full((4, 5), 2.0)) == []
    assert losers(np.array([[2.0] * 3, [2.0] * 3, [2.1] * 3])) == [2]


def test_a_difference_within_the_margin_is_not_distinguishable():
    ratio = Estimate(value=1.02, low=1.01, high=1.03)
    assert Difference(ratio, tested=True, margin=math.log(1.01)).slower
    assert not Difference(ratio, tested=True, margin=math.log(1.03)).slower


# --- The cells that may be the fastest --------------------------------------------------------------------------------


def test_cells_that_may_be_the_fastest_are_those_whose_one_sided_interval_reaches_no_difference():
    log_s = np.array(
        [[0.0, 0.01, 0.02, 0.0], [0.005, 0.02, 0.01, 0.0], [0.3, 0.31, 0.29, 0.3], [np.nan, 0.0, np.nan, np.nan]]
    )
    assert may_be_fastest(fit(log_s), range(4)) == [0, 1], "one run says too little of the last"
    assert may_be_fastest(fit(log_s), [2]) == [2]
    assert may_be_fastest(fit(np.full((2, 0), np.nan)), [0, 1]) == []


@pytest.mark.parametrize(
    ("cells", "repetitions", "experiments"),
    [(4, 3, 100), *(pytest.param(*each, 1000, marks=pytest.mark.campaign) for each in [(2, 3), (8, 5), (24, 3)])],
)
@pytest.mark.parametrize("kind", KINDS)
def test_in_95_of_100_experiments_a_fastest_cell_is_among_those_that_may_be_it(kind, cells, repetitions, experiments):
    """The hardest case: one cell is the fastest, and all others take 2 % longer."""
    rng, missed = np.random.default_rng([26, cells]), 0
    for _ in range(experiments):
        log_s = simulated(kind, cells, repetitions, rng) + np.where(np.arange(cells) > 0, math.log(1.02), 0)[:, None]
        missed += 0 not in may_be_fastest(fit(log_s), range(cells))
    assert missed <= at_most(experiments, 0.06 if "noisy" in kind else 0.05)


def test_the_bound_of_each_cell_holds_the_truth_and_is_missing_above_twice_the_time():
    true = np.log([1.0, 1.02, 1.02, 3.0])
    rng, missed = np.random.default_rng(29), 0
    for _ in range(200):
        bounds = at_most_slower(fit(simulated("normal", 4, 5, rng) + true[:, None]), range(4), range(4))
        missed += any(math.log(bound) < true[cell] for cell, bound in bounds.items())
        assert 3 not in bounds
    assert missed <= at_most(200, 0.05)
