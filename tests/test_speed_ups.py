"""Charts of speed-ups."""

import pytest
from builders import make_campaign, make_experiment, make_runs

from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings
from storagelab.report.charts import effects
from storagelab.spec.matrix import expand

SPEED_UPS = effects.CHARTS[1]
FILES, LOG = "layout.data_files", "layout.log"


def twice_as_fast_on_b(levels, repetition):
    return (20.0 if levels[LOG] == "a" else 10.0) * (1 + 0.005 * ((repetition * 7 + int(levels[FILES])) % 5))


def story(**fields) -> Findings:
    """FABRICATED: volume b is twice as fast as a."""
    experiment = make_experiment({FILES: [1, 2, 4], LOG: ["a", "b"]}, 4, **fields)
    plan = expand(experiment)
    return analyse(experiment, plan, make_runs(experiment, plan, elapsed=twice_as_fast_on_b))


def test_a_level_twice_as_fast_has_a_speed_up_of_two_with_its_interval_at_each_level_of_the_axis():
    data = SPEED_UPS.rows(story(), ())
    assert [row["x"] for row in data.rows] == ["1", "2", "4"]
    for row in data.rows:
        assert float(row["low"] or 0) < 2.0 < float(row["high"] or 0)
        assert row["judged"] == "faster"
        assert "b against a with" in str(row["tip"])
        assert "times as fast (joint 95 % CI" in str(row["tip"])


def test_speed_ups_between_blocks_have_no_interval_and_say_that_they_are_not_tested():
    data = SPEED_UPS.rows(story(costly=(LOG,)), ())
    assert {row["low"] for row in data.rows} == {None}
    assert {row["judged"] for row in data.rows} == {"not tested"}
    assert [row["mean"] for row in data.rows] == pytest.approx([2.0] * 3, rel=0.02)


def test_the_level_that_differs_most_comes_first_and_those_without_a_panel_are_counted(monkeypatch):
    levels = [f"configuration {number}" for number in range(19)]
    slow = {"configuration 7": 30.0, "configuration 12": 20.0}
    experiment, plan, runs = make_campaign(
        {"storage": levels, FILES: [1, 2]}, 3, elapsed=lambda levels, _: slow.get(str(levels["storage"]), 10.0)
    )
    monkeypatch.setattr(effects, "MAX_PANELS", 8)
    drawn = SPEED_UPS.of(analyse(experiment, plan, runs), runs)
    assert drawn.data.panels[:2] == [f"{level} against configuration 0" for level in slow]
    assert (len(drawn.data.panels), drawn.data.hidden) == (8, "10 levels differ less and have no panel.")
    assert drawn.finding.startswith("The largest effect: configuration 7 took 3.0 times as long")
