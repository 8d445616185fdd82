"""Runs, and their waits, as CSV. Pure."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence

from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.model.values import JsonValue
from storagelab.model.waits import conservation, normalise
from storagelab.report.words.names import unmet_text
from storagelab.report.words.secrets import masked

Fields = dict[str, str | float | bool | None]

RUN_COLUMNS = (
    "repetition", "attempt", "status", "provenance", "elapsed_s", "rows", "rows_per_s", "checkpoint_s", "cpu_s",
    "explained", "sequence", "block", "seed", "started_at", "reason", "burn_in",
)  # fmt: skip
WAIT_COLUMNS = (
    "repetition", "attempt", "status", "provenance", "wait_type", "wait_s", "resource_s", "signal_s", "wait_count",
    "is_wait", "method", "category", "analogue", "connections", "elapsed_s",
)  # fmt: skip


def csv_runs(experiment: Experiment, plan: Plan, runs: Sequence[Run]) -> str:
    """One row per stored run, failed ones too; a column per factor under its own name. Unknown = empty."""
    return _csv(experiment, RUN_COLUMNS, ((run, _run_fields(run)) for run in _in_order(plan, runs)))


def csv_waits(experiment: Experiment, plan: Plan, runs: Sequence[Run]) -> str:
    """One row per run and wait type, uncut, CPU and its queue included; runs without waits have no row."""
    rows = ((run, fields) for run in _in_order(plan, runs) for fields in _wait_fields(run))
    return _csv(experiment, WAIT_COLUMNS, rows)


def _in_order(plan: Plan, runs: Sequence[Run]) -> list[Run]:
    place = {cell.cell_id: number for number, cell in enumerate(plan.cells)}
    return sorted(runs, key=lambda run: (place.get(run.cell_id, len(place)), run.repetition, run.attempt))


def _csv(experiment: Experiment, columns: Sequence[str], rows: Iterable[tuple[Run, Fields]]) -> str:
    factors = [factor.name for factor in experiment.factors]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["cell_id", *factors, *columns])
    for run, fields in rows:
        levels = [_level(run.levels[name]) if name in run.levels else "" for name in factors]
        writer.writerow([run.cell_id, *levels, *(_field(fields.get(column)) for column in columns)])
    return text.getvalue()


def _level(value: JsonValue) -> str:
    return masked(value) if isinstance(value, str) else json.dumps(value)


def _field(value: str | float | bool | None) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return masked(value) if isinstance(value, str) else json.dumps(value)


def _key_fields(run: Run) -> Fields:
    provenance = run.measurement.provenance if run.measurement is not None else None
    return {"repetition": run.repetition, "attempt": run.attempt, "status": run.status, "provenance": provenance}


def _run_fields(run: Run) -> Fields:
    fields = _key_fields(run) | {
        "sequence": run.sequence, "block": run.block, "seed": run.seed, "started_at": run.started_at,
        "reason": run.reason or unmet_text(run), "burn_in": run.burn_in,
    }  # fmt: skip
    measured = run.measurement
    if measured is None or run.status == "failed":
        return fields
    return fields | {
        "elapsed_s": measured.elapsed_s,
        "rows": measured.rows,
        "rows_per_s": measured.rows / measured.elapsed_s if measured.elapsed_s > 0 else None,
        "checkpoint_s": measured.checkpoint_s,
        "cpu_s": measured.waits.cpu_s if measured.waits is not None else None,
        "explained": conservation(measured.waits).explained if measured.waits is not None else None,
    }


def _wait_fields(run: Run) -> list[Fields]:
    measured = run.measurement
    if measured is None or measured.waits is None or run.status == "failed":
        return []
    of_run = _key_fields(run) | {"connections": measured.waits.connections, "elapsed_s": measured.elapsed_s}
    return [
        of_run
        | {
            "wait_type": row.wait_type, "wait_s": row.wait_s, "resource_s": row.resource_s, "signal_s": row.signal_s,
            "wait_count": row.wait_count, "is_wait": row.is_wait, "method": row.method, "category": row.category,
            "analogue": row.analogue,
        }
        for row in normalise(measured.waits)
    ]  # fmt: skip
