"""Estimates the effect of each level relative to the factor's first level, over all cells and at each combination of
the other factors. The functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from storagelab.findings.model import CellSummary, Effect, Estimate
from storagelab.model.plan import Cell, Factor
from storagelab.model.values import JsonValue
from storagelab.stats.contrast import Difference, Family, contrasts, named, ratios, wider
from storagelab.stats.fit import Fit, collapse

EFFECT_ROWS_MAX = 40
"""The largest number of a factor's effects at combinations of the other factors. If there are more, none are reported,
because nobody reads a longer table."""

_Key = str
_Pairs = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class _Row:
    """One effect to estimate. `pairs` has the places of the cells that differ only in the factor: (at the level, at the
    first level)."""

    factor: Factor
    level: JsonValue
    at: dict[str, JsonValue]
    pairs: list[tuple[int, int]]


def main_effects(
    factors: Sequence[Factor], cells: Sequence[Cell], fitted: Fit, blocks: Sequence[int], alpha: float
) -> Iterator[Effect]:
    """The effect of each level relative to its factor's first level, over all pairs of cells that differ only in the
    factor.

    The effects of all factors form one family of comparisons. In a larger family, each statement needs stronger
    evidence. So untested effects, whose levels ran in different blocks, don't count in the family.
    """
    groups = [_rows(factor, cells, {}, combinations(cells, factor)) for factor in _varied(factors)]
    yield from _judged(groups, fitted, blocks, alpha)


def effects_at(
    factors: Sequence[Factor], cells: Sequence[Cell], fitted: Fit, blocks: Sequence[int], alpha: float
) -> Iterator[Effect]:
    """The effects at each combination of the other factors, for factors with at most `EFFECT_ROWS_MAX` of them. They
    form one family, too."""
    yield from _judged(
        [group for factor in _varied(factors) for group in _at_each(factor, cells)], fitted, blocks, alpha
    )


def told_apart(effects: Iterable[Effect], factor: str, one: JsonValue, other: JsonValue) -> bool:
    """Whether the main effects tell two levels of a factor apart. Two levels that are both compared with the first are
    told apart if their joint intervals don't overlap.
    """
    main = [effect for effect in effects if effect.factor == factor and not effect.at]
    found = [effect for effect in main if repr(effect.level) in (repr(one), repr(other))]
    if len(found) == 1:
        return found[0].distinguishable and repr(found[0].baseline) in (repr(one), repr(other))
    lows, highs = [effect.ratio.low for effect in found], [effect.ratio.high for effect in found]
    return len(found) == 2 and None not in lows and max(filter(None, lows)) > min(filter(None, highs))


def _varied(factors: Sequence[Factor]) -> list[Factor]:
    return [factor for factor in factors if len(factor.levels) > 1]


def _judged(groups: Sequence[Sequence[_Row]], fitted: Fit, blocks: Sequence[int], alpha: float) -> Iterator[Effect]:
    family = named(max(1, sum(bool(row.pairs) and not _across(row.pairs, blocks) for group in groups for row in group)))
    for group in groups:
        measured = [[pair for pair in row.pairs if fitted.runs[list(pair)].all()] for row in group]
        rows = [(row, pairs) for row, pairs in zip(group, measured, strict=True) if pairs]
        for (row, pairs), one in zip(rows, _effects(fitted, [pairs for _, pairs in rows], family, alpha), strict=True):
            rounds, across = _rounds(fitted, pairs), _across(pairs, blocks)
            yield effect_of(one, row.factor, row.level, row.at, rounds, across=across)


def _effects(fitted: Fit, levels: Sequence[_Pairs], family: Family, alpha: float) -> list[Difference]:
    """For each level, the geometric mean of the ratios of its pairs of cells. If levels have several pairs, the error
    also includes the scatter of the levels' averages over rounds. So if something disturbed all cells of a level in one
    round, this counts as noise.
    """
    weights = np.zeros((len(levels), len(fitted.cells)))
    for row, pairs in zip(weights, levels, strict=True):
        for one, other in pairs:
            row[one] += 1 / len(pairs)
            row[other] -= 1 / len(pairs)
    found = contrasts(fitted, np.tile(np.arange(len(fitted.cells)), (len(levels), 1)), weights, family, alpha)
    if not any(len(pairs) > 1 for pairs in levels):
        return found
    baseline = sorted({other for pairs in levels for _, other in pairs})
    whole = collapse(fitted, [baseline, *([one for one, _ in pairs] for pairs in levels)])
    of_averages = ratios(whole, range(1, len(levels) + 1), 0, family, alpha)
    # Levels in different blocks have no rounds in common, so their error is estimated from preparations alone.
    inside = [{int(fitted.blocks[cell]) for pair in pairs for cell in pair} for pairs in levels]
    return [
        wider(one, of_averages[number]) if len(blocks) == 1 else one
        for number, (one, blocks) in enumerate(zip(found, inside, strict=True), start=1)
    ]


def _rounds(fitted: Fit, pairs: _Pairs) -> int:
    """The number of ratios within a round: for each pair, the rounds in which both cells ran."""
    there = ~np.isnan(fitted.log_s)
    return sum(int((there[one] & there[other]).sum()) for one, other in pairs)


def effect_of(
    found: Difference, factor: Factor, level: JsonValue, at: dict[str, JsonValue], pairs: int, *, across: bool
) -> Effect:
    """The effect of `level` relative to the factor's first level. It is untested if the two levels ran in different
    blocks (`across`)."""
    return Effect(
        factor=factor.name, level=level, baseline=factor.levels[0].value, at=at,
        ratio=Estimate(value=found.ratio.value) if across else found.ratio, pairs=pairs,
        distinguishable=found.distinguishable and not across, across_blocks=across,
    )  # fmt: skip


def _at_each(factor: Factor, cells: Sequence[Cell]) -> Iterator[list[_Row]]:
    others = combinations(cells, factor)
    if len(others) > 1 and len(others) * (len(factor.levels) - 1) <= EFFECT_ROWS_MAX:
        for fixed in others:
            yield _rows(factor, cells, fixed, [fixed])


def _rows(
    factor: Factor, cells: Sequence[Cell], fixed: dict[str, JsonValue], among: Sequence[dict[str, JsonValue]]
) -> list[_Row]:
    """All levels of a factor except the first, each with its pairs of cells in the combinations `among`."""
    at = {key(cell.levels): index for index, cell in enumerate(cells)}
    first, *others = (level.value for level in factor.levels)

    def pairs(level: JsonValue) -> list[tuple[int, int]]:
        """The places of cells that differ only in the factor: (at `level`, at the first level). Combinations that the
        spec excludes have no pair."""
        found = [tuple(at.get(key({**rest, factor.name: one}), -1) for one in (level, first)) for rest in among]
        return [(one, other) for one, other in found if one >= 0 and other >= 0]

    return [_Row(factor, level, fixed, pairs(level)) for level in others]


def _across(pairs: Sequence[tuple[int, int]], blocks: Sequence[int]) -> bool:
    return any(blocks[one] != blocks[other] for one, other in pairs)


def combinations(cells: Sequence[Cell] | Sequence[CellSummary], factor: Factor) -> list[dict[str, JsonValue]]:
    """The combinations of the other factors' levels that occur in the cells, in the order of the cells."""
    others = ({name: value for name, value in cell.levels.items() if name != factor.name} for cell in cells)
    return list({key(levels): levels for levels in others}.values())


def key(levels: Mapping[str, JsonValue]) -> _Key:
    """A text that identifies a combination of levels, for use as a key of dicts. The levels themselves can't be keys,
    because some are lists, and because True equals 1 in Python."""
    return repr(sorted(levels.items()))
