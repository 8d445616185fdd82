"""Runs, and their waits, as CSV. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.report.export.tables import Table, Value, of_runs, of_waits


def csv_runs(experiment: Experiment, plan: Plan, runs: Sequence[Run]) -> str:
    """One row per stored run, failed ones too; a column per factor under its own name. Unknown = empty."""
    return _csv(of_runs(experiment, plan, runs))


def csv_waits(experiment: Experiment, plan: Plan, runs: Sequence[Run]) -> str:
    """One row per run and wait type, uncut, CPU and its queue included; runs without waits have no row."""
    return _csv(of_waits(experiment, plan, runs))


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(map(_field, row) for row in table.rows)
    return text.getvalue()


def _field(value: Value) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
