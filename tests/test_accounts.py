"""The kernel's accounts of sessions, which here are processes of the test's own."""

import os
import subprocess
import time

import pytest

from storagelab.machine.procfs import TaskView, keeps_schedstat
from storagelab.targets.sampler import Accounts

needs_kernel = pytest.mark.skipif(not keeps_schedstat(), reason="this kernel keeps no schedstat of its tasks")


def burn(seconds: float) -> None:
    until_s = time.thread_time() + seconds
    while time.thread_time() < until_s:
        pass


@needs_kernel
def test_sessions_spent_what_they_had_more_at_the_end():
    accounts = Accounts("not opened")
    accounts.open({1: TaskView(os.getpid())}, TaskView(os.getpid()))
    own_s = accounts.own_cpu_s()
    accounts.begin()
    burn(0.1)
    accounts.end()
    totals = accounts.totals()
    assert totals is not None
    assert 0.1 <= totals.cpu_s < 2
    assert totals.runqueue_s >= 0
    assert accounts.reason == ""
    assert accounts.states().keys() == accounts.turns().keys() == {1}
    assert own_s is not None
    assert accounts.own_cpu_s() > own_s
    accounts.close()


@needs_kernel
def test_a_session_that_ended_leaves_no_totals_and_a_reason():
    with subprocess.Popen(["sleep", "60"]) as session:
        accounts = Accounts()
        accounts.open({1: TaskView(os.getpid()), 2: TaskView(session.pid)}, None)
        accounts.begin()
        session.kill()
    accounts.end()
    assert accounts.totals() is None
    assert accounts.reason == "a session ended before its totals could be read from the kernel"
    accounts.close()


def test_accounts_that_were_not_opened_say_why():
    accounts = Accounts("the server is far away")
    accounts.begin()
    accounts.end()
    assert (accounts.totals(), accounts.states(), accounts.turns(), accounts.own_cpu_s()) == (None, {}, {}, None)
    assert accounts.reason == "the server is far away"
