"""Blocks of simulated runs, made side by side, interrupted and resumed: the stored results are always the same."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import replace

import pytest
from real_servers import site_at
from simulated_specs import SMALL, planned, small

from storagelab.engines.simulated.engine import SimulatedBlock
from storagelab.errors import RunFailed
from storagelab.model.measurement import Run
from storagelab.run import executors, loop
from storagelab.run.loop import STATE_FOLDER
from storagelab.run.store import Store

pytestmark = pytest.mark.slow

PLAN = planned()
THREE_BLOCKS = ('["basic", "maximum-write"]', '["basic", "improved-write", "maximum-write"]')
"""More blocks than processes, so blocks are handed around."""


class Listening:
    """Records what it is told, and may stop everything after some runs."""

    def __init__(self, stop_after: int = 10**6) -> None:
        self.began: list[int] = []
        self.ended: list[int] = []
        self.stop_after = stop_after

    def started(self, planned, cell) -> None:
        self.began.append(planned.sequence)

    def work_done(self, planned, amount) -> None:
        assert 0 <= amount <= 4_000_000

    def stored(self, run) -> None:
        self.ended.append(run.sequence)
        if len(self.ended) == self.stop_after:
            raise KeyboardInterrupt


def make(folder, *changes, jobs: int = 1, again: bool = False, stop_after: int = 10**6) -> Listening:
    listener = Listening(stop_after)
    with Store.writing(folder, small(*changes)) as store:
        loop.run_all(planned(*changes), store, site_at(folder), listener, again=again, jobs=jobs)
    return listener


def results(folder) -> dict[int, str]:
    """The outcome of each run, without the time that it took here."""
    with Store.reading(folder) as store:
        runs = store.runs()
    assert {(run.status, run.reason) for run in runs} == {("ok", "")}
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
    assert sorted(make(tmp_path, jobs=2).ended) == sorted(straight)
    assert results(tmp_path) == straight


def test_a_long_campaign_has_a_process_of_its_own_even_if_there_is_one_only(tmp_path, monkeypatch, straight):
    def not_here(self, jobs) -> None:
        raise AssertionError("made in the process that watches")

    monkeypatch.setattr(executors.Here, "execute", not_here)
    with pytest.raises(AssertionError, match="watches"):
        make(tmp_path / "short")
    monkeypatch.setattr(loop, "_WORTH_A_PROCESS_S", 0.0)
    make(tmp_path / "long")
    assert results(tmp_path / "long") == straight


def test_they_do_so_after_an_interruption_too(tmp_path):
    make(tmp_path / "one", THREE_BLOCKS)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "two", THREE_BLOCKS, jobs=2, stop_after=5)
    stored = set(results(tmp_path / "two"))
    went_on = make(tmp_path / "two", THREE_BLOCKS, jobs=2)
    assert set(went_on.began) == set(range(12)) - stored
    assert results(tmp_path / "two") == results(tmp_path / "one")


@pytest.mark.parametrize("made", [1, 3, 6])
def test_a_campaign_that_is_interrupted_goes_on_as_if_it_had_not_been(tmp_path, straight, made):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, stop_after=made)
    assert len(results(tmp_path)) == made
    assert len(make(tmp_path).ended) == 8 - made
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


def test_drives_that_were_half_written_or_left_when_somebody_was_killed_are_swept(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, stop_after=2)
    (kept,) = states(tmp_path)
    (kept.parent / "block-0.4711.part").write_text("half of a dr")
    (kept.parent / "block-9.bin").write_text("of a block that is done")
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, stop_after=1)
    assert kept in states(tmp_path)
    assert len(states(tmp_path)) == 1
    make(tmp_path)
    assert states(tmp_path) == []


def test_running_again_makes_nothing(tmp_path):
    make(tmp_path)
    assert make(tmp_path, jobs=2).began == []


class Noting:
    """A simulator that notes which runs it makes, and has a defect in one of them."""

    def __init__(self, real, made: list[int], defect_at: int | None = None) -> None:
        self.real, self.state, self.made, self.defect_at = real, real.state, made, defect_at

    def run_next(self, progress):
        self.made.append(self.real.runs_done)
        if self.real.runs_done == self.defect_at:
            raise RuntimeError("a defect of the simulator: two and two are five")
        return self.real.run_next(progress)


def noting(monkeypatch, defect_at: int | None = None) -> list[int]:
    """Positions of the runs that are made from now on."""
    made: list[int] = []
    begin = SimulatedBlock._made
    monkeypatch.setattr(SimulatedBlock, "_made", lambda *given: Noting(begin(*given), made, defect_at))
    return made


def in_slices(folder, runs: int) -> list[Run]:
    """All runs of the plan in batches of this size, each made by a process that has only the saved state."""
    told: list[object] = []
    for whole in loop.batches(PLAN, {}, site_at(folder), folder):
        for first in range(0, len(whole.wanted), runs):
            batch, _ = whole.split(first)[1].split(runs)
            loop.make_batch(batch, told.append)
    return [item for item in told if isinstance(item, Run)]


def test_a_defect_of_the_simulator_fails_its_run_and_those_that_need_its_drives(tmp_path, monkeypatch):
    noting(monkeypatch, defect_at=2)
    assert len(make(tmp_path).ended) == 8
    with Store.reading(tmp_path) as store:
        runs = {run.sequence: run for run in store.runs()}
    assert [runs[number].status for number in range(8)] == ["ok", "ok", "failed", "failed"] * 2
    assert runs[2].reason == "a defect of the simulator: two and two are five"
    assert runs[3].reason.endswith("in an earlier run of its block: a defect of the simulator: two and two are five")


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_the_next_slice_of_a_block_knows_of_a_defect_in_the_one_before(tmp_path, monkeypatch, runs):
    made = noting(monkeypatch, defect_at=1)
    found = in_slices(tmp_path, runs)
    assert made == [0, 1] * 2
    assert [run.status for run in found] == ["ok", "failed", "failed", "failed"] * 2
    lost = "its drives were lost in an earlier run of its block: a defect of the simulator: two and two are five"
    assert [found[number].reason for number in (2, 3, 6, 7)] == [lost] * 4


def test_what_failed_is_made_again_when_asked_on_the_drives_that_it_had(tmp_path, monkeypatch, straight):
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedBlock, "_save", lambda self: (_ for _ in ()).throw(RunFailed("the disk is full")))
        make(tmp_path)
    assert make(tmp_path).ended == []
    assert len(make(tmp_path, again=True).ended) == 8
    with Store.reading(tmp_path) as store:
        latest = {run.sequence: run for run in store.runs()}
    assert {run.attempt for run in latest.values()} == {2}
    kept = {n: run.measurement.model_copy(update={"teardown_s": None}).model_dump_json() for n, run in latest.items()}
    assert kept == straight


def test_what_breaks_in_a_process_breaks_the_campaign(tmp_path, monkeypatch):
    batches = loop.batches

    def without_cells(*given, **also):
        return [one._replace(block=replace(one.block, cells={})) for one in batches(*given, **also)]

    monkeypatch.setattr(loop, "batches", without_cells)
    with pytest.raises(KeyError, match="c0"):
        make(tmp_path, jobs=2)


def kill_workers(number: int = signal.SIGKILL) -> None:
    for worker in multiprocessing.active_children():
        os.kill(worker.pid, number)


class Killing(Listening):
    """Kills all processes when certain runs are reported, `times` times each."""

    def __init__(self, *, at_start_of: Collection[int] = (), at_end_of: Collection[int] = (), times: int = 1) -> None:
        super().__init__()
        self.left = {**{("start", run): times for run in at_start_of}, **{("end", run): times for run in at_end_of}}

    def started(self, planned, cell) -> None:
        super().started(planned, cell)
        self.kill_at("start", planned.sequence)

    def stored(self, run) -> None:
        super().stored(run)
        self.kill_at("end", run.sequence)

    def kill_at(self, moment: str, run: int) -> None:
        if self.left.get((moment, run), 0):
            self.left[moment, run] -= 1
            kill_workers()


def make_heard_by(listener: Listening, folder, *changes, jobs: int = 2) -> list[Run]:
    with Store.writing(folder, small(*changes)) as store:
        loop.run_all(planned(*changes), store, site_at(folder), listener, jobs=jobs)
        return list(store.runs())


@pytest.mark.parametrize("jobs", [1, 2])
def test_whichever_processes_die_their_runs_are_made_again_and_come_to_the_same(tmp_path, straight, monkeypatch, jobs):
    monkeypatch.setattr(loop, "_WORTH_A_PROCESS_S", 0.0)
    killing = Killing(at_start_of={1}, at_end_of={3})  # twice: no run can be hit three times
    make_heard_by(killing, tmp_path, jobs=jobs)
    assert sorted(killing.ended) == sorted(straight)
    assert results(tmp_path) == straight
    assert states(tmp_path) == []


def test_a_run_at_which_three_processes_died_is_failed_with_the_reason_and_so_are_those_after_it(tmp_path, monkeypatch):
    longer, killing = ("500_000", "20_000_000"), Killing(at_start_of={1}, times=3)  # long enough to be killed within
    monkeypatch.setattr(Listening, "work_done", lambda *_: None)
    monkeypatch.setattr(loop, "_WORTH_A_PROCESS_S", 0.0)
    runs = {run.sequence: run for run in make_heard_by(killing, tmp_path, longer, jobs=1)}
    assert [runs[number].status for number in range(8)] == ["ok", *["failed"] * 3, *["ok"] * 4]
    assert runs[1].reason.startswith("its process was killed by signal 9 (SIGKILL)")
    assert "memory" in runs[1].reason
    assert runs[1].reason.endswith("; this was the third process that ended during this run")
    for number in (2, 3):
        assert runs[number].reason.startswith("its drives were lost in an earlier run of its block: its process")


@pytest.mark.slow
def test_ctrl_c_stops_all_processes_amid_their_runs_and_says_how_to_go_on(tmp_path):
    spec = tmp_path / "small.toml"
    spec.write_text(SMALL.replace("500_000", "25_000_000").replace("scale = 256", "scale = 4"))
    command = [sys.executable, "-m", "storagelab", "run", str(spec), "--results", str(tmp_path / "r"), "-j", "2"]
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
    assert "run again to continue" in shown
    assert "Traceback" not in shown
    assert time.monotonic() - asked < 2
