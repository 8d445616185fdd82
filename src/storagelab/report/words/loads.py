"""Verdicts in words if the load or another condition varies: which layout is fastest under each, never which load.
Pure.

`say` words the verdict of an experiment. A load's own verdict reads like that of an experiment with its cells alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from storagelab.findings.model import CellSummary, Comparison, Findings, LoadVerdict
from storagelab.model.plan import Factor
from storagelab.model.values import JsonValue
from storagelab.report.words import compared
from storagelab.spec.factors import is_load
from storagelab.words.names import are_a_product, cell_text, group_text, is_plural, listed, noun, phrase
from storagelab.words.numbers import change_estimate

LOADS_SHOWN = 5
_JUDGED = ("winner", "best-set", "indistinguishable")
Say = Callable[[Findings], str]


def of_load(findings: Findings, load: LoadVerdict) -> Findings:
    """The findings of one load alone. All of its cells share the load's levels, which are not named."""
    inside = {*load.cells}
    cells = [
        cell.model_copy(update={"levels": _layout(cell, load)}) for cell in findings.cells if cell.cell_id in inside
    ]
    return findings.model_copy(
        update={
            "factors": tuple(factor for factor in findings.factors if factor.name not in load.load),
            "cells": tuple(cells),
            "comparisons": tuple(row for row in findings.comparisons if row.cell_id in inside),
            "verdict": load.verdict, "best": load.best, "tied": load.tied, "fastest": load.fastest,
            "worst": load.worst, "loads": (), "not_compared": load.not_compared, "at_most_slower": load.at_most_slower,
        }
    )  # fmt: skip


def _layout(cell: CellSummary, load: LoadVerdict) -> dict[str, JsonValue]:
    return {name: value for name, value in cell.levels.items() if name not in load.load}


def lower_first(text: str) -> str:
    """A sentence worded to follow others: names of levels keep their capitals."""
    known = ("No", "Not", "None", "Fastest", "The", "Nothing", "One", "With", "Whatever", "As", "Under")
    return text[0].lower() + text[1:] if text.split(" ")[0] in known else text


def load_text(load: Mapping[str, JsonValue]) -> str:
    """ "16 connections and read fraction = 0.5"."""
    return listed([phrase(name, [value]) for name, value in load.items()])


# ---------------------------------------------------------------------------------------------------------------------
# The headline
# ---------------------------------------------------------------------------------------------------------------------


def by_load(findings: Findings, say: Say) -> str:
    """One sentence if the same layout will do under every load, else one per load."""
    judged = [load for load in findings.loads if load.verdict in _JUDGED]
    without = sum(load.verdict == "too-few-runs" for load in findings.loads)
    missing = (
        f" {without} more {load_noun(findings, without)} {'have' if without > 1 else 'has'} too few runs for a verdict."
        if without
        else ""
    )
    return _verdict_of(findings, judged, say) + missing


def says_each(findings: Findings) -> bool:
    """Whether the headline gives every load's verdict."""
    judged = [load for load in findings.loads if load.verdict in _JUDGED]
    return not _common(findings, judged)


def _verdict_of(findings: Findings, judged: Sequence[LoadVerdict], say: Say) -> str:
    common = _common(findings, judged)
    if len(judged) > 1 and all(load.verdict == "indistinguishable" for load in judged):
        layouts = noun(_choices(findings), 2)
        return f"Under {_each(findings, judged, 'neither', 'none')} can {layouts} be told apart."
    if not common:
        every = f"No {noun(_choices(findings))} is among the fastest under every {load_noun(findings)}. "
        start = every if len(judged) > 1 else ""
        return start + " ".join(_each_group(findings, judged, say))
    name = group_text(common, _choices(findings))
    under = f"under {_each(findings, judged, 'both', 'each')}"
    if all(load.verdict == "winner" for load in judged):
        return f"{name} {'were' if is_plural(name) else 'was'} fastest {under}{_leads(findings, judged)}."
    best = "fastest, or not told apart from the fastest"
    if are_a_product(common):
        will_do = f"{name} will do {under}: {best}"
    else:
        number = len({json.dumps(_layout(cell, judged[0])) for cell in findings.cells})
        some = f"{len(common)} of {number} {noun(_choices(findings), 2)} will do {under}"
        will_do = f"{some}, {cell_text(common[0])} among them: {best}"
    return f"As far as these runs tell, {will_do}{_stake(findings, judged)}."


def _each(findings: Findings, judged: Sequence[LoadVerdict], two: str, many: str) -> str:
    """ "both loads", "neither load", "each of the 3 conditions"."""
    if len(judged) == 2:
        return f"{two} {load_noun(findings, 1 if two == 'neither' else 2)}"
    return f"{many} of the {len(judged)} {load_noun(findings, len(judged))}"


def load_noun(findings: Findings, count: int = 1) -> str:
    """The word for what layouts run under: "load", or "condition" if more than the workload varies."""
    borne = [factor for factor in findings.factors if findings.loads and factor.name in findings.loads[0].load]
    return ("load" if all(map(is_load, borne)) else "condition") + "s" * (count != 1)


def _choices(findings: Findings) -> list[Factor]:
    loads = findings.loads[0].load if findings.loads else {}
    return [factor for factor in findings.factors if factor.name not in loads]


def _common(findings: Findings, judged: Sequence[LoadVerdict]) -> list[dict[str, JsonValue]]:
    """The layouts that are among the fastest under every load; none for a single one."""
    sets = [
        {json.dumps(layout): layout for layout in (_layout(findings.cell(cell_id), load) for cell_id in load.best)}
        for load in judged
    ]
    if len(sets) < 2:
        return []
    return [layout for key, layout in sets[0].items() if all(key in other for other in sets)]


def _leads(findings: Findings, loads: Sequence[LoadVerdict]) -> str:
    """The fastest layout's lead over the slowest told apart from it, under the loads with the smallest and largest lead."""
    found = [(last, load) for load in loads if (last := _slowest_told(findings, load)) is not None]
    if not found:
        return ""
    least, most = (pick(found, key=lambda one: one[0].ratio.value) for pick in (max, min))
    rivals = {cell_text(_layout(findings.cell(row.cell_id), load)) for row, load in found}
    rival = rivals.pop() if len(rivals) == 1 else "the slowest"
    parts = [
        f"{change_estimate(row.ratio.inverse, compared.per(findings))}{than} with {load_text(load.load)}"
        for (row, load), than in ((most, f" than {rival}"), (least, ""))
    ]
    return f": {parts[0] if most is least else ', and '.join(parts)}"


def _stake(findings: Findings, loads: Sequence[LoadVerdict]) -> str:
    """The slowest layout that differs from the fastest for sure, and its load."""
    told = [row for load in loads if (row := _slowest_told(findings, load)) is not None]
    if not told:
        return ""
    most = max(told, key=lambda row: row.ratio.value)
    worst = cell_text(findings.cell(most.cell_id).levels)
    return f"; the slowest choice, {worst}, took {change_estimate(most.ratio, compared.per(findings))}"


def _slowest_told(findings: Findings, load: LoadVerdict) -> Comparison | None:
    told = [row for row in findings.comparisons if row.distinguishable and row.cell_id in load.cells]
    return max(told, key=lambda row: row.ratio.value, default=None)


def _each_group(findings: Findings, judged: Sequence[LoadVerdict], say: Say) -> list[str]:
    """A sentence for each set of layouts that is best somewhere, with all the loads under which it is."""
    groups: dict[str, list[LoadVerdict]] = {}
    for load in judged:
        layouts = sorted(json.dumps(_layout(findings.cell(cell_id), load)) for cell_id in load.best)
        groups.setdefault(f"{load.verdict} {layouts}", []).append(load)
    said = [_group(findings, loads, say) for loads in list(groups.values())[:LOADS_SHOWN]]
    left = len(judged) - sum(len(loads) for loads in list(groups.values())[:LOADS_SHOWN])
    return [*said, _see_table(findings, left)] if left else said


def _group(findings: Findings, loads: Sequence[LoadVerdict], say: Say) -> str:
    if len(loads) == 1:
        return _each_load(findings, loads, say)[0]
    where = group_text([load.load for load in loads], [f for f in findings.factors if f.name in loads[0].load])
    best = [_layout(findings.cell(cell_id), loads[0]) for cell_id in loads[0].best]
    name = group_text(best, _choices(findings))
    if loads[0].verdict == "indistinguishable":
        return f"With {where}, no {noun(_choices(findings))} can be told apart from the fastest."
    if loads[0].verdict == "winner":
        return f"With {where}, {name} {'were' if is_plural(name) else 'was'} fastest{_leads(findings, loads)}."
    return f"With {where}, {name} can't be told apart, and all others are slower{_stake(findings, loads)}."


def _see_table(findings: Findings, left: int) -> str:
    return f"For the other {left} {load_noun(findings, left)} see the table."


def _each_load(findings: Findings, judged: Sequence[LoadVerdict], say: Say) -> list[str]:
    said = [
        f"With {load_text(load.load)}, {lower_first(say(of_load(findings, load)))}" for load in judged[:LOADS_SHOWN]
    ]
    left = len(judged) - len(said)
    return [*said, _see_table(findings, left)] if left else said


def one_layout(findings: Findings) -> str:
    """What each load took, if only loads vary."""
    ends = [findings.cell(cell_id) for cell_id in dict.fromkeys((findings.fastest, findings.worst)) if cell_id]
    rows = findings.unit == "rows" and not compared.of_raw_io(findings)
    verb = "took" if not compared.by_rate(findings) else "inserted" if rows else "did"
    parts = [f"{_figure(findings, cell)} with {cell_text(cell.levels)}" for cell in ends]
    number = len(findings.loads)
    return (
        f"One layout was run under {number} {load_noun(findings, number)}, so there is none to choose: it {verb} "
        f"{' to '.join(parts)}."
        if parts else "No run has given a time yet, so nothing can be said."
    )  # fmt: skip


def _figure(findings: Findings, cell: CellSummary) -> str:
    return compared.judged_text(findings, cell)


# ---------------------------------------------------------------------------------------------------------------------
# What follows
# ---------------------------------------------------------------------------------------------------------------------


def load_sentences(findings: Findings, say: Say) -> list[str]:
    """How layouts are compared, and each load's verdict if the headline gives none."""
    if findings.verdict != "by-load":
        return []
    which = noun(_choices(findings), 2).capitalize()
    load = load_noun(findings)
    how = (
        f"{which} are compared with the fastest under the same {load}; the effects of factors say what a {load} costs."
    )
    judged = [load for load in findings.loads if load.verdict in _JUDGED]
    return [how] if says_each(findings) else [how, *_each_load(findings, judged, say)]
