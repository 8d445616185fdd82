"""Compares how time was spent in two cells, or at two levels of a factor. Pure.

between(findings, one, other)                       two cells
between_levels(findings, factor, level, baseline)   two levels, over the cells that agree in all other factors
legs(findings, factor)                              the steps along a factor, each with the wait that explains most

Each gives a `Waterfall`, whose steps add up to the difference of the two times exactly: waits (with resource and signal
separate, or joined as `by` says), CPU, idle and unaccounted time, and a step for the work if it differs. Seconds are
those of the mean connection, scaled to the mean time by which cells are compared.

The intervals of a waterfall's steps hold together at 95 % (Bonferroni over the steps that are not negligible). They are
based on the scatter of runs as independent samples (Welch 1947): an effect that two cells of a round share only widens
the intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from storagelab.findings.cell import CLASS_NAMES, Spent, SpentPart
from storagelab.findings.effects import key
from storagelab.findings.model import CellSummary, Estimate, Findings
from storagelab.findings.times import time_s
from storagelab.model.plan import Factor
from storagelab.model.values import JsonValue
from storagelab.model.waits import Category
from storagelab.spec.naming import in_order, is_numeric
from storagelab.stats.intervals import ALPHA, NONE, Change, change, estimate, leaves_out_zero, mean

NEGLIGIBLE = 0.005
"""A fraction of the longer time: smaller steps don't widen the intervals of the other steps."""
EXPLAINS = 0.25
"""A wait that explains a smaller fraction of a change is not named as its cause, because three other waits may explain
equal parts.
"""
MOST_OF_A_KIND = 0.9
"""A wait type that makes up this much of its kind's change is named itself."""
KINDS: dict[Category, tuple[str, Category]] = {
    **{category: (name, category) for category, name in CLASS_NAMES.items()},
    "allocation": ("page latches", "page-latch"), "page-latch": ("page latches", "page-latch"),
    "commit": ("log waits", "commit"), "log-buffer": ("log waits", "commit"),
}  # fmt: skip
"""Common names of kinds of waits -> the category of each."""


@dataclass(frozen=True)
class Thing:
    """The subject of a step. `part` is None if resource and signal are joined."""

    name: str
    analogue: str
    category: Category
    part: SpentPart | None


WORK = Thing("more or fewer rows", "", "other", None)
"""The step for the work of a run, if that differs. The other steps then compare times for the same work."""
QUEUE = Thing("queueing for a CPU", "", "cpu-queue", None)
By = Callable[[Spent | Thing], Thing]


def by_part(one: Spent | Thing) -> Thing:
    """Every wait type, with its resource and its signal part separate."""
    return Thing(one.name, one.analogue, one.category, one.part)


def by_type(one: Spent | Thing) -> Thing:
    """Every wait type, as in the nine columns."""
    return Thing(one.name, one.analogue, one.category, one.part if one.part in ("cpu", "idle", "unaccounted") else None)


def by_kind(one: Spent | Thing) -> Thing:
    """The sum of all waits of one kind."""
    if not is_wait(one.part):
        return by_type(one)
    name, category = KINDS[one.category]
    return Thing(name, "", category, None)


def by_cause(one: Spent | Thing) -> Thing:
    """Waits of one kind together, except that all time in which sessions queued for a CPU is one cause."""
    return QUEUE if one.part == "signal" or one.category == "cpu-queue" else by_kind(one)


def is_wait(part: SpentPart | None) -> bool:
    return part not in ("cpu", "idle", "unaccounted")


@dataclass(frozen=True)
class Step:
    """One thing on which time was spent, before and after, in seconds of the mean connection."""

    thing: Thing
    before_s: float
    after_s: float
    change: Estimate

    @property
    def sure(self) -> bool:
        """Whether the change is beyond its interval."""
        return leaves_out_zero(self.change)


@dataclass(frozen=True)
class Waterfall:
    """The steps from one time to another, the largest change first, and the `pairs` of cells that were averaged.

    `change` has its own 95 % interval. `differs`: whether the two times surely differ, over all pairs that could be
    compared.
    """

    before_s: float
    after_s: float
    change: Estimate
    steps: tuple[Step, ...]
    pairs: tuple[tuple[str, str], ...]
    differs: bool
    of: Literal["connection", "transaction"] = "connection"
    """Whether the two times are of a run or of a transaction."""

    def step(self, name: str, part: SpentPart | None = None) -> Step | None:
        return next((one for one in self.steps if one.thing.name == name and part in (None, one.thing.part)), None)


@dataclass(frozen=True)
class Leg:
    """One step along a factor: from `baseline` to `level`, and the wait that explains most of the change, if one
    does.
    """

    baseline: JsonValue
    level: JsonValue
    waterfall: Waterfall
    main: Step | None


# ---------------------------------------------------------------------------------------------------------------------
# Two cells, two levels
# ---------------------------------------------------------------------------------------------------------------------


def adds_up(findings: Findings) -> bool:
    """Whether waits add up to the figure by which cells are compared. They add up to the time of a run or of its mean
    transaction, and to a mean latency if the cells have a mean transaction, but never to a percentile.
    """
    by_mean = findings.compared == "latency-mean" and all(cell.each_s is not None for cell in findings.cells)
    return by_mean or findings.compared in ("elapsed", "time-per-row", "time-per-transaction")


def between(
    findings: Findings, one: str, other: str, *, by: By = by_part, ratio: Estimate | None = None
) -> Waterfall | None:
    """The waterfall from cell `one` to cell `other`; None without waits of both.

    `ratio` is the tested ratio of the two times. Without a given ratio, the findings' ratio is used if one of the two
    cells is the best; otherwise they count as equal.
    """
    known = (row.ratio for row in findings.comparisons if {row.cell_id, row.best_cell_id} == {one, other})
    found = ratio or next(known, Estimate(value=1.0))
    differs = found.low is not None and found.high is not None and not found.low <= 1 <= found.high
    return _waterfall([(findings.cell(one), findings.cell(other))], by, differs=differs)


def between_levels(
    findings: Findings, factor: str, level: JsonValue, baseline: JsonValue, *, by: By = by_part
) -> Waterfall | None:
    """The waterfall between two levels of a factor: the mean over all pairs of cells that agree in the other factors;
    None without such a pair.

    Whether they differ is tested over all pairs of levels of all factors, so one may pick a pair after seeing the data.
    """
    pairs = _matched(findings, factor, level, baseline)
    found = _waterfall(pairs, by, differs=False)
    if found is None:
        return None
    questions = sum(math.comb(len(one.levels), 2) for one in findings.factors)
    total = estimate(_whole_changes(pairs), ALPHA / max(1, questions))
    return replace(found, differs=leaves_out_zero(total))


def legs(findings: Findings, factor: str) -> tuple[Leg, ...]:
    """The steps along a factor at which time surely changes. Numeric levels: from the first to the fastest level, and
    from there to the last. Names: from the slowest to the fastest level.
    """
    found = next((one for one in findings.factors if one.name == factor), None)
    if found is None:
        return ()
    return tuple(leg for ends in _ends(findings, found) if (leg := leg_of(findings, factor, *ends)).waterfall.differs)


def leg_of(findings: Findings, factor: str, baseline: JsonValue, level: JsonValue) -> Leg:
    """The waterfall between two levels. Raises LookupError if no two cells with waits agree in the other factors."""
    waterfall, of_types = (between_levels(findings, factor, level, baseline, by=by) for by in (by_kind, by_type))
    if waterfall is None or of_types is None:
        raise LookupError(factor)
    return Leg(baseline, level, waterfall, _main(waterfall, of_types))


def _ends(findings: Findings, factor: Factor) -> Iterator[tuple[JsonValue, JsonValue]]:
    levels = [level for level in in_order(factor) if _cells_at(findings, factor.name, level)]
    pairs = [_matched(findings, factor.name, level, levels[0]) for level in levels]
    if len(levels) < 2 or not all(pairs):
        return
    # The time at a level divided by the time at the first level, per unit of work.
    times = [
        sum(time_s(other) / _work(other) / (time_s(one) / _work(one)) for one, other in of_level) / len(of_level)
        for of_level in pairs
    ]
    best, worst = times.index(min(times)), times.index(max(times))
    if not is_numeric(factor):
        yield levels[worst], levels[best]
        return
    if best > 0:
        yield levels[0], levels[best]
    if best < len(levels) - 1:
        yield levels[best], levels[-1]


def _main(waterfall: Waterfall, of_types: Waterfall) -> Step | None:
    """The wait that explains most of a change; a class of waits, unless one type makes up nearly all of its change."""
    total = waterfall.change.value
    along = [
        step for step in waterfall.steps if is_wait(step.thing.part) and step.thing != WORK and step.sure
        and step.change.value * total > 0 and abs(step.change.value) >= EXPLAINS * abs(total)
    ]  # fmt: skip
    if not along or not waterfall.differs:
        return None
    of_kind = along[0]
    for step in of_types.steps:
        same = is_wait(step.thing.part) and KINDS[step.thing.category][0] == of_kind.thing.name
        if same and step.change.value / of_kind.change.value >= MOST_OF_A_KIND:
            return step
    return of_kind


# ---------------------------------------------------------------------------------------------------------------------
# Sums
# ---------------------------------------------------------------------------------------------------------------------

_Cells = tuple[CellSummary, CellSummary]


def _matched(findings: Findings, factor: str, level: JsonValue, baseline: JsonValue) -> list[_Cells]:
    """(cell at the baseline, cell at the level), for all combinations of the other factors in which both cells have
    waits.
    """
    at = {key(cell.levels): cell for cell in findings.cells if cell.spent and cell.elapsed_s}
    ones = _cells_at(findings, factor, baseline)
    found = ((at.get(key(one.levels)), at.get(key({**one.levels, factor: level}))) for one in ones)
    return [(one, other) for one, other in found if one is not None and other is not None]


def _cells_at(findings: Findings, factor: str, level: JsonValue) -> list[CellSummary]:
    return [
        cell for cell in findings.cells
        if cell.spent and cell.elapsed_s
        and factor in cell.levels and key({"": cell.levels[factor]}) == key({"": level})
    ]  # fmt: skip


def _work(cell: CellSummary) -> float:
    return 1.0 if cell.each_s is not None else cell.work or 1.0


def _waterfall(pairs: Sequence[_Cells], by: By, *, differs: bool) -> Waterfall | None:
    if not pairs or not all(cell.spent and cell.elapsed_s for pair in pairs for cell in pair):
        return None
    before_s, after_s = (sum(time_s(cell) for cell in side) / len(pairs) for side in zip(*pairs, strict=True))
    changes = _changes(pairs, by, [_work(other) / _work(one) for one, other in pairs])
    means = {thing: mean(rows) for thing, rows in changes.items()}
    least_s = NEGLIGIBLE * max(before_s, after_s)
    family = sum(abs(after - before) >= least_s for before, after in means.values())
    tested = all(one.stretch == other.stretch for one, other in pairs)
    alpha = ALPHA / max(1, family) if tested else 0.0
    steps = [Step(thing, *means[thing], estimate(rows, alpha)) for thing, rows in changes.items()]
    steps.sort(key=lambda step: (-abs(step.change.value), step.thing.name, step.thing.part or ""))
    each = any(cell.each_s is not None for pair in pairs for cell in pair)
    return Waterfall(
        before_s, after_s, steps=tuple(steps), change=estimate(_whole_changes(pairs), ALPHA if tested else 0.0),
        pairs=tuple((one.cell_id, other.cell_id) for one, other in pairs), differs=differs and tested,
        of="transaction" if each else "connection",
    )  # fmt: skip


def _changes(pairs: Sequence[_Cells], by: By, more: Sequence[float]) -> dict[Thing, list[Change]]:
    """The changes of each thing, one for each pair, and the change of the work itself. The first cell's seconds are
    multiplied by `more`: the second cell's work divided by the first cell's work.
    """
    things: dict[Thing, list[Change]] = {}
    if any(times != 1.0 for times in more):
        things[WORK] = [Change(time_s(one), times * time_s(one)) for (one, _), times in zip(pairs, more, strict=True)]
    for number, ((one, other), times) in enumerate(zip(pairs, more, strict=True)):
        befores, afters = _grouped(one, by, times), _grouped(other, by, 1.0)
        for thing in {**befores, **afters}:
            # A wait that a run lacks took 0 s of its time.
            of_both = (
                of.get(thing, (0.0,) * len(cell.spent[0].by_run_s)) for cell, of in ((one, befores), (other, afters))
            )
            things.setdefault(thing, [NONE] * len(pairs))[number] = change(*of_both)
    return things


def _grouped(cell: CellSummary, by: By, times: float) -> dict[Thing, tuple[float, ...]]:
    """Each thing's seconds by run, scaled to the mean time of the cell's table."""
    arithmetic_s = sum(one.mean_s for one in cell.spent)
    scale = times * time_s(cell) / arithmetic_s if arithmetic_s else 0.0
    groups: dict[Thing, list[float]] = {}
    for one in cell.spent:
        thing = by(one)
        sums = groups.setdefault(thing, [0.0] * len(one.by_run_s))
        for number, seconds in enumerate(one.by_run_s):
            sums[number] += scale * seconds
    return {thing: tuple(values) for thing, values in groups.items()}


def _whole_changes(pairs: Sequence[_Cells]) -> list[Change]:
    """The change of the whole time of each pair."""
    (rows,) = _changes(pairs, lambda _: Thing("", "", "other", None), [1.0] * len(pairs)).values()
    return rows
