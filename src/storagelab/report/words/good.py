"""The good layout that a race named, in the answer: each result with its forms, the longest first. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.findings.kinds.good import GoodLayout
from storagelab.findings.model import Findings
from storagelab.report.words import compared
from storagelab.report.words.short import Form, Names, plain
from storagelab.words.names import noun
from storagelab.words.numbers import percent

_LEAST = 1.0011
"""A bound closer to 1 is reported as this, which is true and has a figure."""
KNOWN = 2.0
"""A bound above this factor says only that it is not known how much slower a layout is."""
_UNKNOWN = "may be much slower"


def good_forms(findings: Findings, most: int) -> Iterator[list[Form]]:
    """The first `most` of the good layouts, one for each load or block (or one more, if that is all)."""
    goods = GoodLayout.of(findings)
    shown = goods if len(goods) == most + 1 else goods[:most]
    yield from (_use(findings, one, alone=len(goods) == 1) for one in shown)
    if left := len(goods) - len(shown):
        groups = compared.load_noun(findings, left) if findings.loads else "blocks"
        yield plain(f"For {left} more {groups} see the table of {noun(findings.layout_factors, 2)}.")


def _use(findings: Findings, one: GoodLayout, *, alone: bool) -> list[Form]:
    levels = findings.cell(one.cell_id).levels
    layout = {factor.name: levels[factor.name] for factor in findings.layout_factors if factor.name in levels}

    def start(names: Names) -> str:
        loads = ", ".join(names.levels(name, [level]) for name, level in one.load.items())
        where = f"With {loads}: use" if loads else "Use" if alone else "In its block, use"
        good = f", a good {noun(findings.layout_factors)}" if one.reached else ""
        return f"{where} {names.layout(layout)}{good}"

    missed = "" if one.reached else f"; {percent(one.within)} was asked"
    so_far = "" if one.over else "; the race goes on"
    bound = bound_text(one.at_most_slower)
    forms: list[Form] = [
        lambda names: f"{start(names)}: {bound} than the fastest (95 %){missed}{so_far}.",
        lambda names: f"{start(names)}: {bound} (95 %){missed}{so_far}.",
        lambda names: f"{start(names)}: {bound} (95 %){missed}.",
    ]
    if bound == _UNKNOWN:
        forms = [
            lambda names: f"{start(names)} so far, but it {_UNKNOWN} than the fastest{missed}{so_far}.",
            lambda names: f"{start(names)} so far, but it {_UNKNOWN} than the fastest{missed}.",
            lambda names: f"{start(names)} so far, but it {_UNKNOWN} than the fastest.",
            lambda names: f"{start(names)} so far, but it {_UNKNOWN}.",
        ]
    return [*(_uncut(form, items) for items in (4, 2, 1) for form in forms), *forms]


def _uncut(form: Form, items: int) -> Form:
    return lambda names: form(names.uncut(items))


def bound_text(most: float | None) -> str:
    """How much slower than the fastest a layout is at most, as a ratio: "at most 2.1 % slower"."""
    return _UNKNOWN if most is None or most > KNOWN else f"at most {percent(max(most, _LEAST) - 1)} slower"
