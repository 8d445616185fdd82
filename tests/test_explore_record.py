"""The data of each cell in the page's block: complete, short, and without secrets."""

import json

import pytest
from builders import make_campaign, make_planned, make_runs

from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings
from storagelab.model.measurement import Run, TimeSeries
from storagelab.model.plan import Plan
from storagelab.report.page.explore import record, series
from storagelab.report.page.html import page

FILES, LOG = "layout.data_files", "layout.log"


def story(factors, repetitions: int = 2, **given) -> tuple[Plan, tuple[Run, ...], Findings]:
    """FABRICATED: the plan, runs and findings of an experiment over `factors`."""
    experiment, plan, runs = make_campaign(factors, repetitions, **given)
    return plan, runs, analyse(experiment, plan, runs)


def told(factors, repetitions: int = 2, **given) -> dict:
    plan, runs, findings = story(factors, repetitions, **given)
    return record(plan, runs, findings, findings.cells)


def test_waits_are_seconds_per_connection_with_resource_and_signal_apart():
    plan, runs, findings = story({FILES: [1, 2]})
    known = record(plan, runs, findings, findings.cells)
    for cell, waited in zip(findings.cells, known["waited"], strict=True):
        assert [known["waits"][place]["name"] for place, *_ in waited] == [row.wait_type for row in cell.waits]
        for row, (_, whole, resource, signal) in zip(cell.waits, waited, strict=True):
            assert whole == pytest.approx(row.wait_s / cell.connections, rel=1e-3)
            assert (resource is None) == (row.resource_s is None)
            if resource is not None:
                assert resource + signal == pytest.approx(whole, rel=1e-2)


def test_levels_are_in_the_order_of_the_axis_and_cells_stand_at_them():
    known = told({FILES: [16, 1, 4]})
    assert known["factors"][0]["levels"] == ["1", "4", "16"]
    assert [cell["at"] for cell in known["cells"]] == [[2], [0], [1]]


def test_facts_are_those_that_differ_between_cells_and_not_between_the_runs_of_one():
    known = told({FILES: [1, 2], LOG: ["a", "b"]})
    assert [(fact["name"], fact["values"]) for fact in known["facts"]] == [
        ("layout.data_files (asked for)", ["1", "2"]), ("layout.log (asked for)", ["a", "b"]),
    ]  # fmt: skip


def test_a_cell_without_runs_is_not_said_to_differ_in_what_was_read_back():
    experiment, plan, runs = make_campaign({FILES: [1, 2]}, 2)
    first = [run for run in runs if run.cell_id == plan.cells[0].cell_id]
    findings = analyse(experiment, plan, first)
    asked_for = record(plan, first, findings, findings.cells)["facts"]
    assert [(fact["name"], fact["of"]) for fact in asked_for] == [("layout.data_files (asked for)", [0, 1])]


def test_the_cells_of_both_ends_are_pinned_at_first():
    plan, runs, findings = story({FILES: [1, 2, 4]}, elapsed=lambda levels, _: 10.0 * levels[FILES])
    known = record(plan, runs, findings, findings.cells)
    assert [known["cells"][place]["id"] for place in known["pinned"]] == [findings.fastest, findings.worst]


def test_a_password_that_a_server_told_does_not_leave_with_it():
    known = told({FILES: [1, 2]}, environment={"server": {"dsn": "postgres://me:hunter2@db/x"}})
    assert "hunter2" not in json.dumps(known)


def with_long_series(run: Run) -> Run:
    """10,000 samples of nine columns with digits that don't repeat."""
    names = ("rows_per_s", "write_amplification", "utilisation", "dirty_pages", "runnable", "io_in_progress",
             "volume.a.read_bytes_per_s", "volume.a.write_bytes_per_s", "volume.a.busy_s_per_s")  # fmt: skip
    at_s = tuple(step / 1_000 for step in range(1, 10_001))
    columns = {name: tuple(1e5 + (step * 7_919 % 104_729) for step in range(10_000)) for name in names}
    measurement = run.measurement.model_copy(update={"series": TimeSeries(at_s=at_s, columns=columns)})
    return run.model_copy(update={"measurement": measurement})


def test_a_page_of_120_cells_with_long_series_of_everything_stays_below_1300_kb(drawn_charts):
    """More cells, and more columns of each, than any ready-made experiment has."""
    experiment, plan = make_planned({FILES: [1, 2, 4, 8, 16, 32], LOG: ["a", "b"], "x": list("abcdefghij")}, 1)
    runs = tuple(map(with_long_series, make_runs(experiment, plan)))
    findings = analyse(experiment, plan, runs)
    known = series(findings, runs, findings.cells)
    assert all(len(one["lines"]) == 9 for of_cell in known["of"] for one in of_cell)
    assert sum(map(len, known["of"])) == len(runs)
    assert len(page(experiment, plan, runs, findings, "{}")) < 1_300_000


def test_every_run_has_its_series_and_the_median_and_the_odd_ones_are_the_finest():
    slow = 3

    def elapsed(levels, repetition: int) -> float:
        return 10.0 * (3.0 if (levels[FILES], repetition) == (2, slow) else 1 + 0.002 * repetition)

    _, runs, findings = story({FILES: [1, 2, 4], "x": list("abcdefghijklmnop")}, 5, elapsed=elapsed)
    known = series(findings, tuple(map(with_long_series, runs)), findings.cells)
    assert [len(of_cell) for of_cell in known["of"]] == [5] * 48
    points = {len(one["at"]) for of_cell in known["of"] for one in of_cell[1:] if one["repetition"] != slow}
    finest = {len(of_cell[0]["at"]) for of_cell in known["of"]}
    odd = {len(one["at"]) for cell, of in zip(findings.cells, known["of"], strict=True) for one in of
           if (cell.levels[FILES], one["repetition"]) == (2, slow)}  # fmt: skip
    assert max(points) < min(finest)
    assert odd == finest
