"""Charts: their marks, their captions, and that each can be drawn."""

import itertools
import json
import sys
from xml.etree import ElementTree

import pytest
from builders import make_campaign, make_experiment, make_plan, make_run, story, ten_seconds

from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings
from storagelab.model.measurement import Measurement, TimeSeries, latency_of
from storagelab.report import charts as charts_folder
from storagelab.report import writing
from storagelab.report.charts import cells, charts, drawn_charts, page_charts, waits, wide_specs
from storagelab.report.drawing import arrange, palette
from storagelab.report.drawing.chart import HOLLOW, STAR, Figure
from storagelab.report.drawing.layers import axis_of, cut, says_cut
from storagelab.report.drawing.vega import FONT_PX, to_png, to_svg
from storagelab.report.words.compared import ends

FILES, LOG, COMPRESSION = "layout.data_files", "layout.log", "target.settings.wal_compression"
ROWS, CONNECTIONS = "workload.rows_per_transaction", "workload.connections"
FOUR = {FILES: [1, 2, 4, 8]}


def times_of(findings: Findings) -> Figure:
    return cells.CHARTS[0].rows(findings, ())


def waits_of(findings: Findings) -> Figure:
    return waits.CHARTS[0].rows(findings, ())


def test_charts_are_in_reading_order():
    names = [chart.name for chart in charts()]
    assert names[:3] == ["ladder", "cells", "latency"]
    assert names[3:5] == ["price-against-speed", "capacity-against-speed"]
    assert names[5:8] == ["drive-past", "effects", "speed-ups"]
    assert names[8:11] == ["waits", "waterfall", "rows-over-time"]


MOONS = """
from storagelab.report.charts.cells import CHARTS as LIKE

from dataclasses import replace

CHART = replace(LIKE[0], name="moons", place=1, title=lambda findings: "Moons", finding=lambda *_: "By moonlight.")
"""


@pytest.mark.slow
def test_a_new_chart_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "moons.py").write_text(MOONS)
    monkeypatch.setattr(charts_folder, "__path__", [*charts_folder.__path__, str(tmp_path)])
    experiment, plan, runs = make_campaign(FOUR, 2)
    findings = analyse(experiment, plan, runs)
    assert list(wide_specs(findings, runs))[1:3] == ["cells", "moons"]
    for format_ in ("html", "md"):
        assert "By moonlight." in writing.render(format_, experiment, plan, runs, findings)
    del sys.modules[f"{charts_folder.__name__}.moons"]


def test_every_chart_is_a_vega_lite_spec_that_is_plain_json():
    specs = wide_specs(*story(FOUR))
    assert list(specs) == ["ladder", "cells", "effects", "waits", "waterfall", "rows-over-time", "io-over-time"]
    for spec in specs.values():
        assert spec["$schema"].endswith("/v6.json")
        assert json.loads(json.dumps(spec)) == spec


def test_charts_become_png_and_svg_without_a_browser():
    spec = wide_specs(*story(FOUR, repetitions=2))["cells"]
    assert to_png(spec).startswith(b"\x89PNG\r\n\x1a\n")
    svg = to_svg(spec)
    assert svg.startswith("<svg")
    assert "completion time, s (measured)" in svg


def test_a_chart_is_sent_the_columns_that_it_draws_alone():
    slim = wide_specs(*story({FILES: [1, 2, 4], LOG: ["a", "b"]}))
    assert set(slim["waits"]["data"]["values"][0]) == {
        "name", "part", "low", "high", "mean", "middle", "label", "ink", "tip",
    }  # fmt: skip
    assert not any("cell_id" in row for spec in slim.values() for row in spec["data"]["values"])


def test_every_run_is_a_point_and_every_cell_a_mean_with_its_interval():
    findings, runs = story(FOUR)
    data = times_of(findings)
    assert len(data.points) == len(runs) == 20
    for row, cell in zip(data.rows, findings.cells, strict=True):
        mean = cell.elapsed_s.mean
        assert (row["mean"], row["low"], row["high"]) == (mean.value, mean.low, mean.high)


@pytest.mark.parametrize(
    ("more", "axis", "lines", "levels"),
    [
        ({FILES: [1, 2]}, "data files", "log volume", "1 2"),
        ({COMPRESSION: ["off", "on"]}, "log volume", "wal_compression", "a b"),
        ({ROWS: [10, 20], CONNECTIONS: [8, 1, 2]}, "connections", "log volume · rows per transaction", "1 2 4 8"),
    ],
)
def test_the_axis_is_the_number_of_data_files_else_the_most_numbers_else_the_first_factor(more, axis, lines, levels):
    findings = story({LOG: ["a", "b"]} | more, repetitions=1)[0]
    places = arrange.arrange(findings)
    assert (places.x_title, places.line_title, times_of(findings).x_levels) == (axis, lines, levels.split())


@pytest.mark.parametrize(
    ("levels", "axis", "doubles"),
    [
        ([1, 2, 8], ["1", "2", "4", "8"], True), ([16, 4, 8], ["4", "8", "16"], True),
        ([1, 3, 8], ["1", "3", "8"], False), ([1, 2, 1024], ["1", "2", "1,024"], False), ([1, 2], ["1", "2"], False),
    ],
)  # fmt: skip
def test_powers_of_two_stand_on_an_axis_of_doublings_also_where_one_was_not_run(levels, axis, doubles):
    data = times_of(story({FILES: levels}, repetitions=1)[0])
    assert (data.x_levels, data.arrangement.doubles) == (axis, doubles)


def test_the_cells_to_look_at_first_are_the_axis_first_best_and_last_and_the_slowest():
    def slow_ends(levels, repetition):
        slow = 5 * (levels[LOG] == "b" and levels[FILES] == 2)
        return ten_seconds(levels, repetition) * (1 + 0.3 * (levels[FILES] != 8) + slow)

    findings, _ = story({LOG: ["a", "b"], FILES: [1, 2, 4, 8, 16]}, elapsed=slow_ends)
    chosen = arrange.chosen_cells(findings)
    assert findings.fastest is not None
    log = findings.cell(findings.fastest).levels[LOG]
    assert [(cell.levels[LOG], cell.levels[FILES]) for cell in chosen] == [(log, 1), (log, 8), (log, 16), ("b", 2)]


def test_names_leave_out_what_all_the_cells_share():
    findings, _ = story({LOG: ["a"], FILES: [1, 2]}, repetitions=1)
    assert arrange.short_names(findings.cells) == ["1 data file", "2 data files"]
    assert arrange.shared_levels(findings.cells) == "log volume = a"
    assert arrange.short_names(findings.cells[:1]) == ["1 file, log on a"]


def test_few_combinations_are_lines_of_one_panel_and_more_share_panels_with_the_same_axes():
    few, _ = story(FOUR | {LOG: ["a", "b"], COMPRESSION: ["off", "on"]}, repetitions=1)
    assert (list(times_of(few).panels), len(times_of(few).lines)) == ([""], 4)
    many, runs = story(FOUR | {LOG: ["a", "b"], COMPRESSION: ["off", "on", "lz4"]}, repetitions=1)
    data = times_of(many)
    assert data.panels == ["log on a", "log on b"]
    assert data.lines == ["off", "on", "lz4"]
    spec = wide_specs(many, runs)["cells"]
    assert not spec["resolve"]
    assert spec["facet"]["sort"] == data.panels


def test_lines_and_panels_there_is_no_room_for_are_counted_and_the_ends_are_kept():
    levels = [f"v{number}" for number in range(30)]
    findings, _ = story({FILES: [1, 2], "target.settings.x": levels}, repetitions=1)
    data = times_of(findings)
    assert len(data.panels) == arrange.MAX_PANELS
    assert data.hidden.startswith("30 more cells are not drawn: x = v1; x = v3; ")
    assert {row["cell_id"] for row in data.rows} >= {*ends(findings)}


def test_waits_have_a_bar_for_as_many_cells_as_paper_has_room_for_and_a_table_of_all_the_fastest_first():
    def slower(levels, repetition):
        return ten_seconds(levels, repetition) * (1 + int(str(levels["target.settings.x"])[1:]) / 10)

    findings, runs = story({"target.settings.x": [f"v{number}" for number in range(30)]}, elapsed=slower)
    of = waits_of(findings)
    assert list(dict.fromkeys(row["cell_id"] for row in of.rows)) == [cell.cell_id for cell in findings.cells]
    drawn = {row["cell_id"] for row in of.rows if row["drawn"]}
    assert (len(drawn), drawn >= {*ends(findings)}) == (waits.MAX_BARS, True)
    assert wide_specs(findings, runs)["waits"]["height"] >= waits.MAX_BARS * FONT_PX
    assert of.hidden == "6 more cells have no bar; the table has all."


def test_a_page_has_one_chart_over_time_as_its_block_shows_the_others_of_any_two_cells():
    findings, runs = story(FOUR)
    left_out = drawn_charts(findings, runs).keys() - page_charts(findings, runs).keys()
    assert left_out == {"io-over-time"}
    alone, its_runs = story({FILES: [1]})
    assert page_charts(alone, its_runs).keys() == drawn_charts(alone, its_runs).keys()


def test_the_parts_of_a_bar_add_up_to_what_is_explained_of_connections_times_elapsed():
    findings, _ = story(FOUR)
    data = waits_of(findings)
    for cell in findings.cells:
        rows = [row for row in data.rows if row["cell_id"] == cell.cell_id]
        assert rows[0]["low"] == 0
        assert rows[-1]["high"] == pytest.approx(sum(row.wait_s for row in cell.waits) / cell.available_s)
        assert all(below["high"] == above["low"] for below, above in itertools.pairwise(rows))


def test_the_wait_that_moves_most_comes_first():
    findings, _ = story(FOUR)
    assert waits_of(findings).lines[0] == "Lock:extend"


def test_stacks_of_different_engines_are_of_the_same_parts():
    def waits(levels, repetition):
        commit = {"IO:WALSync": 0.4} if levels["target.engine"] == "postgres" else {"LWLock:WALWrite": 0.7}
        return commit | {"IO:DataFileRead": 0.8 - sum(commit.values())}

    findings, _ = story({"target.engine": ["postgres", "mariadb"], FILES: [1, 4]}, waits=waits)
    data = waits_of(findings)
    assert data.lines[0] == "commit"
    assert not {"IO:WALSync", "LWLock:WALWrite"} & set(data.lines)
    shares = sorted(float(row["mean"] or 0) for row in data.rows if row["part"] == "commit")
    assert shares == pytest.approx([0.4, 0.4, 0.7, 0.7], abs=0.02)


def test_waits_beyond_the_named_ones_are_gathered_and_cpu_is_apart():
    shares = {f"LWLock:Kind{number}": 0.05 for number in range(14)}
    findings, _ = story(FOUR, waits=lambda levels, repetition: shares)
    lines = waits_of(findings).lines
    assert lines[-2:] == [waits.OTHER_WAITS, "ON_CPU"]
    assert len(lines) == waits.MAX_WAIT_TYPES + 2


def test_a_wait_type_keeps_the_hue_of_its_category_and_a_second_one_gets_another_shade():
    colours = palette.shades(["commit", "allocation", "commit"])
    assert colours[0] == palette.CATEGORY["commit"]
    assert colours[1] == palette.CATEGORY["allocation"]
    assert colours[2] not in colours[:2]


def test_an_experiment_of_one_cell_still_has_its_chart():
    specs = wide_specs(*story({}, repetitions=3))
    assert "effects" not in specs
    assert to_svg(specs["cells"]).count("aria-roledescription") > 0


def test_what_was_not_measured_has_no_chart():
    assert "waits" not in wide_specs(*story(FOUR, repetitions=2, waits=None))
    assert wide_specs(*story(FOUR, repetitions=1, failed=lambda planned: "the server died")) == {}


def test_the_axis_starts_at_zero_unless_times_are_too_close_and_then_says_so():
    close, close_runs = story(FOUR)
    far, far_runs = story(FOUR, elapsed=lambda levels, at: levels[FILES] * ten_seconds(levels, at))
    assert axis_of(times_of(far), "s").channel["scale"]["domain"][0] == 0
    start = axis_of(times_of(close), "s").channel["scale"]["domain"][0]
    assert start > 0
    assert f"The axis starts at {start:g} s, not at zero." in drawn_charts(close, close_runs)["cells"].caption
    assert "starts at" not in drawn_charts(far, far_runs)["cells"].caption


def test_a_mean_without_an_interval_is_drawn_hollow_and_the_caption_says_so():
    for repetitions, is_hollow in ((2, True), (5, False)):
        findings, runs = story(FOUR | {LOG: ["a", "b"]}, repetitions)
        drawn = drawn_charts(findings, runs)["cells"]
        assert (HOLLOW in drawn.caption) is is_hollow
        marks = ElementTree.fromstring(to_svg(drawn.specs()["wide"])).iter("{http://www.w3.org/2000/svg}path")
        fills = [one.attrib.get("fill") for one in marks if ": mean " in one.attrib.get("aria-label", "")]
        assert {fill in (None, "transparent", palette.GROUND) for fill in fills} == {is_hollow}
        assert (palette.GROUND in fills) is is_hollow, "the star hides what is below it"


def test_a_few_slow_cells_do_not_press_the_others_together():
    def slow_on_b(levels, repetition):
        return ten_seconds(levels, repetition) * (20 if levels[LOG] == "b" and levels[FILES] == 8 else 1)

    findings, runs = story(FOUR | {LOG: ["a", "b"]}, elapsed=slow_on_b)
    assert axis_of(times_of(findings)).channel["scale"]["type"] == "log"
    assert "Equal steps are equal ratios." in drawn_charts(findings, runs)["cells"].caption


def test_an_interval_far_wider_than_the_means_are_apart_ends_in_an_arrowhead():
    rows = [{"mean": 1.0, "low": 0.9, "high": 1.1}, {"mean": 4.0, "low": 1e-9, "high": 5.0}, {"mean": 2.0, "low": None}]
    assert [row["low"] for row in cut(rows)] == [0.9, 0.5, None]
    assert (cut(rows)[1]["below"], cut(rows)[1]["above"]) == (True, False)
    assert (bool(says_cut(cut(rows))), says_cut(cut(rows[::2]))) == (True, "")
    assert min(axis_of(Figure(rows)).channel["scale"]["domain"]) >= 0.0


@pytest.mark.parametrize(("times", "said"), [(7, "Equal steps are equal ratios."), (20, "Each panel has its own axis")])
def test_panels_share_an_axis_of_ratios_unless_they_are_too_far_apart_for_that(times, said):
    def slow_on_b(levels, repetition):
        return ten_seconds(levels, repetition) * (times if levels[LOG] == "b" else 1)

    findings, runs = story(FOUR | {LOG: ["a", "b"], COMPRESSION: ["off", "on", "lz4"]}, 2, elapsed=slow_on_b)
    assert bool(wide_specs(findings, runs)["cells"]["resolve"]) is (times == 20)
    assert said in drawn_charts(findings, runs)["cells"].caption


def test_names_with_quotes_backslashes_and_markup_are_drawn_as_they_are():
    nasty = ["</script><b>", "it's", 'a "quoted" \\ one', "${x}", "line\nbreak", "very long " * 12]
    findings, runs = story({FILES: [1, 2], "odd ' name": nasty, LOG: ["a", "b"]}, repetitions=2)
    for spec in wide_specs(findings, runs).values():
        svg = to_svg(spec)
        assert "<b>" not in svg
        assert "</script>" not in svg


def test_text_in_a_bar_can_be_read_on_every_colour():
    for colour in (*palette.CATEGORY.values(), *palette.LINES):
        assert palette.ink_on(colour) in ("#000000", "#ffffff")
    assert palette.ink_on("#ffffff") == "#000000"
    assert palette.ink_on(palette.CATEGORY["commit"]) == "#ffffff"


def test_runs_of_a_set_time_are_drawn_by_latency_and_not_by_their_time():
    """FABRICATED: twice the transactions with four times the connections, and each takes twice as long."""
    load = {"kind": "pgbench", "connections": 4, "threads": 1, "duration_s": 10.0}
    base = {"target": {"engine": "postgres"}, "volumes": {"a": {"path": "./a"}}, "layout": {"data": ["a"], "log": "a"},
            "workload": load, "measure": {"judge": "p99"}}  # fmt: skip
    experiment = make_experiment({FILES: [1, 4], "workload.connections": [4, 16]}, 3, base=base)
    plan, runs = make_plan(experiment), []
    for planned in plan.runs:
        cell = plan.cell(planned.cell_id)
        connections = cell.config.workload.sessions
        number = 10_000 if connections == 4 else 20_000
        latency = latency_of([(round(1e9 * connections * 10 / number), number)])
        columns = dict.fromkeys(("transactions_per_s", "latency_p99_s"), (1.0, 2.0))
        series = TimeSeries(at_s=(5.0, 10.0), columns=columns)
        runs.append(make_run(planned, cell, Measurement(
            provenance="measured", elapsed_s=10.0 + 0.001 * planned.repetition, transactions=number,
            latency=latency, series=series,
        )))  # fmt: skip
    findings = analyse(experiment, plan, runs)
    drawn = page_charts(findings, runs)
    assert {"latency", "cells", "transactions-over-time", "latency-over-time"} <= drawn.keys()
    assert "waterfall" not in drawn
    assert drawn["cells"].title == "Every cell by data files: p99 latency"
    assert [row["mean"] for row in drawn["cells"].data.rows[:2]] == pytest.approx([4, 8], rel=0.02)
    points = [(row["line"], row["x"], row["mean"]) for row in drawn["latency"].data.rows if row["panel"] == "p99"]
    assert points[:2] == [("1", "4", pytest.approx(4, rel=0.02)), ("1", "16", pytest.approx(8, rel=0.02))]
    said = writing.render("md", experiment, plan, runs, findings)
    assert ("completion time" not in said, "mean p99 latency, ms" in said, " µs" not in said) == (True, True, True)


@pytest.mark.parametrize(("levels", "joined"), [(["8 KB read", "64 KB write"], False), ([8, 64], True)])
def test_a_line_joins_places_that_are_more_or_less_of_something_alone(levels, joined):
    findings, runs = story({"access": levels})
    layers = wide_specs(findings, runs)["cells"]["layer"]
    assert any(layer["mark"]["type"] == "line" for layer in layers) is joined


def test_long_names_of_levels_are_broken_into_lines_and_none_is_cut():
    names = ["a 64 KB sequential read of a whole table scan", "an 8 KB random read of a database page in an index"]
    findings, runs = story({"access": names})
    svg = to_svg(wide_specs(findings, runs)["cells"])
    assert "…" not in svg
    assert [word for name in names for word in name.split() if word not in svg] == []


def test_the_recommended_layout_is_marked_wherever_layouts_are_shown_and_the_caption_names_it():
    def elapsed(levels, repetition):
        return ten_seconds(levels, repetition) * (1 + (levels[FILES] < 8) + (levels[LOG] == "a"))

    findings, runs = story(FOUR | {LOG: ["a", "b"]}, elapsed=elapsed)
    drawn = drawn_charts(findings, runs)
    (picked,) = arrange.recommended(findings)
    star = f"{STAR} recommended: {findings.cell(picked).text}"
    for chart in ("cells", "waits", "waterfall", "rows-over-time"):
        assert {row["cell_id"] for row in drawn[chart].data.rows if row["pick"]} == {picked}, chart
        assert f"{star}." in drawn[chart].caption
        assert drawn[chart].specs()["wide"]["title"]["subtitle"][-1] == star
        if chart != "cells":
            assert f"{STAR} " in to_svg({**drawn[chart].specs()["narrow"], "title": None}), chart


def test_an_effect_that_reverses_is_drawn_at_each_level_and_not_as_a_mean_of_opposites():
    slow = {(1, "a"): 1, (1, "b"): 3, (4, "a"): 3, (4, "b"): 1}
    made = story({FILES: [1, 4], LOG: ["a", "b"]}, elapsed=lambda at, n: slow[at[FILES], at[LOG]] * ten_seconds(at, n))
    rows = drawn_charts(*made)["effects"].data.rows
    assert sorted(row["judged"] for row in rows) == ["less time", "less time", "more time", "more time"]


def test_under_each_load_the_default_layout_is_marked():
    findings, runs = story(FOUR | {CONNECTIONS: [4, 8]})
    assert f"{STAR} default: " in drawn_charts(findings, runs)["cells"].caption
    picked = [findings.cell(cell_id).levels for cell_id in arrange.recommended(findings)]
    assert len({levels[FILES] for levels in picked}) == 1
    assert {levels[CONNECTIONS] for levels in picked} == {4, 8}
    of_ladder = next(chart for chart in charts() if chart.name == "ladder")
    assert len(of_ladder.rows(story(FOUR | {CONNECTIONS: list(range(1, 9))}, 1)[0], ()).panels) == 8


@pytest.mark.parametrize(("slowest", "said"), [(1, "Use 8 data files."), (4, "Use 1, 2 or 8 data files: ")])
def test_a_caption_begins_with_what_the_runs_show_and_so_does_the_picture(slowest, said):
    def elapsed(levels, repetition):
        steps = {1: 0.5, 2: 0.3, 4: 0.1, 8: 0.0} if slowest == 1 else {4: 0.5}
        return ten_seconds(levels, repetition) * (1 + steps.get(levels[FILES], 0.0))

    findings, runs = story(FOUR, elapsed=elapsed)
    drawn = drawn_charts(findings, runs)["cells"]
    assert drawn.caption.startswith(said)
    assert " ".join(drawn.specs()["wide"]["title"]["subtitle"]).replace("\xa0", " ").startswith(drawn.finding)


@pytest.mark.parametrize("form", ["wide", "narrow"])
def test_no_text_is_small_and_a_drawing_has_no_ids_and_no_ink_of_its_own(form):
    findings, runs = story(FOUR | {LOG: ["a", "b"]}, repetitions=3)
    for name, drawn in drawn_charts(findings, runs).items():
        svg = ElementTree.fromstring(to_svg(drawn.specs()[form]))
        texts = list(svg.iter("{http://www.w3.org/2000/svg}text"))
        assert min(float(one.attrib["font-size"].removesuffix("px")) for one in texts) >= FONT_PX, name
        assert not any("id" in one.attrib for one in svg.iter()), name
        assert {one.attrib["fill"] for one in texts} <= {"currentColor", "#000000", "#ffffff"}, name
        assert float(svg.attrib["width"]) <= {"wide": 900, "narrow": 336}[form], name
