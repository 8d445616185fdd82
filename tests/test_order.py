"""Drifts and jumps: found where they are, and hardly anywhere else."""

import math

import numpy as np
import pytest
from builders import at_most

from storagelab.stats import order

NOISE = 0.03


def test_a_drift_is_that_from_the_first_run_of_all_to_the_last():
    rng = np.random.default_rng(43)
    cells = [cell for _ in range(6) for cell in range(5)]
    sequence = list(range(30))
    level = [1.0, 4.0, 2.0, 3.0, 5.0]
    log_s = [level[cell] + 0.10 * at / 29 + rng.normal(0, 0.01) for cell, at in zip(cells, sequence, strict=True)]
    found = order.drift(log_s, cells, sequence)
    assert found.change == pytest.approx(math.expm1(0.10), abs=0.02)
    assert found.p_value < 0.001


def test_a_slope_seen_in_neighbouring_runs_does_not_tell_the_change_over_a_thousand():
    cells, sequence = [0, 0, 1, 1, 2, 2, 3, 3, 4], [0, 1, 300, 301, 600, 601, 900, 901, 1000]
    steep = [0.0, 5.0, 0.0, 5.1, 0.0, 4.9, 0.0, 5.0, 0.0]
    found = order.drift(steep, cells, sequence)
    assert (found.change, found.p_value < 0.001) == (None, True)
    gentle = [0.0, 0.05, 0.0, 0.06, 0.0, 0.04, 0.0, 0.05, 0.0]
    assert order.drift(gentle, cells, sequence).change is None
    assert order.drift(gentle, cells, sequence, length=2).change == pytest.approx(math.expm1(0.1), abs=0.01)


def test_without_drift_hardly_one_is_found():
    rng = np.random.default_rng(44)
    cells, sequence = [cell for _ in range(5) for cell in range(6)], list(range(30))
    found = [order.drift(list(rng.normal(0, NOISE, 30)), cells, sequence).p_value < 0.01 for _ in range(300)]
    assert sum(found) <= at_most(300, 0.01)


def order_of(cells, repetitions, rng):
    """A random order within each round: the cell of each run."""
    return [int(cell) for _ in range(repetitions) for cell in rng.permutation(cells)]


@pytest.mark.parametrize("change", [0.1, -0.1])
def test_a_jump_midway_is_found_where_it_was_and_as_high_as_it_was(change):
    rng = np.random.default_rng(48)
    cells, sequence = order_of(8, 5, rng), list(range(40))
    log_s = [
        cell + math.log1p(change) * (at > 25) + rng.normal(0, 0.01) for cell, at in zip(cells, sequence, strict=True)
    ]
    found = order.step(log_s, cells, sequence)
    assert abs(found.after - 25) <= 1
    assert found.change == pytest.approx(change, abs=0.02)
    assert found.p_value < 0.01
    assert found.explained > order.drift(log_s, cells, sequence).explained


def test_without_a_jump_hardly_one_is_found():
    rng = np.random.default_rng(50)
    found = 0
    for _ in range(150):
        step = order.step(list(rng.normal(0, NOISE, 30)), order_of(6, 5, rng), list(range(30)))
        found += step is not None and step.p_value < 0.01
    assert found <= at_most(150, 0.01)


def test_runs_that_are_like_those_before_them_are_hardly_taken_for_a_drift_or_a_jump():
    rng = np.random.default_rng(48)
    found = 0
    for _ in range(40):
        times = [rng.normal(0, NOISE)]
        for _ in range(79):
            times.append(0.7 * times[-1] + rng.normal(0, 0.7 * NOISE))
        cells = rng.permutation(np.repeat(np.arange(8), 10)).tolist()
        drift, step = order.drift(times, cells, range(80)), order.step(times, cells, range(80))
        found += (drift is not None and drift.p_value < 0.01) or (step is not None and step.p_value < 0.01)
    assert found <= at_most(40, 0.07)  # half of them, if runs were taken for independent
