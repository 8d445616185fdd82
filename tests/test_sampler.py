"""The kernel's accounts of sessions, and the thread that watches a run: its failures never break the run."""

import os
import subprocess
import threading
import time

import pytest
from real_servers import keeps_schedstat

from storagelab.machine.processes import TaskView
from storagelab.watching.pace import Pace
from storagelab.watching.sampler import Accounts, Looks, Watch

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
    assert 0.1 <= totals.cpu_s < 2
    assert totals.runqueue_s >= 0
    assert accounts.reason == ""
    assert accounts.states().keys() == accounts.turns().keys() == {1}
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


def pace() -> Pace:
    return Pace(200, budget=1.0, at_random=False)


def test_it_looks_first_then_at_its_pace_then_last():
    done, thrice = list[str](), threading.Event()

    def tick() -> None:
        done.append("tick")
        if len(done) > 3:
            thrice.set()

    watch = Watch(pace(), Looks(lambda: done.append("first"), tick, lambda: done.append("last")), str)
    watch.start()
    assert thrice.wait(10)
    assert watch.at_s > 0
    assert not watch.ending
    watch.end(10)
    assert (done[0], set(done[1:-1]), done[-1]) == ("first", {"tick"}, "last")
    assert (watch.error, watch.ending, watch.stuck) == ("", True, False)


def test_what_breaks_is_told_in_the_servers_words_and_raised_nowhere():
    broken = threading.Event()

    def tick() -> None:
        broken.set()
        raise ValueError("it went away")

    watch = Watch(pace(), Looks(lambda: None, tick, lambda: None), lambda error: f"the server says: {error}")
    watch.start()
    assert broken.wait(10)
    watch.end(10)
    assert watch.error == "sampling stopped early: the server says: it went away"


def test_a_look_that_never_ends_is_given_up_and_what_it_uses_left_to_it():
    stands, free = threading.Event(), threading.Event()

    def tick() -> None:
        stands.set()
        free.wait(10)

    watch = Watch(pace(), Looks(lambda: None, tick, lambda: None), str)
    watch.start()
    assert stands.wait(10)
    watch.end(0.05)
    assert (watch.error, watch.stuck) == ("sampling stopped early: the server did not answer", True)
    free.set()
    watch.end(10)
    assert not watch.stuck
