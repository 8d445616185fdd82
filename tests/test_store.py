"""The results on disk: append-only, one transaction per run, complete after any kill, one writer at a time."""

import contextlib
import gzip
import json
import multiprocessing
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from builders import make_experiment, make_measurement, make_plan, make_planned, make_run, make_runs
from shell import typed

from storagelab.errors import StoreError
from storagelab.model.config import Config
from storagelab.model.loads.base import Work
from storagelab.model.loads.inserts import Mixed, RandomInsert
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Experiment, Race
from storagelab.run.store import FILE_NAME, Store
from storagelab.run.store_file import SCHEMA_VERSION, config_of_today, experiment_of_today, measurement_of_today

EXPERIMENT = make_experiment({"layout.data_files": [1, 2]}, repetitions=3)
PLAN = make_plan(EXPERIMENT)
RUNS = make_runs(EXPERIMENT, PLAN, failed=lambda planned: "the disk is full" if planned.sequence == 2 else "")


@pytest.fixture
def folder(tmp_path):
    """A store with six runs, one of them failed."""
    with Store.writing(tmp_path / "results", EXPERIMENT) as store:
        for run in RUNS:
            store.append(run)
    return tmp_path / "results"


def raw(folder) -> sqlite3.Connection:
    return sqlite3.connect(folder / FILE_NAME, isolation_level=None)


# --- what goes in comes out ------------------------------------------------------------------------------------------


def test_runs_come_out_as_they_went_in_and_in_that_order(folder):
    with Store.reading(folder) as store:
        assert store.runs() == RUNS
        assert store.experiment() == EXPERIMENT


def test_what_is_stored_is_told_by_cell_and_repetition(folder):
    with Store.reading(folder) as store:
        attempts = store.attempts()
    assert attempts == {(run.cell_id, run.repetition): (1, run.status) for run in RUNS}


def test_a_second_attempt_stands_beside_the_first(folder):
    failed = RUNS[2]
    again = make_run(PLAN.runs[2], PLAN.cell(failed.cell_id), RUNS[0].measurement, attempt=2)
    with Store.writing(folder, EXPERIMENT) as store:
        store.append(again)
        assert store.attempts()[failed.cell_id, failed.repetition] == (2, "ok")
        assert [run.attempt for run in store.runs()] == [1] * 6 + [2]


# --- append-only -----------------------------------------------------------------------------------------------------


def test_a_run_is_stored_once(folder):
    with Store.writing(folder, EXPERIMENT) as store, pytest.raises(StoreError, match="each run is stored only once"):
        store.append(RUNS[0])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE run SET elapsed_s = 1", "UPDATE run SET status = 'ok' WHERE status = 'failed'", "DELETE FROM run",
        "UPDATE experiment SET spec_text = ''", "DELETE FROM experiment",
    ],
)  # fmt: skip
def test_nothing_stored_can_be_changed_or_deleted_even_by_hand(folder, statement):
    connection = raw(folder)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


def test_an_open_reader_can_not_write(folder):
    with Store.reading(folder) as store, pytest.raises(StoreError, match="readonly"):
        store.append(make_run(PLAN.runs[0], PLAN.cells[0], None, "x", attempt=9))


def test_a_store_of_another_spec_with_only_failures_is_kept_aside_and_a_new_one_begun(tmp_path):
    failures = make_runs(EXPERIMENT, PLAN, failed=lambda planned: "no")
    kept = []
    for number, experiment in enumerate((EXPERIMENT, changed(), EXPERIMENT)):
        with Store.writing(tmp_path, experiment) as store:
            kept.append(store.set_aside)
            assert store.runs() == ()
            store.append(failures[number])
    assert kept == [None, tmp_path / "experiment.sqlite.failed-1", tmp_path / "experiment.sqlite.failed-2"]
    with contextlib.closing(sqlite3.connect(kept[1])) as connection:
        assert connection.execute("SELECT cell_id FROM run").fetchall() == [(failures[0].cell_id,)]


def test_only_failures_of_the_same_spec_stay_where_they_are(tmp_path):
    failed = make_runs(EXPERIMENT, PLAN, failed=lambda planned: "no")[0]
    with Store.writing(tmp_path, EXPERIMENT) as store:
        store.append(failed)
    with Store.writing(tmp_path, EXPERIMENT) as store:
        assert (store.set_aside, store.runs()) == (None, (failed,))


# --- another spec, another version, another file ---------------------------------------------------------------------


def changed(**fields: object) -> Experiment:
    return EXPERIMENT.model_copy(update={"sha256": "0" * 64, **fields})


def test_a_store_of_a_newer_version_is_left_alone(folder):
    connection = raw(folder)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    for opened in (Store.reading(folder), Store.writing(folder, EXPERIMENT)):
        with (
            pytest.raises(
                StoreError, match=f"schema version {SCHEMA_VERSION + 1}; this storagelab reads version {SCHEMA_VERSION}"
            ),
            opened,
        ):
            pass


@pytest.mark.parametrize("database", [False, True])
def test_a_file_that_is_no_database_or_another_programs_is_left_alone(tmp_path, database):
    if database:
        with contextlib.closing(raw(tmp_path)) as connection:
            connection.execute("CREATE TABLE recipes (name)")
    else:
        (tmp_path / FILE_NAME).write_text("a shopping list, long enough to be looked at\n" * 50)
    for opened in (Store.reading(tmp_path), Store.writing(tmp_path, EXPERIMENT)):
        with pytest.raises(StoreError, match="is not a storagelab store"), opened:
            pass


def test_where_nothing_has_been_run_it_says_how_to_begin(tmp_path):
    with pytest.raises(StoreError, match="holds no results yet\n  make some: storagelab run"), Store.reading(tmp_path):
        pass
    (tmp_path / FILE_NAME).touch()  # killed before the first write
    with pytest.raises(StoreError, match="holds no results yet"), Store.reading(tmp_path):
        pass
    with Store.writing(tmp_path, EXPERIMENT) as store:
        assert store.runs() == ()


# --- several processes -----------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_and_the_first_goes_on(folder):
    with Store.writing(folder, EXPERIMENT) as store:
        with (
            pytest.raises(StoreError, match="another storagelab is running this experiment"),
            Store.writing(folder, EXPERIMENT),
        ):
            pass
        assert len(store.runs()) == 6
    with Store.writing(folder, EXPERIMENT):
        pass


def _append_forever(folder, started) -> None:
    with Store.writing(folder, EXPERIMENT) as store:
        for attempt in range(1, 1_000_000):
            store.append(make_run(PLAN.runs[0], PLAN.cells[0], RUNS[0].measurement, attempt=attempt))
            started.set()


@pytest.mark.parametrize(
    "after_s", [0.0, 0.05, *(pytest.param(one, marks=pytest.mark.campaign) for one in (0.01, 0.2))]
)
def test_a_kill_at_any_moment_loses_nothing_that_was_stored_and_leaves_no_half_run(tmp_path, after_s):
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    writer = context.Process(target=_append_forever, args=(tmp_path, started))
    writer.start()
    assert started.wait(60)
    with Store.reading(tmp_path) as store:
        before = len(store.runs())  # while the other writes
    time.sleep(after_s)
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    with Store.reading(tmp_path) as store:  # the reader puts right what the kill left
        runs = store.runs()
    assert len(runs) >= before >= 1
    assert [run.attempt for run in runs] == list(range(1, len(runs) + 1))
    assert all(run.measurement == RUNS[0].measurement for run in runs)
    with Store.writing(tmp_path, EXPERIMENT) as store:
        store.append(RUNS[1])
    connection = raw(tmp_path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_store_of_schema_1_is_read_and_gone_on_with(tmp_path):
    experiment, plan = make_planned({"layout.data_files": [1]}, repetitions=2)
    first, second = make_runs(experiment, plan)
    with Store.writing(tmp_path / "x", experiment) as store:
        store.append(first)
    with contextlib.closing(sqlite3.connect(tmp_path / "x" / FILE_NAME)) as connection:
        connection.execute("PRAGMA user_version = 1")
    with Store.writing(tmp_path / "x", experiment) as store:
        store.append(second)
        assert store.runs() == (first, second)


def test_a_run_of_a_version_that_stored_no_verdict_on_durability_gets_it_when_it_is_read(tmp_path):
    experiment, plan = make_planned({"layout.data_files": [1]}, repetitions=1)
    (run,) = make_runs(experiment, plan)
    older = run.measurement.model_dump_json(exclude={"durability"})
    with Store.writing(tmp_path / "x", experiment) as store:
        store.append(run.model_copy(update={"measurement": Measurement.model_validate_json(older)}))
        (read,) = store.runs()
    assert read.measurement.durability.commits == "each commit is on the disk"
    assert read == run


UNUSED = {"operation": None, "pattern": None, "block_bytes": None, "threads": 1, "outstanding": 1, "duration_s": 60.0,
          "warm_up_s": 0.0, "read_fraction": None}  # fmt: skip
EARLIER = {
    "kind": "random-insert", "connections": 16, "rows_per_connection": 20000, "rows_per_transaction": 1000, **UNUSED,
}  # fmt: skip
REQUESTS = {"operation": "read", "pattern": "random", "block_bytes": 8192, "outstanding": 8}


@pytest.mark.parametrize(
    ("said", "workload"),
    [
        ({}, RandomInsert()),
        ({"kind": "mixed", "read_fraction": 0.25, "connections": 2}, Mixed(connections=2, read_fraction=0.25)),
        (REQUESTS, RawIo(**REQUESTS)),
    ],
)
def test_a_configuration_keeps_the_keys_of_its_kind(said, workload):
    earlier = {"target": {"engine": "simulated"}, "workload": {**EARLIER, **said}}
    config = Config.model_validate(config_of_today(earlier))
    assert config.workload == workload
    today = json.loads(config.model_dump_json())
    assert config_of_today(today) == today


@pytest.mark.parametrize("damaged", [None, [], {}, {"workload": None}, {"workload": {"kind": 7}}])
def test_what_is_no_configuration_stays_as_it_is(damaged):
    assert config_of_today(damaged) == damaged


def test_a_key_that_nobody_knows_is_not_dropped():
    said = {"target": {"engine": "postgres"}, "workload": {**EARLIER, "conmections": 4}}
    with pytest.raises(ValueError, match="conmections"):
        Config.model_validate(config_of_today(said))


def test_the_requests_of_raw_io_were_called_rows():
    measured = make_measurement(make_plan(make_experiment({"layout.data_files": [1]})).cells[0].config, 2.0, None)
    text = measured.model_dump_json()
    assert measurement_of_today(text, "random-insert") == text
    earlier = json.dumps({name: value for name, value in json.loads(text).items() if name != "requests"})
    today = measurement_of_today(earlier, "raw-io")
    assert Measurement.model_validate_json(today).work == Work(amount=measured.rows, unit="requests")
    assert measurement_of_today(today, "raw-io") == today


def test_a_measurement_counts_its_work_in_one_unit():
    for counts in ({}, {"rows": 1, "requests": 1}):
        with pytest.raises(ValueError, match="must have either rows, requests or transactions"):
            Measurement(provenance="measured", elapsed_s=1.0, **counts)


def test_a_race_that_began_in_small_worlds_is_read_as_an_experiment_of_which_most_runs_are_missing():
    experiment = make_experiment({"layout.data_files": [1, 4]})
    stored = json.loads(experiment.model_dump_json())
    small = {"scale": 512, "rounds": 3, "runs": 6, "spent_s": 1.5, "log_s": {"c1": 0.1}}
    of_small_worlds = {**stored, "race": {"within": 0.03, "small": small}}
    read = Experiment.model_validate(experiment_of_today(of_small_worlds))
    assert read == experiment.model_copy(update={"judged_before": read.judged_before})
    assert "0.2.0" in read.judged_before
    plain = {**stored, "race": {"within": 0.03, "small": None}}
    assert Experiment.model_validate(experiment_of_today(plain)).race == Race(within=0.03)
    assert experiment_of_today(stored) == stored


@pytest.mark.slow
@pytest.mark.parametrize(("name", "said"), [("raced-good", "version 0.2.0 was the last to judge"), ("fleet", "db2")])
def test_a_campaign_of_version_0_2_0_is_reported_and_exported(tmp_path, name, said):
    """A race for a good layout, and rounds that a fleet of two hosts shared."""
    folder = tmp_path / "results" / name
    folder.mkdir(parents=True)
    stored = Path(__file__).parent / "golden" / "stored" / f"{name}.sqlite.gz"
    (folder / FILE_NAME).write_bytes(gzip.decompress(stored.read_bytes()))
    reported = typed(tmp_path, "report", name, "--format", "md")
    assert reported.returncode == 0, reported.stderr
    assert said in " ".join(reported.stdout.split())
    exported = typed(tmp_path, "export", name)
    assert exported.returncode == 0, exported.stderr
    assert json.loads(exported.stdout)["cells"]
