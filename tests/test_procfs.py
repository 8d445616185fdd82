"""How the kernel sees a task: told against processes whose behaviour is known."""

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from real_servers import until

from storagelab.machine.processes import GONE, RUNNABLE, TaskView

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
