"""Describes waits: how they change along a factor, and the notes on a wait table. Pure.

Shares are fractions of session time, which is the number of connections times the elapsed time. Of runs of a set
length, times per transaction are compared, because a share may rise only because other waits shrink.
"""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings.model import CellSummary, Estimate, Findings, WaitTrend
from storagelab.model.measurement import WaitingTask
from storagelab.model.waits import FOR_CLIENT, Method, TableRow
from storagelab.servers.durability import BENIGN_LISTS
from storagelab.words import numbers
from storagelab.words.names import cell_text, labels_of, phrase

_SHARE_WORTH_SAYING = 0.02
_TRENDS_SHOWN = 3
_NAMES_SHOWN = 3
_WHOLE = 0.9995
_METHOD_NOTES = {
    "sampled": "~ sampled: estimated shares, rough counts", "derived": "* derived from the kernel's totals",
}  # fmt: skip
IDLE = " (idle: waiting for the client)"
METHODS: dict[Method, str] = {"counter": "counted", "sampled": "sampled", "derived": "derived"}
"""Maps each method of obtaining a figure to its text."""


def wait_text(wait_type: str, analogue: str, named: set[str] | None = None) -> str:
    """Names a wait type, the first time with its SQL Server name: "Lock:extend (PAGELATCH_UP on PFS in SQL Server's
    words)".

    `named` is the set of wait types that earlier sentences explained; this function adds to it.
    """
    known = named is not None and wait_type in named
    if named is not None:
        named.add(wait_type)
    bare = analogue.strip()
    if known or not bare or bare == wait_type or bare.startswith("("):
        return wait_type
    return f"{wait_type} ({bare} in SQL Server's words)"


def wait_names_sentence(findings: Findings) -> list[str]:
    """Lists the engines' own names for each class of waits; [] if engines are not compared."""
    shown = {item.wait_type for item in findings.wait_trends} & findings.wait_names.keys()
    parts = [
        f"{name} = {', '.join(natives[:_NAMES_SHOWN])}"
        for name, natives in findings.wait_names.items()
        if name in shown
    ]
    return [f"Waits of different engines are grouped by what they wait for: {'; '.join(parts)}."] if parts else []


def wait_trend_sentences(findings: Findings, named: set[str]) -> list[str]:
    """Says how waits change along a factor with ordered levels: a sentence for each of the waits that change most."""
    moves: dict[str, tuple[float, WaitTrend, int, int]] = {}
    for trend in findings.wait_trends:
        times = {place: one.value for place, one in enumerate(_compared(trend)) if one is not None}
        low, high = (pick(times, key=lambda at: times[at], default=0) for pick in (min, max))
        moved = (1 - times[low] / times[high]) * (trend.shares[high] or 0.0) if times.get(high) else 0.0
        least = max(_SHARE_WORTH_SAYING, moves.get(trend.wait_type, (0.0,))[0])
        if trend.category not in ("cpu", FOR_CLIENT) and moved >= least:
            moves[trend.wait_type] = moved, trend, low, high
    largest = sorted(moves.values(), key=lambda move: -move[0])[:_TRENDS_SHOWN]
    return [_trend_sentence(findings, trend, low, high, named) for _, trend, low, high in largest]


def _compared(trend: WaitTrend) -> Sequence[Estimate | None]:
    """Returns the figures by which levels are compared: seconds of the mean transaction, or shares of session time."""
    return trend.each_s or trend.estimates or [None if one is None else Estimate(value=one) for one in trend.shares]


def _trend_sentence(findings: Findings, trend: WaitTrend, low: int, high: int, named: set[str]) -> str:
    known = _compared(trend)
    least, most = ((_time if trend.each_s else numbers.share_estimate)(known[at]) for at in (low, high))
    at_least, at_most = (phrase(trend.factor, [trend.levels[at]]) for at in (low, high))
    where = f", with {cell_text(trend.at, labels_of(findings.factors))}" if trend.at else ""
    name = wait_text(trend.wait_type, trend.analogue, named)
    takes, of = ("takes", "each transaction's time") if trend.each_s else ("is", "session time")
    return f"{name} {takes} {least} of {of} at {at_least}, and {most} at {at_most}{where}."


def _time(one: Estimate | None) -> str:
    if one is None:
        return ""
    return numbers.seconds(one.value) if one.low is None else numbers.seconds_estimate(one)


# ---------------------------------------------------------------------------------------------------------------------
# Around a wait table
# ---------------------------------------------------------------------------------------------------------------------


def crowd_sentence(crowd: WaitingTask) -> str:
    """Describes the longest sampled queue for one object: "12 sessions wait for PAGELATCH_UP on 5:1:1520, a PFS page".
    "" if no sample has two sessions that wait for the same object.
    """
    if crowd.sessions < 2:
        return ""
    # A resource that is not a page already names its file.
    of_file = "" if crowd.data_file is None or crowd.resource.page is None else f" (data file {crowd.data_file})"
    held = f", held by a session in {crowd.held_by}" if crowd.held_by.count(":") == 1 else ""
    return (
        f"The longest queue for one object in a sample: {crowd.sessions} sessions wait for {crowd.wait_type}"
        f"{on_text(crowd.resource.text)}{of_file}{held}, {numbers.seconds(crowd.at_s)} after the start."
    )


def on_text(thing: str) -> str:
    """Returns the text " on THING" that follows the name of a wait; "" if `thing` is in brackets and thus no object."""
    return "" if thing.startswith("(") else f" on {thing}"


def no_waits_sentence(cell: CellSummary) -> str:
    """Says why a cell has no wait table."""
    if cell.elapsed_s is None:
        return "No run of this cell was measured."
    if cell.raw_io:
        return "Raw I/O runs no database, so there are no waits; its latencies are in the table of all cells."
    if not cell.waits and not cell.waits_asked:
        return "Waits were not sampled: measure.waits = false."
    return "No waits were observed in these runs." if not cell.waits else "The connections waited for nothing."


def no_waits_anywhere_sentence(findings: Findings) -> str:
    """Says why no cell has a wait table; "" if a cell has one."""
    measured = [cell for cell in findings.cells if cell.elapsed_s is not None]
    if not measured:
        return "No run was measured, so there are no waits to show."
    reasons = list(dict.fromkeys(no_waits_sentence(cell) for cell in measured if not cell.waits))
    return "" if any(cell.waits for cell in measured) else " ".join(reasons)


def audit_sentences(cell: CellSummary) -> list[str]:
    """Gives the CPU time, the share of session time that waits and CPU time add up to, and an independent count of that
    share if there is one. Then it lists the benign waits.
    """
    lines = []
    for row in cell.waits:
        if not row.is_wait:
            share = f", {numbers.percent(row.wait_s / cell.available_s)} of session time" if cell.available_s else ""
            lines.append(f"{row.wait_type}: {numbers.seconds(row.wait_s)}{share} ({METHODS[row.method]}; no wait)")
    if cell.available_s:
        shown = sum(row.wait_s for row in cell.waits) / cell.available_s
        rest = "; the rest is time after sessions finished, or unexplained" if shown < _WHOLE else ""
        whole = f"session time (connections x elapsed, {numbers.seconds(cell.available_s)})"
        lines.append(f"All waits + CPU: {numbers.percent(shown, 1)} of {whole}{rest}.")
    if cell.explained is not None:
        lines.append(
            "Audit, independent of these rows: CPU time, observed waits, and the time after sessions "
            f"finished add up to {numbers.percent(cell.explained, 1)} of session time."
        )
    elif cell.waits:
        lines.append("CPU time could not be read, so whether waits + CPU explain the whole time is unknown.")
    if cell.idle_waits:
        lines.append(f"{', '.join(sorted(cell.idle_waits))}: idle, waiting for the client, so no queue for storage.")
    for one in BENIGN_LISTS:
        benign = [row for row in cell.waits if row.is_wait and row.wait_type in one.wait_types and row.wait_s > 0]
        if benign:
            named = ", ".join(f"{row.wait_type} {numbers.seconds(row.wait_s)}" for row in benign)
            lines.append(f"Benign, so only in the full table: {named} (list of {one.date}: {one.name}).")
    return lines


def wait_footnotes(rows: Sequence[TableRow]) -> list[str]:
    """Says how a table's figures were obtained, and what its empty columns mean."""
    notes = [note for method, note in _METHOD_NOTES.items() if any(row.method == method for row in rows)]
    lines = ["; ".join(notes)] if notes else []
    if any(row.resource_s is None for row in rows):
        lines.append("Resource_S and Signal_S are empty where the split could not be measured.")
    return lines
