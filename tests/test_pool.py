"""Blocks of simulated runs, made side by side, interrupted and taken up again: what is stored is always the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from real_servers import site_at
from simulated_specs import SMALL, planned, small

from storagelab import pool
from storagelab.errors import RunFailed
from storagelab.store import Store
from storagelab.targets.simulated import block
from storagelab.targets.simulated.block import STATE_FOLDER

PLAN = planned()


class Listening:
    """Notes what it is told, and may stop it all after some runs."""

    def __init__(self, stop_after: int = 10**6) -> None:
        self.began: list[int] = []
        self.ended: list[int] = []
        self.stop_after = stop_after

    def started(self, planned, cell) -> None:
        self.began.append(planned.sequence)

    def rows_done(self, planned, rows) -> None:
        assert 0 <= rows <= 4_000_000

    def stored(self, run) -> None:
        self.ended.append(run.sequence)
        if len(self.ended) == self.stop_after:
            raise KeyboardInterrupt


def make(folder, *, jobs: int = 1, again: bool = False, stop_after: int = 10**6) -> Listening:
    listener = Listening(stop_after)
    with Store.writing(folder, small()) as store:
        pool.run_all(PLAN, store, site_at(folder), listener, again=again, jobs=jobs)
    return listener


def results(folder) -> dict[int, str]:
    """What each run came to, without the time that it took here."""
    with Store.reading(folder) as store:
        runs = store.runs()
    assert {run.status for run in runs} == {"ok"}
    kept = {run.sequence: run.measurement.model_copy(update={"teardown_s": None}).model_dump_json() for run in runs}
    assert len(kept) == len(runs)
    return kept


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> dict[int, str]:
    """The results of all runs, made in one go and in one process."""
    folder = tmp_path_factory.mktemp("straight")
    listener = make(folder)
    assert listener.began == listener.ended == [run.sequence for run in PLAN.runs]
    return results(folder)


def test_repetitions_differ(straight):
    assert len(set(straight.values())) == len(PLAN.runs) == 8


def test_results_are_the_same_however_many_processes_make_them(tmp_path, straight):
    listener = make(tmp_path, jobs=2)
    assert sorted(listener.ended) == sorted(straight)
    assert results(tmp_path) == straight


@pytest.mark.parametrize("made", [1, 3, 6])
def test_a_campaign_that_is_interrupted_goes_on_as_if_it_had_not_been(tmp_path, straight, made):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, stop_after=made)
    assert len(results(tmp_path)) == made
    assert len(make(tmp_path).ended) == 8 - made
    assert results(tmp_path) == straight


def test_one_that_is_interrupted_amid_several_processes_too(tmp_path, straight):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, jobs=2, stop_after=3)
    make(tmp_path, jobs=2)
    assert results(tmp_path) == straight


def states(folder):
    return sorted((folder / STATE_FOLDER).iterdir())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b"not a drive"),
        lambda file: file.write_bytes(file.read_bytes()[:-1]),
        lambda file: file.write_bytes(file.read_bytes()[:-9] + b"spoilt..."),
        lambda file: file.write_bytes(file.read_bytes().replace(b'"identity": "', b'"identity": "0')),
    ],
)
def test_drives_that_are_lost_or_damaged_are_made_again(tmp_path, straight, spoil):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, stop_after=2)
    (saved,) = states(tmp_path)
    spoil(saved)
    make(tmp_path)
    assert results(tmp_path) == straight


def test_drives_saved_after_a_run_that_was_not_stored_are_not_used(tmp_path, straight):
    """A kill between the two."""
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "one", stop_after=1)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "other", stop_after=2)
    (behind,), (ahead,) = states(tmp_path / "one"), states(tmp_path / "other")
    behind.write_bytes(ahead.read_bytes())
    make(tmp_path / "one")
    assert results(tmp_path / "one") == straight


def test_drives_of_finished_blocks_are_not_kept(tmp_path):
    make(tmp_path)
    assert states(tmp_path) == []


def test_running_again_makes_nothing(tmp_path):
    make(tmp_path)
    assert make(tmp_path, jobs=2).began == []


def test_a_defect_of_the_simulator_fails_its_run_and_those_that_need_its_drives(tmp_path, monkeypatch):
    class Defective:
        def __init__(self, real) -> None:
            self.real, self.state = real, real.state

        def run_next(self, progress):
            if self.real.runs_done == 2:
                raise RuntimeError("a defect of the simulator: two and two are five")
            return self.real.run_next(progress)

    made = block.Block._made
    monkeypatch.setattr(block.Block, "_made", lambda *given: Defective(made(*given)))
    assert len(make(tmp_path).ended) == 8
    with Store.reading(tmp_path) as store:
        runs = {run.sequence: run for run in store.runs()}
    assert [runs[number].status for number in range(8)] == ["ok", "ok", "failed", "failed"] * 2
    assert runs[2].reason == "a defect of the simulator: two and two are five"
    assert runs[3].reason.endswith("in an earlier run of its block: a defect of the simulator: two and two are five")


def test_what_failed_is_made_again_when_asked_on_the_drives_that_it_had(tmp_path, monkeypatch, straight):
    with monkeypatch.context() as patch:
        patch.setattr(block.Block, "_save", lambda self: (_ for _ in ()).throw(RunFailed("the disk is full")))
        make(tmp_path)
    assert make(tmp_path).ended == []
    assert len(make(tmp_path, again=True).ended) == 8
    with Store.reading(tmp_path) as store:
        latest = {run.sequence: run for run in store.runs()}
    assert {run.attempt for run in latest.values()} == {2}
    kept = {n: run.measurement.model_copy(update={"teardown_s": None}).model_dump_json() for n, run in latest.items()}
    assert kept == straight


def test_what_breaks_in_a_process_breaks_the_campaign(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "tasks", lambda *_, **__: [None, None])
    with pytest.raises(AttributeError):
        make(tmp_path, jobs=2)


@pytest.mark.slow
def test_ctrl_c_stops_all_processes_amid_their_runs_and_says_how_to_go_on(tmp_path):
    spec = tmp_path / "small.toml"
    spec.write_text(SMALL.replace("500_000", "25_000_000").replace("scale = 256", "scale = 4"))
    command = [sys.executable, "-m", "storagelab.cli", "run", str(spec), "--results", str(tmp_path / "r"), "-j", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ})
    log = tmp_path / "r" / "small" / "run.log"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and log.read_text().count("start ") == 2):
        time.sleep(0.05)
    time.sleep(0.3)
    asked = time.monotonic()  # a run takes half a minute or more
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "run again to go on" in shown
    assert "Traceback" not in shown
    assert time.monotonic() - asked < 6  # a second, and what Python takes to end two processes on a busy machine


def test_the_state_says_whose_it_is_and_where_it_stands(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, stop_after=3)
    (saved,) = states(tmp_path)
    header = json.loads(saved.read_bytes().partition(b"\n")[0])
    assert header["runs_done"] == 3
    assert len(header["bytes"]) == 1


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        (None, "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.check=3", "glibc.malloc.check=3:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
    ],
)
def test_processes_that_simulate_are_started_with_large_memory_pages_unless_the_user_says_otherwise(
    before, inside, monkeypatch
):
    if before is None:
        monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    else:
        monkeypatch.setenv("GLIBC_TUNABLES", before)
    with pool._environment():
        told = subprocess.run(
            [sys.executable, "-c", "import os; print(os.environ['GLIBC_TUNABLES'])"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert told.stdout.strip() == inside
    assert os.environ.get("GLIBC_TUNABLES") == before
