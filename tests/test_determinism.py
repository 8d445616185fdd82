"""The same spec and seed give the same bytes: debug or release build, one process or two, in one go or with a rest."""

import csv
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from simulated_specs import SMALL

from storagelab import _sim, profiles
from storagelab.run.store import FILE_NAME

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent / "golden"
NOT_RESULTS = ("started_at", "finished_at", "wall_s")
"""Columns with when and how long the runs took here."""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("name", sorted(file.stem for file in GOLDEN.glob("*.json")))
def test_the_release_build_finds_the_digests_that_the_debug_build_found(name):
    """crates/sim/src/tests/golden.rs is the other half, and says how to renew them."""
    scenario = json.loads((GOLDEN / f"{name}.json").read_text())
    for drive in scenario["drives"].values():
        drive["profile"] = profiles.load(drive["profile"], Path()).model_dump(exclude_none=True)
    if "tests" in scenario:
        block: _sim.Block | _sim.RawBlock = _sim.RawBlock(json.dumps(scenario))
    else:
        block = _sim.Block(json.dumps({**scenario, "server": with_ready_made(scenario["server"])}))
    found = []
    while (outcome := block.run_next()) is not None:
        found.append(f"{name} run {len(found)} {sha256(outcome.encode())}")
    found.append(f"{name} drives {sha256(b''.join(block.state()))}")
    kept = (GOLDEN / "digests.txt").read_text().splitlines()
    assert found == [line for line in kept if line.startswith(f"{name} ")]


def with_ready_made(said: dict[str, object]) -> dict[str, object]:
    """A server as a scenario has it, with the ready-made profile's costs, and with its switches where none are said."""
    ready_made = profiles.server()
    switches = {name: figure.value for name, figure in ready_made.switches.items()} | dict(said.get("switches", {}))
    costs = {name: figure.model_dump(exclude_none=True) for name, figure in ready_made.costs.items()}
    return {**said, "switches": switches, "costs": costs}


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "storagelab", *words, "--results", str(folder)]


def completed(folder: Path, *words: str) -> None:
    done = subprocess.run(command(folder, *words), capture_output=True, text=True, timeout=120, env={**os.environ})
    assert done.returncode == 0, done.stderr


def rows(folder: Path) -> list[dict[str, object]]:
    """The raw rows of the store, without the clock of this machine."""
    with closing(sqlite3.connect(folder / "small" / FILE_NAME)) as store:
        store.row_factory = sqlite3.Row
        found = [dict(row) for row in store.execute("SELECT * FROM run ORDER BY sequence")]
    for row in found:
        assert row["status"] == "ok"
        for column in NOT_RESULTS:
            assert row.pop(column)
        measured = json.loads(row["measurement"])
        measured.pop("teardown_s", None)
        row["measurement"] = json.dumps(measured)
    return found


@pytest.fixture(scope="module")
def spec(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("spec") / "small.toml"
    moved = SMALL.replace("[factors]", "[between_runs]\nmove_files = true\n[factors]")
    file.write_text(moved.replace("scale = 256", "scale = 512"))
    return file


@pytest.fixture(scope="module")
def in_one_go(spec, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    completed(folder, "run", str(spec), "--jobs", "1")
    assert len(rows(folder)) == 8
    return folder


def test_one_process_and_two_store_and_export_the_same(spec, in_one_go, tmp_path, typed):
    completed(tmp_path, "run", str(spec), "--jobs", "2")
    assert rows(tmp_path) == rows(in_one_go)
    for form in ("json", "csv"):
        ours, theirs = (typed("export", "small", "--format", form, "--results", each) for each in (tmp_path, in_one_go))
        assert (ours[0], theirs[0]) == (0, 0)
        assert without_clock(ours[1]) == without_clock(theirs[1])


def without_clock(export: str) -> object:
    """An export without when and how long the runs took here."""
    if not export.startswith("{"):
        table = list(csv.DictReader(export.splitlines()))
        assert len(table) == 8
        return [{key: value for key, value in row.items() if key not in NOT_RESULTS} for row in table]
    content = json.loads(export)

    def strip(inside: object) -> object:
        if isinstance(inside, dict):
            return {key: strip(value) for key, value in inside.items() if key not in (*NOT_RESULTS, "teardown_s")}
        return [strip(value) for value in inside] if isinstance(inside, list) else inside

    return strip(content)


def test_a_campaign_that_was_killed_amid_a_block_goes_on_to_the_same_rows(spec, in_one_go, tmp_path):
    """Killed without warning, as by a power cut, at a moment that the clock decides."""
    words = command(tmp_path, "run", str(spec), "--jobs", "1")
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "[3/8]" in line:
            process.kill()
            break
    process.wait(timeout=30)
    process.stderr.close()
    assert 0 < len(rows(tmp_path)) < 8
    completed(tmp_path, "run", str(spec), "--jobs", "2")
    assert rows(tmp_path) == rows(in_one_go)
