"""The model against published results: figures as data, values read from runs, verdicts, and the command."""

import csv
import io
import json
from functools import partial
from pathlib import Path

import pytest
from pydantic import ValidationError
from simulated_specs import ONE_BLOCK, SMALL, changed

from storagelab import profiles
from storagelab.engines.simulated.scenario import world_of
from storagelab.errors import SpecError, StoragelabError
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell
from storagelab.model.waits import CountedWait, CountedWaits
from storagelab.spec.matrix import expand
from storagelab.spec.reading import load, parse
from storagelab.validation import table
from storagelab.validation.articles import (
    Missing,
    PublishedFigure,
    RunsOfCell,
    SimulatedFigure,
    articles,
    needed,
    read_off,
)
from storagelab.validation.making import (
    Request,
    at_two_scales,
    judge,
    missing,
    plan,
    relative_error,
    summaries,
    with_band,
)
from storagelab.validation.table import parameters

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "experiments/multiple-data-files.toml"
(ARTICLE_A,) = articles(["A"])
FIGURES = {figure.id: figure for article in articles() for figure in article.figures}


# --- the figures -----------------------------------------------------------------------------------------------------


def test_every_published_figure_has_a_number_of_its_own_that_begins_with_its_article():
    pairs = [(article.id, figure.id) for article in articles() for figure in article.figures]
    assert len(dict.fromkeys(pairs)) == len(pairs) == len(FIGURES)
    assert all(name.startswith(article) and name[1:].isdigit() for article, name in pairs)
    assert {article for article, _ in pairs} == set("ABCDEFGH")


def test_each_figure_of_article_a_is_reproduced_by_cells_of_its_spec():
    cells = expand(load(SPEC)).cells
    for figure in ARTICLE_A.figures:
        assert needed(figure, ARTICLE_A.levels_of(figure), cells)
    mean = FIGURES["A9"]
    assert len(needed(mean, ARTICLE_A.levels_of(mean), cells)[0]) == 72


def test_a_figure_takes_one_of_value_range_and_order_and_what_its_quantity_asks_for():
    with pytest.raises(ValidationError, match="one of value, between and order"):
        PublishedFigure(id="X1", what="x", quantity="elapsed_s", use="judged")
    with pytest.raises(ValidationError, match="wait_s takes wait_type"):
        PublishedFigure(id="X1", what="x", quantity="wait_s", use="judged", value=1)


def test_a_published_wait_table_becomes_numbered_figures_that_add_up():
    wait, resource, signal, count, share = (FIGURES[f"B{number}"] for number in range(52, 57))
    assert [figure.quantity for figure in (wait, resource, signal, count, share)] == [
        "wait_s", "resource_s", "signal_s", "wait_count", "wait_share",
    ]  # fmt: skip
    assert wait.what == "PAGEIOLATCH_EX, 4 files on two SCSI RAID-10: wait"
    assert wait.value == pytest.approx(resource.value + signal.value, abs=0.01)
    assert signal.tolerance_absolute == pytest.approx(0.01 * wait.value), "a signal time of hardly any"
    assert FIGURES["B59"].tolerance_absolute is None


def test_only_what_is_named_is_shown_and_a_name_that_there_is_not_is_refused():
    picked = articles(["A1", "C"])
    assert [(article.id, len(article.figures)) for article in picked] == [("A", 1), ("C", 19)]
    with pytest.raises(SpecError, match="no figure or article is named 'A99'"):
        articles(["A99"])


# --- what is read off runs -------------------------------------------------------------------------------------------

SPEC_TEXT = changed(SMALL, ('"layout.data_files" = [1, 4]', '"layout.data_files" = [1, 2, 4]'), ONE_BLOCK)
CELLS = expand(parse(SPEC_TEXT, "lab/small.toml")).cells


def run_of(elapsed_s: float, waits: dict[str, tuple[float, float, int]], **more) -> Measurement:
    """`waits` holds wait, signal and count."""
    rows = [
        CountedWait(wait_type=name, wait_ns=round(wait * 1e9), signal_ns=round(signal * 1e9), wait_count=count)
        for name, (wait, signal, count) in waits.items()
    ]
    counted = CountedWaits(connections=2, elapsed_s=elapsed_s, busy_s=2 * elapsed_s, rows=tuple(rows), cpu_s=8.0)
    return Measurement(provenance="simulated", elapsed_s=elapsed_s, rows=1000, waits=counted, **more)


def figure(quantity: str, **more) -> PublishedFigure:
    more = {"value": 1.0, **more} if not {"between", "order"} & set(more) else more
    return PublishedFigure(id="X1", what="a figure", quantity=quantity, use="judged", **more)


def read(wanted: PublishedFigure, *groups: list[tuple[Cell, list[Measurement]]]) -> SimulatedFigure:
    return read_off(wanted, [[RunsOfCell(cell, runs) for cell, runs in group] for group in groups])


RUN = run_of(10.0, {"PAGELATCH_UP": (9.0, 1.0, 90), "WRITELOG": (3.0, 0.5, 30)})


@pytest.mark.parametrize(
    ("quantity", "value"),
    [("wait_s", 9.0), ("resource_s", 8.0), ("signal_s", 1.0), ("wait_count", 90), ("wait_share", 0.75)],
)
def test_waits_are_read_off_by_their_type(quantity, value):
    wanted = figure(quantity, wait_type="PAGELATCH_UP")
    assert read(wanted, [(CELLS[0], [RUN])]).values == (pytest.approx(value),)


def test_the_phase_in_memory_is_read_off_by_its_own_record_and_its_absence_is_said():
    engine = {"memory_phase_rows": 250.0, "memory_phase_cpu_s": 0.5}
    run = run_of(10.0, {"SOS_SCHEDULER_YIELD": (1.0, 1.0, 100)}, counters={"engine": engine})
    assert read(figure("memory_phase_cpu_per_row_s"), [(CELLS[0], [run])]).values == (0.002,)
    assert read(figure("yields_over_memory_phase"), [(CELLS[0], [run])]).values == (pytest.approx(100 * 4e-3 / 0.5),)
    with pytest.raises(Missing, match="while the whole table was in memory"):
        read(figure("yields_over_memory_phase"), [(CELLS[0], [RUN])])


def test_a_counter_can_be_had_per_row_and_its_absence_is_said():
    run = run_of(1.0, {}, counters={"engine": {"reads": 283.0}})
    per_row = figure("counter", counter="engine.reads", per="rows")
    assert read(per_row, [(CELLS[0], [run])]).values == (0.283,)
    with pytest.raises(Missing, match=r"no counter raw-io\.ios_per_s"):
        read(figure("counter", counter="raw-io.ios_per_s"), [(CELLS[0], [run])])


def test_two_cells_are_compared_repetition_by_repetition():
    one, other = [run_of(6.0, {}), run_of(9.0, {})], [run_of(10.0, {}), run_of(10.0, {})]
    groups = [(CELLS[1], one)], [(CELLS[0], other)]
    against = {"layout.data_files": 1}
    assert read(figure("elapsed_ratio", against=against), *groups).values == (0.6, 0.9)
    assert read(figure("gain", against=against), *groups).values == pytest.approx((0.4, 0.1))


def test_counters_of_two_cells_and_means_of_two_sets_of_cells_are_compared():
    slow, fast = (run_of(1.0, {}, counters={"raw-io": {"ios_per_s": rate}}) for rate in (300.0, 400.0))
    against = {"layout.data_files": 1}
    rates = figure("counter_ratio", counter="raw-io.ios_per_s", against=against)
    assert read(rates, [(CELLS[1], [slow])], [(CELLS[0], [fast])]).values == (0.75,)
    means = figure("mean_elapsed_ratio", against=against)
    both = [(CELLS[1], [run_of(6.0, {})]), (CELLS[2], [run_of(8.0, {})])]
    assert read(means, both, [(CELLS[0], [run_of(10.0, {})])]).values == (0.7,)
    assert [len(group) for group in needed(means, {}, CELLS)] == [3, 1]
    with pytest.raises(ValidationError, match="counter_ratio takes against"):
        figure("counter_ratio", counter="raw-io.ios_per_s")


def layouts(*runs: Measurement) -> list[tuple[Cell, list[Measurement]]]:
    return [(cell, [run]) for cell, run in zip(CELLS, runs, strict=True)]


def test_the_best_level_and_the_order_are_by_mean_time():
    group = layouts(run_of(9.0, {}), run_of(5.0, {}), run_of(7.0, {}))
    along = "layout.data_files"
    assert read(figure("best_level", along=along), group).level == 2
    assert read(figure("order", along=along, order=(2, 4, 1)), group).order == (2, 4, 1)


def test_levels_that_cannot_be_told_apart_from_the_best_are_as_good_and_are_named_beside_it():
    times = ((12.0, 12.1, 11.9, 12.0), (10.0, 10.6, 9.7, 10.1), (9.9, 10.4, 10.1, 9.8))
    group = [(cell, [run_of(one, {}) for one in runs]) for cell, runs in zip(CELLS, times, strict=True)]
    best = figure("best_level", value=2, unit="files", along="layout.data_files")
    found = read(best, group)
    assert (found.level, found.tied) == (4, (2,))
    row = judge(ARTICLE_A, best, found)
    assert (table._simulated_text(row), row.verdict) == ("4 or 2 files", "within")
    assert judge(ARTICLE_A, best.model_copy(update={"value": 1.0}), found).verdict == "outside"


def share_of_updates(of_100: float) -> Measurement:
    return run_of(60.0, {"PAGEIOLATCH_EX": (100.0 - of_100, 0.0, 1), "PAGELATCH_UP": (of_100, 0.0, 1)})


def test_a_wait_is_gone_from_the_level_on_after_which_no_table_has_it():
    share = share_of_updates
    wanted = figure("gone_from_top_95", wait_type="PAGELATCH_UP", along="layout.data_files")
    assert read(wanted, layouts(share(30), share(2), share(1))).level == 2
    assert read(wanted, layouts(share(2), share(30), share(1))).level == 4
    assert read(wanted, layouts(share(2), share(1), share(30))).level == "never"


def test_a_cell_that_the_spec_does_not_have_or_has_twice_is_said():
    with pytest.raises(Missing, match=r"no cell with layout\.data_files = 3"):
        needed(figure("elapsed_s"), {"layout.data_files": 3}, CELLS)
    with pytest.raises(Missing, match="3 cells"):
        needed(figure("elapsed_s"), {}, CELLS)
    with pytest.raises(Missing, match="its runs failed"):
        read(figure("elapsed_s"), [(CELLS[0], [])])


# --- verdicts --------------------------------------------------------------------------------------------------------


def judged(wanted: PublishedFigure, *values: float, **more):
    return judge(ARTICLE_A, wanted, SimulatedFigure(values=values, **more))


ABOUT_200 = figure("elapsed_s", value=200, tolerance=0.25)
A_RANGE = figure("elapsed_ratio", between=(1.0, 1.1), against={"layout.data_files": 1})
NEAR_NOTHING = figure("resource_s", value=1.1, tolerance_absolute=162, wait_type="W")


@pytest.mark.parametrize(
    ("wanted", "within", "outside"),
    [
        (ABOUT_200, [(240.0,)], [(140.0,)]), (NEAR_NOTHING, [(0.0,), (160.0,)], [(170.0,)]),
        # The interval of repetitions may reach into a range.
        (A_RANGE, [(1.05,), (0.98, 1.01, 0.99, 1.0)], [(1.21,), (0.98, 0.981, 0.979, 0.98)]),
    ],
)  # fmt: skip
def test_values_are_held_against_a_tolerance_or_a_range(wanted, within, outside):
    assert [judged(wanted, *values).verdict for values in within] == ["within"] * len(within)
    assert [judged(wanted, *values).verdict for values in outside] == ["outside"] * len(outside)


@pytest.mark.parametrize(
    ("wanted", "here", "there", "matters"),
    [(ABOUT_200, 200.0, 224.0, False), (ABOUT_200, 200.0, 170.0, True), (A_RANGE, 1.0, 1.02, False),
     (A_RANGE, 1.0, 1.03, True), (NEAR_NOTHING, 0.0, 80.0, False), (NEAR_NOTHING, 0.0, 82.0, True)],
)  # fmt: skip
def test_a_figure_depends_on_the_scale_if_it_moves_by_more_than_half_of_what_it_may_be_off(
    wanted, here, there, matters
):
    row = at_two_scales(judged(wanted, here), judged(wanted, there))
    assert row.scale_matters is matters
    assert row.verdict == judged(wanted, here).verdict


def test_a_level_depends_on_the_scale_unless_one_is_as_good_at_both():
    best = figure("best_level", value=8, along="layout.data_files")
    eight = judged(best, level=8, tied=(4,))
    assert not at_two_scales(eight, judged(best, level=4)).scale_matters
    assert at_two_scales(eight, judged(best, level=2)).scale_matters


def test_what_an_article_leaves_open_gives_a_band_and_published_figures_outside_of_it_are_named():
    rows = [judged(ABOUT_200.model_copy(update={"value": value}), 150.0) for value in (205, 300)]
    banded = tuple(with_band(row, [judged(ABOUT_200, value) for value in (180.0, 210.0)]) for row in rows)
    assert [row.band for row in banded] == [(180.0, 210.0)] * 2
    text = table.markdown(table.Validation(articles=(ARTICLE_A,), simulations=(), rows=banded, parameters=()))
    lines = [line for line in text.splitlines() if "180 to 210" in line]
    assert [line.rsplit("|", 2)[1].strip() for line in lines] == ["inside", "outside"]
    fact = judged(figure("elapsed_s", value=1.0, tolerance=0.1).model_copy(update={"use": "fact"}), 1.0)
    assert with_band(fact, [fact]).band is None


def test_errors_are_relative_to_the_value_or_to_the_nearer_end_of_a_range():
    assert judged(ABOUT_200, 240.0).error == pytest.approx(0.2)
    assert [relative_error(A_RANGE, value) for value in (1.05, 1.21, 0.9)] == pytest.approx([0.0, 0.1, -0.1])
    assert judged(NEAR_NOTHING, 0.0).error is None


def test_a_large_miss_comes_with_the_mechanism_that_is_suspected():
    wanted = figure("elapsed_s", value=100, tolerance=0.3, suspected="reads and writes share a die")
    why = "The suspected reason: reads and writes share a die."
    pages = [
        table.markdown(
            table.Validation(articles=(ARTICLE_A,), simulations=(), rows=(judged(wanted, value),), parameters=())
        )
        for value in (140.0, 120.0, 110.0)
    ]
    assert [f"X1 is outside of its limit. {why}" in page for page in pages] == [True, False, False]
    assert [f"X1 is far off, but within its limit. {why}" in page for page in pages] == [False, True, False]


def test_an_article_that_leaves_the_model_open_says_so_at_every_verdict():
    (article,) = articles(["C"])
    rows = tuple(
        judge(article, figure, SimulatedFigure(values=(float(figure.value or 1),))) for figure in article.figures
    )
    text = table.markdown(table.Validation(articles=(article,), simulations=(), rows=rows, parameters=()))
    lines = [line for line in text.splitlines() if line.startswith("| C")]
    assert len(lines) > len(rows)
    assert all("†" in line for line in lines)
    assert "- † Under-determined: the article gives neither wait statistics nor the size of a row or a batch" in text
    assert [one.id for one in articles() if one.under_determined] == ["C", "G"]


def test_levels_and_orders_must_be_the_same():
    best = figure("best_level", value=8, along="layout.data_files")
    assert [judged(best, level=level).verdict for level in (8, 4, "never")] == ["within", "outside", "outside"]
    order = figure("order", order=(8, 128, 1), along="layout.data_files")
    assert judged(order, order=(8, 1, 128)).verdict == "outside"


def test_the_sum_counts_what_is_not_simulated_and_gives_median_and_worst_error():
    wanted = figure("elapsed_s", value=100, tolerance=0.25)
    named = [wanted.model_copy(update={"id": f"X{number}"}) for number in range(4)]
    rows = [judged(one, value) for one, value in zip(named, (110.0, 80.0, 160.0), strict=False)]
    (summary,) = summaries([*rows, missing(ARTICLE_A, named[3], "there is no spec yet")])
    assert (summary.figures, summary.simulated, summary.within, summary.worst) == (4, 3, 2, "X2")
    assert (summary.median_error, summary.worst_error) == pytest.approx((0.2, 0.6))


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("A11", "226,362 s"), ("A14", "45.74 M"), ("A15", "78.7 %"), ("A37", "1.1 s"), ("A39", "829,000"),
        ("A51", "37 GB"),
        ("A52", "0.283"), ("A54", "48 to 64 µs"), ("A8", "8 < 128"), ("B3", "25 to 45 %"), ("D4", "1,400 MB/s"),
    ],
)  # fmt: skip
def test_published_figures_are_shown_as_published(wanted, text):
    assert table._published_text(FIGURES[wanted]) == text


# --- parameters ------------------------------------------------------------------------------------------------------


def test_everything_that_may_be_fitted_has_bounds_and_lies_within_them():
    figures = [*profiles.server().figures(), *profiles.load("iodrive-320", Path()).figures()]
    fitted = [(name, each) for name, each in figures if each.label == "fitted" and not isinstance(each.value, str)]
    assert len(fitted) > 10
    for name, each in fitted:
        assert each.bounds is not None, name
        assert each.bounds[0] <= each.value <= each.bounds[1], name
        assert each.fitted_on, name
    assert set().union(*(each.fitted_on for _, each in figures)) <= {*FIGURES} | _ranges(figures)


def test_the_list_of_parameters_has_the_defaults_and_constants_of_the_core_too():
    listed = {(one.owner, one.name): one for one in parameters(["iodrive-320"])}
    assert listed["a cache", "mirror_request_ns"].fitted_on == ("D2",)
    assert listed["a link", "bytes_per_s"].label == "published"
    assert listed["the server", "checkpoint_look_frame_ns"].value == 1
    assert {owner for owner, _ in listed} >= {"a cache", "a link", "a volume", "a run", "the server"}
    assert all(set(one.fitted_on) <= {*FIGURES} for one in listed.values() if one.owner in ("a cache", "a link"))


def _ranges(figures) -> set[str]:
    """ "A11-A25" is fine if both ends are."""
    words_ = {word for _, each in figures for word in each.fitted_on if "-" in word}
    assert all(end in FIGURES for word in words_ for end in word.split("-"))
    return words_


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def experiments(tmp_path_factory) -> Path:
    """Article A's spec, made so small that all of it takes a second; the other specs are not there."""
    folder = tmp_path_factory.mktemp("experiments")
    text = SPEC.read_text().replace("2_500_000", "150_000").replace('"16GB"', '"2GB"')
    (folder / SPEC.name).write_text(text)
    return folder


@pytest.fixture
def validated(typed):
    """Types `storagelab validate` with these words."""
    return partial(typed, "validate")


SMALL_WORLD = ("--scale", "256", "--jobs", "1", "--no-checks")


def test_it_prints_published_simulated_and_error_and_never_fails_for_a_miss(validated, experiments):
    only = ("--only", "A1", "--only", "A2", "--only", "A34", "--only", "B")
    code, out, err = validated(*SMALL_WORLD, "--repetitions", 1, "--experiments", experiments, *only)
    assert code == 0
    assert "Article A: Benchmarking: Multiple data files on SSDs" in out
    (line,) = [line for line in out.splitlines() if line.startswith("  A1 ")]
    assert "2,993 s" in line
    assert "outside" in line
    assert out.count("not simulated yet") == 119
    assert "there is no spec random-inserts yet" in out
    assert "row_cpu_ns" in out
    assert "timing.program_ns" in out
    assert "[8/8]" in err


def test_each_figure_is_simulated_at_another_scale_and_with_what_is_left_open(validated, experiments):
    asked = ("--scale", 64, "--jobs", 1, "--repetitions", 1, "--experiments", experiments, "--only", "A10")
    code, out, err = validated(*asked, "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert code == 0
    assert float(row["change_at_other_scale"]) != 0
    assert float(row["band_low"]) <= float(row["band_high"])
    assert err.count("runs to make") == 2 + 4


def test_open_inputs_are_keys_of_the_spec_and_figures_of_a_drive(experiments):
    (planned,) = plan(articles(["A10"]), Request(experiments, repetitions=2))
    worlds = [world_of(block.first_cell.config).scenario(block, one.site.profiles)
              for one in planned.open for block in list(one.plan.blocks.values())[:1]]  # fmt: skip
    points = [world["drives"]["ssd"]["profile"]["cleaning"]["streams"]["value"] for world in worlds]
    assert [world["runs"][0]["log_bytes"] for world in worlds] == [8e9, 60e9, 8e9, 8e9]
    assert points == ["separate", "separate", "shared", "separate"]
    assert [[run.repetition for run in one.plan.runs[:2]] for one in planned.open] == [[1, 2]] * 3 + [[1, 1]]


def test_a_scale_at_which_a_cache_is_smaller_than_a_burst_is_refused(validated):
    code, _, err = validated("--only", "C1", "--scale", 64)
    said = " ".join(err.split())
    assert code == 2
    assert "target.scale: at scale 64 the cache of scsi-a has 8 MiB, but 16.5 MiB may be written to it at once" in said
    assert "a scale of at most 31 avoids this" in said


def test_csv_and_json_hold_raw_numbers_and_intervals_over_seeds(validated, experiments, tmp_path):
    asked = (*SMALL_WORLD, "--repetitions", 3, "--experiments", experiments, "--only", "A1", "--only", "D1")
    code, out, err = validated(*asked, "--format", "csv", "--results", tmp_path)
    first, second = csv.DictReader(io.StringIO(out))
    assert (code, first["id"], second["verdict"]) == (0, "A1", "not simulated yet")
    assert float(first["simulated_low"]) < float(first["simulated"]) < float(first["simulated_high"])
    assert "12 runs to make, 0 stored already" in err

    code, out, err = validated(*asked, "--format", "json", "--results", tmp_path)
    content = json.loads(out)
    assert "0 runs to make, 12 stored already" in err
    assert content["figures"][0]["simulated"] == float(first["simulated"])
    assert content["simulations"][0]["repetitions"] == 3
    assert {"label", "source", "bounds"} <= set(content["parameters"][0])


def test_it_writes_a_document_and_later_only_between_its_marks(validated, experiments, tmp_path):
    file = tmp_path / "validation.md"
    asked = (*SMALL_WORLD, "--repetitions", 1, "--experiments", experiments, "--only", "A1", "--write", file)
    assert validated(*asked)[0] == 0
    first = file.read_text()
    assert first.count("| A1 | elapsed") == 1
    file.write_text(first.replace("# The model", "Words of a person.\n\n# The model") + "\nMore words.\n")
    assert validated(*asked)[0] == 0
    again = file.read_text()
    assert again.startswith("Words of a person.")
    assert again.endswith("More words.\n")
    assert again.count("| A1 | elapsed") == 1


def test_a_document_without_the_marks_is_refused_before_anything_runs(validated, experiments, tmp_path):
    file = tmp_path / "notes.md"
    file.write_text("mine")
    code, _, err = validated("--experiments", experiments, "--write", file)
    assert (code, file.read_text()) == (2, "mine")
    assert "has no lines" in err
    assert "runs to make" not in err
    with pytest.raises(StoragelabError):
        table.existing(file)


def test_a_folder_of_specs_that_there_is_not_is_the_users_mistake(validated, tmp_path):
    code, _, err = validated("--experiments", tmp_path / "none")
    assert code == 2
    assert "--experiments" in err
