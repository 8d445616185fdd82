"""Work in other processes: if any process dies at any moment, the others continue. Ctrl-C ends them all."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from real_servers import until
from some_work import refuse, tell_who

from storagelab.run.executors import Executor, Here, Processes
from storagelab.stopping import STOPPING

pytestmark = pytest.mark.slow

NAMES = list("abcdefgh")


class Noting:
    """Jobs that record reports and losses; lost work is scheduled again. `then` reacts to a report."""

    def __init__(self, *tasks: str) -> None:
        self.tasks, self.reported_tasks, self.lost_for = list(tasks), list[str](), list[str]()
        self.ended_tasks = list[str]()
        self.then: dict[str, Callable[[int], None]] = {}
        self.pids: dict[str, int] = {}

    def assign(self) -> str | None:
        return self.tasks.pop(0) if self.tasks else None

    def reported(self, *reports: tuple[str, int]) -> None:
        for name, pid in reports:
            self.pids[name] = pid
            if not name.endswith("began"):
                self.reported_tasks.append(name)
            if name in self.then:
                self.then.pop(name)(pid)

    def ended(self, task: str) -> None:
        self.ended_tasks.append(task)
        if task.partition(" ")[0] not in self.reported_tasks:
            self.tasks.append(task)  # it was not begun

    def lost(self, task: str, why: str) -> None:
        self.lost_for.append(why)
        self.tasks.append(task)


@pytest.mark.parametrize("executor", [Here(tell_who), Processes(tell_who, 1), Processes(tell_who, 3)])
def test_every_task_is_done_once_wherever_that_is(executor: Executor):
    jobs = Noting(*NAMES)
    executor.execute(jobs)
    assert sorted(jobs.reported_tasks) == sorted(jobs.ended_tasks) == NAMES
    assert jobs.lost_for == []


def test_a_process_killed_at_its_work_is_lost_with_the_signal_and_another_one_takes_the_task():
    jobs = Noting("a 0.3", "b 0.3")
    jobs.then["a began"] = lambda pid: os.kill(pid, signal.SIGKILL)
    Processes(tell_who, 2).execute(jobs)
    assert sorted(jobs.reported_tasks) == ["a", "b"]
    (why,) = jobs.lost_for
    assert why.startswith("its process was killed by signal 9 (SIGKILL)")
    assert "memory" in why


def test_a_process_killed_while_idle_harms_nobody():
    jobs = Noting("long 1", "b")

    def kill_b(_: int) -> None:
        os.kill(jobs.pids["b"], signal.SIGKILL)
        jobs.tasks += ["c", "d"]

    jobs.then["long"] = kill_b  # by then the other process has been idle for half a second or more
    Processes(tell_who, 2).execute(jobs)
    assert sorted(jobs.reported_tasks) == ["b", "c", "d", "long"]
    assert jobs.lost_for == [], "what it got when it was dead already, no process ended at"


def test_what_breaks_in_another_process_is_raised_here_and_says_where_it_happened():
    with pytest.raises(LookupError, match=r"there is no [ab]") as raised:
        Processes(refuse, 2).execute(Noting("a", "b"))
    assert "in refuse" in raised.value.__notes__[0]


CAMPAIGN = """
    import os, signal, sys
    from test_executors import Noting, Processes, tell_who

    def begun(pid):
        if sys.argv[1] == "a process was killed":
            os.kill(pid, signal.SIGKILL)
        if sys.argv[1] == "a process is stopped":
            os.kill(pid, signal.SIGSTOP)
        print(pid, flush=True)

    if __name__ == "__main__":
        jobs = Noting("a 60", "b 60")
        jobs.then["a began"] = begun
        jobs.lost = lambda task, why: None
        Processes(tell_who, 2).execute(jobs)
"""


@contextmanager
def campaign(tmp_path: Path, state: str) -> Iterator[tuple[subprocess.Popen, int]]:
    """A campaign whose tasks take a minute, and the id of its first process."""
    script = tmp_path / "campaign.py"
    script.write_text(textwrap.dedent(CAMPAIGN))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    with subprocess.Popen(
        [sys.executable, str(script), state], env=environment, process_group=0, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        yield process, int(process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
@pytest.mark.parametrize("state", ["all work", "a process was killed", "a process is stopped"])
def test_all_ends_long_before_the_work_does_whatever_the_processes_do(tmp_path: Path, number: int, state: str):
    with campaign(tmp_path, state) as (process, first):
        time.sleep(0.3)
        os.kill(process.pid, number)
        process.wait(timeout=30)
        if state == "a process is stopped" and number == signal.SIGKILL:
            os.kill(first, signal.SIGCONT)  # it can't notice anything earlier
        until(lambda: not group_of(process.pid), timeout_s=30)


def test_processes_leave_every_signal_to_stop_to_their_parent(tmp_path: Path):
    """As a terminal sends them to the whole group."""
    with campaign(tmp_path, "all work") as (process, first):
        ignored = int(re.search(r"^SigIgn:\s*(\w+)", Path(f"/proc/{first}/status").read_text(), re.MULTILINE)[1], 16)
        process.kill()
    assert [number.name for number in STOPPING if not ignored >> (number - 1) & 1] == []
    assert signal.SIGQUIT in STOPPING


def group_of(leader: int) -> list[int]:
    """Processes of a group that are not yet dead."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == leader and fields[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found
