"""The verdict in words: one sentence for the head of a report, and a mark for each cell in tables. Pure.

    headline(findings)                  one sentence: the verdict
    comparison_text / verdict_mark      a cell against the best, in words and in a table

An untested cell is never called tied: it is "not judged", with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from storagelab.findings.model import CellSummary, Comparison, Effect, Estimate, Findings
from storagelab.model.values import JsonValue
from storagelab.report.words import compared
from storagelab.report.words.loads import by_load, load_noun, lower_first, one_layout
from storagelab.words.names import DATA_FILES, are_a_product, cell_text, group_text, is_plural, noun
from storagelab.words.numbers import (
    change,
    change_estimate,
    rows_per_s,
    seconds_estimate,
    seconds_range,
    signed_estimate,
    significant,
    slower_by,
)

SLOWER_SHOWN = 3


# ---------------------------------------------------------------------------------------------------------------------
# The verdict, in one sentence
# ---------------------------------------------------------------------------------------------------------------------


def headline(findings: Findings) -> str:
    """The verdict as one sentence."""
    text = verdict_sentence(findings)
    if findings.provenance == "simulated":
        return f"In simulation, {lower_first(text)}"
    return text


def verdict_sentence(findings: Findings) -> str:
    measured = [cell for cell in findings.cells if cell.elapsed_s is not None]
    if not measured:
        return "No run has given a time yet, so nothing can be said."
    if findings.verdict == "single-cell" or len(findings.cells) == 1:
        return f"{sentence_start(measured[0].levels)} took {elapsed_text(measured[0])}; there is nothing to compare it with."
    if findings.verdict == "one-layout":
        return one_layout(findings)
    if findings.verdict == "by-load":
        return by_load(findings, verdict_sentence)
    if findings.verdict == "untested":
        return _untested_verdict(findings, measured)
    if findings.verdict == "too-few-runs" or not findings.best:
        return _no_verdict_yet(findings, measured)
    if findings.verdict == "indistinguishable":
        return _nothing_told_apart(findings, measured) + _while_open(findings)
    if findings.verdict == "winner":
        return _winner(findings)
    return _best_set(findings) + _while_open(findings)


def sentence_start(levels: dict[str, JsonValue]) -> str:
    text = cell_text(levels)
    return "The only layout" if text == "the only layout" else text


def elapsed_text(cell: CellSummary) -> str:
    return seconds_estimate(cell.elapsed_s.mean) if cell.elapsed_s is not None else ""


def per_row(findings: Findings) -> bool:
    return compared.by_rate(findings)


def _figure(findings: Findings, cell: CellSummary) -> str:
    """The figure that a cell is judged by: its time, its rate if cells do different amounts of work, or its latency."""
    return compared.judged_text(findings, cell)


def change_text(findings: Findings, ratio: Estimate) -> str:
    return change_estimate(ratio, compared.per(findings))


def _in_blocks(findings: Findings) -> bool:
    return any(comparison.across_blocks for comparison in findings.comparisons)


def _untested_verdict(findings: Findings, measured: Sequence[CellSummary]) -> str:
    """The verdict when there are enough runs, but each cell's were made in a separate stretch of time."""
    layouts = noun(findings.factors)
    if compared.of_both_kinds(findings):
        return (
            "Not judged: simulated cells stand beside measured ones, and none is tested against the other kind. "
            f"{_shortest(findings, measured)}"
        )
    where = 'one after the other (order = "cell-by-cell")' if findings.order == "cell-by-cell" else "in one block"
    return (
        f"Not judged: all runs of each {layouts} were made {where}, so a drift of the machine would look like a difference. "
        f'{_shortest(findings, measured)} Set order = "randomised"'
        f"{'' if findings.order == 'cell-by-cell' else ', take factors out of costly'} and run it under a new name."
    )


def _no_verdict_yet(findings: Findings, measured: Sequence[CellSummary]) -> str:
    most = max(cell.runs_ok + cell.runs_unverified for cell in measured)
    if findings.runs_stored < findings.runs_planned:
        why = f"Not judged yet: {findings.runs_stored} of {findings.runs_planned} runs are stored, too few to test"
    elif most == 1:
        why = "Not judged: with 1 run each, differences can't be distinguished from chance"
    else:
        why = f"Not judged: {most} runs each are too few, or too few of them in the same rounds, to test anything"
    if findings.loads:
        return f"{why}."
    return f"{why}. {_shortest(findings, measured)}"


def _shortest(findings: Findings, measured: Sequence[CellSummary]) -> str:
    """The shortest and the longest mean, if nothing is judged."""
    ends = sorted(measured, key=lambda cell: _slowness(findings, cell))
    first, last = ends[0], ends[-1]
    if len(ends) == 1:
        return f"Only {cell_text(first.levels)} has a time, {_bare_figure(findings, first)}."
    what = "highest mean rate" if per_row(findings) else "shortest mean time"
    other = "lowest" if per_row(findings) else "longest"
    so_far = " so far" if findings.runs_stored < findings.runs_planned else ""
    return (
        f"The {what}{so_far} is {_bare_figure(findings, first)}, with {cell_text(first.levels)}; the {other} is "
        f"{_bare_figure(findings, last)}, with {cell_text(last.levels)}."
    )


def _slowness(findings: Findings, cell: CellSummary) -> float:
    sample = compared.judged(findings, cell)
    value = sample.mean.value if sample is not None else 0.0
    return -value if per_row(findings) else value


def _bare_figure(findings: Findings, cell: CellSummary) -> str:
    return _figure(findings, cell).replace(" (no interval: too few runs)", "")


def _while_open(findings: Findings) -> str:
    """A sentence on the cells that can't be compared with the fastest, and why; "" if all can."""
    if not findings.not_compared:
        return ""
    absent = [
        cell.cell_id for cell in findings.cells if cell.cell_id in findings.not_compared and cell.elapsed_s is None
    ]
    few = [cell_id for cell_id in findings.not_compared if cell_id not in absent]
    parts = []
    if absent:
        name = _group_name(findings, absent)
        parts.append(f"{name} {'have' if len(absent) > 1 or is_plural(name) else 'has'} no run with a time")
    if few:
        name = _group_name(findings, few)
        verb = "share" if len(few) > 1 or is_plural(name) else "shares"
        parts.append(f"{name} {verb} fewer than two rounds with the fastest of these")
    return f" Not compared: {'; '.join(parts)}. Until they are, no winner can be named."


def _nothing_told_apart(findings: Findings, measured: Sequence[CellSummary]) -> str:
    measured = [cell for cell in measured if cell.cell_id not in findings.not_compared]
    samples = [compared.judged(findings, cell) for cell in measured]
    means = [sample.mean for sample in samples if sample is not None]
    span, verb = (partial(_rates_range, findings), did(findings)) if per_row(findings) else (seconds_range, "took")
    lows = [mean.low for mean in means if mean.low is not None]
    highs = [mean.high for mean in means if mean.high is not None]
    within = f" (95 % CIs within {span(min(lows), max(highs))})" if len(lows) == len(means) else ""
    all_of = "both" if len(measured) == 2 else f"all {len(measured)}"
    said = span(min(mean.value for mean in means), max(mean.value for mean in means))
    where = (
        "the fastest of its block, and between blocks no verdict is given" if _in_blocks(findings) else "the fastest"
    )
    return f"No {noun(findings.factors)} can be told apart from {where}: {all_of} {verb} {said} on average{within}."


def _rates_range(findings: Findings, low: float, high: float) -> str:
    return f"{significant(low)} to {rows_per_s(high, compared.rate_unit(findings))}"


def did(findings: Findings) -> str:
    return "inserted" if findings.unit == "rows" and not compared.of_raw_io(findings) else "did"


def _winner(findings: Findings) -> str:
    best = findings.cell(findings.best[0])
    name = cell_text(best.levels)
    text = f"{name} {was(name)} fastest: {_figure(findings, best)}"
    slower = slower_cells(findings)
    if not slower:
        return f"{text}."
    last = slower[-1]
    which = "" if len(slower) == 1 else "the slowest, "
    return f"{text}, {change_text(findings, last.ratio.inverse)} than {which}{cell_name(findings, last.cell_id)}."


def _best_set(findings: Findings) -> str:
    ids = _best_ids(findings)
    slower = slower_cells(findings)
    name = _group_name(findings, ids)
    measured = [
        cell for cell in findings.cells if cell.elapsed_s is not None and cell.cell_id not in findings.not_compared
    ]
    unclear = [cell for cell in measured if cell.cell_id not in ids]
    text = f"{name} can't be told apart" if len(ids) > 1 else f"{name} {was(name)} fastest of those compared"
    counted = len(ids) > SLOWER_SHOWN and not are_a_product([findings.cell(cell_id).levels for cell_id in ids])
    if counted:
        fastest = cell_name(findings, findings.best[0])
        of_all = f"of {len(measured)} {noun(findings.factors, 2)}"
        name, text = f"{len(ids)} {of_all}", f"{len(ids) - 1} {of_all} can't be told apart from the fastest, {fastest}"
    if not slower:
        return f"{text}."
    names = _group_name(findings, [comparison.cell_id for comparison in slower])
    if _in_blocks(findings):
        amount = " to ".join(dict.fromkeys(slower_by(item.ratio) for item in (slower[0], slower[-1])))
        return (
            f"{name} are the fastest of their blocks, or can't be told apart from them; {names} "
            f"{'are' if is_plural(names) or len(slower) > 1 else 'is'} slower, by {amount}, and between blocks no verdict "
            "is given."
        )
    if len(slower) == 1:
        verb = "are" if is_plural(names) else "is"
        return f"{text}; {names} {verb} slower, by {slower_by(slower[0].ratio)}."
    many = counted or len(slower) > SLOWER_SHOWN
    rest = f"the other {len(slower)}" if len(slower) == len(unclear) and many else names
    return f"{text}; {rest} are slower, by {slower_by(slower[0].ratio)} to {slower_by(slower[-1].ratio)}."


def was(name: str) -> str:
    return "were" if is_plural(name) else "was"


def slower_cells(findings: Findings) -> list[Comparison]:
    """Cells that differ from the best for sure, nearest first."""
    told = [comparison for comparison in findings.comparisons if comparison.distinguishable]
    return sorted(told, key=lambda comparison: comparison.ratio.value)


def _best_ids(findings: Findings) -> list[str]:
    """Ids of the best set in the order the cells are listed."""
    ids = {*findings.best, *findings.tied}
    return [cell.cell_id for cell in findings.cells if cell.cell_id in ids]


def cell_name(findings: Findings, cell_id: str) -> str:
    return cell_text(findings.cell(cell_id).levels)


def _group_name(findings: Findings, ids: Sequence[str]) -> str:
    return group_text([findings.cell(cell_id).levels for cell_id in ids], findings.factors)


def untested_text(findings: Findings, found: Comparison | Effect) -> str:
    """A change between blocks or between stretches of time, or one of too few runs."""
    apart = "run at another time" if findings.order == "cell-by-cell" else "in another block"
    why = apart if found.across_blocks else "too few runs"
    return f"{change(found.ratio.value, per=compared.per(findings))} (not tested: {why})"


# ---------------------------------------------------------------------------------------------------------------------
# For tables and legends
# ---------------------------------------------------------------------------------------------------------------------


def first_factor(findings: Findings) -> str | None:
    """The factor that orders tables and charts: data files if they vary, else the first listed, else None."""
    names = [factor.name for factor in findings.factors]
    return DATA_FILES if DATA_FILES in names else names[0] if names else None


def comparison_text(findings: Findings, cell_id: str) -> str:
    """One cell against the best, with its interval: "22 % more time (...) than 4 data files"."""
    load = findings.load_of(cell_id)
    judged, under = (load, f" under its {load_noun(findings)}") if load is not None else (findings, "")
    if load is not None and load.verdict == "single-cell":
        return f"the only layout under its {load_noun(findings)}"
    if cell_id in judged.best[:1]:
        return f"fastest{under}" if judged.verdict == "winner" else f"nominally fastest{under}"
    if judged.verdict == "untested" and cell_id == judged.fastest:
        return "shortest mean time; not judged"
    found = _comparison(findings, cell_id)
    if findings.cell(cell_id).elapsed_s is None:
        return "no time measured"
    if found is None or (found.p_value is None and not found.across_blocks):
        return f"not judged: {_common_runs(findings, cell_id)}"
    best, difference = cell_name(findings, found.best_cell_id), change_text(findings, found.ratio)
    if found.across_blocks:
        first = "" if judged.verdict == "untested" else "fastest of its block; "
        return f"{first}{untested_text(findings, found)} than {best}"
    return f"{difference} than {best}" if found.distinguishable else f"can't be told apart from {best}: {difference}"


def _common_runs(findings: Findings, cell_id: str) -> str:
    cell = findings.cell(cell_id)
    runs = cell.runs_ok + cell.runs_unverified
    return (
        f"{runs} run{'' if runs == 1 else 's'}{'' if runs == 1 else ', too few of them in the rounds of the fastest'}"
    )


def verdict_mark(findings: Findings, cell_id: str) -> str:
    """For a narrow column: "best", "best of block", "tied", "slower +22 %", "not judged"; "" for a single cell."""
    judged = findings.load_of(cell_id) or findings
    if judged.verdict == "single-cell":
        return ""
    if judged.verdict in ("too-few-runs", "untested") or cell_id in judged.not_compared:
        return "not judged" if findings.cell(cell_id).elapsed_s is not None else ""
    found = _comparison(findings, cell_id)
    if (found is not None and found.across_blocks) or (cell_id in judged.best[:1] and _in_blocks(findings)):
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
