"""Charts of speed-ups, and of what drives wrote."""

from __future__ import annotations

import pytest
from builders import make_experiment, make_plan, make_runs

from storagelab.findings.analysis import analyse
from storagelab.findings.model import DriveState, Estimate, Findings
from storagelab.model.plan import Plan
from storagelab.report.charts import all_charts as charts
from storagelab.report.charts import speed_ups as comparison_data
from storagelab.report.drawing import arrange

FILES, LOG = "layout.data_files", "layout.log"


def twice_as_fast_on_b(levels, repetition):
    return (20.0 if levels[LOG] == "a" else 10.0) * (1 + 0.005 * ((repetition * 7 + int(levels[FILES])) % 5))


def story(plan_of=lambda plan: plan) -> Findings:
    """FABRICATED: volume b is twice as fast as a."""
    experiment = make_experiment({FILES: [1, 2, 4], LOG: ["a", "b"]}, 4)
    plan: Plan = plan_of(make_plan(experiment))
    return analyse(experiment, plan, make_runs(experiment, plan, elapsed=twice_as_fast_on_b))


def test_a_level_twice_as_fast_has_a_speed_up_of_two_with_its_interval_at_each_level_of_the_axis():
    data = comparison_data.speed_ups(story(), LOG)
    assert [row["x"] for row in data.rows] == ["1", "2", "4"]
    for row in data.rows:
        assert float(row["low"] or 0) < 2.0 < float(row["high"] or 0)
        assert row["judged"] == "faster"
        assert "b against a with" in str(row["tip"])
        assert "times as fast (joint 95 % CI" in str(row["tip"])


def test_speed_ups_between_blocks_have_no_interval_and_say_that_they_are_not_tested():
    def in_blocks(plan: Plan) -> Plan:
        block = {cell.cell_id: int(cell.levels[LOG] == "b") for cell in plan.cells}
        return plan.model_copy(
            update={"runs": tuple(run.model_copy(update={"block": block[run.cell_id]}) for run in plan.runs)}
        )

    data = comparison_data.speed_ups(story(in_blocks), LOG)
    assert {row["low"] for row in data.rows} == {None}
    assert {row["judged"] for row in data.rows} == {"not tested: in another block"}
    assert [row["speed_up"] for row in data.rows] == pytest.approx([2.0] * 3, rel=0.02)


def test_the_factor_that_does_most_comes_first():
    assert comparison_data.compared_factors(story()) == [LOG]
    assert comparison_data.speed_up_title(story(), LOG) == "Speed-up against log on a"


def test_of_more_levels_than_there_are_lines_each_has_a_panel_for_its_speed_up():
    levels = [f"configuration {number}" for number in range(19)]
    experiment = make_experiment({"storage": levels, FILES: [1, 2]}, 3)
    plan = make_plan(experiment)
    findings = analyse(experiment, plan, make_runs(experiment, plan))
    data = comparison_data.speed_ups(findings, "storage")
    assert (data.panels, data.lines, data.hidden_lines) == (levels[1:], [""], 0)
    assert [row["panel"] for row in data.rows if row["x"] == "2"] == levels[1:]


def with_drives(findings: Findings, written: dict[int, float]) -> Findings:
    def state(files: object) -> DriveState:
        return DriveState(drive="ssd", quantity="write_amplification", mean=Estimate(value=written[int(str(files))]))

    cells = tuple(cell.model_copy(update={"drive_states": (state(cell.levels[FILES]),)}) for cell in findings.cells)
    return findings.model_copy(update={"cells": cells})


def test_what_the_drive_wrote_stands_in_the_places_of_the_completion_times():
    findings = with_drives(story(), {1: 1.0, 2: 1.1, 4: 1.5})
    data = comparison_data.write_amplification(findings)
    assert [(row["x"], row["line"], row["mean"]) for row in data.rows] == [
        ("1", "a", 1.0), ("1", "b", 1.0), ("2", "a", 1.1), ("2", "b", 1.1), ("4", "a", 1.5), ("4", "b", 1.5),
    ]  # fmt: skip
    assert data.arrangement == arrange.arrange(findings)
    assert "write-amplification" in charts.specs(findings, ())


def test_drives_that_do_the_same_everywhere_or_tell_nothing_have_no_chart():
    assert comparison_data.write_amplification(story()).rows == []
    assert comparison_data.write_amplification(with_drives(story(), {1: 1.2, 2: 1.2, 4: 1.21})).rows == []


def test_of_many_drives_those_that_differ_most_are_told():
    findings = with_drives(story(), {1: 1.0, 2: 1.0, 4: 1.0})
    (state,) = findings.cells[0].drive_states
    many = tuple(state.model_copy(update={"drive": f"ssd{number}"}) for number in range(12))
    moved = (*many[:7], many[7].model_copy(update={"mean": Estimate(value=2.0)}), *many[8:])
    cells = tuple(
        cell.model_copy(update={"drive_states": moved if index else many}) for index, cell in enumerate(findings.cells)
    )
    told = comparison_data.drives(findings.model_copy(update={"cells": cells}))
    assert len(told) == comparison_data.MAX_DRIVES
    assert "ssd7" in told
