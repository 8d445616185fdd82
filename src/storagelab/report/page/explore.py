"""Makes the data for the page's script: figures, waits, series, counters, set-up of all cells, interactive charts.

The script sorts and filters cells by these values, and compares two cells. Numbers have the digits that a chart needs.

The series of each cell's median run, and of odd runs, have as many periods as a chart can show, with the mean, minimum
and maximum of each period. The series of other runs have only the means of fewer periods. So the page stays small even
with many runs.

The browser draws the charts with Vega-Lite: a chart of all cells, and charts of the waits and series of two cells. The
file templates/explore-plots.json defines them, with $names for values that depend on the experiment. The page has them
without rows. The script adds the rows of the cells that pass its filters, and of the two cells that the reader
selected. The reader's choices of axis, colour and panels are parameters of Vega-Lite, bound to lists.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import resources
from typing import Any, NamedTuple, get_args

from storagelab.findings.cautions.odd_runs import OddRun
from storagelab.findings.model import CellSummary, Findings
from storagelab.findings.times import time_s
from storagelab.findings.why import by_part, each_s
from storagelab.model.measurement import Run
from storagelab.model.plan import Plan
from storagelab.model.waits import FOR_CLIENT
from storagelab.report.charts import over_time
from storagelab.report.document import Kind
from storagelab.report.drawing import palette
from storagelab.report.drawing.arrange import arrange
from storagelab.report.drawing.layers import TIP
from storagelab.report.drawing.vega import WIDE, Spec, config, figure, in_lines, letters, wrapped
from storagelab.report.export.as_json import plain
from storagelab.report.sections.waits import mean_counters
from storagelab.report.words import compared
from storagelab.report.words.campaigns import flat, steady
from storagelab.report.words.ladder import verdict_of
from storagelab.spec.naming import in_order as levels_in_order
from storagelab.words.names import title_of, value_text
from storagelab.words.numbers import quantity_text, second_unit

_VERDICTS = [kind.replace("-", " ") for kind in get_args(Kind)]
Json = dict[str, object]
_Figures = list[list[object]]
"""The rows of a cell. Each row has a position in a list of names, then figures."""


def record(plan: Plan, runs: Sequence[Run], findings: Findings, cells: Sequence[CellSummary]) -> Json:
    """Returns all data of `cells` except their series, in the order of `cells`."""
    by_cell: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.usable and not run.burn_in:
            by_cell[run.cell_id].append(run)
    levels = {factor.name: levels_in_order(factor) for factor in findings.factors}
    orders = {name: {repr(value): at for at, value in enumerate(values)} for name, values in levels.items()}
    waits, waited = _waits(findings, cells)
    counters, counted = _counters([by_cell[cell.cell_id] for cell in cells])
    factors = [
        {"name": factor.name, "text": title_of(factor), "levels": list(map(value_text, levels[factor.name]))}
        for factor in findings.factors
    ]
    # `plain` searches for passwords. `waited` and `counted` are not searched: they are long, and have only figures.
    return {
        "where": findings.provenance or "no result yet",
        "unit": compared.unit(findings),
        "verdicts": _VERDICTS,
        "pinned": [place for end in compared.ends(findings) for place, cell in enumerate(cells) if cell.cell_id == end],
        "factors": plain(factors),
        "cells": plain([_cell(findings, cell, orders) for cell in cells]),
        "waits": plain(waits),
        "waited_in": _wait_unit(findings)[1],
        "waited": waited,
        "counters": plain(counters),
        "counted": counted,
        "facts": plain(_facts(plan, [(cell.cell_id, by_cell[cell.cell_id]) for cell in cells])),
    }


def _cell(findings: Findings, cell: CellSummary, orders: Mapping[str, Mapping[str, int]]) -> Json:
    """Returns the facts and figures of a cell. `orders` maps each factor's levels to their positions."""
    figure = compared.judged(findings, cell)
    verdict = verdict_of(findings, cell.cell_id)
    left_out = {repetition for cell_id, repetition in findings.left_out if cell_id == cell.cell_id}
    facts: Json = {
        "id": cell.cell_id,
        "name": cell.name,
        "at": [orders[factor.name].get(repr(cell.levels.get(factor.name)), -1) for factor in findings.factors],
        "mark": verdict.text,
        "verdict": verdict.kind.replace("-", " "),
        "figure": compared.judged_text(findings, cell) or "no time measured",
    }
    if figure is None:
        return facts
    shown = partial(short, digits=6, divisor=1 / compared.times(findings))
    return facts | {
        "mean": shown(figure.mean.value), "low": shown(figure.mean.low), "high": shown(figure.mean.high),
        "runs": [[point.repetition, shown(point.value), int(point.repetition in left_out)] for point in figure.points],
    }  # fmt: skip


def _waits(findings: Findings, cells: Sequence[CellSummary]) -> tuple[list[Json], list[_Figures]]:
    """Returns the wait types and, for each cell, the time of each type in a session or transaction: in total, as
    resource time and as signal time. Resource and signal time are None if the target does not split waits.
    """
    shown = partial(short, divisor=1 / _wait_unit(findings)[0])
    is_wait: dict[str, bool] = {}
    of_cells: list[_Figures] = []
    for cell in cells:
        parts: dict[str, dict[str | None, float]] = defaultdict(dict)
        for thing, values in each_s(cell, by_part).items():
            if thing.part not in ("idle", "unaccounted"):
                name = f"{thing.name} (idle)" if thing.category == FOR_CLIENT else thing.name
                parts[name][thing.part] = sum(values) / len(values)
                is_wait[name] = thing.part != "cpu"
        largest_first = sorted(parts, key=lambda name: (not is_wait[name], -sum(parts[name].values())))
        of_cells.append([[[*is_wait].index(name), *map(shown, _split(parts[name]))] for name in largest_first])
    return [{"name": name, "wait": wait} for name, wait in is_wait.items()], of_cells


def _split(of_type: Mapping[str | None, float]) -> tuple[float | None, ...]:
    is_split = not {"wait", "cpu"} & of_type.keys()
    return sum(of_type.values()), *(of_type.get(part, 0.0) if is_split else None for part in ("resource", "signal"))


def _wait_unit(findings: Findings) -> tuple[float, str]:
    """Returns the factor that converts the seconds of waits to the unit in which the page shows them, and the unit."""
    if compared.spender(findings) == "session":
        return 1.0, "s per session"
    factor, unit = second_unit(max(map(time_s, findings.cells)))
    return factor, f"{unit} per transaction"


def _counters(runs_of_cells: Sequence[Sequence[Run]]) -> tuple[list[list[str]], list[_Figures]]:
    """Returns the counters and, for each cell, their means over its runs, as numbers and as text. Counters that are
    always 0 are left out.
    """
    places: dict[tuple[str, str], int] = {}
    of_cells: list[_Figures] = [
        [
            [places.setdefault(key, len(places)), short(mean), quantity_text(key[1], mean)]
            for key, mean in mean_counters(runs).items()
        ]
        for runs in runs_of_cells
    ]
    return [[name, group] for group, name in places], of_cells


# ---------------------------------------------------------------------------------------------------------------------
# How cells were set up
# ---------------------------------------------------------------------------------------------------------------------


def _facts(plan: Plan, cells: Iterable[tuple[str, Sequence[Run]]]) -> list[Json]:
    """Returns the requested and read-back facts that differ between cells but not between the runs of a cell. Read-back
    facts of a cell without runs are None.
    """
    configs = {cell.cell_id: cell.config for cell in plan.cells}
    of_cells: list[tuple[dict[str, str], str | None]] = []
    for cell_id, runs in cells:
        asked = configs[cell_id].model_dump(mode="json", exclude_none=True)
        found = {f"{'.'.join(path)} (asked for)": quantity_text(path[-1], value) for path, value in flat(asked)}
        for path, fact in steady(runs).items():
            found[" · ".join(path).replace("_", " ")] = quantity_text(path[-1], fact)
        of_cells.append((found, "" if runs else None))
    facts: list[Json] = []
    for name in dict.fromkeys(name for found, _ in of_cells for name in found):
        texts = [found.get(name, other) for found, other in of_cells]
        values = list(dict.fromkeys(text for text in texts if text is not None))
        if len(values) > 1:
            of = [None if text is None else values.index(text) for text in texts]
            facts.append({"name": name, "values": values, "of": of})
    return facts


# --- the time series of every run -------------------------------------------------------------------------------------
FIGURES_WHOLE, FIGURES_THINNED = 50_000, 25_000
"""The most figures of all runs whose series are shown in full, and of all other runs. Compressed, 100,000 figures take
0.2 MB.
"""
MAX_STRETCHES, MIN_STRETCHES = 60, 12
MAX_STRETCHES_THINNED, MIN_STRETCHES_THINNED = 30, 4
RunKey = tuple[str, int]
"""(cell_id, repetition)"""


class _Line(NamedTuple):
    quantity: int
    name: str


def odd_runs(findings: Findings) -> set[RunKey]:
    """Returns the runs that a caution is about. Their series are shown in full."""
    return {run for one in findings.cautions if isinstance(one, OddRun) for run in one.runs_meant(findings)}


def series(findings: Findings, runs: Sequence[Run], cells: Sequence[CellSummary]) -> Json:
    """Returns the series of the runs of each cell, the median run first. Values have the unit of their chart."""
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
            _of_run(run, drawn[_key(run)], step_s[_key(run) not in whole], lines, ranged=_key(run) in whole)
            for run in found if drawn[_key(run)]
        ]
        for cell in cells for found in [by_cell.get(cell.cell_id, [])] for step_s in [_steps(found, fine, coarse)]
    ]  # fmt: skip
    quantities = [{"title": one.title, "unit": one.unit} for one in over_time.QUANTITIES]
    return {"quantities": quantities, "lines": [[*line] for line in lines], "of": of_cells}


def packed(known: Json) -> str:
    """Returns data in the form that a page contains: compressed JSON, encoded as letters."""
    return letters(gzip.compress(json.dumps(known, allow_nan=False, separators=(",", ":")).encode(), 9, mtime=0))


def _stretches(figures: int, columns: int, least: int, most: int) -> int:
    """Returns the number of periods, from `least` to `most`, into which each column is cut. All columns together then
    have about `figures` figures.
    """
    return max(least, min(most, figures // max(1, columns)))


def _steps(runs: Sequence[Run], fine: int, coarse: int) -> tuple[float, float]:
    """Returns the seconds of a period of a run of this cell, for series in full and for all others. The second is a
    multiple of the first, so that the page can draw two runs of a cell with one step.
    """
    apart = [(_apart_s(run), len(run.measurement.series.at_s)) for run in runs if run.measurement is not None]
    steps = [max((one_s * over_time.length_of(of, most) for one_s, of in apart), default=1) for most in (fine, coarse)]
    return steps[0], steps[0] * math.ceil(steps[1] / steps[0] - 0.01)


def _apart_s(run: Run) -> float:
    """Returns the seconds between two samples. The last sample may be nearer to the one before."""
    assert run.measurement is not None
    *most, last_s = run.measurement.series.at_s
    return most[-1] / len(most) if most else last_s


def _key(run: Run) -> RunKey:
    return run.cell_id, run.repetition


def _of_run(run: Run, columns: Mapping[_Line, str], step_s: float, lines: dict[_Line, int], *, ranged: bool) -> Json:
    """Returns the series of a run: `at` has the ends of its periods of `step_s`. `lines` has, for each line, its
    number, its means and, if `ranged`, its smallest and largest values.
    """
    assert run.measurement is not None
    taken = run.measurement.series
    length = max(1, round(step_s / _apart_s(run)))
    of_run, at = [], []
    for line, column in columns.items():
        parts = list(over_time.stretches(taken.at_s, taken.columns[column], length))
        at = [short(part.at_s) for part in parts]
        divisor = over_time.QUANTITIES[line.quantity].divisor
        figures = [[short(value, 3, divisor) for value in row] for row in zip(*(one[1:] for one in parts), strict=True)]
        has_range = ranged and (figures[0] != figures[1] or figures[0] != figures[2])
        of_run.append([lines.setdefault(line, len(lines)), *(figures if has_range else figures[:1])])
    return {"repetition": run.repetition, "at": at, "lines": of_run}


def short(value: float | None, digits: int = 4, divisor: float = 1.0) -> float | int | None:
    """Divides a figure by `divisor` and rounds it to as many digits as a chart shows."""
    if value is None:
        return None
    rounded = float(f"{value / divisor:.{digits}g}")
    return int(rounded) if rounded == int(rounded) else rounded


def _columns(run: Run) -> dict[_Line, str]:
    """Maps the lines in a run's charts over time to their columns. Columns that are always 0 are left out."""
    assert run.measurement is not None
    found: dict[_Line, str] = {}
    for column, values in run.measurement.series.columns.items():
        for place, quantity in enumerate(over_time.QUANTITIES):
            line = quantity.line_of(run, column)
            if line is not None and any(values):
                found[_Line(place, line)] = column
    return found


# --- the interactive charts -------------------------------------------------------------------------------------------
LETTERS_OF_A_LABEL = 18
MAX_RUNS = 600
"""The most runs that are drawn as single points. More points would be unreadable and slow."""
_PLOTS = resources.files(__package__).joinpath("templates", "explore-plots.json")


def plots(findings: Findings) -> dict[str, Spec]:
    """Maps the name of each interactive chart to its Vega-Lite specification, without rows."""
    where = findings.provenance or "no result yet"
    name = "mean rate" if compared.by_rate(findings) else compared.quantity(findings)
    places = arrange(findings)
    fields = {factor.name: f"f{place}" for place, factor in enumerate(findings.factors)}
    titles = {fields[factor.name]: title_of(factor) for factor in findings.factors}
    axis = fields.get(places.x.name, "f0") if places.x is not None else "f0"
    # At first, colours show the factor whose levels are the lines of the charts or, without such a factor, the verdict.
    colour = next((fields[factor.name] for factor in places.lines), "verdict")
    level = _level(findings)
    given: dict[str, Any] = {
        "lines": palette.LINES, "shapes": palette.SHAPES, "pins": palette.LINES[:2], "ink": palette.INK,
        "ground": palette.GROUND, "neutral": palette.NEUTRAL, "tip": TIP["description"],
        "faster": palette.FASTER, "slower": palette.SLOWER,
        "titles": {"name": "titles", "value": titles | {"verdict": "verdict"}},
        "axis": _choice("axis", "Axis", titles, axis),
        "colour": _choice("colour", "Colour", {"verdict": "verdict"} | titles, colour),
        "panels": _choice("panels", "Panels", {"none": "none"} | titles, "none"),
        "level": level, "in_lines": level["axis"]["labelExpr"], "seconds": f"{_wait_unit(findings)[1]} ({where})",
        "moment": figure("at_s", f"seconds since the start ({where})"),
        "figure": f"{name}, {compared.unit(findings)} ({where})",
    }  # fmt: skip
    text = re.sub(r'"\$(\w+)"', lambda found: json.dumps(given[found[1]]), _PLOTS.read_text("utf-8"))
    shown = {"background": None, "padding": 4, "config": config(WIDE)}
    return {name: shown | spec for name, spec in json.loads(text).items()}


def _level(findings: Findings) -> Spec:
    """Returns the axis of levels. Long levels are broken into lines. The script rotates levels that don't fit."""
    levels = [value_text(level.value) for factor in findings.factors for level in factor.levels]
    lines = {text: wrapped(text, LETTERS_OF_A_LABEL) for text in levels}
    axis = {
        "labelExpr": in_lines(lines), "labelLimit": 0, "labelOverlap": False,
        "labelAngle": {"expr": "upright ? -90 : 0"}, "labelAlign": {"expr": "upright ? 'right' : 'center'"},
        "labelBaseline": {"expr": "upright ? 'middle' : 'top'"},
    }  # fmt: skip
    return {"field": "x", "type": "ordinal", "sort": {"field": "x_place", "op": "min"}, "title": "of the axis",
            "axis": axis}  # fmt: skip


def _choice(name: str, label: str, options: Mapping[str, str], value: str) -> Spec:
    """Returns a parameter that the reader chooses from a list."""
    bind = {"input": "select", "options": list(options), "labels": list(options.values()), "name": label,
            "element": "#explore-choices"}  # fmt: skip
    return {"name": name, "value": value, "bind": bind}
