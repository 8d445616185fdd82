"""Compares two campaigns in words and tables. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from storagelab.findings.basis import Basis
from storagelab.findings.campaigns import Campaign, Compare, Gate, Matched, Pair
from storagelab.findings.kinds.stalls import stalled_of
from storagelab.findings.model import Estimate, Findings
from storagelab.model.measurement import Run
from storagelab.model.plan import Plan
from storagelab.report.document import MOST, Document, Heading, Kind, Ladder, Mark, Rung, Section, Table, paper
from storagelab.report.words.compared import PER
from storagelab.report.words.ladder import on_one_scale
from storagelab.report.words.secrets import masked
from storagelab.spec.reading import differences
from storagelab.stats.stalls import share_most
from storagelab.words import numbers
from storagelab.words.names import cell_text, factor_text, listed, value_text

Fact = str | bool | int | float
_OF_THE_MOMENT = ("free_bytes", "available_bytes", "used_bytes", "load_1min")
_LONGEST = 70
"""The most characters of a value in a table."""
NAMED = 3
"""The most layouts that a sentence names. Of the other layouts, the sentence gives only the number."""


def verdict_sentence(found: Compare) -> str:
    """States the verdict: "b against a: 6.1 % more time (joint 95 % CI 4.0 to 8.2 %) over 12 matched layouts; ..."."""
    layouts = numbers.plural(len(found.matched), "matched layout")
    ratio, per = found.overall, PER[found.compared]
    names = f"{found.second.name} against {found.first.name}"
    if found.untested or ratio.low is None:
        why = found.untested or "a test needs two runs of each layout in both campaigns"
        return f"{names}: {numbers.change(ratio.value, per=per)} over {layouts}, which is not tested: {why}."
    more = f" {_scatter(found)}" if found.history else ""
    if not found.differs and not found.slower and not found.faster:
        return f"{names}: can't be told apart over {layouts}: {numbers.change_estimate(ratio, per)}.{more}"
    chance = "" if found.differs else ", which may be chance"
    return f"{names}: {numbers.change_estimate(ratio, per)} over {layouts}{chance}{_which(found)}.{more}"


def _scatter(found: Compare) -> str:
    low, high = (numbers.signed_percent(end([ratio for _, ratio in found.history])) for end in (min, max))
    return f"Those campaigns are {low} to {high} off their mean. The interval includes this, and the new runs' scatter."


_ASSUMPTION = (
    "The runs of the two campaigns count as independent samples. If something affected all runs of one campaign, such "
    "as a fuller drive, the ratio includes it."
)
_ASSUMPTION_OF_HISTORY = (
    "The earlier campaigns are the sample: each gives one figure for each layout. The interval includes what usually "
    "differs between campaigns. The ratio includes every change since the last one."
)
_DOUBT = (
    "Doubt: a change of the machine between the two would look the same. One pair of campaigns doesn't show how "
    "often that happens."
)
"""Two campaigns also differ by what varies between any campaigns. Their runs can't show how large this part is."""
_NEXT = "Next: run both in turns (storagelab run SPEC --against SPEC), or compare --history with five or more."


def _which(found: Compare) -> str:
    if len(found.matched) == 1:
        return ""
    parts = [
        f"{numbers.plural(len(rows), 'layout takes', 'layouts take')} {_amounts(rows, word)}{PER[found.compared]}"
        for word, rows in (("more", found.slower), ("less", found.faster)) if rows
    ]  # fmt: skip
    return f"; {'; '.join(parts)}" if parts else "; no single layout differs for sure"


def _amounts(rows: Sequence[Matched], word: str) -> str:
    """Describes a range of ratios: "15 to 49 % less time", "1.20 to 2.40 times as long"."""
    ratios = sorted((one.ratio.value for one in rows), key=lambda ratio: abs(ratio - 1))
    if ratios[-1] >= 2:
        return f"{' to '.join(dict.fromkeys(map(numbers.ratio_text, (ratios[0], ratios[-1]))))} times as long"
    least, most = (numbers.percent(abs(ratio - 1)) for ratio in (ratios[0], ratios[-1]))
    least = "" if least == most else f"{least.removesuffix(' %')} to "
    return f"{least}{most} {word} time"


def gate_sentence(
    result: Gate, margin: float, surely: str = ", for sure", known: str = "these runs", more: str = "more repetitions"
) -> str:
    """States the gate's verdict. `surely`, `known` and `more` are the words on certainty, on the data that can't tell,
    and on what may help.
    """
    limit = numbers.percent(margin)
    return {
        Gate.SLOWER: f"Gate: slower by more than {limit}{surely}.",
        Gate.NOT_SLOWER: f"Gate: not slower by more than {limit} overall{surely}.",
        Gate.CANT_TELL: f"Gate: {known} can't tell whether it is slower by more than {limit}; {more} may.",
    }[result]


def stalls_sentence(basis: Basis, plan: Plan, cell_id: str) -> str:
    """Says how many runs of a cell stalled, and what share of runs may stall."""
    place = next(place for place, cell in enumerate(plan.cells) if cell.cell_id == cell_id)
    runs, stalled = int(basis.fitted.runs[place]), stalled_of(basis, plan, place)
    most = numbers.percent(share_most(runs, stalled))
    return f"{stalled} of {numbers.plural(runs, 'run')} stalled; up to {most} may stall."


def gate_of_campaigns_sentence(result: Gate, margin: float, found: Sequence[Compare]) -> str:
    """States the gate's verdict on campaigns that ran one after the other, and the limits of such a gate."""
    if result is Gate.CANT_TELL and (lacking := [cell_id for one in found for _, cell_id in one.lacking]):
        known = f"Gate: can't tell whether it is slower by more than {numbers.percent(margin)}"
        return f"{known}: no usable run of {listed(list(dict.fromkeys(lacking)))} in one of them."
    if found[0].history:
        beyond = ", beyond what campaigns differ by themselves"
        return gate_sentence(result, margin, beyond, "these campaigns", "more campaigns or runs")
    known = gate_sentence(result, margin, " in these runs")
    if result is Gate.CANT_TELL:
        return known
    return (
        f"{known} A change that affected one whole campaign, such as another state of the machine, looks the "
        "same. To rule that out, run the two specs in turns: storagelab run SPEC --against SPEC."
    )


def provenance_sentences(found: Compare) -> list[str]:
    """Says that one campaign is measured and the other simulated; [] if both have the same provenance."""
    first, second = (campaign.findings.provenance or "no result" for campaign in (found.first, found.second))
    if first == second:
        return []
    return [
        f"{found.first.name} is {first}, {found.second.name} is {second}. The ratio shows how far the model is from "
        "the machine."
    ]


def unmatched_sentences(found: Compare) -> list[str]:
    lacking = [f"{cell_id} has no usable run in {name}, so it is not compared." for name, cell_id in found.lacking]
    if found.left_out:
        lacking.append(f"Not in the history, because a layout has no usable run: {listed(found.left_out)}.")
    return lacking + [
        f"Only in {campaign.name}: {_cells(campaign, ids)}."
        for campaign, ids in ((found.first, found.only_first), (found.second, found.only_second)) if ids
    ]  # fmt: skip


def _cells(campaign: Campaign, ids: Sequence[str]) -> str:
    texts = [f"{cell_id} ({campaign.findings.cell(cell_id).text})" for cell_id in ids[:NAMED]]
    more = len(ids) - NAMED
    return "; ".join(texts) + (f"; and {numbers.plural(more, 'other cell')}" if more > 0 else "")


def matched_table(found: Compare) -> Table:
    """Returns the table of all layouts that both campaigns have."""
    unit = "s" if found.compared == "elapsed" else "µs" + PER[found.compared]
    times = 1.0 if found.compared == "elapsed" else 1e6
    headings = [Heading("layout", "prose"), Heading("verdict", "text"), Heading("change (joint 95 % CI)", "text"),
                Heading("cells", "text", "its id in both campaigns"),
                Heading(f"{found.first.name}, {unit}"), Heading(f"{found.second.name}, {unit}")]  # fmt: skip
    rows = [
        [
            found.first.findings.cell(one.first_id).text, _mark(one.ratio), numbers.signed_estimate(one.ratio),
            ", ".join(dict.fromkeys((one.first_id, one.second_id))), numbers.significant(one.first * times, 4),
            numbers.significant(one.second * times, 4),
        ]
        for one in found.matched
    ]  # fmt: skip
    return Table(headings, rows)


def _ladder(found: Compare) -> Ladder:
    """Returns a ladder of the matched layouts, the largest gain first. A ratio is a layout's time in the second
    campaign divided by its time in the first.
    """
    kinds: dict[str, Kind] = {"faster": "fastest", "slower": "slower"}
    rows = sorted(found.matched, key=lambda one: (_mark(one.ratio) != "faster", one.ratio.value))
    figures = [one.second for one in rows]
    rungs = [
        Rung(
            (found.first.findings.cell(one.first_id).text,), one.ratio if 0 < one.ratio.value < math.inf else None,
            numbers.seconds_like(one.second, figures),
            Mark(kinds.get(_mark(one.ratio), "not-judged"), _mark(one.ratio)), one.first_id,
        )
        for one in rows
    ]  # fmt: skip
    return Ladder("", f"time{PER[found.compared]} in {found.second.name}", 2, tuple(rungs), MOST, over=found.first.name)


def _mark(ratio: Estimate | None) -> str:
    low, high = (None, None) if ratio is None else (ratio.low, ratio.high)
    if low is None or high is None:
        return "not tested"
    return "can't be told apart" if low <= 1 <= high else "slower" if low > 1 else "faster"


# ---------------------------------------------------------------------------------------------------------------------
# What differs in how they were made
# ---------------------------------------------------------------------------------------------------------------------


def manifest_table(found: Compare, runs: Mapping[str, Sequence[Run]]) -> Table:
    """Returns the table of spec keys and of facts of host and server that differ between the campaigns. `runs` maps the
    name of each campaign to its runs.
    """
    names = found.latest, found.second.name
    headings = [Heading("what differs", "text"), *(Heading(name, "prose") for name in names)]
    asked = list(_spec_differences(found))
    made = environment_differences(found, (runs[names[0]], runs[names[1]]))
    known = {(key.removeprefix("spec: "), *change) for key, *change in asked}
    whole = [list(map(masked, row)) for row in (*asked, *(one for one in made if one not in known))]
    cut = [[text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..." for text in row] for row in whole]
    return Table(headings, cut)


def _spec_differences(found: Compare) -> Iterator[tuple[str, str, str]]:
    """Yields (key, first value, second value) for each key in which the two specs differ."""
    for line in differences(found.first.experiment.canonical, found.second.experiment.canonical):
        name, _, change = line.partition(": ")
        before, arrow, after = change.partition(" -> ")
        yield f"spec: {name}", before if arrow else "", after if arrow else change


def environment_differences(found: Compare, runs: tuple[Sequence[Run], Sequence[Run]]) -> list[tuple[str, str, str]]:
    """Returns (fact, first value, second value) for each fact that is the same in all of a layout's runs in one
    campaign, but differs between the campaigns. A simulation has no host and no devices: if only one campaign is
    measured, a fact counts only if both campaigns have it.
    """
    different: dict[tuple[str, str, str], None] = {}
    for one in found.matched:
        ids = (one.first_id, one.second_id)
        facts = [steady(run for run in of if run.cell_id == cell_id) for of, cell_id in zip(runs, ids, strict=True)]
        for path in {**facts[0], **facts[1]}:
            first, second = (str(of.get(path, "")) for of in facts)
            if first != second and (found.of_one_kind or (first and second)):
                different[".".join(path), first, second] = None
    return sorted(different)


def flat(values: Mapping[str, object], parents: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Fact]]:
    """Yields each value of nested tables with its path."""
    for name, value in values.items():
        path = (*parents, str(name))
        if isinstance(value, Mapping):
            yield from flat(value, path)
        elif isinstance(value, list | tuple):
            yield path, ", ".join(map(str, value))
        elif value is not None:
            yield path, value if isinstance(value, bool | int | float) else str(value)


def steady(runs: Iterable[Run]) -> dict[tuple[str, ...], Fact]:
    """Maps the path of each fact of machine and server to its value, if all of these runs have the same value. Facts of
    the moment, such as free memory, are left out, because nobody sets them up.
    """
    environments: list[Mapping[str, object]] = []  # thousands of runs share a few environments
    for run in runs:
        if run.measurement is not None and run.measurement.environment not in environments:
            environments.append(run.measurement.environment)
    first, *rest = map(dict, map(flat, environments)) if environments else [{}]
    lasting = {path: fact for path, fact in first.items() if not path[-1].endswith(_OF_THE_MOMENT)}
    return {path: fact for path, fact in lasting.items() if all(other.get(path) == fact for other in rest)}


def campaigns_paper(found: Sequence[Compare], differences: Sequence[Table], gated: str = "") -> Document:
    """Returns a short report that compares each other campaign with the first. `differences` has a table for each of
    them, on how it differs from the first.
    """
    first = found[0].first
    verdicts = [*filter(None, [gated]), *map(verdict_sentence, found)]
    differing = [one for one in found if one.of_one_kind and (one.differs or one.slower or one.faster)]
    is_doubtful = bool(differing) and not gated and not found[0].history
    notes: list[str] = []
    tables: list[Table] = []
    for one, different in zip(found, differences, strict=True):
        notes += [*provenance_sentences(one), *unmatched_sentences(one)]
        name = f"{one.second.name} against {first.name}"
        tables.append(matched_table(one).called(f"Matched layouts, {name}", ranks=_ranks(one)))
        between = f"{one.latest} and {one.second.name}"
        tables.append(different.called(f"What differs between {between}"))
        if not different.rows:
            notes.append(f"No recorded fact of spec, host or server differs between {between}.")
    every = [first, *(one.second for one in found)]
    kinds = " and ".join(dict.fromkeys(str(one.findings.provenance) for one in every))
    names = listed([one.name for one in (reversed(every) if found[0].history else every)])
    notes = [*dict.fromkeys(notes), _ASSUMPTION_OF_HISTORY if found[0].history else _ASSUMPTION]
    of = paper(f"{names} compared", kinds, " ".join(verdicts), notes, tables)
    drawn = tuple(on_one_scale([_ladder(found[0])])) if len(found) == 1 and len(found[0].matched) > 1 else ()
    return replace(of, ladders=drawn, doubt=_DOUBT * is_doubtful, next=_NEXT * is_doubtful)


def _ranks(found: Compare) -> dict[str, int]:
    """Maps columns to their ranks. Times are dropped first, because their ratio says nearly the same."""
    first_s, second_s = (heading.text for heading in matched_table(found).headings[-2:])
    return {first_s: 3, second_s: 3, "cells": 2, "verdict": 1}


# ---------------------------------------------------------------------------------------------------------------------
# Pairs of cells of one campaign
# ---------------------------------------------------------------------------------------------------------------------


def with_pairs(of: Document, findings: Findings, pairs: Sequence[Pair], factor: str) -> Document:
    """Returns the report `of` one pair, with a table before it of all pairs that differ only in this factor."""
    headings = [Heading("layout", "prose"), Heading("cells", "text"), Heading("change (joint 95 % CI)", "text"),
                Heading("verdict", "text")]  # fmt: skip
    rows = []
    for one in pairs:
        before, after = (findings.cell(name).levels for name in (one.before, one.after))
        rest = cell_text({name: level for name, level in before.items() if name != factor})
        layout = f"{rest}: {value_text(before[factor])} to {value_text(after[factor])}"
        rows.append([layout, f"{one.before}, {one.after}", numbers.signed_estimate(one.ratio), _pair_mark(one)])
    table = Table(headings, rows).called(f"Each pair by {factor} ({of.provenance})", ranks={"cells": 1})
    title = f"{findings.experiment}: {numbers.plural(len(pairs), 'pair')} by {factor}"
    of = replace(of, title=title, sections=[Section("pairs", "Pairs", [table]), *of.sections])
    if pairs[0].gate is not None:
        return of
    counts = listed([f"{number} {mark}" for mark, number in Counter(map(_pair_mark, pairs)).items()])
    ratios = [one.ratio.value for one in pairs if one.ratio is not None]
    ends = " to ".join(dict.fromkeys(map(numbers.change, (min(ratios), max(ratios))))) if ratios else "no ratio known"
    of_all = f"Of {len(pairs)} pairs by {factor_text(factor)}, {counts}: {ends}."
    return of.opened_by(f"{of_all} Shown in full: the pair with the largest ratio.")


def _pair_mark(one: Pair) -> str:
    marks = {Gate.SLOWER: "too slow", Gate.NOT_SLOWER: "passes", Gate.CANT_TELL: "can't tell"}
    return _mark(one.ratio) if one.gate is None else marks[one.gate]


def with_gate(of: Document, basis: Basis, plan: Plan, pairs: Sequence[Pair], shown: Pair, margin: float) -> Document:
    """Returns the report `of` the pair that is shown, with the gate's verdict on all pairs before it."""
    result = shown.gate or Gate.NOT_SLOWER
    many = f"{sum(one.gate is result for one in pairs)} of {len(pairs)} pairs"
    told = (f", for sure, in {many}", f"the runs of {many}") if len(pairs) > 1 else ()
    return of.opened_by(f"{gate_sentence(result, margin, *told)} {stalls_sentence(basis, plan, shown.after)}")
