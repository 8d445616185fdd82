"""Rows for the charts that set cells beside each other along the axis: speed-ups of levels, and what drives did. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from storagelab.findings.model import CellSummary, DriveState, Effect, Findings
from storagelab.report.charts.figure_data import Figure, Row, must_show
from storagelab.report.drawing import arrange as arranging
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import Arrangement, choose, in_order
from storagelab.report.words import numbers
from storagelab.report.words.names import cell_text, factor_text, listed, phrase, value_text
from storagelab.report.words.numbers import inverse

MAX_SPEED_UPS = 6
MAX_DRIVES = 2
STATE_MOVES_LEAST = 0.02
"""Drives whose write amplification differs by less between cells need no chart."""


# ---------------------------------------------------------------------------------------------------------------------
# Speed-ups
# ---------------------------------------------------------------------------------------------------------------------


def compared_factors(findings: Findings) -> list[str]:
    """The factors with a chart of speed-ups, those first that do most."""
    size: dict[str, float] = {}
    for effect in findings.speed_ups:
        size[effect.factor] = max(size.get(effect.factor, 0.0), abs(math.log(effect.ratio.value)))
    return sorted(size, key=lambda name: -size[name])[:MAX_SPEED_UPS]


def speed_ups(findings: Findings, factor: str) -> Figure:
    """Rows `speed_up`, `low`, `high` per level of `factor` and level of the axis: time of the first level over its time,
    so that 2 is twice as fast. A level is a line; of more than there are lines, each has a panel."""
    places = arranging.arrange(findings)
    effects = [effect for effect in findings.speed_ups if effect.factor == factor]
    moves: dict[str, float] = {}
    for effect in effects:
        line = value_text(effect.level)
        moves[line] = max(moves.get(line, 0.0), abs(math.log(effect.ratio.value)))
    many = len(moves) > arranging.MAX_LINES
    most = arranging.MAX_PANELS_OF_ONE_FACTOR if many else arranging.MAX_LINES
    levels = choose(list(moves), sorted(moves, key=lambda line: -moves[line])[:most], most)
    lines, panels = ([""], levels) if many else (levels, [""])
    of_factor = next(one for one in findings.factors if one.name == factor)
    axis = places.x.name if places.x else ""
    return Figure(
        rows=[_speed_up(effect, axis, many) for effect in effects if value_text(effect.level) in levels],
        arrangement=Arrangement(x=places.x, lines=(of_factor,), panels=()),
        x_levels=places.x_levels(findings.cells),
        lines=lines,
        panels=panels,
        colours=dict(zip(lines, palette.LINES, strict=False)),
        hidden_lines=len(moves) - len(levels),
    )


def _speed_up(effect: Effect, axis: str, in_panels: bool) -> Row:
    ratio = inverse(effect.ratio)
    where = phrase(axis, [effect.at[axis]])
    what = f"{value_text(effect.level)} against {value_text(effect.baseline)} with {where}"
    return {
        "x": value_text(effect.at[axis]), "line": "" if in_panels else value_text(effect.level),
        "panel": value_text(effect.level) if in_panels else "",
        "speed_up": ratio.value, "low": ratio.low, "high": ratio.high, "what": what,
        "judged": _judged(effect), "tip": f"{what}: {speed_up_text(effect)}; {_judged(effect)}",
    }  # fmt: skip


def _judged(effect: Effect) -> str:
    if effect.across_blocks:
        return "not tested: in another block"
    if not effect.distinguishable:
        return "can't be told apart"
    return "faster" if effect.ratio.value < 1 else "slower"


def speed_up_text(effect: Effect) -> str:
    """ "2.4 times as fast (joint 95 % CI 2.2 to 2.6)"."""
    ratio = inverse(effect.ratio)
    interval = (
        "" if ratio.low is None or ratio.high is None else f" (joint 95 % CI {ratio.low:.2f} to {ratio.high:.2f})"
    )
    return f"{ratio.value:.2f} times as fast{interval}"


def speed_up_title(findings: Findings, factor: str) -> str:
    """ "Speed-up against storage = scsi"."""
    baseline = next(one for one in findings.factors if one.name == factor).levels[0].value
    return f"Speed-up against {phrase(factor, [baseline])}"


def averaged(findings: Findings, factor: str) -> str:
    """The factors that a chart of speed-ups averages over, in words; "" for none."""
    axis = arranging.arrange(findings).x
    left = [
        one.name for one in findings.factors if len(one.levels) > 1 and one.name not in (factor, axis and axis.name)
    ]
    return listed([factor_text(name) for name in left])


# ---------------------------------------------------------------------------------------------------------------------
# Drives
# ---------------------------------------------------------------------------------------------------------------------


def write_amplification(findings: Findings) -> Figure:
    """Rows `mean`, `low`, `high` per cell, in the places of its completion time; of several drives that which moves most.

    No rows where no drive tells, or all cells are alike.
    """
    drive = _drive_that_moves(findings)
    places = arranging.arrange(findings)
    cells = [cell for cell in findings.cells if drive and state_of(cell, drive, "write_amplification") is not None]
    must = must_show(findings)
    lines = choose(in_order(map(places.line_of, cells)), [places.line_of(cell) for cell in must], arranging.MAX_LINES)
    panels = choose(in_order(map(places.panel_of, cells)), [places.panel_of(cell) for cell in must], places.most_panels)
    return Figure(
        rows=[
            _state_row(cell, places, drive)
            for cell in cells
            if places.line_of(cell) in lines and places.panel_of(cell) in panels
        ],
        arrangement=places,
        x_levels=places.x_levels(cells),
        lines=lines,
        panels=panels,
        colours=dict(zip(lines, palette.LINES, strict=False)),
    )


def drives(findings: Findings) -> list[str]:
    """The drives that tell anything, by name; of many, as a volume of several holds, those that differ most."""
    names = in_order(state.drive for cell in findings.cells for state in cell.drive_states)
    moving = sorted(names, key=lambda name: -_range(findings.cells, name))[:MAX_DRIVES]
    return [name for name in names if name in moving]


def state_of(cell: CellSummary, drive: str, quantity: str) -> DriveState | None:
    return next((one for one in cell.drive_states if (one.drive, one.quantity) == (drive, quantity)), None)


def _drive_that_moves(findings: Findings) -> str:
    moves = {drive: _range(findings.cells, drive) for drive in drives(findings)}
    drive = max(moves, key=lambda name: moves[name], default="")
    return drive if drive and moves[drive] >= STATE_MOVES_LEAST else ""


def _range(cells: Sequence[CellSummary], drive: str) -> float:
    known = [state.mean.value for cell in cells if (state := state_of(cell, drive, "write_amplification")) is not None]
    return max(known, default=0.0) - min(known, default=0.0)


def _state_row(cell: CellSummary, places: Arrangement, drive: str) -> Row:
    written, used = (state_of(cell, drive, name) for name in ("write_amplification", "utilisation"))
    assert written is not None
    mean = written.mean
    interval = "" if mean.low is None or mean.high is None else f" (95 % CI {mean.low:.2f} to {mean.high:.2f})"
    utilised = f", utilisation {numbers.percent(used.mean.value)}" if used is not None else ""
    time = f", mean time {numbers.seconds(cell.elapsed_s.mean.value)}" if cell.elapsed_s is not None else ""
    return {
        "x": places.x_of(cell), "line": places.line_of(cell), "panel": places.panel_of(cell), "cell_id": cell.cell_id,
        "drive": drive, "mean": mean.value, "low": mean.low, "high": mean.high,
        "tip": f"{cell_text(cell.levels)}: write amplification of drive {drive} {mean.value:.2f}{interval}{utilised}{time}",
    }  # fmt: skip
