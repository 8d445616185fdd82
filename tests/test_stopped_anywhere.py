"""Campaigns of every shape, stopped anywhere: all that is made of stored runs can be made, and has no figure that is
none.
"""

import contextlib
import io
import json
import math
import re
import sqlite3

import pytest
from drawn_campaigns import Campaign, Shape, drawn, pairs_of, shapes
from hypothesis import example, given, settings
from rich.console import Console

from storagelab.findings import campaigns, power
from storagelab.findings.analysis import analyse
from storagelab.findings.basis import basis_of, ratio_of
from storagelab.findings.model import Findings
from storagelab.findings.reasons import case_between
from storagelab.report import writing
from storagelab.report.charts import drawn_charts
from storagelab.report.document import Document
from storagelab.report.export.as_json import campaigns_json, pair_json
from storagelab.report.export.tables import all_of, sqlite_file
from storagelab.report.page.html import page_of
from storagelab.report.sections.contents import document, opened
from storagelab.report.sections.waits import wait_parts
from storagelab.report.text.markdown import markdown
from storagelab.report.text.plan import tells_text
from storagelab.report.text.terminal import print_document, print_part
from storagelab.report.words.campaigns import campaigns_paper, gate_of_campaigns_sentence, manifest_table
from storagelab.report.words.why import pair_paper

pytestmark = pytest.mark.usefixtures("without_the_charts_runtime")

NO_FIGURE = re.compile(r"(?<![\w.-])[-+]?(nan|inf|infinity)(?![\w.-])", re.IGNORECASE)
_OUT_OF_SIGHT = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)


def all_is_made(of: Campaign, other: Campaign) -> None:
    """Makes everything that storagelab makes of stored runs."""
    for fit in ("robust", "least-squares"):
        findings = analyse(of.experiment, of.plan, of.runs, fit)
        is_json(writing.render("json", of.experiment, of.plan, of.runs, findings))
    findings = analyse(of.experiment, of.plan, of.runs)
    for format_ in ("html", "md", "csv", "waits-csv"):
        is_text(_OUT_OF_SIGHT.sub("", writing.render(format_, of.experiment, of.plan, of.runs, findings)))
    whole = document(of.experiment, of.plan, of.runs, findings)
    is_text(on_a_terminal(lambda console: print_document(console, whole)))
    is_text(on_a_terminal(lambda console: print_document(console, opened(findings), full=False)))
    for cell in findings.cells:
        for part in wait_parts(findings, cell, uncut=True):
            is_text(on_a_terminal(lambda console, part=part: print_part(console, part)))
    for one in drawn_charts(findings, of.runs).values():
        for spec in one.specs().values():
            is_json(json.dumps(spec, allow_nan=False))
    tables_hold_figures(of, findings)
    pairs_are_compared(of, findings)
    campaigns_are_compared(of, other)
    scatter = power.scatter_of(of.plan, of.runs)
    if scatter is not None:
        is_text(tells_text(power.tells(of.experiment.factors, of.plan, of.experiment.repetitions, scatter)))


def is_json(text: str) -> None:
    def refused(word: str) -> None:
        raise AssertionError(f"{word} in JSON")

    json.loads(text, parse_constant=refused)
    assert not re.search(r"\b(nan|inf)\b", text), re.search(r".{60}\b(nan|inf)\b.{60}", text)


def is_text(text: str) -> None:
    assert (found := NO_FIGURE.search(text)) is None, text[max(0, found.start() - 120) : found.end() + 60]


def on_a_terminal(print_) -> str:
    said = io.StringIO()
    print_(Console(file=said, width=140, highlight=False, markup=False))
    return said.getvalue()


def tables_hold_figures(of: Campaign, findings: Findings) -> None:
    tables = {name: make() for name, make in all_of(of.experiment, of.plan, of.runs, findings).items()}
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(sqlite_file(tables))
        for name, table in tables.items():
            rows = connection.execute(f'SELECT * FROM "{name}"').fetchall()
            assert len(rows) == len(table.rows)
            assert all(math.isfinite(value) for row in rows for value in row if isinstance(value, float)), name


def is_a_paper(paper: Document, as_json: str) -> None:
    is_json(as_json)
    is_text(markdown(paper))
    is_text(on_a_terminal(lambda console: print_document(console, paper)))
    is_text(_OUT_OF_SIGHT.sub("", page_of(paper)))


def pairs_are_compared(of: Campaign, findings: Findings) -> None:
    basis = basis_of(of.experiment, of.plan, of.runs)
    for before, after in pairs_of(of.plan):
        ratio = ratio_of(basis, of.plan, before, after)
        case = case_between(findings, basis.used, before, after, ratio)
        paper = pair_paper(findings, before, after, ratio, case)
        is_a_paper(paper, pair_json(findings, before, after, ratio, case, paper))


def campaigns_are_compared(of: Campaign, other: Campaign) -> None:
    one, two = (
        campaigns.Campaign(
            name, each.experiment, analyse(each.experiment, each.plan, each.runs),
            basis_of(each.experiment, each.plan, each.runs),
        )
        for name, each in (("before", of), ("after", other))
    )  # fmt: skip
    try:
        found = campaigns.compare(one, two)
    except LookupError:  # no layout was run in both
        return
    result = campaigns.gate([found], 0.05)
    table = manifest_table(found, {"before": of.runs, "after": other.runs})
    paper = campaigns_paper([found], [table], gate_of_campaigns_sentence(result, 0.05, [found]))
    is_a_paper(paper, campaigns_json([found], paper, None))


def holds(shape: Shape) -> None:
    all_is_made(drawn(shape), drawn(shape, shape.seed + 1))


ON_HOSTS_THAT_DO_NOT_COUNT = Shape(
    of="inserts on PostgreSQL", factors=2, repetitions=3, order="cell-by-cell", costly=True, made=8, times="a "
    "little noise",
    troubles=0.6, hosts=3, race=0.03, waits=True, seed=11257,
)  # fmt: skip
"""A cell ran only on hosts that made less than half of the layouts."""


@given(shapes(most_runs=40))
@example(ON_HOSTS_THAT_DO_NOT_COUNT)
@settings(max_examples=8)
def test_whatever_is_stored_when_a_campaign_stops_can_be_judged_and_told(shape):
    holds(shape)
