"""The run of a generator whose warm-up is to be found: a program stands for it that reports its throughput at once."""

import os
import signal
import sys
import time
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from bench.drawn_warm_ups import LEVELS, UNSEEN, judged
from storagelab.errors import RunFailed
from storagelab.loads import pgbench
from storagelab.loads.generator import Program
from storagelab.loads.running import Generator
from storagelab.loads.settling import LEAST_S, trend
from storagelab.loads.transactions import Transactions
from storagelab.model.loads.pgbench import Pgbench
from storagelab.model.measurement import TimeSeries
from storagelab.servers.interfaces import Work

REPORTS = """
import signal, sys, time
signal.signal(signal.SIGALRM, lambda *_: sys.exit())
for second, rate in enumerate({rates}, 1):
    print(f"progress: {{second}}.0 s, {{rate}} tps, lat 1.0 ms stddev 0.1", flush=True)
time.sleep(20)
"""


def transactions(_: Path) -> Transactions:
    """One in each 10 ms of the last minute, so that some count however long the program took to end."""
    ended_s = np.arange(time.time() - 60, time.time(), 0.01)
    return Transactions(ended_s, np.full(len(ended_s), 1000.0), np.zeros(len(ended_s)), np.empty(0), np.empty(0))


def generator_of(load: Pgbench, code: str) -> Generator[StringIO]:
    program = Program(
        title="pgbench", command=lambda *_: [sys.executable, "-c", code], read=transactions,
        words=lambda said: pgbench.words(said, ()), stop=signal.SIGALRM, environment=os.environ, inputs={},
        per_second=pgbench.per_second,
    )  # fmt: skip
    return Generator[StringIO](program, load, StringIO, lambda: [1])


def run(rates: list[float], at_most_s: float = 0.8) -> Work:
    """A run of 0.3 s whose generator says that it did this much in each second before."""
    # A limit that no spec may set, so that the test does not last.
    load = Pgbench(connections=1, duration_s=0.3, warm_up_s="auto").model_copy(update={"warm_up_at_most_s": at_most_s})
    generator = generator_of(load, REPORTS.format(rates=rates))
    try:
        generator.gather()
        generator.release()
        generator.wait(lambda: None)
        return generator.counted(TimeSeries())
    finally:
        generator.close()


def test_a_run_counts_once_throughput_has_settled_and_keeps_how_long_that_took():
    done = run([100.0, 101.0] * 10, at_most_s=15)
    assert done.checks == ()
    assert 0 < done.counters["generator"]["warm_up_s"] < 14


def test_a_run_that_never_settles_counts_after_the_longest_warm_up_and_says_so():
    done = run([10.0 * 1.3**second for second in range(15)])
    [check] = done.checks
    assert not check.ok
    assert (check.name, check.asked) == ("throughput", "settled within 2 %")
    assert check.got.startswith("expected to change by +")
    assert check.got.endswith("% over 0.3 s after 1 s of warm-up")
    assert done.counters["generator"]["warm_up_s"] == pytest.approx(0.8, abs=0.5)


def test_a_warm_up_that_is_too_short_to_tell_says_so():
    [check] = run([100.0] * 4).checks
    assert check.got == "too short to tell after 1 s of warm-up"


def test_a_program_that_ends_during_the_warm_up_is_told():
    with pytest.raises(RunFailed, match="pgbench ended early: it says nothing"):
        generator_that_ends()


def generator_that_ends(how: str = "") -> None:
    load = Pgbench(connections=1, duration_s=0.3, warm_up_s="auto")
    generator = generator_of(load, f'print("progress: 1.0 s, 5.0 tps"){how}')
    try:
        generator.gather()
    finally:
        generator.close()


def test_a_program_that_is_killed_is_said_to_be_killed_and_by_what():
    with pytest.raises(RunFailed, match=r"pgbench ended early: it was killed by signal 15 \(SIGTERM\)"):
        generator_that_ends("; import os; os.kill(os.getpid(), 15)")


# --- when throughput has settled: drawn series whose settling times are known -----------------------------------------


SEEN = [kind for kind in LEVELS if kind != UNSEEN]
MOST_TOO_EARLY = 0.05


@pytest.mark.parametrize("kind", SEEN)
def test_few_runs_count_while_they_still_move_by_2_per_cent_or_more(kind):
    found = judged(kind, 200, 20, seed=7)
    assert found.settled.sum() > 60  # else it would be no test
    assert found.too_early <= MOST_TOO_EARLY


def test_runs_that_are_settled_from_the_start_are_found_to_be_unless_they_are_very_noisy():
    found = judged("settled from the start", 200, 60, seed=7)
    assert found.never <= 0.1
    assert found.waited_s < 2.5 * 60


def test_a_line_that_climbs_by_a_known_share_is_measured():
    found = trend(100 * (1 + 0.001 * (np.arange(40) - 19.5)), 30)
    assert found.change == pytest.approx(0.03, rel=0.03)
    assert found.half == pytest.approx(0, abs=1e-6)
    assert not found.settled


def test_a_steep_climb_long_ago_does_not_count_against_a_level_that_holds():
    assert trend(np.concatenate([np.linspace(1, 100, 20), np.full(20, 100.0)]), 30).settled


def test_too_few_seconds_have_no_trend():
    assert trend(np.full(LEAST_S - 1, 100.0), 30) is None
