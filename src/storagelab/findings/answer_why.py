"""Why a level of a factor is faster: the wait that changed most, in seconds per connection, all else averaged. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from storagelab.findings.answer_kinds import Cause
from storagelab.findings.effects import combinations, key
from storagelab.findings.model import CellSummary, Findings
from storagelab.findings.wait_classes import CLASS_NAMES
from storagelab.model.plan import Factor
from storagelab.model.values import JsonValue
from storagelab.model.waits import ON_CPU
from storagelab.spec.axis import axis_factor, in_order, is_numeric

LEAST_CHANGE = 0.02
"""Of a connection's time: a wait that changed by less explains nothing."""
PAGE_LATCHES = "page latches"
_LATCHES = ("page-latch", "allocation")

Seconds = dict[str, float]
_TOTAL = "the whole time"


def causes(findings: Findings, asked: Sequence[tuple[Factor, Sequence[JsonValue], JsonValue]]) -> Iterator[Cause]:
    """For each factor, its good levels and the level that they are compared with: what changed; nothing if little did.

    Along the factor with numbers by which reports are ordered, the times may turn. Then each side of the turn has its own.
    """
    axis = axis_factor(findings.factors)
    for factor, good, reference in asked:
        steps: list[tuple[Sequence[JsonValue], Sequence[JsonValue]]] = [([reference], good)]
        if axis is not None and factor.name == axis.name and is_numeric(factor):
            steps = list(_along(findings, factor))
        for before, after in steps:
            found = _cause(findings, factor, before, after)
            if found is not None:
                yield found


def _along(findings: Findings, factor: Factor) -> Iterator[tuple[Sequence[JsonValue], Sequence[JsonValue]]]:
    """From the first level to the fastest, and from there to the last."""
    total = {repr(level): _total(of[0]) for level in in_order(factor) if (of := _means(findings, factor, [[level]]))}
    levels = [level for level in in_order(factor) if repr(level) in total]
    if len(levels) < 2:
        return
    turn = min(levels, key=lambda level: total[repr(level)])
    ends = [level for place, level in enumerate(levels) if place in (0, len(levels) - 1) or level is turn]
    for before, after in pairwise(ends):
        yield [before], [after]


def _cause(findings: Findings, factor: Factor, before: Sequence[JsonValue], after: Sequence[JsonValue]) -> Cause | None:
    found = _means(findings, factor, [before, after])
    if not found:
        return None
    one, other = found
    of_one, of_other = _total(one), _total(other)
    way = math.copysign(1.0, of_other - of_one)
    # The change that goes with the time; if that hardly changed, the largest of all.
    steady = abs(of_other - of_one) < LEAST_CHANGE * of_one
    moved = {wait: other.get(wait, 0.0) - one.get(wait, 0.0) for wait in {**one, **other} if wait != _TOTAL}
    wait = max(sorted(moved), key=lambda name: abs(moved[name]) if steady else way * moved[name], default=None)
    if wait is None or abs(moved[wait]) < LEAST_CHANGE * of_one or (not steady and way * moved[wait] <= 0):
        return None
    return Cause(
        factor=factor.name, before=tuple(before), after=tuple(after), wait=wait, from_s=one.get(wait, 0.0),
        to_s=other.get(wait, 0.0), total_from_s=of_one, total_to_s=of_other,
    )  # fmt: skip


def _means(findings: Findings, factor: Factor, groups: Sequence[Sequence[JsonValue]]) -> list[Seconds]:
    """For each group of levels the seconds of a connection by wait, over the combinations of other factors that have all of
    the levels; [] without one."""
    at = {key(cell.levels): cell for cell in findings.cells if cell.available_s and cell.connections and cell.waits}
    levels = [level for group in groups for level in group]
    common = [
        others for others in combinations(findings.cells, factor)
        if all(key({**others, factor.name: level}) in at for level in levels)
    ]  # fmt: skip
    if not common:
        return []
    classes = bool(findings.wait_names)
    return [
        _mean([_seconds(at[key({**others, factor.name: level})], classes) for others in common for level in group])
        for group in groups
    ]


def _seconds(cell: CellSummary, classes: bool) -> Seconds:
    """Seconds of one connection, by wait; page latches of all kinds together, and `classes` of waits where engines differ."""
    found: Seconds = defaultdict(float)
    for row in cell.waits:
        name = row.wait_type
        if not row.is_wait:
            name = "CPU" if name == ON_CPU else name
        elif row.category in _LATCHES and name.startswith("PAGELATCH"):
            name = PAGE_LATCHES
        elif classes:
            name = CLASS_NAMES.get(row.category, name)
        found[name] += row.wait_s / cell.connections
    found[_TOTAL] = (cell.available_s or 0.0) / cell.connections
    return found


def _mean(found: Sequence[Seconds]) -> Seconds:
    names = {name for one in found for name in one}
    return {name: sum(one.get(name, 0.0) for one in found) / len(found) for name in names}


def _total(seconds: Seconds) -> float:
    return seconds[_TOTAL]
