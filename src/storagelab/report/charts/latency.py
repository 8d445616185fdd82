"""Latency: p50, p95 and p99 of every cell whose runs have a set time, by connections, rate or another factor."""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.report.charts.throughput import of_set_time
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import MAX_LINES, Arrangement, arrange, choose, in_order, must_show
from storagelab.report.drawing.chart import Chart, Figure, Row
from storagelab.report.drawing.layers import dodged_rows, means
from storagelab.report.drawing.vega import Sheet, Spec, finished
from storagelab.report.words import compared
from storagelab.report.words.table import Heading, Table, bare
from storagelab.spec.factors import is_load
from storagelab.words.names import cell_entry

PERCENTILES = ("p50", "p95", "p99")
_FIELDS = ("mean", "low", "high")


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
    layers = means(data, sheet, _FIELDS, y, f"ms ({sheet.where})")
    height = sheet.form.height_of(len(data.panels))
    note = "; each percentile on its own axis"
    spec = finished(sheet, note, layers, dodged_rows(data, _FIELDS), data.panels, height)
    return spec | {"resolve": {"scale": {"y": "independent"}}} if "facet" in spec else spec


def _caption(data: Figure, _findings: Findings) -> str:
    hidden = f" {data.hidden_lines} more lines are not drawn." if data.hidden_lines else ""
    return (
        "p50: half of all transactions took no longer; p95 and p99: 95 and 99 of 100. With its 95 % interval over "
        f"runs. Each panel has its own axis.{hidden}"
    )


def _table(data: Figure, _findings: Findings) -> Table:
    headings = [
        Heading("cell", "prose"),
        Heading("percentile", "text"),
        Heading("ms"),
        Heading("95 % from"),
        Heading("to"),
    ]
    rows = [
        [cell_entry(row["cell_id"], row["cell"]), str(row["panel"]), *(bare(row[key]) for key in _FIELDS)]
        for row in data.rows
    ]  # fmt: skip
    return Table(headings, rows)


CHART = Chart("latency", "completion-time", "Latency", _rows, _draw, _caption, _table, place=4)
