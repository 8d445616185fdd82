"""Makes the JSON that `plan`, `waits` and `doctor` print for programs. It contains the version of its schema.

Fields may be added, but none is renamed or removed. `run` and `gather` print the export, which has its own schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from storagelab.errors import Placed
from storagelab.findings.model import Findings
from storagelab.machine.doctor import Ability
from storagelab.model.plan import Experiment, Plan
from storagelab.model.promises import Promise
from storagelab.report.sections.waits import waits_of
from storagelab.report.text.plan import PlanFacts

SCHEMA = 1


def plan_json(experiment: Experiment, plan: Plan, facts: PlanFacts, lacks: Sequence[Placed] = ()) -> str:
    """Returns what `run` would do, with every run in order. `lacks`: the problems because of which it could not run."""
    return _text(
        {
            "experiment": experiment.name,
            "question": experiment.question,
            "server": facts.server,
            "cells": [{"cell_id": cell.cell_id, "levels": cell.levels} for cell in plan.cells],
            "runs": [
                {"cell_id": run.cell_id, "repetition": run.repetition, "burn_in": run.burn_in} for run in plan.runs
            ],
            "runs_stored": facts.runs_stored,
            "estimate_s": facts.estimate_s,
            "volumes": [
                {name: getattr(one, name) for name in ("name", "path", "needed_bytes", "free_bytes")}
                for one in facts.volumes
            ],
            **{name: getattr(facts, name) for name in ("durability", "steps", "objects", "tells", "warnings")},
            "lacks": [{"key": error.key, "problem": error.problem, "hint": error.hint} for error in lacks],
        }
    )


def waits_json(findings: Findings, cell_ids: Sequence[str], *, uncut: bool) -> str:
    """Returns the wait tables of these cells: all waits if `uncut`, else those that a report shows."""
    known = {cell.cell_id: cell for cell in findings.cells}
    cells = [
        {
            "cell_id": cell_id,
            "levels": known[cell_id].levels,
            "waits": [row.model_dump(mode="json") for row in waits_of(known[cell_id], uncut)],
        }
        for cell_id in cell_ids
    ]
    return _text({"experiment": findings.experiment, "uncut": uncut, "cells": cells})


def doctor_json(name: str, found: Iterable[Ability | Promise]) -> str:
    """Returns the abilities of this machine or the promises of a server, under the field `name`."""
    return _text({name: [one.model_dump(mode="json") for one in found]})


def _text(fields: Mapping[str, object]) -> str:
    return json.dumps({"schema": SCHEMA, **fields}, indent=2, ensure_ascii=False, allow_nan=False, default=list) + "\n"
