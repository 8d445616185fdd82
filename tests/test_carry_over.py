"""Carry-over from run to run is found, reported with its size, and subtracted from the times if possible."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from builders import at_most, make_experiment, make_runs

from bench import drawn
from storagelab.findings import basis
from storagelab.findings.analysis import analyse
from storagelab.findings.cautions.changing import CarryOver
from storagelab.findings.model import Findings
from storagelab.findings.times import usable_runs
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment
from storagelab.spec.matrix import expand
from storagelab.stats import order
from storagelab.stats.fit import fit

FILES = "layout.data_files"


def left_behind(of: drawn.Design, rng: np.random.Generator, *shares: float) -> drawn.Matrix:
    """Log times of equal layouts, of which the first makes the runs after it longer by these shares."""
    log_s = drawn.normal(of, rng)
    for place, (cell, _) in enumerate(of.sequence):
        for later, share in enumerate(shares, start=place + 1):
            if cell == 0 and later < len(of.sequence):
                log_s[of.sequence[later]] += math.log1p(share)
    return log_s


@pytest.mark.slow
@pytest.mark.parametrize(("cells", "repetitions"), [(2, 5), (5, 5), (8, 5)])
def test_nothing_left_behind_is_told_as_carry_over_in_5_of_100_experiments(cells, repetitions):
    rng, of = np.random.default_rng(1), drawn.design(cells, repetitions)
    told = sum(drawn.carried_over(of, drawn.normal(of, rng)) is not None for _ in range(100))
    assert told <= at_most(100, 0.05)


@pytest.mark.parametrize(("cells", "repetitions"), [(2, 10), (3, 5), (5, 5), (8, 5)])
def test_what_makes_the_next_run_a_fifth_longer_is_found_and_its_layout_named(cells, repetitions):
    rng, of = np.random.default_rng(2), drawn.design(cells, repetitions)
    found = [drawn.carried_over(of, left_behind(of, rng, 0.2)) for _ in range(30)]
    known = [one for one in found if one is not None]
    assert len(known) >= 27
    guilty = [one for one in known if dict(one.levels) == dict(of.plan.cells[0].levels)]
    if cells > 2:  # of two, runs after one are longer or runs after the other shorter: the same thing
        assert len(guilty) >= 25
        assert np.mean([one.change for one in guilty]) == pytest.approx(0.2, abs=0.04)


def test_times_that_are_corrected_have_wider_intervals_and_nothing_left_behind():
    of = drawn.design(8, 5, balanced=False)
    log_s = left_behind(of, np.random.default_rng(4), 0.3)
    found = drawn.carried_over(of, log_s)
    assert found.corrected
    fitted, plain = fit(log_s, covariates=found.covariates), fit(log_s)
    assert np.ptp(fitted.cells) < np.ptp(plain.cells)
    assert (fitted.free, plain.free) == (28 - 7, 28)
    without = fitted.without_covariates(len(found.covariates))
    assert order.carried_over([cell.levels for cell in of.plan.cells], without, of.before, [0] * 8) is None


def campaign(after: float, repetitions: int = 8, **fields: object) -> tuple[Experiment, list[Run]]:
    """FABRICATED: runs after a layout of 8 files are `after` times as long, and take 10 s otherwise, within 1 %."""
    experiment = make_experiment({FILES: [1, 2, 4, 8, 16]}, repetitions, **fields)
    plan = expand(experiment)
    files_before: dict[tuple[object, int], object] = {}
    last: object = None
    for run in plan.runs:
        files = plan.cell(run.cell_id).levels[FILES]
        files_before[files, run.repetition] = last
        last = files
    rng = np.random.default_rng(6)
    noise: Callable[[], float] = lambda: math.exp(rng.normal(0, 0.01))  # noqa: E731
    runs = make_runs(
        experiment, plan,
        elapsed=lambda levels, turn: 10 * noise() * (after if files_before[levels[FILES], turn] == 8 else 1),
    )  # fmt: skip
    return experiment, list(runs)


def found_in(findings: Findings) -> list[CarryOver]:
    return [one for one in findings.cautions if isinstance(one, CarryOver)]


def test_a_report_says_after_which_layout_runs_take_longer_by_how_much_and_what_helps():
    experiment, runs = campaign(1.12)
    findings = analyse(experiment, expand(experiment), runs)
    (caution,) = found_in(findings)
    assert caution.levels == {FILES: 8}
    assert caution.change == pytest.approx(0.12, abs=0.01)
    text = caution.sentence(findings)
    assert "Runs after 8 data files take 1" in text
    assert "% longer" in text
    assert "between_runs.pause_s" in text
    assert findings.verdict == "indistinguishable"


def test_runs_that_leave_nothing_behind_are_not_cautioned():
    experiment, runs = campaign(1.0)
    assert not found_in(analyse(experiment, expand(experiment), runs))


def test_the_run_before_is_the_one_that_was_made_before_also_if_it_failed():
    experiment, runs = campaign(1.0, repetitions=2)
    plan = expand(experiment)
    first, second, third = runs[:3]
    failed = second.model_copy(update={"status": "failed", "measurement": None, "reason": "lost"})
    late = second.model_copy(update={"attempt": 2, "started_at": "2027-01-01T00:00:00+00:00"})
    made = [first, failed, *runs[2:], late]
    before = basis.cells_before(plan, usable_runs(plan, made), made, (1, 2))
    row = {cell.cell_id: number for number, cell in enumerate(plan.cells)}

    def of(run: Run) -> int:
        return int(before[row[run.cell_id], run.repetition - 1])

    assert of(first) == -1
    assert of(third) == row[failed.cell_id]
    assert of(late) == row[runs[-1].cell_id]


# --- drifts and jumps: found where they are, and hardly anywhere else -------------------------------------------------


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
    found = order.drift([0.0, 5.0, 0.0, 5.1, 0.0, 4.9, 0.0, 5.0, 0.0], cells, sequence)
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
