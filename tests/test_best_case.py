"""The chart of the best case: at each level of the axis the fastest of all, beside the first that the spec lists."""

from builders import make_campaign

from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings
from storagelab.report.charts import best_case, wide_specs
from storagelab.report.drawing.chart import Figure

FILES = "layout.data_files"
STORAGE = ["disks", *(f"flash {number}" for number in range(1, 10))]


def elapsed(levels, repetition):
    """FABRICATED: flash 3 is fastest with one file, flash 7 with more; disks take 100 s."""
    place = STORAGE.index(levels["storage"])
    fastest = 3 if levels[FILES] == 1 else 7
    seconds = 100.0 if place == 0 else 20.0 if place == fastest else 40.0 + place
    return seconds * (1 + 0.005 * ((repetition * 7 + place) % 5))


def nearly_alike(levels, repetition):
    """FABRICATED: the same, within 2 %."""
    return 1000.0 + 0.2 * elapsed(levels, repetition)


def story(storage=STORAGE, repetitions=4, times=elapsed, **more) -> tuple[Findings, list]:
    experiment, plan, runs = make_campaign({"storage": storage, FILES: [1, 2, 4], **more}, repetitions, elapsed=times)
    return analyse(experiment, plan, runs), runs


def rows_of(findings: Findings) -> Figure:
    return best_case.CHART.rows(findings, ())


def test_each_level_of_the_axis_has_the_first_configuration_and_the_fastest_with_what_it_gains():
    findings, _ = story()
    data = rows_of(findings)
    assert data.lines == ["storage = disks", "the fastest of 10"]
    best = [row for row in data.rows if row["line"] == data.lines[1]]
    assert [(row["x"], row["name"]) for row in best] == [("1", "flash 3"), ("2", "flash 7"), ("4", "flash 7")]
    for row in best:
        (cell,) = (cell for cell in findings.cells if cell.cell_id == row["cell_id"])
        there = [one for one in findings.cells if one.levels[FILES] == cell.levels[FILES]]
        assert row["mean"] == min(one.elapsed_s.mean.value for one in there if one.elapsed_s is not None)
        assert str(row["against"]).startswith(("4.9", "5.0"))
        assert "times as fast (joint 95 % CI" in str(row["against"])
    assert {row["name"] for row in data.rows if row["line"] == data.lines[0]} == {"disks"}


def test_the_caption_names_who_is_fastest_where_and_that_picking_flatters():
    said = best_case.CHART.caption(rows_of(story()[0]), story()[0])
    assert said.startswith("The fastest by their means, with 1 data file: flash 3; with 2 and 4 data files: flash 7.")
    assert "chance" in said


def test_few_lines_in_one_panel_show_the_fastest_by_themselves():
    findings, runs = story(storage=STORAGE[:4])
    assert rows_of(findings).rows == []
    assert "best-case" not in wide_specs(findings, runs)


def test_more_factors_are_named_with_their_levels_and_have_no_speed_up_of_one():
    findings, runs = story(storage=STORAGE[:3], **{"layout.log": ["a", "b"]})
    data = rows_of(findings)
    assert {row["name"] for row in data.rows} >= {"disks, log on a"}
    assert {row["against"] for row in data.rows} == {""}
    assert "best-case" in wide_specs(findings, runs)


def test_times_that_differ_little_have_an_axis_that_does_not_start_at_zero_and_says_so():
    for times, at_zero in ((elapsed, True), (nearly_alike, False)):
        spec = wide_specs(*story(times=times))["best-case"]
        assert ("not at zero" in spec["title"]["subtitle"]) is not at_zero
        domains = [layer["encoding"]["y"]["scale"]["domain"] for layer in spec["layer"]]
        assert all((domain[0] <= 0) is at_zero and (domain[0] < 900) is at_zero for domain in domains)
