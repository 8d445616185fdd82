"""A connection's seconds add up to the elapsed time, in each run and in the mean."""

import pytest
from builders import make_campaign, make_planned, make_runs
from simulated_specs import run_once

from storagelab.findings.analysis import analyse
from storagelab.findings.time_breakdown import IDLE, UNACCOUNTED, spent
from storagelab.model.measurement import AWAKE, Check
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


def test_a_run_that_verdicts_leave_out_is_left_out_here_too():
    experiment, plan = make_planned({FILES: [1, 2, 4, 8]}, repetitions=6)
    odd = {"layout.data_files": 4}
    runs = make_runs(
        experiment, plan, elapsed=lambda levels, n: (30.0 if dict(levels) == odd and n == 2 else 10.0) + 0.01 * n
    )
    asleep = Check(name=AWAKE, asked="awake", got="suspended for 20 s", ok=False, read_from="the kernel's clocks")
    odd_ones = {number for number, run in enumerate(runs) if run.measurement.elapsed_s > 20}
    runs = [
        run.model_copy(update={"measurement": run.measurement.model_copy(update={"checks": (asleep,)})})
        if number in odd_ones else run
        for number, run in enumerate(runs)
    ]  # fmt: skip
    findings = analyse(experiment, plan, runs)
    (left_out,) = findings.left_out
    assert len(findings.cell(left_out[0]).spent[0].by_run_s) == 5
