"""Figures of one cell: means, intervals, extremes, and the critical points that they need."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from storagelab.findings.model import Point
from storagelab.findings.summaries import summarise
from storagelab.stats import intervals
from storagelab.stats.contrast import Family, named


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
