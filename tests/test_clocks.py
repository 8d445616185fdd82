"""If a server's clock is set during a run, or the server is stopped for a time, its times are not trusted."""

import os
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real_mariadb import needs_mariadb
from real_servers import left_behind, make_one_run, open_folder, server_processes, site_at, small

from storagelab.model.measurement import Run
from storagelab.model.plan import Cell, PlannedRun
from storagelab.servers import private
from storagelab.servers.programs import environment
from storagelab.watching.counters import Clocks, Loop

ENGINES = ["postgres", pytest.param("mariadb", marks=needs_mariadb)]
NOT_SHORT = {"connections": 2, "rows_per_connection": 15_000, "rows_per_transaction": 200}
"""A second and a half or so."""


def run_of(scratch: Path, engine: str, trouble: Callable[[], None], **changes) -> Run:
    """One run in which `trouble` happens once its first rows are in."""
    came: list[int] = []

    def heard(rows: int) -> None:
        if rows and not came:
            came.append(rows)
            trouble()

    config = small(scratch, engine=engine, **{**NOT_SHORT, **changes})
    planned = PlannedRun(sequence=0, block=0, cell_id="c01", repetition=1, seed=1)
    run = make_one_run(planned, Cell(cell_id="c01", levels={}, config=config), site_at(scratch), heard)
    assert came, "it was over before anything could happen"
    assert left_behind(scratch) == []
    return run


@pytest.fixture(scope="module")
def library() -> Iterator[Path]:
    """What shifts the clock of the programs that load it."""
    source = Path(__file__).with_name("shifted_clock.c")
    compiler = shutil.which("cc") or "gcc"
    with open_folder() as folder:
        made = folder / "shifted_clock.so"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(made), str(source)], check=True)
        made.chmod(0o755)
        yield made


@pytest.fixture
def set_clock(library, scratch, monkeypatch) -> Callable[[float], None]:
    """Shifts the clock of private servers started from now on by this many seconds; ours stays."""
    shift = scratch / "shift"
    shift.write_bytes(struct.pack("q", 0))
    shift.chmod(0o644)
    theirs = {"LD_PRELOAD": str(library), "CLOCK_SHIFT_FILE": str(shift)}
    monkeypatch.setattr(private, "environment", lambda: environment() | theirs)

    def set_(seconds: float) -> None:
        with shift.open("r+b") as file:
            file.write(struct.pack("q", int(seconds * 1e9)))

    return set_


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("step_s", [-0.5, 3600.0])
def test_a_run_whose_servers_clock_was_set_is_unverified_and_says_by_how_much(scratch, set_clock, engine, step_s):
    run = run_of(scratch, engine, lambda: set_clock(step_s))
    assert run.status == "unverified"
    assert "the server's clock: asked the " in run.reason
    said = re.search(r"it was set (forward|back) by ([\d.]+) s in the run", run.reason)
    assert said[1] == ("forward" if step_s > 0 else "back")
    assert float(said[2]) == pytest.approx(abs(step_s), abs=0.25)  # as sure as the server answers on a busy machine
    assert "the elapsed time can't be trusted" in run.reason


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_that_ended_before_it_began_by_its_servers_clock_is_failed(scratch, set_clock, engine):
    run = run_of(scratch, engine, lambda: set_clock(-100.0))
    assert (run.status, run.measurement) == ("failed", None)
    said = re.match(
        r"the server's clock was set back by ([\d.]+) s during the run: by that clock, work ended ([\d.]+) s before it "
        r"began, but ([\d.]+) s passed by storagelab's own clock",
        run.reason,
    )
    assert said is not None, run.reason
    step_s, ended_s, passed_s = map(float, said.groups())
    assert step_s == pytest.approx(100.0, abs=0.5)  # as sure as the server answers on a busy machine
    assert 100.0 - passed_s - 0.5 <= ended_s <= 100.0
    assert "log says" not in run.reason


@pytest.mark.parametrize("engine", ENGINES)
def test_a_clock_that_nobody_sets_is_believed(scratch, set_clock, engine):
    set_clock(-86_400.0)  # it may be wrong as long as it stays so
    run = run_of(scratch, engine, lambda: None)
    assert run.status != "failed"
    troubles = [line for line in run.reason.split("; ") if line and "without a CPU" not in line]  # of a busy machine
    assert troubles == []


def clocks(*server_s: float, way_s: float = 0.0) -> Clocks:
    """Two readings of a server's clock, which take as long as `way_s` each."""
    answers = iter(server_s)

    def ask() -> float:
        time.sleep(way_s)
        return next(answers)

    made = Clocks(ask)
    made.begin()
    made.end()
    return made


def loop(started_s: float, finished_s: float) -> Loop:
    return Loop(started_s=started_s, finished_s=finished_s)


def test_a_slow_way_to_the_server_is_no_step_of_its_clock():
    assert clocks(1000.0, 1000.3, way_s=0.3).checks([loop(1000.1, 1000.2)]) == []
    assert [check.ok for check in clocks(1000.0, 1000.9, way_s=0.3).checks([loop(1000.1, 1000.2)])] == [False]


def test_a_clock_that_was_set_and_set_back_gives_itself_away_by_moments_outside_of_the_run():
    (check,) = clocks(1000.0, 1000.0).checks([loop(1000.0, 1000.0), loop(1000.0, 1900.0)])
    said = re.match(
        r"the load's start or end is outside the run: .* set forward by at least ([\d.]+) s during the run", check.got
    )
    assert said is not None, check.got
    assert float(said[1]) == pytest.approx(900.0, abs=0.1)
    (check,) = clocks(1000.0, 1000.0).checks([loop(100.0, 100.1), loop(1000.0, 1000.0)])
    assert "the clock was set back by at least 900.00 s during the run, and then forward" in check.got


def test_a_machine_that_was_suspended_amid_a_run_is_told_of_though_all_its_clocks_agree():
    made = clocks(1000.0, 1005.0)
    later = made._ended.answered_s + 5.0  # a clock that went on, beside one that stood still
    made._ended = made._ended._replace(asked_s=later, answered_s=later)
    (check,) = made.checks([loop(1000.0, 1005.0)])
    assert (check.name, check.got, check.ok) == ("this machine", "suspended for 5.0 s of it", False)


def stopped_for(seconds: float, pids: list[int]) -> subprocess.Popen[str]:
    """Returns at once. A shell does the work, because this process may be the stopped one. It prints both moments."""
    numbers = " ".join(map(str, pids))
    return subprocess.Popen(
        ["sh", "-c", f"date +%s.%N; kill -STOP {numbers}; sleep {seconds}; kill -CONT {numbers}; date +%s.%N"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def sessions_at_work(scratch: Path) -> list[int]:
    return [pid for pid in server_processes(scratch) if b"CALL" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.mark.parametrize(
    ("engine", "who"),
    [
        ("postgres", "both"), ("postgres", "storagelab"), ("postgres", "the server"), ("postgres", "its sessions"),
        pytest.param("mariadb", "the server", marks=needs_mariadb),
    ],
)  # fmt: skip
def test_a_run_in_which_somebody_stood_still_is_unverified_and_says_for_how_long(scratch, engine, who):
    stopping: list[subprocess.Popen[str]] = []

    def stop() -> None:
        whom = (
            []
            if who == "storagelab"
            else sessions_at_work(scratch)
            if who == "its sessions"
            else server_processes(scratch)
        )
        stopping.append(stopped_for(1.5, [*whom, *([os.getpid()] if who in ("both", "storagelab") else [])]))

    going_on = {"rows_per_connection": 60_000} if who == "storagelab" else {}  # the server works on meanwhile
    run = run_of(scratch, engine, stop, **going_on)
    began_s, ended_s = map(float, stopping[0].communicate()[0].split())
    assert run.status == "unverified", run.measurement.observer
    said = re.match(
        r"watching: asked the whole run, got nothing for ([\d.]+) s of [\d.]+ s, in which the load, its server or "
        r"storagelab stood still",
        run.reason,
    )
    assert said is not None, run.reason
    assert float(said[1]) == pytest.approx(ended_s - began_s, abs=0.3)
