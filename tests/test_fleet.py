"""Measured runs on the hosts of a cluster: real private PostgreSQLs where a server matters, FABRICATED runs where only the
scheduling does."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo
from real_servers import open_folder, site_at, until
from some_work import Fabricated

pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
from real_cluster import Machines, Wire

from storagelab.findings.analysis import analyse
from storagelab.model.measurement import Run, host_of
from storagelab.run import cluster as module
from storagelab.run.cluster import Cluster
from storagelab.run.fleet import Rounds
from storagelab.run.joining import Reach
from storagelab.run.requests import MeasuredRun
from storagelab.run.rounds import rounds_of, share_out
from storagelab.run.store import Store
from storagelab.spec import matrix, reading
from storagelab.verbs import so_far

pytestmark = pytest.mark.slow

HOSTS = ("db1", "db2", "db3")
SPEC = """
name = "files"
repetitions = 3
[target]
engine = "postgres"
[volumes.a]
path = "a"
[layout]
data = ["a"]
[workload]
connections = 2
rows_per_connection = 500
rows_per_transaction = 250
[factors]
"layout.data_files" = [1, 4]
[fleet]
hosts = ["db1", "db2", "db3"]
at_once = 1
"""
SECRET = "correct-horse-battery"


class FleetOfHosts(Machines):
    """Workers with names, each started in a folder of its own."""

    home: Path

    def add_host(self, name: str, *before: str, **environment: str) -> None:
        folder = self.home / name
        folder.mkdir(exist_ok=True)
        (folder / "a").mkdir(exist_ok=True)
        self.add_worker(*before, "env", "-C", str(folder), slots=1, STORAGELAB_HOST=name, **environment)

    def pid_of(self, host: str) -> int:
        """The process of the latest worker of a host."""
        alive = {one.pid: Path(f"/proc/{one.pid}/environ") for one in self.workers if one.poll() is None}
        return max(pid for pid, file in alive.items() if f"STORAGELAB_HOST={host}\0" in file.read_text())

    def make_up_hosts(self) -> None:
        """Start those that a test has ended."""
        for host in HOSTS:
            with contextlib.suppress(ValueError):
                self.pid_of(host)
                continue
            self.add_host(host)
        until(self.all_are_there, timeout_s=90)

    @property
    def left_behind(self) -> list[Path]:
        return [one for host in HOSTS for one in (self.home / host / "a").iterdir()]


@pytest.fixture(scope="module")
def lasting(shared_server, templates) -> Iterator[FleetOfHosts]:
    """The hosts that all tests share."""
    with open_folder() as home:
        (home / "tmp").mkdir(mode=0o711)
        dsn = make_conninfo(shared_server.conninfo, password=SECRET)
        hosts = FleetOfHosts(home / "cluster", TMPDIR=str(home / "tmp"), THE_DSN=dsn, SHORTCUTS=str(templates))
        hosts.home = home
        try:
            hosts.make_up_hosts()
            yield hosts
        finally:
            hosts.end(*hosts.processes)


@pytest.fixture
def three(lasting) -> FleetOfHosts:
    lasting.make_up_hosts()
    return lasting


@pytest.fixture
def run(three, home, typed) -> Callable[..., tuple[int, str, str]]:
    def run_(spec: str = SPEC, *, address: str = "") -> tuple[int, str, str]:
        (home / "files.toml").write_text(spec)
        return typed("run", "files.toml", "--executor", "dask", "--scheduler", address or three.address)

    return run_


def runs_in(folder: Path) -> tuple[Run, ...]:
    with Store.reading(folder) as store:
        return store.runs()


def hosts_of_rounds(runs: tuple[Run, ...]) -> list[set[str]]:
    """By the attempts that count: the latest."""
    latest = {(run.repetition, run.cell_id): host_of(run) for run in runs}
    return [{host for (of, _), host in latest.items() if of == number} for number in sorted({of for of, _ in latest})]


# --- with real servers -----------------------------------------------------------------------------------------------


@pytest.mark.campaign
def test_three_hosts_that_take_turns_make_one_campaign_from_one_place(run, three, home, monkeypatch):
    monkeypatch.setattr(so_far, "EVERY_S", 0.0)
    code, out, err = run()
    assert code == 0
    assert f"db2: volume a is {three.home}/db2/a, with" in err
    assert "3 rounds to make: 1 on db1, 1 on db2, 1 on db3; 1 host at a time" in err
    assert "MEASURED, 6 runs, 2 layouts" in out
    assert "Runs come from 3 hosts (db1, db2 and db3)" in out
    assert "the page so far: renewed in " in (home / "results/files/run.log").read_text()
    runs = runs_in(home / "results/files")
    assert {run.status for run in runs} <= {"ok", "unverified"}
    assert hosts_of_rounds(runs) == [{"db1"}, {"db2"}, {"db3"}]
    assert all(one.finished_at <= other.started_at for one, other in itertools.pairwise(runs))
    assert three.left_behind == []
    code, _, err = run(SPEC.replace('["db1", "db2", "db3"]', '["db1", "db2"]'))
    assert (code, "round" in err) == (0, False), "nothing is left to make, and the table is no part of the experiment"


def test_if_one_host_can_not_make_the_runs_nothing_is_started_on_any(run, three, home):
    (three.home / "db3" / "a").rename(three.home / "db3" / "elsewhere")
    try:
        code, _, err = run()
    finally:
        (three.home / "db3" / "elsewhere").rename(three.home / "db3" / "a")
    assert code == 2
    assert "1 of 3 hosts can't make the runs, so nothing was started on any:\n  db3: volumes.a.path:" in err
    assert not (home / "results").exists()
    assert three.left_behind == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (SPEC.replace('"db3"', '"db9"'), "fleet.hosts: db9 is not there; there are db1, db2, db3"),
        (SPEC.replace("repetitions = 3", "repetitions = 2"), "repetitions: 2 rounds for 3 hosts"),
    ],
)
def test_a_host_that_is_missing_or_has_no_round_is_told_before_anything_starts(run, home, spec, words):
    code, _, err = run(spec)
    assert (code, words in err) == (2, True)
    assert not (home / "results").exists()


@pytest.mark.parametrize(("slots", "offers"), [("0", "no slot"), ("4", "4 slots")])
def test_a_worker_that_does_not_offer_exactly_one_slot_takes_no_part(slots, offers):
    assert module.no_slot(slots) == (f'it offers {offers} for measured runs: start it with --resources "storagelab=1"')
    assert module.no_slot("1") == ""


def test_a_password_stays_on_the_hosts(run, three, monkeypatch):
    monkeypatch.delenv("THE_DSN", raising=False)
    spec = SPEC.replace('engine = "postgres"', 'engine = "postgres"\ndsn_env = "THE_DSN"')
    with Recording(three) as wire:
        code, _, _ = run(spec.partition("[volumes.a]")[0] + spec[spec.index("[workload]") :], address=wire.address)
    assert code == 0
    assert b"THE_DSN" in wire.passed
    assert SECRET.encode() not in wire.passed


class Recording(Wire):
    """A network that keeps what passes."""

    passed = b""

    def note(self, content: bytes) -> None:
        self.passed += content


# --- faults, with FABRICATED runs ------------------------------------------------------------------------------------


class Watching:
    """Listens, and does something beside once a host was scheduled so many runs."""

    def __init__(self, host: str = "", scheduled: int = 0, then: Callable[[], object] = lambda: None) -> None:
        self.host, self.left, self.then = host, scheduled, then
        self.taken_over: list[tuple[int, str, str]] = []

    def scheduled(self, planned, cell, host, instead_of) -> None:
        if instead_of:
            self.taken_over.append((planned.repetition, host, instead_of))
        self.left -= host == self.host
        if self.left == 0 and host == self.host:
            threading.Thread(target=self.then).start()

    def stored(self, run: Run) -> None: ...


def campaign(three: FleetOfHosts, folder: Path, listener: Watching, request=None, rounds: int = 6, limit_s=60.0):
    spec = SPEC.replace("repetitions = 3", f"repetitions = {rounds}")
    experiment = reading.parse(spec, "files.toml")
    plan, said = matrix.expand(experiment), list[str]()
    executor = Cluster(
        request or Fabricated("db2"),
        Reach(three.address, 1),
        said.append,
        limit_s=limit_s,
        tick_s=0.1,
        fleet=HOSTS,
    )
    with Store.writing(folder, experiment) as store:
        todo = rounds_of(plan, store.runs())
        share_out(todo, HOSTS)
        Rounds(plan, todo, 3, store, site_at(Path()), listener).make(executor)
        return experiment, plan, store.runs(), said


def test_a_host_that_takes_20_percent_more_time_is_found_and_changes_no_verdict(three, tmp_path):
    experiment, plan, runs, _ = campaign(three, tmp_path, Watching())
    found = analyse(experiment, plan, runs)
    assert found.fleet is not None
    assert [(host.name, host.rounds, host.odd_level, host.odd_ratios) for host in found.fleet.hosts] == [
        ("db1", 2, False, False), ("db2", 2, True, False), ("db3", 2, False, False),
    ]  # fmt: skip
    level = found.fleet.hosts[1].level
    assert level is not None
    assert level.value == pytest.approx(1.2, abs=0.02)
    assert {plan.cell(host.fastest[0]).levels["layout.data_files"] for host in found.fleet.hosts} == {4}
    assert [plan.cell(cell).levels["layout.data_files"] for cell in found.best] == [4]


def test_the_whole_round_of_a_host_that_is_killed_goes_to_another(three, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_AWAY_S", 1.0)
    killing = Watching("db2", 2, lambda: os.kill(three.pid_of("db2"), signal.SIGKILL))
    _, _, runs, said = campaign(three, tmp_path, killing)
    assert any("is gone; its batch is scheduled again" in line for line in said)
    assert {number for number, _, of in killing.taken_over if of == "db2"} == {2, 5}
    assert hosts_of_rounds(runs)[0] == {"db1"}
    assert all(len(of) == 1 and of != {"db2"} for of in hosts_of_rounds(runs))
    assert [run.attempt for run in runs if host_of(run) == "db2"] == [1], "what it had measured is kept"
    assert sorted(run.attempt for run in runs) == [1] * 12 + [2]


def test_a_host_that_hangs_has_its_rounds_taken_over(three, tmp_path):
    pid = three.pid_of("db2")
    hanging = Watching("db2", 2, lambda: os.kill(pid, signal.SIGSTOP))
    try:
        _, _, runs, said = campaign(three, tmp_path, hanging, limit_s=3.0)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert any("hangs: no answer in 3 s" in line for line in said)
    assert all(len(of) == 1 and of != {"db2"} for of in hosts_of_rounds(runs))


@pytest.mark.campaign
def test_a_host_that_is_killed_amid_a_run_and_comes_back_goes_on_with_its_round(three, tmp_path):
    def kill_and_start() -> None:
        pid = three.pid_of("db2")
        until(lambda: any((three.home / "db2" / "a").iterdir()), timeout_s=60)
        os.kill(pid, signal.SIGKILL)
        three.add_host("db2")

    with open_folder() as folder:
        killing = Watching("db2", 2, kill_and_start)
        _, _, runs, _ = campaign(three, folder, killing, request=MeasuredRun("this campaign"), rounds=3)
    assert hosts_of_rounds(runs) == [{"db1"}, {"db2"}, {"db3"}]
    assert [run.attempt for run in runs] == [1] * 6
    assert three.left_behind == [], "nor what the killed one had on its volume"


@pytest.mark.campaign
def test_a_host_whose_disk_is_full_is_left_out_and_its_round_made_on_another(three, tmp_path):
    volume = three.home / "db3" / "a"
    script = f'mount -t tmpfs -o size=200m none {volume} && exec "$@"'
    mounting = ("unshare", "-m", "sh", "-c", script, "sh")
    if subprocess.run([*mounting, "true"], capture_output=True).returncode != 0:
        pytest.skip("this user can't mount a small disk")
    os.kill(three.pid_of("db3"), signal.SIGKILL)
    three.add_host("db3", *mounting, SHORTCUTS="")
    until(three.all_are_there, timeout_s=90)
    pid = three.pid_of("db3")

    def fill() -> None:
        with contextlib.suppress(OSError), Path(f"/proc/{pid}/root{volume}/others").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(2**20))

    try:
        _, _, runs, said = campaign(
            three, tmp_path, Watching("db3", 2, fill), request=MeasuredRun("another campaign"), rounds=3
        )
    finally:
        os.kill(pid, signal.SIGKILL)
    assert any("is refused: it failed: volumes.a.path:" in line and "lacks space" in line for line in said)
    assert {run.status for run in runs} <= {"ok", "unverified"}
    assert all(len(of) == 1 for of in hosts_of_rounds(runs))
    assert len(runs) == 7, "its first run is kept, as an attempt"


# --- specs -----------------------------------------------------------------------------------------------------------

ON_HOSTS = ("--executor", "dask")
SIMULATED = """
[target]
engine = "simulated"
[server]
cores = 4
memory = "4GB"
[drives.d]
profile = "iodrive-320"
format = "maximum-write"
[volumes.a]
drives = ["d"]
[fleet]
at_once = 1
"""


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        (SPEC, (), "fleet: its runs are made on the hosts of a cluster\n  add --executor dask"),
        (SPEC, ON_HOSTS, "--scheduler: measured runs need the scheduler of their hosts"),
        (SPEC, (*ON_HOSTS, "--find-best"), "--executor: a race is decided round by round on one host"),
        ('order = "cell-by-cell"\n' + SPEC, ON_HOSTS, "order: hosts make whole rounds"),
        (SPEC + "[between_runs]\nburn_in = 1\n", ON_HOSTS, "between_runs.burn_in: a burn-in belongs to one host"),
        (SIMULATED, ON_HOSTS, "fleet: simulated runs come out the same on every host"),
        (
            SPEC.replace("at_once", "at_onec"),
            (),
            "fleet.at_onec: is not a key that storagelab knows\n  Did you mean at_once?",
        ),
        (SPEC.replace("at_once = 1", "at_once = 0"), (), "fleet.at_once: must be a whole number of at least 1, not 0"),
        (SPEC.replace('"db3"', '"db1"'), (), 'fleet.hosts[3]: "db1" is named twice'),
    ],
)
def test_what_hosts_can_not_make_is_refused_with_the_way_out(typed, home, monkeypatch, spec, options, words):
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    (home / "files.toml").write_text(spec)
    code, _, err = typed("run", "files.toml", *options)
    assert (code, words in err) == (2, True), err
    assert not (home / "results").exists()


def test_a_plan_says_how_many_rounds_each_host_makes_and_looks_at_none(typed, home):
    (home / "files.toml").write_text(SPEC.replace("repetitions = 3", "repetitions = 8"))
    code, out, _ = typed("plan", "files.toml")
    assert code == 0
    assert "Hosts   db1, db2 and db3; 8 rounds in all, 2 or 3 on each; 1 host at a time" in out
    (home / "files.toml").write_text(SPEC.replace('hosts = ["db1", "db2", "db3"]', ""))
    assert "3 rounds, shared evenly among the hosts that the cluster" in typed("plan", "files.toml")[1]
