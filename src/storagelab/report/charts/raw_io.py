"""Rows for the charts of raw I/O: requests, and megabytes, a second. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from storagelab.findings.model import CellSummary, Findings
from storagelab.report.charts.figure_data import Figure, Row, must_show
from storagelab.report.drawing import arrange as arranging
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import Arrangement, choose, in_order
from storagelab.report.words import compared
from storagelab.report.words.names import cell_text


class Rate(NamedTuple):
    """A chart: its name, its title, the counter that it draws, and the unit, `divisor` of the counter's own."""

    name: str
    title: str
    counter: str
    unit: str
    divisor: float


RATES = (
    Rate("requests", "Requests a second", "ios_per_s", "IO/s", 1.0),
    Rate("megabytes", "Megabytes a second", "bytes_per_s", "MB/s", 1e6),
)


def rates(findings: Findings, rate: Rate) -> Figure:
    """Rows `mean`, `low`, `high` per cell; none where there is no raw I/O."""
    places = arranging.arrange(findings)
    cells = [cell for cell in findings.cells if compared.of_raw_io(findings) and rate.counter in cell.raw_io]
    lines, panels = _chosen(findings, cells, places)
    shown = [cell for cell in cells if places.line_of(cell) in lines and places.panel_of(cell) in panels]
    return Figure(
        rows=[_row(cell, places, rate) for cell in shown],
        arrangement=places,
        x_levels=places.x_levels(cells),
        lines=lines,
        panels=panels,
        colours=dict(zip(lines, palette.LINES, strict=False)),
    )


def _chosen(
    findings: Findings, cells: Sequence[CellSummary], places: Arrangement
) -> tuple[list[str], list[str]]:  # fmt: skip
    must = must_show(findings)
    lines = choose(in_order(map(places.line_of, cells)), [places.line_of(cell) for cell in must], arranging.MAX_LINES)
    panels = choose(in_order(map(places.panel_of, cells)), [places.panel_of(cell) for cell in must], places.most_panels)
    return lines, panels


def _row(cell: CellSummary, places: Arrangement, rate: Rate) -> Row:
    sample = cell.raw_io[rate.counter]
    low, high = sample.mean.low, sample.mean.high
    interval = (
        "" if low is None or high is None else f" (95 % CI {low / rate.divisor:,.4g} to {high / rate.divisor:,.4g})"
    )
    return {
        "x": places.x_of(cell),
        "line": places.line_of(cell),
        "panel": places.panel_of(cell),
        "cell_id": cell.cell_id,
        "mean": sample.mean.value / rate.divisor,
        "low": None if low is None else low / rate.divisor,
        "high": None if high is None else high / rate.divisor,
        "tip": f"{cell_text(cell.levels)}: {sample.mean.value / rate.divisor:,.4g} {rate.unit}{interval}",
    }
