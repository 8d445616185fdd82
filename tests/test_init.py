"""`storagelab init` writes specs that plan as they are; `demo` runs the first of them."""

import json
import os
import shutil
import tomllib

import jsonschema
import pytest
from raw_io_specs import needs_fio
from real_mariadb import needs_mariadb

from storagelab.experiments import FOLDER, MEASURED, SCHEMA, SIMULATED, files_of, question_of, text_of
from storagelab.spec.schema import spec_schema_text
from storagelab.verbs import _init as init
from storagelab.verbs import _running as run

NAMES = sorted(file.stem for file in FOLDER.glob("*.toml"))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes drives")
NEEDS = {
    "mariadb-durability": needs_mariadb, "quickstart-engines": needs_mariadb, "raw-io-on-your-drives": needs_fio,
    "cloud-disks": needs_root, "file-systems": needs_root,
    "zfs-by-your-own-commands": pytest.mark.skipif(shutil.which("zfs") is None, reason="no ZFS"),
}  # fmt: skip
RECIPES = (
    "cloud-disks", "drive-to-buy", "file-systems", "hot-table", "index-volume", "io-method", "mariadb-durability",
    "mounted-drives", "wal-volume", "your-own", "zfs-by-your-own-commands",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS.get(name, ())) for name in RECIPES])
def test_what_init_writes_plans_at_once(typed, home, attached, monkeypatch, name):
    monkeypatch.setenv("STORAGELAB_DSN", attached.conninfo)
    assert typed("init", name, "--output", "my.toml")[0] == 0
    code, out, err = typed("plan", "my.toml", *(["--allow-commands"] if name.startswith("zfs") else []))
    assert (code, err.count("storagelab:")) == (0, 0), err
    out = " ".join(out.split())
    assert tomllib.loads(text_of(name))["question"] in out
    if name == "mounted-drives":
        assert "log of a server that runs already stays where it is" in out


def test_init_lists_every_spec_by_group_on_one_screen_with_its_whole_question(typed, home, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = typed("init")
    lines, groups = out.splitlines(), MEASURED | SIMULATED
    assert (code, len(lines) <= 40, max(map(len, lines)) <= 80) == (0, True, True)
    rows = [line.split(maxsplit=1) for line in lines if line.startswith("  ")]
    assert rows == [[name, question_of(name)] for names in groups.values() for name in names]
    twins = [f"{name}-randomised" for name in [*SIMULATED.values()][-1]]
    assert sorted([*(name for name, _ in rows), *twins]) == NAMES


def test_a_spec_goes_to_stdout_and_the_files_that_it_needs_beside_it(typed, home):
    code, out, _ = typed("init", "your-own")
    assert (code, out) == (0, text_of("your-own"))
    assert {name: (home / name).read_text("utf-8") for name in files_of("your-own")} == files_of("your-own")


def test_the_list_is_there_for_programs_too(typed):
    listed = json.loads(typed("init", "--json")[1])
    assert {one["name"] for one in listed if one["measured"]} == {name for of in MEASURED.values() for name in of}
    assert all(one["question"].endswith("?") for one in listed)


def test_init_overwrites_nothing_and_knows_its_names(typed, home):
    (home / "my.toml").write_text("mine")
    assert "is there already" in typed("init", "wal-volume", "-o", "my.toml")[2]
    assert (home / "my.toml").read_text() == "mine"
    code, _, err = typed("init", "wal-volum")
    assert code == 2
    assert "Did you mean wal-volume?" in err
    assert "exclude each other" in typed("init", "wal-volume", "--ask")[2]


def test_the_demo_is_the_quick_start_in_the_folder_of_results(home, monkeypatch):
    asked = []
    monkeypatch.setattr(run, "run", lambda *words: asked.append(words) or True)
    assert init.demo(home / "results")
    assert asked == [(home / "results" / "quickstart.toml", home / "results", run.Asked())]
    assert (home / "results" / "quickstart.toml").read_text("utf-8") == text_of("quickstart")


def test_a_quick_start_that_was_changed_is_not_taken_for_the_demo(typed, home):
    (home / "results").mkdir()
    (home / "results" / "quickstart.toml").write_text("#\nrepetitions = 1\n")
    code, _, err = typed("demo")
    assert code == 2
    assert "results/quickstart.toml: is not the quick start" in err
    (home / "results" / "quickstart.toml").unlink()
    os.mkfifo(home / "results" / "quickstart.toml")
    code, _, err = typed("demo")
    assert (code, "results/quickstart.toml can't be read: is not a regular file" in err) == (2, True)


def test_every_spec_names_the_schema_in_its_first_line_and_keeps_it():
    schema = json.loads(spec_schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for name in NAMES:
        assert text_of(name).splitlines()[0] == f"#:schema {SCHEMA.as_uri()}"
        jsonschema.validate(tomllib.loads(text_of(name)), schema)
    assert SCHEMA.read_text("utf-8") == spec_schema_text()


@pytest.mark.parametrize(
    "wrong",
    ["repetition = 5", "repetitions = 0", 'order = "random"', '[workload]\nkind = "pgbnch"', "[layout]\nlogs = 1"],
)
def test_the_schema_refuses_what_plan_refuses(wrong):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(wrong), json.loads(spec_schema_text()))


def test_the_schema_verb_prints_it(typed):
    assert typed("schema")[1] == spec_schema_text()
