"""Derives the answer to an experiment's question from its findings: the layouts to use, how certain that choice is, the
gains, the reasons, and cautions.

The functions are pure. The package `report` writes the answer as text.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from storagelab.findings.answer_kinds import (
    Answer,
    Cause,
    Choice,
    Gain,
    Good,
    Limit,
    Next,
    Pick,
    SlowestAtLimit,
    pattern_of,
)
from storagelab.findings.effects import key
from storagelab.findings.kinds.ceiling import Ceiling
from storagelab.findings.kinds.race import RaceSummary
from storagelab.findings.kinds.scatter import Scatter
from storagelab.findings.limits import AtLimit, between_ends, volume_at_limit
from storagelab.findings.model import Caution, CellSummary, Comparison, Effect, Findings, LoadVerdict
from storagelab.findings.power import EFFECTS, repetitions_for
from storagelab.findings.times import judged_by
from storagelab.findings.why import Leg, adds_up, leg_at_ends, legs
from storagelab.model.plan import REPETITIONS_SOUND, Factor, Preference
from storagelab.model.values import Estimate, JsonValue

JUDGED = ("winner", "best-set", "indistinguishable")
DEPENDS_LEAST = 0.02
"""The effect of a factor depends on another factor if the effect differs by more than this share between two levels of
the other factor."""
FACTORS_EXPLAINED = 2
CHEAPER_WITHIN = 0.01
"""A cheaper layout is the default only if it takes at most this share more time. The spec's `indifferent` replaces this
share."""
FORBIDS = ("cpu-saturated", "short-runs")
"""Facts that may explain why layouts don't differ. If one of them holds and no layouts differ, the runs say nothing
about storage."""


def _once_for_each(answered: Callable[[Findings], Answer]) -> Callable[[Findings], Answer]:
    """Caches the answer for each findings object, because many parts of a report need it. The key is the object's
    identity, because hashing findings is slow."""
    kept: dict[int, Answer] = {}

    def of(findings: Findings) -> Answer:
        if id(findings) not in kept:
            kept[id(findings)] = answered(findings)
            weakref.finalize(findings, kept.pop, id(findings))
        return kept[id(findings)]

    return of


@_once_for_each
def answer(findings: Findings) -> Answer:
    choices = tuple(_choices(findings))
    if _is_unfinished(findings) and any(load.not_compared for load in findings.by_load):
        choices = tuple(one.model_copy(update={"pick": None}) for one in choices)  # a better layout may follow
    gains = tuple(_gains(findings, choices))
    causes = tuple(cause for factor in _explained(findings, gains) for cause in _causes(findings, factor))
    if not causes and adds_up(findings) and (ends := leg_at_ends(findings)) is not None:
        causes = (_cause(findings, *ends),)
    unable = tuple(_unable(findings))
    silent = bool(choices) and not any(row.distinguishable for row in findings.comparisons)
    weighed = _weighed(findings, choices)
    return Answer(
        provenance=findings.provenance,
        runs=sum(cell.runs_ok + cell.runs_unverified for cell in findings.cells),
        runs_planned=sum(cell.runs_planned for cell in findings.cells),
        layouts=len({key(layout_of(findings, cell)) for cell in findings.cells}),
        compared=findings.compared,
        unable=unable,
        choices=choices,
        gains=gains,
        causes=causes,
        slowest_at_limit=_slowest_at_limit(findings, causes),
        cautions=tuple(dict.fromkeys(one.kind for one in weighed if one.kind not in unable)),
        indifferent=findings.indifferent,
        next=next_step(findings, choices, weighed),
        no_verdict=next((fact for fact in unable if fact in FORBIDS and silent), None),
    )


def _is_unfinished(findings: Findings) -> bool:
    return findings.runs_stored < findings.runs_planned and not RaceSummary.of(findings)


def recommended(findings: Findings, found: Answer) -> frozenset[str]:
    """The ids of the cells whose layouts the answer recommends under their loads."""
    return frozenset(
        cell.cell_id
        for choice in found.choices if choice.pick is not None and found.no_verdict is None
        for cell in findings.cells
        if all(cell.levels.get(name) == level for name, level in choice.pick.levels.items())
        and ((load := findings.load_of(cell.cell_id)) is None or load.load in choice.loads)
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# What to use
# ---------------------------------------------------------------------------------------------------------------------


def layout_of(findings: Findings, cell: CellSummary) -> dict[str, JsonValue]:
    return {factor.name: cell.levels[factor.name] for factor in findings.layout_factors if factor.name in cell.levels}


@dataclass(frozen=True)
class _Load:
    """The layouts under one load. `cells` maps the key of each layout's levels to its cell. `tied` has the keys of the
    layouts that may be the fastest. Layouts that a crash loses are left out, unless there are no others."""

    judged: LoadVerdict
    cells: Mapping[str, CellSummary]
    tied: tuple[str, ...]


def _load(findings: Findings, judged: LoadVerdict) -> _Load:
    inside = {*judged.cells} - {*judged.not_compared} - {cell.cell_id for cell in volatile(findings)}
    best = {*judged.best, *judged.tied}
    cells = {key(layout_of(findings, cell)): cell for cell in findings.cells if cell.cell_id in inside}
    return _Load(judged, cells, tuple(layout for layout, cell in cells.items() if cell.cell_id in best))


def volatile(findings: Findings) -> list[CellSummary]:
    """The cells whose data a crash loses. They are not recommended. The list is empty if all cells are such, or if the
    answer is only a bound."""
    found = [cell for cell in findings.cells if cell.volatile]
    return found if len(found) < len(findings.cells) and not Ceiling.of(findings) else []


def _choices(findings: Findings) -> Iterator[Choice]:
    """One choice for all loads if a layout is among the best under every load; otherwise one choice for each set of
    best layouts."""
    judged = [_load(findings, load) for load in findings.by_load if load.verdict in JUDGED and load.best]
    loads = [load for load in judged if load.tied]
    common = [layout for layout in loads[0].tied if all(layout in load.tied for load in loads)] if loads else []
    if common:
        yield _choice(findings, loads, common)
        return
    groups: dict[frozenset[str], list[_Load]] = {}
    for load in loads:
        groups.setdefault(frozenset(load.tied), []).append(load)
    for group in groups.values():
        yield _choice(findings, group, group[0].tied)


def _choice(findings: Findings, loads: Sequence[_Load], tied: Sequence[str]) -> Choice:
    first, verdicts = loads[0].cells, {load.judged.verdict for load in loads}
    layouts = [layout for layout in first if all(layout in load.cells for load in loads)]
    levels = [layout_of(findings, first[layout]) for layout in layouts]
    factors = [factor for factor in findings.layout_factors if factor.name in levels[0]]
    ahead = [load.judged.best[0] for load in loads]  # a pattern contains the first layout of a ladder
    order = sorted(tied, key=lambda layout: all(load.cells[layout].cell_id not in ahead for load in loads))
    pattern, places, others = pattern_of(factors, levels, [layouts.index(layout) for layout in order])
    meant = [layouts[place] for place in places]
    cells = [load.cells[layout] for load in loads for layout in meant]
    figures = [figure for cell in cells if len(loads) == 1 and (figure := figure_of(findings, cell)) is not None]
    figures.sort(key=lambda figure: figure.value)
    most = _most(findings, loads, meant)
    slower = [row for load in loads if (row := _next(findings, load.judged)) is not None]
    leads = sorted((row.ratio for row in slower), key=lambda ratio: ratio.value)
    return Choice(
        loads=tuple(load.judged.load for load in loads) if findings.loads else (),
        verdict=verdicts.pop() if len(verdicts) == 1 else "best-set",
        layouts=len(layouts),
        tied=tuple(load.cells[layout].cell_id for load in loads for layout in tied),
        meant=tuple(cell.cell_id for cell in cells),
        pattern=pattern,
        but_not=tuple(load.cells[layouts[place]].cell_id for load in loads for place in others),
        pick=None if Ceiling.of(findings) else _pick(findings, loads, meant),
        lowest=figures[0] if figures else None,
        highest=figures[-1] if figures else None,
        at_most_slower=most,
        same=most is not None and findings.indifferent is not None and most <= 1 + findings.indifferent,
        next_slower=slower[0].cell_id if len(loads) == 1 and slower else None,
        leads=(leads[0], leads[-1]) if len(leads) > 1 else tuple(leads),
    )


def figure_of(findings: Findings, cell: CellSummary) -> Estimate | None:
    """The mean of the quantity by which a cell is judged."""
    sample = judged_by(cell, findings.compared)
    return None if sample is None else sample.mean


def _most(findings: Findings, loads: Sequence[_Load], tied: Sequence[str]) -> float | None:
    """For each layout of `tied`, its time divided by the time of the truly fastest has an upper bound. Returns the
    largest of these bounds: 1 for a winner, None if a layout has no bound."""
    found = [_most_of(findings, load, load.cells[layout]) for load in loads for layout in tied]
    known = [one for one in found if one is not None]
    return max(known) if len(known) == len(found) else None


def _most_of(findings: Findings, load: _Load, cell: CellSummary) -> float | None:
    if cell.cell_id in load.judged.best[:1]:
        return 1.0 if load.judged.verdict == "winner" else load.judged.at_most_slower
    row = next((row for row in findings.comparisons if row.cell_id == cell.cell_id), None)
    return None if row is None else row.bound


def _next(findings: Findings, load: LoadVerdict) -> Comparison | None:
    """The comparison of the fastest layout among those that are surely slower than the best; None if there is none."""
    slower = [row for row in findings.comparisons if row.distinguishable and row.cell_id in load.cells]
    return min(slower, key=lambda row: row.ratio.value, default=None)


# ---------------------------------------------------------------------------------------------------------------------
# The default pick
# ---------------------------------------------------------------------------------------------------------------------


def _pick(findings: Findings, loads: Sequence[_Load], tied: Sequence[str]) -> Pick:
    """Chooses one of the layouts by the spec's preferences. If several are equal in these, the order of levels decides.

    Layouts with a level that is surely slower than another are excluded. Of the others, those within the margin of the
    fastest under each load are candidates. Prices are used only if each layout has a price.
    """
    among = [loads[0].cells[layout] for layout in tied]
    behind = {cell.cell_id: _behind(findings, loads, layout) for cell, layout in zip(among, tied, strict=True)}
    slow, margin = _slower_levels(findings), default_within(findings)
    left = [cell for cell in among if not slow & {(name, repr(level)) for name, level in cell.levels.items()}] or among
    most = (1 + margin) * min(behind[cell.cell_id] for cell in left)
    left = [cell for cell in left if behind[cell.cell_id] <= most]
    alike = left == [cell for cell in among if behind[cell.cell_id] <= 1 + margin]
    decided: list[Preference] = ["fastest"] if len(left) == 1 < len(among) else []
    priced = all(cell.price_per_month is not None for cell in among)
    for preference in findings.prefer if priced else [one for one in findings.prefer if one != "lowest-price"]:
        worth = {cell.cell_id: _worth(findings, cell, preference, behind) for cell in left}
        kept = [cell for cell in left if worth[cell.cell_id] == min(worth.values())]
        if len(kept) < len(left):
            decided.append(preference)
        left = kept
    decided += ["baseline"] * (len(left) > 1 and bool(decided) and "baseline" not in decided)
    cell = min(left, key=lambda one: _places(findings, one))
    levels = layout_of(findings, cell)
    keeps, capacities = _keeps(findings, among)
    return Pick(
        cell_id=cell.cell_id, levels=levels, decided_by=tuple(decided), within=margin if alike else None,
        at_most_slower=_most(findings, loads, [key(levels)]), capacity_bytes=cell.capacity_bytes, keeps=keeps,
        capacities=capacities,
    )  # fmt: skip


def default_within(findings: Findings) -> float:
    """The largest share of additional time that a cheaper layout may take and still be the default."""
    return CHEAPER_WITHIN if findings.indifferent is None else findings.indifferent


def _slower_levels(findings: Findings) -> set[tuple[str, str]]:
    """The pairs (factor, text of a level) of levels that are surely slower than another level of the factor, over all
    layouts. Factors whose effects depend on other factors are left out."""
    main = [
        one for one in findings.effects
        if not one.at and one.distinguishable and not any(_depends_on(findings, one.factor))
    ]  # fmt: skip
    return {(one.factor, repr(one.level if one.ratio.value > 1 else one.baseline)) for one in main}


def _places(findings: Findings, cell: CellSummary) -> list[int]:
    """The positions of the cell's levels in the lists of their factors."""
    factors = [factor for factor in findings.factors if factor.name in cell.levels]
    return [[repr(level.value) for level in one.levels].index(repr(cell.levels[one.name])) for one in factors]


def _behind(findings: Findings, loads: Sequence[_Load], layout: str) -> float:
    """The layout's mean time divided by the mean time of the fastest layout. With several loads, the largest of these
    ratios."""

    def time(load: _Load, one: str) -> float:
        figure = figure_of(findings, load.cells[one])
        assert figure is not None
        return 1 / figure.value if findings.compared.startswith("time-per-") else figure.value

    return max(time(load, layout) / min(time(load, one) for one in load.tied) for load in loads)


def _worth(findings: Findings, cell: CellSummary, preference: Preference, behind: Mapping[str, float]) -> float:
    """The value of a cell under a preference. A smaller value is better."""
    return {
        "lowest-price": cell.price_per_month or 0.0, "fewest-files": cell.data_files,
        "most-capacity": -(cell.capacity_bytes or 0.0), "fewest-drives": cell.drives or 0,
        "baseline": sum(place > 0 for place in _places(findings, cell)), "fastest": behind[cell.cell_id],
    }[preference]  # fmt: skip


def _keeps(findings: Findings, cells: Sequence[CellSummary]) -> tuple[str | None, tuple[tuple[JsonValue, float], ...]]:
    """Returns the factor whose level alone determines the capacity of the drives, and the capacity at each level."""
    for factor in findings.layout_factors:
        capacities: dict[str, tuple[JsonValue, set[float]]] = {}
        for cell in cells:
            if cell.capacity_bytes and factor.name in cell.levels:
                level = cell.levels[factor.name]
                capacities.setdefault(repr(level), (level, set()))[1].add(cell.capacity_bytes)
        found = [(level, capacity) for level, capacity in capacities.values() if len(capacity) == 1]
        if len(found) == len(capacities) > 1 and len({size for _, capacity in found for size in capacity}) > 1:
            return factor.name, tuple((level, min(capacity)) for level, capacity in found)
    return None, ()


# ---------------------------------------------------------------------------------------------------------------------
# What is gained, and why
# ---------------------------------------------------------------------------------------------------------------------


def _gains(findings: Findings, choices: Sequence[Choice]) -> Iterator[Gain]:
    """The gain of each factor, the largest first. If there is one choice, the good levels are those of its pattern. If
    there are several choices, each gain is relative to the factor's first level.
    """
    needed = {good.factor: good for good in choices[0].pattern.needed} if len(choices) == 1 else {}
    found = []
    for factor in findings.layout_factors:
        effects = [one for one in findings.effects if one.factor == factor.name and not one.at]
        gain = _gain(findings, factor, effects, needed.get(factor.name)) if effects and choices else None
        if gain is not None:
            found.append(gain)
    yield from sorted(found, key=lambda gain: (not gain.seen, -abs(math.log(gain.best.value))))


def _gain(findings: Findings, factor: Factor, effects: Sequence[Effect], good: Good | None) -> Gain | None:
    baseline = effects[0].baseline
    levels = None if good is None else [repr(level) for level in good.levels]
    if levels is not None and repr(baseline) in levels:
        others = [one for one in effects if repr(one.level) not in levels]
        if not others:
            return None
        worst = max(others, key=lambda one: one.ratio.value)
        reference, used, ratios = worst.level, [worst], [(baseline, worst.ratio.inverse)]
    else:
        reference, used = baseline, [one for one in effects if levels is None or repr(one.level) in levels]
        ratios = [(one.level, one.ratio) for one in used]
    if not ratios:
        return None
    ordered = sorted((ratio for _, ratio in ratios), key=lambda ratio: ratio.value)
    return Gain(
        factor=factor.name,
        levels=tuple(level for level, _ in ratios),
        reference=reference,
        best=ordered[0],
        worst=ordered[-1],
        seen=any(one.distinguishable for one in used),
        sure=all(one.distinguishable for one in used),
        same=findings.indifferent is not None and all(_within(ratio, findings.indifferent) for ratio in ordered),
        untested=any(one.across_blocks for one in used),
        depends_on=tuple(_depends_on(findings, factor.name)),
    )


def _within(ratio: Estimate, margin: float) -> bool:
    """Whether the ratio's interval is within the margin on both sides (two one-sided tests)."""
    return (
        ratio.low is not None and ratio.high is not None and ratio.low >= 1 / (1 + margin) and ratio.high <= 1 + margin
    )


def _depends_on(findings: Findings, factor: str) -> Iterator[str]:
    for found in findings.dependences:
        change = 0.0 if found.change is None else abs(math.log(found.change.difference.value))
        if found.factor == factor and (found.differs or change > DEPENDS_LEAST):
            yield found.within


def _explained(findings: Findings, gains: Sequence[Gain]) -> list[str]:
    """The names of the factors to explain: the factors with a distinguishable difference, the largest first. If there
    is none, the factor with the largest gain.
    """
    if not adds_up(findings):
        return []
    return [gain.factor for gain in gains if gain.seen][:FACTORS_EXPLAINED] or [gain.factor for gain in gains[:1]]


def _causes(findings: Findings, factor: str) -> Iterator[Cause]:
    yield from (_cause(findings, leg, factor, {}) for leg in legs(findings, factor))


def _cause(findings: Findings, leg: Leg, factor: str, at: dict[str, JsonValue]) -> Cause:
    """The cause of most of the change: a volume's limit or a wait. Without such a cause, the largest part."""
    cells = [(findings.cell(one), findings.cell(other)) for one, other in leg.waterfall.pairs]
    limit = volume_at_limit(cells, leg.waterfall.change.value)
    step = leg.main or leg.largest
    cause = limit or step
    return Cause(
        factor=factor, before=(leg.baseline,), after=(leg.level,), at=at,
        wait=step.thing.name if limit is None else None, sure=limit is not None or leg.main is not None,
        limit=None if limit is None else _limit(limit),
        from_s=cause.before_s, to_s=cause.after_s,
        total_from_s=leg.waterfall.before_s, total_to_s=leg.waterfall.after_s,
    )  # fmt: skip


def _limit(found: AtLimit) -> Limit:
    return Limit(volume=found.volume, rate=found.rate, limit=found.limit, share=found.share)


def _slowest_at_limit(findings: Findings, causes: Sequence[Cause]) -> SlowestAtLimit | None:
    """The volume whose limit explains why the slowest layout is slow. None if a cause already names a volume at its
    limit."""
    found = between_ends(findings)
    if found is None or findings.worst is None or any(cause.limit is not None for cause in causes):
        return None
    return SlowestAtLimit(cell_id=findings.worst, limit=_limit(found))


# ---------------------------------------------------------------------------------------------------------------------
# Cautions
# ---------------------------------------------------------------------------------------------------------------------


def _unable(findings: Findings) -> Iterator[str]:
    """The facts because of which the runs can't answer the question, the most serious first."""
    if not any(cell.elapsed_s for cell in findings.cells):
        yield "nothing-measured"
    elif findings.verdict in ("too-few-runs", "untested"):
        yield findings.verdict
    facts = [(one.rank(), one.unable) for one in findings.cautions if one.is_unable(findings)]
    if any(one.elapsed_s is None for one in findings.cells) or findings.not_compared:
        facts.append(((2, "not-compared"), "not-compared"))  # after missing runs, because they explain this fact
    yield from dict.fromkeys(fact for _, fact in sorted(facts))


def _weighed(findings: Findings, choices: Sequence[Choice]) -> list[Caution]:
    """The cautions in the order of their importance. Risks that concern only the layouts to use come first, then the
    other cautions, then notes. Within each of these, the order is that of groups."""
    used = {cell for choice in choices for cell in choice.meant}
    return sorted(
        findings.cautions,
        key=lambda one: (not (one.first_of_used and used.intersection(one.cells)), one.severity == "note", one.rank()),
    )


# --- what to do next --------------------------------------------------------------------------------------------------
# The next step that makes the result more certain. It is derived from cautions, ties and the scatter of runs.

MATTERS = 0.03
"""A share of the time. More repetitions are not advised to find smaller differences, unless the spec's `indifferent` is
smaller."""
REPETITIONS_MOST = 100
"""If more repetitions than this are needed, none are advised, because nobody makes so many."""


def next_step(findings: Findings, choices: Sequence[Choice], weighed: Sequence[Caution]) -> Next | None:
    """The step that helps most; None if there is nothing to do. `weighed` has the cautions, the most serious first."""
    if _is_unfinished(findings):
        return Next(step="runs")
    for one in weighed:
        if one.next_step and (one.severity == "caution" or one.is_unable(findings)):
            few = findings.runs_planned < REPETITIONS_SOUND * len(findings.cells)
            return Next(step=one.kind, repetitions=REPETITIONS_SOUND if few and not RaceSummary.of(findings) else None)
    if any(race.open for race in RaceSummary.of(findings)):
        return Next(step="race")
    if findings.verdict == "too-few-runs":
        return Next(step="repetitions", repetitions=REPETITIONS_SOUND)
    return _more_repetitions(findings, choices)


def _more_repetitions(findings: Findings, choices: Sequence[Choice]) -> Next | None:
    """The number of repetitions that would distinguish tied layouts. The difference to find is the spec's
    `indifferent`. Without it, it is the largest usual difference that the runs may hide. None if more repetitions would
    not help.
    """
    hidden = [choice.at_most_slower for choice in choices if choice.verdict != "winner" and not choice.same]
    scatter = next(iter(Scatter.of(findings)), None)
    if not hidden or scatter is None or RaceSummary.of(findings) or Ceiling.of(findings):
        return None
    bounds = [bound - 1 for bound in hidden if bound is not None]
    most = max(bounds) if len(bounds) == len(hidden) else float("inf")
    margin = findings.indifferent
    effects = [margin] if margin else [effect for effect in reversed(EFFECTS) if MATTERS <= effect < most]
    made = max(cell.runs_planned for cell in findings.cells)
    for effect in effects:
        sizes = [len(load.cells) for load in findings.loads if len(load.cells) > 1] or [len(findings.cells)]
        needed = repetitions_for(effect, scatter, max(sizes), len(sizes))
        if needed is None or needed > REPETITIONS_MOST:
            return None
        if needed > made:
            return Next(step="repetitions", repetitions=max(needed, REPETITIONS_SOUND), effect=effect)
    return None
