"""Two charts of all layouts: speed against price, and speed against capacity. They mark the Pareto front, which is the
layouts that no other layout beats in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.report.document import Heading, bare
from storagelab.report.drawing import layers, palette
from storagelab.report.drawing.arrange import MAX_LINES, MAX_PANELS, choose, in_order, must_show, short_names
from storagelab.report.drawing.chart import ENDS, Chart, Figure, Row, compared_axis, not_drawn, scaled, table_of_cells
from storagelab.report.drawing.vega import Sheet, Spec, figure, finished
from storagelab.report.words import compared
from storagelab.words.names import cell_entry, level_text

_MORE = "more on the front"
_NAMED = 4


class _Other(NamedTuple):
    """The quantity that is compared with speed. `of` returns a cell's amount of the quantity, in its unit. `sign`: 1 if
    more of the quantity is better, -1 if less is. `step`: the shape of the line between layouts on the Pareto front.
    """

    noun: str
    axis: str
    of: Callable[[CellSummary], float | None]
    sign: int
    unit: str
    better: str
    step: str


_PRICE = _Other("price", "price per month", lambda cell: cell.price_per_month, -1, "per month", "less", "step-after")
_CAPACITY = _Other(
    "capacity", "capacity, GB", lambda cell: None if cell.capacity_bytes is None else cell.capacity_bytes / 1e9, 1,
    "GB", "more", "step-before",
)  # fmt: skip


def _rows(other: _Other, findings: Findings, _runs: Sequence[Run]) -> Figure:
    """Returns a row for each cell with a figure and an amount of the other quantity, sorted by this amount. Each load
    has a panel. A load whose layouts all have the same amount is left out.
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
        if not load.load:  # with loads, a layout has a cell under each, so the name without an id gives it one colour
            names = [cell_entry(cell.cell_id, name) for cell, name in zip(cells, names, strict=True)]
        rows = [_row(other, findings, cell, name) for cell, name in zip(cells, names, strict=True)]
        if len({row["other"] for row in rows}) > 1:
            of_loads[level_text(load.load)] = sorted(_with_front(other, findings, rows), key=_other_of)
    must = {cell.cell_id for cell in must_show(findings)}
    first = [panel for panel, rows in of_loads.items() if any(row["cell_id"] in must for row in rows)]
    panels = choose(list(of_loads), first, MAX_PANELS)
    shown = [row | {"panel": panel} for panel in panels for row in of_loads[panel]]
    front = in_order(str(row["layout"]) for row in shown if row["front"])
    lines = front if len(front) <= MAX_LINES else [*front[: MAX_LINES - 1], _MORE]
    left = [load for load in of_loads if load not in panels]
    return Figure(
        rows=[row | {"line": row["layout"] if row["layout"] in lines else _MORE} for row in shown],
        lines=lines,
        panels=panels,
        hidden=not_drawn(sum(len(of_loads[load]) for load in left), left),
        legend=compared_axis(findings),
        names="line",
    )


def _row(other: _Other, findings: Findings, cell: CellSummary, name: str) -> Row:
    sample, value = compared.judged(findings, cell), other.of(cell)
    assert sample is not None
    assert value is not None
    amount = f"{value:,.10g}" if other.sign < 0 else bare(value)
    return scaled(sample.mean, compared.times(findings)) | {
        "other": value, "amount": amount, "layout": name, "cell_id": cell.cell_id, "cell": cell.text,
        "stretch": cell.stretch, "tip": f"{cell.name}: {compared.judged_text(findings, cell)}, {amount} {other.unit}",
    }  # fmt: skip


def _other_of(row: Row) -> float:
    return float(row["other"] or 0)


def _with_front(other: _Other, findings: Findings, rows: Sequence[Row]) -> list[Row]:
    """Returns the rows with a mark (`front`) on those of the Pareto front. A row is on the front if, by the means, no
    other row is at least as good in both quantities and better in one.
    """
    faster = 1 if compared.by_rate(findings) else -1
    places = [(faster * float(row["mean"] or 0), other.sign * _other_of(row)) for row in rows]
    found = []
    for row, own in zip(rows, places, strict=True):
        front = not any(one != own and one[0] >= own[0] and one[1] >= own[1] for one in places)
        found.append(row | {"front": front, "on_front": "yes" if front else ""})
    return found


def _draw(other: _Other, data: Figure, sheet: Sheet) -> Spec:
    axis = layers.axis_of(data)
    x_domain, _ = layers.readable_domain([_other_of(row) for row in data.rows])
    columns = sheet.form.columns(len(data.panels))
    # A price comes from the spec: it is neither measured nor simulated.
    where = f" ({sheet.where})" if other.sign > 0 else ""
    x = figure("other", f"{other.axis}{where}", axis={"tickCount": sheet.form.width_px // columns // 110},
               scale={"domain": x_domain, "zero": False, "nice": False})  # fmt: skip
    y = figure("mean", f"{data.legend} ({sheet.where})", **axis.channel)
    place = layers.TIP | {"x": x, "y": y}
    # In other charts, colours are levels. Here, a mark is a layout, so shapes tell them apart.
    ink = {"color": palette.INK}
    legend = {
        "title": f"on the Pareto front ({sheet.where})",
        "symbolFillColor": palette.INK,
        "symbolStrokeColor": palette.INK,
    }
    told = {"shape": layers.told_apart(data, sheet.form, legend, shape=palette.SHAPES)["shape"]}
    faint = {"color": palette.NEUTRAL, "opacity": 0.8}
    step = {"type": "line", "interpolate": other.step, "color": palette.NEUTRAL, "strokeWidth": 1.5, "aria": False}
    drawn = [
        *layers.intervals("!datum.front", "y", faint | {"opacity": 0.3}, place),
        layers.only("datum.front", step, {"x": x, "y": y}),
        *layers.intervals("datum.front", "y", ink, place),
        *layers.means("!datum.front && !datum.pick", layers.DOT | faint | {"size": 40}, place),
        *layers.means("datum.pick && datum.front", layers.STARRED | ink, place),
        *layers.means("datum.pick && !datum.front", layers.STARRED | faint, place),
        *layers.means("datum.front && !datum.pick", layers.DOT | ink | {"size": 80}, place | told),
    ]
    return finished(
        sheet, drawn, layers.on_axis(data.rows, axis), data.starred(data.panels), apart="y" if axis.apart else ""
    )


def _finding(data: Figure, _findings: Findings) -> str:
    front = in_order(str(row["layout"]) for row in data.rows if row["front"])
    more = f"; and {len(front) - _NAMED} more" if len(front) > _NAMED else ""
    return f"No other layout beats these in both: {'; '.join(front[:_NAMED])}{more}."


def _marks(other: _Other, data: Figure, _findings: Findings) -> str:
    parts = [
        f"Large marks are the Pareto front: no other layout has as good a mean at the same {other.noun} or "
        f"{other.better}. All others are small and grey.",
        "Lines are 95 % intervals of means. If those of two layouts overlap, chance may decide which is on it."
        if any(not row["hollow"] for row in data.rows) else "",
        "Layouts of different blocks were not tested against each other."
        if len({row["stretch"] for row in data.rows}) > 1 else "",
        layers.axis_of(data).says,
    ]  # fmt: skip
    return " ".join(filter(None, parts))


def _chart(other: _Other, place: int) -> Chart:
    columns = {"amount": Heading(other.axis)}
    front = {**ENDS, "on_front": Heading("on the Pareto front", "text")}
    return Chart(
        name=f"{other.noun}-against-speed",
        part="cells",
        place=place,
        title=lambda findings: f"{other.noun.capitalize()} against {compared_axis(findings).partition(',')[0]}",
        rows=partial(_rows, other),
        draw=partial(_draw, other),
        finding=_finding,
        marks=partial(_marks, other),
        table=lambda data, _findings: table_of_cells(data, columns | {"mean": Heading(data.legend)} | front),
    )


CHARTS = (_chart(_PRICE, 3), _chart(_CAPACITY, 4))
