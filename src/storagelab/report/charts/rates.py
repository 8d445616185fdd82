"""What is done a second, for each cell: transactions of runs with a set time; requests and megabytes of raw I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from storagelab.findings.model import CellSummary, Findings
from storagelab.report.drawing.chart import ENDS, Chart, Figure, Row, figure_of_cells, table_of_cells
from storagelab.report.drawing.layers import Axis, axis_of, means_with_intervals
from storagelab.report.words import compared
from storagelab.report.words.table import Heading
from storagelab.words import numbers

UNIT = numbers.RATES["transactions"]


def _axis(data: Figure) -> Axis:
    return axis_of(data, always_zero=True)


def _caption(data: Figure, _findings: Findings) -> str:
    return f"Mean with its 95 % interval. {_axis(data).says}".strip()


def _caption_with_hidden_panels(data: Figure, findings: Findings) -> str:
    return f"{_caption(data, findings)} {data.on_hidden_panels}".strip()


def _chart(
    name: str,
    title: str,
    unit: str,
    place: int,
    cells: Callable[[Findings], list[CellSummary]],
    row: Callable[[CellSummary], Row],
    heading: str = "mean",
    caption: Callable[[Figure, Findings], str] = _caption,
) -> Chart:
    """A chart of the means of `cells`, along an axis from zero. `heading`: that of the means in the table."""
    note = "; mean with 95 % interval"
    return Chart(
        name=name,
        part="completion-time",
        place=place,
        title=title,
        rows=lambda findings, _runs: figure_of_cells(findings, cells(findings), row),
        draw=lambda data, sheet: means_with_intervals(data, sheet, unit, axis=_axis(data), note=note),
        caption=caption,
        table=lambda data, _findings: table_of_cells(data, {"mean": Heading(heading), **ENDS}),
    )


def of_set_time(findings: Findings) -> list[CellSummary]:
    """The cells whose runs did as many transactions as they could, or as they were sent, in a set time."""
    if findings.unit != "transactions" or compared.timed(findings):
        return []
    return [cell for cell in findings.cells if cell.work_per_s is not None]


def _transactions(cell: CellSummary) -> Row:
    assert cell.work_per_s is not None
    mean = cell.work_per_s.mean
    tip = f"{cell.name}: {numbers.rows_per_s_estimate(mean, UNIT)}"
    return {"mean": mean.value, "low": mean.low, "high": mean.high, "tip": tip}


def _of_raw_io(counter: str, findings: Findings) -> list[CellSummary]:
    return [cell for cell in findings.cells if compared.of_raw_io(findings) and counter in cell.raw_io]


def _counted(counter: str, unit: str, divisor: float, cell: CellSummary) -> Row:
    """The mean of a run's `counter`. The unit of the chart is `divisor` times the counter's own."""
    mean = cell.raw_io[counter].mean
    value, low, high = (None if one is None else one / divisor for one in (mean.value, mean.low, mean.high))
    interval = "" if low is None or high is None else f" (95 % CI {low:,.4g} to {high:,.4g})"
    return {"mean": value, "low": low, "high": high, "tip": f"{cell.name}: {value:,.4g} {unit}{interval}"}


CHARTS = (
    _chart(
        "throughput", "Throughput", UNIT, 5, of_set_time, _transactions, f"mean, {UNIT}", _caption_with_hidden_panels
    ),
    *(
        _chart(name, title, unit, 2, partial(_of_raw_io, counter), partial(_counted, counter, unit, divisor))
        for name, title, counter, unit, divisor in (
            ("requests", "Requests a second", "ios_per_s", "IO/s", 1.0),
            ("megabytes", "Megabytes a second", "bytes_per_s", "MB/s", 1e6),
        )
    ),
)
