"""`storagelab simulate`: one run, with the simulator's whole input and output."""

import json

import pytest
from simulated_specs import ONE_BLOCK, SMALL
from typer.testing import CliRunner

from storagelab import _sim
from storagelab.cli import app
from storagelab.errors import PreflightError

RAW = """
target = { engine = "raw-io", scale = 64 }
drives.cloud = { profile = "cloud-gp2-500" }
drives.disk = { profile = "scsi-15k-300" }
volumes.a = { drives = ["cloud"] }
volumes.b = { drives = ["disk"] }
layout = { data = ["a"] }
workload = { operation = "read", pattern = "random", block = "8KiB", outstanding = 4, duration = "64s" }
[factors]
"layout.data" = [["a"], ["b"]]
"""


@pytest.fixture
def simulated(tmp_path):
    """What the verb prints for a spec, after `changes` to it."""

    def simulate(text: str, *words: str) -> str:
        file = tmp_path / "small.toml"
        file.write_text(text)
        done = CliRunner().invoke(app, ["simulate", str(file), *words], env={"COLUMNS": "100"})
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    return simulate


def test_a_run_is_told_by_its_time_and_its_waits(simulated):
    out = simulated(SMALL)
    assert "rows, 8 connections" in out
    assert "WRITELOG" in out
    assert "at scale 256" in out


def test_the_trace_holds_the_scenario_with_its_defaults_and_the_outcome_that_it_gives_again(simulated):
    told = json.loads(simulated(SMALL, "--trace"))
    assert told["cell"]["levels"] == {"drives.ssd.format": "basic", "layout.data_files": 1}
    scenario = told["scenario"]
    assert scenario["volumes"]["a"]["stripe_bytes"] == 131_072, "a default of the core"
    assert scenario["runs"][0]["log_bytes"] == 8_000_000_000, "another one"
    assert len(scenario["runs"]) == 1
    again = _sim.Block(json.dumps(scenario)).run_next()
    assert again is not None
    assert json.loads(again) == told["outcome"]


def test_every_io_is_listed_on_request_and_changes_nothing_else(simulated):
    plain = json.loads(simulated(SMALL, "--trace"))["outcome"]
    listed = json.loads(simulated(SMALL, "--every-io"))["outcome"]
    every_io = listed.pop("every_io")
    assert listed == plain
    appended = [io for io in every_io if io["access"] == "append"]
    assert len(appended) == plain["counters"]["log_flushes"]
    assert sum(io["bytes"] for io in appended) == plain["counters"]["log_bytes"]
    assert [io["at_ns"] for io in every_io] == sorted(io["at_ns"] for io in every_io)


def test_a_cell_is_chosen_by_its_name_and_a_wrong_one_is_refused_with_those_that_there_are(simulated):
    first, second = (json.loads(simulated(RAW, *words, "--trace")) for words in ((), ("--cell", "c02")))
    assert (first["cell"]["id"], second["cell"]["id"]) == ("c01", "c02")
    assert [one["scenario"]["tests"][0]["volume"] for one in (first, second)] == ["a", "b"]
    with pytest.raises(PreflightError, match="no cell is called 'nobody'") as caught:
        simulated(RAW, "--cell", "nobody")
    assert "c01, c02" in str(caught.value)


def test_raw_io_can_be_traced_too_with_each_request(simulated):
    told = json.loads(simulated(RAW, "--every-io"))
    assert told["scenario"]["tests"][0]["outstanding"] == 4
    assert len(told["outcome"]["every_io"]) == told["outcome"]["submitted"]
    assert "3,000 IO/s" in simulated(RAW), "the burst rate"


def test_what_is_not_simulated_is_refused_with_the_way_out(simulated, tmp_path):
    real = SMALL.replace('engine = "simulated"\nscale = 256', 'engine = "postgres"').replace(
        '[server]\ncores = 4\nmemory = "4GB"\n', ""
    )
    real = real.replace('drives = ["ssd"]', f'path = "{tmp_path}"').replace(*ONE_BLOCK)
    start, end = real.index("[drives.ssd]"), real.index("[volumes.a]")
    with pytest.raises(PreflightError, match="is for simulated cells"):
        simulated(real[:start] + real[end:])
