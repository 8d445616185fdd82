"""`storagelab simulate`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from storagelab import screen
from storagelab.engines.simulated import engine as simulated
from storagelab.errors import PreflightError
from storagelab.model.hints import choices
from storagelab.model.plan import Cell, Plan
from storagelab.model.waits import NS
from storagelab.report import writing
from storagelab.report.text.columns import Column, print_paragraph, print_table
from storagelab.spec import matrix, reading
from storagelab.verbs.planning import site_of
from storagelab.words.numbers import count, rate, seconds


def simulate(spec_file: Path, cell_id: str | None, *, trace: bool, every_io: bool) -> None:
    """Makes one run and stores nothing."""
    experiment = reading.load(spec_file)
    plan = matrix.expand(experiment)
    try:
        cell = _cell(plan, cell_id)
        block = next(block for block in plan.blocks.values() if cell.cell_id in block.cells)
        made = simulated.make_one(block, cell, site_of(experiment, Path()).profiles, every_io=every_io)
    except PreflightError as error:
        raise error.of(experiment.source) from error
    if not (trace or every_io):
        print_outcome(screen.out(), cell, made.outcome)
        return
    document = {"cell": {"id": cell.cell_id, "levels": cell.levels}, **made._asdict()}
    writing.deliver(json.dumps(document, indent=None if every_io else 1, sort_keys=True) + "\n", None)


def _cell(plan: Plan, cell_id: str | None) -> Cell:
    """The cell called `cell_id`; the first one for None."""
    cells = {cell.cell_id: cell for cell in plan.cells}
    chosen = plan.cells[0] if cell_id is None else cells.get(cell_id)
    if chosen is None:
        raise PreflightError(f"no cell is called {cell_id!r}", hint=choices(str(cell_id), tuple(cells), "There are"))
    if not chosen.config.simulated:
        raise PreflightError("`simulate` is for simulated cells", hint="`storagelab run` measures this one.")
    return chosen


# --- one simulated run as text ----------------------------------------------------------------------------------------
#
# Its time, and what its connections waited for.


def print_outcome(console: Console, cell: Cell, outcome: Mapping[str, Any]) -> None:
    """Print the core's outcome at life-size. A second and a row of the simulated world stand for as many as its
    scale says.
    """
    scale = cell.config.target.world_scale
    print_paragraph(console, f"{cell.cell_id}: one run on drives as its block begins, at scale {scale}", style="bold")
    if outcome["failure"]:
        print_paragraph(console, f"It failed: {outcome['failure']}")
    elapsed_s = outcome["elapsed_ns"] * scale * NS
    if "ios" in outcome and "rows" not in outcome:
        text = f"{rate(outcome['ios_per_s'], 'requests')}, {seconds(outcome['latency']['mean_ns'] * NS)} each"
        print_paragraph(console, f"{seconds(elapsed_s)} counted: {text}.")
    else:
        rows = outcome["rows"] * scale
        print_paragraph(console, f"{seconds(elapsed_s)}, {count(rows)} rows, {outcome['connections']} connections.")
        waits = outcome["waits"]
        columns = [
            Column("wait", [row["wait_type"] for row in waits], right=False),
            Column("wait s", [seconds((row["resource_ns"] + row["signal_ns"]) * scale * NS) for row in waits]),
            Column("signal s", [seconds(row["signal_ns"] * scale * NS) for row in waits], rank=1),
            Column("count", [count(row["count"] * scale) for row in waits]),
        ]
        print_table(console, columns, indent=0)
    print_paragraph(console, "--trace prints the scenario and the whole outcome, --every-io each I/O too.")
