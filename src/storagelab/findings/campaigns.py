"""Compares two campaigns: the layouts that both contain, and the ratios of their times. Also compares a new campaign
with a history of earlier ones. The functions are pure.

The runs of two campaigns are independent samples, because the campaigns have no rounds in common. All layouts of a
campaign share the effects of its rounds, so intervals include these effects. If neighbouring runs are surely
correlated, a campaign has fewer independent runs, and intervals allow for that. But no campaign shows how the machine
changed between the two. A ratio shows whether times differ, but not why.

In a history of five campaigns or more, each campaign gives one figure for each layout. The scatter of these figures
shows how much campaigns differ without a change, so intervals predict the next campaign (prediction intervals).

Intervals hold together at 95 %. Half of the error is used for the overall ratio, and half for the layouts (Bonferroni).
As in `stats`, a layout differs only if a test with the scatter of its own runs also shows a difference. So a layout
with more noise than the others does not look different. docs/records/monte-carlo.md says how often a difference is
stated between equal campaigns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from storagelab.errors import SpecError
from storagelab.findings.basis import Basis, ratio_of
from storagelab.findings.effects import key
from storagelab.findings.model import CellSummary, Compared, Estimate, Findings
from storagelab.findings.sides import Mean, Side, error_of, history_of, noisier, side_of
from storagelab.findings.times import latency_of
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.model.values import JsonValue
from storagelab.spec.keys import split_path
from storagelab.spec.reading import differences
from storagelab.stats.contrast import named
from storagelab.stats.intervals import ALPHA, from_logs, t_point
from storagelab.words import numbers
from storagelab.words.names import value_text

OVERALL_SHARE = 0.5
"""The share of the error for the overall ratio. The share is large because a gate needs this ratio."""
_OF_ITS_OWN = ("name: ", "question: ", "seed: ")
"""Keys in which specs of one history may differ."""
HISTORY_LEAST = 5
"""The smallest number of campaigns in a history. Fewer campaigns hardly show how much campaigns differ without a
change."""


@dataclass(frozen=True)
class Campaign:
    """One campaign, with its own findings."""

    name: str
    experiment: Experiment
    findings: Findings
    basis: Basis


@dataclass(frozen=True)
class Matched:
    """A layout that both campaigns have. `first` and `second` are its mean times in the two campaigns. They are times
    per unit of work if the work differs."""

    levels: dict[str, JsonValue]
    first_id: str
    second_id: str
    first: float
    second: float
    ratio: Estimate
    tested: bool

    @property
    def differs(self) -> bool:
        return _differs(self.ratio)


def _differs(ratio: Estimate) -> bool:
    return ratio.low is not None and ratio.high is not None and not ratio.low <= 1 <= ratio.high


@dataclass(frozen=True)
class Compare:
    """The comparison of two campaigns. Each ratio is the second campaign's time divided by the first campaign's time.

    `overall` is the geometric mean of the ratios of the matched layouts. `lacking` has the layouts that lack a usable
    run in one of the campaigns, each with that campaign's name. `untested` says why ratios are not tested; it is "" if
    they are. If `first` represents a history, `history` has its campaigns, each with its time divided by the mean of
    all. `left_out` names the campaigns that were not used because they lack runs of a layout.
    """

    first: Campaign
    second: Campaign
    compared: Compared
    matched: tuple[Matched, ...]
    lacking: tuple[tuple[str, str], ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    overall: Estimate
    untested: str = ""
    history: tuple[tuple[str, float], ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def latest(self) -> str:
        """The name of the campaign before the second: the first campaign, or the last campaign of a history."""
        return self.history[-1][0] if self.history else self.first.name

    @property
    def differs(self) -> bool:
        return _differs(self.overall)

    @property
    def of_one_kind(self) -> bool:
        """Whether both campaigns are measured, or both are simulated."""
        return self.first.findings.provenance == self.second.findings.provenance

    @property
    def slower(self) -> tuple[Matched, ...]:
        return tuple(one for one in self.matched if one.differs and one.ratio.value > 1)

    @property
    def faster(self) -> tuple[Matched, ...]:
        return tuple(one for one in self.matched if one.differs and one.ratio.value < 1)


class Gate(IntEnum):
    """Whether one campaign is slower than another by more than a margin. The values are exit codes."""

    NOT_SLOWER = 0
    SLOWER = 1
    CANT_TELL = 3

    @property
    def text(self) -> str:
        return self.name.lower().replace("_", "-")


def compare(
    first: Campaign, second: Campaign, others: int = 1, *, earlier: Sequence[Campaign] | None = None
) -> Compare:
    """Compares the second campaign with the first. `others` is the number of campaigns that are compared with the
    first. If `earlier` campaigns are given, which have the spec of the first, they and the first are the history.

    Raises LookupError if no layout ran in both campaigns.
    """
    every = [(one, _match(one, second)) for one in (*(earlier or ()), first)]
    # If an interrupted campaign were used, the layouts that it lacks could not be compared at all.
    whole = [(one, match) for one, match in every if all(name != one.name for name, _ in match[1])] or every
    history = [one for one, _ in whole]
    left_out = tuple(one.name for one, _ in every if one.name not in [of.name for of in history])
    there = [{other.cell_id: (one, other) for one, other in match[0]} for _, match in whole]
    _, lacking, only_first, only_second = whole[-1][1]
    pairs = [there[-1][cell_id] for cell_id in there[-1] if all(cell_id in of for of in there)]
    if not pairs:
        raise LookupError(first.name, second.name)
    compared, ids = _compared(first, second, pairs), [other.cell_id for _, other in pairs]
    own = ([of[cell_id][0].cell_id for cell_id in ids] for of in there)
    sides = [
        side_of(campaign.findings, campaign.basis, of_it, compared)
        for campaign, of_it in zip(history, own, strict=True)
    ]
    one, other, apart = (
        sides[0],
        side_of(second.findings, second.basis, ids, compared),
        [side[-1].log_s for side in sides],
    )
    if earlier is not None:
        one, other = history_of(sides), noisier(other, sides)
    untested = _untested(first, second) if earlier is None else _untested_history(history, second)
    alpha, share = ALPHA / others, OVERALL_SHARE if len(pairs) > 1 else 1.0
    # If there is only one layout, its ratio is also the overall ratio, so there is only one statement.
    of_layouts = alpha * (1 - share) if len(pairs) > 1 else alpha
    matched = tuple(_matched(pair, one, other, n, of_layouts, untested) for n, pair in enumerate(pairs))
    overall = matched[0].ratio if len(pairs) == 1 else _ratio(one[-1], other[-1], 1, alpha * share, untested)[0]
    if earlier is None:
        return Compare(first, second, compared, matched, lacking, only_first, only_second, overall, untested)
    named = replace(history[-1], name=f"the {numbers.plural(len(history), 'campaign')} before it")
    ratios = np.exp(np.array(apart) - np.mean(apart)).tolist()
    return Compare(
        named, second, compared, matched, lacking, only_first, only_second, overall, untested,
        tuple((campaign.name, ratio) for campaign, ratio in zip(history, ratios, strict=True)), left_out,
    )  # fmt: skip


def against_first(given: Sequence[Campaign]) -> list[Compare]:
    """Compares each campaign with the first. Raises SpecError if one of them can't be compared with it."""
    first, *others = given
    return [_found(first, one, len(others)) for one in others]


def against_history(given: Sequence[Campaign], runs: Mapping[str, Sequence[Run]]) -> list[Compare]:
    """Compares the last campaign with all campaigns before it. `runs` has the runs of each campaign, by the campaign's
    name. Raises SpecError if the campaigns are not a history.
    """
    _check_history(given, runs)
    return [_found(given[-2], given[-1], 1, given[:-2])]


def _check_history(given: Sequence[Campaign], runs: Mapping[str, Sequence[Run]]) -> None:
    """Raises SpecError if the campaigns before the last have different specs, or if a campaign is a copy of another."""
    times = [[(one.cell_id, one.measurement.elapsed_s) for one in runs[of.name] if one.measurement] for of in given]
    for place, of in enumerate(times):
        if of and of in times[:place]:
            both = f"{given[times.index(of)].name} and {given[place].name} hold the same runs"
            raise SpecError(both, key="NAME", hint="a copy shows no more: leave one of them out")
    latest = given[-2]
    for one in given[:-1]:
        changes = differences(one.experiment.canonical, latest.experiment.canonical)
        if listed := "".join(f"\n    {change}" for change in changes if not change.startswith(_OF_ITS_OWN)):
            raise SpecError(
                f"{one.name} has another spec than {latest.name}, the last before the new one:{listed}",
                key="--history", hint="name only campaigns of one spec; the new one's may differ",
            )  # fmt: skip


def _found(first: Campaign, second: Campaign, others: int, earlier: Sequence[Campaign] | None = None) -> Compare:
    if not of_one_kind(first, second):
        raise SpecError(f"{first.name} and {second.name} did different work: rows, and requests", key="NAME")
    try:
        return compare(first, second, others, earlier=earlier)
    except LookupError:
        factors = [{of.name: [value_text(one.value) for one in of.levels] for of in it.experiment.factors}
                   for it in (first, second)]  # fmt: skip
        apart = [name for name, levels in factors[0].items() if not {*levels} & {*factors[1].get(name, levels)}]
        hint = f"layouts are matched by the levels of their factors{'; these have none in common:' * bool(apart)}"
        for name in apart:
            of_first, of_second = (" | ".join(of[name]) for of in factors)
            hint += f"\n    {name}: {of_first} in {first.name}; {of_second} in {second.name}"
        if unknown := varied_by_one(first, second):
            hint += f"\n  only one of them varies {', '.join(unknown)}, and the other's value is not one of its levels"
        problem = f"{first.name} and {second.name} have no layout in common that was run in both"
        raise SpecError(problem, key="NAME", hint=hint) from None


def gate(found: Sequence[Compare], margin: float) -> Gate:
    """The gate of all comparisons. The result is slower if an overall ratio or any layout's ratio is surely above the
    margin. It is not slower if each overall ratio is surely below the margin, and no layout lacks runs. `margin` is
    0.05 for 5 %.
    """
    overall = [compared.overall for compared in found]
    result = _gate(overall, [one.ratio for compared in found for one in compared.matched], margin)
    return Gate.CANT_TELL if result is Gate.NOT_SLOWER and any(one.lacking for one in found) else result


def gate_of_cells(ratio: Estimate | None, margin: float, counted: float = 1.0) -> Gate:
    """The gate of two cells of one campaign. `ratio` is None if they can't be tested. `counted` is the ratio of the
    arithmetic means of their runs, which include the whole time of a stall. If `counted` is above the margin, the gate
    does not pass.
    """
    found = Gate.CANT_TELL if ratio is None else _gate([ratio], (), margin)
    return Gate.CANT_TELL if found is Gate.NOT_SLOWER and counted > 1 + margin else found


@dataclass(frozen=True)
class Pair:
    """Two cells of one campaign. `ratio` is the time of `after` divided by the time of `before`; None if it can't be
    tested. `counted` is the ratio of the arithmetic means of the runs that verdicts use. `gate` is the result of the
    gate; None if no margin was given.
    """

    before: str
    after: str
    ratio: Estimate | None
    counted: float
    gate: Gate | None

    @property
    def rank(self) -> tuple[int, float]:
        """A key for the order of pairs in a report; the largest comes first. It sorts surely slower pairs first and
        then undecided pairs, and within each by ratio."""
        severity = 0 if self.gate is None else (Gate.NOT_SLOWER, Gate.CANT_TELL, Gate.SLOWER).index(self.gate)
        return severity, self.counted if self.ratio is None else self.ratio.value


def pair_of(basis: Basis, plan: Plan, before: str, after: str, margin: float | None) -> Pair:
    times = {cell.cell_id: np.exp(logs[~np.isnan(logs)]) for cell, logs in zip(plan.cells, basis.kept, strict=True)}
    both = times[after], times[before]
    counted = float(both[0].mean() / both[1].mean()) if all(map(len, both)) else 1.0
    ratio = ratio_of(basis, plan, before, after)
    return Pair(before, after, ratio, counted, None if margin is None else gate_of_cells(ratio, margin, counted))


def _gate(overall: Sequence[Estimate], of_layouts: Sequence[Estimate], margin: float) -> Gate:
    limit = 1 + margin
    if any(ratio.low is not None and ratio.low > limit for ratio in (*of_layouts, *overall)):
        return Gate.SLOWER
    if all(ratio.high is not None and ratio.high <= limit for ratio in overall):
        return Gate.NOT_SLOWER
    return Gate.CANT_TELL


# ---------------------------------------------------------------------------------------------------------------------
# The layouts to compare, and the figures by which they are compared
# ---------------------------------------------------------------------------------------------------------------------


_Pair = tuple[CellSummary, CellSummary]


def _match(
    first: Campaign, second: Campaign
) -> tuple[list[_Pair], tuple[tuple[str, str], ...], tuple[str, ...], tuple[str, ...]]:
    """Returns the pairs of cells that have equal levels in both campaigns and runs in both; the (campaign's name, cell
    id) of cells of such pairs that lack runs; and the ids of the cells without a pair, for each campaign.

    If only one campaign varies a factor, the other campaign's level is the level that corresponds to its configuration,
    if there is one.
    """
    ones, others = first.findings.cells, second.findings.cells
    varied = _varied(ones) | _varied(others)
    there = {_levels(cell, varied, second, first): cell for cell in others}
    both = [(cell, there[found]) for cell in ones if (found := _levels(cell, varied, first, second)) in there]
    lacking = tuple(
        (campaign.name, cell.cell_id)
        for pair in both for campaign, cell in zip((first, second), pair, strict=True) if cell.elapsed_s is None
    )  # fmt: skip
    of_first, of_second = {one.cell_id for one, _ in both}, {other.cell_id for _, other in both}
    run = [pair for pair in both if all(cell.elapsed_s is not None for cell in pair)]
    return run, lacking, _without(ones, of_first), _without(others, of_second)


def varied_by_one(first: Campaign, second: Campaign) -> tuple[str, ...]:
    """The factors that one campaign varies and whose level in the other campaign is unknown."""
    return tuple(
        name
        for one, other in ((first, second), (second, first))
        for name in sorted(_varied(other.findings.cells))
        if any(name not in cell.levels and _level_of(cell, name, one, other) is None for cell in one.findings.cells)
    )


def _varied(cells: Iterable[CellSummary]) -> set[str]:
    levels: dict[str, set[str]] = {}
    for cell in cells:
        for name, value in cell.levels.items():
            levels.setdefault(name, set()).add(key({name: value}))
    return {name for name, values in levels.items() if len(values) > 1}


def _levels(cell: CellSummary, varied: set[str], own: Campaign, other: Campaign) -> str:
    levels = {name: value for name, value in cell.levels.items() if name in varied}
    for name in varied - {*levels}:
        level = _level_of(cell, name, own, other)
        if level is not None:
            levels[name] = level
    return key(levels)


def _level_of(cell: CellSummary, name: str, own: Campaign, other: Campaign) -> JsonValue | None:
    """The level of the other campaign's factor that corresponds to a cell's configuration. None unless exactly one
    level corresponds.
    """
    factor = next((one for one in other.experiment.factors if one.name == name), None)
    run = next(iter(own.basis.used.get(cell.cell_id, {}).values()), None)
    if factor is None or run is None:
        return None
    content = run.config.model_dump(mode="json")
    there = [
        level.value for level in factor.levels
        if level.sets and all(_at(content, path) == value for path, value in level.sets.items())
    ]  # fmt: skip
    return there[0] if len(there) == 1 else None


def _at(content: object, path: str) -> object:
    for part in split_path(path):
        content = content.get(part) if isinstance(content, Mapping) else None
    return content


def _without(cells: Iterable[CellSummary], ids: set[str]) -> tuple[str, ...]:
    return tuple(cell.cell_id for cell in cells if cell.cell_id not in ids)


def _compared(first: Campaign, second: Campaign, pairs: Sequence[_Pair]) -> Compared:
    """The quantity that ratios compare. It is the elapsed time only if both cells of each pair do the same amount of
    work."""
    of_both = {first.findings.compared, second.findings.compared}
    if len(of_both) == 1 and of_both != {"elapsed"}:
        return of_both.pop()
    if "time-per-transaction" in of_both:
        return "time-per-transaction"
    same = all(one.work == other.work for one, other in pairs)
    return "elapsed" if of_both == {"elapsed"} and same else "time-per-row"


def of_one_kind(first: Campaign, second: Campaign) -> bool:
    """Whether the work of both campaigns has the same unit, and both are judged by the same latency or both by time.
    Rows can't be compared with requests, and times can't be compared with latencies.
    """
    one, other = ((campaign.findings.unit, latency_of(campaign.findings.compared)) for campaign in (first, second))
    return one == other


def _untested(first: Campaign, second: Campaign) -> str:
    for campaign in (first, second):
        if campaign.basis.in_stretches:
            return (_IN_ITS_PLACE if campaign.experiment.order == "as-listed" else _IN_ONE_STRETCH).format(
                campaign.name
            )
    return ""


_IN_ITS_PLACE = "each layout of {} has its place in every round, so that what comes before it looks like its own time"
_IN_ONE_STRETCH = (
    "the runs of each layout of {} were made in one stretch of time, so their scatter does not show what another one "
    "would give"
)


def _untested_history(history: Sequence[Campaign], new: Campaign) -> str:
    latest = history[-1]
    if len(history) < HISTORY_LEAST:
        return f"{HISTORY_LEAST} campaigns before it are the least"
    as_before = not new.basis.in_stretches or new.experiment.order == latest.experiment.order
    return "" if as_before else f"its runs are in another order than those of {latest.name}"


# ---------------------------------------------------------------------------------------------------------------------
# Ratios
# ---------------------------------------------------------------------------------------------------------------------


def _matched(pair: _Pair, first: Side, second: Side, number: int, alpha: float, untested: str) -> Matched:
    one, other = first[number], second[number]
    ratio, tested = _ratio(one, other, len(first) - 1, alpha, untested)
    return Matched(
        pair[1].levels if len(pair[1].levels) > len(pair[0].levels) else pair[0].levels, pair[0].cell_id,
        pair[1].cell_id, math.exp(one.log_s), math.exp(other.log_s), ratio, tested,
    )  # fmt: skip


def _ratio(one: Mean, other: Mean, family: int, alpha: float, untested: str) -> tuple[Estimate, bool]:
    """Returns the second time divided by the first, with its interval, and whether the ratio could be tested. The
    interval is corrected for a family of so many ratios."""
    value = other.log_s - one.log_s
    if untested or not one.parts or not other.parts:
        return Estimate(value=math.exp(value)), False
    tested = named(family)
    error, df = error_of((*one.parts, *other.parts))
    own_error, own_df = error_of((*one.own, *other.own))
    half = max(tested.point(df, alpha) * error, t_point(own_df, tested.level(alpha)) * own_error)
    return from_logs(value, half), True
