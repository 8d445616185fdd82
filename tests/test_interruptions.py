"""Ctrl-C, SIGTERM, SIGQUIT and kill -9 of a real `storagelab run`: nothing keeps running, nothing stored is lost, and
it can resume."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import shortcuts
from real_servers import left_behind, postgres_processes, until
from simulated_specs import SMALL

from storagelab.errors import StoreError
from storagelab.model.measurement import Run
from storagelab.run.store import Store

SPEC = """
name = "long"
repetitions = {repetitions}
[target]
engine = "postgres"
[volumes.a]
path = "a"
[workload]
connections = 4
rows_per_connection = {rows}
rows_per_transaction = 1000
"""
campaign = pytest.mark.campaign
as_users_have_it = pytest.mark.parametrize(
    "storagelab", [[sys.executable, "-m", "storagelab"]], ids=["as users have it"]
)
TOO_LONG = 10_000_000
LOADING = "storagelab: storagelab postgres"
"""How a session at work shows in the list of processes: cluster, user, database."""


class Running:
    """A `storagelab run` in a process group of its own, as a shell would start it."""

    def __init__(self, home: Path, storagelab: list[str]) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [*storagelab, "run", "long.toml"],
            cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0,
            # Under nohup, as in CI, a hang-up would be ignored from the start, and correctly stay ignored.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )  # fmt: skip

    def ended(self) -> tuple[int, str]:
        """Exit code and stderr."""
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err

    def until(self, happened: Callable[[], object]) -> object:
        """Waits for a condition for as long as the run goes on."""

        def happened_or_ended() -> object:
            assert self.process.poll() is None, f"ended too early: {self.ended()}"
            return happened()

        return until(happened_or_ended)

    def loading(self) -> list[int]:
        """Sessions that are inserting rows right now."""
        found = []
        for pid in postgres_processes(self.home):
            with contextlib.suppress(OSError):
                title = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if LOADING in title and "CALL" in title:
                    found.append(pid)
        return found


@pytest.fixture
def storagelab(templates) -> list[str]:
    """Its databases are copied, except in tests of the set-up."""
    return shortcuts.command(templates)


@pytest.fixture
def start(scratch, storagelab) -> Iterator:
    """Starts a campaign of this many runs; any process left at the end of the test is killed."""
    (scratch / "a").mkdir()
    started: list[Running] = []

    def start_(*, rows: int = TOO_LONG, repetitions: int = 1) -> Running:
        (scratch / "long.toml").write_text(SPEC.format(rows=rows, repetitions=repetitions))
        started.append(Running(scratch, storagelab))
        return started[-1]

    yield start_
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
        running.process.communicate()


def one_is_stored(home: Path) -> bool:
    """False also while the store itself is still being made."""
    with contextlib.suppress(StoreError):
        return len(stored(home)) >= 1
    return False


def stored(home: Path) -> tuple[Run, ...]:
    with Store.reading(home / "results" / "long") as store:
        return store.runs()


def nothing_is_left(home: Path) -> None:
    log = home / "results" / "long" / "run.log"
    assert left_behind(home) == [], log.read_text() if log.exists() else "no log"
    assert os.listdir(home / "a") == []
    assert list((home / "tmp").iterdir()) == []


# --- stopped cleanly -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT],
    ids=["Ctrl-C", "SIGTERM", "hang-up", "SIGQUIT"],
)
@pytest.mark.parametrize("whom", ["its whole group", pytest.param("the process alone", marks=campaign)])
def test_a_signal_amid_a_run_stops_it_cleanly_and_says_how_to_go_on(start, scratch, number, whom):
    running = start()
    running.until(running.loading)
    began = time.monotonic()
    (os.killpg if whom == "its whole group" else os.kill)(running.process.pid, number)
    code, err = running.ended()
    assert code == 130, err
    assert time.monotonic() - began < 20
    assert "interrupted: 0 of 1 runs are stored; run again to continue" in err
    assert "Traceback" not in err
    assert "Aborted" not in err
    nothing_is_left(scratch)
    assert stored(scratch) == ()


def test_impatience_can_not_break_the_cleaning_up(start, scratch):
    running = start()
    running.until(running.loading)
    for _ in range(40):
        if running.process.poll() is None:
            os.kill(running.process.pid, signal.SIGINT)
        time.sleep(0.005)
    code, err = running.ended()
    assert code == 130, err
    assert "Traceback" not in err
    nothing_is_left(scratch)


@as_users_have_it
@pytest.mark.parametrize("after_s", [0.3, *(pytest.param(at_s, marks=campaign) for at_s in (0.05, 0.6))])
def test_a_signal_amid_the_set_up_leaves_nothing_behind(start, scratch, after_s):
    running = start()
    running.until(lambda: list((scratch / "a").iterdir()))
    time.sleep(after_s)
    os.killpg(running.process.pid, signal.SIGINT)
    code, err = running.ended()
    assert code == 130, err
    assert "Traceback" not in err
    nothing_is_left(scratch)


def test_what_was_stored_before_an_interruption_stays_and_is_not_made_again(start, scratch):
    running = start(rows=3_000, repetitions=4)
    running.until(lambda: one_is_stored(scratch))
    os.kill(running.process.pid, signal.SIGINT)
    code, err = running.ended()
    assert code == 130, err
    nothing_is_left(scratch)
    before = stored(scratch)
    assert 1 <= len(before) < 4
    assert f"interrupted: {len(before)} of 4 runs are stored" in err

    code, err = start(rows=3_000, repetitions=4).ended()
    assert code == 0, err
    assert f"{4 - len(before)} runs to make, {len(before)} stored already" in err
    after = stored(scratch)
    assert after[: len(before)] == before
    assert sorted(run.repetition for run in after) == [1, 2, 3, 4]
    nothing_is_left(scratch)


# --- killed ----------------------------------------------------------------------------------------------------------


def test_after_kill_9_no_server_runs_on_and_the_next_run_sweeps_and_goes_on(start, scratch):
    running = start(rows=200_000, repetitions=2)
    running.until(running.loading)
    running.process.kill()
    killed_s = time.monotonic()
    until(lambda: postgres_processes(scratch) == [])
    assert time.monotonic() - killed_s < 2
    running.process.wait()
    debris = os.listdir(scratch / "a")
    assert len(debris) == 1

    following = start(rows=200_000, repetitions=2)
    following.until(following.loading)
    os.kill(following.process.pid, signal.SIGINT)
    code, err = following.ended()
    assert code == 130, err
    assert f"removed {scratch}/a/{debris[0]}, left behind by a killed run" in err
    nothing_is_left(scratch)


def test_after_kill_9_what_was_stored_is_there_and_only_the_rest_is_made(start, scratch):
    running = start(rows=3_000, repetitions=3)
    running.until(lambda: one_is_stored(scratch))
    running.process.kill()
    running.process.wait()
    before = stored(scratch)
    assert before
    code, err = start(rows=3_000, repetitions=3).ended()
    assert code == 0, err
    after = stored(scratch)
    assert after[: len(before)] == before
    assert sorted(run.repetition for run in after) == [1, 2, 3]
    assert {run.status for run in after} == {"ok"}
    nothing_is_left(scratch)


AMID_THE_SET_UP = [("a", "long.toml", 0.2), ("tmp", "other.toml", 0.1)]
"""The folder that shows the first activity, the spec that is run next, and the seconds until the kill."""
MORE_OF_THEM = [(*which, at_s) for *which, _ in AMID_THE_SET_UP for at_s in (0.0, 0.4)]


@as_users_have_it
@pytest.mark.parametrize(
    ("where", "following", "after_s"),
    [*AMID_THE_SET_UP, *(pytest.param(*each, marks=campaign) for each in MORE_OF_THEM)],
)
def test_after_kill_9_amid_the_set_up_or_the_trial_start_the_next_run_sweeps_and_is_well(
    start, scratch, storagelab, where, following, after_s
):
    running = start(rows=1_000)
    (scratch / "other.toml").write_text(SMALL)
    running.until(lambda: list((scratch / where).iterdir()))
    time.sleep(after_s)
    running.process.kill()
    running.process.wait()
    until(lambda: postgres_processes(scratch) == [])
    said = subprocess.run([*storagelab, "run", following], cwd=scratch, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert following != "long.toml" or [run.status for run in stored(scratch)] == ["ok"]
    nothing_is_left(scratch)


def test_a_server_killed_with_its_storagelab_leaves_no_session_at_work(start, scratch):
    running = start()
    running.until(running.loading)
    # All of them, not only those seen at work: the others are at work a moment later.
    sessions = postgres_processes(scratch)
    server = int(next((scratch / "a").glob("*/server/postmaster.pid")).read_text().split()[0])
    os.kill(server, signal.SIGKILL)
    running.process.kill()
    running.process.wait()
    following = start()
    following.until(lambda: following.loading() and not set(sessions) & set(postgres_processes(scratch)))
    os.kill(following.process.pid, signal.SIGINT)
    assert following.ended()[0] == 130
    nothing_is_left(scratch)
