"""Waits in words: which of them explain a difference, how they move, what a wait table holds. Pure.

Shares are of connection time, that is of connections x elapsed.
"""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings import CellSummary, Effect, Findings, WaitChange, WaitTrend
from storagelab.report.names import DATA_FILES, cell_text, level_text, phrase, value_text
from storagelab.report.numbers import change_estimate, percent, ratio_interval, seconds
from storagelab.values import JsonValue
from storagelab.waits import Method, TableRow

_SHARE_WORTH_SAYING = 0.02
_TRENDS_SHOWN = 3
_METHODS = {"counter": "counted", "sampled": "sampled", "derived": "derived"}


def wait_text(wait_type: str, analogue: str, said: set[str] | None = None) -> str:
    """A wait type with its SQL Server name the first time: "Lock:extend (PAGELATCH_UP on PFS in SQL Server's words)".

    `said` remembers, over several sentences, which names were explained.
    """
    known = said is not None and wait_type in said
    if said is not None:
        said.add(wait_type)
    bare = analogue.strip()
    if known or not bare or bare == wait_type or bare.startswith("("):
        return wait_type
    return f"{wait_type} ({bare} in SQL Server's words)"


def method_text(method: Method) -> str:
    """How a figure was got: "counted", "sampled" or "derived"."""
    return _METHODS[method]


def wait_change_sentences(findings: Findings, said: set[str]) -> list[str]:
    if findings.worst is None or not findings.best or findings.verdict not in ("winner", "best-set"):
        return []
    best, worst = findings.cell(findings.best[0]), findings.cell(findings.worst)
    if best.available_s is None or worst.available_s is None or worst.cell_id == best.cell_id:
        return []
    extra_s = worst.available_s - best.available_s
    growing = sorted(findings.wait_changes, key=lambda item: item.best_s - item.worst_s)
    grown = [item for item in growing if extra_s > 0 and item.worst_s - item.best_s >= 0.1 * extra_s][:3]
    if not grown:
        return []
    parts = [_grown(item, said) for item in grown]
    share = sum(item.worst_s - item.best_s for item in grown) / extra_s
    covers = f"; together {percent(share)} of it" if len(grown) > 1 and share <= 1.1 else ""
    return [
        f"Where the time goes: the connections of {cell_text(worst.levels)} together spent {seconds(extra_s)} more per "
        f"run than those of {cell_text(best.levels)}. What grew: {'; '.join(parts)}{covers}."
    ]


def _grown(item: WaitChange, said: set[str]) -> str:
    return (
        f"{wait_text(item.wait_type, item.analogue, said)} by {seconds(item.worst_s - item.best_s)}, to "
        f"{percent(item.worst_share)} of connection time from {percent(item.best_share)}"
    )


def wait_trend_sentences(findings: Findings, said: set[str]) -> list[str]:
    moved = [(abs(ends[0][1] - ends[1][1]), trend, ends) for trend in findings.wait_trends if (ends := _ends(trend))]
    worth = sorted((item for item in moved if item[0] >= _SHARE_WORTH_SAYING), key=lambda item: -item[0])
    return [_trend_sentence(findings, trend, ends, said) for _, trend, ends in worth[:_TRENDS_SHOWN]]


def _ends(trend: WaitTrend) -> tuple[tuple[JsonValue, float], tuple[JsonValue, float]] | None:
    known = [(level, share) for level, share in zip(trend.levels, trend.shares, strict=True) if share is not None]
    return (known[0], known[-1]) if len(known) > 1 else None


def _trend_sentence(
    findings: Findings, trend: WaitTrend, ends: tuple[tuple[JsonValue, float], tuple[JsonValue, float]], said: set[str]
) -> str:
    (first, first_share), (last, last_share) = ends
    falls = last_share < first_share
    where = f" ({level_text(trend.at)})" if trend.at else ""
    name = wait_text(trend.wait_type, trend.analogue, said)
    text = (
        f"{name} {'falls' if falls else 'grows'} from {percent(first_share)} of connection time at {phrase(trend.factor, [first])} "
        f"to {percent(last_share)} at {_second_phrase(trend.factor, last)}{where}"
    )
    return text + _meaning(findings, trend, first, last, falls) + "."


def _second_phrase(factor: str, level: JsonValue) -> str:
    return value_text(level) if factor == DATA_FILES else phrase(factor, [level])


def _meaning(findings: Findings, trend: WaitTrend, first: JsonValue, last: JsonValue, falls: bool) -> str:
    """What the trend did to the completion time: only said where the comparison of its two ends is there."""
    effect = _effect_between(findings, trend, first, last)
    if effect is None:
        return ""
    if not effect.distinguishable:
        moved = ": the wait moved, it did not cost time that shows" if falls else ": it took no time that shows"
        interval = ratio_interval(effect.ratio)
        return f", while the completion time can't be told apart ({interval or 'too few runs'}){moved}"
    quicker = effect.ratio.value < 1
    joined = ", and" if quicker == falls else ", yet"
    return f"{joined} the run took {change_estimate(effect.ratio)}"


def _effect_between(findings: Findings, trend: WaitTrend, first: JsonValue, last: JsonValue) -> Effect | None:
    fitting = [
        effect
        for effect in findings.effects
        if effect.factor == trend.factor and effect.baseline == first and effect.level == last
    ]
    exact = [effect for effect in fitting if effect.at == trend.at]
    overall = [effect for effect in fitting if not effect.at]
    return next(iter([*exact, *overall]), None)


# ---------------------------------------------------------------------------------------------------------------------
# Around a wait table
# ---------------------------------------------------------------------------------------------------------------------


def waits_title(findings: Findings, cell: CellSummary, uncut: bool) -> str:
    """What a wait table shows, above it."""
    place = ""
    if findings.verdict in ("winner", "best-set", "indistinguishable"):
        if cell.cell_id in findings.best[:1]:
            place = " (fastest)" if findings.verdict == "winner" else " (shortest mean time)"
        elif cell.cell_id == findings.worst:
            told = any(item.cell_id == cell.cell_id and item.distinguishable for item in findings.comparisons)
            place = " (slowest)" if told else " (longest mean time)"
    runs = cell.runs_ok + cell.runs_unverified
    mean = f", mean of {runs} runs" if runs > 1 else ""
    return f"Waits of {cell_text(cell.levels)}{place}{mean}: {'all of them' if uncut else 'the top 95 %'}"


def no_waits_sentence(cell: CellSummary) -> str:
    """Why there is no table."""
    if cell.elapsed_s is None:
        return "No run of this cell has been measured."
    return "No waits were observed in these runs." if not cell.waits else "The connections waited for nothing."


def audit_sentences(cell: CellSummary) -> list[str]:
    """CPU time beside the waits, and how much of connections x elapsed is accounted for."""
    lines = []
    for row in cell.waits:
        if not row.is_wait:
            share = f", {percent(row.wait_s / cell.available_s)} of connection time" if cell.available_s else ""
            lines.append(f"{row.wait_type}: {seconds(row.wait_s)}{share} ({method_text(row.method)}; no wait)")
    if cell.explained is not None and cell.available_s is not None:
        lines.append(
            f"Waits + CPU explain {percent(cell.explained, 1)} of connections x elapsed "
            f"({cell.connections} x {seconds(cell.available_s / cell.connections)} = {seconds(cell.available_s)})."
        )
    elif cell.waits:
        lines.append("Whether waits + CPU explain the whole time can't be said: CPU time could not be read.")
    return lines


def wait_footnotes(rows: Sequence[TableRow], *, analogues: bool) -> list[str]:
    """How the figures of a table were got, what its empty columns mean and, if `analogues`, the SQL Server names."""
    lines = []
    methods = {row.method for row in rows}
    notes = []
    if "sampled" in methods:
        notes.append("~ sampled: estimated shares, rough counts")
    if "derived" in methods:
        notes.append("* derived from the kernel's totals")
    if notes:
        lines.append("; ".join(notes))
    if any(row.resource_s is None for row in rows):
        lines.append("Resource_S and Signal_S are empty where the split could not be measured.")
    named = [f"{row.wait_type} = {row.analogue}" for row in rows if row.analogue and row.analogue != row.wait_type]
    if analogues and named:
        lines.append(f"In SQL Server's words: {'; '.join(named)}.")
    return lines
