"""Makes tidy tables of stored runs and findings, and writes them as CSV and as a SQLite file. Pure.

A table has a row for each observation. The first columns are `cell_id` and one column for each factor, named like the
factor. So any two tables can be joined and grouped. Unknown values are None. Times are in seconds; the names of other
columns end with their units.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from storagelab.findings.model import CellSummary, Estimate, Findings
from storagelab.findings.times import FIGURES
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.model.values import JsonValue
from storagelab.report.export.as_json import measured
from storagelab.report.words.ladder import verdict_of
from storagelab.report.words.secrets import masked
from storagelab.words.names import unmet_text

Value = str | float | bool | None
Fields = Mapping[str, Value]

_OF_RUN = ("repetition", "attempt", "status", "provenance")
LATENCY_COLUMNS = tuple(f"latency_{name}_s" for name in FIGURES)
RUN_COLUMNS = (
    *_OF_RUN, "elapsed_s", "work", "unit", "work_per_s", "checkpoint_s", "cpu_s", "explained", "sequence", "block",
    "seed", "started_at", "reason", "burn_in", *LATENCY_COLUMNS,
)  # fmt: skip
WAIT_COLUMNS = (
    *_OF_RUN, "wait_type", "wait_s", "resource_s", "signal_s", "wait_count", "is_wait", "method", "category",
    "analogue", "connections", "elapsed_s",
)  # fmt: skip
SERIES_COLUMNS = (*_OF_RUN, "at_s", "quantity", "value")
CELL_COLUMNS = (
    "provenance", "connections", "data_files", "runs_planned", "runs_ok", "runs_unverified", "runs_failed", "verdict",
    "mean_s", "mean_low_s", "mean_high_s", "median_s", "sd_s", "minimum_s", "maximum_s", "work_per_s",
    "work_per_s_low", "work_per_s_high", *LATENCY_COLUMNS, "ratio", "ratio_low", "ratio_high", "explained",
    "price_per_month",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Rows of equal length, and the names of their columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


def all_of(
    experiment: Experiment, plan: Plan, runs: Sequence[Run], findings: Findings
) -> dict[str, Callable[[], Table]]:
    """Maps the name of each table to the function that makes it."""
    # runs: a row for each run, also for failed runs and burn-in runs; `work` is in `unit`.
    # waits: a row for each run and wait type, including CPU time and the wait for a CPU.
    # series: a row for each run, moment and quantity; `value` is the mean over the interval that ends at `at_s`.
    # cells: means and verdicts as in the report; `ratio` is the time divided by that of the best cell under that load.
    return {
        "runs": lambda: _table(experiment, RUN_COLUMNS, ((run, _run_fields(run)) for run in _in_order(plan, runs))),
        "waits": lambda: _table(experiment, WAIT_COLUMNS, _of_each(plan, runs, _wait_fields)),
        "series": lambda: _table(experiment, SERIES_COLUMNS, _of_each(plan, runs, _series_fields)),
        "cells": lambda: _table(
            experiment, CELL_COLUMNS, ((cell, _cell_fields(findings, cell)) for cell in findings.cells)
        ),
    }


def _table(experiment: Experiment, columns: Sequence[str], things: Iterable[tuple[Run | CellSummary, Fields]]) -> Table:
    factors = [factor.name for factor in experiment.factors]
    return Table(
        columns=("cell_id", *factors, *columns),
        rows=tuple(
            (
                thing.cell_id,
                *(_level(thing.levels[name]) if name in thing.levels else "" for name in factors),
                *(_plain(fields.get(column)) for column in columns),
            )
            for thing, fields in things
        ),
    )


def _level(level: JsonValue) -> Value:
    return json.dumps(level) if isinstance(level, list) else _plain(level)


def _plain(value: Value) -> Value:
    if isinstance(value, str):
        return masked(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _in_order(plan: Plan, runs: Sequence[Run]) -> list[Run]:
    place = {cell.cell_id: number for number, cell in enumerate(plan.cells)}
    return sorted(runs, key=lambda run: (place.get(run.cell_id, len(place)), run.repetition, run.attempt))


def _of_each(
    plan: Plan, runs: Sequence[Run], fields_of: Callable[[Run], Iterable[Fields]]
) -> Iterator[tuple[Run, Fields]]:
    return ((run, fields) for run in _in_order(plan, runs) for fields in fields_of(run))


def _key_fields(run: Run) -> dict[str, Value]:
    provenance = run.measurement.provenance if run.measurement is not None else None
    return {"provenance": provenance, **_of(run, ("repetition", "attempt", "status"))}


def _of(value: object, names: Iterable[str]) -> dict[str, Value]:
    return {name: getattr(value, name) for name in names}


def _run_fields(run: Run) -> Fields:
    fields = _key_fields(run) | _of(run, ("sequence", "block", "seed", "started_at", "burn_in"))
    fields["reason"] = run.reason or unmet_text(run)
    found = measured(run)
    if found is None:
        return fields
    return {
        **fields, **_of(found, ("elapsed_s", "work_per_s", "checkpoint_s", "explained")),
        "work": found.work.amount, "unit": found.work.unit,
        "cpu_s": found.waits.cpu_s if found.waits is not None else None, **_latency_fields(found.latency_s),
    }  # fmt: skip


def _latency_fields(figures_s: Mapping[str, float]) -> dict[str, float]:
    return {f"latency_{name}_s": value for name, value in figures_s.items()}


def _wait_fields(run: Run) -> Iterator[Fields]:
    found = measured(run)
    if found is None or found.waits is None:
        return
    of_run = _key_fields(run) | {"connections": found.waits.connections, "elapsed_s": found.elapsed_s}
    for row in found.wait_stats:
        yield of_run | dict(row)


def _series_fields(run: Run) -> Iterator[Fields]:
    if run.measurement is None or not run.usable:
        return
    of_run, series = _key_fields(run), run.measurement.series
    for quantity, values in series.columns.items():
        for at_s, value in zip(series.at_s, values, strict=False):
            yield of_run | {"at_s": at_s, "quantity": quantity, "value": value}


def _cell_fields(findings: Findings, cell: CellSummary) -> Fields:
    kind = verdict_of(findings, cell.cell_id).kind
    fields = _of(cell, (*CELL_COLUMNS[:7], *CELL_COLUMNS[-2:])) | {"verdict": None if kind == "not-judged" else kind}
    if cell.elapsed_s is not None:
        fields |= _with_ends("mean", cell.elapsed_s.mean, "_s")
        fields |= {f"{name}_s": getattr(cell.elapsed_s, name) for name in ("median", "sd", "minimum", "maximum")}
    if cell.work_per_s is not None:
        fields |= _with_ends("work_per_s", cell.work_per_s.mean)
    fields |= _latency_fields({name: one.value for name, one in cell.latency.items()})
    compared = next((row for row in findings.comparisons if row.cell_id == cell.cell_id), None)
    return fields if compared is None else fields | _with_ends("ratio", compared.ratio)


def _with_ends(name: str, estimate: Estimate, unit: str = "") -> dict[str, Value]:
    return {
        f"{name}{unit}": estimate.value, f"{name}_low{unit}": estimate.low, f"{name}_high{unit}": estimate.high
    }  # fmt: skip


# --- files -----------------------------------------------------------------------------------------------------------


def csv_of(table: Table) -> str:
    """Returns a table as CSV. Unknown values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_field, table.columns))
    writer.writerows(map(_field, row) for row in table.rows)
    return text.getvalue()


def _field(value: Value) -> str:
    """Writes a value for CSV. If the first character of a text would make it a formula in a spreadsheet, the text gets
    an apostrophe before it.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return json.dumps(value)
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def sqlite_file(tables: Mapping[str, Table]) -> bytes:
    """Returns a SQLite database with a table for each name. Columns have no declared type, because a factor's levels
    may have several types.
    """
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for name, table in tables.items():
            connection.execute(f"CREATE TABLE {_quoted(name)} ({', '.join(map(_quoted, table.columns))})")
            marks = ", ".join("?" * len(table.columns))
            connection.executemany(f"INSERT INTO {_quoted(name)} VALUES ({marks})", table.rows)
        connection.commit()
        return connection.serialize()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
