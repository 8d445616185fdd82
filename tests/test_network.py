"""The arithmetic of queues: no rate exceeds a capacity, more capacity never lowers it, and one session never waits."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storagelab.predicting.network import Station, bound, solve, zero_of

PER_S = st.floats(1.0, 1e5)
STATIONS = st.lists(
    st.tuples(st.floats(0.01, 20.0), st.lists(PER_S, min_size=1, max_size=4)), min_size=1, max_size=4
).map(
    lambda drawn: [Station(str(number), visits, tuple(sorted(speeds))) for number, (visits, speeds) in enumerate(drawn)]
)
THINK_S = st.floats(0.0, 0.5)


@settings(deadline=None, max_examples=60)
@given(STATIONS, THINK_S, st.integers(1, 40))
def test_the_rate_exceeds_no_capacity_and_no_session_waits_less_than_alone(stations, think_s, sessions):
    found = solve(stations, think_s, sessions)
    assert 0 < found.per_s <= min(one.capacity for one in stations) * (1 + 1e-9)
    if all(len(one.per_s) == 1 for one in stations):  # stations that grow faster with company have no such bound
        assert found.per_s <= bound(stations, think_s, sessions) * (1 + 1e-9)
    # Little's law: whoever is not at a station thinks.
    assert sum(found.at().values()) + found.per_s * think_s == pytest.approx(sessions)


@settings(deadline=None, max_examples=60)
@given(STATIONS, THINK_S, st.integers(1, 40), st.floats(1.0, 10.0))
def test_a_faster_station_or_another_session_never_makes_it_slower(stations, think_s, sessions, times):
    first, *rest = stations
    faster = Station(first.name, first.visits, tuple(speed * times for speed in first.per_s))
    before = solve(stations, think_s, sessions).per_s
    assert solve([faster, *rest], think_s, sessions).per_s >= before * (1 - 1e-9)
    assert solve(stations, think_s, sessions + 1).per_s >= before * (1 - 1e-9)


@settings(deadline=None, max_examples=60)
@given(STATIONS, THINK_S)
def test_one_session_takes_the_sum_of_all_times(stations, think_s):
    whole_s = think_s + sum(one.visits / one.per_s[0] for one in stations)
    assert solve(stations, think_s, 1).per_s == pytest.approx(1 / whole_s)


@given(st.floats(0.001, 1e6), st.floats(0.1, 0.99), st.sampled_from((0.5, 1, 2, 3)))
def test_the_zero_of_a_falling_function_is_found_in_few_steps(most, share, power):
    asked = []

    def falling(at):
        asked.append(at)
        return share**power - (at / most) ** power

    assert zero_of(falling, most) == pytest.approx(share * most, rel=1e-6)
    assert len(asked) < 40, "a bisection takes 40"
    assert (zero_of(lambda _: 1.0, most), zero_of(lambda _: -1.0, most)) == (most, 0.0)


def test_two_equal_stations_have_the_rate_of_the_textbook():
    """N sessions at M equal stations: N / (N + M - 1) of a station's capacity."""
    stations = [Station("a", 1.0, (100.0,)), Station("b", 2.0, (200.0,))]
    assert solve(stations, 0.0, 8).per_s == pytest.approx(100 * 8 / 9)
    assert solve(stations, 0.0, 8).at() == pytest.approx({"a": 4.0, "b": 4.0})


def test_thousands_of_sessions_lose_no_digits():
    stations = [Station("a", 1.0, (100.0,)), Station("b", 1.0, (90.0, 180.0))]
    assert solve(stations, 1.0, 3000).per_s == pytest.approx(100.0, rel=1e-6)
    assert math.isfinite(solve(stations, 1.0, 3000).at()["a"])
