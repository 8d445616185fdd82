"""The page for who decides, on one printed sheet: the question, the choice, the gain in a picture, how sure that is,
and what it rests on. It names no wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from storagelab.findings.answer import answer
from storagelab.findings.answer_kinds import Answer
from storagelab.findings.model import CellSummary, Findings, Sample
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment
from storagelab.report.page.html import asset, templates
from storagelab.report.page.opening import badges
from storagelab.report.words import compared
from storagelab.report.words.answer import answer_lines
from storagelab.report.words.short import Names, Width, cut
from storagelab.words.numbers import keep_together

_QUESTION_MOST = 240
"""Letters of the question: a longer one would leave no room on the sheet."""
_NAME = Width(100, 4)
_ELSEWHERE = "more in the report"
"""Where the rest of a line is: nothing else is below on this sheet."""


@dataclass(frozen=True)
class Bar:
    """A layout in the picture: what it is in the experiment, its name, its figure in words, and the ends of its bar and
    of its interval as shares of the width, in percent.
    """

    role: str
    name: str
    figure: str
    width: float
    low: float
    high: float
    kind: str


def brief_page(experiment: Experiment, runs: Sequence[Run], findings: Findings) -> str:
    """The page as text. It has no script and needs no network."""
    found = answer(findings)
    lines = answer_lines(findings, found)
    of: dict[str, list[str]] = {}
    for line in lines:
        of.setdefault(line.about, []).append(keep_together(line.text.replace("more below", _ELSEWHERE)))
    first, *others = of.get("use") or of["basis"]
    return templates().get_template("brief.html").render(
        experiment=experiment.name,
        question=cut(findings.question or experiment.name, _QUESTION_MOST),
        provenance=found.provenance or "none",
        choice=first,
        bars=_bars(findings, found),
        scale=_scale(findings),
        gains=of.get("gains", []),
        certainty=[*others, *of.get("caution", [])],
        basis=[*of["basis"], *(keep_together(fact) for fact in badges(findings, runs)[1:])] if of.get("use") else [],
        next=of.get("next", []),
        style=asset("page.css"),
        own_style=asset("brief.css"),
    )  # fmt: skip


def _scale(findings: Findings) -> str:
    what = compared.rate_unit(findings) if compared.by_rate(findings) else compared.figure_name(findings)
    better = "longer" if compared.by_rate(findings) else "shorter"
    return f"{what[:1].upper()}{what[1:]}: the {better} the bar, the better. Lines: 95 % confidence intervals."


def _bars(findings: Findings, found: Answer) -> list[Bar]:
    """The layout to use, the fastest, the one listed first, and the slowest, each once; under several loads those of
    the load for which the first choice is.
    """
    chosen = [
        (role, cell, sample) for role, cell in _shown(findings, found) if (sample := compared.judged(findings, cell))
    ]
    longest = max((sample.mean.high or sample.mean.value for *_, sample in chosen), default=0.0)
    return [_bar(findings, role, cell, sample, longest) for role, cell, sample in chosen] if longest else []


def _bar(findings: Findings, role: str, cell: CellSummary, sample: Sample, longest: float) -> Bar:
    mean, layout = sample.mean, {factor.name for factor in findings.layout_factors}
    low, high = (mean.value if end is None else end for end in (mean.low, mean.high))
    figure = compared.judged_text(findings, cell).partition(" (")[0]
    levels = {name: value for name, value in cell.levels.items() if name in layout}
    return Bar(
        role=role, name=Names(findings, _NAME).layout(levels), figure=keep_together(figure),
        width=_share(mean.value, longest), low=_share(low, longest), high=_share(high, longest),
        kind="good" if role.startswith("To use") else "",
    )  # fmt: skip


def _share(value: float, longest: float) -> float:
    return round(100 * value / longest, 2)


def _shown(findings: Findings, found: Answer) -> list[tuple[str, CellSummary]]:
    roles: dict[str, str] = {}
    for role, cell_id in _roles(findings, found):
        roles[cell_id] = f"{roles[cell_id]}, {role}" if cell_id in roles else role
    return [(f"{role[:1].upper()}{role[1:]}", findings.cell(cell_id)) for cell_id, role in roles.items()]


def _roles(findings: Findings, found: Answer) -> Iterator[tuple[str, str]]:
    pick = found.choices[0].pick if found.choices else None
    fastest, slowest = compared.ends(findings)
    if pick is None:
        yield from ((role, one) for role, one in (("shortest mean", fastest), ("longest mean", slowest)) if one)
        return
    load = findings.load_of(pick.cell_id)
    inside = {*load.cells} if load is not None else {cell.cell_id for cell in findings.cells}
    judged = [(compared.judged(findings, cell), cell) for cell in findings.cells if cell.cell_id in inside]
    timed = [(one.mean.value, cell) for one, cell in judged if one]
    timed.sort(key=lambda pair: pair[0], reverse=compared.by_rate(findings))
    first = {factor.name: factor.levels[0].value for factor in findings.layout_factors}
    yield "to use", pick.cell_id
    yield "shortest mean" if not compared.by_rate(findings) else "highest mean", timed[0][1].cell_id
    for _, cell in timed:
        if all(cell.levels.get(name) == value for name, value in first.items()):
            yield "listed first", cell.cell_id
    yield "longest mean" if not compared.by_rate(findings) else "lowest mean", timed[-1][1].cell_id
