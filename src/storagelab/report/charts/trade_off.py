"""Speed against price, and against capacity: every layout, and the edge of those that no other one beats in both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from storagelab.findings.model import CellSummary, Findings
from storagelab.report.document import Heading, Table, bare
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import MAX_LINES, MAX_PANELS, arrange, choose, in_order, must_show, short_names
from storagelab.report.drawing.chart import ENDS, MAX_ROWS_IN_WORDS, Chart, Figure, Row, table_of_cells
from storagelab.report.drawing.layers import FIELDS, TIP, in_panels, only, readable_domain, told_apart
from storagelab.report.drawing.vega import Sheet, Spec, figure, finished
from storagelab.report.words import compared
from storagelab.words.names import cell_entry, level_text

_MORE = "more on the edge"


class _Other(NamedTuple):
    """What speed is traded for. `of`: how much of it a cell has, in its unit. `sign`: 1 if more of it is
    better, -1 if less. `step`: how the edge goes on from one layout to the next.
    """

    noun: str
    axis: str
    of: Callable[[CellSummary], float | None]
    sign: int
    figure: Callable[[float], str]
    unit: str
    better: str
    step: str


_PRICE = _Other(
    noun="price",
    axis="price per month",
    of=lambda cell: cell.price_per_month,
    sign=-1,
    figure=lambda value: f"{value:,.10g}",
    unit="per month",
    better="less",
    step="step-after",
)
_CAPACITY = _Other(
    noun="capacity",
    axis="capacity, GB",
    of=lambda cell: None if cell.capacity_bytes is None else cell.capacity_bytes / 1e9,
    sign=1,
    figure=bare,
    unit="GB",
    better="more",
    step="step-before",
)


def _speed_axis(findings: Findings) -> str:
    """The figure by which cells are compared, with its unit."""
    if compared.by_rate(findings):
        return compared.rate_unit(findings)
    return f"{compared.quantity(findings)}, {'ms' if compared.by_latency(findings) else 's'}"


def _rows(other: _Other, findings: Findings) -> Figure:
    """A row for each cell that has a figure, in the order of what speed is traded for; a panel for each load. No rows
    if no load has layouts that differ in it.
    """
    left_out = compared.in_parts_of_cycles(findings)
    of_loads: dict[str, list[Row]] = {}
    for load in [] if compared.of_both_kinds(findings) else findings.by_load:
        cells = [
            cell for cell in findings.cells
            if cell.cell_id in load.cells and cell.cell_id not in left_out
            and compared.judged(findings, cell) is not None and other.of(cell) is not None
        ]  # fmt: skip
        names = short_names(cells)
        if not load.load:  # else a layout is a cell under each load, and keeps its colour
            names = [cell_entry(cell.cell_id, name) for cell, name in zip(cells, names, strict=True)]
        rows = [_row(other, findings, cell, name) for cell, name in zip(cells, names, strict=True)]
        if len({row["other"] for row in rows}) > 1:
            of_loads[level_text(load.load)] = sorted(_with_edge(other, findings, rows), key=_other_of)
    must = {cell.cell_id for cell in must_show(findings)}
    first = [panel for panel, rows in of_loads.items() if any(row["cell_id"] in must for row in rows)]
    panels = choose(list(of_loads), first, MAX_PANELS)
    shown = [row | {"panel": panel} for panel in panels for row in of_loads[panel]]
    edge = in_order(str(row["layout"]) for row in shown if row["edge"])
    lines = edge if len(edge) <= MAX_LINES else [*edge[: MAX_LINES - 1], _MORE]
    return Figure(
        rows=[row | {"line": row["layout"] if row["layout"] in lines else _MORE} for row in shown],
        arrangement=arrange(findings),
        lines=lines,
        panels=panels,
        colours=dict(zip(lines, palette.LINES, strict=False)),
        hidden_panels=len(of_loads) - len(panels),
        legend=_speed_axis(findings),
    )


def _row(other: _Other, findings: Findings, cell: CellSummary, name: str) -> Row:
    sample, value = compared.judged(findings, cell), other.of(cell)
    assert sample is not None
    assert value is not None
    mean, unit = sample.mean, 1e3 if compared.by_latency(findings) else 1.0
    figures = [None if one is None else unit * one for one in (mean.value, mean.low, mean.high)]
    return {
        "other": value, "amount": other.figure(value), "layout": name, "cell_id": cell.cell_id, "cell": cell.text,
        "stretch": cell.stretch,
        **dict(zip(FIELDS, figures, strict=True)),
        "tip": f"{cell.name}: {compared.judged_text(findings, cell)}, {other.figure(value)} {other.unit}",
    }  # fmt: skip


def _other_of(row: Row) -> float:
    return float(row["other"] or 0)


def _with_edge(other: _Other, findings: Findings, rows: Sequence[Row]) -> list[Row]:
    """The rows, each with whether no other one is at least as good in both, and better in one, by the means."""
    faster = 1 if compared.by_rate(findings) else -1
    places = [(faster * float(row["mean"] or 0), other.sign * _other_of(row)) for row in rows]
    found = []
    for row, own in zip(rows, places, strict=True):
        edge = not any(one != own and one[0] >= own[0] and one[1] >= own[1] for one in places)
        found.append(row | {"edge": edge, "on_edge": "yes" if edge else ""})
    return found


def _draw(other: _Other, data: Figure, sheet: Sheet) -> Spec:
    apart = len(data.panels) > 1
    x_domain, _ = readable_domain([_other_of(row) for row in data.rows])
    y_domain, from_zero = readable_domain(
        [float(one) for row in data.rows for key in FIELDS if (one := row[key]) is not None]
    )
    x_scale = {"domain": x_domain, "zero": False, "nice": False}
    y_scale = {"zero": False} if apart else {"domain": y_domain, "zero": from_zero, "nice": False}
    ticks = {"tickCount": sheet.form.width_px // 110}
    x = figure("other", f"{other.axis} ({sheet.where})", axis=ticks, scale=x_scale)
    y = figure("mean", f"{data.legend} ({sheet.where})", scale=y_scale)
    interval = {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}}
    legend = {"title": f"on the edge ({sheet.where})", "symbolOpacity": 1}
    lines = told_apart(data, sheet.form, legend, shape=palette.SHAPES)
    rule = {"type": "rule", "strokeWidth": 2.5, "strokeCap": "round"}
    layers = [
        only("!datum.edge && datum.low !== null", rule | {"color": palette.NEUTRAL, "opacity": 0.3}, interval | TIP),
        only("!datum.edge", {"type": "point", "size": 40, "filled": False, "color": palette.NEUTRAL, "opacity": 0.8},
             {"x": x, "y": y} | TIP),
        only("datum.edge", {"type": "line", "interpolate": other.step, "strokeWidth": 1.5, "color": palette.MUTED,
                            "opacity": 0.55, "aria": False}, {"x": x, "y": y}),
        only("datum.edge && datum.low !== null", rule, interval | {"color": lines["color"]} | TIP),
        only("datum.edge", {"type": "point", "size": 80, "filled": True, "opacity": 1},
             {"x": x, "y": y} | lines | TIP),
    ]  # fmt: skip
    start = "" if from_zero else f"; the vertical axis starts at {bare(y_domain[0])}"
    note = "; mean with 95 % interval" + ("; each panel has its own vertical axis" if apart else start)
    return in_panels(finished(sheet, note, layers, data.rows, data.panels), apart=apart)


def _caption(other: _Other, data: Figure, _findings: Findings) -> str:
    apart = len({row["stretch"] for row in data.rows}) > 1
    parts = [
        "Filled marks are the Pareto edge: no other layout has as good a mean at the same "
        f"{other.noun} or {other.better}.",
        "Hollow marks are all others.",
        "Where the intervals of two layouts overlap, chance may decide which of them is on the edge.",
        "Layouts of different blocks were not tested against each other." if apart else "",
        data.on_hidden_panels,
    ]
    return " ".join(part for part in parts if part)


def _table(other: _Other, data: Figure) -> Table:
    columns = {
        "amount": Heading(other.axis), "mean": Heading(data.legend), **ENDS, "on_edge": Heading("on the edge", "text"),
    }  # fmt: skip
    return table_of_cells(data, columns)


def _words(data: Figure, _findings: Findings) -> str:
    edge = [str(row["tip"]) for row in data.rows if row["edge"]]
    more = f"; {len(edge) - MAX_ROWS_IN_WORDS} more" if len(edge) > MAX_ROWS_IN_WORDS else ""
    return f"On the edge: {'; '.join(edge[:MAX_ROWS_IN_WORDS])}{more}."


def _chart(other: _Other, place: int) -> Chart:
    return Chart(
        name=f"{other.noun}-against-speed",
        part="completion-time",
        place=place,
        title=lambda findings: f"{other.noun.capitalize()} against {_speed_axis(findings).partition(',')[0]}",
        rows=lambda findings, _runs: _rows(other, findings),
        draw=lambda data, sheet: _draw(other, data, sheet),
        caption=lambda data, findings: _caption(other, data, findings),
        table=lambda data, _findings: _table(other, data),
        words=_words,
    )


CHARTS = (_chart(_PRICE, 6), _chart(_CAPACITY, 7))
