"""`storagelab simulate`."""

from __future__ import annotations

import json
from pathlib import Path

from storagelab import screen
from storagelab.errors import PreflightError
from storagelab.model.hints import choices
from storagelab.model.plan import Cell, Plan, PlannedBlock
from storagelab.report import writing
from storagelab.report.text.simulated import print_outcome
from storagelab.spec import matrix, reading
from storagelab.targets.simulated import block as simulated
from storagelab.verbs.planning import site_of


def simulate(spec_file: Path, cell_id: str | None, *, trace: bool, every_io: bool) -> None:
    """Makes one run and stores nothing."""
    experiment = reading.load(spec_file)
    plan = matrix.expand(experiment)
    try:
        cell = _cell(plan, cell_id)
        block = _block_of(plan, cell)
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


def _block_of(plan: Plan, cell: Cell) -> PlannedBlock:
    return next(block for block in plan.blocks.values() if cell.cell_id in block.cells)
