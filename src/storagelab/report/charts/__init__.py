"""The charts of a report, one file each. The page, the files and the Markdown report all use this list.

A new chart is a new file with its `Chart`, and its line here.
"""

from __future__ import annotations

from collections.abc import Sequence

from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.report.charts import (
    best_case,
    completion_time,
    effects,
    over_time,
    raw_io,
    speed_ups,
    waits,
    waterfall,
    write_amplification,
)
from storagelab.report.drawing.chart import Chart, Drawn
from storagelab.report.drawing.vega import Spec

CHARTS: tuple[Chart, ...] = (
    completion_time.CHART,
    best_case.CHART,
    *raw_io.CHARTS,
    write_amplification.CHART,
    effects.CHART,
    *speed_ups.CHARTS,
    waits.CHART,
    waterfall.CHART,
    *over_time.CHARTS,
)
"""In reading order."""


def drawn_charts(findings: Findings, runs: Sequence[Run]) -> dict[str, Drawn]:
    """All charts that have data, by name."""
    found = ((chart.name, chart.of(findings, runs)) for chart in CHARTS)
    return {name: drawn for name, drawn in found if drawn is not None}


def page_charts(findings: Findings, runs: Sequence[Run]) -> dict[str, Drawn]:
    """Those of a page: of several quantities over time only the first, as the page shows all of them of any two cells."""
    drawn = drawn_charts(findings, runs)
    over = [name for name, one in drawn.items() if one.chart.part == "over-time"]
    left_out = over[1:] if len(findings.cells) > 1 else []
    return {name: one for name, one in drawn.items() if name not in left_out}


def wide_specs(findings: Findings, runs: Sequence[Run]) -> dict[str, Spec]:
    """The charts for files: name -> Vega-Lite."""
    return {name: drawn.specs()["wide"] for name, drawn in drawn_charts(findings, runs).items()}
