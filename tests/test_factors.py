"""What may be varied and excluded, and how anything else is refused."""

from __future__ import annotations

import pytest
from spec_texts import factor, planned, refusal

from storagelab.model.plan import Factor, Level
from storagelab.spec.factors import is_condition, is_load, sets_load
from storagelab.spec.reading import parse

# --- Loads and choices -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["connections", "read_fraction", "rows_per_transaction", "kind", "block_bytes"])
def test_all_that_the_connections_do_is_the_load(name):
    assert is_load(Factor(name=f"workload.{name}", levels=(Level(value=1, sets={f"workload.{name}": 1}),)))


@pytest.mark.parametrize(
    "path",
    ["between_runs.pause_s", "between_runs.format_drives", "measure.sample_hz", "workload.connections"],
)
def test_what_layouts_are_tried_under_is_a_condition_and_nothing_to_choose(path):
    factor = Factor(name=path, levels=(Level(value=1, sets={path: 1}),))
    assert is_condition(factor)
    assert is_load(factor) == path.startswith("workload.")


@pytest.mark.parametrize("path", ["layout.data_files", "drives.ssd.format", "server.cores", "target.settings.x"])
def test_whatever_else_a_spec_has_can_be_chosen(path):
    assert not is_condition(Factor(name=path, levels=(Level(value=1, sets={path: 1}),)))


def test_labels_are_a_load_if_they_set_nothing_else():
    idle = Level(value="as it stands", sets={})
    reads = Level(value="half reads", sets={"workload.kind": "mixed", "workload.read_fraction": 0.5})
    both = Level(value="reads and files", sets={"workload.read_fraction": 0.5, "layout.data_files": 4})
    assert is_load(Factor(name="mix", levels=(idle, reads)))
    assert not is_load(Factor(name="mix", levels=(reads, both)))
    assert sets_load(Factor(name="mix", levels=(idle, both)))
    assert not is_condition(Factor(name="twin", levels=(idle,)))
    rested = Level(value="rested, half reads", sets={"between_runs.pause_s": 60, "workload.read_fraction": 0.5})
    assert is_condition(Factor(name="mix", levels=(idle, rested)))
    assert not is_load(Factor(name="mix", levels=(idle, rested)))


# --- Factors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('"layout.data_fils" = [1, 2]', 'Did you mean "layout.data_files"?'),
        ('"data_files" = [1, 2]', 'Did you mean "layout.data_files"?'),
        ('"workload.data_files" = [1, 2]', 'Did you mean "layout.data_files"?'),
        ('"layout.data_files." = [1, 2]', 'Did you mean "layout.data_files"?'),
        ('"layout.data_files.x" = [1, 2]', 'Did you mean "layout.data_files"?'),
        ('"zzz" = [1, 2]', "A factor can be any of: target.engine"),
        ('"target.settings" = [1, 2]', "target.settings.NAME"),
        ('"layout" = [1, 2]', "layout.data, layout.data_files, layout.log"),
        ('"volumes.a" = ["x"]', "volumes.a.path"),
        ('"volumes.c.path" = ["x"]', "The spec's volumes: a, b"),
        ('x = [{ label = "y", "layout.data_fils" = 1 }]', 'Did you mean "layout.data_files"?'),
        ('x = [{ label = "y", layout.data_files = 1 }]', "in quotes"),
    ],
)
def test_a_factor_path_that_names_nothing_is_refused_with_the_nearest_one(line: str, hint: str) -> None:
    error = refusal(factor(line))
    assert error.key is not None
    assert error.key.startswith("factors.")
    assert hint in error.hint


def test_a_path_without_quotes_is_refused_saying_to_quote_it() -> None:
    error = refusal(factor("layout.data_files = [1, 2]"))
    assert error.key == "factors.layout"
    assert '"layout.data_files" = ' in error.hint


def test_a_factor_without_levels_is_refused() -> None:
    error = refusal(factor('"layout.data_files" = []'))
    assert (error.key, error.problem) == ('factors."layout.data_files"', "has no levels")


def test_a_factor_that_is_a_single_value_is_refused() -> None:
    assert refusal(factor('"layout.data_files" = 4')).problem == "must be a list of levels, not 4"


@pytest.mark.parametrize("levels", ["1, 2, 1", "2, 1, 1"])
def test_a_level_listed_twice_is_refused(levels: str) -> None:
    error = refusal(factor(f'"layout.data_files" = [{levels}]'))
    assert (error.key, error.problem) == ('factors."layout.data_files"[3]', "1 is listed twice")


def test_two_spellings_of_one_duration_are_one_level() -> None:
    error = refusal(factor('"between_runs.pause" = ["1s", "2s", "1000ms"]'))
    assert (error.key, error.problem) == ('factors."between_runs.pause"[3]', '"1000ms" is listed twice')
    assert 'the same as "1s"' in error.hint


def test_one_and_true_are_two_levels() -> None:
    assert len(planned(factor('"target.settings.x" = [1, true]')).cells) == 2
    assert "listed twice" in refusal(factor('"target.settings.x" = [1, 1.0]')).problem


@pytest.mark.parametrize(
    ("line", "key", "problem"),
    [
        (
            '"layout.data_files" = [1, "two"]',
            'factors."layout.data_files"[2]',
            'must be a whole number from 1 to 1024, not "two"',
        ),
        (
            '"layout.data_files" = [1, [2]]',
            'factors."layout.data_files"[2]',
            "must be a whole number from 1 to 1024, not [2]",
        ),
        ('"layout.data_files" = [0]', 'factors."layout.data_files"[1]', "must be a whole number from 1 to 1024, not 0"),
        ('"layout.data" = [["a"], "b"]', 'factors."layout.data"[2]', "must be a list with at least 1 item"),
        ('"layout.data" = [["a"], [1]]', 'factors."layout.data"[2]', "must be text in quotes, not 1"),
        ('"layout.data" = [[]]', 'factors."layout.data"[1]', "must be a list with at least 1 item"),
        (
            '"target.engine" = ["postgres", "oracle"]',
            'factors."target.engine"[2]',
            'must be one of "postgres", "mariadb", "sqlserver", "simulated", "raw-io", not "oracle"',
        ),
        ('"target.settings.x" = [[1]]', 'factors."target.settings.x"[1]', "must be text in quotes, a number"),
        ('x = [{ label = "y", "layout.log" = 3 }]', 'factors.x[1]."layout.log"', "must be text in quotes, not 3"),
        (
            'x = [{ label = "y", "layout.log" = {} }]',
            'factors.x[1]."layout.log"',
            "must be text in quotes, not a table",
        ),
    ],
)
def test_a_level_of_the_wrong_type_is_refused_by_its_place(line: str, key: str, problem: str) -> None:
    error = refusal(factor(line))
    assert error.key == key
    assert error.problem.startswith(problem)


@pytest.mark.parametrize(
    ("levels", "key", "problem"),
    [
        ('{ "layout.data_files" = 1 }', "factors.x[1]", "has no label"),
        ('{ label = "y" }, { label = "y" }', "factors.x[2].label", "is also the label of another level"),
        ("{ label = 1 }", "factors.x[1].label", "must be text in quotes, not 1"),
        ('{ label = " " }', "factors.x[1].label", "must be text in quotes"),
        ('{ label = "y" }, 4', "factors.x[2]", "must be a table with a label, not 4"),
        ('4, { label = "y" }', "factors.x[1]", "must be a table with a label, not 4"),
    ],
)
def test_labelled_levels_need_a_label_each_of_its_own(levels: str, key: str, problem: str) -> None:
    error = refusal(factor(f"x = [{levels}]"))
    assert error.key == key
    assert problem in error.problem


@pytest.mark.parametrize(
    "line",
    [
        'x = [{ label = "y", "layout.log" = "a" }]\n"layout.log" = ["a", "b"]',
        '"layout.log" = ["a", "b"]\nx = [{ label = "n" }, { label = "y", "layout.log" = "a" }]',
        '"between_runs.pause" = ["1s"]\n"between_runs.pause_s" = [1]',
    ],
)
def test_two_factors_that_set_the_same_key_are_refused(line: str) -> None:
    error = refusal(factor(line))
    assert ", and so does the factor " in error.problem


@pytest.mark.parametrize("name", ["name", "question", "repetitions", "order", "seed", "costly", "factors", "exclude"])
def test_what_holds_for_the_whole_experiment_can_t_be_a_factor(name: str) -> None:
    for line in (f"{name} = [1, 2]", f'{name} = [{{ label = "x" }}]', f'x = [{{ label = "y", {name} = 1 }}]'):
        error = refusal(factor(line))
        assert error.problem.startswith(f"{name} ")
        assert "names no key" not in error.problem


def test_a_labelled_factor_is_not_named_after_a_key_that_it_does_not_set() -> None:
    assert (
        "is named after the key" in refusal(factor('"layout.log" = [{ label = "y", "layout.data_files" = 1 }]')).problem
    )
    assert planned(factor('"layout.log" = [{ label = "near", "layout.log" = "a" }]')).cells


def test_a_factor_needs_a_name() -> None:
    assert "no name" in refusal(factor('"" = [1]')).problem


def test_a_costly_factor_that_is_not_there_is_refused_with_the_nearest_one() -> None:
    error = refusal('costly = ["layout.dta"]\n' + factor('"layout.data" = [["a"]]'))
    assert error.key == "costly[1]"
    assert "Did you mean layout.data?" in error.hint


# --- Exclusions ------------------------------------------------------------------------------------------------------

TWO_FACTORS = factor('"layout.data_files" = [1, 2]\n"layout.log" = ["a", "b"]')


@pytest.mark.parametrize(
    ("lines", "key", "hint"),
    [
        ('"layout.data_file" = 1', 'exclude[1]."layout.data_file"', "Did you mean layout.data_files?"),
        ('"layout.data_files" = "1"', 'exclude[1]."layout.data_files"', "Did you mean 1?"),
        ('"layout.data_files" = true', 'exclude[1]."layout.data_files"', "Its levels: 1, 2."),
        ('"layout.data_files" = [1, 2]', 'exclude[1]."layout.data_files"', "one [[exclude]] for each"),
        ('"layout.log" = "c"', 'exclude[1]."layout.log"', 'Its levels: "a", "b".'),
        ("layout.log = 'a'", "exclude[1].layout", "in quotes"),
        ("", "exclude[1]", "names no factor"),
    ],
)
def test_an_exclusion_of_what_is_not_there_is_refused(lines: str, key: str, hint: str) -> None:
    error = refusal(f"{TWO_FACTORS}[[exclude]]\n{lines}\n")
    assert error.key == key
    assert hint in error.hint or hint in error.problem


def test_an_exclusion_in_single_brackets_is_refused() -> None:
    error = refusal(f'{TWO_FACTORS}[exclude]\n"layout.log" = "a"\n')
    assert (error.key, error.problem) == ("exclude", "must be a list of tables")
    assert "[[exclude]]" in error.hint


def test_a_spec_that_excludes_all_its_cells_is_refused() -> None:
    text = TWO_FACTORS + "".join(f'[[exclude]]\n"layout.log" = "{name}"\n' for name in "ab")
    error = refusal(text)
    assert (error.key, error.problem) == ("exclude", "leaves none of the 4 cells")


LONG = 25 * "x"

# --- Labels ----------------------------------------------------------------------------------------------------------

LABELLED = factor('"layout.data_files" = [1, 2]') + '[labels]\n"layout.data_files" = "partitions"\n'


def test_a_factor_keeps_the_short_name_that_the_spec_gives_it() -> None:
    assert parse(LABELLED, "lab/files.toml").factors[0].labels == {"layout.data_files": "partitions"}


@pytest.mark.parametrize(
    ("labels", "key", "problem"),
    [
        ('[labels]\n"layout.log" = "log"', 'labels."layout.log"', "nothing that varies is named"),
        ('[labels]\n"layout.data_files" = ""', 'labels."layout.data_files"', "must be text in quotes of"),
        (f'[labels]\n"layout.data_files" = "{LONG}"', 'labels."layout.data_files"', "of at most 24 characters"),
        ("[labels]\nlayout.data_files = 3", "labels.layout", "nothing that varies is named"),
    ],
)  # fmt: skip
def test_a_label_that_names_nothing_or_is_too_long_is_refused(labels: str, key: str, problem: str) -> None:
    error = refusal(factor('"layout.data_files" = [1, 2]') + labels)
    assert error.key == key
    assert problem in error.problem
