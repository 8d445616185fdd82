"""The wording of comparisons: time per row where cells do different work, and no comparison between blocks."""

import pytest
from builders import make_campaign
from fabricated_findings import FILES, LOG, make_findings

from storagelab.findings.analysis import analyse
from storagelab.findings.campaigns import Pair
from storagelab.findings.model import Estimate, Findings
from storagelab.report.document import Document
from storagelab.report.words.campaigns import with_pairs
from storagelab.report.words.ladder import ratio_of, verdict_of
from storagelab.report.words.sentences import sentences


def test_a_difference_that_runs_do_not_bound_is_said_to_be_not_known():
    findings = make_findings({FILES: [1, 4]}, {1: 2.5, 4: 2.4}, verdict="indistinguishable")
    wide = findings.comparisons[0].model_copy(
        update={"ratio": Estimate(value=1.04, low=0.0032, high=180_000), "at_most_slower": None}
    )
    findings = findings.model_copy(update={"comparisons": (wide,)})
    assert verdict_of(findings, wide.cell_id).text == "not told apart"
    assert ratio_of(findings, wide.cell_id) == Estimate(value=1.04)


def two_blocks(verdict: str) -> Findings:
    """Data on a and b in a block each, with 1 and 4 files; the best of the second block is not tested."""
    means = {("a", 1): 3.0, ("a", 4): 2.4, ("b", 1): 6.0, ("b", 4): 4.8}
    tied = [("b", 4)] if verdict == "best-set" else [("a", 1), ("b", 1), ("b", 4)]
    findings = make_findings({LOG: ["a", "b"], FILES: [1, 4]}, means, verdict=verdict, tied=tied)
    rows = [
        row.model_copy(update={"ratio": Estimate(value=row.ratio.value), "tested": False, "across_blocks": True})
        if row.cell_id == "c4"
        else row.model_copy(update={"best_cell_id": "c4"})
        if row.cell_id == "c3"
        else row
        for row in findings.comparisons
    ]
    return findings.model_copy(update={"comparisons": tuple(rows)})


@pytest.mark.parametrize("verdict", ["best-set", "indistinguishable"])
def test_between_blocks_no_verdict_is_given_and_the_evidence_says_so(verdict):
    findings = two_blocks(verdict)
    assert any("mean of its block (blocks are not compared)" in line for line in sentences(findings))
    assert [verdict_of(findings, cell_id).text for cell_id in ("c2", "c4")] == ["best of block", "best of block"]


def test_the_report_on_pairs_begins_with_their_verdicts_and_the_ends_of_their_changes():
    findings = analyse(*make_campaign({FILES: [1, 2, 4]}, 3))
    first, *others = (cell.cell_id for cell in findings.cells)
    ratios = [Estimate(value=0.8, low=0.7, high=0.9), Estimate(value=1.3, low=1.2, high=1.4)]
    pairs = [Pair(first, other, ratio, ratio.value, None) for other, ratio in zip(others, ratios, strict=True)]
    said = with_pairs(Document("", "simulated", []), findings, pairs, FILES).head[0]
    assert said.startswith("Of 2 pairs by data files, 1 faster and 1 slower: 20 % less time to 30 % more time.")
