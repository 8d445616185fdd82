"""The charts of a report, for the page, for files and for the Markdown report.

To add a chart, write a module in this folder that defines `CHART`, or add the chart to a module's `CHARTS`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from importlib import import_module
from typing import get_args

from storagelab.findings.model import Findings
from storagelab.model.measurement import Run
from storagelab.report.drawing.arrange import recommended
from storagelab.report.drawing.chart import Chart, Drawn, Part
from storagelab.report.drawing.vega import Spec
from storagelab.report.words import compared

_PARTS = get_args(Part)


def charts() -> list[Chart]:
    """Returns all charts in reading order."""
    modules = [import_module(one.name) for one in pkgutil.iter_modules(__path__, f"{__name__}.")]
    found = [chart for one in modules for chart in getattr(one, "CHARTS", None) or (one.CHART,)]
    return sorted(found, key=lambda chart: (_PARTS.index(chart.part), chart.place))


def drawn_charts(findings: Findings, runs: Sequence[Run]) -> dict[str, Drawn]:
    """Maps the names of all charts that have data to the charts."""
    picks = recommended(findings)
    found = ((chart.name, chart.of(findings, runs, picks)) for chart in charts())
    return {name: drawn for name, drawn in found if drawn is not None}


def page_charts(findings: Findings, runs: Sequence[Run]) -> dict[str, Drawn]:
    """Returns the charts of a page. Of the charts over time, a page with several cells has only the first and, if runs
    have a set time, the latency. The page's script can show the others for any two cells.
    """
    drawn = drawn_charts(findings, runs)
    over = [name for name, one in drawn.items() if one.chart.part == "over-time"]
    kept = {*over[:1], *(() if compared.timed(findings) else ("latency-over-time",))}
    left_out = [name for name in over if name not in kept] if len(findings.cells) > 1 else []
    return {name: one for name, one in drawn.items() if name not in left_out}


def wide_specs(findings: Findings, runs: Sequence[Run]) -> dict[str, Spec]:
    """Maps the name of each chart to its Vega-Lite specification for files."""
    return {name: drawn.specs()["wide"] for name, drawn in drawn_charts(findings, runs).items()}
