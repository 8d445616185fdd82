"""Time series as charts draw them: every repetition, one panel per cell, whatever was observed; no peak is lost."""

from collections.abc import Sequence

import pytest
from builders import story
from hypothesis import given
from hypothesis import strategies as st

from storagelab.model.measurement import Run, TimeSeries
from storagelab.report.charts import drawn_charts, over_time, wide_specs
from storagelab.report.charts.over_time import length_of, stretches
from storagelab.report.drawing import arrange
from storagelab.report.drawing.vega import to_svg

FILES = "layout.data_files"
BY_NAME = {chart.name: chart for chart in over_time.CHARTS}
ROWS, IO = BY_NAME["rows-over-time"], BY_NAME["io-over-time"]


def test_long_series_are_drawn_as_means_over_stretches():
    findings, runs = story({FILES: [1]}, repetitions=1, elapsed=lambda levels, repetition: 1_000.0)
    rows = ROWS.rows(findings, runs).rows
    assert 0.5 * over_time.MAX_SERIES_POINTS <= len(rows) <= over_time.MAX_SERIES_POINTS
    assert rows[-1]["at_s"] == 1_000.0
    drawn = sum(float(row["value"] or 0) for row in rows) / len(rows)
    series = next(run.measurement.series.columns["rows_per_s"] for run in runs if run.measurement is not None)
    assert drawn == pytest.approx(sum(value or 0 for value in series) / len(series) / 1_000, rel=0.02)


def test_the_lines_of_a_chart_are_sampled_alike_however_many_and_however_long_they_are():
    findings, runs = story({FILES: [1, 2]}, 9, elapsed=lambda levels, repetition: 900.0 + 70 * repetition)
    data = ROWS.rows(findings, runs)
    steps = {row["series"]: row["at_s"] for row in reversed(data.rows)}
    assert len(steps) == 9
    assert len(set(steps.values())) == 1, "the first point of each line stands for as long a time"
    assert len(data.rows) <= over_time.MAX_POINTS
    assert data.legend in ROWS.of(findings, runs).caption


def test_axes_over_time_go_beyond_the_last_and_the_largest_point():
    findings, runs = story({FILES: [1, 4]}, repetitions=2)
    data = ROWS.rows(findings, runs)
    for layer in wide_specs(findings, runs)["rows-over-time"]["spec"]["layer"]:
        for axis, column in (("x", "at_s"), ("y", "value")):
            low, high = layer["encoding"][axis]["scale"]["domain"]
            assert low == 0
            assert high > max(float(row[column] or 0) for row in data.rows)


def test_a_cell_of_a_sixth_of_the_rate_has_an_axis_of_its_own():
    findings, runs = story({FILES: [1, 4]}, elapsed=lambda levels, repetition: 10.0 if levels[FILES] == 1 else 90.0)
    data = ROWS.rows(findings, runs)
    assert wide_specs(findings, runs)["rows-over-time"]["resolve"] == {"scale": {"y": "independent"}}
    assert "Each panel has its own vertical axis." in ROWS.of(findings, runs).caption
    assert ROWS.ends is not None
    fast, slow = ROWS.ends(data)[1]
    assert fast > 6 * slow


def with_a_second_volume(runs: Sequence[Run], device: str) -> list[Run]:
    """Volume b writes what volume a does, and is on `device`; a is on nvme0n1."""
    changed = []
    for run in runs:
        m = run.measurement
        writes = m.series.columns["volume.a.write_bytes_per_s"]
        series = m.series.model_copy(update={"columns": {**m.series.columns, "volume.b.write_bytes_per_s": writes}})
        environment = {**m.environment, "volumes": {"a": {"device": "nvme0n1"}, "b": {"device": device}}}
        measurement = m.model_copy(update={"series": series, "environment": environment})
        changed.append(run.model_copy(update={"measurement": measurement}))
    return changed


@pytest.mark.parametrize("device", ["nvme0n1", "nvme1n1", ""])
def test_volumes_on_one_device_share_a_line_with_both_names(device):
    lines = ["volumes a and b, write"] if device == "nvme0n1" else ["volume a, write", "volume b, write"]
    findings, runs = story({FILES: [1]}, repetitions=1)
    changed = with_a_second_volume(runs, device)
    assert IO.rows(findings, changed).lines == lines
    svg = to_svg(wide_specs(findings, changed)["io-over-time"])
    assert [line for line in lines if line not in svg] == []


def test_every_repetition_is_a_line_and_the_run_of_median_time_stands_out():
    times = {1: 12.0, 2: 10.0, 3: 11.0}
    findings, runs = story({FILES: [1]}, repetitions=3, elapsed=lambda levels, repetition: times[repetition])
    rows = ROWS.rows(findings, runs).rows
    assert {row["series"] for row in rows} == {"rows 1", "rows 2", "rows 3"}
    assert {row["repetition"] for row in rows if row["median"]} == {3}


def test_of_many_cells_those_that_are_looked_at_first_are_drawn_and_the_rest_is_counted():
    findings, runs = story({FILES: [1, 2, 4, 8, 16, 32], "layout.log": ["a", "b"]}, repetitions=2)
    data = ROWS.rows(findings, runs)
    chosen = arrange.chosen_cells(findings)
    assert data.panels == arrange.short_names(chosen)
    assert data.hidden.startswith(f"{12 - len(chosen)} more cells are not drawn")


def test_what_a_simulated_server_tells_is_drawn_too_each_in_its_unit():
    findings, runs = story({FILES: [1, 2]}, repetitions=2)
    told = {
        "write_amplification": 1.5, "utilisation": 0.25, "dirty_pages": 2_000.0, "runnable": 7.0,
        "io_in_progress": 3.0,
    }  # fmt: skip
    drawn = drawn_charts(findings, [with_series(run, told) for run in runs])
    shown = {name: {row["value"] for row in drawn[name].data.rows} for name in BY_NAME if name in drawn}
    assert shown == {
        "write-amplification-over-time": {1.5}, "utilisation-over-time": {25.0}, "dirty-pages-over-time": {2.0},
        "runnable-over-time": {7.0}, "io-in-progress-over-time": {3.0},
    }  # fmt: skip


def with_series(run: Run, told: dict[str, float]) -> Run:
    series = TimeSeries(at_s=(1.0, 2.0), columns={name: (value, value) for name, value in told.items()})
    return run.model_copy(update={"measurement": run.measurement.model_copy(update={"series": series})})


def test_a_target_that_tells_nothing_over_time_has_no_such_chart():
    findings, runs = story({FILES: [1, 2]}, repetitions=2)
    assert BY_NAME.keys() & drawn_charts(findings, [with_series(run, {}) for run in runs]) == set()


SAMPLES = st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=300)


@given(SAMPLES, st.integers(1, 80))
def test_the_least_and_the_most_of_all_samples_are_kept_in_at_most_so_many_stretches(values, limit):
    at_s = [float(place) for place in range(1, len(values) + 1)]
    found = list(stretches(at_s, values, length_of(len(values), limit)))
    assert len(found) <= limit
    assert found[-1].at_s == at_s[-1]
    known = [value for value in values if value is not None]
    if known:
        assert min(part.least for part in found if part.least is not None) == min(known)
        assert max(part.most for part in found if part.most is not None) == max(known)
    there = [part for part in found if part.mean is not None]
    assert all(part.least - 1e-6 <= part.mean <= part.most + 1e-6 for part in there)


def test_a_short_series_stays_as_it_is():
    found = stretches((1.0, 2.0, 3.0), (5.0, None, 7.0), 1)
    assert [part[:2] for part in found] == [(1.0, 5.0), (2.0, None), (3.0, 7.0)]


def test_the_recommended_cell_is_drawn_and_extremes_are_said_to_be_of_the_median_runs(monkeypatch):
    findings, runs = story({FILES: [1, 2, 4, 8, 16, 32]})
    chosen = {cell.cell_id for cell in arrange.chosen_cells(findings)}
    left_out = next(cell.cell_id for cell in findings.cells if cell.cell_id not in chosen)
    monkeypatch.setattr(arrange, "recommended", lambda _findings: frozenset({left_out}))
    assert left_out in [cell.cell_id for cell in arrange.chosen_cells(findings)]
    assert "Lowest of the median runs: " in ROWS.of(findings, runs).caption
