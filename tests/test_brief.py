"""The page for who decides: one printed sheet, however long the names, and no waits."""

import re

import pytest
from builders import make_experiment, make_plan, make_runs
from real_browser import started
from storagelab.report.page.brief import brief_page

from storagelab.findings.analysis import analyse
from storagelab.model.plan import Factor, Level

LONG = "a label of one hundred characters that somebody wrote to be precise about everything, as is prudent"


def brief(factors, question="Which is fastest?"):
    experiment = make_experiment({}, 4, question=question).model_copy(update={"factors": tuple(factors)})
    plan = make_plan(experiment)
    runs = make_runs(
        experiment, plan, elapsed=lambda levels, turn: 10 + turn / 50 + 3 * (levels["layout.data_files"] == 1)
    )
    return brief_page(experiment, runs, analyse(experiment, plan, runs))


def levels_of(name, values):
    return Factor(name=name, levels=tuple(Level(value=value, sets={name: value}) for value in values))


def test_it_has_question_choice_picture_and_basis_and_names_no_wait():
    text = brief([levels_of("layout.data_files", [1, 8])]).replace("\u00a0", " ")
    for part in (
        "Which is fastest?",
        "Use 8 data files: faster than the other layout.",
        "To use",
        "Listed first",
        "MEASURED, 8 runs",
    ):
        assert part in text
    assert "Lock:" not in text


@pytest.mark.slow
def test_it_fills_one_printed_sheet_at_most_whatever_the_names(tmp_path):
    storage = [f"{LONG} {number}" for number in range(3)]
    places = Factor(name="storage", levels=tuple(Level(value=one, sets={"target.settings.x": one}) for one in storage))
    page = tmp_path / "brief.html"
    page.write_text(
        brief([places, levels_of("layout.data_files", [1, 2, 4])], question=f"{LONG}? " * 9), encoding="utf-8"
    )
    with started() as chromium:
        tab = chromium.new_page()
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(page.as_uri())
        for size in ("A4", "Letter"):
            assert len(re.findall(rb"/Type\s*/Page[^s]", tab.pdf(format=size))) == 1
        assert asked == [page.as_uri()]
