"""Writes the evidence, which is all findings as sentences. Also writes the sentences that a brief adds to the answer.
Pure.

A sentence says "can't be told apart" and never "equal", because runs can show a difference but never its absence. Texts
have ordinary spaces. Where lines are wrapped, `keep_together` puts no-break spaces between numbers and units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from storagelab.findings.answer import answer
from storagelab.findings.answer_kinds import Answer, Choice
from storagelab.findings.kinds.ceiling import Ceiling
from storagelab.findings.kinds.race import RaceSummary
from storagelab.findings.model import CellSummary, Dependence, Effect, EffectChange, Estimate, Findings, LevelCost
from storagelab.findings.times import Disagreement, disagreement
from storagelab.report.words import compared
from storagelab.report.words.answer import CHOICES, LONGEST, Names, in_full, loads_text
from storagelab.report.words.caution_texts import found_sentences
from storagelab.report.words.compared import at_levels, change_text, effect_change, moves_throughput, told
from storagelab.report.words.hosts import host_sentences
from storagelab.report.words.ladder import comparison_of, in_blocks, in_order
from storagelab.report.words.waiting import wait_names_sentence, wait_trend_sentences
from storagelab.words import numbers
from storagelab.words.names import (
    capital,
    factor_noun,
    group_text,
    is_counted,
    is_number,
    level_alone,
    listed,
    noun,
    phrase,
    value_text,
)
from storagelab.words.numbers import change_estimate, differs_by, plural, rows_per_s_estimate

_EFFECTS_SHOWN, _EFFECTS_LARGEST = 8, 4
_DISAGREEMENTS_SHOWN = 2
_ADJUSTED_LEAST = 0.0005
"""The smallest adjustment of a mean that is reported, as a fraction of the mean."""


def sentences(findings: Findings, found: Answer | None = None) -> list[str]:
    """Returns all evidence except the cautions. On each subject, the largest finding comes first. [] while nothing is
    measured.
    """
    if not any(cell.elapsed_s is not None for cell in findings.cells):
        return []
    named: set[str] = set()
    found = found or answer(findings)
    groups, causes = in_full(findings, found)
    return [
        *groups,
        *_not_compared(findings),
        *_on_what_is_compared(findings),
        *(_on_loads(findings) if findings.loads else _on_the_best(findings)),
        *_on_two(findings),
        *_on_adjusted_means(findings),
        *_on_latency(findings),
        *found_sentences(findings, "use"),
        *host_sentences(findings),
        *_on_effects(findings),
        *what_if_sentences(findings),
        *causes,
        *found_sentences(findings, "why"),
        *wait_names_sentence(findings),
        *wait_trend_sentences(findings, named),
    ]


def _not_compared(findings: Findings) -> list[str]:
    """Names the cells that can't be compared with the fastest, and says why."""
    left = [findings.cell(cell_id) for cell_id in findings.not_compared]
    reasons = {
        "no run with a time": [cell.levels for cell in left if cell.elapsed_s is None],
        "fewer than two rounds with the fastest": [cell.levels for cell in left if cell.elapsed_s is not None],
    }
    parts = [f"{group_text(cells, findings.factors)} ({why})" for why, cells in reasons.items() if cells]
    return [f"Not compared: {'; '.join(parts)}. Without them, no winner can be named."] if parts else []


def _on_what_is_compared(findings: Findings) -> list[str]:
    if not compared.by_rate(findings) or len(findings.cells) < 2:
        return []
    if compared.set_time(findings):
        return [f"The spec sets how long all runs last, so they are compared by their time{compared.per(findings)}."]
    which = noun(findings.factors, 2).capitalize()
    verb = f"{'insert' if findings.unit == 'rows' else 'do'} different numbers of {findings.unit}"
    return [f"{which} {verb}, so they are compared by their time{compared.per(findings)}."]


def _on_latency(findings: Findings) -> list[str]:
    """Names the loads under which the cell with the highest throughput surely is not the one with the lowest 99th
    percentile of latency.
    """
    groups = [[findings.cell(cell_id) for cell_id in load.cells] for load in findings.loads] or [list(findings.cells)]
    told_apart = {frozenset((row.cell_id, row.best_cell_id)) for row in findings.comparisons if row.distinguishable}
    found = [one for cells in groups if (one := disagreement(cells, told_apart)) is not None]
    return [_disagreement(findings, one) for one in found[:_DISAGREEMENTS_SHOWN]]


def _disagreement(findings: Findings, found: Disagreement) -> str:
    fastest, lowest = (findings.cell(cell_id).name for cell_id in (found.fastest, found.lowest))
    runs = plural(findings.cell(found.fastest).runs_ok + findings.cell(found.fastest).runs_unverified, "run")
    return (
        f"Throughput and latency disagree: {fastest} does the most {findings.unit}, but its p99 latency is "
        f"{compared.milliseconds(found.fastest_s)}, and that of {lowest} only {compared.milliseconds(found.lowest_s)}, "
        f"each from {runs}. One stalled run can determine a 99th percentile."
    )


def _on_loads(findings: Findings) -> list[str]:
    """Says how layouts are compared under several loads."""
    if findings.verdict != "by-load":
        return []
    layouts, load = noun(findings.layout_factors, 2).capitalize(), compared.load_noun(findings)
    costs = f"the effects of factors show what a {load} costs"
    return [f"{layouts} are compared with the fastest under the same {load}; {costs}."]


def _on_two(findings: Findings) -> Iterator[str]:
    """If there are only two layouts, compares the slower one with the other."""
    for row in findings.comparisons if len(findings.cells) == 2 else ():
        slower, best = (findings.cell(cell_id).name for cell_id in (row.cell_id, row.best_cell_id))
        change = change_text(findings, row.ratio)
        if row.distinguishable:
            yield f"{capital(slower)} took {change} against {best}."
        elif row.tested:
            yield f"{capital(slower)} and {best} can't be told apart: {change}."


def _on_the_best(findings: Findings) -> list[str]:
    """Gives the figures of the fastest layout."""
    best = next((findings.cell(cell_id) for cell_id in findings.best), None)
    if best is None or best.elapsed_s is None or best.work_per_s is None:
        return []
    compared_only = any(findings.cell(one).elapsed_s is not None for one in findings.not_compared)
    which = "Fastest" if findings.verdict == "winner" else f"Fastest mean{' of those compared' * compared_only}"
    within = " of its block (blocks are not compared)" if in_blocks(findings) else ""
    time = [] if compared.set_time(findings) else [numbers.seconds_estimate(best.elapsed_s.mean)]
    rate = rows_per_s_estimate(best.work_per_s.mean, compared.rate_unit(findings))
    start = f"{which}{within}: {best.name}, " if len(findings.cells) > 1 else "The layout: "
    number = len(best.elapsed_s.points) - sum(cell_id == best.cell_id for cell_id, _ in findings.left_out)
    return [f"{start}{', or '.join([*time, rate])}, over {plural(number, 'run')}."]


def _on_adjusted_means(findings: Findings) -> list[str]:
    """Says how means are adjusted, and gives the largest adjustment. [] if none is adjusted, or with several hosts."""
    by: dict[str, float] = {}
    for cell in [] if findings.fleet is not None else findings.cells:
        sample = compared.judged(findings, cell)
        runs = [] if sample is None else [one for one in sample.points if one.value > 0]
        logs = [math.log(one.value) for one in runs if (cell.cell_id, one.repetition) not in findings.left_out]
        if sample is not None and sample.adjusted is not None and logs:
            by[cell.name] = abs(math.log(sample.mean.value) - math.fsum(logs) / len(logs))
    name = max(by, key=by.__getitem__, default="")
    if not name or by[name] < _ADJUSTED_LEAST:
        return []
    return [
        "Means are adjusted for missed rounds and for the effect of the run before. The largest adjustment is "
        f"{numbers.percent(by[name])}, {name}."
    ]


def _on_effects(findings: Findings) -> list[str]:
    """Returns a sentence for each factor, the largest effect first. If there is only one factor and no load, there are
    no sentences, because they would repeat the comparisons.
    """
    if (len(findings.factors) < 2 and not findings.loads) or findings.verdict in ("too-few-runs", "untested"):
        return []
    found = []
    for factor in findings.factors:
        effects = [one for one in told(findings, findings.effects, at=False) if one.factor == factor.name]
        if effects:
            size = max(abs(math.log(effect.ratio.value)) for effect in effects)
            found.append((size, _effect_sentence(findings, factor.name, effects)))
    return [sentence for _, sentence in sorted(found, key=lambda pair: -pair[0])]


def _effect_sentence(findings: Findings, name: str, effects: Sequence[Effect]) -> str:
    """States the effects of a factor. If the factor has very many levels, only the largest effects are stated."""
    left = len(effects) - _EFFECTS_LARGEST if len(effects) > _EFFECTS_SHOWN else 0
    if left:
        effects = sorted(effects, key=lambda one: -abs(math.log(one.ratio.value)))[:_EFFECTS_LARGEST]
    baseline = phrase(name, [effects[0].baseline])
    ordered = sorted(effects, key=lambda one: (not one.distinguishable, not one.tested))
    parts = [*(_effect_text(findings, name, one) for one in ordered), *[f"{left} others differ less"] * bool(left)]
    return f"Compared with {baseline}, all else the same: {'; '.join(parts)}.{wider_text(findings, effects)}"


def wider_text(findings: Findings, effects: Sequence[Effect]) -> str:
    """Says why means over other factors have wider intervals than all effects at single levels. "" if none has."""
    for one in effects:
        at = [other.ratio.half_width or math.inf for other in at_levels(findings, one)]
        if not one.at and at and (one.ratio.half_width or 0.0) > max(at):
            return (
                " The interval of such a mean can be wider than those at single levels, because it includes how much "
                "whole rounds vary, which few rounds show only roughly."
            )
    return ""


def _effect_text(findings: Findings, name: str, effect: Effect) -> str:
    level, change = level_alone(name, effect.level), effect_change(findings, effect)
    if effect.tested and not effect.distinguishable and not effect.reverses:
        return f"{level} can't be told apart from it, {change}"
    return f"{level} {'did' if moves_throughput(findings, effect) else 'took'} {change}"


# --- best levels that depend on another factor, and effects that change -----------------------------------------------
SENTENCES_MAX = 3


def what_if_sentences(findings: Findings) -> list[str]:
    """Returns at most three sentences: on effects that depend on another factor, the largest first, and on the drives'
    history.
    """
    past = found_sentences(findings, "gains")
    if findings.verdict == "too-few-runs":
        return past
    sized: list[tuple[float, str]] = []
    for found in findings.dependences:
        if found.differs and not _is_the_verdict(findings, found):
            told = f"The best {factor_noun(found.factor)} depends on the {factor_noun(found.within)}{averaged(found)}."
            cost = "" if found.cost is None else _cost(findings, found, found.cost)
            sized.append((_size(found.cost.ratio) if found.cost else 0.0, told + cost))
        if found.change is not None and not moves_throughput(findings, found):
            sized.append((_size(found.change.difference), _changes(findings, found, found.change)))
    sized.sort(key=lambda item: -item[0])
    sentences = [sentence for _, sentence in sized[: SENTENCES_MAX - len(past)]]
    if len(sentences) + len(past) < SENTENCES_MAX and not RaceSummary.of(findings):
        sentences += _independent(findings)
    return [*sentences, *past]


def _is_the_verdict(findings: Findings, found: Dependence) -> bool:
    """Whether the verdicts under each load already say this. They do if `within` is a load and nothing is averaged."""
    return findings.verdict == "by-load" and not found.averaged and found.within in findings.loads[0].load


def _size(ratio: Estimate) -> float:
    return abs(math.log(ratio.value))


def _cost(findings: Findings, found: Dependence, cost: LevelCost) -> str:
    """States the cost of a level at `cost.at`, although it is the best level at `cost.taken_from`."""
    takes = "take" if is_counted(found.factor) and cost.level != 1 else "takes"
    return (
        f" With {phrase(found.within, [cost.at])}, {phrase(found.factor, [cost.level])}, the fastest with "
        f"{phrase(found.within, [cost.taken_from])}, {takes} {change_estimate(cost.ratio, compared.per(findings))} "
        f"than {phrase(found.factor, [cost.best])}."
    )


def averaged(found: Dependence) -> str:
    return f", averaged over {listed([factor_noun(name) for name in found.averaged])}" if found.averaged else ""


def _independent(findings: Findings) -> list[str]:
    """Says that some levels of a factor may be the best at all levels of other factors. The sentence is on the factor
    for which this holds with the most other factors.
    """
    of_factor: dict[str, list[Dependence]] = {}
    names = {factor.name: factor for factor in findings.factors}
    for found in findings.dependences:
        is_new = found.in_common and not _is_the_verdict(findings, found)
        if is_new and any(len(row.levels) < len(names[found.factor].levels) for row in found.best):
            of_factor.setdefault(found.factor, []).append(found)
    if not of_factor:
        return []
    factor, rows = max(of_factor.items(), key=lambda item: len(item[1]))
    common = [level for level in rows[0].in_common if all(repr(level) in map(repr, row.in_common) for row in rows)]
    if not common:
        return []
    order = [repr(level.value) for level in names[factor].levels]
    common.sort(key=lambda level: order.index(repr(level)))
    others = " and ".join(f"the {factor_noun(found.within)}" for found in rows)
    loads = {name for load in findings.loads for name in load.load}
    # The best level under one load may not be the best over all loads.
    over_all = f", over all {compared.load_noun(findings, 2)} together" * all(loads & {*row.averaged} for row in rows)
    mean = over_all or " on average" * any(row.averaged for row in rows)
    them = "them" if len(rows) > 1 else "it"
    return [
        f"{capital(Names(findings).levels(factor, common, full=True))} may be the fastest whatever "
        f"{others}{mean}: these runs don't show that the best {factor_noun(factor)} depends on {them}."
    ]


def _changes(findings: Findings, found: Dependence, step: EffectChange) -> str:
    if is_number(step.baseline) and is_number(step.level):
        what = f"From {value_text(step.baseline)} to {phrase(found.factor, [step.level])}"
    else:
        what = f"With {phrase(found.factor, [step.level])} instead of {value_text(step.baseline)}"
    high, low = (change_estimate(ratio, compared.per(findings)) for ratio in (step.high, step.low))
    where = [phrase(found.within, [at]) for at in (step.high_at, step.low_at)]
    return (
        f"{what}, a run takes {high} with {where[0]}, and {low} with {where[1]}{averaged(found)}. The two differ by "
        f"{differs_by(step.difference)}, so the effect depends on the {factor_noun(found.within)}."
    )


# --- for decision-makers ----------------------------------------------------------------------------------------------


def to_decide(findings: Findings, found: Answer) -> Iterator[str]:
    """Yields the sentences after the recommendation: the gain, the price, and what is unknown. If nothing is
    recommended, only the sentences on the ceiling remain.
    """
    used = [choice for choice in found.choices if choice.pick is not None and not found.no_verdict]
    told = [*Ceiling.sentences(findings)]
    for choice in used[:CHOICES]:
        start = f"With {loads_text(findings, choice)}: " if len(found.choices) > 1 else ""
        told += [capital(f"{start}{text}.") for text in (_gained(findings, choice), _priced(findings, choice)) if text]
    yield from told
    tied = [one for one in used if len(one.meant) > max(1, len(one.loads))]
    number = sum(len(one.loads) for one in tied)
    of = f" under {number} of {len(findings.loads)} {compared.load_noun(findings, 2)}"
    unknown = {
        f"which of these layouts is the fastest{of * (number < len(findings.loads))}": bool(tied),
        "prices (the spec has none)": all(cell.price_per_month is None for cell in findings.cells),
        "what real hardware does": findings.provenance == "simulated",
    }
    if used:
        left = "; ".join(what for what, is_so in unknown.items() if is_so)
        yield from ["All these intervals hold together (95 %)."] * ("CI" in "".join(told))
        yield from [f"Not known: {left}."] * bool(left)


def _gained(findings: Findings, choice: Choice) -> str:
    """Says how much more time than the fastest these layouts take: the first of the spec, the nearest that is surely
    slower, and the slowest. Over several loads, it gives only the range for the slowest.
    """
    judged = [load for load in findings.by_load if not choice.loads or load.load in choice.loads]
    rows = {row.cell_id: row for row in findings.comparisons if row.distinguishable}
    slowest = sorted((rows[load.worst] for load in judged if load.worst in rows), key=lambda row: row.ratio.value)
    if not slowest:
        return "by how much any other layout is slower is not known"
    if len(judged) > 1:
        ends = " to ".join(dict.fromkeys(numbers.ratio_text(row.ratio.value) for row in (slowest[0], slowest[-1])))
        which = [compared.slowest_text(findings, row.cell_id) for row in slowest]
        return f"{max(which, key=len)} takes {ends} times as long as the fastest"
    told = {judged[0].cells[0]: "the first of the spec", choice.next_slower: "the nearest that is surely slower"}
    last = compared.slowest_text(findings, slowest[0].cell_id)
    parts = [
        f"{_named(what, findings.cell(cell_id))} takes {change_text(findings, rows[cell_id].ratio)}"
        for cell_id, what in (told | {slowest[0].cell_id: last}).items() if cell_id in rows
    ]  # fmt: skip
    return f"against the fastest, {'; '.join(parts)}"


def _named(what: str, cell: CellSummary) -> str:
    """Returns `what` with the layout's name in brackets. A long name is left out, because the ladder has it."""
    return f"{what} ({cell.text})" if len(cell.text) <= LONGEST else what


def _priced(findings: Findings, choice: Choice) -> str:
    """Gives the price of the layout to use. Then it gives the fastest cheaper layout and the fastest dearer one, each
    with its price and its change of time.
    """
    pick = findings.cell(choice.pick.cell_id if choice.pick else choice.meant[0])
    load = findings.load_of(pick.cell_id)
    inside = [cell for cell in findings.cells if load is None or cell.cell_id in load.cells]
    priced = [(cell, cell.price_per_month) for cell in in_order(findings, inside) if cell.price_per_month is not None]
    price = pick.price_per_month
    if price is None:
        return "the price of the layout to use is not known" if priced else ""
    parts = [f"{_named('the layout to use', pick)} costs {numbers.price(price)} a month"]
    for what, sign in (("cheaper", 1), ("dearer", -1)):
        rival, cost = next(((cell, cost) for cell, cost in priced if sign * (price - cost) > 0), (None, 0.0))
        if rival is not None:
            named = _named(f"the fastest {what} one", rival)
            parts.append(f"{named} costs {numbers.price(cost)}{_than(findings, rival, pick)}")
        elif sign > 0:
            parts.append("none costs less")
    return "; ".join(parts)


def _than(findings: Findings, cell: CellSummary, other: CellSummary) -> str:
    """Says how much more time a cell takes than the other or, if they were not compared, than the fastest."""
    ids = {cell.cell_id, other.cell_id}
    both = [row for row in findings.comparisons if row.tested and {row.cell_id, row.best_cell_id} == ids]
    for row in both:
        return f" and takes {change_text(findings, row.ratio if row.cell_id == cell.cell_id else row.ratio.inverse)}"
    own = comparison_of(findings, cell.cell_id)
    return f" and takes {change_text(findings, own.ratio)} than the fastest" if own is not None and own.tested else ""
