"""Damaged stores: every verb reports them in one message and never changes them, and what is left is exported. Large
stores are read in slim form."""

import json
import sqlite3
from pathlib import Path

import pytest
from builders import make_runs

from storagelab.model import plan
from storagelab.run import scheduling, stored
from storagelab.run.store import FILE_NAME, Store
from storagelab.spec import matrix, reading

SPEC = """
repetitions = 3
target = { engine = "postgres" }
volumes.a = { path = "." }
[factors]
"layout.data_files" = [1, 2]
"""
READING = (["report"], ["report", "--format", "md"], ["waits"], ["export"])


@pytest.fixture
def store(home) -> Path:
    """A store of six runs; FABRICATED, as is all of builders."""
    (home / "files.toml").write_text(SPEC)
    experiment = reading.load(home / "files.toml")
    with Store.writing(home / "results" / "files", experiment) as opened:
        for run in make_runs(experiment, matrix.expand(experiment)):
            opened.append(run)
    return home / "results" / "files" / FILE_NAME


def change(store: Path, statement: str, *values: object) -> None:
    """Makes a change that the store's triggers forbid."""
    connection = sqlite3.connect(store, isolation_level=None)
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statement, values)
    connection.close()


def with_elapsed(elapsed: str) -> str:
    return f"UPDATE run SET measurement = json_set(measurement, '$.elapsed_s', {elapsed}) WHERE rowid = 2"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE run SET measurement = '{' WHERE rowid = 2", "measurement: is not complete JSON"),
        ("UPDATE run SET measurement = '[1]' WHERE rowid = 2", "measurement: can't be [1]"),
        ("UPDATE run SET levels = '7' WHERE rowid = 2", "levels: can't be 7"),
        ("UPDATE run SET levels = '{\"x\": 1}' WHERE rowid = 2", "no cell of that name has its levels"),
        ("UPDATE run SET config = '{}' WHERE rowid = 2", "config.target: is missing"),
        ("UPDATE run SET reason = cast(x'fffe' AS TEXT) WHERE rowid = 2", "can't decode byte 0xff"),
        (
            "UPDATE run SET measurement = json_set(measurement, '$.counters', json('{\"wal\": {\"bytes\": 1e308}}')) "
            "WHERE rowid = 2",
            "counters.wal.bytes: is out of range",
        ),
        (with_elapsed("1e308"), "measurement: elapsed_s: is out of range"),
    ],
)
def test_a_run_that_is_not_as_it_should_be_is_named_and_the_others_are_exported(typed, store, statement, words):
    change(store, statement)
    before = store.read_bytes()
    for verb in READING:
        code, out, err = typed(verb[0], "files", *verb[1:])
        assert (code, out) == (2, "")
        assert f"{Path('results/files') / FILE_NAME} is damaged:\n    run c0" in err
        assert words in err
        assert "5 runs can still be read; export them: `storagelab export --salvage files --results " in err
    code, out, err = typed("export", "--salvage", "files")
    assert code == 0
    assert "5 runs can be read of the 6 that the spec asks for\nlost: run c0" in err
    assert sum(len(cell["runs"]) for cell in json.loads(out)["cells"]) == 5
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE experiment SET experiment = '{}'",
        "UPDATE experiment SET experiment = '[' || experiment",
        "UPDATE experiment SET experiment = json_set(experiment, '$.base', json('{\"volumes\": 7}'))",
        "UPDATE experiment SET experiment = json_set(experiment, '$.indifferent', '3 or so')",
    ],
)
def test_of_an_experiment_that_cannot_be_read_the_spec_as_written_is_taken(typed, store, statement):
    change(store, statement)
    code, _, err = typed("report", "files")
    assert code == 2
    assert "is damaged:\n    its experiment: " in err
    code, out, err = typed("export", "--salvage", "files")
    assert (code, len(json.loads(out)["cells"])) == (0, 2)
    assert "6 runs can be read" in err


def test_where_the_spec_is_gone_too_its_file_is_asked_for(typed, store):
    change(store, "DELETE FROM experiment")
    code, _, err = typed("export", "--salvage", "files")
    assert code == 2
    assert "name its spec file instead" in err
    code, out, _ = typed("export", "--salvage", "files.toml")
    assert (code, len(json.loads(out)["cells"])) == (0, 2)


def test_past_pages_that_are_lost_the_other_runs_are_read(typed, store):
    content = bytearray(store.read_bytes())
    connection = sqlite3.connect(store)
    page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    at = content.index(b'"provenance":"measured"') // page_bytes * page_bytes
    content[at : at + 100] = b"\xa5" * 100
    store.write_bytes(content)
    code, _, err = typed("report", "files")
    assert code == 2
    assert "is damaged:" in err
    assert "export --salvage files" in err
    code, out, err = typed("export", "--salvage", "files")
    assert code == 0
    assert "lost: " in err
    assert 1 <= sum(len(cell["runs"]) for cell in json.loads(out)["cells"]) < 6
    assert store.read_bytes() == content


@pytest.mark.parametrize("elapsed", ["0", "0.0", "-4.5"])
def test_a_stored_run_of_no_time_is_read_as_failed_by_every_verb(typed, store, elapsed):
    change(store, with_elapsed(elapsed))
    change(store, f"UPDATE run SET elapsed_s = {elapsed} WHERE rowid = 2")
    for verb in (*READING, ["export", "--format", "csv"], ["report", "--format", "svg"]):
        code, _, err = typed(verb[0], "files", *verb[1:])
        assert (code, "damaged" in err) == (0, False)
    exported = json.loads(typed("export", "files")[1])
    failed = [run for cell in exported["cells"] for run in cell["runs"] if run["status"] == "failed"]
    assert [run["reason"] for run in failed] == ["no time passed between its first start and its last finish"]


def test_of_very_many_runs_a_report_reads_the_series_of_the_first_repetitions_and_an_export_all(
    typed, store, monkeypatch
):
    all_runs = stored.read("files", store.parent.parent).runs
    monkeypatch.setattr(plan, "MANY_RUNS", 5)  # two of each cell, of six runs
    for one, whole in zip(stored.read("files", store.parent.parent).runs, all_runs, strict=True):
        assert bool(one.measurement.series.at_s) == bool(one.measurement.waiting_tasks) == (one.repetition <= 2)
        dropped = {"series", "waiting_tasks"}
        assert one.measurement.model_dump(exclude=dropped) == whole.measurement.model_dump(exclude=dropped)
    code, _, _ = typed("report", "files")
    page = (store.parent / "report.html").read_text()
    assert (code, "are only those of the first 2 repetitions of each layout" in page) == (0, True)
    exported = json.loads(typed("export", "files")[1])
    assert all(run["measurement"]["series"]["at_s"] for cell in exported["cells"] for run in cell["runs"])


def test_plan_tells_of_a_store_that_run_would_refuse(typed, store):
    sound = store.read_bytes()

    def planned() -> str:
        code, out, _ = typed("plan", "files.toml")
        assert code == 0
        return " ".join(out.split())

    assert "would refuse" not in planned()
    store.write_bytes(sound[:-5000])
    assert f"{FILE_NAME} is damaged; `run` would refuse" in planned()
    store.write_bytes(b"something else\n" * 500)
    assert "is not a storagelab store" in planned()
    store.write_bytes(sound)
    change(store, "PRAGMA user_version = 99")
    assert "was written with schema version 99" in planned()


def test_run_refuses_a_damaged_store_before_it_makes_a_run(typed, store):
    change(store, "DELETE FROM run WHERE rowid > 3")
    change(store, "UPDATE run SET measurement = '{' WHERE rowid = 2")
    before = store.read_bytes()
    code, _, err = typed("run", "files.toml")
    assert code == 2
    assert "2 runs can still be read" in err
    assert store.read_bytes() == before
    change(store, "UPDATE run SET cell_id = 'c99' WHERE rowid = 2")
    change(store, "UPDATE run SET measurement = NULL, status = 'failed' WHERE rowid = 2")
    before = store.read_bytes()
    assert typed("run", "files.toml")[0] == 2
    assert store.read_bytes() == before


def test_a_link_in_a_circle_is_no_store(typed, store):
    store.unlink()
    store.symlink_to(store.name)
    for words in (["report", "files"], ["run", "files.toml"], ["export", "--salvage", "files"]):
        code, _, err = typed(*words)
        assert (code, FILE_NAME in err) == (2, True)


def test_a_campaign_that_an_earlier_version_began_goes_on_and_is_read_in_its_own_order(home):
    (home / "files.toml").write_text(SPEC.replace("[1, 2]", "[1, 2, 4, 8, 16, 32]"))
    experiment = reading.load(home / "files.toml")
    earlier = matrix.expand(experiment.model_copy(update={"balanced": False}))
    assert earlier.runs != matrix.expand(experiment).runs
    with Store.writing(home / "results" / "files", experiment) as opened:
        opened.append(*make_runs(experiment, earlier)[:7])
    # As earlier versions stored it: nothing is said of balance.
    change(
        home / "results" / "files" / FILE_NAME,
        "UPDATE experiment SET experiment = json_remove(experiment, '$.balanced')",
    )
    assert matrix.expand(stored.as_begun(experiment, home / "results")) == earlier
    assert stored.read("files", home / "results").plan == earlier
    with Store.writing(home / "results" / "files", experiment) as opened:
        begun = stored.as_begun(experiment, home / "results")
        pending = scheduling.pending(matrix.expand(begun), opened.attempts())
    assert pending == list(earlier.runs[7:])
