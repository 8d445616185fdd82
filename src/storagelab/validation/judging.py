"""Compares published with simulated figures: errors, whether they are within tolerance, and summaries. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from typing import Literal

from storagelab.findings import samples
from storagelab.findings.model import Estimate
from storagelab.model.values import Frozen, JsonValue
from storagelab.validation.articles import Article, Published
from storagelab.validation.quantities import Simulated

Verdict = Literal["within", "outside", "not simulated yet"]


class Row(Frozen):
    """One line of the table. `error` is relative to the published value, or to the nearer end of a range (0 inside
    it); None for a figure that is not simulated, a level, or a value near 0.
    """

    article: str
    figure: Published
    simulated: Estimate | None = None
    level: JsonValue | None = None
    tied: tuple[JsonValue, ...] = ()
    order: tuple[JsonValue, ...] = ()
    error: float | None = None
    verdict: Verdict
    reason: str = ""
    """Why it is not simulated."""


class Summary(Frozen):
    """A summary of the errors of one article's figures of one use; `article` "all" covers all."""

    article: str
    use: str
    figures: int
    simulated: int
    within: int
    median_error: float | None
    worst_error: float | None
    worst: str


def judge(article: Article, figure: Published, simulated: Simulated) -> Row:
    """The row of a figure that was simulated.

    A level is within tolerance if the runs can't distinguish it from the best, and a range if their interval reaches
    into it: the model's runs scatter as a server's do, and chance decides which of two equals is ahead.
    """
    if figure.order is not None:
        right = simulated.order == figure.order
        return Row(article=article.id, figure=figure, order=simulated.order, verdict=_verdict(right))
    if simulated.level is not None:
        right = figure.value in (simulated.level, *simulated.tied)
        return Row(
            article=article.id, figure=figure, level=simulated.level, tied=simulated.tied, verdict=_verdict(right)
        )
    estimate = samples.mean_estimate(simulated.values)
    error = relative_error(figure, estimate.value)
    if figure.tolerance_absolute is not None and figure.value is not None:
        right = abs(estimate.value - figure.value) <= figure.tolerance_absolute
        return Row(article=article.id, figure=figure, simulated=estimate, verdict=_verdict(right))
    right = abs(error) <= figure.tolerance or _reaches_into(figure.between, estimate)
    return Row(article=article.id, figure=figure, simulated=estimate, error=error, verdict=_verdict(right))


def _reaches_into(between: tuple[float, float] | None, estimate: Estimate) -> bool:
    if between is None or estimate.low is None or estimate.high is None:
        return False
    return estimate.low <= between[1] and between[0] <= estimate.high


def relative_error(figure: Published, simulated: float) -> float:
    """Simulated over published, minus 1; for a range, against the nearer end, and 0 inside it."""
    if figure.between is not None:
        low, high = figure.between
        nearer = min(max(simulated, low), high)
        return simulated / nearer - 1 if nearer else simulated
    assert figure.value is not None
    return simulated / figure.value - 1 if figure.value else simulated


def missing(article: Article, figure: Published, reason: str) -> Row:
    """The row of a figure that could not be simulated."""
    return Row(article=article.id, figure=figure, verdict="not simulated yet", reason=reason)


def _verdict(right: bool) -> Verdict:
    return "within" if right else "outside"


def summaries(rows: Sequence[Row]) -> tuple[Summary, ...]:
    """Per article and use, then over all articles per use."""
    uses = ("calibration", "judged", "fact")
    names = list(dict.fromkeys(row.article for row in rows))
    found = [
        _summary(name, use, [row for row in rows if name in ("all", row.article) and row.figure.use == use])
        for name, use in itertools.product([*names, *(["all"] if len(names) > 1 else [])], uses)
    ]
    return tuple(summary for summary in found if summary.figures)


def _summary(article: str, use: str, rows: Sequence[Row]) -> Summary:
    # Inside its range a figure has no error: counting it as 0 would make the average look small.
    with_error = [row for row in rows if row.error is not None and not (row.figure.between and row.error == 0)]
    errors = {row.figure.id: abs(row.error or 0.0) for row in with_error}
    worst = max(errors, key=lambda name: errors[name], default="")
    return Summary(
        article=article,
        use=use,
        figures=len(rows),
        simulated=sum(row.verdict != "not simulated yet" for row in rows),
        within=sum(row.verdict == "within" for row in rows),
        median_error=statistics.median(errors.values()) if errors else None,
        worst_error=errors[worst] if worst else None,
        worst=worst,
    )
