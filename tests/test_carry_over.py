"""What a run leaves behind: it is found, told with its size, and taken out of the times where that can be done."""

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
