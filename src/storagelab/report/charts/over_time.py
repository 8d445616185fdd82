"""The charts of runs over time. Each quantity has a chart, each cell has a panel, each repetition has a line.

A run has the series that its target could observe. A simulated server has more series than a real server. Charts look
the same for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from storagelab.findings.basis import volumes_of
from storagelab.findings.model import CellSummary, Findings
from storagelab.findings.times import SYNCS
from storagelab.model.measurement import RAW_IO, Run, TimeSeries
from storagelab.report.document import Heading, Table, bare
from storagelab.report.drawing import arrange, palette
from storagelab.report.drawing.arrange import in_order
from storagelab.report.drawing.chart import Chart, Figure, Row, not_drawn
from storagelab.report.drawing.layers import DOT, TIP, only, told_apart
from storagelab.report.drawing.vega import Sheet, Spec, figure, finished
from storagelab.words import numbers
from storagelab.words.names import capital, cell_entry

MAX_SERIES_POINTS, MIN_SERIES_POINTS, MAX_POINTS = 120, 40, 2_400
"""The most points of a line, the fewest to which a chart with many lines may reduce a line, and the most points of a
chart. All lines of a chart have points at the same distance. Otherwise, some lines would lack peaks that others show.
"""
MAX_RUNS = 10
DOTTED_POINTS = 30
"""A line of up to this many points has a mark at each point. The mark shows its value under the pointer."""
_DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2])
"""Each line over time has its own dash pattern as well as its own colour."""
_FAR = 6.0
"""If the largest value of one panel is more than this many times that of another, each panel has its own axis."""
_UNSYNCED = " without their syncs"
_MARGIN = 1.03
"""Axes end at the last or largest point times this factor, so that the marks there are completely visible."""


@dataclass(frozen=True)
class Quantity:
    """The quantity that one chart shows. `line_of` returns the name of the line for a column of a run's series; None if
    the column is not of this quantity. `divisor` converts a value of the column to `unit`.
    """

    name: str
    title: str
    unit: str
    divisor: float
    line_of: Callable[[Run, str], str | None]
    meaning: str = ""


def _columns(**lines: str) -> Callable[[Run, str], str | None]:
    """Returns a `line_of` that maps each of these columns to a line."""
    return lambda _run, column: lines.get(column)


def _latency(run: Run, column: str) -> str | None:
    """Returns the line of a column of latency. fio does not log by the second how long the syncs after writes took."""
    synced = run.measurement is not None and SYNCS in run.measurement.counters.get(RAW_IO, {})
    lines = {"latency_p99_s": "p99 of each second", "read_latency_mean_s": "reads, mean of each second",
             "write_latency_mean_s": f"writes{_UNSYNCED * synced}, mean of each second"}  # fmt: skip
    return lines.get(column)


def _volume(whats: Mapping[str, str]) -> Callable[[Run, str], str | None]:
    """Returns a `line_of` with a line for each volume and direction. Counters are of a whole device, so all volumes on
    a device share a line.
    """

    def line(run: Run, column: str) -> str | None:
        volume, what = _volume_of(column)
        together = _on_one_device(run, volume) if what in whats else []
        if together[:1] != [volume]:
            return None
        return f"volume{'s' * (len(together) > 1)} {' and '.join(together)}, {whats[what]}"

    return line


def _volume_of(column: str) -> tuple[str, str]:
    """Returns the volume of a column, and what it counts: "a" and "busy_s" for "volume.a.busy_s_per_s". Two empty texts
    if the column is not of a volume.
    """
    volume, _, what = column.removeprefix("volume.").rpartition(".")
    return (volume, what.removesuffix("_per_s")) if column.startswith("volume.") else ("", "")


def _on_one_device(run: Run, volume: str) -> list[str]:
    """Returns `volume` and all other volumes with a series on the same device, sorted by name. If the device is
    unknown, returns only `volume`.
    """
    if run.measurement is None:
        return [volume]
    drawn = {_volume_of(column)[0] for column in run.measurement.series.columns} - {""}
    devices = {name: table.get("device") for name, table in volumes_of(run.measurement)}
    device = devices.get(volume)
    return sorted(name for name in drawn if device and devices.get(name) == device) or [volume]


QUANTITIES = (
    Quantity("rows-over-time", "Throughput over time", "thousand rows/s", 1e3, _columns(rows_per_s="rows")),
    Quantity("transactions-over-time", "Transactions over time", "transactions/s", 1,
             _columns(transactions_per_s="transactions")),
    Quantity("requests-over-time", "Requests over time", "requests/s", 1, _columns(requests_per_s="requests")),
    Quantity("latency-over-time", "Latency over time", "ms", 1e-3,
             _latency, "of the transactions or requests that ended in a second"),
    Quantity("checkpoint-over-time", "Checkpoints over time", "% of the time", 0.01,
             _columns(checkpoint_s_per_s="checkpoint"), "with a checkpoint of the server under way"),
    Quantity("io-over-time", "Volume I/O over time", "MB/s", 1e6,
             _volume({"read_bytes": "read", "write_bytes": "write"}),
             "in each direction, of the whole volume, with the log if it is on the volume"),
    Quantity("busy-over-time", "Volumes busy over time", "% of the time", 0.01, _volume({"busy_s": "busy"}),
             "with at least one request under way"),
    Quantity("write-amplification-over-time", "Write amplification over time", "per page", 1,
             _columns(write_amplification="write amplification"), "flash pages written for "
             "each page given to the drive"),
    Quantity("utilisation-over-time", "Utilisation of the drives over time", "% in use", 0.01,
             _columns(utilisation="utilisation"), "the share of the flash that holds pages in use"),
    Quantity("dirty-pages-over-time", "Dirty pages over time", "thousand pages", 1e3,
             _columns(dirty_pages="dirty pages"), "pages in memory that are newer than on the volume"),
    Quantity("runnable-over-time", "Runnable workers over time", "workers", 1, _columns(runnable="runnable workers"),
             "ready to run, waiting for a CPU"),
    Quantity("io-in-progress-over-time", "I/O in progress over time", "requests", 1,
             _columns(io_in_progress="requests in progress"), "given to the volumes and not answered yet"),
)  # fmt: skip


def runs_with_series(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Maps the id of each cell to its runs with a series, the median run first. Of two middle runs, the faster one is
    the median. Runs are sorted by time per unit of work, because runs of a set time differ in their work.
    """
    by_cell: dict[str, list[Run]] = {}
    for run in runs:
        if run.usable and not run.burn_in and run.measurement is not None and run.measurement.series.at_s:
            by_cell.setdefault(run.cell_id, []).append(run)
    return {cell_id: _median_first(found) for cell_id, found in by_cell.items()}


def _median_first(runs: Sequence[Run]) -> list[Run]:
    def each_s(run: Run) -> float:
        """Returns the seconds for each unit of work."""
        return run.measurement.elapsed_s / max(1, run.measurement.work.amount) if run.measurement is not None else 0.0

    median = sorted(runs, key=each_s)[(len(runs) - 1) // 2]
    return [median, *(run for run in runs if run is not median)]


def runs_of(findings: Findings, runs: Sequence[Run]) -> list[tuple[CellSummary, list[Run]]]:
    """Returns the chosen cells, each with its runs that have a series."""
    chosen = {cell.cell_id: cell for cell in arrange.chosen_cells(findings)}
    by_cell = runs_with_series([run for run in runs if run.cell_id in chosen])
    return [(cell, by_cell[cell_id][:MAX_RUNS]) for cell_id, cell in chosen.items() if cell_id in by_cell]


def _rows(findings: Findings, runs: Sequence[Run], quantity: Quantity) -> Figure:
    """Returns rows of `at_s` and `value`. `panel` is the cell, `line` the name of the line, and `series` identifies one
    line of one run. `median` is true for the median run.
    """
    chosen = runs_of(findings, runs)
    panels = arrange.short_names([cell for cell, _ in chosen])
    drawn: list[tuple[Row, TimeSeries, str]] = []
    for panel, (cell, of_cell) in zip(panels, chosen, strict=True):
        for place, run in enumerate(of_cell):
            assert run.measurement is not None
            for column, values in run.measurement.series.columns.items():
                line = quantity.line_of(run, column)
                if line is not None and any(values):
                    of_run: Row = {
                        "panel": panel, "line": line, "series": f"{line} {run.repetition}", "median": place == 0,
                        "cell": cell.text, "cell_id": cell.cell_id, "repetition": run.repetition,
                        "run": f"{cell.name}, repetition {run.repetition}, {line}",
                    }  # fmt: skip
                    drawn.append((of_run, run.measurement.series, column))
    most = min(MAX_SERIES_POINTS, max(MIN_SERIES_POINTS, MAX_POINTS // max(1, len(drawn))))
    length = length_of(max((len(series.at_s) for _, series, _ in drawn), default=0), most)
    rows = [row for of_run, series, column in drawn for row in _stretches(series, column, of_run, quantity, length)]
    lines = in_order(str(row["line"]) for row in rows)[: arrange.MAX_LINES]
    shared = arrange.shared_levels([cell for cell, _ in chosen])
    told = [f"Each point is the mean of {length} samples." * (length > 1), shared and f"All cells shown have {shared}."]
    return Figure(
        rows=[row for row in rows if row["line"] in lines],
        lines=lines,
        panels=[panel for panel in panels if any(row["panel"] == panel for row in rows)],
        hidden=not_drawn(sum(cell.elapsed_s is not None for cell in findings.cells) - len(chosen)),
        legend=" ".join(filter(None, told)),
        names="panel",
    )


def length_of(samples: int, most: int) -> int:
    """Returns how many samples are averaged in a point, so that there are at most `most` points."""
    return max(1, -(-samples // most))


def _stretches(series: TimeSeries, column: str, of_run: Row, quantity: Quantity, length: int) -> list[Row]:
    """Returns the rows of a series. A long series becomes means over equal periods, which makes peaks lower but leaves
    out no period.
    """
    rows: list[Row] = []
    parts = list(stretches(series.at_s, series.columns[column], length))
    dotted = bool(of_run["median"]) and len(parts) <= DOTTED_POINTS
    for part in parts:
        value = None if part.mean is None else part.mean / quantity.divisor
        tip = f"{of_run['run']}, at {numbers.seconds(part.at_s)}: {numbers.significant(value or 0)} {quantity.unit}"
        rows.append(of_run | {"at_s": part.at_s, "value": value, "dotted": dotted, "tip": tip})
    return rows


class Stretch(NamedTuple):
    """Consecutive samples: the end of the last one (seconds), and their mean, smallest and largest value; None if no
    value is known.
    """

    at_s: float
    mean: float | None
    least: float | None
    most: float | None


def stretches(at_s: Sequence[float], values: Sequence[float | None], length: int) -> Iterator[Stretch]:
    """Yields the periods of `length` samples of a series. The last period may be shorter."""
    for start in range(0, len(values), length):
        known = [value for value in values[start : start + length] if value is not None]
        end = at_s[min(start + length, len(at_s)) - 1]
        figures = (sum(known) / len(known), min(known), max(known)) if known else (None, None, None)
        yield Stretch(end, *figures)


def _draw(data: Figure, sheet: Sheet, unit: str) -> Spec:
    where = sheet.where
    end_s, (most, *_) = _ends(data)
    apart = _apart(data)
    y_scale = {"zero": True, "nice": False} if apart else {"domain": [0, most], "nice": False}
    encoding: Spec = {
        "x": figure("at_s", f"seconds since the start ({where})", scale={"domain": [0, end_s], "nice": False},
                    axis={"tickMinStep": 1, "tickCount": 6}),
        "y": figure("value", unit, scale=y_scale),
    }  # fmt: skip
    colour: Spec = {"color": palette.LINES[0]}
    if len(data.lines) > 1:
        dashes = [_DASHES[place % len(_DASHES)] for place in range(len(data.lines))]
        legend = {"title": where, "symbolType": "stroke", "symbolSize": 200}
        encoding |= told_apart(data, sheet.form, legend, strokeDash=dashes)
        colour = {}
    # The page's script adds the value at the pointer's position to this text.
    of_run = encoding | {"detail": {"field": "series", "type": "nominal"}, "description": {"field": "run"}}
    layers = [
        only("!datum.median", {"type": "line", "strokeWidth": 0.8, "opacity": 0.65} | colour, of_run),
        only("datum.median", {"type": "line", "strokeWidth": 1.5} | colour, of_run),
        only("datum.dotted", DOT | {"size": 14} | colour, encoding | TIP),
    ]
    height_px = 220 if len(data.panels) < 2 else 120
    return finished(sheet, layers, data.rows, data.starred(data.panels), height_px, apart="y" if apart else "")


def _apart(data: Figure) -> bool:
    """Whether each panel has its own value axis, because lines would look flat in some panels with a common axis."""
    tops = _tops(data)
    return len(tops) > 1 and max(tops) > _FAR * min(tops) > 0


def _tops(data: Figure) -> list[float]:
    """Returns the largest value of each panel."""
    return [max(float(row["value"] or 0) for row in data.rows if row["panel"] == panel) for panel in data.panels]


def _ends(data: Figure) -> tuple[float, Sequence[float]]:
    """Returns the end of the time axis, and the end of the value axis. If each panel has its own value axis, the second
    result has the largest value of each panel.
    """
    end_s = max(float(row["at_s"] or 0) for row in data.rows) or 1.0
    tops = _tops(data)
    return end_s * _MARGIN, tops if _apart(data) else [_round_end((max(tops) or 1.0) * _MARGIN)]


def _round_end(value: float) -> float:
    """Returns the smallest round number that is at least `value`. An axis of about five steps then ends with a full
    step.
    """
    power = 10.0 ** math.floor(math.log10(value / 5))
    step = next(factor for factor in (1, 2, 5, 10) if value / 5 <= factor * math.sqrt(2) * power) * power
    return math.ceil(value / step) * step


def _marks(data: Figure, _findings: Findings, quantity: Quantity) -> str:
    of = f"; {data.lines[0]}" if len(data.lines) == 1 and "volume" in data.lines[0] else ""
    meaning = f": {quantity.meaning}" if quantity.meaning else ""
    unit = quantity.unit if len(quantity.unit) < 3 else capital(quantity.unit)
    apart = " Each panel has its own vertical axis." if _apart(data) else ""
    of_points = data.legend and f" {data.legend}"
    synced = " fio does not log syncs by the second." * any(_UNSYNCED in line for line in data.lines)
    return f"{unit}{meaning}{of}. Thick: the median run; thin: the others.{of_points}{apart}{synced}"


def _table(data: Figure, _findings: Findings, unit: str) -> Table:
    """Returns a table with a few figures for each line, because a table of thousands of points would be unreadable."""
    headings = [Heading("cell", "prose"), Heading("of", "text"), Heading("repetition"), Heading("until, s"),
                Heading(f"mean, {unit}"), Heading("least"), Heading("most"), Heading("at the end")]  # fmt: skip
    lines: dict[tuple[str, str, str], list[Row]] = {}
    for row in data.rows:
        key = cell_entry(row["cell_id"], row["cell"]), str(row["line"]), str(row["repetition"])
        lines.setdefault(key, []).append(row)
    rows = []
    for key, of_line in lines.items():
        values = [float(row["value"]) for row in of_line if row["value"] is not None]
        figures = (sum(values) / len(values), min(values), max(values), values[-1]) if values else (None,) * 4
        rows.append([*key, bare(of_line[-1]["at_s"]), *map(bare, figures)])
    return Table(headings, rows)


def _finding(data: Figure, _findings: Findings) -> str:
    """Says where the median runs are lowest and highest; "" if they have no values."""
    known = [row for row in data.rows if row["median"] and row["value"] is not None]
    known = [row for row in known if _UNSYNCED not in str(row["line"])] or known  # that time is not the whole
    if not known:
        return ""
    low, high = (pick(known, key=lambda row: float(row["value"] or 0)) for pick in (min, max))
    return f"Lowest of the median runs: {low['tip']}. Highest: {high['tip']}."


def _chart(quantity: Quantity) -> Chart:
    return Chart(
        name=quantity.name,
        part="over-time",
        title=quantity.title,
        rows=partial(_rows, quantity=quantity),
        draw=partial(_draw, unit=quantity.unit),
        finding=_finding,
        marks=partial(_marks, quantity=quantity),
        table=partial(_table, unit=quantity.unit),
        ends=_ends,
        time_unit=quantity.unit,
    )


CHARTS = tuple(map(_chart, QUANTITIES))
