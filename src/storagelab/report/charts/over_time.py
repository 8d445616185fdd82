"""Time series of runs as rows for charts: one chart per quantity, one panel per cell, one line per repetition. Pure.

A run tells what its target could observe: a simulated server more than a real one. Charts are of the same form for both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run, TimeSeries
from storagelab.report.charts.figure_data import Figure, Row
from storagelab.report.drawing import arrange, palette
from storagelab.report.drawing.arrange import in_order
from storagelab.report.words import numbers
from storagelab.report.words.names import cell_text

MAX_SERIES_POINTS = 120
MAX_POINTS_OF_OTHERS = 60
"""Of runs that are drawn thin, beside the one of median time."""
MAX_RUNS = 10
DOTTED_POINTS = 30
"""Up to so many points each is marked, and says its value when pointed at."""
_VOLUME = re.compile(r"volume\.(?P<volume>.+)\.(?P<what>read_bytes|write_bytes|busy_s)_per_s")


@dataclass(frozen=True)
class Quantity:
    """What one chart shows: `line_of` names the line of a column, None if it is not of it; `unit` fits a small axis."""

    name: str
    title: str
    unit: str
    divisor: float
    line_of: Callable[[Run, str], str | None]
    meaning: str = ""


def _column(name: str, line: str) -> Callable[[Run, str], str | None]:
    return lambda _run, column: line if column == name else None


def _volume(whats: Mapping[str, str]) -> Callable[[Run, str], str | None]:
    """A line per volume and way. What is counted is the whole disk, so volumes on one device share a line."""

    def line(run: Run, column: str) -> str | None:
        match = _VOLUME.fullmatch(column)
        if match is None or match["what"] not in whats:
            return None
        together = _on_one_device(run, match["volume"])
        if together[0] != match["volume"]:
            return None
        return f"volume{'s' * (len(together) > 1)} {' and '.join(together)}, {whats[match['what']]}"

    return line


def _on_one_device(run: Run, volume: str) -> list[str]:
    """`volume` and every other volume with a series that is on the same device, by name; itself if that is unknown."""
    if run.measurement is None:
        return [volume]
    found = run.measurement.environment.get("volumes")
    tables = found if isinstance(found, Mapping) else {}
    drawn = {match["volume"] for column in run.measurement.series.columns if (match := _VOLUME.fullmatch(column))}
    devices = {name: table.get("device") for name, table in tables.items() if isinstance(table, Mapping)}
    device = devices.get(volume)
    return sorted(name for name in drawn if device and devices.get(name) == device) or [volume]


QUANTITIES = (
    Quantity("rows-over-time", "Throughput over time", "thousand rows/s", 1e3, _column("rows_per_s", "rows")),
    Quantity("io-over-time", "Volume I/O over time", "MB/s", 2**20, _volume({"read_bytes": "read", "write_bytes": "write"}),
             "each way, of the whole volume, the log's share included where the log is on it"),
    Quantity("busy-over-time", "Volumes busy over time", "% of the time", 0.01, _volume({"busy_s": "busy"}),
             "with at least one request under way"),
    Quantity("write-amplification-over-time", "Write amplification over time", "per page", 1,
             _column("write_amplification", "write amplification"), "flash pages written for each page given to the drive"),
    Quantity("utilisation-over-time", "Utilisation of the drives over time", "% in use", 0.01,
             _column("utilisation", "utilisation"), "the share of the flash that holds pages in use"),
    Quantity("dirty-pages-over-time", "Dirty pages over time", "thousand pages", 1e3,
             _column("dirty_pages", "dirty pages"), "pages in memory that are newer than on the volume"),
    Quantity("runnable-over-time", "Runnable workers over time", "workers", 1, _column("runnable", "runnable workers"),
             "ready to run, waiting for a CPU"),
    Quantity("io-in-progress-over-time", "I/O in progress over time", "requests", 1,
             _column("io_in_progress", "requests in progress"), "given to the volumes and not answered yet"),
)  # fmt: skip
BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}


def runs_of(findings: Findings, runs: Sequence[Run]) -> list[tuple[CellSummary, list[Run]]]:
    """The chosen cells with their runs that have a series; the run of median time (of two, the faster) first."""
    by_cell: dict[str, list[Run]] = {}
    for run in runs:
        if run.usable and not run.burn_in and run.measurement is not None and run.measurement.series.at_s:
            by_cell.setdefault(run.cell_id, []).append(run)
    chosen = []
    for cell in arrange.chosen_cells(findings):
        found = by_cell.get(cell.cell_id, [])
        if found:
            ordered = sorted(found, key=_elapsed_s)
            median = ordered[(len(ordered) - 1) // 2]
            chosen.append((cell, [median, *(run for run in found if run is not median)][:MAX_RUNS]))
    return chosen


def _elapsed_s(run: Run) -> float:
    return run.measurement.elapsed_s if run.measurement is not None else 0.0


def over_time(findings: Findings, runs: Sequence[Run], quantity: Quantity) -> Figure:
    """Rows `at_s`, `value` per `panel` = cell, `line`, and `series` = one line of one run; `median` marks its run."""
    chosen = runs_of(findings, runs)
    panels = arrange.short_names([cell for cell, _ in chosen])
    rows: list[Row] = []
    for panel, (cell, of_cell) in zip(panels, chosen, strict=True):
        for place, run in enumerate(of_cell):
            assert run.measurement is not None
            for column, values in run.measurement.series.columns.items():
                line = quantity.line_of(run, column)
                if line is not None and any(values):
                    most = MAX_SERIES_POINTS if place == 0 else MAX_POINTS_OF_OTHERS
                    of_run: Row = {
                        "panel": panel, "line": line, "series": f"{line} {run.repetition}", "median": place == 0,
                        "cell": cell_text(cell.levels), "repetition": run.repetition,
                        "run": f"{cell_text(cell.levels)}, repetition {run.repetition}, {line}",
                    }  # fmt: skip
                    rows += _stretches(run.measurement.series, values, of_run, quantity, most)
    lines = in_order(str(row["line"]) for row in rows)[: arrange.MAX_LINES]
    cells = sum(cell.elapsed_s is not None for cell in findings.cells)
    return Figure(
        rows=[row for row in rows if row["line"] in lines],
        arrangement=arrange.arrange(findings),
        lines=lines,
        panels=[panel for panel in panels if any(row["panel"] == panel for row in rows)],
        colours=dict(zip(lines, palette.LINES, strict=False)),
        hidden_panels=max(0, cells - len(chosen)),
    )


def steps_text(data: Figure) -> str:
    """How far apart the points are that are drawn of runs of median time: "1 s", or "8 to 47 s"."""
    ends_s: dict[tuple[object, object], list[float]] = {}
    for row in data.rows:
        if row["median"]:
            ends_s.setdefault((row["panel"], row["series"]), [0.0]).append(float(row["at_s"] or 0))
    # The last interval of a run is what is left of it.
    steps_s = [(ends[-2] if ends[2:] else ends[-1]) / max(1, len(ends) - 2) for ends in ends_s.values()]
    ends_text = [numbers.significant(step_s, 2) for step_s in (min(steps_s), max(steps_s))]
    ends_text = [text.rstrip("0").rstrip(".") if "." in text else text for text in ends_text]
    return f"{' to '.join(dict.fromkeys(ends_text))} s"


def _stretches(
    series: TimeSeries, values: Sequence[float | None], of_run: Row, quantity: Quantity, most: int
) -> list[Row]:
    """A long series is drawn as means over equal stretches, so that peaks shrink but no stretch is left out."""
    stretch = -(-len(values) // most)
    rows: list[Row] = []
    for start in range(0, len(values), stretch):
        known = [value for value in values[start : start + stretch] if value is not None]
        at_s = series.at_s[min(start + stretch, len(series.at_s)) - 1]
        value = sum(known) / len(known) / quantity.divisor if known else None
        rows.append(of_run | {"at_s": at_s, "value": value})
    dotted = bool(of_run["median"]) and len(rows) <= DOTTED_POINTS
    for row in rows:
        words = numbers.significant(float(row["value"] or 0))
        at = f"at {numbers.seconds(float(row['at_s'] or 0))}: {words} {quantity.unit}"
        row |= {"dotted": dotted, "tip": f"{row['run']}, {at}"}
    return rows
