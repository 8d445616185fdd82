"""Real servers on volumes of known speed: storagelab's answer must equal the calculated one. And the calculation."""

import math
from types import SimpleNamespace

import pytest
from real_mariadb import needs_mariadb
from real_servers import open_folder

from bench.known_answers import SLICE_S, Kind, Known, Layout, campaign, iops, known, known_ratio, why_not


@pytest.fixture(scope="module")
def possible():
    if reason := why_not():
        pytest.skip(reason)


def run_that_counted(**counts):
    measurement = SimpleNamespace(counters={"volumes": {f"volume.{name}": value for name, value in counts.items()}})
    return SimpleNamespace(measurement=measurement)


def test_the_volume_with_most_to_do_at_its_speed_decides():
    run = run_that_counted(
        **{"a.throttled_reads": 90, "a.throttled_writes": 600, "b.throttled_reads": 10, "b.throttled_writes": 300}
    )
    assert known([run], {"a": iops(600), "b": iops(100)}) == (pytest.approx(3.0), "b")
    assert known([run], {"a": iops(600), "b": {"read_iops": 100}}) == (pytest.approx(1.0), "a")


def test_several_runs_have_the_geometric_mean_of_their_times():
    runs = [run_that_counted(**{"a.throttled_writes": writes}) for writes in (100, 400)]
    assert known(runs, {"a": {"write_iops": 100}}).seconds == pytest.approx(math.sqrt(1 * 4))


def test_a_ratio_of_short_times_is_known_less_well():
    for seconds in (2.0, 200.0):
        value, least, most = known_ratio(Known(2 * seconds, "b"), Known(seconds, "a"))
        assert value == 2
        assert least == pytest.approx(2, abs=4 * SLICE_S / seconds)
        assert most == pytest.approx(2, abs=4 * SLICE_S / seconds)
        assert least < value < most


SMALL = {
    "postgres": Kind(
        "unequal", {"a": iops(300), "b": iops(100), "c": iops(9_000)},
        (Layout("on a", ("a",), "c"), Layout("on b", ("b",), "c")),
    ),
    "mariadb": Kind(
        "unequal", {"a": iops(120), "b": iops(60), "c": iops(9_000)},
        (Layout("log on a", ("c",), "a"), Layout("log on b", ("c",), "b")),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.parametrize(("engine", "rows"), [("postgres", 900), pytest.param("mariadb", 150, marks=needs_mariadb)])
def test_a_slower_volume_is_named_with_the_ratio_of_the_times(possible, engine, rows):
    for seed in (1, 2, 3):
        with open_folder() as folder:
            found = campaign(engine, SMALL[engine], seed, folder / "known", repetitions=3, amount=rows)
        if found.low is not None and found.high is not None and found.high < 2 * found.low:
            break  # else other work on this machine held up a run, and nothing could be told
    assert found.right_set, found
    assert found.right_ratio, found
    assert found.right_reason, found
    assert "volume b was at its limit" in found.said
