"""How the kernel sees a task: told against processes whose behaviour is known."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from real_servers import keeps_schedstat, until

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


def test_one_thread_of_a_process_is_told_from_the_others():
    busy = """
        import sys, threading, time
        def burn():
            while time.thread_time() < 0.2: pass
            stop.wait()
        stop = threading.Event()
        thread = threading.Thread(target=burn, daemon=True)
        thread.start()
        while thread.native_id is None: time.sleep(0.001)
        time.sleep(0.3)
        print("ready", flush=True)
        print(thread.native_id, flush=True)
        sys.stdin.read()"""
    with child(busy) as process:
        thread = TaskView(process.pid, int(process.stdout.readline()))
        main = TaskView(process.pid, process.pid)
        deadline = time.monotonic() + 20
        while (seen := thread.sched()) is not None and seen.cpu_ns < 0.19e9 and time.monotonic() < deadline:
            time.sleep(0.01)
        burnt, other = thread.sched(), main.sched()
        thread.close()
        main.close()
    assert burnt.cpu_ns == pytest.approx(0.2e9, rel=0.2)
    assert other.cpu_ns < burnt.cpu_ns + 0.5e9


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


def test_a_process_that_ended_but_was_not_waited_for_is_gone_too():
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        view = TaskView(process.pid)
        until(lambda: view.state() == GONE)
        view.close()
    finally:
        process.wait()


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


def test_with_no_files_left_to_open_a_view_still_reads_what_it_can():
    crowded = """
        import os, resource, sys
        from storagelab.machine.processes import TaskView
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))
        held = []
        try:
            while True: held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        view = TaskView(os.getpid())          # no file can be opened now
        assert view.sched() is None
        os.close(held.pop())                  # and now one at a time can
        assert view.state() == "R"
        assert view.sched() is not None
        assert view.switches() is not None
        print("ready", flush=True)
        sys.stdin.read()"""
    with child(crowded):
        pass


def test_this_kernel_counts_what_each_task_ran_and_queued():
    assert keeps_schedstat()
