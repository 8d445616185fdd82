"""Odd runs: found where they are and hardly anywhere else, counted in their own cells, and bounded where unseen."""

import math
import random

import numpy as np
import pytest
from builders import analysed, at_most, make_campaign, make_planned, make_runs, ten_seconds
from scipy import stats as scipy_stats

from storagelab.findings.analysis import analyse
from storagelab.findings.kinds.typical_runs import TypicalRun
from storagelab.findings.model import Findings
from storagelab.report.words.answer import answer_lines
from storagelab.stats import stalls

NOISE = 0.03


def drawn_noise(cells, repetitions, rng):
    return rng.normal(0, NOISE, (cells, repetitions))


def noise_and_effects(cells, repetitions, rng):
    return drawn_noise(cells, repetitions, rng) + rng.normal(0, 0.2, repetitions)


def test_clean_experiments_have_hardly_an_outlier():
    rng = np.random.default_rng(40)
    accused = sum(bool(stalls.outliers(drawn_noise(8, 5, rng) * 3)) for _ in range(400))
    assert accused <= at_most(400, 0.05)


def test_a_run_that_took_half_as_long_again_is_found_and_no_other():
    rng = np.random.default_rng(41)
    log_s = noise_and_effects(6, 5, rng)
    log_s[4, 3] += math.log(1.5)
    (outlier,) = stalls.outliers(log_s)
    assert (outlier.cell, outlier.round) == (4, 3)
    assert outlier.ratio == pytest.approx(1.5, rel=0.1)
    assert outlier.deviation > stalls.OUTLIER_DEVIATION


def test_a_lone_odd_run_of_a_steady_cell_is_rare_and_those_of_a_noisy_cell_are_not():
    rng = np.random.default_rng(45)
    log_s = drawn_noise(8, 5, rng)
    log_s[2, 1] += math.log(1.5)
    log_s[5] *= 12
    told = {(run.cell, run.round): run.rare for run in stalls.outliers(log_s)}
    assert told[2, 1]
    assert not any(rare for (cell, _), rare in told.items() if cell == 5)
    left = stalls.without(log_s, [run for run in stalls.outliers(log_s) if run.rare])
    assert np.isnan(left).sum() == 1
    assert np.isnan(left[2, 1])


def test_two_of_ten_runs_that_stall_are_rare_and_two_of_five_are_what_the_cell_does():
    rng = np.random.default_rng(49)
    ten, five = drawn_noise(4, 10, rng) / 3, drawn_noise(6, 5, rng) / 3
    for log_s in (ten, five):
        log_s[1, [1, 3]] += math.log(1.5)
    assert [(run.cell, run.rare) for run in stalls.outliers(ten)] == [(1, True), (1, True)]
    assert [(run.cell, run.rare) for run in stalls.outliers(five)] == [(1, False), (1, False)]


def test_a_rare_odd_run_counts_in_its_own_cell_and_changes_nothing_that_is_said_of_others():
    rng = np.random.default_rng(50)
    calm = drawn_noise(8, 5, rng) / 3
    log_s = calm.copy()
    log_s[2, 1] += math.log(1.5)
    fitted = stalls.fit(log_s)
    without = stalls.fit(stalls.without(log_s, stalls.outliers(log_s)))
    others = np.arange(8) != 2
    for name in ("log_s", "own", "variance"):
        assert getattr(fitted.every, name)[others] == pytest.approx(getattr(without.every, name)[others])
    assert fitted.cells[2] == pytest.approx(without.cells[2] + math.log(1.5) / 5, abs=0.02)
    assert fitted.every.own[2] > 10 * without.every.own[2]


@pytest.mark.parametrize("runs", [1, 5, 10, 60])
def test_of_runs_without_a_stall_one_minus_the_root_of_a_twentieth_may_stall(runs):
    assert stalls.share_most(runs) == pytest.approx(1 - 0.05 ** (1 / runs))


def test_the_more_runs_stalled_the_more_may():
    assert stalls.share_most(5, 1) == pytest.approx(
        scipy_stats.binomtest(1, 5, alternative="less").proportion_ci().high
    )
    assert stalls.share_most(5) < stalls.share_most(5, 1) < stalls.share_most(5, 4) < stalls.share_most(5, 5) == 1


# --- means of reports, free of odd runs and burn-in -------------------------------------------------------------------


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
    assert "1 of 5 runs with 4 data files took 2.0 times as long; none in other cells did" in caution.sentence(findings)
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
    assert "It is left out of means and verdicts, because other processes" in caution.sentence(findings)


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


# --- layouts that stall: the typical run and the mean -----------------------------------------------------------------


FILES = "layout.data_files"


def stalling(repetitions: int, stalls: set[int], faster: float = 0.05) -> Findings:
    """Four layouts; that of 4 files takes less time, except in the repetitions in which it stalls."""
    experiment, plan = make_planned({FILES: [1, 2, 4, 8]}, repetitions)

    def elapsed(levels, repetition):
        noise = math.exp(random.Random(f"{levels}{repetition}").gauss(0, 0.01))
        its_own = (1 - faster) * (1.5 if repetition in stalls else 1) if levels[FILES] == 4 else 1
        return 10 * noise * its_own

    return analyse(experiment, plan, make_runs(experiment, plan, elapsed=elapsed))


@pytest.mark.parametrize(("repetitions", "stalls"), [(5, {2}), (10, {2, 7})])
def test_a_layout_that_stalls_does_not_win_by_its_typical_run_and_both_answers_are_given(repetitions, stalls):
    findings = stalling(repetitions, stalls)
    assert findings.verdict != "winner"
    assert findings.fastest != "cell-003"
    (found,) = TypicalRun.of(findings)
    assert (found.cell_id, found.slow, found.runs) == ("cell-003", len(stalls), repetitions)
    assert found.times_as_long == pytest.approx(1.5, rel=0.05)
    assert found.typical_ratio == pytest.approx(0.95, abs=0.02)
    assert found.mean_ratio == pytest.approx(0.95 * 1.5**0.2, abs=0.02)
    (line,) = [one for one in answer_lines(findings) if "against the fastest" in one]
    assert line.startswith(f"{len(stalls)} of {repetitions} runs ")


def test_a_layout_that_is_fastest_nevertheless_has_its_stalls_told():
    findings = stalling(10, {2}, faster=0.3)
    assert (findings.verdict, findings.best) == ("winner", ("cell-003",))
    (sentence,) = TypicalRun.sentences(findings)
    assert "1 of 10 runs with 4 data files took 1.5 times as long: its median is" in sentence


def test_a_layout_without_stalls_has_one_answer():
    findings = stalling(5, set())
    assert findings.verdict == "winner"
    assert TypicalRun.of(findings) == ()
