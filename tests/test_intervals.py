"""Figures of one cell: means, intervals, extremes and critical points, and the fit from which they come."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from storagelab.findings.model import Point
from storagelab.findings.summaries import summarise
from storagelab.stats import contrast, intervals
from storagelab.stats.contrast import Family, named
from storagelab.stats.fit import fit, prepared


@given(st.lists(st.floats(0.1, 1e4), min_size=3, max_size=12))
def test_a_mean_has_the_t_interval(values):
    estimate = intervals.mean_estimate(values)
    assert estimate.value == pytest.approx(np.mean(values))
    if len(set(values)) > 1:
        expected = scipy_stats.t.interval(0.95, len(values) - 1, np.mean(values), scipy_stats.sem(values))
        assert (estimate.low, estimate.high) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.lists(st.floats(1e-6, 1e4), min_size=3, max_size=12))
def test_an_interval_of_a_time_holds_its_mean_and_stays_above_zero(values):
    mean = summarise([Point(repetition=n, value=value) for n, value in enumerate(values, 1)]).mean
    assert 0 < mean.low <= mean.value * (1 + 1e-9)
    assert mean.value <= mean.high * (1 + 1e-9)


def test_intervals_of_times_hold_the_true_mean_in_95_of_100_experiments():
    rng = np.random.default_rng(25)
    missed = 0
    for _ in range(2000):
        mean = intervals.positive_mean_estimate(list(10 * np.exp(rng.normal(0, 0.2, 5))))
        missed += not mean.low <= 10 * math.exp(0.02) <= mean.high
    assert missed <= int(scipy_stats.binom.ppf(0.999, 2000, 0.06))


@pytest.mark.parametrize("values", [[0.4], [0.1, 2.5]])
def test_one_or_two_runs_have_no_interval(values):
    assert intervals.mean_estimate(values).low is None
    assert intervals.positive_mean_estimate(values).high is None
    assert intervals.positive_mean_estimate([0.0, 0.0, 0.0]).low is None, "nor have times of zero"


def test_an_interval_that_reaches_further_than_figures_can_be_apart_has_no_ends():
    bounded = intervals.from_logs(1.0, 2.0, 3.0)
    assert (bounded.value, bounded.low, bounded.high) == (math.e, math.exp(-1.0), math.exp(4.0))
    for half in (400.0, 1e6, math.inf, math.nan):
        wild = intervals.from_logs(1.0, half)
        assert (wild.value, wild.low, wild.high) == (math.e, None, None)


# --- critical points are SciPy's, which takes a tenth of a second or more for each ----------------------------------


@pytest.mark.parametrize(("count", "df"), [(3, 2.0), (4, 7.5), (8, 28.0), (64, 252.0), (1000, 4000.0)])
@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_the_studentized_range_is_scipys(count, df, alpha):
    q = math.sqrt(2) * intervals.range_point(count, df, alpha)
    assert scipy_stats.studentized_range.sf(q, count, df) == pytest.approx(alpha, rel=1e-3)


@pytest.mark.parametrize(("others", "df"), [(2, 2), (3, 20), (7, 12), (9, 30), (15, 64)])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_dunnetts_maximum_is_that_of_scipys_multivariate_t(others, df, alpha):
    """Differences from one mean that all share: each two of them correlate by one half."""
    at = np.full(others, intervals.maximum_point(others, df, alpha))
    shape = np.full((others, others), 0.5) + 0.5 * np.eye(others)
    below = scipy_stats.multivariate_t.cdf(at, shape=shape, df=df, maxpts=200_000, random_state=1)
    assert below == pytest.approx(1 - alpha, abs=5e-4)


def test_a_family_of_one_is_students_t():
    for family in (Family("range", 2), named(1)):
        assert family.point(9, 0.05) == pytest.approx(scipy_stats.t.isf(0.025, 9))
    assert Family("maximum", 2).point(9, 0.05) == pytest.approx(scipy_stats.t.isf(0.05, 9))


# --- the fit is a plain least squares, and what its contrasts may be off by is the plain covariance -------------------


drawings = st.tuples(
    st.integers(2, 6), st.integers(2, 6), st.integers(1, 2), st.integers(0, 2), st.floats(0, 0.4),
    st.integers(0, 2**32 - 1),
)  # fmt: skip


def campaign(cells, rounds, blocks, covariates, missing, rng):
    """Log times with runs missing, the block of each cell, and what else explains times."""
    log_s = rng.normal(2, 1, (cells, 1)) + rng.normal(0, 0.5, rounds) + rng.normal(0, 0.1, (cells, rounds))
    log_s[rng.random(log_s.shape) < missing] = np.nan
    others = [rng.integers(0, 2, log_s.shape).astype(float) for _ in range(covariates)]
    return log_s + sum(0.3 * one for one in others), rng.integers(0, blocks, cells), others


def dense(log_s, blocks, covariates):
    """Columns of zeros and ones for each cell and each round of a block, then the covariates; a row for each run."""
    cell, column = np.nonzero(~np.isnan(log_s))
    rounds = blocks[cell] * log_s.shape[1] + column
    return np.column_stack([
        cell[:, None] == np.arange(len(log_s)), rounds[:, None] == np.arange(2 * log_s.shape[1]),
        *(one[cell, column] for one in covariates),
    ]).astype(float)  # fmt: skip


@given(drawings)
def test_the_fit_is_that_of_a_dense_least_squares(drawn):
    *sizes, seed = drawn
    log_s, blocks, covariates = campaign(*sizes, np.random.default_rng(seed))
    fitted, there = fit(log_s, blocks, covariates=covariates), ~np.isnan(log_s)
    design = dense(log_s, blocks, covariates)
    if not len(design):
        return
    found, _, rank, _ = np.linalg.lstsq(design, log_s[there], rcond=1e-9)
    assert fitted.calm.residuals[there] == pytest.approx(log_s[there] - design @ found, abs=1e-7)
    assert fitted.free == len(design) - rank
    covariance = np.linalg.pinv(design.T @ design, rcond=1e-9, hermitian=True)
    for one in range(1, len(log_s)):
        pair = np.eye(design.shape[1])[one] - np.eye(design.shape[1])[0]
        sums = contrast._sums(fitted, np.array([[one, 0]]), np.array([[1.0, -1.0]]), fitted.every, fitted.every)
        told = bool(np.abs(pair @ covariance @ design.T @ design - pair).max() < 1e-6)
        enough = min(fitted.runs[[one, 0]]) >= 2 and fitted.df >= 1 and blocks[one] == blocks[0]
        assert bool(sums.tested[0]) == (told and enough)
        if sums.tested[0]:
            assert sums.value[0] == pytest.approx(pair @ found, abs=1e-7)
            if fitted.alike:
                assert sums.error[0] ** 2 == pytest.approx(fitted.pooled * (pair @ covariance @ pair), rel=1e-6)


def test_a_block_of_one_cell_says_nothing_of_noise():
    fitted = fit(np.random.default_rng(26).normal(0, 1, (2, 5)), [0, 1])
    assert (fitted.df, np.isnan(fitted.every.variance).all()) == (0, True)


def test_cells_share_one_variance_unless_one_is_surely_noisier():
    log_s = np.random.default_rng(14).normal(0, 0.03, (8, 5))
    alike = fit(log_s)
    assert alike.alike
    assert len(set(alike.every.variance)) == 1
    log_s[3] *= 5
    apart = fit(log_s)
    assert apart.noisier.tolist() == [number == 3 for number in range(8)]
    assert apart.every.variance.argmax() == 3


def test_a_single_lucky_run_does_not_make_a_cell_the_fastest_and_without_runs_none_is():
    assert fit(np.array([[1.0, np.nan, np.nan], [2.0, 2.01, 2.02], [3.0, 3.02, 3.01]])).fastest() == 1
    assert fit(np.array([[2.0], [9.0], [3.0]])).fastest() == 0
    assert fit(np.full((3, 0), np.nan)).fastest() is None


def test_levels_that_were_prepared_again_have_their_preparations_as_the_sample():
    """Of two levels, each prepared three times with two runs each, all runs of a preparation are off by the same."""
    luck = np.random.default_rng(27).normal(0, 0.1, (2, 3))
    log_s = np.repeat(luck, 2, axis=1) + np.tile([0.001, -0.001], 3)
    again = prepared(fit(log_s, [0, 1]), np.repeat(np.arange(6).reshape(2, 3), 2, axis=1)).preparations
    assert again.counts.tolist() == [3, 3]
    assert (again.df, again.variance[0]) == (4, pytest.approx(luck.var(axis=1, ddof=1).mean()))
    assert prepared(fit(log_s, [0, 1]), np.repeat([[0], [1]], 6, axis=1)).preparations is None
