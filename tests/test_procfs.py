"""The kernel's view of a task, compared with processes of known behaviour; the use of CPU time; and the holder of a
lock, named by number and name, without anything that may be secret.
"""

import fcntl
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from real_servers import until

from storagelab.machine import processes
from storagelab.machine.processes import GONE, RUNNABLE, TaskView, cpu_time_between, read_cpu_time

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc with schedstat is Linux's")


@contextmanager
def child(program: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process that says a line when it is ready, and ends when its input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline().strip() == "ready"
        yield process
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


SLEEPER = "print('ready', flush=True); input() if False else __import__('sys').stdin.read()"


def test_cpu_that_a_process_burns_is_counted_to_the_millisecond():
    burn = """
        import sys, time
        print("ready", flush=True)
        sys.stdin.readline()
        while time.process_time() < 0.3: pass
        print(time.process_time(), flush=True)
        sys.stdin.read()"""
    with child(burn) as process:
        view = TaskView(process.pid)
        before = view.sched()
        process.stdin.write("\n")
        process.stdin.flush()
        own_count_s = float(process.stdout.readline())
        until(lambda: view.state() != RUNNABLE)
        after = view.sched()
        view.close()
    assert after.cpu_ns - before.cpu_ns <= after.cpu_ns
    assert after.cpu_ns * 1e-9 == pytest.approx(own_count_s, abs=0.02)
    assert after.timeslices > before.timeslices
    assert after.runqueue_ns >= before.runqueue_ns


def test_a_process_that_waits_for_input_is_seen_asleep():
    with child(SLEEPER) as process:
        view = TaskView(process.pid)
        until(lambda: view.state() != RUNNABLE)
        assert view.state() == "S"
        view.close()


def test_a_process_that_runs_is_seen_runnable():
    view = TaskView(os.getpid(), threading.get_native_id())
    assert view.state() == RUNNABLE
    view.close()


def test_each_sleep_of_a_process_is_a_voluntary_switch():
    naps = """
        import sys, time
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(25): time.sleep(0.001)
        print("done", flush=True)
        sys.stdin.read()"""
    with child(naps) as process:
        view = TaskView(process.pid)
        until(lambda: view.state() != RUNNABLE)
        before = view.switches()
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        until(lambda: view.state() != RUNNABLE)
        after = view.switches()
        view.close()
    assert 25 <= after.voluntary - before.voluntary <= 60
    assert after.involuntary >= before.involuntary


def test_a_process_that_ended_reads_as_gone_and_not_as_an_error():
    with child(SLEEPER) as process:
        view = TaskView(process.pid)
        assert view.sched() is not None
    assert view.state() == GONE
    assert view.sched() is None
    assert view.switches() is None
    assert view.parent() is None
    assert view.name() == ""
    view.close()
    view.close()


def test_a_name_with_brackets_and_spaces_does_not_hide_the_state():
    named = """
        import sys
        open("/proc/self/comm", "w").write("a) R (b) Z")
        print("ready", flush=True)
        sys.stdin.read()"""
    with child(named) as process:
        view = TaskView(process.pid)
        until(lambda: view.state() != RUNNABLE)
        assert view.name() == "a) R (b) Z"
        assert view.state() == "S"
        assert view.parent() == os.getpid()
        view.close()


# --- where CPU time goes ----------------------------------------------------------------------------------------------


SPIN = "import time, sys\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\nsys.stdin.read()"


def test_the_cpu_time_of_the_server_s_children_is_the_server_s():
    before = read_cpu_time(os.getpid())
    with subprocess.Popen([sys.executable, "-c", SPIN], stdin=subprocess.PIPE) as child:
        until(lambda: cpu_time_between(before, read_cpu_time(os.getpid()))["server_s"] >= 0.35)
        spent = cpu_time_between(before, read_cpu_time(os.getpid()))
        child.stdin.close()
    tick_s = 0.01  # the kernel counts in these, and the sums of the machine and of a process are not of one moment
    assert spent["busy_s"] > 0.35 - tick_s
    assert spent["server_s"] > 0.35 - tick_s


def test_the_cpu_time_of_a_load_s_program_is_the_load_s_and_stays_so_when_the_program_has_ended():
    with subprocess.Popen(["sleep", "60"]) as server:
        before = read_cpu_time(server.pid)
        program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}], input=b'')"
        subprocess.run([sys.executable, "-c", program], check=True)
        spent = cpu_time_between(before, read_cpu_time(server.pid))
        server.kill()
    assert 0.39 < spent["load_s"] < 1.5, "the spinning, and the start of two interpreters"


def test_what_neither_server_nor_load_nor_storagelab_used_is_the_others():
    spent = cpu_time_between(
        {"busy_s": 1.0, "server_s": 0.5, "load_s": 0.0, "storagelab_s": 0.1, "kernel_s": 0.1, "idle_s": 5.0},
        {"busy_s": 4.0, "server_s": 2.0, "load_s": 0.3, "storagelab_s": 0.2, "kernel_s": 0.5, "idle_s": 6.0},
    )
    assert spent["others_s"] == pytest.approx(3.0 - 1.5 - 0.3 - 0.1 - 0.4)


def test_the_kernel_s_threads_are_told_by_their_flag_and_not_by_their_parent(tmp_path):
    """Lines of a real /proc, and a server whose parent has the number 2, as in a container."""
    (tmp_path / "stat").write_text("cpu  3304579 2223126 1563871 794142 98767 0 30556 142133 0 0\n")
    for pid, of_process in {
        2: "(kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 1 28 0 0 20 0 1 0 14 0 0",
        10: "(kworker/0:0H-kblockd) I 2 0 0 0 -1 69238880 0 0 0 0 0 3350 0 0 0 -20 1 0 14 0 0",
        41: "(postgres) S 2 41 41 0 -1 4194624 1290 0 0 0 500 100 0 0 20 0 1 0 90 0 0",
    }.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} {of_process}\n")
    spent, tick_s = read_cpu_time(41, tmp_path), 1 / os.sysconf("SC_CLK_TCK")
    assert spent["kernel_s"] == pytest.approx(tick_s * (1 + 28 + 3350 + 30556)), "the two threads, and interrupts"
    assert spent["server_s"] == pytest.approx(tick_s * 600)


def test_a_machine_that_can_t_tell_tells_nothing(tmp_path):
    assert read_cpu_time(None, tmp_path) == {}
    assert cpu_time_between({}, {}) == {}


# --- who holds a lock -------------------------------------------------------------------------------------------------


LOCKS = {
    "flock": "import fcntl; file = open(sys.argv[1], 'a+'); fcntl.flock(file, fcntl.LOCK_EX)",
    "record": "import fcntl; file = open(sys.argv[1], 'a+'); fcntl.lockf(file, fcntl.LOCK_EX)",
}


@pytest.mark.parametrize("kind", LOCKS)
def test_the_process_that_holds_a_lock_is_named_without_its_words(tmp_path, kind):
    code = f"import sys, time; {LOCKS[kind]}; print('holding', flush=True); time.sleep(600)"
    command = [sys.executable, "-c", code, str(tmp_path / "held"), "password=secret"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        name = Path(f"/proc/{holder.pid}/comm").read_text().strip()
        assert processes.holders_text(tmp_path / "held") == f"process {holder.pid} ({name})"
        holder.kill()
    assert processes.holders_text(tmp_path / "held") == ""


def test_a_lock_that_outlives_its_holder_is_laid_to_the_process_that_has_the_file(tmp_path):
    code = "import sys, os, time; file = open(sys.argv[1], 'a+'); import fcntl; fcntl.flock(file, fcntl.LOCK_EX)\n"
    code += "child = os.fork()\nif child: print(child, flush=True); os._exit(0)\ntime.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "held")], stdout=subprocess.PIPE) as holder:
        child = int(holder.stdout.readline())
        try:
            assert holder.wait() == 0
            assert processes.holders_text(tmp_path / "held").startswith(f"process {child} (")
        finally:
            os.kill(child, 9)


def test_our_own_lock_and_a_file_that_is_not_there_have_no_holder(tmp_path):
    with (tmp_path / "held").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert processes.holders_text(tmp_path / "held") == ""
    assert processes.holders_text(tmp_path / "gone") == ""
