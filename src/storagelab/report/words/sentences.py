"""The findings in full, sentence by sentence. Pure.

A sentence says "can't be told apart" and never "equal": runs can show a difference, never its absence. Text is plain,
with ordinary spaces; `keep_together` puts no-break spaces between numbers and units where lines are wrapped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from storagelab.findings.latencies import Disagreement, disagreement
from storagelab.findings.model import Comparison, Effect, Findings
from storagelab.report.words import compared
from storagelab.report.words.answer import About
from storagelab.report.words.caution_texts import caution_sentence, caution_sentences
from storagelab.report.words.found import found_sentences
from storagelab.report.words.headline import (
    SLOWER_SHOWN,
    cell_name,
    change_text,
    did,
    per_row,
    sentence_start,
    slower_cells,
    untested_text,
    verdict_sentence,
    was,
)
from storagelab.report.words.hosts import host_sentences
from storagelab.report.words.loads import load_sentences
from storagelab.report.words.waiting import wait_change_sentences, wait_names_sentence, wait_trend_sentences
from storagelab.report.words.what_if import what_if_sentences
from storagelab.words.names import cell_text, noun, phrase
from storagelab.words.numbers import change, rows_per_s_estimate, slower_by

_EFFECTS_SHOWN = 8
_DISAGREEMENTS_SHOWN = 2
_LEAST = 1.0011
"""A bound closer to 1 is reported as this, which is true and gives a figure: "at most 0.1 % more time"."""


def sentences(findings: Findings) -> list[str]:
    """The findings in full, most important first; [] while nothing is measured."""
    if not any(cell.elapsed_s is not None for cell in findings.cells):
        return []
    said: set[str] = set()
    return [
        *_on_the_order(findings),
        *_on_what_is_compared(findings),
        *what_if_sentences(findings),
        *(_on_loads(findings) if findings.loads else [*_on_the_best(findings), *_on_the_slower(findings)]),
        *_on_latency(findings),
        *found_sentences(findings, "use"),
        *host_sentences(findings),
        *_on_effects(findings),
        *found_sentences(findings, "why"),
        *wait_change_sentences(findings, said),
        *wait_names_sentence(findings),
        *wait_trend_sentences(findings, said),
        *_on_provenance(findings),
    ]


def evidence(findings: Findings) -> dict[About, list[str]]:
    """What lies one step below the lines of the answer, by what they are about; each list with the largest first.

    What a line says already is not said again.
    """
    if not any(cell.elapsed_s is not None for cell in findings.cells):
        return {}
    said: set[str] = set()
    found: dict[About, list[str]] = {
        "use": [
            verdict_sentence(findings),
            *_on_what_is_compared(findings),
            *(
                _on_loads(findings)
                if findings.loads
                else [*_on_the_best(findings, brief=True), *_on_the_slower(findings)]
            ),
            *_on_latency(findings),
            *found_sentences(findings, "use"),
            *host_sentences(findings),
        ],
        "gains": [*_on_effects(findings), *what_if_sentences(findings)],
        "why": [
            *found_sentences(findings, "why"),
            *wait_change_sentences(findings, said),
            *wait_names_sentence(findings),
            *wait_trend_sentences(findings, said),
        ],
        "caution": [text for _, text in caution_sentences(findings)],
    }
    return {about: texts for about, texts in found.items() if texts}


def _on_the_order(findings: Findings) -> list[str]:
    """The caution on the order, which belongs beside the verdict that it affects."""
    if findings.verdict == "untested":
        return []  # the headline says it
    return [
        caution_sentence(caution, findings)
        for caution in findings.cautions
        if caution.kind == "order" and caution.severity == "caution"
    ]


def _on_what_is_compared(findings: Findings) -> list[str]:
    if not per_row(findings) or len(findings.cells) < 2:
        return []
    if compared.set_time(findings):
        per = compared.per(findings)
        return [f"All runs last as long as the spec says, so they are compared by their time{per}."]
    which = noun(findings.factors, 2).capitalize()
    verb = f"{'insert' if findings.unit == 'rows' else 'do'} different numbers of {findings.unit}"
    return [f"{which} {verb}, so they are compared by their time{compared.per(findings)}."]


def _on_latency(findings: Findings) -> list[str]:
    """Where throughput and the 99th percentile of latency surely disagree about the fastest cell, under each load."""
    groups = [[findings.cell(cell_id) for cell_id in load.cells] for load in findings.loads] or [list(findings.cells)]
    found = [one for cells in groups if (one := disagreement(cells)) is not None]
    return [_disagreement(findings, one) for one in found[:_DISAGREEMENTS_SHOWN]]


def _disagreement(findings: Findings, found: Disagreement) -> str:
    fastest, lowest = (cell_text(findings.cell(cell_id).levels) for cell_id in (found.fastest, found.lowest))
    return (
        f"Throughput and latency disagree: {fastest} does the most transactions, but its {found.figure} latency is "
        f"{compared.milliseconds(found.fastest_s)}, and that of {lowest} only {compared.milliseconds(found.lowest_s)}."
    )


def _on_loads(findings: Findings) -> list[str]:
    ties = _what_may_hide(findings) if findings.verdict == "by-load" else []
    return [*load_sentences(findings, verdict_sentence), *ties]


def _on_the_best(findings: Findings, *, brief: bool = False) -> list[str]:
    best = next((findings.cell(cell_id) for cell_id in findings.best), None)
    if best is None or best.elapsed_s is None or best.rows_per_s is None:
        return []
    number = len(best.elapsed_s.points) - sum(cell_id == best.cell_id for cell_id, _ in findings.left_out)
    runs = f"{number} run{'s' if number > 1 else ''}"
    name, rate = cell_text(best.levels), rows_per_s_estimate(best.rows_per_s.mean, compared.rate_unit(findings))
    if findings.verdict in ("best-set", "indistinguishable"):
        time = "" if compared.set_time(findings) else f"{compared.figure_text(findings, best)}, or "
        lead = f"{name} {was(name)} nominally fastest: {time}{rate}, over {runs}."
        return [lead, *([] if brief else _what_taking_it_costs(findings)), *_what_may_hide(findings)]
    return [f"{sentence_start(best.levels)} {did(findings)} {rate}, over {runs}."]


def _what_taking_it_costs(findings: Findings) -> list[str]:
    """How much slower the layout that looks best may be than the truly fastest one."""
    most = findings.at_most_slower
    if most is None:
        return []
    room = f"{change(max(most, _LEAST), per=compared.per(findings))} {'as' if most >= 2 else 'than'}"
    return [f"It takes at most {room} the truly fastest {noun(findings.factors)}, whichever that is (95 %)."]


def _what_may_hide(findings: Findings) -> list[str]:
    """The largest difference that may remain undetected among cells that are not told apart."""
    tied = [row for row in findings.comparisons if row.p_value is not None and not row.distinguishable]
    highs = [(comparison.ratio.high, comparison) for comparison in tied if comparison.ratio.high is not None]
    if not highs:
        return []
    high, comparison = max(highs, key=lambda pair: pair[0])
    per = compared.per(findings)
    room = f"more than 10 times as long{per}" if high > 10 else f"up to {change(max(high, _LEAST), per=per)}"
    than = "as" if high >= 2 else "than"
    them = "That does not make them" if not findings.loads else "Layouts that are not told apart need not be"
    more = "repetitions" if findings.fleet is None else "hosts"
    return [
        f"{them} equal: {cell_name(findings, comparison.cell_id)} may take {room} {than} "
        f"{cell_name(findings, comparison.best_cell_id)} (upper end of the joint 95 % CI). More {more} narrow this."
    ]


def _on_the_slower(findings: Findings) -> list[str]:
    slower = slower_cells(findings)
    already_said = 1 if findings.verdict in ("winner", "best-set") else 0
    if len(slower) <= already_said:
        return []
    of_best: dict[str, list[Comparison]] = {}
    for item in slower:
        of_best.setdefault(item.best_cell_id, []).append(item)
    return [_slower_than(findings, best, those) for best, those in of_best.items()]


def _slower_than(findings: Findings, best: str, slower: Sequence[Comparison]) -> str:
    shown = slower if len(slower) <= SLOWER_SHOWN + 1 else [*slower[:SLOWER_SHOWN], slower[-1]]
    parts = [f"{cell_name(findings, item.cell_id)} by {slower_by(item.ratio)}" for item in shown]
    if hidden := len(slower) - len(shown):
        parts.insert(-1, "1 other in between" if hidden == 1 else f"{hidden} others in between")
    return f"Slower than {cell_name(findings, best)}: {'; '.join(parts)}."


def _on_effects(findings: Findings) -> list[str]:
    """One sentence per factor, the largest effect first. The effects of a single factor would repeat the comparisons,
    unless it is a load."""
    if (len(findings.factors) < 2 and not findings.loads) or findings.verdict in ("too-few-runs", "untested"):
        return []
    found = []
    for factor in findings.factors:
        effects = [effect for effect in findings.effects if effect.factor == factor.name and not effect.at]
        if effects:
            size = max(abs(math.log(effect.ratio.value)) for effect in effects)
            found.append((size, _effect_sentence(findings, factor.name, effects)))
    return [sentence for _, sentence in sorted(found, key=lambda pair: -pair[0])]


def _effect_sentence(findings: Findings, name: str, effects: Sequence[Effect]) -> str:
    baseline = phrase(name, [effects[0].baseline])
    told = [effect for effect in effects if effect.distinguishable]
    untold = [effect for effect in effects if effect.tested and not effect.distinguishable]
    parts = [f"{phrase(name, [effect.level])} took {change_text(findings, effect.ratio)}" for effect in told]
    if untold:
        verb = "can't be told apart from it"
        parts.extend(
            f"{phrase(name, [effect.level])} {verb}, {change_text(findings, effect.ratio)}" for effect in untold
        )
    parts.extend(
        f"{phrase(name, [effect.level])} took {untested_text(findings, effect)}"
        for effect in effects
        if not effect.tested
    )
    if len(parts) > _EFFECTS_SHOWN:
        parts = list(_many_effects(findings, name, effects))
    return f"Compared with {baseline}, all else the same: {'; '.join(parts)}."


def _many_effects(findings: Findings, name: str, effects: Sequence[Effect]) -> Iterator[str]:
    """The extremes of very many levels: of those that take less time, and of those that take more."""
    untold = sum(effect.tested and not effect.distinguishable for effect in effects)
    judged = [effect for effect in effects if effect.distinguishable or not effect.tested]
    for way, those in (
        ("less", [effect for effect in judged if effect.ratio.value < 1]),
        ("more", [effect for effect in judged if effect.ratio.value >= 1]),
    ):
        most, least = (
            pick(those, key=lambda effect: abs(math.log(effect.ratio.value)), default=None) for pick in (max, min)
        )
        if most is None or least is None:
            continue
        said = [f"{_effect_change(findings, effect)} with {phrase(name, [effect.level])}" for effect in (least, most)]
        of_all = f"{len(those)} of the {len(effects)}" if len(those) < len(effects) else f"all {len(effects)}"
        ends = f"{way} time, from {said[0]} to {said[1]}" if len(those) > 1 else said[0]
        yield f"{of_all} others took {ends}"
    if untold:
        yield f"{untold} can't be told apart from it"


def _effect_change(findings: Findings, effect: Effect) -> str:
    return change_text(findings, effect.ratio) if effect.tested else untested_text(findings, effect)


def _on_provenance(findings: Findings) -> list[str]:
    if findings.provenance == "simulated":
        return ["Every figure here comes from the simulator; none was measured on a drive."]
    return []
