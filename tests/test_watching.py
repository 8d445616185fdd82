"""Pace, series and moments of a watcher: it limits its own cost, and its rates add up to the counts."""

import contextlib
import itertools
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from builders import make_experiment, make_plan, make_runs
from hypothesis import given
from hypothesis import strategies as st
from raw_io_specs import SPEC, needs_fio, parsed, runs_of

from storagelab.findings.analysis import analyse
from storagelab.loads.fio import Outcome
from storagelab.machine.processes import until
from storagelab.model.measurement import WATCHED, ObserverCost, Turns, WaitingTask
from storagelab.spec.matrix import expand
from storagelab.watching import pace as watching
from storagelab.watching.pace import Moments, Pace, Series

counts = st.integers(min_value=0, max_value=10**12).map(float)


def _busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def _run(pace: Pace, seconds: float, cost_s: float) -> None:
    pace.begin(lambda: None)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(pace.delay_s())
        _busy(cost_s)
        pace.ticked()
    pace.end()


def test_dear_looks_get_rarer_until_they_fit_the_budget():
    pace = Pace(50, 0.04, at_random=True)
    _run(pace, 4.0, 0.004)
    # 50 looks a second would cost 0.4 of a core: a session of unknown cost is taken to cost as much again.
    assert 10 <= pace.cost().ticks < 60
    assert pace.cost().sampler_cpu_s < 0.25


def test_turns_leave_unwatched_stretches_without_a_look(monkeypatch):
    monkeypatch.setattr(watching, "STRETCH_S", 0.1)
    pace = Pace(200, 1.0, at_random=True, in_turns=True)
    pace.begin(lambda: None)
    began_s, looked_s = time.monotonic(), list[float]()
    while time.monotonic() < began_s + 0.85:
        time.sleep(pace.delay_s())
        if not pace.resting:
            looked_s.append(time.monotonic())
        pace.ticked()
    pace.halt()
    # Watched, not, not, watched, not, watched, watched, not.
    assert sum(end - begin for begin, end in pace.rests) == pytest.approx(0.4, abs=0.15)
    assert not any(begin < at_s < end for begin, end in pace.rests for at_s in looked_s)
    assert pace.cost().ticks == len(looked_s) > 20
    assert pace.cost().blind_s == 0


@given(st.integers(0, 1000))
def test_watched_and_unwatched_stretches_share_a_trend(eights):
    """Of eight stretches, both kinds have the same number, the same sum of places, and the same sum of their
    squares.
    """
    places = range(8 * eights, 8 * eights + 8)
    watched = [place for place in places if watching.is_watched((place + 0.5) * watching.STRETCH_S)]
    rest = [place for place in places if place not in watched]
    assert [sum(p**power for p in watched) for power in range(3)] == [sum(p**power for p in rest) for power in range(3)]


@given(st.lists(st.tuples(st.floats(0.3, 2.0), counts), min_size=2, max_size=20))
def test_rates_times_their_intervals_add_up_to_the_growth_of_the_counter(steps):
    series = Series()
    at_s = 0.0
    for step_s, count in steps:
        at_s += step_s
        series.add(at_s, {"rows": count, "volume.a.write_bytes": 2 * count}, last=False)
    frozen = series.frozen()
    starts = (steps[0][0], *frozen.at_s)
    grown = sum(
        rate * (end - start)
        for rate, start, end in zip(frozen.columns["rows_per_s"], starts, frozen.at_s, strict=False)
        if rate is not None
    )
    assert grown == pytest.approx(steps[-1][1] - steps[0][1], rel=1e-6, abs=1e-3)
    assert set(frozen.columns) == {"rows_per_s", "volume.a.write_bytes_per_s"}
    assert all(len(column) == len(frozen.at_s) for column in frozen.columns.values())


def test_a_very_short_last_interval_is_joined_to_the_one_before():
    series = Series()
    for at_s, rows in ((0.0, 0.0), (1.0, 100.0)):
        series.add(at_s, {"rows": rows}, last=False)
    series.add(1.05, {"rows": 105.0}, last=True)
    assert series.frozen().at_s == (1.05,)
    assert series.frozen().columns["rows_per_s"] == (pytest.approx(100.0),)


def test_a_counter_that_was_missing_once_has_no_rate_there_and_is_not_taken_for_zero():
    series = Series()
    for at_s, counters in ((0.0, {"a": 1.0}), (1.0, {}), (2.0, {"a": 5.0}), (3.0, {"a": 6.0})):
        series.add(at_s, counters, last=False)
    assert series.frozen().columns == {"a_per_s": (None, None, 1.0)}


@given(st.integers(1, 2_000), st.integers(1, 6), st.integers(6, 50))
def test_however_long_the_run_moments_stay_few_and_spread_over_all_of_it(looks, tasks_each, limit):
    moments = Moments(0.5, limit)
    at_s, kept = 0.0, 0
    for _ in range(looks):
        if moments.due(at_s):
            kept += 1
            task = WaitingTask(at_s=at_s, wait_type="Lock:extend", resource="r", sessions=1)
            moments.add(at_s, (task,) * tasks_each)
        at_s += 0.5
    times = [task.at_s for task in moments.tasks]
    assert times
    assert len(times) <= limit
    assert times == sorted(times)
    assert times[0] == 0.0
    assert times[-1] >= at_s - 2 * moments.interval_s - 0.5


def test_a_moment_in_which_nothing_was_seen_counts_once_though_a_look_was_late_and_saw_somebody_stopped():
    pace = Pace(50, 0.04, at_random=False)
    began = time.monotonic()
    pace.begin(lambda: 0.0)
    time.sleep(0.4)
    pace.saw_stopped()
    pace.ticked()
    assert 0.35 <= pace.cost().blind_s <= time.monotonic() - began


def test_what_was_not_seen_after_the_run_had_ended_is_no_part_of_it():
    pace = Pace(50, 0.04, at_random=False)
    pace.begin(lambda: 0.0)
    time.sleep(0.6)
    pace.halt()
    assert pace.cost().blind_s == pace.blind_s(60.0) >= 0.5
    assert pace.blind_s(0.3) <= 0.3
    assert pace.blind_s(0.0) == 0.0


REPLAY = SPEC[: SPEC.index("[workload]")] + '[workload]\nkind = "replay"\ntrace = "requests.iolog"\npace = '
PGBENCH = (
    'repetitions = 1\n[target]\nengine = "postgres"\n[volumes.a]\npath = "."\n[workload]\nkind = "pgbench"\n'
    'connections = 2\nduration = "8s"\n'
)


def freeze_child(program: str, patience_s: float = 60.0) -> None:
    """Stops a program that this process started, 2 s after it began, for 4 s."""
    found: list[int] = []

    def is_there() -> bool:
        children = (path.read_text().split() for path in Path("/proc/self/task").glob("*/children"))
        for one in itertools.chain(*children):
            with contextlib.suppress(OSError):  # it may have ended
                found.extend([int(one)] if program in Path(f"/proc/{one}/cmdline").read_text() else [])
        return bool(found)

    until(is_there, patience_s)
    time.sleep(2)
    os.kill(found[0], signal.SIGSTOP)
    time.sleep(4)
    os.kill(found[0], signal.SIGCONT)


@needs_fio
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("sender.py", REPLAY + '"recorded"\n'), ("sender.py", REPLAY + '"as-fast-as-possible"\n'),
        ("--time_based", SPEC.replace('"1s"', '"8s"')), ("--log-prefix", PGBENCH),
    ],
)  # fmt: skip
def test_a_load_that_is_stopped_for_4_s_is_unverified_and_a_caution(scratch, program, text):
    step_us = 2000 if "recorded" in text else 40
    requests = (f"{number * step_us} f read {number % 2000 * 4096} 4096\n" for number in range(8_000_000 // step_us))
    (scratch / "requests.iolog").write_text("fio version 3 iolog\n0 f add\n0 f open\n" + "".join(requests))
    freezing = threading.Thread(target=freeze_child, args=(program,))
    freezing.start()
    (run,) = runs_of(scratch, text)
    freezing.join()
    assert (run.status, [one.name for one in run.measurement.unverified]) == ("unverified", [WATCHED])
    experiment = parsed(scratch, text)
    cautions = analyse(experiment, expand(experiment), [run]).cautions
    assert [one.longest_s >= 2 for one in cautions if one.kind == "standstill"] == [True]


def test_a_trace_that_rests_does_not_stand_still():
    ended = {"read": (5.0, 0.0, 0.0, 0.0, 1.0)}
    assert Outcome(5.0, {}, 0.0, ended, {}, due=(5, 5, 5, 5, 6)).standstill_s == 0
    assert Outcome(5.0, {}, 0.0, ended, {}, due=(6, 6, 6, 6, 6)).standstill_s == 3
    assert Outcome(5.0, {}, 0.0, ended, {}).standstill_s == 3


def test_a_load_that_is_surely_slower_while_watched_is_noted_with_the_interval():
    experiment = make_experiment({"layout.data_files": [1, 2, 4, 8]}, 5)
    plan, runs = make_plan(experiment), []
    for run in make_runs(experiment, make_plan(experiment)):
        watched = 9_500 + 10 * run.repetition
        turns = Turns(unwatched_s=10, unwatched_transactions=10_000, watched_s=10, watched_transactions=watched)
        dear = ObserverCost(sampler_cpu_s=1.0, session_cpu_s=0.4, ticks=500)
        measured = run.measurement.model_copy(update={"turns": turns, "observer": dear})
        runs.append(run.model_copy(update={"measurement": measured}))
    (caution,) = analyse(experiment, plan, runs).cautions
    assert (caution.kind, caution.severity, caution.p99) == ("watched-slower", "note", None)
    assert caution.throughput.value == pytest.approx(0.953, abs=0.001)
    assert 0.95 < caution.throughput.low < caution.throughput.high < 0.955
