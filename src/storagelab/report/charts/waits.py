"""Waits: how each cell's connections spent all of their time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storagelab.findings.model import CellSummary, Findings
from storagelab.findings.time_breakdown import in_classes
from storagelab.model.measurement import Run
from storagelab.model.waits import Category
from storagelab.report.document import Heading, Table
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import MAX_PANELS, Arrangement, arrange, choose, in_order, must_show
from storagelab.report.drawing.chart import Chart, Figure, Row
from storagelab.report.drawing.layers import TIP, legend_layout, level_axis
from storagelab.report.drawing.vega import Sheet, Spec, finished
from storagelab.words import numbers
from storagelab.words.names import cell_entry

MAX_WAIT_TYPES = 8
OTHER_WAITS = "smaller waits"
REMAINDER = "finished early or unexplained"
_FEW_PX_PER_LABEL = 36


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """One row per cell and part of its connections x elapsed: `low` to `high` of the stack, shares from 0 to 1.

    If engines are compared, the parts are classes of waits: no native name occurs in the stacks of two engines.
    """
    places = arrange(findings)
    cells = [cell for cell in findings.cells if cell.waits and cell.available_s]
    if findings.wait_names:
        cells = [cell.model_copy(update={"waits": in_classes(cell.waits)}) for cell in cells]
    must = [places.others_of(cell) for cell in must_show(findings)]
    all_panels = in_order(map(places.others_of, cells))
    panels = choose(all_panels, must, MAX_PANELS)
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
    """Parts of the stack from the bottom up, with their colours.

    The largest waits are named. Those that differ most between cells are at the bottom, where heights can be compared.
    """
    shares = [_shares(cell) for cell in cells]
    kinds: dict[str, tuple[Category, bool]] = {
        row.wait_type: (row.category, row.is_wait) for cell in cells for row in cell.waits
    }
    named = [name for name, (_, is_wait) in kinds.items() if is_wait and any(share.get(name) for share in shares)]

    def moves(name: str) -> float:
        values = [share.get(name, 0.0) for share in shares]
        return min(values) - max(values)

    largest = sorted(named, key=lambda name: -max(share.get(name, 0.0) for share in shares))[:MAX_WAIT_TYPES]
    largest.sort(key=moves)
    cpu = [name for name, (_, is_wait) in kinds.items() if not is_wait]
    colours = dict(zip(largest, palette.shades([kinds[name][0] for name in largest]), strict=True))
    if len(named) > len(largest):
        colours[OTHER_WAITS] = palette.CATEGORY["other"]
    return colours | dict.fromkeys(cpu, palette.CATEGORY["cpu"]) | {REMAINDER: palette.UNEXPLAINED}


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
                "cell": cell.text,
                "part": name, "order": order, "low": low, "high": high, "share": parts[name],
                "middle": (low + high) / 2,
                "label": numbers.percent(parts[name]) if parts[name] >= 0.06 else "",
                # The remainder's ground turns dark in dark mode, and its text takes the page's own ink.
                "ink": palette.INK if name == REMAINDER else palette.ink_on(colours[name]),
                "tip": f"{name}{f' (SQL Server: {known})' if known and known[0] != '(' else ''}: "
                       f"{numbers.percent(parts[name])} of connections × elapsed; {cell.name}",
            }
        )  # fmt: skip
        low = high
    return rows


def _draw(data: Figure, sheet: Sheet) -> Spec:
    form, where = sheet.form, sheet.where
    top = max(1.0, *(float(row["high"] or 0) for row in data.rows))
    y = {
        "type": "quantitative",
        "scale": {"domain": [0, top]},
        "axis": {"labelExpr": "format(100 * datum.value, '.0f') + ' %'"},
    }
    legend = {"title": f"from the bottom up ({where})", "symbolType": "square", "symbolSize": 90,
              **legend_layout(data.lines, form)}  # fmt: skip
    colour = {"field": "part", "type": "nominal", "sort": data.lines, "legend": legend,
              "scale": {"domain": data.lines, "range": list(data.colours.values())}}  # fmt: skip
    x = level_axis(data, form)
    bars = {
        "mark": {"type": "bar", "stroke": palette.GROUND, "strokeWidth": 1},
        "encoding": TIP | {
            "x": x | {"scale": x["scale"] | {"paddingInner": 0.22, "paddingOuter": 0.12}},
            "y": y | {"field": "low", "title": f"share of connections × elapsed ({where})"},
            "y2": {"field": "high"},
            "color": colour,
        },
    }  # fmt: skip
    layers: list[Spec] = [{"transform": [{"filter": "datum.share > 0"}]} | bars]
    if form.panel_width_px(len(data.panels)) / max(1, len(data.x_levels)) >= _FEW_PX_PER_LABEL:
        text = {"x": x, "y": y | {"field": "middle"}, "text": {"field": "label"},
                "color": {"field": "ink", "type": "nominal", "scale": None}}  # fmt: skip
        mark = {"type": "text", "fontSize": form.font_px - 2, "aria": False}
        layers.append({"transform": [{"filter": "datum.label !== ''"}], "mark": mark, "encoding": text})
    height_px = max(form.height_of(len(data.panels)), 250)
    return finished(sheet, "", layers, data.rows, data.panels, height_px)


def _caption(data: Figure, findings: Findings) -> str:
    words = [
        "Each bar is one cell's mean run: all the time its connections had, connections × elapsed, by what they spent",
        "it on. The wait that moves most stands at the bottom; colours are wait categories, "
        "the same on the whole page.",
        "Waits of different engines are joined by what is waited for; each cell's own table has their names."
        if findings.wait_names else "",
        data.on_hidden_panels,
    ]  # fmt: skip
    return " ".join(word for word in words if word)


def _table(data: Figure, _findings: Findings) -> Table:
    cells: dict[str, list[str]] = {}
    for row in data.rows:
        name = cell_entry(row["cell_id"], row["cell"])
        cells.setdefault(str(row["cell_id"]), [name]).append(numbers.percent(float(row["share"] or 0), 1))
    return Table([Heading("cell", "prose"), *map(Heading, data.lines)], list(cells.values()))


def _words(data: Figure, _findings: Findings) -> str:
    moving = str(data.rows[0]["part"])
    shares = [
        (float(row["share"] or 0), str(row["cell_id"]), str(row["cell"])) for row in data.rows if row["part"] == moving
    ]
    (low, low_id, lowest), (high, high_id, highest) = min(shares), max(shares)
    if low_id == high_id:
        return f"{moving} takes {numbers.percent(high)} of connections × elapsed."
    return (
        f"{moving} moves most: from {numbers.percent(low)} of connections × elapsed with {lowest} "
        f"to {numbers.percent(high)} with {highest}."
    )


CHART = Chart(
    "waits", "waits", "Where the sessions' time goes", _rows, _draw, _caption, _table, words=_words, is_headed=False
)
