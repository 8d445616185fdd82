"""Effects of each level against the factor's first level: overall, and at each combination of the other factors.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from storagelab.findings import stats
from storagelab.findings.differences import Difference
from storagelab.findings.model import CellSummary, Effect, Estimate
from storagelab.model.plan import Cell, Factor
from storagelab.model.values import JsonValue

EFFECT_ROWS_MAX = 40
"""The most effects per combination of the other factors: nobody reads a longer table."""

_Key = str


@dataclass(frozen=True)
class _Row:
    """One effect to estimate: the pairs of cells that show it."""

    factor: Factor
    level: JsonValue
    at: dict[str, JsonValue]
    pairs: list[tuple[int, int]]


def main_effects(
    factors: Sequence[Factor], cells: Sequence[Cell], fitted: stats.Fit, blocks: Sequence[int], alpha: float
) -> Iterator[Effect]:
    """Each level against its factor's first, over all matched cells: one family of comparisons, over all factors.

    The larger the family, the surer each statement must be. Levels in different blocks are not tested and do not count
    in it.
    """
    yield from _judged([_overall(factor, cells) for factor in _varied(factors)], fitted, blocks, alpha)


def effects_at(
    factors: Sequence[Factor], cells: Sequence[Cell], fitted: stats.Fit, blocks: Sequence[int], alpha: float
) -> Iterator[Effect]:
    """The same at each combination of the other factors, if there are not too many: also one family."""
    yield from _judged(
        [group for factor in _varied(factors) for group in _at_each(factor, cells)], fitted, blocks, alpha
    )


def _varied(factors: Sequence[Factor]) -> list[Factor]:
    return [factor for factor in factors if len(factor.levels) > 1]


def _judged(
    groups: Sequence[Sequence[_Row]], fitted: stats.Fit, blocks: Sequence[int], alpha: float
) -> Iterator[Effect]:
    family = max(1, sum(bool(row.pairs) and not _across(row.pairs, blocks) for group in groups for row in group))
    for group in groups:
        for row, found in zip(group, stats.effects(fitted, [row.pairs for row in group], family, alpha), strict=True):
            if found is not None:
                yield effect_of(found, row.factor, row.level, row.at, across=_across(row.pairs, blocks))


def effect_of(found: Difference, factor: Factor, level: JsonValue, at: dict[str, JsonValue], *, across: bool) -> Effect:
    """The effect of `level` against the factor's first one; untested if the two were run in different blocks."""
    return Effect(
        factor=factor.name, level=level, baseline=factor.levels[0].value, at=at,
        ratio=Estimate(value=found.ratio.value) if across else found.ratio, pairs=found.pairs,
        distinguishable=found.distinguishable and not across, across_blocks=across,
    )  # fmt: skip


def _overall(factor: Factor, cells: Sequence[Cell]) -> list[_Row]:
    return _rows(factor, cells, {}, combinations(cells, factor))


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
    baseline = factor.levels[0].value
    return [
        _Row(factor, level.value, fixed, _pairs(at, factor.name, level.value, baseline, among))
        for level in factor.levels[1:]
    ]


def _across(pairs: Sequence[tuple[int, int]], blocks: Sequence[int]) -> bool:
    return any(blocks[one] != blocks[other] for one, other in pairs)


def _pairs(
    at: Mapping[_Key, int], factor: str, level: JsonValue, baseline: JsonValue, among: Sequence[Mapping[str, JsonValue]]
) -> list[tuple[int, int]]:
    """Indices of cells that differ only in `factor`; excluded combinations have none."""
    found = ((at.get(key({**others, factor: level})), at.get(key({**others, factor: baseline}))) for others in among)
    return [(one, other) for one, other in found if one is not None and other is not None]


def combinations(cells: Sequence[Cell] | Sequence[CellSummary], factor: Factor) -> list[dict[str, JsonValue]]:
    """The combinations of the other factors' levels that occur, in the cells' order."""
    others = ({name: value for name, value in cell.levels.items() if name != factor.name} for cell in cells)
    return list({key(levels): levels for levels in others}.values())


def key(levels: Mapping[str, JsonValue]) -> _Key:
    """The dict key of a combination of levels: levels may be lists, and true is not 1."""
    return repr(sorted(levels.items()))
