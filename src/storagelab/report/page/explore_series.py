"""The time series of every run, for the page's script: any run of any cell can be looked at.

The median run of each cell and the odd runs are as fine as a chart shows, with the least and the most of each stretch.
The other runs are thinned to the means of fewer stretches, so that the page stays small however many there are.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from storagelab.findings.cautions.odd_runs import OddRun
from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.report.charts import over_time

FIGURES_WHOLE, FIGURES_THINNED = 100_000, 60_000
"""The most figures of the runs that are shown whole, and of the others. Packed, 100,000 take some 0.2 MB."""
MAX_STRETCHES, MIN_STRETCHES = 60, 12
MAX_STRETCHES_THINNED, MIN_STRETCHES_THINNED = 30, 4
Json = dict[str, object]
RunKey = tuple[str, int]
"""(cell_id, repetition)"""


class _Line(NamedTuple):
    quantity: int
    name: str


def judged_runs(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs with figures that are judged, by cell."""
    by_cell: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.usable and not run.burn_in:
            by_cell[run.cell_id].append(run)
    return by_cell


def odd_runs(findings: Findings) -> set[RunKey]:
    """The runs that a caution is about, whose series are never thinned."""
    odd = (caution for caution in findings.cautions if isinstance(caution, OddRun))
    return {run for caution in odd for run in caution.runs_meant(findings)}


def series(findings: Findings, runs: Sequence[Run], cells: Sequence[CellSummary]) -> Json:
    """For each of `cells` its runs with a series, the median one first, in the unit of their chart."""
    by_cell = over_time.runs_with_series(runs)
    whole = odd_runs(findings) | {(cell_id, found[0].repetition) for cell_id, found in by_cell.items()}
    drawn = {_key(run): _columns(run) for cell in cells for run in by_cell.get(cell.cell_id, ())}
    columns_whole = sum(len(columns) for key, columns in drawn.items() if key in whole)
    columns_thinned = sum(map(len, drawn.values())) - columns_whole
    fine = _stretches(FIGURES_WHOLE // 3, columns_whole, MIN_STRETCHES, MAX_STRETCHES)
    coarse = _stretches(FIGURES_THINNED, columns_thinned, MIN_STRETCHES_THINNED, MAX_STRETCHES_THINNED)
    lines: dict[_Line, int] = {}
    of_cells = [
        [
            _of_run(run, drawn[_key(run)], fine if _key(run) in whole else coarse, lines, ranged=_key(run) in whole)
            for run in by_cell.get(cell.cell_id, ()) if drawn[_key(run)]
        ]
        for cell in cells
    ]  # fmt: skip
    quantities = [{"title": one.title, "unit": one.unit} for one in over_time.QUANTITIES]
    return {"quantities": quantities, "lines": [[*line] for line in lines], "of": of_cells}


def packed(known: Json) -> str:
    """The series as a page carries them: compressed JSON in base64, whose letters can't close a script element."""
    text = json.dumps(known, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _stretches(figures: int, columns: int, least: int, most: int) -> int:
    """Into how many stretches each column is cut, so that all of them have at most so many figures."""
    return max(least, min(most, figures // max(1, columns)))


def _key(run: Run) -> RunKey:
    return run.cell_id, run.repetition


def _of_run(run: Run, columns: Mapping[_Line, str], limit: int, lines: dict[_Line, int], *, ranged: bool) -> Json:
    """A run: `at`, the ends of its stretches, and for each line its number, means, and least and most if `ranged`."""
    assert run.measurement is not None
    taken = run.measurement.series
    of_run, at = [], []
    for line, column in columns.items():
        parts = list(over_time.stretches(taken.at_s, taken.columns[column], limit))
        at = [short(part.at_s) for part in parts]
        divisor = over_time.QUANTITIES[line.quantity].divisor
        figures = [[_part(value, divisor) for value in row] for row in zip(*(part[1:] for part in parts), strict=True)]
        has_range = ranged and (figures[0] != figures[1] or figures[0] != figures[2])
        of_run.append([lines.setdefault(line, len(lines)), *(figures if has_range else figures[:1])])
    return {"repetition": run.repetition, "at": at, "lines": of_run}


def _part(value: float | None, divisor: float) -> float | int | None:
    return None if value is None else short(value / divisor, 3)


def short(value: float | None, digits: int = 4) -> float | int | None:
    """A figure in as many digits as a chart shows."""
    if value is None:
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) else rounded


def _columns(run: Run) -> dict[_Line, str]:
    """The lines in a run's charts over time -> their columns; those that are always 0 are left out."""
    assert run.measurement is not None
    found: dict[_Line, str] = {}
    for column, values in run.measurement.series.columns.items():
        for place, quantity in enumerate(over_time.QUANTITIES):
            line = quantity.line_of(run, column)
            if line is not None and any(values):
                found[_Line(place, line)] = column
    return found
