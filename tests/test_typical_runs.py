"""Layouts that stall: which answer the typical run gives, which the mean, and what is said of both."""

import math
import random

import pytest
from builders import make_planned, make_runs

from storagelab.findings.analysis import analyse
from storagelab.findings.kinds.typical_runs import TypicalRun
from storagelab.findings.model import Findings
from storagelab.report.words.answer import answer_lines

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
