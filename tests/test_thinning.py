"""The stored time series of a simulated run: short, but enough to see what happened."""

import itertools

import pytest
from simulated_specs import ONE_BLOCK, run_once

from storagelab.model.measurement import TimeSeries
from storagelab.targets.simulated.measurement import LINES_MOST, LOOKS_MOST, POINTS_MOST, kept_looks, thinned


def series_of(count: int, last_s: float = 2.0) -> TimeSeries:
    """Two seconds apart, the last interval shorter; the values count up."""
    at_s = [2.0 * number for number in range(1, count)]
    return TimeSeries(
        at_s=(*at_s, (at_s[-1] if at_s else 0.0) + last_s),
        columns={"rows_per_s": tuple(float(number) for number in range(count)), "gaps": (None,) * count},
    )


def total(series: TimeSeries) -> float:
    widths = [b - a for a, b in zip((0.0, *series.at_s), series.at_s, strict=False)]
    return sum((value or 0) * width for value, width in zip(series.columns["rows_per_s"], widths, strict=True))


@pytest.mark.parametrize("count", [1, 99, 100, 101, 445, 6822])
def test_a_series_keeps_its_end_and_its_sum_in_a_hundred_points_at_most(count):
    whole = series_of(count, last_s=0.5)
    stored = thinned(whole)
    assert min(count, POINTS_MOST // 2) <= len(stored.at_s) <= POINTS_MOST
    assert stored.at_s[-1] == whole.at_s[-1]
    assert total(stored) == pytest.approx(total(whole), rel=1e-5)
    assert {len(values) for values in stored.columns.values()} == {len(stored.at_s)}
    assert set(stored.columns["gaps"]) == {None}


def test_a_short_series_is_stored_as_it_is():
    assert thinned(series_of(POINTS_MOST)) == series_of(POINTS_MOST)
    assert thinned(TimeSeries()) == TimeSeries()


def look(number: int, tasks: int = 8) -> dict[str, object]:
    return {"at_ns": number, "tasks": [{"workers": 9 - place} for place in range(tasks)]}


@pytest.mark.parametrize("count", [0, 1, 30, 31, 341])
def test_looks_are_kept_evenly_over_the_run_with_their_longest_queues(count):
    kept = kept_looks([look(number) for number in range(1, count + 1)])
    assert min(count, LOOKS_MOST // 2) <= len(kept) <= LOOKS_MOST
    steps = {b["at_ns"] - a["at_ns"] for a, b in itertools.pairwise(kept)}
    assert len(steps) <= 1
    assert all([task["workers"] for task in one["tasks"]] == [9, 8, 7, 6][:LINES_MOST] for one in kept)


def test_a_long_simulated_run_takes_less_than_thirty_kilobytes_and_says_what_was_left_out(tmp_path):
    longer = [("500_000", "2_000_000"), ('"4GB"', '"2GB"'), ("[1, 4]", "[1]")]
    (run,) = run_once(tmp_path, ONE_BLOCK, *longer)
    measured = run.measurement
    assert measured is not None
    said = measured.counters["stored in part"]
    assert said["series_points_taken"] > said["series_points_stored"] == len(measured.series.at_s)
    assert said["waiting_looks_stored"] >= len({task.at_s for task in measured.waiting_tasks})
    assert len(run.model_dump_json()) < 30_000
