"""Latency of every cell whose runs have a set time: by connections, rate or another factor, and against throughput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, bare
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import MAX_LINES, Arrangement, arrange, choose, in_order, must_show
from storagelab.report.drawing.chart import (
    ENDS,
    Chart,
    Figure,
    Row,
    figure_of_cells,
    not_drawn,
    place_of,
    scaled,
    table_of_cells,
)
from storagelab.report.drawing.layers import (
    DOT,
    STARRED,
    TIP,
    Axis,
    means_with_intervals,
    only,
    readable_domain,
    told_apart,
)
from storagelab.report.drawing.vega import LETTER_PX, Form, Sheet, Spec, figure, finished
from storagelab.report.words import compared
from storagelab.spec.factors import is_load
from storagelab.words import numbers
from storagelab.words.names import listed

PERCENTILES = ("p50", "p95", "p99")
_USUAL = "p99"
_UNIT = numbers.RATES["transactions"]


def _of_set_time(findings: Findings) -> list[CellSummary]:
    """The cells whose runs did as many transactions as they could, or as they were sent, in a set time."""
    if findings.unit != "transactions" or compared.timed(findings):
        return []
    return [cell for cell in findings.cells if cell.work_per_s is not None and cell.latency]


def _by_load(findings: Findings) -> Arrangement:
    """The load along the axis if one varies, else what other charts have there; all else are lines."""
    varied = [factor for factor in findings.factors if len(factor.levels) > 1] or list(findings.factors[:1])
    x = next(filter(is_load, varied), None) or arrange(findings).x
    return Arrangement(x=x, lines=tuple(factor for factor in varied if factor is not x), panels=())


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """A row for each cell and percentile, in milliseconds; a panel for each percentile."""
    cells, places = _of_set_time(findings), _by_load(findings)
    lines = choose(in_order(map(places.line_of, cells)), map(places.line_of, must_show(findings)), MAX_LINES)
    shown = [cell for cell in cells if places.line_of(cell) in lines]
    rows = [
        place_of(cell, places) | scaled(cell.latency[name], 1e3) | {
            "panel": name, "tip": f"{cell.name}: {name} {compared.milliseconds(cell.latency[name])}",
        }
        for name in PERCENTILES for cell in shown if name in cell.latency
    ]  # fmt: skip
    return Figure(
        rows=rows,
        arrangement=places,
        x_levels=places.x_levels(cells),
        lines=lines,
        panels=in_order(str(row["panel"]) for row in rows),
        hidden=not_drawn(len(cells) - len(shown)),
    )


def _lowest(data: Figure, percentile: str = "") -> str:
    """The row of the lowest latency, in a sentence."""
    rows = [row for row in data.rows if percentile in ("", row["panel"])] or data.rows
    return f"Lowest: {min(rows, key=lambda row: float(row['mean'] or 0))['tip']}."


def _figure_name(findings: Findings) -> str:
    """The figure of latency that is judged, else p99."""
    return findings.compared.removeprefix("latency-") if compared.by_latency(findings) else _USUAL


def _rows_against(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """A row for each cell: transactions a second and milliseconds, in the order of the load."""
    name, places = _figure_name(findings), _by_load(findings)
    cells = [cell for cell in _of_set_time(findings) if name in cell.latency]
    levels = places.x_levels(cells)

    def row(cell: CellSummary) -> Row:
        rate = cell.work_per_s.mean.value if cell.work_per_s is not None else 0.0
        latency = cell.latency[name]
        return {
            "step": levels.index(places.x_of(cell)), "rate": rate, "mean": 1e3 * latency.value,
            "tip": f"{cell.name}: {numbers.rows_per_s(rate, _UNIT)}, {name} {compared.milliseconds(latency)}",
        }  # fmt: skip

    return replace(figure_of_cells(findings, cells if len(cells) > 1 else [], row, places), legend=name)


def _draw_against(data: Figure, sheet: Sheet) -> Spec:
    form, where = sheet.form, sheet.where
    encoding: Spec = {
        channel: figure(name, f"{title} ({where})", scale={"domain": domain, "zero": from_zero, "nice": False})
        for channel, (name, title, domain, from_zero) in _axes(data).items()
    }
    colour: Spec = {"color": palette.LINES[0]}
    told: Spec = {}
    if len(data.lines) > 1:
        legend = {"title": f"{data.arrangement.line_title} ({where})", "symbolOpacity": 1}
        told, colour = told_apart(data, form, legend, shape=palette.SHAPES), {}
    plain = encoding | {name: one for name, one in told.items() if name != "shape"}
    line = {"type": "line", "strokeWidth": 1.5, "opacity": 0.7, "aria": False} | colour
    order = {"order": {"field": "step", "type": "quantitative"}, "detail": {"field": "line"}}
    layers: list[Spec] = [
        *([{"mark": line, "encoding": plain | order}] if data.arrangement.is_ordered else []),
        only("!datum.pick", DOT | colour, encoding | told | TIP),
        only("datum.pick", STARRED | colour, plain | TIP),
        *(
            only(f"datum.side === '{side}'", {"type": "text", "aria": False} | look,
                 encoding | {"text": {"field": "x", "type": "nominal"}})
            for side, look in _SIDES.items()
        ),
    ]  # fmt: skip
    return finished(sheet, layers, _with_sides(data, form))


def _axes(data: Figure) -> Mapping[str, tuple[str, str, list[float], bool]]:
    """Of each channel its column, its title, its range, and whether that starts at zero."""
    named = {"x": ("rate", _UNIT), "y": ("mean", f"{data.legend} latency, ms")}
    return {
        channel: (name, title, *readable_domain([float(row[name] or 0) for row in data.rows]))
        for channel, (name, title) in named.items()
    }


_MARK_PX = 11
_SIDES: Mapping[str, Spec] = {
    "above": {"dy": -14}, "below": {"dy": 15}, "right": {"align": "left", "dx": _MARK_PX},
    "left": {"align": "right", "dx": -_MARK_PX},
}  # fmt: skip
"""Where a point's label may stand, by preference."""


def _with_sides(data: Figure, form: Form) -> list[Row]:
    """The rows, each with the side of its point where its label meets no other label and no point; "" if there is none:
    the row's words and the table name it.
    """
    (_, _, (left, right), _), (_, _, (bottom, top), _) = _axes(data).values()
    points = [
        (form.width_px * (float(row["rate"] or 0) - left) / (right - left),
         form.height_px * (top - float(row["mean"] or 0)) / (top - bottom))
        for row in data.rows
    ]  # fmt: skip
    taken: list[_Box] = [(x, y, _MARK_PX, _MARK_PX) for x, y in points]
    found = []
    for row, (x, y) in zip(data.rows, points, strict=True):
        width = LETTER_PX * len(str(row["x"]))
        boxes = {side: _box(look, x, y, width) for side, look in _SIDES.items()}
        free = (side for side, box in boxes.items() if not any(_meet(box, one) for one in taken if one[:2] != (x, y)))
        side = next(free, "")
        if side:
            taken.append(boxes[side])
        found.append(row | {"side": side})
    return found


_Box = tuple[float, float, float, float]
"""The middle of a rectangle, its width and its height, in pixels."""


def _box(look: Spec, x: float, y: float, width: float) -> _Box:
    dx = look.get("dx", 0)
    return x + dx + (width / 2 if dx > 0 else -width / 2 if dx < 0 else 0), y + look.get("dy", 0), width, 12


def _meet(one: _Box, other: _Box) -> bool:
    return abs(one[0] - other[0]) < (one[2] + other[2]) / 2 and abs(one[1] - other[1]) < (one[3] + other[3]) / 2


def _marks_against(data: Figure, _findings: Findings) -> str:
    starts = [f"{title} starts at {bare(domain[0])}" for _, title, domain, zero in _axes(data).values() if not zero]
    words = f"Right is more, down is sooner. The labels are the {data.arrangement.x_title}."
    return f"{words} The axis of {listed(starts)}." if starts else words


CHARTS = (
    Chart(
        "throughput-latency",
        "cells",
        lambda findings: f"Throughput against {_figure_name(findings)} latency",
        _rows_against,
        _draw_against,
        finding=lambda data, _findings: (
            f"Most: {max(data.rows, key=lambda row: float(row['rate'] or 0))['tip']}. {_lowest(data)}"
        ),
        marks=_marks_against,
        table=lambda data, _findings: table_of_cells(
            data, {"rate": Heading(_UNIT), "mean": Heading(f"{data.legend}, ms")}
        ),
        place=1,
    ),
    Chart(
        "latency",
        "cells",
        "Latency",
        _rows,
        draw=lambda data, sheet: means_with_intervals(
            data, sheet, "latency, ms", Axis({"scale": {"zero": True}}, apart=True)
        ),
        finding=lambda data, findings: _lowest(data, _figure_name(findings)),
        marks=lambda _data, _findings: (
            "p50: half of all transactions took no longer; p95 and p99: 95 and 99 of 100. Mean with 95 % interval over "
            "runs. Each panel has its own axis."
        ),
        table=lambda data, _findings: table_of_cells(
            data, {"panel": Heading("percentile", "text"), "mean": Heading("ms"), **ENDS}
        ),
        place=2,
    ),
)
