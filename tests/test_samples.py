"""Figures of one cell: means, intervals, extremes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from storagelab.findings.model import Point
from storagelab.findings.summaries import summarise
from storagelab.stats import samples


@given(st.lists(st.floats(0.1, 1e4), min_size=3, max_size=12))
def test_a_mean_has_the_t_interval(values):
    estimate = samples.mean_estimate(values)
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
        mean = samples.positive_mean_estimate(list(10 * np.exp(rng.normal(0, 0.2, 5))))
        missed += not mean.low <= 10 * math.exp(0.02) <= mean.high
    assert missed <= int(scipy_stats.binom.ppf(0.999, 2000, 0.06))


@pytest.mark.parametrize("values", [[0.4], [0.1, 2.5]])
def test_one_or_two_runs_have_no_interval(values):
    assert samples.mean_estimate(values).low is None
    assert samples.positive_mean_estimate(values).high is None
    assert samples.positive_mean_estimate([0.0, 0.0, 0.0]).low is None, "nor have times of zero"


def test_an_interval_that_reaches_further_than_figures_can_be_apart_has_no_ends():
    bounded = samples.from_logs(1.0, 2.0, 3.0)
    assert (bounded.value, bounded.low, bounded.high) == (math.e, math.exp(-1.0), math.exp(4.0))
    for half in (400.0, 1e6, math.inf, math.nan):
        wild = samples.from_logs(1.0, half)
        assert (wild.value, wild.low, wild.high) == (math.e, None, None)
