"""Reports show the means by which cells are compared, free of odd runs and burn-in."""

from __future__ import annotations

import math
import random

import pytest
from builders import make_experiment, make_plan, make_runs, ten_seconds

from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings


def analysed(factors, repetitions=5, **how) -> Findings:
    experiment = make_experiment(factors, repetitions)
    plan = make_plan(experiment)
    return analyse(experiment, plan, make_runs(experiment, plan, **how))


def one_run_takes_twice_as_long(levels, repetition):
    return ten_seconds(levels, repetition) * (2 if (levels["layout.data_files"], repetition) == (4, 3) else 1)


def test_an_odd_run_of_a_steady_layout_is_left_out_of_its_mean_and_named():
    experiment = make_experiment({"layout.data_files": [1, 2, 4, 8]}, repetitions=5)
    plan = make_plan(experiment)
    runs = make_runs(experiment, plan, elapsed=one_run_takes_twice_as_long)
    findings = analyse(experiment, plan, runs)
    assert (findings.fit, findings.left_out) == ("robust", (("cell-003", 3),))
    sample = findings.cell("cell-003").elapsed_s
    assert sample.mean.value == pytest.approx(10, rel=0.02)
    assert sample.arithmetic.value == pytest.approx(12, rel=0.02)
    assert len(sample.points) == 5
    (caution,) = [caution for caution in findings.cautions if caution.kind == "outlier"]
    assert caution.figures["left_out"] == 1


def test_with_least_squares_every_run_counts():
    experiment = make_experiment({"layout.data_files": [1, 2, 4, 8]}, repetitions=5)
    plan = make_plan(experiment)
    runs = make_runs(experiment, plan, elapsed=one_run_takes_twice_as_long)
    findings = analyse(experiment, plan, runs, "least-squares")
    assert (findings.fit, findings.left_out) == ("least-squares", ())
    assert findings.cell("cell-003").elapsed_s.mean.value == pytest.approx(10 * 2 ** (1 / 5), rel=0.02)


def test_the_nominally_fastest_never_shows_a_longer_mean_than_another():
    rng = random.Random(9)
    for _ in range(20):
        findings = analysed({"layout.data_files": [1, 2, 4, 8]}, elapsed=lambda *_: 10 * math.exp(rng.gauss(0, 0.3)))
        means = {cell.cell_id: cell.elapsed_s.mean.value for cell in findings.cells}
        assert min(means, key=means.get) == findings.fastest


def test_the_interval_of_the_cell_that_was_picked_as_the_fastest_reaches_further_up():
    findings = analysed({"layout.data_files": [1, 2, 4, 8]}, elapsed=ten_seconds)
    reach = {cell.cell_id: cell.elapsed_s.mean.high / cell.elapsed_s.mean.value for cell in findings.cells}
    assert max(reach, key=reach.get) == findings.fastest


def test_runs_of_a_burn_in_are_not_judged():
    experiment = make_experiment({"layout.data_files": [1, 4]}, repetitions=4)
    plan = make_plan(experiment)
    runs = make_runs(experiment, plan)
    first = runs[0].model_copy(
        update={
            "repetition": 0,
            "measurement": runs[0].measurement.model_copy(update={"elapsed_s": 500.0}),
        }
    )
    assert first.burn_in
    assert analyse(experiment, plan, [first, *runs]).cells == analyse(experiment, plan, runs).cells
