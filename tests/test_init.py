"""`storagelab init` writes specs that plan as they are."""

import json
import os
import re
import shutil
import tomllib

import jsonschema
import pytest
from raw_io_specs import needs_fio
from real_mariadb import needs_mariadb

from storagelab.experiments import FOLDER, MEASURED, SCHEMA, SIMULATED, files_of, question_of, text_of
from storagelab.spec.schema import schema_text, spec_schema

NAMES = sorted(file.stem for file in FOLDER.glob("*.toml"))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes drives")
NEEDS = {
    "mariadb-durability": needs_mariadb, "quickstart-engines": needs_mariadb, "raw-io-on-your-drives": needs_fio,
    "cloud-disks": needs_root, "file-systems": needs_root, "replay": needs_fio,
    "sysbench-engines": needs_mariadb,
    "zfs-by-your-own-commands": pytest.mark.skipif(shutil.which("zfs") is None, reason="no ZFS"),
}  # fmt: skip
ABOUT_THIS_MACHINE = {
    "on one device": "volumes", "few reads reach the drive": "scale|table_size|volumes|limits",
    "this measures memory": "scale|table_size", "how much data your files make": "your own tables",
    "runs may be measured before the redo log is full": "MariaDB", "the trace has": "your own",
    "are too short": "The runs are short", "data is prepared": "makes the tables once",
}  # fmt: skip
"""The facts that `plan` lacks until a user adds them, and the messages that ask for them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=NEEDS.get(name, ())) for names in MEASURED.values() for name in names]
)
def test_a_ready_made_spec_plans_as_printed_or_says_first_what_it_needs(typed, home, monkeypatch, name):
    monkeypatch.delenv("STORAGELAB_DSN", raising=False)
    assert typed("init", name, "--output", "my.toml")[0] == 0
    asks = " ".join(line for line in text_of(name).splitlines()[1:] if line.startswith("#"))
    code, out, err = typed("plan", "my.toml")
    for caution in [line for line in " ".join(out.split()).split("Runs ")[0].split("! ")[1:] if line]:
        (words,) = [words for claim, words in ABOUT_THIS_MACHINE.items() if claim in caution]
        assert re.search(words, asks), f"{caution}: nothing in the spec asks for what would end it"
    if code:
        wanted = {
            "devices": "devices", "raid_level": "devices", "dsn_env": "STORAGELAB_DSN", "prepare": "--allow-commands",
        }  # fmt: skip
        key = err.split(": ")[2].rpartition(".")[2]
        assert wanted[key] in asks.partition("Needs ")[2], err
    else:
        assert tomllib.loads(text_of(name))["question"] in " ".join(out.split())


@pytest.mark.slow
def test_a_spec_for_a_running_server_plans_once_the_variable_names_it(typed, home, attached, monkeypatch):
    monkeypatch.setenv("STORAGELAB_DSN", attached.conninfo)
    assert typed("init", "mounted-drives", "--output", "my.toml")[0] == 0
    code, out, err = typed("plan", "my.toml")
    assert (code, "too short" in out) == (0, False), err
    assert "log of a server that runs already stays where it is" in " ".join(out.split())


def test_init_lists_every_spec_by_group_on_one_screen_with_its_whole_question(typed, home, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = typed("init")
    lines, groups = out.splitlines(), MEASURED | SIMULATED
    assert (code, len(lines) <= 40, max(map(len, lines)) <= 80) == (0, True, True)
    rows = [line.split(maxsplit=1) for line in lines if line.startswith("  ")]
    assert rows == [[name, question_of(name)] for names in groups.values() for name in names]
    twins = ["drive-history-reversed", *(f"{name}-randomised" for name in [*SIMULATED.values()][-1])]
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
    assert "Did you mean wal-volume?" in typed("init", "wal")[2]
    assert "exclude each other" in typed("init", "wal-volume", "--ask")[2]
    for word in ("wal", "wal-volume", "wal-volume.toml"):
        assert "storagelab init wal-volume > wal-volume.toml" in typed("plan", word)[2]


def test_every_spec_names_the_schema_in_its_first_line_and_keeps_it():
    schema = spec_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for name in NAMES:
        assert text_of(name).splitlines()[0] == f"#:schema {SCHEMA.as_uri()}"
        jsonschema.validate(tomllib.loads(text_of(name)), schema)
    assert SCHEMA.read_text("utf-8") == schema_text(spec_schema())


@pytest.mark.parametrize(
    "wrong",
    ["repetition = 5", "repetitions = 0", 'order = "random"', '[workload]\nkind = "pgbnch"', "[layout]\nlogs = 1"],
)
def test_the_schema_refuses_what_plan_refuses(wrong):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(wrong), spec_schema())


def test_the_schema_verb_prints_it(typed):
    assert typed("schema")[1] == schema_text(spec_schema())
