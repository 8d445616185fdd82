"""One run of one cell, alone on new drives, with the core's whole input and output: for those who want to see what
the simulator does.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from storagelab import _sim
from storagelab.errors import PreflightError
from storagelab.model.plan import Cell, PlannedBlock
from storagelab.profiles import Shelf
from storagelab.targets.simulated.scenario import world_of


class SingleRun(NamedTuple):
    """The core's scenario, with its defaults filled in, and the core's outcome."""

    scenario: dict[str, Any]
    outcome: dict[str, Any]


def make(block: PlannedBlock, cell: Cell, folder: Shelf, *, every_io: bool) -> SingleRun:
    """The cell's first run of this block, on the drives as the block begins with them. `every_io` lists each I/O in
    the outcome. Raises PreflightError that names the key if it can't be simulated.
    """
    world = world_of(cell.config)
    position = next(place for place, planned in enumerate(block.runs) if planned.cell_id == cell.cell_id)
    content = world.scenario(block, folder)
    runs = content[world.runs]
    assert isinstance(runs, list)
    text = json.dumps({**content, world.runs: [runs[position]]}, sort_keys=True)
    try:
        resolved = json.loads(_sim.resolved(text, raw_io=cell.config.target.raw_io))
        made = world.core(text).run_next(every_io=every_io)
    except _sim.Refused as refusal:
        raise PreflightError(refusal.what, key=refusal.place) from None
    assert made is not None
    return SingleRun(resolved, json.loads(made))
