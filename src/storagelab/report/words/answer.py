"""The answer in at most eight rows of a terminal with 80 columns, whatever the experiment. Pure.

Lines are ranked by their worth for a decision: what to use, what that is based on, how sure it is, which of the tied
layouts to take, what each factor gains, and why; the last rows are for the cautions and for what to do next. Each
result is a list of forms, the longest first. The answer takes the first form that fits in a row; then the rows that are
left go to lines that have more to say. The evidence shows the longest form of each result that was shortened.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

from storagelab.findings.answer import answer as answer_of
from storagelab.findings.answer_kinds import Answer, Cause, Gain, Limit, Next
from storagelab.findings.kinds.race import RaceSummary
from storagelab.findings.model import Findings
from storagelab.report.words import compared
from storagelab.report.words.caution_texts import caution_text, lines_among, unable_text
from storagelab.report.words.choices import choice_forms
from storagelab.report.words.hosts import host_lines
from storagelab.report.words.short import CUT, Form, Names, fitting, listed_or, rows_of, shortened, whole
from storagelab.words.names import noun
from storagelab.words.numbers import count, decimals_for, limit_text, percent, plural, signed_percent

LINES = 8
_CHOICES, _CHOICES_IN_FULL = 3, 5


About = Literal["use", "basis", "gains", "why", "caution", "next"]


Write = Callable[[int], str]
"""Writes a line in at most so many rows."""
_LEFT_OUT = re.compile(rf"{re.escape(CUT)}| or \d+ more\b")
"""Names that are cut or left out."""
LONG = 8
"""Rows for a text that stands alone."""


class Line(NamedTuple):
    """A line, and its subject: a report puts the evidence on that subject under it."""

    about: About
    text: str


def answer_lines(findings: Findings, found: Answer | None = None) -> list[Line]:
    """The lines, in the order in which they are read."""
    found = found or answer_of(findings)
    uses = [_written(findings, forms) for forms in choice_forms(findings, found, _CHOICES)]
    ranked: list[tuple[About, Write]] = [("use", write) for write in uses[:1]]
    ranked.append(("basis", partial(_basis, findings, found)))
    hosts = (partial(fitting, texts) for texts in host_lines(findings))
    parts: dict[About, Iterable[Write]] = {
        "use": [*uses[1:], *hosts],
        "gains": (_written(findings, forms) for forms in _gains(found)),
        "why": (_written(findings, forms) for forms in _why(findings, found)),
    }
    for about, own in parts.items():
        ranked += [(about, write) for write in lines_among(findings, about, own)]
    last: list[tuple[About, Write]] = [("caution", write) for write in _doubt(findings, found)]
    if found.next is not None:
        last.append(("next", partial(fitting, [f"Next: {next_text(findings, found.next)}."])))
    return _in_rows(ranked, last, named=len(found.choices) == 1)


def _written(findings: Findings, forms: Sequence[Form]) -> Write:
    return lambda rows: shortened(findings, forms, rows)


def _in_rows(ranked: Sequence[tuple[About, Write]], last: Sequence[tuple[About, Write]], *, named: bool) -> list[Line]:
    """The `last` lines, and as many of the `ranked` ones as fit; then rows that are left go to lines that have more to
    say.

    `named`: what to use takes a second row where its names would be cut or left out, since who is told to use a layout
    must know which.
    """
    rows = LINES - len(last)
    kept: list[tuple[About, Write, str]] = []
    for about, write in ranked:
        text = write(1)
        if named and about == "use" and _LEFT_OUT.search(text) and not _LEFT_OUT.search(longer := write(2)):
            text = longer
        if (rows := rows - rows_of(text)) < 0:
            rows += rows_of(text)
            break
        kept.append((about, write, text))
    kept += [(about, write, write(1)) for about, write in last]
    lines = []
    for about, write, text in kept:
        longer = write(2) if rows and rows_of(text) == 1 else text
        rows -= rows_of(longer) - rows_of(text)
        lines.append(Line(about, longer))
    return lines


def _doubt(findings: Findings, found: Answer) -> Iterator[Write]:
    used = {choice.pick.cell_id for choice in found.choices if choice.pick is not None}
    cautions = [caution_text(kind, findings, used) for kind in found.cautions]
    if cautions:
        yield partial(fitting, [f"Doubt: {some}." for some in _ever_fewer(cautions)])


def headline(findings: Findings, found: Answer | None = None) -> str:
    """The verdict in one or two sentences, in full."""
    found = found or answer_of(findings)
    texts = [whole(findings, forms) for forms in choice_forms(findings, found, _CHOICES_IN_FULL)]
    text = " ".join(texts if len(found.choices) > 1 else texts[:2])
    if not text:
        return _basis(findings, found, LONG)
    return f"In simulation, {text[0].lower()}{text[1:]}" if findings.provenance == "simulated" else text


def in_full(findings: Findings, found: Answer | None = None) -> Iterator[Line]:
    """The lines of the answer that were shortened or left out, in full."""
    found = found or answer_of(findings)
    lines = {line.text for line in answer_lines(findings, found)}
    every = [
        *(Line("use", whole(findings, forms)) for forms in choice_forms(findings, found, _CHOICES_IN_FULL)),
        *(Line("gains", whole(findings, forms)) for forms in _gains(found)),
        *(Line("why", whole(findings, forms)) for forms in _why(findings, found)),
    ]
    yield from (line for line in every if line.text not in lines)


# ---------------------------------------------------------------------------------------------------------------------
# What the answer is based on
# ---------------------------------------------------------------------------------------------------------------------


def _basis(findings: Findings, found: Answer, rows: int) -> str:
    if found.provenance is None or "nothing-measured" in found.unable:
        return f"NOTHING MEASURED: no run has given a time yet ({plural(found.runs_planned, 'run')} planned)."
    made = "" if found.runs == found.runs_planned else f"{found.runs} of "
    race = "".join(f" of a race ({one.runs_of_all} without one)" for one in RaceSummary.of(findings))
    number = len(findings.loads)
    under = f" under {number} {compared.load_noun(findings, number)}" if number else ""
    layouts = f"{found.layouts} {noun(findings.layout_factors, found.layouts)}{under}"
    counts = f"{found.provenance.upper()}, {made}{plural(found.runs_planned, 'run')}{race}, {layouts}"
    facts = [unable_text(fact, found, findings) for fact in found.unable if fact != found.no_verdict]
    if not facts:
        return f"{counts}: no drive was measured." if found.provenance == "simulated" else f"{counts}."
    brief = [re.sub(r" \([^)]*\)", "", fact) for fact in facts]
    pairs = zip(_ever_fewer(facts), _ever_fewer(brief), strict=True)
    return fitting(
        [f"{counts}; not conclusive: {those}." for those in (*(one for pair in pairs for one in pair), brief[0])], rows
    )


def _ever_fewer(facts: Sequence[str]) -> Iterator[str]:
    """All of them, then all but the last, and so on; those left out are counted."""
    for number in range(len(facts), 0, -1):
        left = len(facts) - number
        yield "; ".join(facts[:number]) + (f"; {left} more below" if left else "")


# ---------------------------------------------------------------------------------------------------------------------
# What is gained
# ---------------------------------------------------------------------------------------------------------------------


def _gains(found: Answer) -> Iterator[list[Form]]:
    if not found.gains or (len(found.gains) == 1 and found.choices[0].verdict == "winner"):
        return
    styles = (("instead", True), ("against", True), ("instead", False), ("against", False), ("", False))
    numbers = range(len(found.gains), 0, -1)
    yield [partial(_first_gains, found, number, style, error) for number in numbers for style, error in styles]


def _first_gains(found: Answer, number: int, style: str, error: bool, names: Names) -> str:
    left = len(found.gains) - number
    gains = "; ".join(_gain(found, gain, names, style, error=error) for gain in found.gains[:number])
    return f"Gains: {gains}{f'; {left} more' if left else ''}."


def _gain(found: Answer, gain: Gain, names: Names, style: str, *, error: bool) -> str:
    """The gain of a factor. `style`: the good levels "instead" of another, the change "against" that, or only the
    change. `error`: with its uncertainty.
    """
    name, needed = names.factor(gain.factor), _is_needed(found, gain.factor)
    if gain.same and found.indifferent is not None:
        return f"{name}: the same within {percent(found.indifferent)}"
    if not gain.seen and not gain.untested and not needed:
        return f"{name}: no measurable difference{_reach(gain) if error else ''}"
    reference, changed = names.level(gain.factor, gain.reference), _change(gain, error=error)
    if style == "instead" and needed:
        text = f"{names.levels(gain.factor, gain.levels)} instead of {reference}: {changed}"
    else:
        text = f"{name} {changed}{f' against {reference}' if style else ''}"
    depends = f" (depends on {listed_or(list(map(names.factor, gain.depends_on)), 'and')})"
    return f"{text}{', untested' if gain.untested else ''}{depends if gain.depends_on and error else ''}"


def _is_needed(found: Answer, factor: str) -> bool:
    return any(good.factor == factor for choice in found.choices for good in choice.pattern.needed)


def _change(gain: Gain, *, error: bool) -> str:
    """Such as "-16 ± 1 %", "-7 to -8 %"; if a change may be chance, with its range: "-4 to -9 % (15 % faster to 2 %
    slower)".
    """
    ratios = (gain.worst, gain.best)
    if max(ratio.value for ratio in ratios) >= 2:
        return " to ".join(dict.fromkeys(signed_percent(ratio.value) for ratio in ratios))
    half = max(ratio.half_width or 0.0 for ratio in ratios)
    decimals = 0 if half >= 0.0095 or min(abs(ratio.value - 1) for ratio in ratios) >= 0.02 else 1
    change = " to ".join(dict.fromkeys(f"{100 * (ratio.value - 1):+.{decimals}f}" for ratio in ratios))
    if not error or not half:
        return f"{change} %"
    return f"{change} ± {percent(half, decimals)}" if gain.sure else f"{change} %{_reach(gain)}"


def _reach(gain: Gain) -> str:
    """How large the gain may still be: " (2 % faster to 4 % slower)"."""
    low, high = gain.best.low, gain.worst.high
    if low is None or high is None or high >= 2:
        return ""
    ways = ["faster" if end < 1 else "slower" for end in (low, high)]
    first, last = (f"{100 * abs(end - 1):.0f}" for end in (low, high))
    return f" ({first} to {last} % {ways[0]})" if ways[0] == ways[1] else f" ({first} % faster to {last} % slower)"


# ---------------------------------------------------------------------------------------------------------------------
# Why
# ---------------------------------------------------------------------------------------------------------------------


def _why(findings: Findings, found: Answer) -> Iterator[list[Form]]:
    if (slowest := found.slowest_at_limit) is not None:
        levels, limit = findings.cell(slowest.cell_id).levels, slowest.limit
        yield [
            lambda names: f"The slowest, {names.layout(levels)}: {_at_limit(limit, names)}.",
            lambda names: f"The slowest: {_at_limit(limit, names)}.",
        ]
    of_factor: dict[str, list[Cause]] = {}
    for cause in found.causes:
        of_factor.setdefault(cause.factor, []).append(cause)
    seen = {gain.factor for gain in found.gains if gain.seen}
    for factor, causes in of_factor.items():
        start = "Why, " if factor in seen or _is_needed(found, factor) else "Waits moved, the time not visibly; "
        per = f" per {compared.spender(findings)}" if causes[0].limit is None else ""
        some = ((causes, per), (causes, ""), (causes[:1], per))
        yield [partial(_because, start, factor, those, unit) for those, unit in some]


def _at_limit(limit: Limit, names: Names) -> str:
    at = f"volume {names.cut(limit.volume)} stood at its limit, {limit_text(limit.rate, limit.limit)}"
    return f"{at}, {percent(limit.share)} of the time"


def _because(start: str, factor: str, causes: Sequence[Cause], per: str, names: Names) -> str:
    return f"{start}{names.factor(factor)}: {'; '.join(_step(cause, names) for cause in causes)}{per}."


def _step(cause: Cause, names: Names) -> str:
    if cause.limit is not None:
        return _at_limit(cause.limit, names)
    decimals = decimals_for([cause.from_s, cause.to_s], None)
    moved = f"{names.cut(cause.wait or '')} {cause.from_s:,.{decimals}f} -> {cause.to_s:,.{decimals}f} s"
    if len(cause.before) > 1 or len(cause.after) > 1 or isinstance(cause.after[0], str):
        return moved
    before, after = (names.level(cause.factor, level) for level in (cause.before[0], cause.after[0]))
    return f"{before} -> {after}, {moved}"


# --- what to do next, in words ----------------------------------------------------------------------------------------


def next_text(findings: Findings, step: Next) -> str:
    """Such as "23 repetitions tell 5 % apart"."""
    if step.step == "runs":
        left = findings.runs_planned - findings.runs_stored
        return f"make the {plural(left, 'run')} that {'is' if left == 1 else 'are'} missing: storagelab run SPEC"
    if step.step != "repetitions" or step.repetitions is None:
        return next(one.next_step for one in findings.cautions if one.kind == step.step)
    if step.effect is None:
        return f"make {count(step.repetitions)} repetitions"
    return f"{count(step.repetitions)} repetitions tell {percent(step.effect)} apart"
