"""Work on a cluster of Dask's: whichever machine dies, hangs or fills up, nothing is lost and nothing is made twice."""

from __future__ import annotations

import errno
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from real_servers import site_at, until
from simulated_specs import planned, small
from some_work import Texts, fill_the_disk, refuse, wait_for_file
from test_executors import NAMES, Noting
from test_loop import Listening, results

from storagelab import version
from storagelab.errors import PreflightError
from storagelab.run import loop
from storagelab.run.store import Store

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
import dask
from real_cluster import Machines, Wire, machines

from storagelab.run import cluster as module
from storagelab.run.cluster import Cluster
from storagelab.run.joining import Reach
from storagelab.run.requests import SimulatedRuns

pytestmark = pytest.mark.slow

THREE_BLOCKS = ('["basic", "maximum-write"]', '["basic", "improved-write", "maximum-write"]')


def on(cluster: Machines | Wire, request=None, limit_s: float = 60.0) -> tuple[Cluster, list[str]]:
    said: list[str] = []
    return Cluster(request or Texts(), Reach(cluster.address, 1), said.append, limit_s=limit_s, tick_s=0.1), said


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """The cluster that all tests share."""
    with machines(tmp_path_factory.mktemp("cluster"), workers=2) as cluster:
        yield cluster


@pytest.fixture
def two(lasting) -> Machines:
    """The shared cluster with two workers, whatever the test before did to it."""
    lasting.make_up(2)
    return lasting


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> dict[int, str]:
    """The results of all runs, made in one process."""
    folder = tmp_path_factory.mktemp("straight")
    make(folder, None)
    return results(folder)


def make(folder: Path, executor: Cluster | None, listener: Listening | None = None) -> Listening:
    listener = listener or Listening()
    with Store.writing(folder, small(THREE_BLOCKS)) as store:
        loop.run_all(planned(THREE_BLOCKS), store, site_at(folder), listener, elsewhere=executor)
    return listener


class Reacting(Listening):
    """Does something to the cluster once some runs are stored."""

    def __init__(self, after: int, then: Callable[[], object]) -> None:
        super().__init__()
        self.after, self.then = after, then

    def stored(self, run) -> None:
        super().stored(run)
        if len(self.ended) == self.after:
            self.then()


def test_every_task_is_done_once(two):
    jobs = Noting(*NAMES)
    on(two)[0].execute(jobs)
    assert sorted(jobs.reported_tasks) == sorted(jobs.ended_tasks) == NAMES
    assert len(set(jobs.pids.values())) <= 2


def test_what_breaks_there_is_raised_here_and_says_where_it_happened(two):
    with pytest.raises(RuntimeError, match=r"LookupError: there is no [ab]") as raised:
        on(two, Texts(refuse))[0].execute(Noting("a", "b"))
    assert "in refuse" in raised.value.__notes__[0]


def test_results_are_those_of_one_process_byte_for_byte(two, tmp_path, straight, monkeypatch):
    monkeypatch.setattr(loop, "_BUDGET_S", 0.0)  # a batch is one run: the drives travel between all of them
    assert sorted(make(tmp_path, on(two, SimulatedRuns())[0]).ended) == list(range(12))
    assert results(tmp_path) == straight
    assert list((tmp_path / loop.STATE_FOLDER).iterdir()) == []


def test_a_campaign_begun_on_the_cluster_goes_on_in_one_process_and_the_other_way_round(two, tmp_path, straight):
    for first, then in (((on(two, SimulatedRuns())[0]), None), (None, on(two, SimulatedRuns())[0])):
        folder = tmp_path / ("begun here" if first is None else "begun there")
        with pytest.raises(KeyboardInterrupt):
            make(folder, first, Listening(stop_after=5))
        make(folder, then)
        assert results(folder) == straight


def test_a_local_cluster_needs_no_scheduler_and_leaves_no_process(tmp_path, straight):
    said: list[str] = []
    tls = {f"distributed.comm.tls.{name}": "/nowhere.pem" for name in ("ca-file", "scheduler.cert", "client.cert")}
    with dask.config.set({"distributed.comm.require-encryption": True, **tls}):  # for other clusters
        make(tmp_path, Cluster(SimulatedRuns(), Reach(None, 2), said.append, limit_s=60.0))
    assert results(tmp_path) == straight
    listed = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True).stdout
    assert "--multiprocessing-fork" not in listed
    assert "spawn_main" not in listed


# --- faults ----------------------------------------------------------------------------------------------------------


def test_a_worker_killed_at_its_work_loses_no_run(two, tmp_path, straight, monkeypatch):
    monkeypatch.setattr(loop, "_BUDGET_S", 0.0)
    executor, said = on(two, SimulatedRuns())
    make(tmp_path / "r", executor, Reacting(3, two.workers[-1].kill))
    assert results(tmp_path / "r") == straight
    assert any("is gone" in line for line in said)


def test_a_task_at_which_a_worker_died_is_lost_with_its_name_and_goes_to_another(two, tmp_path):
    go = tmp_path / "go"
    jobs = Noting(f"a {go}", f"b {go}")
    executor, said = on(two, Texts(wait_for_file))

    def kill_when_busy() -> None:
        until(lambda: len(executor._sent) == 2, timeout_s=50)
        two.workers[-1].kill()
        go.touch()

    threading.Thread(target=kill_when_busy).start()
    executor.execute(jobs)
    assert sorted(jobs.reported_tasks) == ["a", "b"]
    (why,) = jobs.lost_for
    assert why.startswith("its worker tcp://127.0.0.1:")
    assert why.endswith("is gone")
    assert any("its batch is scheduled again" in line for line in said)


def test_a_scheduler_that_is_restarted_loses_no_run(two, tmp_path, straight, monkeypatch):
    monkeypatch.setattr(loop, "_BUDGET_S", 0.0)
    executor, said = on(two, SimulatedRuns())

    def restart() -> None:
        two.scheduler.kill()
        two.scheduler.wait()
        two.start_scheduler()
        two.add_worker()

    make(tmp_path / "r", executor, Reacting(4, restart))
    assert results(tmp_path / "r") == straight
    assert any("is gone" in line and "waiting for it" in line for line in said)
    assert any("is back" in line for line in said)
    two.end(*two.workers)  # some may still look for the scheduler that they knew


def test_a_client_that_is_cut_off_comes_back_and_loses_no_run(two, tmp_path, straight, monkeypatch):
    monkeypatch.setattr(loop, "_BUDGET_S", 0.0)
    with Wire(two) as wire:
        executor, said = on(wire, SimulatedRuns())
        listener = make(tmp_path / "r", executor, Reacting(4, lambda: wire.cut(for_s=2.0)))
    assert results(tmp_path / "r") == straight
    assert sorted(listener.ended) == list(range(12))
    assert any("is gone" in line and "waiting for it" in line for line in said)
    assert any("is back" in line for line in said)


def test_a_client_that_is_killed_goes_on_with_what_is_stored(two, tmp_path, straight):
    client = multiprocessing.get_context("spawn").Process(target=_killed_after, args=(3, tmp_path, two.address))
    client.start()
    client.join(timeout=90)
    assert client.exitcode == -signal.SIGKILL
    stored = results(tmp_path)
    assert 3 <= len(stored) < len(straight)
    assert sorted(make(tmp_path, on(two, SimulatedRuns())[0]).ended) == sorted(straight.keys() - stored.keys())
    assert results(tmp_path) == straight


def _killed_after(runs: int, folder: Path, address: str) -> None:
    executor = Cluster(SimulatedRuns(), Reach(address, 1), lambda _: None, limit_s=60.0)
    make(folder, executor, Reacting(runs, lambda: os.kill(os.getpid(), signal.SIGKILL)))


def test_a_worker_that_hangs_has_its_task_taken_away_and_is_back_once_it_answers(two):
    jobs = Noting(*(f"{name} 0.5" for name in NAMES))
    executor, said = on(two, limit_s=5.0)
    stopped: list[int] = []

    def stop(pid: int) -> None:  # the first to have done its task is given the next one at once
        stopped.append(pid)
        os.kill(pid, signal.SIGSTOP)

    def lost(task: str, why: str) -> None:
        jobs.lost_for.append(why)
        jobs.tasks += [task, "late 2"]  # long enough to hear from the other one meanwhile
        os.kill(stopped[0], signal.SIGCONT)

    jobs.then["a"], jobs.lost = stop, lost
    executor.execute(jobs)
    assert sorted(jobs.reported_tasks) == [*NAMES, "late"]
    assert len(jobs.lost_for) == 1
    assert jobs.lost_for[0].endswith(" did not answer within 5 s, the time limit of a batch")
    assert any("hangs: no answer in 5 s; its batch is scheduled again" in line for line in said)
    assert any("answers again" in line for line in said)


def test_a_scheduler_that_is_silent_for_longer_than_the_time_limit_makes_no_worker_late(two, monkeypatch):
    monkeypatch.setattr(module, "_SILENT_S", 2.0)
    jobs = Noting(*(f"{name} 0.3" for name in NAMES))
    executor, said = on(two, limit_s=4.0)

    def pause(_: int) -> None:
        two.scheduler.send_signal(signal.SIGSTOP)
        threading.Timer(6.0, lambda: two.scheduler.send_signal(signal.SIGCONT)).start()

    jobs.then["a"] = pause
    executor.execute(jobs)
    assert sorted(jobs.reported_tasks) == NAMES
    assert jobs.lost_for == []
    assert "the scheduler has not answered for 2 s: waiting" in said


def test_a_host_whose_disk_is_full_is_left_out_and_the_others_do_its_work(two, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    script = f'mount -t tmpfs -o size=64k none {full} && export TMPDIR={full} && exec "$@"'
    mounting = ("unshare", "-m", "sh", "-c", script, "sh")
    if subprocess.run([*mounting, "true"], capture_output=True).returncode != 0:
        pytest.skip("this user can't mount a small disk")
    host = two.add_worker(*mounting)
    until(two.all_are_there, timeout_s=90)
    jobs = Noting(*NAMES)
    executor, said = on(two, Texts(fill_the_disk))
    refused = f"is refused: it failed: OSError: [Errno {errno.ENOSPC}] {os.strerror(errno.ENOSPC)}"

    def assign(host: str = "") -> str | None:  # there is work until the host has had some
        if not jobs.tasks and not any(refused in line for line in said):
            jobs.tasks.append("more 0.1")
        return jobs.tasks.pop(0) if jobs.tasks else None

    jobs.assign = assign
    executor.execute(jobs)
    two.end(host)
    assert sorted(set(jobs.reported_tasks) - {"more"}) == NAMES
    assert jobs.lost_for == []


# --- who may work ----------------------------------------------------------------------------------------------------


def without_storagelab(folder: Path) -> Path:
    """A folder for Python's path that stands before any storagelab that is installed."""
    none = folder / "none"
    none.mkdir()
    (none / "storagelab.py").write_text("raise ModuleNotFoundError('no storagelab here')\n")
    return none


def test_a_scheduler_needs_no_storagelab(tmp_path, straight):
    with_it = os.pathsep.join(filter(None, sys.path))
    without = os.pathsep.join([str(without_storagelab(tmp_path)), with_it])
    with machines(tmp_path / "cluster", workers=0, PYTHONPATH=without) as cluster:
        cluster.add_worker(PYTHONPATH=with_it)
        until(cluster.all_are_there, timeout_s=90)
        make(tmp_path / "r", on(cluster, SimulatedRuns())[0])
    assert results(tmp_path / "r") == straight


def test_workers_with_another_storagelab_or_none_are_refused_by_name_and_one_like_ours_is_welcome(tmp_path):
    other = tmp_path / "other" / "storagelab"
    shutil.copytree(Path(version.__file__).parent, other, ignore=shutil.ignore_patterns("__pycache__"))
    (other / "version.py").write_text('__version__ = "0.0.9"\n')
    none = without_storagelab(tmp_path)
    with machines(tmp_path / "cluster", workers=0) as cluster:
        for folder in (other.parent, none):
            cluster.add_worker(PYTHONPATH=os.pathsep.join([str(folder), cluster.environment["PYTHONPATH"]]))
        until(cluster.all_are_there, timeout_s=90)
        executor, said = on(cluster)
        with pytest.raises(PreflightError, match="no worker can be used:") as raised:
            executor.execute(Noting("a"))
        here = re.escape(version.__version__)
        assert re.search(rf"\n  tcp://127.0.0.1:\d+: its storagelab is 0\.0\.9 .*here {here}", str(raised.value))
        assert re.search(r": it can't load this storagelab \(ModuleNotFoundError: .*storagelab", str(raised.value))
        assert any("is refused: its storagelab is 0.0.9" in line for line in said)
        cluster.make_up(3)
        executor, _ = on(cluster)
        jobs = Noting("a", "b")
        executor.execute(jobs)
        assert sorted(jobs.reported_tasks) == ["a", "b"]
