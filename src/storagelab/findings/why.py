"""Compares how time was spent in two cells, or at two levels of a factor. Pure.

between(findings, one, other)                       two cells
between_levels(findings, factor, level, baseline)   two levels, over the cells that agree in all other factors
legs(findings, factor)                              the steps along a factor, each with the wait that explains most

Each function returns one or more `Waterfall`s. The steps of a waterfall add up exactly to the difference of the two
times. The steps are waits, CPU time, idle time, unaccounted time and, if the work differs, a step for the work. `by`
says which waits are joined into one step. Seconds are those of the mean connection, scaled to the mean time by which
cells are compared.

The intervals of a waterfall's steps hold together at 95 % (Bonferroni over the steps that are not negligible). They are
based on the scatter of runs as independent samples (Welch 1947). If two cells of a round share an effect, this only
widens the intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from storagelab.findings.cell import CLASS_NAMES, Spent, SpentPart
from storagelab.findings.effects import key, told_apart
from storagelab.findings.model import CellSummary, Estimate, Findings
from storagelab.findings.times import time_s
from storagelab.model.plan import Factor
from storagelab.model.values import JsonValue
from storagelab.model.waits import FOR_CLIENT, Category
from storagelab.spec.naming import in_order, is_numeric
from storagelab.stats import intervals
from storagelab.stats.intervals import ALPHA, NONE, Change, change, estimate, leaves_out_zero, mean

NEGLIGIBLE = 0.005
"""Steps smaller than this fraction of the longer time don't widen the intervals of the other steps."""
EXPLAINS = 0.25
"""A wait that explains less than this fraction of a change is not named as its cause, because several other waits may
each explain as much.
"""
MOST_OF_A_KIND = 0.9
"""If one wait type makes up at least this fraction of its kind's change, the report names the type instead of the
kind."""
KINDS: dict[Category, tuple[str, Category]] = {
    **{category: (name, category) for category, name in CLASS_NAMES.items()},
    "allocation": ("page latches", "page-latch"), "page-latch": ("page latches", "page-latch"),
    "commit": ("log waits", "commit"), "log-buffer": ("log waits", "commit"),
}  # fmt: skip
"""Maps each category of waits to the kind of waits that contains it: the kind's name and its category."""


@dataclass(frozen=True)
class Thing:
    """The subject of a step. `part` is None if the resource and the signal part of a wait are joined."""

    name: str
    analogue: str
    category: Category
    part: SpentPart | None


WORK = Thing("more or fewer rows", "", "other", None)
"""The step for the work of a run, if the two runs do different amounts. The other steps then compare times for the same
work."""
QUEUE = Thing("queueing for a CPU", "", "cpu-queue", None)
By = Callable[[Spent | Thing], Thing]


def by_part(one: Spent | Thing) -> Thing:
    """Gives each wait type two steps, one for its resource part and one for its signal part."""
    return Thing(one.name, one.analogue, one.category, one.part)


def by_type(one: Spent | Thing) -> Thing:
    """Gives each wait type one step, as in the table of waits with nine columns."""
    return Thing(one.name, one.analogue, one.category, one.part if one.part in ("cpu", "idle", "unaccounted") else None)


def by_kind(one: Spent | Thing) -> Thing:
    """Gives all waits of one kind one step."""
    if not is_wait(one.part):
        return by_type(one)
    name, category = KINDS[one.category]
    return Thing(name, "", category, None)


def by_cause(one: Spent | Thing) -> Thing:
    """Gives all waits of one kind one step. All time in which sessions queued for a CPU has a step of its own."""
    return QUEUE if one.part == "signal" or one.category == "cpu-queue" else by_kind(one)


def is_wait(part: SpentPart | None) -> bool:
    return part not in ("cpu", "idle", "unaccounted")


@dataclass(frozen=True)
class Step:
    """The time spent on one thing before and after the change, in seconds of the mean connection."""

    thing: Thing
    before_s: float
    after_s: float
    change: Estimate

    @property
    def sure(self) -> bool:
        """Whether the interval of the change leaves out zero."""
        return leaves_out_zero(self.change)


@dataclass(frozen=True)
class Waterfall:
    """The steps from one time to another, and the `pairs` of cells over which the means are taken. The step with the
    largest change comes first.

    `change` is the difference of the two times, with its own 95 % interval. `differs` says whether the two times
    surely differ, in a test that covers all pairs that could be compared.
    """

    before_s: float
    after_s: float
    change: Estimate
    steps: tuple[Step, ...]
    pairs: tuple[tuple[str, str], ...]
    differs: bool
    of: Literal["connection", "transaction"] = "connection"
    """Whether the two times are those of a run's mean connection or of its mean transaction."""

    def step(self, name: str, part: SpentPart | None = None) -> Step | None:
        return next((one for one in self.steps if one.thing.name == name and part in (None, one.thing.part)), None)


@dataclass(frozen=True)
class Leg:
    """One step along a factor, from `baseline` to `level`. `main` is the step of the wait that surely explains most of
    the change; None if no wait does. `largest` is the largest step in the direction of the change.
    """

    baseline: JsonValue
    level: JsonValue
    waterfall: Waterfall
    main: Step | None

    @property
    def largest(self) -> Step:
        along = self.waterfall.change.value
        return next(one for one in self.waterfall.steps if one.change.value * along > 0)


# ---------------------------------------------------------------------------------------------------------------------
# Two cells, two levels
# ---------------------------------------------------------------------------------------------------------------------


def adds_up(findings: Findings) -> bool:
    """Whether waits add up to the figure by which cells are compared. They add up to the time of a run or of its mean
    transaction. They add up to a mean latency if the cells have a mean transaction. They never add up to a percentile.
    """
    by_mean = findings.compared == "latency-mean" and all(cell.each_s is not None for cell in findings.cells)
    return by_mean or findings.compared in ("elapsed", "time-per-row", "time-per-transaction")


def between(
    findings: Findings, one: str, other: str, *, by: By = by_part, ratio: Estimate | None = None
) -> Waterfall | None:
    """The waterfall from cell `one` to cell `other`; None if one of them has no waits.

    `ratio` is the tested ratio of the two times. If it is not given, and one of the two cells is the best, the
    findings' ratio is used. Otherwise the two times count as equal.
    """
    known = (row.ratio for row in findings.comparisons if {row.cell_id, row.best_cell_id} == {one, other})
    found = ratio or next(known, Estimate(value=1.0))
    differs = found.low is not None and found.high is not None and not found.low <= 1 <= found.high
    return _waterfall([(findings.cell(one), findings.cell(other))], by, differs=differs)


def between_levels(
    findings: Findings, factor: str, level: JsonValue, baseline: JsonValue, *, by: By = by_part
) -> Waterfall | None:
    """The waterfall between two levels of a factor. It is the mean over all pairs of cells that agree in the other
    factors; None if there is no such pair.

    The two levels differ if the effects in the findings tell them apart.
    """
    differs = told_apart(findings.effects, factor, baseline, level)
    return _waterfall(_matched(findings, factor, level, baseline), by, differs=differs)


def legs(findings: Findings, factor: str) -> tuple[Leg, ...]:
    """The steps along a factor between levels that the effects tell apart. If the levels are numbers, the steps are
    from the first to the fastest level, and from the fastest to the last level. If the levels are names, the step is
    the largest.
    """
    found = next((one for one in findings.factors if one.name == factor), None)
    return () if found is None else tuple(leg_of(findings, factor, *ends) for ends in _ends(findings, found))


def leg_of(findings: Findings, factor: str, baseline: JsonValue, level: JsonValue) -> Leg:
    """The step between two levels. Raises LookupError if no two cells with waits agree in the other factors."""
    waterfall, of_types = (between_levels(findings, factor, level, baseline, by=by) for by in (by_kind, by_type))
    if waterfall is None or of_types is None:
        raise LookupError(factor)
    return Leg(baseline, level, waterfall, _main(waterfall, of_types))


def leg_at_ends(findings: Findings) -> tuple[Leg, str, dict[str, JsonValue]] | None:
    """The step from the slowest to the fastest cell of the load with the largest difference that is told apart, the
    factor that differs, and the levels of the load. None if there is no such load, or if several factors differ.
    """
    ends = [(load.worst, load.fastest) for load in findings.by_load]
    told = [row for row in findings.comparisons if row.distinguishable and (row.cell_id, row.best_cell_id) in ends]
    row = max(told, key=lambda row: row.ratio.value, default=None)
    if row is None:
        return None
    slow, fast = findings.cell(row.cell_id), findings.cell(row.best_cell_id)
    waterfall, of_types = (between(findings, slow.cell_id, fast.cell_id, by=by) for by in (by_kind, by_type))
    differ = [name for name, level in slow.levels.items() if repr(level) != repr(fast.levels.get(name))]
    if waterfall is None or of_types is None or len(differ) != 1:
        return None
    load = findings.load_of(slow.cell_id)
    leg = Leg(slow.levels[differ[0]], fast.levels[differ[0]], waterfall, _main(waterfall, of_types))
    return leg, differ[0], {} if load is None else load.load


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
    time = dict(zip(map(repr, levels), times, strict=True))

    def told(one: JsonValue, other: JsonValue) -> bool:
        return told_apart(findings.effects, factor.name, one, other)

    if not is_numeric(factor):
        apart = [(one, other) for one, other in permutations(levels, 2) if told(one, other)]
        yield from sorted(apart, key=lambda ends: time[repr(ends[1])] / time[repr(ends[0])])[:1]
        return
    first, *others = levels
    best = min([first, *(level for level in others if told(first, level))], key=lambda level: time[repr(level)])
    ends = (first, best), (best, levels[-1])
    yield from (pair for pair in ends if told(*pair))


def _main(waterfall: Waterfall, of_types: Waterfall) -> Step | None:
    """The step that explains most of a change; None if no wait explains enough. It is the step of a kind of waits or,
    if one wait type makes up nearly all of the kind's change, the step of that type. A wait for the client is no cause.
    """
    total = waterfall.change.value
    along = [
        step for step in waterfall.steps
        if is_wait(step.thing.part) and step.thing != WORK and step.thing.category != FOR_CLIENT and step.sure
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
    """The pairs (cell at the baseline, cell at the level) that agree in the other factors. Both cells of a pair have
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
    """The changes of each thing, with one change for each pair of cells, and the changes of the work itself. `more`
    has, for each pair, the second cell's work divided by the first cell's work. The first cell's seconds are multiplied
    by this ratio.
    """
    things: dict[Thing, list[Change]] = {}
    if any(times != 1.0 for times in more):
        things[WORK] = [Change(time_s(one), times * time_s(one)) for (one, _), times in zip(pairs, more, strict=True)]
    for number, ((one, other), times) in enumerate(zip(pairs, more, strict=True)):
        befores, afters = each_s(one, by, times), each_s(other, by)
        for thing in {**befores, **afters}:
            # If a run has no such wait, the wait took 0 s.
            of_both = (
                of.get(thing, (0.0,) * len(cell.spent[0].by_run_s)) for cell, of in ((one, befores), (other, afters))
            )
            things.setdefault(thing, [NONE] * len(pairs))[number] = change(*of_both)
    return things


def each_s(cell: CellSummary, by: By, times: float = 1.0) -> dict[Thing, tuple[float, ...]]:
    """The seconds of each thing in each run, multiplied by `times` and scaled to the mean time by which the cell is
    compared. They are those of the mean transaction if it is known (`cell.each_s`), else of the mean connection. Waits
    of cells are only compared by these seconds: if the spec sets the length of runs, the seconds of a connection add up
    to the same time in all cells.
    """
    arithmetic_s = sum(one.mean_s for one in cell.spent)
    scale = times * time_s(cell) / arithmetic_s if arithmetic_s else 0.0
    groups: dict[Thing, list[float]] = {}
    for one in cell.spent:
        thing = by(one)
        sums = groups.setdefault(thing, [0.0] * len(one.by_run_s))
        for number, seconds in enumerate(one.by_run_s):
            sums[number] += scale * seconds
    return {thing: tuple(values) for thing, values in groups.items()}


def wait_each_s(cell: CellSummary, wait_type: str) -> Estimate | None:
    """The seconds of a wait, or of CPU time, in the mean transaction; 0 if the cell has no such wait. None if waits
    don't add up to the time of a transaction.
    """
    if cell.each_s is None or not cell.spent:
        return None
    of_type = [values for thing, values in each_s(cell, by_type).items() if thing.name == wait_type]
    return intervals.positive_mean_estimate(of_type[0] if of_type else (0.0,))


def _whole_changes(pairs: Sequence[_Cells]) -> list[Change]:
    """The change of the whole time of each pair."""
    (rows,) = _changes(pairs, lambda _: Thing("", "", "other", None), [1.0] * len(pairs)).values()
    return rows
