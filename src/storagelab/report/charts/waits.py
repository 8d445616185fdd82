"""Waits: how each cell's connections spent all of their time. A bar for each cell, the fastest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storagelab.findings.model import CellSummary, Findings
from storagelab.findings.time_breakdown import in_classes
from storagelab.model.measurement import Run
from storagelab.model.waits import Category
from storagelab.report.document import Heading, Table
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import choose, in_order, must_show
from storagelab.report.drawing.chart import Chart, Figure, Row, not_drawn
from storagelab.report.drawing.layers import TIP, legend_layout, named_rows
from storagelab.report.drawing.vega import NARROW, Sheet, Spec, figure, finished
from storagelab.report.words.ladder import in_order as fastest_first
from storagelab.words import numbers
from storagelab.words.names import cell_entry

MAX_CELLS = 100
MAX_WAIT_TYPES = 8
OTHER_WAITS = "smaller waits"
REMAINDER = "finished early or unexplained"
_LABEL_PX = 36


def _rows(findings: Findings, _runs: Sequence[Run]) -> Figure:
    """One row per cell and part of its connections x elapsed: `low` to `high` of the stack, shares from 0 to 1.

    If engines are compared, the parts are classes of waits: no native name occurs in the stacks of two engines.
    """
    cells = fastest_first(findings, (cell for cell in findings.cells if cell.waits and cell.available_s))
    if findings.wait_names:
        cells = [cell.model_copy(update={"waits": in_classes(cell.waits)}) for cell in cells]
    must = [cell.cell_id for cell in must_show(findings)]
    kept = set(choose([cell.cell_id for cell in cells], must, MAX_CELLS))
    colours = _wait_colours(cells)
    return Figure(
        rows=[row for cell in cells if cell.cell_id in kept for row in _stack(cell, colours)],
        lines=list(colours),
        colours=colours,
        hidden=not_drawn(len(cells) - len(kept)),
        names="name",
    )


def _shares(cell: CellSummary) -> dict[str, float]:
    return {row.wait_type: row.wait_s / cell.available_s for row in cell.waits} if cell.available_s else {}


def _wait_colours(cells: Sequence[CellSummary]) -> dict[str, str]:
    """Parts of the stack from the left, with their colours; what is left has none.

    The largest waits are named. Those that differ most between cells come first, where lengths can be compared.
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
    return colours | dict.fromkeys(cpu, palette.CATEGORY["cpu"])


def _stack(cell: CellSummary, colours: Mapping[str, str]) -> list[Row]:
    shares = _shares(cell)
    parts = {name: shares.get(name, 0.0) for name in colours if name != OTHER_WAITS}
    if OTHER_WAITS in colours:
        parts[OTHER_WAITS] = sum(share for name, share in shares.items() if name not in parts)
    analogues = {row.wait_type: row.analogue for row in cell.waits}
    rows: list[Row] = []
    low = 0.0
    for name, colour in colours.items():
        known = analogues.get(name, "")
        rows.append(
            {
                "name": cell_entry(cell.cell_id, cell.text), "cell_id": cell.cell_id, "cell": cell.text,
                "part": name, "low": low, "high": low + parts[name], "mean": parts[name],
                "middle": low + parts[name] / 2, "label": numbers.percent(parts[name]), "ink": palette.ink_on(colour),
                "tip": f"{name}{f' (SQL Server: {known})' if known and known[0] != '(' else ''}: "
                       f"{numbers.percent(parts[name])}; {cell.name}",
            }
        )  # fmt: skip
        low += parts[name]
    return rows


def _draw(data: Figure, sheet: Sheet) -> Spec:
    names = in_order(str(row["name"]) for row in data.rows)
    y, row_px, names_px = named_rows("name", data.starred(names), sheet.form.letters(0.36))
    top = max(1.0, *(float(row["high"] or 0) for row in data.rows))
    title = f"share of connections × elapsed ({sheet.where})"
    axis = {"labelExpr": "format(100 * datum.value, '.0f') + ' %'", "tickCount": 4 if sheet.form is NARROW else 10}
    axes = {"scale": {"domain": [0, top], "nice": False}, "axis": axis}
    legend = {"title": f"from the left ({sheet.where})", "symbolType": "square", "symbolSize": 90,
              **legend_layout(dict(zip(data.lines, data.lines, strict=True)), sheet.form, names_px)}  # fmt: skip
    scale = {"domain": data.lines, "range": list(data.colours.values())}
    colour = {"field": "part", "type": "nominal", "sort": data.lines, "legend": legend, "scale": scale}
    bars = {"x": figure("low", title, **axes), "x2": {"field": "high"}, "color": colour}
    readable = _LABEL_PX / (sheet.form.width_px - names_px)
    layers: list[Spec] = [
        {"transform": [{"filter": "datum.mean > 0"}], "encoding": TIP | {"y": y} | bars,
         "mark": {"type": "bar", "height": min(20, row_px - 6), "x2Offset": -1}},
        {"transform": [{"filter": f"datum.mean >= {readable:.3f}"}], "mark": {"type": "text", "aria": False},
         "encoding": {"y": y, "x": figure("middle", title, **axes), "text": {"field": "label"},
                      "color": {"field": "ink", "type": "nominal", "scale": None}}},
    ]  # fmt: skip
    return finished(sheet, layers, data.rows, height_px=row_px * len(names))


def _finding(data: Figure, _findings: Findings) -> str:
    moving = [row for row in data.rows if row["part"] == data.rows[0]["part"]]
    low, high = (pick(moving, key=lambda row: float(row["mean"] or 0)) for pick in (min, max))
    if low is high:
        return f"{low['part']} takes {low['label']} of connections × elapsed."
    ends = f"from {low['label']} of connections × elapsed with {low['cell']} to {high['label']} with {high['cell']}"
    return f"{low['part']} moves most: {ends}."


def _marks(_data: Figure, findings: Findings) -> str:
    words = [
        "Each bar is one cell's mean run, the fastest first: all the time its connections had, by what they spent it",
        "on. What is left up to 100 % finished early or is unexplained. The wait that moves most comes first; colours",
        "are wait categories, the same on the whole page.",
        "Waits of different engines are joined by what is waited for; each cell's own table has their names."
        if findings.wait_names else "",
    ]  # fmt: skip
    return " ".join(filter(None, words))


def _table(data: Figure, _findings: Findings) -> Table:
    cells: dict[str, list[float]] = {}
    for row in data.rows:
        cells.setdefault(str(row["name"]), []).append(float(row["mean"] or 0))
    left = ((name, [*shares, max(0.0, 1 - sum(shares))]) for name, shares in cells.items())
    rows = [[name, *(numbers.percent(share, 1) for share in shares)] for name, shares in left]
    return Table([Heading("cell", "prose"), *map(Heading, data.lines), Heading(REMAINDER)], rows)


CHART = Chart(
    "waits", "waits", "Where the sessions' time goes", _rows, _draw, _finding, _marks, _table, is_headed=False
)
