"""Latency of every cell whose runs have a set time: by connections, rate or another factor, and against throughput."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.report.charts.rates import UNIT, of_set_time
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import MAX_LINES, Arrangement, arrange, choose, in_order, must_show
from storagelab.report.drawing.chart import ENDS, Chart, Figure, Row, figure_of_cells, table_of_cells
from storagelab.report.drawing.layers import TIP, dodged_rows, in_panels, means, only, told_apart
from storagelab.report.drawing.vega import Form, Sheet, Spec, figure, finished
from storagelab.report.words import compared
from storagelab.report.words.table import Heading, Table
from storagelab.spec.factors import is_load
from storagelab.words import numbers

PERCENTILES = ("p50", "p95", "p99")


def by_load(findings: Findings) -> Arrangement:
    """The load along the axis if one varies, else what other charts have there; all else are lines."""
    varied = [factor for factor in findings.factors if len(factor.levels) > 1] or list(findings.factors[:1])
    x = next(filter(is_load, varied), None) or arrange(findings).x
    return Arrangement(x=x, lines=tuple(factor for factor in varied if factor is not x), panels=())


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """A row for each cell and percentile, in milliseconds; a panel for each percentile."""
    cells = [cell for cell in of_set_time(findings) if cell.latency]
    places = by_load(findings)
    every = in_order(map(places.line_of, cells))
    lines = choose(every, map(places.line_of, must_show(findings)), MAX_LINES)
    rows = [
        _row(cell, name, places)
        for name in PERCENTILES for cell in cells if name in cell.latency and places.line_of(cell) in lines
    ]  # fmt: skip
    return Figure(
        rows=rows,
        arrangement=places,
        x_levels=places.x_levels(cells),
        lines=lines,
        panels=in_order(str(row["panel"]) for row in rows),
        colours=dict(zip(lines, palette.LINES, strict=False)),
        hidden_lines=len(every) - len(lines),
    )


def _row(cell: CellSummary, name: str, places: Arrangement) -> Row:
    found = cell.latency[name]
    value, low, high = (None if one is None else 1e3 * one for one in (found.value, found.low, found.high))
    return {
        "x": places.x_of(cell), "line": places.line_of(cell), "panel": name, "cell_id": cell.cell_id,
        "cell": cell.text, "mean": value, "low": low, "high": high,
        "tip": f"{cell.name}: {name} {compared.milliseconds(found)}",
    }  # fmt: skip


def _draw(data: Figure, sheet: Sheet) -> Spec:
    y = {"type": "quantitative", "scale": {"zero": True}}
    layers = means(data, sheet, y, f"ms ({sheet.where})")
    note = "; each percentile on its own axis"
    return in_panels(finished(sheet, note, layers, dodged_rows(data), data.panels), apart=True)


def _caption(data: Figure, _findings: Findings) -> str:
    hidden = f" {data.hidden_lines} more lines are not drawn." if data.hidden_lines else ""
    return (
        "p50: half of all transactions took no longer; p95 and p99: 95 and 99 of 100. With its 95 % interval over "
        f"runs. Each panel has its own axis.{hidden}"
    )


def _table(data: Figure, _findings: Findings) -> Table:
    return table_of_cells(data, {"panel": Heading("percentile", "text"), "mean": Heading("ms"), **ENDS})


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


def _title_against(findings: Findings) -> str:
    return f"Throughput against {_figure_name(findings)} latency"


def _rows_against(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """A row for each cell: transactions a second and milliseconds, in the order of the load."""
    name, places = _figure_name(findings), by_load(findings)
    cells = [cell for cell in of_set_time(findings) if name in cell.latency]
    levels = places.x_levels(cells)

    def row(cell: CellSummary) -> Row:
        rate = cell.work_per_s.mean.value if cell.work_per_s is not None else 0.0
        latency = cell.latency[name]
        return {
            "level": places.x_of(cell), "step": levels.index(places.x_of(cell)), "rate": rate,
            "ms": 1e3 * latency.value,
            "tip": f"{cell.name}: {numbers.rows_per_s(rate, UNIT)}, {name} {compared.milliseconds(latency)}",
        }  # fmt: skip

    data = figure_of_cells(findings, cells if len(cells) > 1 else [], row, places)
    return replace(data, x_levels=[], legend=name)


def _draw_against(data: Figure, sheet: Sheet) -> Spec:
    form, where = sheet.form, sheet.where
    x = figure("rate", f"{UNIT} ({where})", scale={"zero": True})
    y = figure("ms", f"{data.legend} latency, ms ({where})", scale={"zero": True})
    encoding: Spec = {"x": x, "y": y}
    colour: Spec = {"color": palette.LINES[0]}
    if len(data.lines) > 1:
        legend = {"title": f"{data.arrangement.line_title} ({where})", "symbolOpacity": 1}
        encoding, colour = encoding | told_apart(data, form, legend, shape=palette.SHAPES), {}
    plain = {key: value for key, value in encoding.items() if key != "shape"}
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


def _caption_against(data: Figure, _findings: Findings) -> str:
    hidden = f" {data.hidden_lines} more lines are not drawn." if data.hidden_lines else ""
    return f"Right is more, down is sooner. The labels are the {data.arrangement.x_title}.{hidden}"


def _table_against(data: Figure, _findings: Findings) -> Table:
    return table_of_cells(data, {"rate": Heading(UNIT), "ms": Heading(f"{data.legend}, ms")})


CHARTS = (
    Chart("latency", "completion-time", "Latency", _rows, _draw, _caption, _table, place=4),
    Chart(
        "throughput-latency", "completion-time", _title_against, _rows_against, _draw_against, _caption_against,
        _table_against, place=3,
    ),
)  # fmt: skip
