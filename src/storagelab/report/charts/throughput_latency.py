"""Throughput against latency: how much longer transactions take as more of them are done, a line for each layout."""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.report.charts.latency import by_load
from storagelab.report.charts.throughput import UNIT, of_set_time
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import MAX_LINES, choose, in_order, must_show
from storagelab.report.drawing.chart import Chart, Figure, Row
from storagelab.report.drawing.layers import TIP, legend_layout, only
from storagelab.report.drawing.vega import Form, Sheet, Spec, finished
from storagelab.report.words import compared
from storagelab.report.words.table import Heading, Table, bare
from storagelab.words import numbers
from storagelab.words.names import cell_entry

_USUAL = "p99"
_SIDES = {"above": (0, -11), "below": (0, 12), "right": (0, 0), "left": (0, 0)}
"""Where a point's label may stand, by preference, and how many pixels its middle is off the point's; beside it, its
length decides.
"""
_LETTER_PX = 7
_MARK_PX = 9


def _figure_name(findings: Findings) -> str:
    """The figure of latency that is judged, else p99."""
    return findings.compared.removeprefix("latency-") if compared.by_latency(findings) else _USUAL


def _title(findings: Findings) -> str:
    return f"Throughput against {_figure_name(findings)} latency"


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """A row for each cell: transactions a second and milliseconds, in the order of the load."""
    name, places = _figure_name(findings), by_load(findings)
    cells = [cell for cell in of_set_time(findings) if name in cell.latency]
    every = in_order(map(places.line_of, cells))
    lines = choose(every, map(places.line_of, must_show(findings)), MAX_LINES)
    levels = places.x_levels(cells)
    shown = [cell for cell in cells if places.line_of(cell) in lines] if len(cells) > 1 else []
    rows: list[Row] = [
        {
            "line": places.line_of(cell), "level": places.x_of(cell), "step": levels.index(places.x_of(cell)),
            "cell_id": cell.cell_id, "cell": cell.text,
            "rate": _rate(cell), "ms": 1e3 * cell.latency[name].value,
            "tip": f"{cell.name}: {numbers.rows_per_s(_rate(cell), UNIT)}, {name} "
            f"{compared.milliseconds(cell.latency[name])}",
        }
        for cell in shown
    ]  # fmt: skip
    return Figure(
        rows=rows, arrangement=places, lines=lines, colours=dict(zip(lines, palette.LINES, strict=False)),
        hidden_lines=len(every) - len(lines), legend=name,
    )  # fmt: skip


def _rate(cell: CellSummary) -> float:
    return cell.rows_per_s.mean.value if cell.rows_per_s is not None else 0.0


def _draw(data: Figure, sheet: Sheet) -> Spec:
    form, where = sheet.form, sheet.where
    x = {"field": "rate", "type": "quantitative", "title": f"{UNIT} ({where})", "scale": {"zero": True}}
    y = {
        "field": "ms",
        "type": "quantitative",
        "title": f"{data.legend} latency, ms ({where})",
        "scale": {"zero": True},
    }
    encoding: Spec = {"x": x, "y": y}
    colour: Spec = {"color": palette.LINES[0]}
    plain = encoding
    if len(data.lines) > 1:
        legend = {
            "title": f"{data.arrangement.line_title} ({where})",
            "symbolOpacity": 1,
            **legend_layout(data.lines, form),
        }
        key = {"field": "line", "type": "nominal", "sort": data.lines}
        plain = encoding | {"color": key | {"scale": {"domain": data.lines, "range": list(data.colours.values())},
                                            "legend": legend}}  # fmt: skip
        shapes = {"domain": data.lines, "range": list(palette.SHAPES[: len(data.lines)])}
        encoding, colour = plain | {"shape": key | {"scale": shapes, "legend": legend}}, {}
    order = {"order": {"field": "step", "type": "quantitative"}, "detail": {"field": "line"}}
    line = {
        "mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.55, "aria": False} | colour,
        "encoding": plain | order,
    }
    layers: list[Spec] = [
        *([line] if data.arrangement.is_ordered else []),
        {"mark": {"type": "point", "size": 66, "filled": True, "opacity": 1} | colour, "encoding": encoding | TIP},
        *(
            only(f"datum.side === '{side}'",
                 {"type": "text", "fontSize": form.font_px - 2, "color": palette.INK, "aria": False} | _at(side),
                 {"x": x, "y": y, "text": {"field": "level", "type": "nominal"}})
            for side in _SIDES
        ),
    ]  # fmt: skip
    return finished(sheet, f"; numbers: {data.arrangement.x_title}", layers, _with_sides(data.rows, form), [])


def _at(side: str) -> Spec:
    dx, dy = _SIDES[side]
    beside = {"right": {"align": "left", "dx": _MARK_PX}, "left": {"align": "right", "dx": -_MARK_PX}}
    return beside.get(side, {"dx": dx, "dy": dy})


def _with_sides(rows: Sequence[Row], form: Form) -> list[Row]:
    """The rows, each with the side of its point where its label meets no other label and no point; "" if there is none:
    the row's words and the table name it.
    """
    right, top = (max((float(row[key] or 0) for row in rows), default=0) or 1.0 for key in ("rate", "ms"))
    points = [
        (form.width_px * float(row["rate"] or 0) / right, -form.height_px * float(row["ms"] or 0) / top) for row in rows
    ]
    taken: list[_Box] = [(x, y, _MARK_PX, _MARK_PX) for x, y in points]
    found = []
    for row, (x, y) in zip(rows, points, strict=True):
        width = _LETTER_PX * len(str(row["level"]))
        boxes = {side: _box(side, x, y, width) for side in _SIDES}
        free = (side for side, box in boxes.items() if not any(_meet(box, one) for one in taken if one[:2] != (x, y)))
        side = next(free, "")
        if side:
            taken.append(boxes[side])
        found.append(row | {"side": side})
    return found


_Box = tuple[float, float, float, float]
"""The middle of a rectangle, its width and its height, in pixels."""


def _box(side: str, x: float, y: float, width: float) -> _Box:
    dx, dy = _SIDES[side]
    beside = {"right": 1, "left": -1}.get(side, 0)
    return x + dx + beside * (_MARK_PX + width / 2), y + dy, width, 12


def _meet(one: _Box, other: _Box) -> bool:
    return abs(one[0] - other[0]) < (one[2] + other[2]) / 2 and abs(one[1] - other[1]) < (one[3] + other[3]) / 2


def _caption(data: Figure, _findings: Findings) -> str:
    hidden = f" {data.hidden_lines} more lines are not drawn." if data.hidden_lines else ""
    return f"Right is more, down is sooner. The labels are the {data.arrangement.x_title}.{hidden}"


def _table(data: Figure, _findings: Findings) -> Table:
    headings = [Heading("cell", "prose"), Heading(UNIT), Heading(f"{data.legend}, ms")]
    return Table(
        headings, [[cell_entry(row["cell_id"], row["cell"]), bare(row["rate"]), bare(row["ms"])] for row in data.rows]
    )


CHART = Chart("throughput-latency", "completion-time", _title, _rows, _draw, _caption, _table, place=3)
