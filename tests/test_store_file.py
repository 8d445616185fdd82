"""A store may come from anybody. A store with content that storagelab didn't make is refused before any query."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from builders import make_experiment, make_plan, make_runs

from storagelab.errors import StoreError
from storagelab.run import store_file
from storagelab.run.store import FILE_NAME, Store

EXPERIMENT = make_experiment({"layout.data_files": [1, 2]}, repetitions=2)
RUNS = make_runs(EXPERIMENT, make_plan(EXPERIMENT))
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"


@pytest.fixture
def folder(tmp_path) -> Path:
    with Store.writing(tmp_path / "results", EXPERIMENT) as store:
        store.append(*RUNS)
    return tmp_path / "results"


def change(folder: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def refused(folder: Path) -> str:
    """What every way to open the store says of it."""
    said = set()
    for opened in (Store.reading(folder), Store.salvaging(folder), Store.writing(folder, EXPERIMENT)):
        with pytest.raises(StoreError) as told, opened:
            pass
        said.add(str(told.value))
    (message,) = said
    return message


COLUMNS = (
    "cell_id, repetition, attempt, sequence, block, seed, status, reason, started_at, finished_at, wall_s, elapsed_s, "
    "row_count, levels, config, measurement"
)


@pytest.mark.parametrize(
    ("statements", "what"),
    [
        (["ALTER TABLE run RENAME TO kept", f"CREATE VIEW run AS SELECT {COLUMNS} FROM kept, ({ENDLESS})"], "'kept'"),
        (["DROP TABLE run", f"CREATE VIEW run AS {ENDLESS}"], "view 'run'"),
        ([f"CREATE VIEW more AS {ENDLESS}"], "view 'more'"),
        (["CREATE TRIGGER more AFTER INSERT ON run BEGIN SELECT randomblob(1000000000); END"], "trigger 'more'"),
        (["CREATE INDEX more ON run (length(hex(reason)))"], "index 'more'"),
        (["CREATE VIRTUAL TABLE more USING fts5(x)"], "table 'more'"),
        (["ALTER TABLE run ADD COLUMN more TEXT AS (hex(hex(hex(config))))"], "table 'run'"),
        (["ALTER TABLE run ADD COLUMN more TEXT CHECK (length(hex(zeroblob(100000000))) > 0)"], "table 'run'"),
        (["ALTER TABLE run RENAME COLUMN levels TO level"], "table 'run'"),
        (["DROP TABLE run"], "no table 'run'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_store_with_anything_that_storagelab_did_not_make_is_refused_at_once(folder, statements, what):
    with contextlib.suppress(sqlite3.OperationalError):
        change(folder, "DROP TRIGGER run_is_never_deleted", "DROP TRIGGER run_is_never_changed", "DELETE FROM run")
    change(folder, *statements)
    message = refused(folder)
    assert f"{FILE_NAME} is not as storagelab makes it: " in message
    assert what in message
    assert "ask them for an export" in message


def test_a_view_that_has_no_end_ends_even_if_it_were_asked(folder):
    change(folder, f"CREATE VIEW endless AS {ENDLESS}")
    told = pytest.raises(StoreError, match="is not as storagelab makes it: interrupted")
    with contextlib.closing(store_file.connect(folder / FILE_NAME, "rw")) as connection, told:
        store_file.ask(connection, folder / FILE_NAME, "SELECT count(*) FROM endless")


@pytest.mark.parametrize(
    "statement",
    [ENDLESS, "SELECT randomblob(9)", "ATTACH ':memory:' AS other", "PRAGMA writable_schema = ON", "DELETE "
    "FROM experiment",
     "CREATE TABLE more (x)", "UPDATE run SET reason = ''"],
)  # fmt: skip
def test_of_an_open_store_nothing_else_can_be_asked(folder, statement):
    with (
        Store.writing(folder, EXPERIMENT) as store,
        pytest.raises(sqlite3.DatabaseError, match=r"not authorized|prohibited"),
    ):
        store._connection.execute(statement)


def test_stores_of_all_versions_are_ours_and_also_those_without_their_triggers(folder):
    schema = "SELECT sql FROM sqlite_schema WHERE name = 'run'"
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        ((today,),) = connection.execute(schema)
    since = "repetition   INTEGER NOT NULL,                       -- from 1 up"
    first = today.replace(since, "repetition INTEGER NOT NULL CHECK (repetition >= 1), -- from 1 up")
    assert first != today
    change(folder, "DROP TABLE run", first, "DROP TRIGGER experiment_is_never_changed", "PRAGMA user_version = 1")
    with Store.writing(folder, EXPERIMENT) as store:
        store.append(*RUNS)
        assert store.runs() == RUNS


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    for make in (
        os.mkfifo,
        os.mkdir,
        lambda place: os.symlink("nowhere", place),
        lambda place: os.symlink("/dev/zero", place),
    ):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        make(folder / FILE_NAME)
        assert "is not a readable file\n  move it away" in refused(folder)
        assert not (folder / "nowhere").exists()


def test_a_file_of_holes_is_refused_at_once(folder):
    os.truncate(folder / FILE_NAME, 2**40)
    assert "nearly all of it is holes" in refused(folder)


def test_a_link_to_a_store_is_read_and_never_added_to(folder, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / FILE_NAME).symlink_to(folder / FILE_NAME)
    with Store.reading(tmp_path / "other") as store:
        assert store.runs() == RUNS
    with pytest.raises(StoreError, match="adds no runs through a link"), Store.writing(tmp_path / "other", EXPERIMENT):
        pass


def test_a_journal_deletes_no_file_that_it_names(folder, tmp_path):
    """SQLite removes the file that a journal of several databases names, whoever wrote the journal."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    name = bytes(victim)
    with (folder / FILE_NAME).open("rb") as file:
        page = file.read(4096)
    header = bytes.fromhex("d9d505f920a163d7") + (0).to_bytes(4, "big") + bytes(4)
    header += (len((folder / FILE_NAME).read_bytes()) // len(page)).to_bytes(4, "big")
    header += (512).to_bytes(4, "big") + len(page).to_bytes(4, "big")
    end = (2**30 // len(page) + 1).to_bytes(4, "big") + name + len(name).to_bytes(4, "big")
    end += sum(byte if byte < 128 else byte - 256 for byte in name).to_bytes(4, "big") + bytes.fromhex(
        "d9d505f920a163d7"
    )
    (folder / f"{FILE_NAME}-journal").write_bytes(header.ljust(512, b"\0") + end)
    assert "names another file, which SQLite would delete" in refused(folder)
    assert victim.exists()


def test_a_link_in_place_of_a_journal_is_refused(folder, tmp_path):
    (tmp_path / "victim").write_text("mine")
    (folder / f"{FILE_NAME}-journal").symlink_to(tmp_path / "victim")
    assert "no regular file, as SQLite's journals are" in refused(folder)
    assert (tmp_path / "victim").read_text() == "mine"


LOCKS_IT = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("holding", flush=True)
time.sleep(600)
"""


def test_a_locked_store_names_the_process_that_holds_it(folder, monkeypatch):
    monkeypatch.setattr(store_file, "_BUSY_TIMEOUT_S", 0.1)
    with subprocess.Popen(
        [sys.executable, "-c", LOCKS_IT, str(folder / FILE_NAME), "password=secret"], stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        try:
            with pytest.raises(StoreError) as told, Store.reading(folder) as store:
                store.runs()
        finally:
            holder.kill()
    assert "database is locked" in str(told.value)
    assert f"process {holder.pid} (" in str(told.value)
    assert "secret" not in str(told.value)
    assert "is the disk full" not in str(told.value)
