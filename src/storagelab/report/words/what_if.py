"""Says what the best level depends on, which effects change, and whether the drives' history may explain it. Pure.

Every sentence comes from `Findings.dependences` or a kind of finding; the largest come first.
"""

from __future__ import annotations

import math

from storagelab.findings.model import Dependence, EffectChange, Estimate, Findings, LevelCost
from storagelab.report.words import compared
from storagelab.report.words.caution_texts import found_sentences
from storagelab.words.names import factor_noun, is_counted, is_number, listed, phrase, value_text
from storagelab.words.numbers import change_estimate, differs_by

SENTENCES_MAX = 3


def what_if_sentences(findings: Findings) -> list[str]:
    """At most three: dependences and changes by their size, and the drives' history; [] if the runs show none."""
    past = found_sentences(findings, "gains")
    if findings.verdict == "too-few-runs":
        return past
    sized: list[tuple[float, str]] = []
    for found in findings.dependences:
        if found.differs and not _is_the_verdict(findings, found):
            sized.append((_size(found.cost.ratio) if found.cost else 0.0, _depends(findings, found)))
        if found.change is not None:
            sized.append((_size(found.change.difference), _changes(findings, found, found.change)))
    sized.sort(key=lambda item: -item[0])
    sentences = [sentence for _, sentence in sized[: SENTENCES_MAX - len(past)]]
    if len(sentences) + len(past) < SENTENCES_MAX:
        sentences += _independent(findings)
    return [*sentences, *past]


def _is_the_verdict(findings: Findings, found: Dependence) -> bool:
    """Whether the verdicts of the loads already say it: one factor is the load, and the other is the only choice."""
    return findings.verdict == "by-load" and not found.averaged and found.within in findings.loads[0].load


def _size(ratio: Estimate) -> float:
    return abs(math.log(ratio.value))


# ---------------------------------------------------------------------------------------------------------------------
# The best level
# ---------------------------------------------------------------------------------------------------------------------


def _depends(findings: Findings, found: Dependence) -> str:
    """With the choice that it costs most to take from elsewhere; a table has the best levels."""
    cost = _cost(findings, found, found.cost) if found.cost is not None else ""
    return f"The best {factor_noun(found.factor)} depends on the {factor_noun(found.within)}{_averaged(found)}.{cost}"


def _cost(findings: Findings, found: Dependence, cost: LevelCost) -> str:
    takes = "take" if is_counted(found.factor) and cost.level != 1 else "takes"
    return (
        f" With {phrase(found.within, [cost.at])}, {phrase(found.factor, [cost.level])}, the fastest with "
        f"{phrase(found.within, [cost.taken_from])}, {takes} {change_estimate(cost.ratio, compared.per(findings))} "
        f"than {phrase(found.factor, [cost.best])}."
    )


def _averaged(found: Dependence) -> str:
    return f", averaged over {listed([factor_noun(name) for name in found.averaged])}" if found.averaged else ""


def _independent(findings: Findings) -> list[str]:
    """Says that one level will do everywhere, for the factor for which that holds against the most others."""
    of_factor: dict[str, list[Dependence]] = {}
    for found in findings.dependences:
        is_new = found.in_common and not _is_the_verdict(findings, found)
        if is_new and any(len(row.levels) < _levels(findings, found.factor) for row in found.best):
            of_factor.setdefault(found.factor, []).append(found)
    if not of_factor:
        return []
    factor, rows = max(of_factor.items(), key=lambda item: len(item[1]))
    common = [level for level in rows[0].in_common if all(repr(level) in map(repr, row.in_common) for row in rows)]
    if not common:
        return []
    verb = "follow" if all(is_number(row.at) for found in rows for row in found.best) else "depend on"
    others = " and ".join(f"the {factor_noun(found.within)}" for found in rows)
    loads = {name for load in findings.loads for name in load.load}
    # The best level under one load may not be the best over all loads.
    over_all = f"Over all {compared.load_noun(findings, 2)} together, whatever"
    whatever = over_all if all(loads & {*row.averaged} for row in rows) else "Whatever"
    return [
        f"{whatever} {others}, {phrase(factor, common)} can't be told apart from the fastest: as far as these runs "
        f"tell, the best {factor_noun(factor)} does not {verb} {'them' if len(rows) > 1 else 'it'}."
    ]


def _levels(findings: Findings, name: str) -> int:
    return next((len(factor.levels) for factor in findings.factors if factor.name == name), 0)


# ---------------------------------------------------------------------------------------------------------------------
# The effect
# ---------------------------------------------------------------------------------------------------------------------


def _changes(findings: Findings, found: Dependence, step: EffectChange) -> str:
    if is_number(step.baseline) and is_number(step.level):
        what = f"From {value_text(step.baseline)} to {phrase(found.factor, [step.level])}"
    else:
        what = f"With {phrase(found.factor, [step.level])} instead of {value_text(step.baseline)}"
    high, low = (change_estimate(ratio, compared.per(findings)) for ratio in (step.high, step.low))
    where = [phrase(found.within, [at]) for at in (step.high_at, step.low_at)]
    return (
        f"{what} a run takes {high} with {where[0]}, and {low} with {where[1]}{_averaged(found)}: the effect depends "
        f"on the {factor_noun(found.within)}, by {differs_by(step.difference)}."
    )
