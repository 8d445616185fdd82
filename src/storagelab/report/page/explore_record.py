"""What the page's interactive table knows of each cell: its figures, waits, series, counters, and its set-up.

The page's script reads it as JSON to sort and filter, and to compare two cells. Numbers are as short as a chart can
show. The series of all runs are a part of their own, in `explore_series`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from storagelab.findings.model import CellSummary, Findings
from storagelab.findings.time_breakdown import in_classes
from storagelab.model.measurement import Run
from storagelab.model.plan import Plan
from storagelab.report.document import Kind
from storagelab.report.drawing import palette
from storagelab.report.export.as_json import plain
from storagelab.report.page.explore_series import judged_runs, short
from storagelab.report.sections.waits import mean_counters
from storagelab.report.words import compared
from storagelab.report.words.campaigns import flat, steady
from storagelab.report.words.ladder import verdict_of
from storagelab.spec.naming import in_order as levels_in_order
from storagelab.words.names import title_of, value_text
from storagelab.words.numbers import quantity_text

_VERDICTS = [kind.replace("-", " ") for kind in get_args(Kind)]
Json = dict[str, object]
_Figures = list[list[object]]
"""The rows of a cell: a place, then figures."""


def record(plan: Plan, runs: Sequence[Run], findings: Findings, cells: Sequence[CellSummary]) -> Json:
    """Everything about `cells` but their series, in their order."""
    by_cell = judged_runs(runs)
    ends = compared.ends(findings)
    orders = {
        factor.name: {repr(value): place for place, value in enumerate(levels_in_order(factor))}
        for factor in findings.factors
    }
    waits, waited = _waits(findings, cells)
    counters, counted = _counters([by_cell[cell.cell_id] for cell in cells])
    factors = [
        {"name": factor.name, "text": title_of(factor), "levels": list(map(value_text, levels_in_order(factor)))}
        for factor in findings.factors
    ]
    facts = _facts(plan, [(cell.cell_id, by_cell[cell.cell_id]) for cell in cells])
    # Rows of figures contain no text of others, and there are too many of them to search for passwords.
    return {
        "where": findings.provenance or "nothing measured yet",
        "unit": compared.unit(findings),
        "verdicts": _VERDICTS,
        "pinned": [place for end in ends for place, cell in enumerate(cells) if cell.cell_id == end],
        "factors": plain(factors),
        "cells": plain([_cell(findings, cell, orders) for cell in cells]),
        "waits": plain(waits),
        "waited": waited,
        "counters": plain(counters),
        "counted": counted,
        "facts": plain(facts),
    }


def _cell(findings: Findings, cell: CellSummary, orders: Mapping[str, Mapping[str, int]]) -> Json:
    """`orders` maps each factor's levels to their positions."""
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
    return facts | {
        "mean": short(figure.mean.value, 6), "low": short(figure.mean.low, 6), "high": short(figure.mean.high, 6),
        "runs": [
            [point.repetition, short(point.value, 6), int(point.repetition in left_out)] for point in figure.points
        ],
    }  # fmt: skip


def _waits(findings: Findings, cells: Sequence[CellSummary]) -> tuple[list[Json], list[_Figures]]:
    """The wait types, and for each cell its seconds per session: in total, resource, signal; the last two are
    None if there is no split.
    """
    names: dict[str, Json] = {}
    of_cells: list[_Figures] = []
    for cell in cells:
        rows = in_classes(cell.waits) if findings.wait_names else cell.waits
        places = {name: place for place, name in enumerate(names)}
        of_cell: _Figures = []
        for row in rows:
            if row.wait_type not in names:
                places[row.wait_type] = len(names)
                colour = palette.CATEGORY[row.category]
                known = {"name": row.wait_type, "like": row.analogue, "colour": colour, "wait": row.is_wait}
                names[row.wait_type] = known
            parts = (row.wait_s, row.resource_s, row.signal_s)
            per_connection = (None if part is None else short(part / cell.connections) for part in parts)
            of_cell.append([places[row.wait_type], *per_connection])
        of_cells.append(of_cell)
    return list(names.values()), of_cells


def _counters(runs_of_cells: Sequence[Sequence[Run]]) -> tuple[list[list[str]], list[_Figures]]:
    """The counters, and for each cell their means over its runs, as numbers and in words; those that are always 0
    are left out.
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
    """The facts that differ between cells but not between the runs of one: what was asked for, and what was read
    back.
    """
    configs = {cell.cell_id: cell.config for cell in plan.cells}
    of_cells: list[dict[str, str]] = []
    for cell_id, runs in cells:
        asked = configs[cell_id].model_dump(mode="json", exclude_none=True)
        found = {f"{'.'.join(path)} (asked for)": quantity_text(path[-1], value) for path, value in flat(asked)}
        for path, fact in steady(runs).items():
            found[" · ".join(path).replace("_", " ")] = quantity_text(path[-1], fact)
        of_cells.append(found)
    facts: list[Json] = []
    for name in dict.fromkeys(name for found in of_cells for name in found):
        values = list(dict.fromkeys(found.get(name, "") for found in of_cells))
        if len(values) > 1:
            facts.append({"name": name, "values": values, "of": [values.index(one.get(name, "")) for one in of_cells]})
    return facts
