"""The transactions of a run: what counts, their histogram, and their series."""

import numpy as np
import pytest

from storagelab.loads.transactions import Transactions, in_turns


def drawn(number: int = 5000, seconds: float = 10.0) -> Transactions:
    rng = np.random.default_rng(19)
    ended_s = 1.7e9 + np.sort(rng.uniform(0, seconds, number))
    return Transactions(ended_s, np.round(rng.lognormal(8, 1, number)), np.zeros(number), np.empty(0), np.empty(0))


def test_percentiles_of_the_histogram_are_within_a_hundredth_of_those_of_the_log():
    found = drawn()
    latency = found.latency()
    for per_cent in (50, 95, 99, 99.9):
        assert latency.percentile_s(per_cent) * 1e6 == pytest.approx(
            np.percentile(found.latency_us, per_cent, method="inverted_cdf"), rel=0.01
        )
    assert latency.mean_s * 1e6 == pytest.approx(found.latency_us.mean())
    assert latency.operations == found.number


def test_only_what_ended_in_the_part_that_counts_counts():
    found = drawn()
    half = found.within(1.7e9 + 5, 1.7e9 + 10)
    assert half.number + found.within(1.7e9, 1.7e9 + 5).number == found.number
    assert half.ended_s.min() > 1.7e9 + 5


def test_latency_and_throughput_come_from_the_stretches_in_which_nothing_looked():
    """Watched seconds have 3 transactions of 2 ms, unwatched ones 4 of 1 ms. A rest that begins before the part that
    counts is cut off.
    """
    ends = [
        (second + place / 10, 2e3 if second % 2 else 1e3)
        for second in range(4)
        for place in range(1, 4 + (not second % 2))
    ]
    at_s, latency_us = np.array(ends).T
    found = Transactions(at_s, latency_us, np.zeros(len(ends)), np.empty(0), np.empty(0))
    latency, turns = in_turns(found, [(-1.0, 1.0), (2.0, 3.0)], 0.0, 4.0)
    assert (latency.operations, latency.longest_ns) == (8, 1_000_000)
    assert (turns.unwatched_s, turns.unwatched_transactions) == (2.0, 8)
    assert (turns.watched_s, turns.watched_transactions, turns.watched_latency.least_ns) == (2.0, 6, 2_000_000)


def test_a_latency_begins_when_the_load_was_let_go():
    found = Transactions(
        np.array([10.0, 10.5]), np.array([3e6, 2e5]), np.array([1e6, 0.0]), np.empty(0), np.empty(0)
    ).begun_at_earliest(9.8)
    assert list(found.latency_us) == pytest.approx([2e5, 2e5])
    assert list(found.lag_us) == pytest.approx([2e5, 0.0])
    assert found.span_s == pytest.approx((9.8, 10.5))


def test_the_series_adds_up_to_the_run():
    found = drawn()
    edges = [1.7e9 + second for second in range(11)]
    series = found.series(edges)
    assert sum(series["transactions_per_s"]) == found.number
    first = found.within(edges[0], edges[1])
    assert series["latency_p99_s"][0] == pytest.approx(np.percentile(first.latency_us, 99) / 1e6)
