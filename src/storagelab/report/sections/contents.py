"""Makes a report as one document: its opening, and its sections in reading order. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice

from storagelab.findings.answer import answer
from storagelab.findings.cautions.odd_runs import OddRun
from storagelab.findings.kinds.race import RaceSummary
from storagelab.findings.model import Caution, Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.report.charts import page_charts
from storagelab.report.charts.effects import effect_table
from storagelab.report.document import (
    MOST,
    Document,
    Heading,
    Link,
    Listed,
    Part,
    Picture,
    Section,
    Sentence,
    Table,
    listed,
)
from storagelab.report.sections.cells import cells_table
from storagelab.report.sections.manifest import facts, manifest_parts
from storagelab.report.sections.waits import cell_folds, cells_with_parts, run_anchor
from storagelab.report.words import compared
from storagelab.report.words.answer import CHOICES, LONGEST, opening
from storagelab.report.words.caution_texts import cautions_told
from storagelab.report.words.hosts import host_sentences, host_table
from storagelab.report.words.ladder import ladders
from storagelab.report.words.sentences import averaged, sentences, to_decide
from storagelab.report.words.waiting import no_waits_anywhere_sentence
from storagelab.words import numbers
from storagelab.words.names import factor_noun, factor_text, value_text
from storagelab.words.names import listed as listed_and

MAX_EFFECT_ROWS = 200
_NO_WAITS = "The connections waited for nothing."
_MOST_LINKS = 12
_LINES, _LONG_ROWS = 15, 5
"""What fits on a sheet of paper: the lines of all ladders together, or the rows of one ladder with long names."""


def opened(findings: Findings, *, limit: float | None = None, most: int = MOST) -> Document:
    """Returns only the answer: ladders (with about `most` rows in all), reasons, doubts, and the next step. `limit` is
    the reader's limit, in seconds or as a rate.
    """
    found = answer(findings)
    return replace(opening(findings, found), ladders=ladders(findings, found, limit=limit, most=most))


def brief(findings: Findings, runs: Sequence[Run], *, limit: float | None = None) -> Document:
    """Returns the answer for decision-makers, on one sheet. If there are many loads, only some have a ladder. The first
    load of each choice comes first.
    """
    found, is_long = answer(findings), any(len(cell.text) > LONGEST for cell in findings.cells)
    of = opened(findings, limit=limit, most=_LONG_ROWS if is_long else MOST)
    first = {choice.meant[0] for choice in found.choices[:CHOICES]}
    every = sorted(of.ladders, key=lambda one: not first & {rung.cell_id for rung in one.rungs})
    ends = [*accumulate(len(one.shown()) + bool(one.title) for one in every)]
    fit = 1 if is_long else max(1, sum(end <= _LINES for end in ends))
    shown = [one for one in of.ladders if one in every[:fit]]
    told = [f"{len(shown)} of {len(every)} ladders; the report has all"] if len(shown) < len(every) else []
    head = (*of.head, *to_decide(findings, found))
    return replace(of, head=head, ladders=shown, facts=(*facts(findings, runs), *told))


def document(
    experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings,
    extra: Mapping[str, object] | None = None, *, limit: float | None = None,
) -> Document:  # fmt: skip
    """Returns the whole report. `extra` has facts on the campaign that are in no run, such as the version of
    storagelab that made the report.
    """
    drawn = page_charts(findings, runs)
    charts: dict[str, list[Picture]] = {}
    for one in drawn.values():
        charts.setdefault(one.chart.part, []).append(Picture(one))
    raw_io = compared.of_raw_io(findings)
    told = cautions_told(findings)
    each = "counters" if raw_io else "waits, who waited for what, and counters"
    over = charts.get("over-time", [])
    table = host_table(findings).called(f"The hosts ({findings.provenance})")
    hosts: list[Part] = [" ".join(host_sentences(findings)), table] if table.rows else []
    cells = [one for part in ("answer", "cells", "drives") for one in charts.get(part, [])]
    every = (
        Section("evidence", "Evidence", listed(sentences(findings)), "each finding in full"),
        Section("cautions", "Caveats", _cautions(findings, told), numbers.plural(len(told), "caveat")),
        Section("explore", "Every cell", [cells_table(findings).table]),
        Section("pictures", "Charts of all cells", cells, _titles(cells)),
        Section("hosts", "Hosts", hosts, "each host’s place and times"),
        Section(
            "effects",
            "What each factor does",
            [*_not_drawn(findings), *charts.get("effects", []), *_best_levels(findings), *_effects_at_levels(findings)],
            _drawn_factors(findings),
        ),
        Section(
            "waits",
            "Where the sessions’ time goes",
            [] if raw_io else charts.get("waits") or [no_waits_anywhere_sentence(findings) or _NO_WAITS],
            "the waits of all cells in one chart"
            + ", and the steps from the fastest cell to a slow one" * ("waterfall" in drawn),
        ),
        Section(
            "cells",
            f"{'Counters' if raw_io else 'Waits'} of each cell",
            cell_folds(findings, runs, drawn["waits"].data.colours if "waits" in drawn else {}),
            f"{numbers.plural(len(cells_with_parts(findings)), 'cell')}: {each}",
        ),
        Section("over-time", "Over time", over, f"{_titles(over)}{_more_over_time(findings, runs)}"),
        Section(
            "manifest",
            "How it was measured",
            manifest_parts(experiment, plan, findings, runs, extra or {}),
            "the spec, the order of the runs, machine, server, and what was read back",
        ),
    )
    sections = [section for section in every if section.parts]
    return replace(opened(findings, limit=limit), sections=sections, facts=facts(findings, runs))


def _not_drawn(findings: Findings) -> Iterator[str]:
    """Says why a race shows no effect of some factors."""
    seen = {one.factor for one in (*findings.effects, *findings.speed_ups) if one.distinguishable}
    left = [factor_text(one.name) for one in findings.factors if len(one.levels) > 1 and one.name not in seen]
    if left and RaceSummary.of(findings):
        yield f"The rounds in which all ran show no effect of {listed_and(left)}; the ladder may show more."


def _drawn_factors(findings: Findings) -> str:
    drawn = {one.factor for one in compared.of_choices(findings, findings.effects, at=False)}
    names = [factor_text(factor.name) for factor in findings.factors if factor.name in drawn]
    return f"{listed_and(names)}: each level against the first" if names else "the best levels"


def _titles(pictures: Sequence[Picture]) -> str:
    return "; ".join(picture.drawn.title for picture in pictures)


def _more_over_time(findings: Findings, runs: Sequence[Run]) -> str:
    """Says where a page with several cells shows the other quantities over time."""
    columns = {one for run in runs if run.measurement is not None for one in run.measurement.series.columns}
    such = "such as write amplification and utilisation, " * ("write_amplification" in columns)
    return f"; other quantities, {such}of any two cells: “Both over time”" * (len(findings.cells) > 1)


def _cautions(findings: Findings, told: Sequence[tuple[Sequence[Caution], str]]) -> list[Part]:
    """Returns the list of cautions, the most serious first, with links to the runs that they are about."""
    listed = [Sentence(text, of[0].severity, _links(findings, of)) for of, text in told]
    return [Listed(listed)] if listed else ["Nothing in these runs gave cause for doubt."]


def _links(findings: Findings, cautions: Sequence[Caution]) -> list[Link]:
    """Returns links to the time series of the odd runs. The runs that deviate most come first."""
    odd = sorted((one for one in cautions if isinstance(one, OddRun)), key=lambda one: -abs(one.deviation_sd))
    runs = [run for one in odd for run in one.runs_meant(findings)]
    left = [Link(f"and {len(runs) - _MOST_LINKS} more", "over-time")] * (len(runs) > _MOST_LINKS)
    if len(findings.cells) < 2:
        return [*(Link(f"repetition {number}", "over-time") for _, number in runs[:_MOST_LINKS]), *left]
    named = ((f"{cell_id}, repetition {number}", run_anchor(cell_id, number)) for cell_id, number in runs)
    return [*(Link(*one) for one in islice(named, _MOST_LINKS)), *left]


def _best_levels(findings: Findings) -> Iterator[Table]:
    """Yields tables that show the best level of a factor at each level of another factor. If the layouts differ only in
    this factor and the other factor is a load, there is no table, because the ladder of each load shows the same.
    """
    chosen = {factor.name for factor in findings.layout_factors}
    for found in findings.dependences:
        laddered = not found.averaged and found.within not in chosen
        if not found.best or laddered or RaceSummary.of(findings):
            continue
        noun, within = factor_noun(found.factor), factor_text(found.within)
        headings = [Heading(within, "text"), Heading(f"best {noun}", "text"), Heading("not told apart from it", "text")]
        rows = [
            [value_text(row.at), value_text(row.levels[0]), ", ".join(map(value_text, row.levels[1:]))]
            for row in found.best
        ]
        caption = f"The best {noun} at each level of {within} ({findings.provenance}){averaged(found)}"
        yield Table(headings, rows, caption)


def _effects_at_levels(findings: Findings) -> Iterator[Table]:
    drawn = compared.of_choices(findings, findings.effects, at=False)  # has effects that reverse at each level
    at = [one for one in compared.of_choices(findings, findings.effects, at=True) if one not in drawn]
    if at:
        rest = f", the first {MAX_EFFECT_ROWS} of {numbers.count(len(at))}" if len(at) > MAX_EFFECT_ROWS else ""
        caption = f"Each level against the first, at single levels of the other factors ({findings.provenance}){rest}"
        folded = f"At single levels of the other factors: {numbers.plural(len(at), 'comparison')}"
        yield effect_table(at[:MAX_EFFECT_ROWS]).called(caption, folded=folded)
