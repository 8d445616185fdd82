"""A connection's seconds add up to the elapsed time, in each run and in the mean."""

import pytest
from builders import make_campaign
from simulated_specs import run_once

from storagelab.findings.analysis import analyse
from storagelab.findings.cell import IDLE, UNACCOUNTED, spent
from storagelab.model.waits import CountedWait, CountedWaits, conservation, normalise

FILES = "layout.data_files"


def of(raw):
    return spent([(raw.connections, conservation(raw), normalise(raw))])


def test_sampled_waits_add_up_run_by_run():
    experiment, plan, runs = make_campaign({FILES: [1, 4]}, repetitions=3)
    for cell in analyse(experiment, plan, runs).cells:
        elapsed = [point.value for point in cell.elapsed_s.points]
        assert [sum(one.by_run_s[n] for one in cell.spent) for n in range(3)] == pytest.approx(elapsed)


def test_counted_waits_of_a_simulation_add_up(tmp_path):
    run = run_once(tmp_path)[0]
    parts = of(run.measurement.waits)
    assert sum(one.mean_s for one in parts) == pytest.approx(run.measurement.elapsed_s)
    assert {one.part for one in parts} >= {"resource", "signal", "cpu", "idle"}


def test_timers_that_overlap_leave_less_than_nothing():
    waits = CountedWaits(
        connections=2, elapsed_s=10, busy_s=18, cpu_s=8,
        rows=(CountedWait(wait_type="log", wait_ns=11_000_000_000, signal_ns=None, wait_count=1),),
    )  # fmt: skip
    parts = {one.name: one for one in of(waits)}
    assert parts["log"].part == "wait"
    assert parts[IDLE].mean_s == pytest.approx(1.0)
    assert parts[UNACCOUNTED].mean_s == pytest.approx(-0.5)
    assert sum(one.mean_s for one in parts.values()) == pytest.approx(10)
