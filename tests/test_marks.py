"""A program that a spec's SQL, scripts or settings have detached ends with the campaign, however the campaign ends."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_mariadb import needs_mariadb
from real_servers import measure, running, site_at, until
from simulated_specs import SMALL
from test_mariadb_generated import own as own_on_mariadb
from test_postgres_generated import own
from test_sysbench import needs_sysbench

from storagelab.machine import temporary
from storagelab.run import engine
from storagelab.servers import programs
from storagelab.stopping import Interruptible

pytestmark = pytest.mark.slow

AWAY = "setsid -f sleep {}"
"""Leaves the session and the parent, and so does every daemon."""


@pytest.fixture
def sleeps() -> str:
    """A number of seconds by which the sleepers of one test are known."""
    return f"1000.{os.getpid()}{time.monotonic_ns() % 10**6}"


def sleepers(sleeps: str) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cmdline").read_bytes() == f"sleep\0{sleeps}\0".encode():
                found.append(int(process.name))
    return found


def with_setup(scratch: Path, line: str, **load):
    from test_postgres_generated import SCHEMA

    (scratch / "schema.sql").write_text(f"{SCHEMA}\n{line}\n")
    return own(scratch, **load)


PROGRAM = "COPY (SELECT 1) TO PROGRAM '{}';"


@pytest.mark.parametrize("line", [PROGRAM, "\\! {}"], ids=["by the server", "by psql"])
def test_what_a_set_up_file_detaches_ends_with_the_run(scratch, sleeps, line):
    config = with_setup(scratch, line.format(AWAY.format(sleeps)))
    assert measure(config, site_at(scratch)).transactions > 10
    assert sleepers(sleeps) == []


def test_what_a_transaction_detaches_ends_with_the_run(scratch, sleeps):
    config = own(scratch)
    (scratch / "order.sql").write_text(f"\\setshell nothing sh -c '{AWAY.format(sleeps)}; echo 1'\nSELECT 1;\n")
    assert measure(config, site_at(scratch)).transactions > 1
    assert sleepers(sleeps) == []


@needs_mariadb
@needs_sysbench
def test_what_mariadbs_client_detaches_ends_with_the_run(scratch, sleeps, monkeypatch):
    from test_mariadb_generated import SCHEMA

    monkeypatch.setattr("test_mariadb_generated.SCHEMA", f"{SCHEMA}\\! {AWAY.format(sleeps)}\n")
    assert measure(own_on_mariadb(scratch), site_at(scratch)).transactions > 10
    assert sleepers(sleeps) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_what_a_program_detaches_ends_with_it_when_the_user_asks_to_stop(sleeps, number):
    command = ["sh", "-c", f"{AWAY.format(sleeps)}; kill -{int(number)} {os.getpid()}; sleep 60"]
    with Interruptible(), Interruptible(), pytest.raises(KeyboardInterrupt):  # the outer one puts all back
        programs.run(command, None, environment=programs.environment())
    assert sleepers(sleeps) == []


def test_a_program_that_has_ended_is_not_waited_for_because_of_one_that_keeps_its_output(sleeps):
    said = programs.run(["sh", "-c", f"echo done; {AWAY.format(sleeps)}"], None, environment=programs.environment())
    assert (said.returncode, said.stdout) == (0, "done\n")
    assert sleepers(sleeps) == []


STARTS = """
import sys, time
from storagelab.machine import temporary
from storagelab.servers import programs
temporary.MARK_VARIABLE = sys.argv[2]
programs.run(["sh", "-c", sys.argv[1]], None, environment=programs.environment())
"""


@pytest.fixture
def other(sleeps):
    """Another storagelab that is still at work, and a program that it has detached."""
    process = subprocess.Popen(
        [sys.executable, "-c", STARTS, f"{AWAY.format(sleeps)}; sleep 600", temporary.MARK_VARIABLE]
    )
    until(lambda: sleepers(sleeps))
    yield process
    process.kill()
    process.wait()
    engine.sweep_temporary()


def test_what_a_killed_campaign_has_left_running_is_ended_by_the_next_call_and_named(scratch, sleeps, other, typed):
    (pid,) = sleepers(sleeps)
    (scratch / "small.toml").write_text(SMALL)
    other.kill()
    other.wait()
    assert sleepers(sleeps) == [pid], "it is no child of anybody's"
    code, _, said = typed("run", scratch / "small.toml", "--results", scratch / "results")
    assert code == 0, said
    assert f"stopped the program sleep (process {pid}), left running by a killed run" in said
    assert sleepers(sleeps) == []


def test_the_programs_of_a_campaign_that_is_at_work_are_left_alone(sleeps, other):
    assert engine.sweep_temporary() == []
    assert len(sleepers(sleeps)) == 1
    assert other.poll() is None


def test_only_what_has_the_very_mark_is_ended(scratch, sleeps):
    with running(scratch) as server, subprocess.Popen(["sleep", sleeps]) as mine:
        programs.run(["true"], None, environment=programs.environment())
        temporary.end_marked(temporary.new_mark())
        assert mine.poll() is None
        assert not server.died()
        mine.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another user")
def test_root_that_may_not_look_at_other_users_processes_as_in_a_container_finds_them_too(scratch, sleeps):
    """Without the capability that containers lack: CAP_SYS_PTRACE."""
    code = f"""if True:
        import ctypes, sys
        from pathlib import Path
        libc = ctypes.CDLL(None)
        header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        assert libc.capget(header, data) == 0
        for i in range(3):
            data[i] &= ~(1 << 19)
        assert libc.capset(header, data) == 0
        from storagelab.servers import programs
        from storagelab.machine.rights import as_server
        programs.run(["sh", "-c", {AWAY.format(sleeps)!r}], as_server(), environment=programs.environment())
    """
    subprocess.run([sys.executable, "-c", code], check=True)
    assert sleepers(sleeps) == []
