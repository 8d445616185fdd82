"""Work on a Dask cluster: if any machine dies, hangs or fills up, no run is lost or made twice."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from real_servers import site_at, until
from simulated_specs import SMALL, planned, small
from some_work import die_or_tell, refuse, tell_who
from test_executors import NAMES, Noting
from test_loop import Listening, results

import storagelab
from storagelab.errors import PreflightError
from storagelab.run import loop
from storagelab.run.store import Store

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
import dask
from real_cluster import Machines, certified, done_by, machines

from storagelab.run import cluster as module
from storagelab.run.cluster import Cluster, Reach, asked, joined
from storagelab.run.loop import make_elsewhere

pytestmark = pytest.mark.slow

REAL = """
repetitions = 1
target = { engine = "postgres" }
volumes.a = { path = "a" }
layout = { data = ["a"], log = "a" }
workload = { connections = 1, rows_per_connection = 10 }
"""
THREE_BLOCKS = ('["basic", "maximum-write"]', '["basic", "improved-write", "maximum-write"]')


def on(cluster: Machines, work=make_elsewhere, limit_s: float = 60.0) -> tuple[Cluster, list[str]]:
    said: list[str] = []
    return Cluster(work, Reach(cluster.address, 1), said.append, limit_s=limit_s), said


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


def test_what_breaks_there_is_raised_here_and_says_where_it_happened(two):
    with pytest.raises(LookupError, match=r"there is no [ab]") as raised:
        on(two, refuse)[0].execute(Noting("a", "b"))
    assert "in refuse" in raised.value.__notes__[0]


def test_results_are_those_of_one_process_byte_for_byte(two, tmp_path, straight, monkeypatch):
    monkeypatch.setattr(loop, "_BUDGET_S", 0.0)  # a batch is one run: the drives travel between all of them
    assert sorted(make(tmp_path, on(two)[0]).ended) == list(range(12))
    assert results(tmp_path) == straight
    assert list((tmp_path / loop.STATE_FOLDER).iterdir()) == []


def test_a_campaign_begun_on_the_cluster_goes_on_in_one_process_and_the_other_way_round(two, tmp_path, straight):
    for first, then in (((on(two)[0]), None), (None, on(two)[0])):
        folder = tmp_path / ("begun here" if first is None else "begun there")
        with pytest.raises(KeyboardInterrupt):
            make(folder, first, Listening(stop_after=5))
        make(folder, then)
        assert results(folder) == straight


def test_a_local_cluster_needs_no_scheduler_and_leaves_no_process(tmp_path, straight):
    said: list[str] = []
    tls = {f"distributed.comm.tls.{name}": "/nowhere.pem" for name in ("ca-file", "scheduler.cert", "client.cert")}
    with dask.config.set({"distributed.comm.require-encryption": True, **tls}):  # for other clusters
        make(tmp_path, Cluster(make_elsewhere, Reach(None, 2), said.append, limit_s=60.0))
    assert results(tmp_path) == straight
    listed = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, text=True).stdout
    assert "--multiprocessing-fork" not in listed
    assert "spawn_main" not in listed


# --- faults ----------------------------------------------------------------------------------------------------------


def test_a_worker_killed_at_its_work_loses_no_run(two, tmp_path, straight, monkeypatch):
    monkeypatch.setattr(loop, "_BUDGET_S", 0.0)
    executor, _ = on(two)
    make(tmp_path / "r", executor, Reacting(3, two.workers[-1].kill))
    assert results(tmp_path / "r") == straight


def test_a_task_at_which_its_worker_dies_is_lost_and_the_others_are_done(tmp_path):
    jobs, lost = Noting(*NAMES[:4], "die"), list[str]()
    jobs.lost = lambda task, why: lost.append(f"{task}: {why}")
    said: list[str] = []
    Cluster(die_or_tell, Reach(None, 2), said.append, limit_s=60.0).execute(jobs)
    assert sorted(jobs.reported_tasks) == NAMES[:4]
    (why,) = lost
    assert why.startswith("die: its worker is gone, or failed")
    assert any("its batch is scheduled again" in line for line in said)


def test_a_scheduler_that_is_restarted_loses_no_run(two, tmp_path, straight, monkeypatch):
    monkeypatch.setattr(loop, "_BUDGET_S", 0.0)
    executor, said = on(two)

    def restart() -> None:
        two.scheduler.kill()
        two.scheduler.wait()
        two.start_scheduler()
        two.add_worker()

    make(tmp_path / "r", executor, Reacting(4, restart))
    assert results(tmp_path / "r") == straight
    assert any("is lost: waiting for it" in line for line in said)
    two.end(*two.workers)  # some may still look for the scheduler that they knew


def test_a_task_that_takes_longer_than_the_limit_is_taken_from_its_worker(two):
    executor, said = on(two, tell_who, limit_s=3.0)
    jobs = Noting("long 9", "a", "b")

    def lost(task: str, why: str) -> None:
        jobs.lost_for.append(why)
        jobs.tasks.append("again 0.1")

    jobs.lost = lost
    executor.execute(jobs)
    assert sorted(jobs.reported_tasks) == ["a", "again", "b"]
    assert jobs.lost_for == ["its worker did not answer within 3 s, the time limit of a batch"]
    assert said == [f"{jobs.lost_for[0]}; its batch is scheduled again"]


# --- who may work ----------------------------------------------------------------------------------------------------


def without_storagelab(folder: Path) -> Path:
    """A folder for Python's path that stands before any storagelab that is installed."""
    none = folder / "none"
    none.mkdir()
    (none / "storagelab.py").write_text("raise ModuleNotFoundError('no storagelab here')\n")
    return none


@pytest.mark.parametrize("without", [False, True])
def test_workers_with_another_storagelab_or_none_are_refused_with_what_differs(tmp_path, without):
    folder, here = tmp_path / "other", Path(storagelab.__file__)
    shutil.copytree(here.parent, folder / "storagelab", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "storagelab" / here.name).write_text(here.read_text().replace(storagelab.__version__, "0.0.9"))
    said = r"worker tcp://127.0.0.1:\d+ differs: its storagelab is 0\.0\.9 .*here " + re.escape(storagelab.__version__)
    if without:
        folder, said = (without_storagelab(tmp_path), r"can't load storagelab .*no storagelab here")
    with machines(tmp_path / "cluster", workers=0) as cluster:
        cluster.add_worker(PYTHONPATH=os.pathsep.join([str(folder), cluster.environment["PYTHONPATH"]]))
        until(cluster.all_are_there, timeout_s=90)
        with pytest.raises(PreflightError, match=said) as raised:
            on(cluster, tell_who)[0].execute(Noting("a"))
    assert "install the same storagelab" in str(raised.value)


def test_without_an_address_the_cluster_is_local_and_dasks_own_setting_is_read():
    assert asked(None, 4, trusted=False) == Reach(None, 4)
    with dask.config.set({"scheduler-address": "tcp://127.0.0.1:4711"}):
        assert asked(None, 4, trusted=False).address == "tcp://127.0.0.1:4711"
        assert asked("localhost:1", 4, trusted=False).address == "tcp://localhost:1"
        assert asked("tcp://[::1]:8786", 4, trusted=False).address == "tcp://[::1]:8786"


def test_what_is_not_encrypted_is_refused_beyond_this_machine_unless_the_user_insists():
    with pytest.raises(PreflightError, match=r"(?s)10\.1\.2\.3:8786 is not encrypted.*--trust-network"):
        asked("tcp://10.1.2.3:8786", 1, trusted=False)
    assert asked("tcp://10.1.2.3:8786", 1, trusted=True).address == "tcp://10.1.2.3:8786"


def test_an_address_without_a_scheme_means_tls_beyond_this_machine_and_asks_for_certificates():
    needs = r"tls://10\.1\.2\.3:8786 needs a certificate.*tls\.ca-file is not set"
    with pytest.raises(PreflightError, match=needs) as raised:
        asked("10.1.2.3:8786", 1, trusted=False)
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in str(raised.value)
    with (
        dask.config.set({"distributed.comm.tls.ca-file": "/nowhere.pem"}),
        pytest.raises(PreflightError, match=r"names /nowhere\.pem, which is not a file"),
    ):
        asked("tls://10.1.2.3:8786", 1, trusted=False)


@pytest.mark.parametrize("said", ["8786", "host", "http://host:1", "tcp://host", "tls://:8786"])
def test_what_is_no_address_is_refused(said):
    with pytest.raises(PreflightError, match="is no address of a scheduler"):
        asked(said, 1, trusted=False)


def test_with_certificates_all_is_encrypted_and_who_has_none_or_others_stays_outside(tmp_path, monkeypatch):
    ours, others = certified(tmp_path / "ours"), certified(tmp_path / "others")
    with machines(tmp_path / "cluster", 1, scheme="tls", DASK_CONFIG=str(ours)) as cluster:
        assert done_by(cluster.address, ours) == ["a", "b"]
        monkeypatch.setattr(module, "_ANSWER_S", 2.0)
        for address, settings in [(cluster.address, others), (cluster.address.replace("tls", "tcp"), None)]:
            with pytest.raises(PreflightError, match=f"no scheduler answers at {address}"):
                done_by(address, settings)
        with pytest.raises(PreflightError, match="needs a certificate"):
            done_by(cluster.address)


def test_a_scheduler_that_listens_everywhere_without_encryption_is_refused_though_it_is_reached_from_here(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "_ANSWER_S", 90.0)  # it is still starting
    with machines(tmp_path / "cluster", workers=0, host="") as cluster:
        with pytest.raises(PreflightError, match=r"listens at tcp://\S+ too, which is not encrypted, and whoever"):
            done_by(cluster.address)
        with joined(Reach(cluster.address, 1, trusted=True)) as client:
            assert client.status == "running"


# --- as a person types it --------------------------------------------------------------------------------------------


@pytest.fixture
def spec(tmp_path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return file


def test_options_of_a_cluster_need_the_cluster(typed, spec, tmp_path):
    for words in (["--scheduler", "tcp://127.0.0.1:1"], ["--trust-network"], ["--time-limit", "1min"]):
        code, _, err = typed("run", spec, "--results", tmp_path / "r", *words)
        assert code == 2
        assert f"{words[0]}: is an option of a cluster\n  Add --executor dask." in err


def test_without_dask_the_message_says_what_to_install(typed, spec, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "storagelab.run.cluster")
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delattr("storagelab.run.cluster")
    code, _, err = typed("run", spec, "--results", tmp_path / "r", "--executor", "dask")
    assert code == 2
    assert "Dask is not installed" in err
    assert 'pip install "storagelab[cluster]"' in err


def test_measured_runs_are_refused_with_the_way_to_measure_on_several_hosts(typed, tmp_path):
    file = tmp_path / "real.toml"
    file.write_text(REAL)
    code, _, err = typed("run", file, "--results", tmp_path / "r", "--executor", "dask")
    assert code == 2
    assert "--executor: only simulated runs can be made on a cluster" in err
    assert "storagelab gather" in err
    assert not (tmp_path / "r").exists()
    file.write_text(REAL + '[fleet]\nhosts = ["db1"]\n')
    code, _, err = typed("plan", file)
    assert code == 2
    assert "fleet: is a table of version 0.2.0 and earlier" in err
    assert "storagelab gather" in err
