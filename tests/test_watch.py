"""The thread that watches a run: at the start, at its pace, and at the end; its failures never break the run."""

import threading

from storagelab.targets.sampler import Looks, Watch
from storagelab.targets.watching import Pace


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


def test_one_that_was_never_started_ends_at_once():
    watch = Watch(pace(), Looks(lambda: None, lambda: None, lambda: None), str)
    watch.end(10)
    assert watch.error == ""
