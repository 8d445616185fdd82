"""Verdicts and ratios in tables and legends. Pure.

An untested cell is never called tied: it is "not judged", with the reason.
"""

from __future__ import annotations

from storagelab.findings.kinds.good import GoodLayout
from storagelab.findings.model import Comparison, Effect, Estimate, Findings
from storagelab.report.words import compared
from storagelab.words.names import DATA_FILES
from storagelab.words.numbers import change, change_estimate, signed_estimate


def change_text(findings: Findings, ratio: Estimate) -> str:
    return change_estimate(ratio, compared.per(findings))


_APART = {"as-listed": "in another place of each round", "cell-by-cell": "run at another time"}


def untested_text(findings: Findings, found: Comparison | Effect) -> str:
    """A change that is not tested: between blocks, between stretches of time, or with too few runs."""
    apart = "in another block" if findings.order == "randomised" else _APART[findings.order]
    why = apart if found.across_blocks else "too few runs"
    return f"{change(found.ratio.value, per=compared.per(findings))} (not tested: {why})"


def in_blocks(findings: Findings) -> bool:
    """Whether the table has layouts of different blocks, which are not compared."""
    return any(comparison.across_blocks for comparison in findings.comparisons)


def first_factor(findings: Findings) -> str | None:
    """The factor that orders tables and charts: data files if they vary, else the first listed, else None."""
    names = [factor.name for factor in findings.factors]
    return DATA_FILES if DATA_FILES in names else names[0] if names else None


def verdict_mark(findings: Findings, cell_id: str) -> str:
    """For a narrow column: "best", "best of block", "tied", "slower +22 %", "not judged"; "" for a single cell. After a race
    for a good layout: "good", or "in front" if it is not surely within the margin, and which others are surely slower.
    """
    if goods := GoodLayout.of(findings):
        row = _comparison(findings, cell_id)
        slower = f"slower {signed_estimate(row.ratio).split(' (')[0]}" if row and row.distinguishable else ""
        named = {one.cell_id: "good" if one.reached else "in front" for one in goods}
        return named.get(cell_id, slower)
    judged = findings.load_of(cell_id) or findings
    if judged.verdict == "single-cell":
        return ""
    if judged.verdict in ("too-few-runs", "untested") or cell_id in judged.not_compared:
        return "not judged" if findings.cell(cell_id).elapsed_s is not None else ""
    found = _comparison(findings, cell_id)
    if (found is not None and found.across_blocks) or (cell_id in judged.best[:1] and in_blocks(findings)):
        return "best of block"
    if cell_id in judged.best[:1]:
        return "best" if judged.verdict == "winner" else "tied"
    if found is None:
        return ""
    return f"slower {signed_estimate(found.ratio).split(' (')[0]}" if found.distinguishable else "tied"


def difference_text(findings: Findings, cell_id: str) -> str:
    """The cell's ratio to the best with its interval, for a table: "+22 % (17 to 27 %)"; "" for the best itself."""
    found = _comparison(findings, cell_id)
    if found is None:
        return ""
    return signed_estimate(found.ratio) + ("" if found.p_value is not None else " (not tested)")


def _comparison(findings: Findings, cell_id: str) -> Comparison | None:
    return next((item for item in findings.comparisons if item.cell_id == cell_id), None)
