"""The smallest difference that can be found is calculated, and random experiments agree with it."""

import math
import random

import numpy as np
import pytest
from builders import make_planned, make_runs

from storagelab.findings.power import Scatter, power, repetitions_for, scatter_of, smallest_found, tells
from storagelab.findings.statements import SHARES
from storagelab.report.text.plan import tells_text
from storagelab.stats.contrast import compare_with_best
from storagelab.stats.fit import fit

QUIET = Scatter(sd=0.03, runs=40, alike=True)


def drawn(effect: float, cells: int, repetitions: int, experiments: int = 300) -> float:
    """The share of experiments that tell the second of two near layouts from the fastest, the others being far off."""
    found = 0
    for seed in range(experiments):
        log_s = np.random.default_rng(seed).normal(0, QUIET.sd, (cells, repetitions))
        log_s[1] += math.log1p(effect)
        log_s[2:] += math.log(2)
        fitted = fit(log_s)
        row = compare_with_best(fitted, 0, alpha=0.05 * SHARES["verdict"])[1]
        found += fitted.fastest() == 0 and row.slower
    return found / experiments


@pytest.mark.parametrize(
    ("effect", "cells", "repetitions"), [(0.08, 8, 5), (0.09, 2, 5), (0.16, 5, 3), (0.04, 5, 19), (0.03, 8, 19)]
)
def test_the_computed_power_is_that_of_drawn_experiments(effect, cells, repetitions):
    assert power(effect, QUIET, cells, repetitions) == pytest.approx(drawn(effect, cells, repetitions), abs=0.10)


def test_the_smallest_difference_that_is_told_takes_the_repetitions_it_was_computed_for():
    smallest = smallest_found(QUIET, 8, 10)
    assert smallest is not None
    assert repetitions_for(smallest, QUIET, 8) == 10


def test_smaller_differences_more_layouts_and_more_loads_take_more_repetitions():
    assert repetitions_for(0.03, QUIET, 8) > repetitions_for(0.06, QUIET, 8)
    assert repetitions_for(0.06, QUIET, 16) > repetitions_for(0.06, QUIET, 4)
    assert repetitions_for(0.06, QUIET, 8, families=6) > repetitions_for(0.06, QUIET, 8)
    assert repetitions_for(0.0001, QUIET, 8) is None
    assert smallest_found(QUIET, 8, 1) is None


def test_a_plan_learns_it_from_runs():
    experiment, plan = make_planned({"layout.data_files": [1, 2, 4, 8]})
    runs = make_runs(
        experiment, plan, waits=None,
        elapsed=lambda levels, repetition: 10 * math.exp(random.Random(f"{levels}{repetition}").gauss(0, 0.02)),
    )  # fmt: skip
    scatter = scatter_of(plan, runs)
    assert scatter.sd == pytest.approx(0.02, rel=0.5)
    text = tells_text(tells(experiment.factors, plan, experiment.repetitions, scatter))
    assert text.startswith("5 repetitions find differences of ")
    assert "3 % takes " in text
    assert "(computed from 20 runs that scatter by " in text
