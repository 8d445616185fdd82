"""Derives all statements of a report about layouts, with a common limit for their errors. The functions are pure.

If nothing differs in 20 experiments, at most about one of their 20 reports states a difference. This limit holds for
the whole report and not for each sentence. Two steps ensure it:

1. All statements are tested at error levels that add up to 5 %. The verdict has the largest part of the 5 %, because it
needs the most.
2. If any statement of the first step states a difference, something does differ. Then each kind of statement is tested
at 5 %.

The kinds of statements are the verdicts, the main effects, the effects at each combination, the speed-ups and the
dependences. If something differs, each kind errs in at most 5 % of experiments. Intervals are those of the second step.
If the first step found no difference, intervals are widened until they include no difference.
docs/records/monte-carlo.md has the results of both steps in simulated experiments.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from storagelab.findings import verdicts
from storagelab.findings.effects import effect_of, effects_at, key, main_effects
from storagelab.findings.model import (
    BestLevels,
    Comparison,
    Dependence,
    Effect,
    EffectChange,
    Estimate,
    JudgedByLoad,
    LevelCost,
)
from storagelab.findings.raced import Raced
from storagelab.model.plan import Cell, Factor, Plan
from storagelab.model.values import JsonValue
from storagelab.spec.factors import is_condition
from storagelab.spec.naming import axis_factor, in_order
from storagelab.stats.contrast import Difference, contrasts, named, ratios, with_best
from storagelab.stats.fit import Fit, collapse
from storagelab.stats.intervals import ALPHA

# --- how factors depend on each other ---------------------------------------------------------------------------------
# How the best level and the effect of one factor depend on another factor.
#
# Two examples: Does the best number of data files depend on the number of cores? Do 128 files instead of 8 cost less on
# a drive that is formatted before every layout?
#
# Two factors are analysed together, with cells averaged over all other factors. Each pair of levels has a row. All rows
# cover the same combinations of the other factors. Rows are judged like cells (`stats`). All comparisons of a pair of
# factors form one family. So if nothing differs, the largest difference is not called significant.

ROWS_MAX = 400
"""A pair of factors with more pairs of levels than this is skipped, because its analysis would take seconds and nobody
needs it."""
FACTORS_MAX = 6


# ---------------------------------------------------------------------------------------------------------------------
# Two factors together
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Grid:
    """A fit with a row for each level of `factor` at each level of `within`. The row is calculated as place of the
    level of `within` x number of levels of `factor` + place of the level of `factor`.

    If `across` is true, levels of `factor` at one level of `within` ran in different blocks, so no test is allowed.
    """

    factor: Factor
    within: Factor
    levels: list[JsonValue]
    at: list[JsonValue]
    averaged: tuple[str, ...]
    fit: Fit
    across: bool

    def row(self, level: int, at: int) -> int:
        return at * len(self.levels) + level


def _grid(factor: Factor, within: Factor, cells: Sequence[Cell], fitted: Fit, blocks: Sequence[int]) -> _Grid | None:
    """The two-way table of means of two factors. Cells are averaged over those combinations of the other factors in
    which all rows have runs. None if there is no such combination, or if fewer than two levels of one of the factors
    remain.
    """
    if len(factor.levels) * len(within.levels) > ROWS_MAX:
        return None
    measured = _measured(factor, within, cells, fitted)
    there = {other for _, other in measured}
    at = [value for value in in_order(within) if _key(value) in there]
    at_keys = [_key(value) for value in at]
    levels = [value for value in in_order(factor) if all((_key(value), key) in measured for key in at_keys)]
    rows = [measured[_key(level), key] for key in at_keys for level in levels]
    if len(levels) < 2 or len(at) < 2 or not (common := [rest for rest in rows[0] if all(rest in row for row in rows)]):
        return None
    groups = [[row[rest] for rest in common] for row in rows]
    block_of, across = _blocks_of_rows(groups, blocks, len(levels))
    averaged = tuple(name for name in cells[0].levels if name not in (factor.name, within.name))
    return _Grid(factor, within, levels, at, averaged, collapse(fitted, groups, block_of), across)


def _measured(
    factor: Factor, within: Factor, cells: Sequence[Cell], fitted: Fit
) -> dict[tuple[str, str], dict[str, int]]:
    """Maps (level of `factor`, level of `within`) to a dict of cells. The dict maps the levels of the other factors to
    the cell's place. It has only cells with runs.
    """
    found: dict[tuple[str, str], dict[str, int]] = {}
    for place, cell in enumerate(cells):
        if not math.isnan(fitted.cells[place]):
            rest = {name: value for name, value in cell.levels.items() if name not in (factor.name, within.name)}
            pair = _key(cell.levels[factor.name]), _key(cell.levels[within.name])
            found.setdefault(pair, {})[_key(rest)] = place
    return found


def _blocks_of_rows(groups: Sequence[Sequence[int]], blocks: Sequence[int], levels: int) -> tuple[list[int], bool]:
    """Returns a number for each row. Rows whose cells ran in the same blocks have the same number. Also returns
    whether, at any level of the other factor, these numbers differ among the `levels`.
    """
    of_row = [tuple(blocks[cell] for cell in group) for group in groups]
    numbers = {of: number for number, of in enumerate(dict.fromkeys(of_row))}
    across = any(len(set(of_row[start : start + levels])) > 1 for start in range(0, len(of_row), levels))
    return [numbers[of] for of in of_row], across


def _key(value: JsonValue | Mapping[str, JsonValue]) -> str:
    return json.dumps(value, sort_keys=True)


def dependences(
    factors: Sequence[Factor], cells: Sequence[Cell], fitted: Fit, blocks: Sequence[int], alpha: float
) -> Iterator[Dependence]:
    """The significant dependences, at most one for each pair of factors that can be tested. It is the dependence of the
    axis on the other factor. If neither is the axis, it is the dependence of the factor with more levels on the other.

    The pairs share the error `alpha`.

    A load is a condition and not a choice. So if one factor of a pair is a load, the dependence of the other factor on
    the load is analysed. If both are loads, only effects are analysed.
    """
    varied = [factor for factor in factors if len(factor.levels) > 1][:FACTORS_MAX]
    axis = axis_factor(varied)
    alpha /= max(1, math.comb(len(varied), 2))
    for pair in itertools.combinations(varied, 2):
        factor, within = sorted(pair, key=lambda one: (is_condition(one), one is not axis, -len(one.levels)))
        grid = _grid(factor, within, cells, fitted, blocks)
        if grid is not None and not grid.across and grid.fit.df >= 1:
            best, cost = ((), None) if is_condition(factor) else _best(grid, alpha)
            change = _change(grid, alpha) if best or is_condition(factor) else None
            if best or change is not None:
                yield Dependence(
                    factor=factor.name, within=within.name, best=best, cost=cost, change=change, averaged=grid.averaged
                )


# ---------------------------------------------------------------------------------------------------------------------
# The best level
# ---------------------------------------------------------------------------------------------------------------------


def _best(grid: _Grid, alpha: float) -> tuple[tuple[BestLevels, ...], LevelCost | None]:
    """The best levels at each level of the other factor, and the costliest mistake. If the levels can't be tested at
    each of them, the best levels are empty."""
    found: list[BestLevels] = []
    fastest: list[int] = []
    differences: list[list[Difference | None]] = []
    for at, value in enumerate(grid.at):
        rows = [grid.row(level, at) for level in range(len(grid.levels))]
        first = int(np.argmin(grid.fit.cells[list(rows)]))
        # All rows form one family. So if nothing differs, the largest difference is not called significant.
        against = ratios(grid.fit, rows, rows[first], with_best(grid.fit, len(grid.fit.cells)), alpha)
        if not any(one.tested for one in against.values()):
            return (), None
        judged = [against.get(row) for row in rows]
        tied = [level for level, one in enumerate(judged) if one is not None and not one.slower]
        found.append(BestLevels(at=value, levels=tuple(grid.levels[level] for level in (first, *tied))))
        fastest.append(first)
        differences.append(judged)
    return tuple(found), _dearest(grid, fastest, differences)


def _dearest(
    grid: _Grid, fastest: Sequence[int], differences: Sequence[Sequence[Difference | None]]
) -> LevelCost | None:
    """The costliest significant mistake; None if there is none. The mistake is to use, at one level of the other
    factor, the level that is best at another level of it."""
    costs = [
        (one.ratio.value, at, elsewhere, one.ratio)
        for at, judged in enumerate(differences)
        for elsewhere in range(len(grid.at))
        if (one := judged[fastest[elsewhere]]) is not None and one.slower
    ]
    if not costs:
        return None
    _, at, elsewhere, ratio = max(costs, key=lambda cost: cost[0])
    return LevelCost(
        at=grid.at[at], taken_from=grid.at[elsewhere], level=grid.levels[fastest[elsewhere]],
        best=grid.levels[fastest[at]], ratio=ratio,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# The effect
# ---------------------------------------------------------------------------------------------------------------------


def _change(grid: _Grid, alpha: float) -> EffectChange | None:
    """The significant change of an effect between two levels of `within`; None if there is none. If there are several,
    a step that surely costs time at only one of the two levels is preferred, and then the largest change.

    Tested steps are those between the first, the last and the best level of `factor`. The correction for multiple tests
    counts all steps from the first or the last level to another, because the best level is known only from the runs.
    """
    last = len(grid.levels) - 1
    best = int(np.argmin([grid.fit.cells[[grid.row(level, at) for at in range(len(grid.at))]].mean()
                          for level in range(len(grid.levels))]))  # fmt: skip
    family = max(1, 2 * len(grid.levels) - 3) * math.comb(len(grid.at), 2)
    steps = dict.fromkeys([(0, last), (0, best), (best, last)])
    found = [
        change for one, other in steps if one != other and (change := _largest_change(grid, one, other, family, alpha))
    ]
    # A step that surely costs time at one level, but not at the other, is more useful to the reader.
    return max(found, key=lambda of: ((of.high.low or 0) > 1 >= (of.low.low or 0), of.difference.value), default=None)


def _largest_change(grid: _Grid, baseline: int, level: int, family: int, alpha: float) -> EffectChange | None:
    steps = [(grid.row(level, at), grid.row(baseline, at)) for at in range(len(grid.at))]
    size = [float(grid.fit.cells[one] - grid.fit.cells[other]) for one, other in steps]
    every = list(itertools.combinations(range(len(steps)), 2))
    ordered = [(one, other) if size[one] >= size[other] else (other, one) for one, other in every]
    cells = np.array([[*steps[high], *steps[low]] for high, low in ordered])
    judged = contrasts(grid.fit, cells, np.tile([1.0, -1.0, -1.0, 1.0], (len(cells), 1)), named(family), alpha)
    changed = [(one.ratio.value, pair, one.ratio) for pair, one in zip(ordered, judged, strict=True) if one.slower]
    if not changed:
        return None
    _, (high, low), difference = max(changed, key=lambda row: row[0])
    at_high, at_low = _steps(grid.fit, [steps[high], steps[low]], family, alpha)
    return EffectChange(
        level=grid.levels[level], baseline=grid.levels[baseline], low_at=grid.at[low], low=at_low.ratio,
        high_at=grid.at[high], high=at_high.ratio, difference=difference,
    )  # fmt: skip


def _steps(fitted: Fit, pairs: Sequence[tuple[int, int]], family: int, alpha: float) -> list[Difference]:
    """For each pair of rows, the time of the first row divided by the time of the second."""
    return contrasts(fitted, np.array(pairs), np.tile([1.0, -1.0], (len(pairs), 1)), named(family), alpha)


# ---------------------------------------------------------------------------------------------------------------------
# Along the axis
# ---------------------------------------------------------------------------------------------------------------------


def speed_ups(
    factors: Sequence[Factor], cells: Sequence[Cell], fitted: Fit, blocks: Sequence[int], alpha: float
) -> Iterator[Effect]:
    """The effects of the levels of all factors except the axis, at each level of the axis, averaged over the remaining
    factors. Each level is compared with the factor's first level.

    The effects of all factors form one family. If levels ran in different blocks, their effects are reported untested.
    """
    axis = axis_factor(factors)
    grids = [
        (factor, grid)
        for factor in factors[:FACTORS_MAX]
        if axis is not None and factor is not axis and len(factor.levels) > 1
        and (grid := _grid(factor, axis, cells, fitted, blocks)) is not None
        and factor.levels[0].value in grid.levels
    ]  # fmt: skip
    family = max(1, sum((len(grid.levels) - 1) * len(grid.at) for _, grid in grids))
    for factor, grid in grids:
        first = grid.levels.index(factor.levels[0].value)
        places = [(level, at) for level in range(len(grid.levels)) if level != first for at in range(len(grid.at))]
        pairs = [(grid.row(level, at), grid.row(first, at)) for level, at in places]
        there = ~np.isnan(grid.fit.log_s)
        for (level, at), (one, other), found in zip(places, pairs, _steps(grid.fit, pairs, family, alpha), strict=True):
            fixed, rounds = {grid.within.name: grid.at[at]}, int((there[one] & there[other]).sum())
            yield effect_of(found, factor, grid.levels[level], fixed, rounds, across=grid.across)


# --- all statements ---------------------------------------------------------------------------------------------------

SHARES = {"verdict": 0.8, "effects": 0.12, "effects-at": 0.02, "speed-ups": 0.03, "dependences": 0.03}
"""The share of the error that each kind of statement has in the first step."""


@dataclass(frozen=True)
class Statements:
    """The statements of a report. The fields have the same meaning as in `Findings`. `judged` has the fields of the
    verdict."""

    judged: JudgedByLoad
    effects: tuple[Effect, ...]
    dependences: tuple[Dependence, ...]
    speed_ups: tuple[Effect, ...]

    @property
    def name_a_difference(self) -> bool:
        return any(self.differences())

    def differences(self) -> Iterator[bool]:
        """For each statement, whether it states a difference."""
        yield from (row.distinguishable for row in self.judged.comparisons)
        yield from (row.distinguishable for row in (*self.effects, *self.speed_ups))
        for dependence in self.dependences:
            yield dependence.differs or dependence.cost is not None or dependence.change is not None


def state(
    factors: Sequence[Factor], plan: Plan, fitted: Fit, blocks: Sequence[int], raced: Raced | None = None
) -> Statements:
    """All statements of an experiment. `blocks` has the block of each cell. If the experiment is a race, the race
    itself gives the verdict, with the share SHARES["verdict"] of the error in both steps.
    """
    strict = stated_at(factors, plan, fitted, blocks, SHARES, raced)
    full = stated_at(factors, plan, fitted, blocks, dict.fromkeys(SHARES, 1.0), raced)
    return _with_reversals(full) if strict.name_a_difference else _without_a_difference(strict, full)


def _with_reversals(stated: Statements) -> Statements:
    """Marks the main effects of levels that surely take less time at some levels of other factors, and surely more at
    others."""
    at = [one for one in (*stated.effects, *stated.speed_ups) if one.at and one.distinguishable]
    both = [{(one.factor, repr(one.level)) for one in at if (one.ratio.value > 1) is more} for more in (True, False)]
    effects = [
        one.model_copy(update={"reverses": not one.at and (one.factor, repr(one.level)) in both[0] & both[1]})
        for one in stated.effects
    ]
    return replace(stated, effects=tuple(effects))


def _without_a_difference(strict: Statements, full: Statements) -> Statements:
    """The statements of the first step, with the intervals of the second step, which are widened to include no
    difference."""
    comparisons = _reaching(strict.judged.comparisons, full.judged.comparisons)
    return Statements(
        judged=strict.judged.model_copy(update={"comparisons": comparisons}),
        effects=_reaching(strict.effects, full.effects),
        dependences=strict.dependences,
        speed_ups=_reaching(strict.speed_ups, full.speed_ups),
    )


_Stated = TypeVar("_Stated", Comparison, Effect)


def _reaching(strict: Sequence[_Stated], full: Sequence[_Stated]) -> tuple[_Stated, ...]:
    pairs = zip(strict, full, strict=True)
    return tuple(one.model_copy(update={"ratio": reaching_one(other.ratio)}) for one, other in pairs)


def reaching_one(ratio: Estimate) -> Estimate:
    """The ratio with its interval. The interval is widened, if needed, until it includes 1 (no difference)."""
    if ratio.low is None or ratio.high is None:
        return ratio
    return ratio.model_copy(update={"low": min(ratio.low, 1.0), "high": max(ratio.high, 1.0)})


def stated_at(
    factors: Sequence[Factor],
    plan: Plan,
    fitted: Fit,
    blocks: Sequence[int],
    shares: Mapping[str, float] = SHARES,
    raced: Raced | None = None,
) -> Statements:
    """The statements of a report. Each kind is tested with its share of the error probability of 5 %. `SHARES` add up
    to 1."""
    alpha = {kind: ALPHA * share * (1 if raced is None else raced.share) for kind, share in shares.items()}
    given = (factors, plan.cells, fitted if raced is None else raced.complete)
    # Dependences and speed-ups use the blocks of runs, because they are differences of effects within blocks.
    compared = fitted.compared.tolist()
    judged = verdicts.judge(factors, plan, fitted, compared, alpha["verdict"], None if raced is None else raced.judging)
    main = main_effects(*given, compared, alpha["effects"])
    effects: tuple[Effect, ...] = (*main, *effects_at(*given, compared, alpha["effects-at"]))
    faster = tuple(speed_ups(*given, blocks, alpha["speed-ups"]))
    if raced is None:
        ids = {key(cell.levels): cell.cell_id for cell in plan.cells}
        effects, faster = (tuple(_as_compared(one, judged, ids) for one in every) for every in (effects, faster))
    found = dependences(*given, blocks, alpha["dependences"])
    return Statements(judged, effects, tuple(_as_told(one, effects) for one in found), faster)


def _as_compared(effect: Effect, judged: JudgedByLoad, ids: Mapping[str, str]) -> Effect:
    """Returns the effect with the ratio of the verdict's comparison, if there is one for the same two layouts. So
    reports show the same interval wherever they show the same ratio. An effect at one level of each other factor
    compares two layouts. If one of them is the best layout, the verdict compares them, too.
    """
    pair = [ids.get(key({**effect.at, effect.factor: level})) for level in (effect.baseline, effect.level)]
    row = next((row for row in judged.comparisons if {row.cell_id, row.best_cell_id} == {*pair}), None)
    if row is None or not row.tested:
        return effect
    ratio = row.ratio if row.best_cell_id == pair[0] else row.ratio.inverse
    return effect.model_copy(update={"ratio": ratio, "distinguishable": row.distinguishable})


def _as_told(found: Dependence, effects: Sequence[Effect]) -> Dependence:
    """Returns the dependence with the ratios of effects for the same steps, if there are any. So reports show one
    interval for one ratio."""
    if (change := found.change) is None:
        return found
    known = {(one.factor, repr(one.level), repr(one.baseline), key(one.at)): one.ratio for one in effects}
    of = found.factor, repr(change.level), repr(change.baseline)
    ends = {"low": (change.low_at, change.low), "high": (change.high_at, change.high)}
    ratios = {end: known.get((*of, key({found.within: at})), own) for end, (at, own) in ends.items()}
    return found.model_copy(update={"change": change.model_copy(update=ratios)})
