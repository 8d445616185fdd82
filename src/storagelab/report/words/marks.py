"""Verdicts and ratios in tables and legends. Pure.

An untested cell is never called fast or slow: it is "not judged", with the reason.
"""

from __future__ import annotations

from storagelab.findings.model import Comparison, Effect, Estimate, Findings
from storagelab.report.words import compared
from storagelab.words.names import DATA_FILES, in_reading_order, level_text
from storagelab.words.numbers import change, change_estimate, signed_estimate


def change_text(findings: Findings, ratio: Estimate) -> str:
    return change_estimate(ratio, compared.per(findings))


def legend_sentence(findings: Findings) -> str:
    """How cells are named, by the example of the fastest; "" if their names need no explanation."""
    cell = findings.cell(next(iter(findings.best), findings.cells[0].cell_id))
    levels = {name: cell.levels[name] for name in in_reading_order(cell.levels)}
    return f"Cells by short names: {cell.name} has {level_text(levels)}." if len(levels) > 1 else ""


MAY_BE_FASTEST = "may be fastest"
_TOO_WIDE = 100.0
"""An interval whose ends are so many times apart says nothing."""
_APART = {"as-listed": "in another place of each round", "cell-by-cell": "run at another time"}


def untested_text(findings: Findings, found: Comparison | Effect) -> str:
    """A change that is not tested: between blocks, between stretches of time, or with too few runs."""
    apart = "in another block" if findings.order == "randomised" else _APART[findings.order]
    if compared.in_parts_of_cycles(findings):
        apart = "parts of checkpoint cycles"
    why = apart if found.across_blocks else "too few runs"
    return f"{change(found.ratio.value, per=compared.per(findings))} (not tested: {why})"


def effect_change(findings: Findings, effect: Effect) -> str:
    return change_text(findings, effect.ratio) if effect.tested else untested_text(findings, effect)


def in_blocks(findings: Findings) -> bool:
    """Whether the table has layouts of different blocks, which are not compared."""
    across = any(comparison.across_blocks for comparison in findings.comparisons)
    return across and not compared.in_parts_of_cycles(findings)


def first_factor(findings: Findings) -> str | None:
    """The factor that orders tables and charts: data files if they vary, else the first listed, else None."""
    names = [factor.name for factor in findings.factors]
    return DATA_FILES if DATA_FILES in names else names[0] if names else None


def verdict_mark(findings: Findings, cell_id: str) -> str:
    """For a narrow column: "best" of a winner, "may be fastest", "not fastest", "best of block", "not judged"; "slower
    (18 %)" if it surely takes more time, 18 % more than the best; "" for a single cell."""
    judged = findings.load_of(cell_id) or findings
    if judged.verdict == "single-cell":
        return ""
    apart = (*judged.not_compared, *compared.in_parts_of_cycles(findings))
    if judged.verdict in ("too-few-runs", "untested") or cell_id in apart:
        return "not judged" if findings.cell(cell_id).elapsed_s is not None else ""
    found = _comparison(findings, cell_id)
    if (found is not None and found.across_blocks) or (cell_id in judged.best[:1] and in_blocks(findings)):
        return "best of block"
    if cell_id in judged.best[:1]:
        return "best" if judged.verdict == "winner" else MAY_BE_FASTEST
    if found is None:
        return ""
    if not found.distinguishable:
        return MAY_BE_FASTEST if found.may_be_fastest else "not fastest"
    against = signed_estimate(found.ratio).split(" (")[0]
    return f"slower {against}" if against.startswith("x") else f"slower ({against.removeprefix('+')})"


def difference_text(findings: Findings, cell_id: str) -> str:
    """The cell against the best, for a table: "+18 % (15 to 21 %)"; "" for the best."""
    found = _comparison(findings, cell_id)
    if found is None or not found.tested:
        return "" if found is None else f"{signed_estimate(found.ratio)} (not tested)"
    low, high = found.ratio.low, found.ratio.high
    return signed_estimate(found.ratio) if low and high and high / low <= _TOO_WIDE else "not known"


def _comparison(findings: Findings, cell_id: str) -> Comparison | None:
    return next((item for item in findings.comparisons if item.cell_id == cell_id), None)
