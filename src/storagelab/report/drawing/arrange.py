"""Decides which factor is the axis of a chart, which factors are its lines, and which are its panels. Pure.

The axis is the number of data files if it varies, else the numeric factor with the most levels, else the factor with
the most levels. If the other factors have few combinations, each combination is a line of one panel. Otherwise, one
factor makes the lines, and the others make the panels. If cells don't fit, the chart says how many. A chart always
shows the fastest, the slowest and the recommended cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from storagelab.findings import answer as answers
from storagelab.findings.model import CellSummary, Findings
from storagelab.model.plan import Factor
from storagelab.model.values import JsonValue
from storagelab.report.words.compared import ends
from storagelab.report.words.ladder import shared
from storagelab.spec.naming import axis_factor
from storagelab.spec.naming import in_order as levels_in_order
from storagelab.words.names import cell_text, is_number, level_text, title_of, value_text

MAX_LINES = 8
MAX_LINES_OF_COMBINATIONS = 4
MAX_PANELS = 15
"""The largest number of panels that are readable on a sheet of paper."""
CHOSEN_CELLS = 4


@dataclass(frozen=True)
class Arrangement:
    """The factors that place cells in a chart. `x` is None for an experiment of one cell."""

    x: Factor | None
    lines: tuple[Factor, ...]
    panels: tuple[Factor, ...]

    @property
    def x_title(self) -> str:
        return title_of(self.x) if self.x else ""

    @property
    def line_title(self) -> str:
        return " · ".join(map(title_of, self.lines))

    def x_of(self, cell: CellSummary) -> str:
        return value_text(cell.levels[self.x.name]) if self.x and self.x.name in cell.levels else "all runs"

    def line_of(self, cell: CellSummary) -> str:
        """Returns the label of a cell's line. If one factor makes the lines, the label is only the level, because the
        legend's title names the factor.
        """
        if len(self.lines) == 1:
            return value_text(cell.levels[self.lines[0].name])
        return _levels(cell, self.lines)

    def panel_of(self, cell: CellSummary) -> str:
        return _levels(cell, self.panels)

    def x_levels(self, cells: Iterable[CellSummary]) -> list[str]:
        """Returns the labels along the axis for `cells`, numbers from small to large. If all levels are powers of two,
        missing powers between them are added, so that equal steps are equal ratios.
        """
        there = in_order(map(self.x_of, cells))
        if self.x is None:
            return there
        levels = [value for value in levels_in_order(self.x) if value_text(value) in there]
        return [value_text(value) for value in self._powers(levels) or levels]

    @property
    def is_ordered(self) -> bool:
        """Whether levels along the axis are amounts. Only then does a line that joins them have a meaning."""
        return self.x is not None and all(is_number(one.value) for one in self.x.levels)

    @property
    def doubles(self) -> bool:
        """Whether each step of the axis doubles the value."""
        return self.x is not None and bool(self._powers(levels_in_order(self.x)))

    def _powers(self, levels: Sequence[JsonValue]) -> list[JsonValue]:
        """Returns all powers of two from the first level to the last. [] if there are other levels, or if fewer than
        half of the powers are levels.
        """
        known = [level for level in levels if isinstance(level, int) and not isinstance(level, bool) and level > 0]
        if len(known) < max(3, len(levels)) or any(level & (level - 1) for level in known):
            return []
        powers = [2**power for power in range(known[0].bit_length() - 1, known[-1].bit_length())]
        return list(powers) if len(powers) <= 2 * len(known) else []


def _levels(cell: CellSummary, factors: Sequence[Factor]) -> str:
    levels = {factor.name: cell.levels[factor.name] for factor in factors if factor.name in cell.levels}
    return cell_text(levels, cell.labels) if levels else ""


def arrange(findings: Findings) -> Arrangement:
    """Decides how the cells of an experiment are placed in a chart."""
    varied = tuple(factor for factor in findings.factors if len(factor.levels) > 1) or findings.factors[:1]
    x = axis_factor(varied) or max(varied, key=lambda factor: len(factor.levels), default=None)
    others = tuple(factor for factor in varied if factor is not x)
    limit = MAX_LINES if len(others) < 2 else MAX_LINES_OF_COMBINATIONS
    if len({_levels(cell, others) for cell in findings.cells}) <= limit:
        return Arrangement(x=x, lines=others, panels=())
    fitting = [factor for factor in others if len(factor.levels) <= MAX_LINES]
    line = max(fitting, key=lambda factor: len(factor.levels), default=None)
    panels = tuple(factor for factor in others if factor is not line)
    return Arrangement(x=x, lines=() if line is None else (line,), panels=panels)


def in_order(texts: Iterable[str]) -> list[str]:
    """Returns the texts without duplicates, in the order of their first occurrence."""
    return list(dict.fromkeys(texts))


def choose(texts: Sequence[str], first: Iterable[str], limit: int) -> list[str]:
    """Returns at most `limit` of `texts`, in their order. Those in `first` have priority, then the first and the last
    one, then evenly spread ones.
    """
    if len(texts) <= limit:
        return list(texts)
    wanted = in_order([*(text for text in first if text in set(texts)), texts[0], texts[-1]])
    step = (len(texts) - 1) / max(1, limit - 1)
    spread = (texts[round(index * step)] for index in range(limit))
    kept = set(in_order([*wanted, *spread, *texts])[:limit])
    return [text for text in texts if text in kept]


def must_show(findings: Findings) -> list[CellSummary]:
    """Returns the cells that no chart may leave out: the fastest, the slowest and the recommended ones."""
    must = {*ends(findings), *recommended(findings)}
    return [cell for cell in findings.cells if cell.cell_id in must]


def recommended(findings: Findings) -> frozenset[str]:
    """Returns the ids of the cells whose layout the answer recommends."""
    return answers.recommended(findings, answers.answer(findings))


def notable_cells(findings: Findings, limit: int) -> list[CellSummary]:
    """Returns at most `limit` cells with a time, in their order. The fastest and the slowest have priority, then the
    first and the last, then evenly spread ones.
    """
    cells = [cell for cell in findings.cells if cell.elapsed_s is not None]
    kept = set(choose([cell.cell_id for cell in cells], filter(None, ends(findings)), limit))
    return [cell for cell in cells if cell.cell_id in kept]


def chosen_cells(findings: Findings) -> list[CellSummary]:
    """Returns the cells to look at first: the fastest cell, the cells with its other levels at the first and the last
    level of the axis, the slowest cell, and a recommended one. If there are few cells, all are returned.
    """
    cells = [cell for cell in findings.cells if cell.elapsed_s is not None]
    fastest, slowest = ends(findings)
    x = arrange(findings).x
    if len(cells) <= CHOSEN_CELLS:
        return cells
    if fastest is None or x is None:
        return notable_cells(findings, CHOSEN_CELLS)
    best = findings.cell(fastest).levels
    beside = [cell for cell in cells if all(cell.levels.get(name) == best[name] for name in best if name != x.name)]
    order = {value_text(value): place for place, value in enumerate(levels_in_order(x))}
    beside.sort(key=lambda cell: order.get(value_text(cell.levels[x.name]), 0))
    wanted = {beside[0].cell_id, fastest, beside[-1].cell_id}
    chosen = [cell for cell in beside if cell.cell_id in wanted]
    pick = min(recommended(findings) - wanted, default=None) if not recommended(findings) & wanted else None
    return chosen + [cell for cell in cells if cell.cell_id in {slowest, pick} - wanted]


def short_names(cells: Sequence[CellSummary]) -> list[str]:
    """Returns the names of cells, without the levels that all of them share. A single cell has its full name."""
    if len(cells) < 2:
        return [cell.text for cell in cells]
    common = shared(cells)
    own = ({name: value for name, value in cell.levels.items() if name not in common} for cell in cells)
    return [cell_text(levels, cell.labels) for levels, cell in zip(own, cells, strict=True)]


def shared_levels(cells: Sequence[CellSummary]) -> str:
    """Returns the levels that `short_names` leaves out, as text."""
    return level_text(shared(cells)) if len(cells) > 1 else ""
