"""Reports show the means by which cells are compared, free of odd runs and burn-in."""

import math
import random

import pytest
from builders import analysed, make_campaign, make_planned, make_runs, ten_seconds

from storagelab.findings.analysis import analyse


def one_run_takes_twice_as_long(levels, repetition):
    return ten_seconds(levels, repetition) * (2 if (levels["layout.data_files"], repetition) == (4, 3) else 1)


@pytest.fixture
def campaign():
    """One of twenty runs takes twice as long."""
    experiment, plan = make_planned({"layout.data_files": [1, 2, 4, 8]}, repetitions=5)
    return experiment, plan, make_runs(experiment, plan, elapsed=one_run_takes_twice_as_long)


def test_an_odd_run_counts_in_the_mean_of_its_layout_and_is_named(campaign):
    findings = analyse(*campaign)
    assert (findings.fit, findings.left_out) == ("robust", ())
    mean = findings.cell("cell-003").elapsed_s.mean
    assert mean.value == pytest.approx(10 * 2 ** (1 / 5), rel=0.02)
    assert mean.low == pytest.approx(10, rel=0.02)
    assert mean.high > 13
    (caution,) = [caution for caution in findings.cautions if caution.kind == "outlier"]
    assert (caution.figures["left_out"], caution.figures["slow"], caution.figures["cell_runs"]) == (0, 1, 5)
    assert "1 of 5 runs with 4 data files took 2.0 times as long; none of the others did" in caution.sentence(findings)
    assert "so it counts in means" in caution.sentence(findings)


def test_an_odd_run_during_which_other_processes_were_busy_is_left_out_of_the_mean_and_told_why(campaign):
    experiment, plan, runs = campaign
    calm, busy = ({"busy_s": 10.0 + by, "idle_s": 70.0 - by, "others_s": by, "server_s": 9.0} for by in (1.0, 40.0))
    found = []
    for run in runs:
        odd = (run.levels["layout.data_files"], run.repetition) == (4, 3)
        counters = {**run.measurement.counters, "cpu": busy if odd else calm}
        measurement = run.measurement.model_copy(update={"counters": counters})
        found.append(run.model_copy(update={"measurement": measurement}))
    findings = analyse(experiment, plan, found)
    assert findings.left_out == (("cell-003", 3),)
    sample = findings.cell("cell-003").elapsed_s
    assert sample.mean.value == pytest.approx(10, rel=0.02)
    assert len(sample.points) == 5
    (caution,) = [caution for caution in findings.cautions if caution.kind == "outlier"]
    assert (caution.figures["left_out"], caution.figures["cause"]) == (1, "others")
    assert "It is left out of means and verdicts, as other processes" in caution.sentence(findings)


def test_with_least_squares_every_run_counts(campaign):
    findings = analyse(*campaign, "least-squares")
    assert (findings.fit, findings.left_out) == ("least-squares", ())
    assert findings.cell("cell-003").elapsed_s.mean.value == pytest.approx(10 * 2 ** (1 / 5), rel=0.02)


def test_the_nominally_fastest_never_shows_a_longer_mean_than_another():
    rng = random.Random(9)
    for _ in range(20):
        findings = analysed({"layout.data_files": [1, 2, 4, 8]}, elapsed=lambda *_: 10 * math.exp(rng.gauss(0, 0.3)))
        means = {cell.cell_id: cell.elapsed_s.mean.value for cell in findings.cells}
        assert min(means, key=means.get) == findings.fastest


def test_runs_of_a_burn_in_are_not_judged():
    experiment, plan, runs = make_campaign({"layout.data_files": [1, 4]}, repetitions=4)
    first = runs[0].model_copy(
        update={"repetition": 0, "measurement": runs[0].measurement.model_copy(update={"elapsed_s": 500.0})}
    )
    assert first.burn_in
    assert analyse(experiment, plan, [first, *runs]).cells == analyse(experiment, plan, runs).cells
