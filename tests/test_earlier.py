"""Runs that earlier versions stored, read as those of today."""

import gzip
import json
from pathlib import Path

import pytest
from builders import make_experiment, make_measurement, make_plan
from shell import typed

from storagelab.model.config import Config
from storagelab.model.loads.base import Work
from storagelab.model.loads.inserts import Mixed, RandomInsert
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Experiment, Race
from storagelab.run.damage import config_of_today, experiment_of_today, measurement_of_today
from storagelab.run.store import FILE_NAME

UNUSED = {"operation": None, "pattern": None, "block_bytes": None, "threads": 1, "outstanding": 1, "duration_s": 60.0,
          "warm_up_s": 0.0, "read_fraction": None}  # fmt: skip
EARLIER = {
    "kind": "random-insert",
    "connections": 16,
    "rows_per_connection": 20000,
    "rows_per_transaction": 1000,
    **UNUSED,
}
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
