"""Predicted beside measured, in words and as a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.findings.beside import Beside, Row
from storagelab.model.values import Estimate
from storagelab.report.words.table import Heading, Part, Table
from storagelab.words import numbers
from storagelab.words.names import listed

CAPTION = "Predicted beside measured"


def beside_sentence(found: Beside, predicted: str, measured: str) -> str:
    """Order, ratios and misses in one sentence each."""
    if len(found.rows) < 2:
        return (
            f"{predicted} and {measured} share {numbers.plural(len(found.rows), 'layout')}: there is nothing to order."
        )
    pairs = numbers.plural(len(found.apart), "pair of layouts", "pairs of layouts")
    order = (
        f"{predicted} has the right order in {found.right} of {pairs} that {measured} tells apart"
        if found.apart
        else f"{measured} tells no two layouts apart, so no order can be checked"
    )
    ratios = ""
    if (error := found.median_error) is not None and (worst := found.worst) is not None:
        most = f"; at most {numbers.percent(abs(worst.error))}, {worst.name}" if len(found.rows) > 2 else ""
        ratios = f"; ratios are off by {numbers.percent(error)} (median{most})"
    known = [row for row in found.rows if row.missed is not None]
    if not known:
        return f"{order}{ratios}."
    missed = listed([row.name for row in found.missed])
    return f"{order}{ratios}. " + (f"Missed: {missed}." if missed else "No interval is missed.")


def beside_part(found: Beside, names: Mapping[str, str]) -> Part:
    """`names` are the layouts' texts."""
    headings = [Heading("layout", "prose"), Heading("measured", "text", f"its speed over that of {names[found.base]}"),
                Heading("predicted", "text"), Heading("off by", "number", "predicted over measured"),
                Heading("verdict", "text")]  # fmt: skip
    rows = [
        [names[row.name], times_text(row.measured), times_text(row.predicted), _off(row, found.base), _verdict(row)]
        for row in found.rows
    ]
    if not any(verdict for *_, verdict in rows):
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    return Part(f"{CAPTION}, times {names[found.base]}", Table(headings, rows), {"verdict": 1})


def _off(row: Row, base: str) -> str:
    return "" if row.name == base else numbers.signed_percent(1 + row.error)


def _verdict(row: Row) -> str:
    return {None: "", True: "missed", False: "agrees"}[row.missed]


def times_text(one: Estimate) -> str:
    """ "1.42 (95 % CI 1.30 to 1.55)"."""
    value = numbers.significant(one.value)
    if one.low is None or one.high is None:
        return value
    low, high = (numbers.significant(end) for end in (one.low, one.high))
    return f"{value} ({one.confidence * 100:.0f} %: {low} to {high})"


def beside_words(found: Beside, names: Mapping[str, str]) -> str:
    """The chart in words, for readers who can't see it."""
    rows = (
        f"{names[row.name]}: measured {times_text(row.measured)}, predicted {times_text(row.predicted)}"
        for row in found.rows
    )
    return f"Times the speed of {names[found.base]}. {'; '.join(rows)}."
