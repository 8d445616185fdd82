"""The rows that charts draw and that the tables beneath them show: the same numbers for both. Pure.

Each row is a flat dict, as Vega-Lite takes it. `tip` is the row in words: the tooltip, and the mark's name in the SVG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from storagelab.findings.model import CellSummary, Effect, Findings
from storagelab.findings.wait_classes import in_classes
from storagelab.model.waits import Category
from storagelab.report.drawing import arrange as arranging
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import Arrangement, choose, in_order
from storagelab.report.words import compared, numbers
from storagelab.report.words.names import cell_text, factor_text, level_text, value_text

Row = dict[str, str | float | int | bool | None]
MAX_WAIT_TYPES = 8
MAX_RAW_POINTS = 1_500
MAX_EFFECTS = 32
LONGEST_EFFECT = 60
"""Characters of a comparison; where one is longer, none names its baseline, which the chart then says once."""
OTHER_WAITS = "smaller waits"
REMAINDER = "finished early or unexplained"


@dataclass(frozen=True)
class Figure:
    """What one chart shows: rows per layer, its orders, and how much there was no room for."""

    rows: list[Row]
    arrangement: Arrangement
    x_levels: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    panels: list[str] = field(default_factory=list)
    points: list[Row] = field(default_factory=list)
    colours: dict[str, str] = field(default_factory=dict)
    hidden_panels: int = 0
    hidden_lines: int = 0
    hidden_points: int = 0
    legend: str = ""


# ---------------------------------------------------------------------------------------------------------------------
# Completion time
# ---------------------------------------------------------------------------------------------------------------------


def completion_time(findings: Findings) -> Figure:
    """One row per cell (`mean_s`, `low_s`, `high_s`) and one point per run (`elapsed_s`)."""
    places = arranging.arrange(findings)
    timed = not compared.of_raw_io(findings)
    measured = [cell for cell in findings.cells if timed and cell.elapsed_s is not None]
    must = must_show(findings)
    all_lines, all_panels = in_order(map(places.line_of, measured)), in_order(map(places.panel_of, measured))
    lines = choose(all_lines, [places.line_of(cell) for cell in must], arranging.MAX_LINES)
    panels = choose(all_panels, [places.panel_of(cell) for cell in must], places.most_panels)
    shown = [cell for cell in measured if places.line_of(cell) in lines and places.panel_of(cell) in panels]
    points = [row for cell in shown for row in _run_points(cell, places)]
    return Figure(
        rows=[_cell_row(cell, places) for cell in shown],
        points=points if len(points) <= MAX_RAW_POINTS else [],
        arrangement=places,
        x_levels=places.x_levels(measured),
        lines=lines,
        panels=panels,
        colours=dict(zip(lines, palette.LINES, strict=False)),
        hidden_lines=len(all_lines) - len(lines),
        hidden_panels=len(all_panels) - len(panels),
        hidden_points=len(points) if len(points) > MAX_RAW_POINTS else 0,
    )


def must_show(findings: Findings) -> list[CellSummary]:
    """The ends of the experiment, which no chart may leave out."""
    return [cell for cell in findings.cells if cell.cell_id in arranging.ends(findings)]


def _place(cell: CellSummary, places: Arrangement) -> Row:
    return {"x": places.x_of(cell), "line": places.line_of(cell), "panel": places.panel_of(cell)}


def _cell_row(cell: CellSummary, places: Arrangement) -> Row:
    assert cell.elapsed_s is not None
    mean = cell.elapsed_s.mean
    runs = len(cell.elapsed_s.points)
    return _place(cell, places) | {
        "cell_id": cell.cell_id,
        "mean_s": mean.value,
        "low_s": mean.low,
        "high_s": mean.high,
        "tip": f"{cell_text(cell.levels)}: mean {numbers.seconds_estimate(mean)}, {runs} run{'s' * (runs != 1)}",
    }


def _run_points(cell: CellSummary, places: Arrangement) -> list[Row]:
    assert cell.elapsed_s is not None
    return [
        _place(cell, places)
        | {
            "elapsed_s": point.value,
            "tip": f"{cell_text(cell.levels)}, repetition {point.repetition}: {numbers.seconds(point.value)}",
        }
        for point in cell.elapsed_s.points
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Waits
# ---------------------------------------------------------------------------------------------------------------------


def waits(findings: Findings) -> Figure:
    """One row per cell and part of its connections x elapsed: `low` to `high` of the stack, shares from 0 to 1.

    Where engines are compared the parts are classes of waits: their own names would stand in no two engines' stacks.
    """
    places = arranging.arrange(findings)
    cells = [cell for cell in findings.cells if cell.waits and cell.available_s]
    if findings.wait_names:
        cells = [cell.model_copy(update={"waits": in_classes(cell.waits)}) for cell in cells]
    must = [places.others_of(cell) for cell in must_show(findings)]
    all_panels = in_order(map(places.others_of, cells))
    panels = choose(all_panels, must, arranging.MAX_PANELS if places.lines else places.most_panels)
    shown = [cell for cell in cells if places.others_of(cell) in panels]
    colours = _wait_colours(cells)
    return Figure(
        rows=[row for cell in shown for row in _stack(cell, places, colours)],
        arrangement=places,
        x_levels=places.x_levels(cells),
        lines=list(colours),
        panels=panels,
        colours=colours,
        hidden_panels=len(all_panels) - len(panels),
    )


def _shares(cell: CellSummary) -> dict[str, float]:
    return {row.wait_type: row.wait_s / cell.available_s for row in cell.waits} if cell.available_s else {}


def _wait_colours(cells: Sequence[CellSummary]) -> dict[str, str]:
    """Parts of the stack from the bottom up with their colours.

    The waits that take most are named; of these the ones that move most from cell to cell stand at the bottom, where
    heights can be compared.
    """
    shares = [_shares(cell) for cell in cells]
    kinds: dict[str, tuple[Category, bool]] = {
        row.wait_type: (row.category, row.is_wait) for cell in cells for row in cell.waits
    }
    named = [name for name, (_, is_wait) in kinds.items() if is_wait and any(share.get(name) for share in shares)]
    largest = sorted(named, key=lambda name: -max(share.get(name, 0.0) for share in shares))[:MAX_WAIT_TYPES]
    largest.sort(key=lambda name: -_movement([share.get(name, 0.0) for share in shares]))
    cpu = [name for name, (_, is_wait) in kinds.items() if not is_wait]
    colours = dict(zip(largest, palette.shades([kinds[name][0] for name in largest]), strict=True))
    if len(named) > len(largest):
        colours[OTHER_WAITS] = palette.CATEGORY["other"]
    return colours | dict.fromkeys(cpu, palette.CATEGORY["cpu"]) | {REMAINDER: palette.REMAINDER}


def _movement(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _stack(cell: CellSummary, places: Arrangement, colours: Mapping[str, str]) -> list[Row]:
    shares = _shares(cell)
    parts = {name: shares.get(name, 0.0) for name in colours if name not in (OTHER_WAITS, REMAINDER)}
    if OTHER_WAITS in colours:
        parts[OTHER_WAITS] = sum(share for name, share in shares.items() if name not in parts)
    parts[REMAINDER] = max(0.0, 1 - sum(shares.values()))
    analogues = {row.wait_type: row.analogue for row in cell.waits}
    rows: list[Row] = []
    low = 0.0
    for order, name in enumerate(colours):
        high = low + parts[name]
        known = analogues.get(name, "")
        rows.append(
            {
                "x": places.x_of(cell), "panel": places.others_of(cell), "line": "", "cell_id": cell.cell_id,
                "part": name, "order": order, "low": low, "high": high, "share": parts[name],
                "middle": (low + high) / 2,
                "label": numbers.percent(parts[name]) if parts[name] >= 0.06 else "",
                # The remainder's ground turns dark in dark mode, and the page's own ink with it.
                "ink": palette.INK if name == REMAINDER else palette.ink_on(colours[name]),
                "tip": f"{name}{f' (SQL Server: {known})' if known and known[0] != '(' else ''}: "
                       f"{numbers.percent(parts[name])} of connections × elapsed; {cell_text(cell.levels)}",
            }
        )  # fmt: skip
        low = high
    return rows


# ---------------------------------------------------------------------------------------------------------------------
# Effects
# ---------------------------------------------------------------------------------------------------------------------


def effect_text(effect: Effect) -> str:
    """ "data files: 4 against 1"."""
    where = f" ({level_text(effect.at)})" if effect.at else ""
    return f"{factor_text(effect.factor)}: {value_text(effect.level)} against {value_text(effect.baseline)}{where}"


def effects(findings: Findings) -> Figure:
    """One row per level against its factor's baseline, over all cells: change of completion time in per cent."""
    overall = [effect for effect in findings.effects if not effect.at]
    shown = overall[:MAX_EFFECTS]
    short = any(len(effect_text(effect)) > LONGEST_EFFECT for effect in shown)
    rows: list[Row] = [
        {
            "effect": f"{factor_text(effect.factor)}: {value_text(effect.level)}" if short else effect_text(effect),
            "change_percent": 100 * (effect.ratio.value - 1),
            "low_percent": None if effect.ratio.low is None else 100 * (effect.ratio.low - 1),
            "high_percent": None if effect.ratio.high is None else 100 * (effect.ratio.high - 1),
            "judged": judged(effect),
            "tip": f"{effect_text(effect)}: {_changed(findings, effect)}; {judged(effect)}",
        }
        for effect in shown
    ]
    return Figure(rows=rows, arrangement=arranging.arrange(findings), hidden_lines=len(overall) - len(shown))


def _changed(findings: Findings, effect: Effect) -> str:
    per = compared.per(findings)
    if effect.across_blocks:
        return f"{numbers.change(effect.ratio.value, per=per)} (not tested: in another block)"
    return numbers.change_estimate(effect.ratio, per)


FASTER, SLOWER, UNDECIDED = "less time", "more time", "can't be told apart"


def judged(effect: Effect) -> str:
    if not effect.distinguishable:
        return UNDECIDED
    return FASTER if effect.ratio.value < 1 else SLOWER
