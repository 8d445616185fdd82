"""Histograms of latencies: percentiles within a bin of the true ones, merging without loss."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from storagelab.model.measurement import Latency, latency_of, merged, middle_of_bin

LATENCIES = st.lists(st.integers(1, 10**12), min_size=1, max_size=300)


def _histogram(values: list[int]) -> Latency:
    made = latency_of((value, 1) for value in values)
    assert made is not None
    return made


def _nearest_rank(values: list[int], per_cent: float) -> float:
    return sorted(values)[max(1, math.ceil(per_cent / 100 * len(values))) - 1] / 1e9


@given(LATENCIES, st.sampled_from([1.0, 50.0, 95.0, 99.0, 99.9, 100.0]))
def test_a_percentile_is_within_half_a_bin_of_the_one_of_all_latencies(values: list[int], per_cent: float) -> None:
    assert _histogram(values).percentile_s(per_cent) == pytest.approx(_nearest_rank(values, per_cent), rel=1 / 256)


@given(LATENCIES)
def test_mean_and_extremes_are_exact(values: list[int]) -> None:
    made = _histogram(values)
    assert made.mean_s == pytest.approx(sum(values) / len(values) / 1e9)
    assert (made.least_ns, made.longest_ns, made.operations) == (min(values), max(values), len(values))


@given(LATENCIES, LATENCIES)
def test_merging_two_runs_gives_the_histogram_of_both(one: list[int], other: list[int]) -> None:
    assert merged([_histogram(one), _histogram(other)]) == _histogram(one + other)


@given(st.integers(0, 10**18))
def test_the_middle_of_a_bin_lies_in_its_bin(ns: int) -> None:
    assert middle_of_bin(middle_of_bin(ns)) == middle_of_bin(ns)


def test_the_percentile_of_two_runs_is_not_the_average_of_their_percentiles() -> None:
    drawn = random.Random(1)
    fast, slow = ([drawn.randrange(scale, 2 * scale) for _ in range(1000)] for scale in (10**6, 10**8))
    both = merged([_histogram(fast), _histogram(slow)])
    assert both.percentile_s(99) == pytest.approx(_nearest_rank(fast + slow, 99), rel=0.004)
    assert both.percentile_s(25) < 0.002 < _histogram(slow).percentile_s(25)


def test_no_operations_make_no_histogram() -> None:
    assert latency_of([]) is None
    assert latency_of([(5, 0)]) is None
    assert merged([]) is None


def test_values_without_counts_are_refused() -> None:
    with pytest.raises(ValidationError, match="one positive count for each value"):
        Latency(values_ns=(1, 2), counts=(1,), total_ns=1, least_ns=1, longest_ns=1)
    with pytest.raises(ValidationError, match="ascending"):
        Latency(values_ns=(2, 1), counts=(1, 1), total_ns=3, least_ns=1, longest_ns=2)
