"""The best case: at each level of the axis, the fastest of all cells tried there, beside the first that the spec
lists.

Drawn only if there is too much for one panel: among a few lines, the lowest is obvious.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from storagelab.findings.model import CellSummary, Effect, Findings
from storagelab.model.measurement import Run
from storagelab.report.charts.completion_time import time_axis
from storagelab.report.charts.speed_ups import speed_up_text
from storagelab.report.document import Heading, Table, bare
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import Arrangement, arrange, in_order
from storagelab.report.drawing.chart import Chart, Figure, Row
from storagelab.report.drawing.layers import FIELDS, means_with_intervals
from storagelab.report.drawing.vega import Sheet, Spec
from storagelab.report.words import compared
from storagelab.spec.factors import is_load
from storagelab.words import numbers
from storagelab.words.names import phrase, value_text


def _title(findings: Findings) -> str:
    return f"Best case by {arrange(findings).x_title}"


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """Rows `mean`, `low`, `high`, `name` per level of the axis, of the first configuration and of the fastest."""
    places = arrange(findings)
    nothing = Figure(rows=[], arrangement=places)
    cells = [cell for cell in findings.cells if cell.elapsed_s is not None]
    if places.x is None or not places.panels or compared.by_rate(findings) or not compared.timed(findings):
        return nothing
    if any(is_load(factor) for factor in (*places.lines, *places.panels)):
        return nothing  # the fastest would be the one with the least to do
    others = in_order(map(places.others_of, cells))
    at = {x: [cell for cell in cells if places.x_of(cell) == x] for x in in_order(map(places.x_of, cells))}
    if len(at) < 2 or len(others) < 2:
        return nothing
    first, best = others[0], f"the fastest of {len(others)}"
    rows: list[Row] = []
    for x, there in at.items():
        baseline = next((cell for cell in there if places.others_of(cell) == first), None)
        fastest = min(there, key=lambda cell: cell.elapsed_s.mean.value if cell.elapsed_s is not None else math.inf)
        if baseline is not None:
            rows.append(_row(findings, baseline, places, first, x))
        rows.append(_row(findings, fastest, places, best, x))
    lines = [first, best]
    return Figure(
        rows=rows,
        arrangement=Arrangement(x=places.x, lines=(), panels=()),
        x_levels=places.x_levels(cells),
        lines=lines,
        panels=[""],
        colours=dict(zip(lines, (palette.LINES[1], palette.LINES[0]), strict=True)),
        legend="mean with 95 % interval",
    )


def _row(findings: Findings, cell: CellSummary, places: Arrangement, line: str, x: str) -> Row:
    assert cell.elapsed_s is not None
    mean = cell.elapsed_s.mean
    effect = _speed_up_of(findings, cell, places)
    faster = "" if effect is None else speed_up_text(effect)
    against = f"; {faster} against {phrase(effect.factor, [effect.baseline])}" if effect is not None else ""
    return {
        "x": x, "line": line, "panel": "", "cell_id": cell.cell_id, "mean": mean.value, "low": mean.low,
        "high": mean.high, "name": _name(cell, places), "against": faster,
        "tip": f"{cell.name}: mean {numbers.seconds_estimate(mean)}{against}",
    }  # fmt: skip


def _name(cell: CellSummary, places: Arrangement) -> str:
    """All levels except the axis's; a single other factor by its level alone."""
    others = (*places.lines, *places.panels)
    return value_text(cell.levels[others[0].name]) if len(others) == 1 else places.others_of(cell)


def _speed_up_of(findings: Findings, cell: CellSummary, places: Arrangement) -> Effect | None:
    """The speed-up of the only factor beside the axis, against its first level at the same place. Intervals hold
    together over all of these, so they also hold for one picked for its speed.
    """
    others = (*places.lines, *places.panels)
    if len(others) != 1 or places.x is None:
        return None
    level, at = cell.levels.get(others[0].name), cell.levels.get(places.x.name)
    found = (
        effect
        for effect in findings.speed_ups
        if effect.factor == others[0].name and effect.level == level and effect.at.get(places.x.name) == at
    )
    return next(found, None)


def _draw(data: Figure, sheet: Sheet) -> Spec:
    height = sheet.form.height_px * 3 // 4
    return means_with_intervals(data, sheet, "completion time, s", axis=time_axis(data), height=height)


def _caption(data: Figure, _findings: Findings) -> str:
    """A sentence on which level is fastest where."""
    axis = data.arrangement.x.name if data.arrangement.x is not None else ""
    named: dict[str, list[str]] = {}
    for row in data.rows:
        if row["line"] == data.lines[1]:
            named.setdefault(str(row["name"]), []).append(str(row["x"]))
    parts = [f"with {phrase(axis, _values(data, places))}: {name}" for name, places in named.items()]
    return f"The fastest by their means, {'; '.join(parts)}. Part of being the fastest is chance."


def _values(data: Figure, texts: Sequence[str]) -> list[str | int]:
    """Levels as they were given, so that one file reads "1 data file"."""
    known = data.arrangement.x.levels if data.arrangement.x is not None else ()
    by_text = {value_text(level.value): level.value for level in known}
    return [value if isinstance(value := by_text.get(text), int) else text for text in texts]


def _table(data: Figure, _findings: Findings) -> Table:
    """The first configuration and the fastest, level by level of the axis."""
    headings = [Heading(data.arrangement.x_title), Heading("which", "text"), Heading("configuration", "prose"),
                Heading("mean, s"), Heading("95 % from, s"), Heading("to, s"),
                Heading("against the first", "text")]  # fmt: skip
    rows = []
    for row in data.rows:
        which = "fastest" if row["line"] == data.lines[1] else "first"
        figures = [bare(row[key]) for key in FIELDS]
        rows.append([str(row["x"]), which, str(row["name"]), *figures, str(row["against"])])
    return Table(headings, rows)


CHART = Chart("best-case", "completion-time", _title, _rows, _draw, _caption, _table, place=1)
