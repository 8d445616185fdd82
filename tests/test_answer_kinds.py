"""No figure contradicts another: of drawn campaigns of every kind, the answer, the table of cells, the evidence and the
export say the same of the same thing. Figures are taken from the values that the words are made of.
"""

import json
import math
from typing import Any

import pytest
from drawn_campaigns import Campaign, Shape, drawn, shapes
from hypothesis import example, given, settings

from storagelab.findings.analysis import analyse
from storagelab.findings.answer import answer, figure_of
from storagelab.findings.answer_kinds import Answer, Choice
from storagelab.findings.model import CellSummary, Comparison, Findings, Sample
from storagelab.report.export.as_json import to_json
from storagelab.report.words import compared
from storagelab.report.words.sentences import sentences
from storagelab.stats.contrast import KNOWN
from storagelab.words.numbers import at_most_slower

NEARLY = {"rel_tol": 1e-9}


def check(campaign: Campaign) -> None:
    findings = analyse(campaign.experiment, campaign.plan, campaign.runs)
    found = answer(findings)
    for cell in findings.cells:
        check_the_means_of(findings, cell)
    for choice in found.choices:
        check_what_is_chosen(findings, choice)
    check_the_bounds(findings, found)
    check_who_is_faster(findings, found)
    check_the_export(findings, found, json.loads(to_json(campaign.experiment, campaign.plan, campaign.runs, findings)))


def check_the_means_of(findings: Findings, cell: CellSummary) -> None:
    """What stands beside runs is their mean, within its interval; time, rate and work agree."""
    for sample in (cell.elapsed_s, cell.work_per_s, cell.judged):
        if sample is not None:
            assert sample.minimum * (1 - 1e-9) <= sample.mean.value <= sample.maximum * (1 + 1e-9)
            assert sample.mean.low is None or sample.mean.low <= sample.mean.value <= sample.mean.high
            assert same_interval(sample)
    if compared.set_time(findings) and cell.each_s is not None and cell.work_per_s is not None:
        assert math.isclose(cell.each_s, cell.connections / cell.work_per_s.mean.value, **NEARLY)
    if findings.compared in ("elapsed", "time-per-row") and cell.elapsed_s is not None and cell.elapsed_s.adjusted:
        assert math.isclose(cell.work or 1.0, cell.elapsed_s.mean.value * cell.work_per_s.mean.value, **NEARLY)


def same_interval(sample: Sample) -> bool:
    """Whether both means have the same interval, as a share."""
    both = [(one.low, one.value, one.high) for one in (sample.mean, sample.judged)]
    if None in both[0]:
        return None in both[1]
    return all(math.isclose(one / both[0][1], other / both[1][1], **NEARLY) for one, other in zip(*both, strict=True))


def check_what_is_chosen(findings: Findings, choice: Choice) -> None:
    """The answer's figures are those of the cells' rows, by their levels."""
    figures = {cell_id: figure_of(findings, findings.cell(cell_id)) for cell_id in choice.meant}
    if choice.lowest is not None and choice.highest is not None:
        values = [one.value for one in figures.values() if one is not None]
        assert (choice.lowest.value, choice.highest.value) == (min(values), max(values))
    pick = choice.pick
    assert {*pick.levels} == {factor.name for factor in findings.layout_factors if factor.name in pick.levels}


def bounds(findings: Findings) -> dict[str, float | None]:
    """How much slower than the truly fastest each tied cell may be: of its row in the table."""
    own = {load.best[0]: load.at_most_slower for load in findings.by_load if load.tied and load.best}
    tied = {cell_id for load in findings.by_load for cell_id in load.tied}
    return own | {row.cell_id: row.at_most_slower for row in findings.comparisons if row.cell_id in tied}


def check_the_bounds(findings: Findings, found: Answer) -> None:
    """One risk has one bound: in the answer, in the table and in the evidence."""
    table = bounds(findings)
    assert all(bound is None or 1 <= bound <= KNOWN for bound in table.values())
    for choice in found.choices:
        if choice.verdict != "winner":
            # A layout that nothing ties with has no bound in the table, but one in the answer if others are not
            # compared.
            alone = {
                one.best[0]: one.at_most_slower for one in findings.by_load if one.verdict == "best-set" and one.best
            }
            of_choice = [(alone | table)[cell_id] for cell_id in choice.meant if cell_id in alone | table]
            assert choice.at_most_slower == (None if None in of_choice else max(of_choice, default=1.0))
            assert choice.pick.at_most_slower is None or choice.pick.at_most_slower in (1.0, *of_choice)
    said = [line for line in sentences(findings) if line.startswith("Layouts that are not told apart need not")]
    for line in said:
        known = [bound for bound in table.values() if bound is not None]
        assert at_most_slower(max(known)) in line if len(known) == len(table) else "is not known" in line


def check_who_is_faster(findings: Findings, found: Answer) -> None:
    """No cell to use is called slower, and gains are effects."""
    meant = {cell_id for choice in found.choices for cell_id in choice.meant}
    for row in findings.comparisons:
        assert not (row.distinguishable and row.cell_id in meant), "a layout to use is slower"
    assert findings.verdict != "winner" or (len(findings.best) == 1 and not findings.not_compared)
    assert findings.verdict != "too-few-runs" or not findings.best
    for gain in found.gains:
        rows = {repr(one.level): one.ratio for one in findings.effects if one.factor == gain.factor and not one.at}
        known = {value for ratio in rows.values() for value in (ratio.value, 1 / ratio.value)}
        assert any(math.isclose(gain.best.value, one, **NEARLY) for one in known)
        assert any(math.isclose(gain.worst.value, one, **NEARLY) for one in known)


def check_the_export(findings: Findings, found: Answer, document: dict[str, Any]) -> None:
    for of_cell in document["cells"]:
        cell, summary = findings.cell(of_cell["cell_id"]), of_cell["summary"]
        if cell.elapsed_s is not None:
            assert Sample.model_validate(summary["elapsed_s"]) == cell.elapsed_s
    written = document["findings"]
    for row, of_row in zip(findings.comparisons, written["comparisons"], strict=True):
        assert Comparison.model_validate(of_row) == row
    for choice, of_choice in zip(found.choices, written["answer"]["choices"], strict=True):
        assert Choice.model_validate(of_choice) == choice


@settings(max_examples=15, deadline=None)
@given(shapes(most_runs=60))
@example(
    Shape(
        of="inserts on MariaDB", factors=3, repetitions=3, order="randomised", costly=False, made=26,
        times="a little noise", troubles=0.0, hosts=2, race=None, waits=False, seed=0,
    )
)  # fmt: skip
def test_no_figure_of_a_drawn_campaign_contradicts_another(shape: Shape) -> None:
    check(drawn(shape))


@pytest.mark.campaign
@pytest.mark.timeout(900)
@settings(max_examples=400, deadline=None)
@given(shapes(most_runs=120))
def test_nor_does_any_of_many_more(shape: Shape) -> None:
    check(drawn(shape))
