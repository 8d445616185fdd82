"""Work on a cluster of Dask's: whichever machine dies, hangs or fills up, nothing is lost and nothing is made twice."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from real_servers import site_at, until
from simulated_specs import planned, small
from some_work import fill_the_disk, refuse, tell_who
from test_executors import NAMES, Noting
from test_loop import Listening, results

from storagelab import version
from storagelab.errors import PreflightError
from storagelab.run import loop
from storagelab.run.store import Store

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
from real_cluster import Machines, machines

from storagelab.run.cluster import Cluster
from storagelab.run.joining import Reach

pytestmark = pytest.mark.slow

THREE_BLOCKS = ('["basic", "maximum-write"]', '["basic", "improved-write", "maximum-write"]')


def on(cluster: Machines, work=tell_who, limit_s: float = 60.0) -> tuple[Cluster, list[str]]:
    said: list[str] = []
    return Cluster(work, Reach(cluster.address, 1), said.append, limit_s=limit_s, tick_s=0.1), said


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A cluster that the tests which harm nothing share."""
    with machines(tmp_path_factory.mktemp("two"), workers=2) as cluster:
        yield cluster


@pytest.fixture
def doomed(tmp_path):
    """A cluster for a test that harms it."""
    with machines(tmp_path / "cluster", workers=2) as cluster:
        yield cluster


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
    assert sorted(jobs.told_of) == sorted(jobs.ended_tasks) == NAMES
    assert len(set(jobs.pids.values())) <= 2


def test_the_next_task_waits_at_a_worker_that_is_busy_and_is_dealt_again_if_that_worker_is_gone(doomed):
    jobs = Noting("a 2", "b 2", "c", "d", "e", "f")
    jobs.ahead = True
    executor, _ = on(doomed)

    def kill() -> None:
        until(lambda: len(executor._sent) == 4, timeout_s=60)
        doomed.processes[1].kill()

    threading.Timer(0.0, kill).start()
    executor.execute(jobs)
    assert sorted(jobs.told_of) == list("abcdef")
    assert len(jobs.lost_for) == 1, "what had not begun is not lost"


def test_what_breaks_there_is_raised_here_and_says_where_it_happened(two):
    with pytest.raises(LookupError, match=r"there is no [ab]") as raised:
        on(two, refuse)[0].execute(Noting("a", "b"))
    assert "in refuse" in raised.value.__notes__[0]


def test_results_are_those_of_one_process_byte_for_byte(two, tmp_path, straight, monkeypatch):
    monkeypatch.setattr(loop, "_BUDGET_S", 0.0)  # a slice is one run: the drives travel between all of them
    assert sorted(make(tmp_path, on(two, loop.make_elsewhere)[0]).ended) == list(range(12))
    assert results(tmp_path) == straight
    assert list((tmp_path / loop.STATE_FOLDER).iterdir()) == []


def test_a_campaign_begun_on_the_cluster_goes_on_in_one_process_and_the_other_way_round(two, tmp_path, straight):
    for first, then in (((on(two, loop.make_elsewhere)[0]), None), (None, on(two, loop.make_elsewhere)[0])):
        folder = tmp_path / ("begun here" if first is None else "begun there")
        with pytest.raises(KeyboardInterrupt):
            make(folder, first, Listening(stop_after=5))
        make(folder, then)
        assert results(folder) == straight


def test_a_local_cluster_needs_no_scheduler_and_leaves_no_process(tmp_path, straight):
    said: list[str] = []
    make(tmp_path, Cluster(loop.make_elsewhere, Reach(None, 2), said.append, limit_s=60.0))
    assert results(tmp_path) == straight
    listed = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True).stdout
    assert "--multiprocessing-fork" not in listed
    assert "spawn_main" not in listed


# --- faults ----------------------------------------------------------------------------------------------------------


def test_a_worker_killed_at_its_work_loses_no_run(doomed, tmp_path, straight, monkeypatch):
    monkeypatch.setattr(loop, "_BUDGET_S", 0.0)
    executor, said = on(doomed, loop.make_elsewhere)
    make(tmp_path / "r", executor, Reacting(3, doomed.processes[1].kill))
    assert results(tmp_path / "r") == straight
    assert any("is gone" in line for line in said)


def test_a_task_at_which_a_worker_died_is_lost_with_its_name_and_goes_to_another(doomed):
    jobs = Noting("a 1", "b 1")
    jobs.then["b"] = lambda _: None
    executor, said = on(doomed)
    threading.Timer(0.0, lambda: _kill_when_busy(doomed, executor)).start()
    executor.execute(jobs)
    assert sorted(jobs.told_of) == ["a", "b"]
    (why,) = jobs.lost_for
    assert why.startswith("its worker tcp://127.0.0.1:")
    assert why.endswith("is gone")
    assert any("its slice is dealt again" in line for line in said)


def _kill_when_busy(cluster: Machines, executor: Cluster) -> None:
    until(lambda: len(executor._sent) == 2, timeout_s=60)
    cluster.processes[1].kill()


def test_a_scheduler_that_is_restarted_loses_no_run(tmp_path, straight, monkeypatch):
    monkeypatch.setattr(loop, "_BUDGET_S", 0.0)
    with machines(tmp_path / "cluster", workers=2) as cluster:
        executor, said = on(cluster, loop.make_elsewhere)

        def restart() -> None:
            cluster.scheduler.kill()
            cluster.scheduler.wait()

            def again() -> None:
                cluster.start_scheduler()
                cluster.add_worker()

            threading.Thread(target=again, daemon=True).start()

        make(tmp_path / "r", executor, Reacting(4, restart))
    assert results(tmp_path / "r") == straight
    assert any("is gone" in line and "waiting for it" in line for line in said)
    assert any("is back" in line for line in said)


def test_a_worker_that_hangs_has_its_task_taken_away_and_is_back_once_it_answers(doomed):
    jobs = Noting(*(f"{name} 0.5" for name in NAMES))
    executor, said = on(doomed, limit_s=4.0)
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
    assert sorted(jobs.told_of) == [*NAMES, "late"]
    assert len(jobs.lost_for) == 1
    assert jobs.lost_for[0].endswith(" did not answer within 4 s, the time limit of a slice")
    assert any("hangs: no answer in 4 s; its slice is dealt again" in line for line in said)
    assert any("answers again" in line for line in said)


def test_a_scheduler_that_is_silent_for_longer_than_the_time_limit_makes_no_worker_late(doomed, monkeypatch):
    jobs = Noting(*(f"{name} 0.3" for name in NAMES))
    executor, said = on(doomed, limit_s=6.0)

    def pause(_: int) -> None:
        doomed.scheduler.send_signal(signal.SIGSTOP)
        threading.Timer(12.0, lambda: doomed.scheduler.send_signal(signal.SIGCONT)).start()

    jobs.then["a"] = pause
    executor.execute(jobs)
    assert sorted(jobs.told_of) == NAMES
    assert jobs.lost_for == []
    assert "the scheduler has not answered for 5 s: waiting" in said


def test_a_host_whose_disk_is_full_is_left_out_and_the_others_do_its_work(tmp_path):
    with machines(tmp_path / "cluster", workers=1) as cluster:
        full = tmp_path / "full"
        full.mkdir()
        script = f'mount -t tmpfs -o size=64k none {full} && export TMPDIR={full} && exec "$@"'
        mounting = ("unshare", "-m", "sh", "-c", script, "sh")
        if subprocess.run([*mounting, "true"], capture_output=True).returncode != 0:
            pytest.skip("this user can't mount a small disk")
        cluster.add_worker(*mounting)
        jobs = Noting(*NAMES)
        executor, said = on(cluster, fill_the_disk)
        until(cluster.all_are_there, timeout_s=90)
        executor.execute(jobs)
        assert sorted(jobs.told_of) == NAMES
        assert jobs.lost_for == []
        assert [line for line in said if os.strerror(errno.ENOSPC) in line and "is refused" in line]


# --- who may work ----------------------------------------------------------------------------------------------------


def test_a_worker_with_another_storagelab_is_refused_by_name(tmp_path):
    other = tmp_path / "other" / "storagelab"
    shutil.copytree(Path(version.__file__).parent, other, ignore=shutil.ignore_patterns("__pycache__"))
    (other / "version.py").write_text('__version__ = "0.0.9"\n')
    with machines(tmp_path / "cluster", workers=0) as cluster:
        cluster.add_worker(PYTHONPATH=os.pathsep.join([str(other.parent), cluster.environment["PYTHONPATH"]]))
        executor, said = on(cluster)
        with pytest.raises(
            PreflightError, match=r"no worker can be used:\n  tcp://127.0.0.1:\d+: its storagelab is 0.0.9 "
        ):
            executor.execute(Noting("a"))
        assert any("is refused: its storagelab is 0.0.9" in line and "here 0.1.0" in line for line in said)


def test_a_worker_without_storagelab_is_refused_too(tmp_path):
    none = tmp_path / "none"
    none.mkdir()
    (none / "storagelab.py").write_text("raise ModuleNotFoundError('no storagelab here')\n")  # before any installed one
    with machines(tmp_path / "cluster", workers=0) as cluster:
        cluster.add_worker(PYTHONPATH=os.pathsep.join([str(none), cluster.environment["PYTHONPATH"]]))
        with pytest.raises(PreflightError, match=r"it can't load this storagelab \(ModuleNotFoundError: .*storagelab"):
            on(cluster)[0].execute(Noting("a"))
        cluster.add_worker()
        executor, _ = on(cluster)
        jobs = Noting("a 1", "b 1")
        until(cluster.all_are_there, timeout_s=90)
        executor.execute(jobs)
        assert sorted(jobs.told_of) == ["a", "b"]
