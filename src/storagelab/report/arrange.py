"""Which factor goes along the axis, which makes the lines and which the panels. Pure.

The number of data files is the axis wherever it is varied, else the first factor is. Of the other factors a few
combinations are lines of one panel; more of them share panels. What there is no room for is counted, never dropped in
silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from storagelab.findings import CellSummary, Findings
from storagelab.model import Factor
from storagelab.report.names import DATA_FILES, factor_text, level_text, value_text

MAX_LINES = 8
MAX_LINES_OF_COMBINATIONS = 4
MAX_PANELS = 9


@dataclass(frozen=True)
class Arrangement:
    """How cells become places in a chart. `x` is None for an experiment of one cell."""

    x: Factor | None
    lines: tuple[Factor, ...]
    panels: tuple[Factor, ...]

    @property
    def x_title(self) -> str:
        return factor_text(self.x.name) if self.x else ""

    @property
    def line_title(self) -> str:
        return " · ".join(factor_text(factor.name) for factor in self.lines)

    def x_of(self, cell: CellSummary) -> str:
        return value_text(cell.levels[self.x.name]) if self.x and self.x.name in cell.levels else "all runs"

    def line_of(self, cell: CellSummary) -> str:
        """Levels alone where one factor makes the lines (the legend's title names it), else names and levels."""
        if len(self.lines) == 1:
            return value_text(cell.levels[self.lines[0].name])
        return _levels(cell, self.lines)

    def panel_of(self, cell: CellSummary) -> str:
        return _levels(cell, self.panels)

    def others_of(self, cell: CellSummary) -> str:
        """All that is not along the axis, in words."""
        return _levels(cell, (*self.lines, *self.panels))


def _levels(cell: CellSummary, factors: Sequence[Factor]) -> str:
    return level_text({factor.name: cell.levels[factor.name] for factor in factors if factor.name in cell.levels})


def arrange(findings: Findings) -> Arrangement:
    """The places of all cells of an experiment."""
    varied = tuple(factor for factor in findings.factors if len(factor.levels) > 1) or findings.factors[:1]
    x = next((factor for factor in varied if _sets_data_files(factor)), varied[0] if varied else None)
    others = tuple(factor for factor in varied if factor is not x)
    combinations = len({_levels(cell, others) for cell in findings.cells})
    if len(others) < 2 or combinations <= MAX_LINES_OF_COMBINATIONS:
        return Arrangement(x=x, lines=others, panels=())
    fitting = [factor for factor in others if len(factor.levels) <= MAX_LINES]
    line = max(fitting, key=lambda factor: len(factor.levels), default=others[0])
    return Arrangement(x=x, lines=(line,), panels=tuple(factor for factor in others if factor is not line))


def _sets_data_files(factor: Factor) -> bool:
    return factor.name == DATA_FILES or all(DATA_FILES in level.sets for level in factor.levels)


def in_order(texts: Iterable[str]) -> list[str]:
    """Each text once, in the order it is first seen."""
    return list(dict.fromkeys(texts))


def choose(texts: Sequence[str], first: Iterable[str], limit: int) -> list[str]:
    """At most `limit` of `texts`, in their order: those named in `first`, the two ends, then evenly spread ones."""
    if len(texts) <= limit:
        return list(texts)
    wanted = in_order([*(text for text in first if text in set(texts)), texts[0], texts[-1]])
    step = (len(texts) - 1) / max(1, limit - 1)
    spread = (texts[round(index * step)] for index in range(limit))
    kept = set(in_order([*wanted, *spread, *texts])[:limit])
    return [text for text in texts if text in kept]


def ends(findings: Findings) -> tuple[str | None, str | None]:
    """Ids of the cells with the smallest and the largest time, verdict or not; None for an end there is not."""
    fastest = findings.fastest or next(iter(findings.best), None)
    return fastest, findings.worst if findings.worst != fastest else None


def notable_cells(findings: Findings, limit: int) -> list[CellSummary]:
    """At most `limit` cells with figures, as listed: fastest, slowest, at each factor's extremes, then a spread."""
    cells = [cell for cell in findings.cells if cell.elapsed_s is not None]
    first = [cell_id for cell_id in ends(findings) if cell_id]
    first += [cell_id for factor in findings.factors for cell_id in _extremes(cells, factor)]
    kept = set(choose([cell.cell_id for cell in cells], first, limit))
    return [cell for cell in cells if cell.cell_id in kept]


def _extremes(cells: Sequence[CellSummary], factor: Factor) -> list[str]:
    values = (factor.levels[0].value, factor.levels[-1].value)
    found = (next((cell.cell_id for cell in cells if cell.levels.get(factor.name) == value), None) for value in values)
    return [cell_id for cell_id in found if cell_id is not None]
