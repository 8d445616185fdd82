"""The answer alone: one printed sheet, however long the names, and no script."""

import re

import pytest
from builders import make_campaign, make_experiment, make_plan, make_runs
from fabricated_findings import FILES, make_factor
from real_browser import watched

from storagelab.findings.analysis import analyse
from storagelab.report.page.html import page_of
from storagelab.report.sections.contents import brief

LONG = "a label of one hundred characters that somebody wrote to be precise about everything, as is prudent"


def elapsed(levels, repetition):
    return 10 + repetition / 50 + 3 * (levels[FILES] == 1)


def test_it_has_question_choice_ladder_and_basis_and_no_script():
    campaign = make_campaign({FILES: [1, 8]}, 4, elapsed=elapsed)
    text = page_of(brief(analyse(*campaign), ())).replace("\u00a0", " ")
    for part in ("How many data files", "Use 8 data files", "MEASURED, 8 runs", "8 files", "slower, at least", "Doubt"):
        assert part in text
    assert "<script" not in text
    assert "<noscript" not in text


@pytest.mark.parametrize(("name", "loads"), [(LONG, 1), (LONG, 8), ("storage", 8)])
def test_it_fills_one_printed_sheet_at_most_whatever_the_names_and_the_loads(browser, tmp_path, name, loads):
    storage = make_factor("storage", [f"{name} {number}" for number in range(3)])
    factors = (storage, make_factor(FILES, [1, 2, 4]), make_factor("workload.connections", [*range(1, 1 + loads)]))
    experiment = make_experiment({}, 4, question=f"{LONG}? " * 9).model_copy(update={"factors": factors})
    plan = make_plan(experiment)
    page = tmp_path / "brief.html"
    findings = analyse(experiment, plan, make_runs(experiment, plan, elapsed=elapsed))
    page.write_text(page_of(brief(findings, ())), encoding="utf-8")
    tab = browser.new_page()
    wrong = watched(tab, page.as_uri())
    tab.goto(page.as_uri())
    for size in ("A4", "Letter"):
        assert len(re.findall(rb"/Type\s*/Page[^s]", tab.pdf(format=size))) == 1
    assert wrong == []
