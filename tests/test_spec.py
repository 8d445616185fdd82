"""The allowed content of a spec, and the refusal of everything else."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from fabricated_findings import golden
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_specs import SMALL, changed
from spec_texts import MINIMAL, TARGET, VOLUMES, factor, planned, refusal
from test_hardware import ARRAYS
from test_raw_io import SPEC as RAW_IO

from storagelab.errors import SpecError
from storagelab.model.plan import Experiment, Plan
from storagelab.run.stored import judged_as_in
from storagelab.spec.keys import known_paths
from storagelab.spec.matrix import expand
from storagelab.spec.reading import differences, load, parse

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


# --- Sound specs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cells", "runs"), [("quickstart", 5, 25), ("files-and-log-place", 14, 70), ("a-a", 2, 16)]
)
def test_the_ready_made_specs_load_and_expand(name: str, cells: int, runs: int) -> None:
    experiment = load(EXPERIMENTS / f"{name}.toml")
    plan = expand(experiment)
    assert (experiment.name, len(plan.cells), len(plan.runs)) == (name, cells, runs)
    assert experiment.question.endswith("?")


def test_the_cells_of_the_a_a_experiment_differ_in_their_label_only() -> None:
    first, second = expand(load(EXPERIMENTS / "a-a.toml")).cells
    assert first.levels != second.levels
    assert first.config == second.config


def test_a_spec_needs_only_an_engine_and_a_volume() -> None:
    plan = planned(TARGET + '[volumes.a]\npath = "."\n')
    assert [cell.levels for cell in plan.cells] == [{}]
    assert [run.repetition for run in plan.runs] == [1, 2, 3, 4, 5]


def test_the_whole_content_of_a_spec_reaches_the_experiment() -> None:
    text = 'name = "x"\nquestion = "why?"\nrepetitions = 2\norder = "as-listed"\nseed = 9\n' + factor(
        '"layout.data_files" = [1, 2]'
    )
    experiment = parse(text, "lab/files.toml")
    said = experiment.name, experiment.question, experiment.repetitions, experiment.order, experiment.seed
    assert said == ("x", "why?", 2, "as-listed", 9)
    assert experiment.source == "lab/files.toml"
    assert experiment.text == text
    assert experiment.base == {
        "target": {"engine": "postgres"},
        "volumes": {"a": {"path": "./a"}, "b": {"path": "./b"}},
    }


def test_the_name_is_the_file_s_unless_the_spec_says_one() -> None:
    assert parse(MINIMAL, "lab/raid-10_b.toml").name == "raid-10_b"
    assert parse(f'name = "other"\n{MINIMAL}', "lab/raid.toml").name == "other"


def test_defaults_are_left_out_of_the_base_but_stand_in_the_cells() -> None:
    experiment = parse(MINIMAL, "x.toml")
    assert "workload" not in experiment.base
    assert expand(experiment).cells[0].config.workload.connections == 16


def test_a_file_with_a_byte_order_mark_and_windows_lines_is_read(tmp_path: Path) -> None:
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert load(path).name == "windows"


def test_a_list_can_be_a_level_where_the_key_takes_a_list() -> None:
    plan = planned(factor('"layout.data" = [["a"], ["a", "b"]]'))
    assert [cell.config.layout.data for cell in plan.cells] == [("a",), ("a", "b")]
    assert [cell.levels["layout.data"] for cell in plan.cells] == [["a"], ["a", "b"]]


def test_any_setting_of_the_server_can_be_a_factor_even_one_with_a_dot_in_its_name() -> None:
    plan = planned(factor('"target.settings.auto_explain.log_min_duration" = [0, "1s"]'))
    settings = [cell.config.target.settings for cell in plan.cells]
    assert settings == [{"auto_explain.log_min_duration": 0}, {"auto_explain.log_min_duration": "1s"}]


def test_the_path_of_a_declared_volume_can_be_a_factor() -> None:
    plan = planned(factor('"volumes.b.path" = ["/x", "/y"]'))
    assert [cell.config.volumes["b"].path for cell in plan.cells] == ["/x", "/y"]
    assert {cell.config.volumes["a"].path for cell in plan.cells} == {"./a"}


def test_a_labelled_level_sets_several_keys_and_one_with_a_label_only_sets_none() -> None:
    plan = planned(
        factor('place = [{ label = "as is" }, { label = "apart", "layout.data" = ["a"], "layout.log" = "b" }]')
    )
    assert [cell.levels for cell in plan.cells] == [{"place": "as is"}, {"place": "apart"}]
    assert [cell.config.log_volume for cell in plan.cells] == ["a", "b"]


def test_a_factor_can_bring_what_the_tables_leave_out() -> None:
    plan = planned(VOLUMES + '[factors]\n"target.engine" = ["postgres"]\n')
    assert plan.cells[0].config.target.engine == "postgres"


def test_a_pause_can_be_written_with_its_unit_in_a_table_and_as_a_factor() -> None:
    assert planned(f'{MINIMAL}[between_runs]\npause = "500ms"\n').cells[0].config.between_runs.pause_s == 0.5
    plan = planned(factor('"between_runs.pause" = ["0s", "2min"]'))
    assert [cell.config.between_runs.pause_s for cell in plan.cells] == [0.0, 120.0]


def test_a_whole_number_will_do_where_a_fraction_could_stand() -> None:
    assert planned(f"{MINIMAL}[between_runs]\npause_s = 2\n").cells[0].config.between_runs.pause_s == 2.0


def test_a_running_server_needs_no_volume() -> None:
    assert planned(TARGET + 'dsn_env = "LAB_DSN"\n').cells[0].config.target.attached
    assert planned(TARGET + 'dsn = "postgresql://me@db:5432/lab"\n').cells[0].config.target.attached


# --- The file --------------------------------------------------------------------------------------------------------


def unreadable(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert caught.value.hint
    return str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "no such file" in unreadable(tmp_path / "none.toml")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder" in unreadable(tmp_path)


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b'question = "caf\xe9"\n')
    assert "not UTF-8 text: byte 16" in unreadable(path)


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop.toml"
    loop.symlink_to(loop)  # unlike a mode without r, this stops root too
    assert "can't be read: Too many levels of symbolic links" in unreadable(loop)
    assert "can't be read: " in unreadable(Path("a\0b.toml"))


def test_nesting_without_end_and_numbers_without_end_are_refused() -> None:
    assert "nested too deeply" in refusal(f"seed = {'[' * 5000}").problem
    assert "nested too deeply" in refusal(f"{'a.' * 5000}a = 1").problem
    assert "is not valid TOML" in refusal(f"seed = {'9' * 5000}").problem
    assert "out of range" in refusal(f"seed = 0x{'f' * 5000}").problem


# --- Keys and values -------------------------------------------------------------------------------------------------

REFUSED = json.loads(golden("refusals", "json").read_text("utf-8"))
BASES = {"small": SMALL, "arrays": ARRAYS, "raw": RAW_IO}


def text_of(case: dict[str, Any]) -> str:
    """The spec of a case: as it stands there, or one of `BASES` with changes."""
    return changed(case.get("spec") or BASES[case["of"]], *case.get("changes", ()))


def said_of(case: dict[str, Any]) -> str:
    return str(refusal(text_of(case))).removeprefix("lab/files.toml: ")


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["case"])
def test_what_a_spec_may_not_say_is_refused_as_it_was(case: dict[str, Any]) -> None:
    """With the place, what is wrong with it, and the way out."""
    assert said_of(case) == case["says"]


def test_all_errors_of_a_spec_are_told_each_with_its_file() -> None:
    wrong = f'repetitions = 0\nseeed = 1\n{TARGET}[volumes.a]\npaht = "."\nfile = "8"\n[layout]\ndata_files = "4"\n'
    told = [line.split(": ")[1] for line in str(refusal(wrong)).splitlines() if line.startswith("lab/files.toml: ")]
    assert told == ["seeed", "repetitions", "volumes.a.paht", "volumes.a.file_bytes", "layout.data_files"]
    levels = factor('"layout.data_files" = [0]\n"layout.logs" = ["a"]\nx = [{ label = "x", "volumes.c.path" = "." }]')
    assert [error.key for error in (refusal(levels), *refusal(levels).others)] == [
        'factors."layout.data_files"[1]', 'factors."layout.logs"', 'factors.x[1]."volumes.c.path"',
    ]  # fmt: skip
    both = refusal(f'{MINIMAL}[layout]\ndata = ["c"]\nlog = "d"\n')
    assert [error.problem for error in (both, *both.others)] == ['no volume is named "c"', 'no volume is named "d"']


def test_of_very_many_errors_only_some_are_told() -> None:
    text = MINIMAL + "[workload]\n" + "".join(f"unknown_{number} = 1\n" for number in range(50))
    assert "and 38 more" in str(refusal(text))


ZFS = "storagelab does not make ZFS; your own commands can: storagelab init zfs-by-your-own-commands"


@pytest.mark.parametrize(
    ("line", "way_out"),
    [
        ('[volumes.c]\npath = "."\nfile = "8GiB"\nfilesystem = "zfs"', ZFS),
        ('[layout]\ndata_files = "4"', "Write it without quotes: data_files = 4."),
        ('[volumes.c]\nsector_bytes = "4096"', "Write it without quotes: sector_bytes = 4096."),
    ],
)
def test_what_was_meant_is_named(line: str, way_out: str) -> None:
    assert refusal(f"{MINIMAL}{line}\n").hint == way_out


def test_a_labelled_level_with_a_wrong_key_names_the_nearest_few() -> None:
    hint = refusal(factor('x = [{ label = "x", "zzz" = "ext4" }]')).hint
    assert "more." in hint
    assert len(hint) < 300


def test_a_dsn_gives_the_engine() -> None:
    for dsn, engine in (("postgresql://me@db/lab", "postgres"), ("host=db", "postgres"), ("mysql://me@db", "mariadb")):
        assert planned(f'[target]\ndsn = "{dsn}"\n').cells[0].config.target.engine == engine
    assert refusal('[target]\ndsn = "http://db"\n').key == "target.engine"


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(refusal(f'{MINIMAL}[layout]\ndata_files = "{"x" * 5000}"\n').problem) < 200


def test_a_file_whose_name_can_t_name_the_results_is_refused_saying_so() -> None:
    with pytest.raises(SpecError, match="name: \"My Spec\", taken from the file's name, can't be the name of a"):
        parse(MINIMAL, "lab/My Spec.toml")


# --- What makes two specs the same -----------------------------------------------------------------------------------


def sha256(text: str) -> str:
    return parse(text, "x.toml").sha256


def changes(old: str, new: str) -> list[str]:
    return differences(parse(old, "x.toml").canonical, parse(new, "x.toml").canonical)


def test_comments_blanks_and_the_order_of_keys_do_not_make_another_spec() -> None:
    one = MINIMAL + "[workload]\nconnections = 4\nrows_per_connection = 10\n"
    other = "[workload]  # here\nrows_per_connection = 1_0\n\n\nconnections = 4\n" + MINIMAL
    assert sha256(one) == sha256(other)
    assert changes(one, other) == []


def test_any_other_change_makes_another_spec_and_is_named() -> None:
    one = "repetitions = 3\n" + factor('"layout.data_files" = [1, 2]')
    other = "repetitions = 5\n" + factor('"layout.data_files" = [1, 2, 4]') + '[layout]\nlog = "b"\n'
    assert sha256(one) != sha256(other)
    assert changes(one, other) == [
        "repetitions: 3 -> 5",
        'factors."layout.data_files": [1, 2] -> [1, 2, 4]',
        'layout.log: (not set) -> "b"',
    ]
    assert changes(other, one)[2] == 'layout.log: "b" -> (not set)'


def test_one_and_true_and_one_point_zero_are_changes() -> None:
    specs = [f"{MINIMAL}[target.settings]\nx = {value}\n" for value in ("1", "true", "1.0")]
    assert len({sha256(text) for text in specs}) == 3
    assert changes(specs[0], specs[1]) == ["target.settings.x: 1 -> true"]


def test_the_order_of_factors_and_of_volumes_matters_since_cells_and_data_files_follow_it() -> None:
    lines = ['"layout.data_files" = [1, 2]', '"layout.log" = ["a", "b"]']
    one, other = factor("\n".join(lines)), factor("\n".join(lines[::-1]))
    assert sha256(one) != sha256(other)
    assert changes(one, other) == ["order of factors: layout.data_files, layout.log -> layout.log, layout.data_files"]
    swapped = '[volumes.b]\npath = "./b"\n[volumes.a]\npath = "./a"\n'
    assert changes(MINIMAL, TARGET + swapped) == ["order of volumes: a, b -> b, a"]


def test_a_change_inside_a_labelled_level_is_named_by_its_place() -> None:
    one = factor('x = [{ label = "y", "layout.log" = "a" }, { label = "z" }]')
    other = factor('x = [{ label = "y", "layout.log" = "b" }, { label = "z" }]')
    assert changes(one, other) == ['factors.x[1]."layout.log": "a" -> "b"']
    assert changes(one, factor('x = [{ label = "y", "layout.log" = "a" }]')) == [
        'factors.x: [{"label": "y", "layout.log": "a"}, {"label": "z"}] -> [{"label": "y", "layout.log": "a"}]'
    ]


def test_an_experiment_survives_being_written_as_json_and_read_again() -> None:
    experiment = load(EXPERIMENTS / "files-and-log-place.toml")
    again = Experiment.model_validate_json(experiment.model_dump_json())
    assert again == experiment
    assert expand(again) == expand(experiment)


def toml(value: object) -> str:
    """A value as TOML writes it, tables inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(inside)}" for key, inside in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(inside) for inside in value) + "]"
    return json.dumps(value)


PATHS = [path.replace("NAME", "x") for path in known_paths({"volumes": {"a": {}}})] + ["between_runs.pause"]
SCALARS = (
    st.sampled_from(["a", "postgres", "sequential-insert", "1s", "", "."])
    | st.integers(-2, 5)
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(["a", "path"]), inside, max_size=2),
    max_leaves=4,
)
LABELLED = st.dictionaries(st.sampled_from(PATHS), SCALARS, max_size=2).map(lambda level: {"label": "y", **level})
LEVELS = st.lists(SCALARS, max_size=3) | st.lists(VALUES, max_size=3) | st.lists(LABELLED, max_size=2)
FACTORS = st.dictionaries(st.sampled_from([*PATHS, "free", "seed", ""]), LEVELS, max_size=3)
EXCLUDES = st.lists(st.dictionaries(st.sampled_from(PATHS), SCALARS, max_size=1), max_size=1)


def outcome(text: str) -> Plan | SpecError:
    try:
        return planned(text)
    except SpecError as error:
        return error


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(PATHS), SCALARS | VALUES, max_size=2), FACTORS, EXCLUDES)
def test_whatever_stands_in_a_spec_is_planned_or_refused_by_its_key(
    keys: dict[str, object], factors: dict[str, object], excludes: list[object]
) -> None:
    said = {"target.engine": "postgres", "volumes.a.path": "."} | keys
    lines = [f"{path} = {toml(value)}" for path, value in said.items()]
    came_out = outcome("\n".join([*lines, f"factors = {toml(factors)}", f"exclude = {toml(excludes)}"]))
    if isinstance(came_out, SpecError):
        assert came_out.key
        assert "pydantic" not in str(came_out)
    else:
        assert came_out.runs


@pytest.mark.parametrize(
    ("name", "order"),
    [
        *((name, "cell-by-cell") for name in ("multiple-data-files", "random-inserts", "sequential-inserts")),
        ("raw-io-flash-against-disks", "as-listed"),
    ],
)
def test_an_article_has_a_twin_in_a_random_order_that_differs_in_nothing_else_but_its_burn_in(
    name: str, order: str
) -> None:
    article, twin = load(EXPERIMENTS / f"{name}.toml"), load(EXPERIMENTS / f"{name}-randomised.toml")
    assert (article.order, twin.order) == (order, "randomised")
    assert twin.base.pop("between_runs") == {**article.base.pop("between_runs", {}), "burn_in": 1}
    assert (twin.base, twin.factors, twin.excludes) == (article.base, article.factors, article.excludes)
    assert (twin.question, twin.repetitions) == (article.question, article.repetitions)
    assert "The order of the runs matters" in article.text


# --- How results are judged ------------------------------------------------------------------------------------------


def test_a_margin_is_a_share_of_the_time() -> None:
    for said in ("2.5%", "2.5 %", " 2.5 % "):
        assert parse(f'indifferent = "{said}"\n{MINIMAL}', "x.toml").margin == 0.025
    assert parse(MINIMAL, "x.toml").margin is None


def test_how_results_are_judged_may_change_while_they_are_kept() -> None:
    bare = factor('"layout.data_files" = [1, 2]')
    judged = f'prefer = ["fastest"]\nindifferent = "3%"\n{bare}[labels]\n"layout.data_files" = "files"\n'
    one, other = parse(bare, "x.toml"), parse(judged, "x.toml")
    assert one.sha256 == other.sha256
    assert differences(one.canonical, other.canonical) == []
    taken = judged_as_in(one, other)
    assert (taken.prefer, taken.indifferent, taken.factors) == (("fastest",), "3%", other.factors)


def test_a_spec_of_other_runs_does_not_judge_them() -> None:
    one = parse(factor('"layout.data_files" = [1, 2]'), "x.toml")
    other = parse(f'indifferent = "3%"\n{factor(chr(34) + "layout.data_files" + chr(34) + " = [1, 4]")}', "x.toml")
    assert judged_as_in(one, other) is one


KINDS = """kind = [
  { label = "random" },
  { label = "ascending", "workload.kind" = "sequential-insert" },
  { label = "half reads", "workload.kind" = "mixed", "workload.read_fraction" = 0.5 },
]"""


def test_each_level_may_bring_its_own_kind_and_keys() -> None:
    loads = [cell.config.workload for cell in planned(factor(KINDS)).cells]
    assert [load.kind for load in loads] == ["random-insert", "sequential-insert", "mixed"]
    assert [load.reads_per_row for load in loads] == [0.0, 0.0, 1.0]


def test_the_kind_of_raw_io_follows_from_its_engine() -> None:
    raw_io = """[target]\nengine = "raw-io"\n[drives.d]\nprofile = "scsi-15k-300"\n[volumes.a]\ndrives = ["d"]
        [workload]\noperation = "read"\npattern = "random"\nblock = "8KiB"\n"""
    for text in (raw_io, raw_io + 'kind = "raw-io"\n'):
        assert planned(text).cells[0].config.workload.kind == "raw-io"


# --- what belongs in no spec ------------------------------------------------------------------------------------------


def test_a_question_may_have_lines_and_a_label_any_script() -> None:
    assert planned('question = """\nhow many\tfiles,\nand where?"""\n' + factor('x = [{ label = "שקל 日本 é 🙂" }]'))


def test_nesting_that_the_parser_follows_is_refused_by_its_table() -> None:
    assert refusal("question = " + "[" * 200 + "]" * 200).problem == "is nested too deeply"
    assert refusal("a." * 2000 + "a = 1").problem == "is nested too deeply"


def test_keys_that_would_keep_the_parser_busy_for_hours_are_refused_at_once() -> None:
    began = time.monotonic()
    error = refusal("seed = 1\n" + "a." * 200_000 + "a = 1")
    assert (error.key, error.problem) == ("line 2", "is nested too deeply")
    assert time.monotonic() - began < 5


def test_more_volumes_or_levels_than_anyone_means_are_refused_at_once() -> None:
    error = refusal(TARGET + "".join(f'[volumes.v{number}]\npath = "."\n' for number in range(20_000)))
    assert (error.key, error.problem) == ("volumes", "has 20,000 entries; at most 1,024 are allowed")
    error = refusal(factor(f'"layout.data_files" = {json.dumps(list(range(100_000)))}'))
    assert error.key == 'factors."layout.data_files"'


def test_a_key_of_a_megabyte_is_not_printed_whole() -> None:
    assert len(str(refusal(f"{'k' * 10**6} = 1"))) < 1000
    assert len(str(refusal(f'"{"k e" * 10**5}" = 1'))) < 1000
    assert len(str(refusal(factor(f'"between_runs.pause" = ["{"9" * 10**5} parsecs"]')))) < 1000
