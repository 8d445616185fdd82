"""`storagelab simulate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from storagelab import screen
from storagelab.errors import PreflightError, choices
from storagelab.verbs import SpecArgument, Unused, Verb, when

if TYPE_CHECKING:
    from storagelab.model.plan import Cell, Plan

app = Verb("Simulate", 1)


@app.command(unused=(Unused("--trace", when("every_io"), "is a part of --every-io"),))
def simulate(
    spec_file: SpecArgument,
    cell: Annotated[
        str | None,
        Option("--cell", metavar="ID", help="The cell to run, as `plan --all` names it. Default: the first."),
    ] = None,
    trace: Annotated[
        bool, Option("--trace", help="Print the scenario with all defaults, and the whole outcome, as JSON.")
    ] = False,
    every_io: Annotated[bool, Option("--every-io", help="Like --trace, but with each I/O of the run.")] = False,
) -> None:
    """Simulate one run, and show its input and its results.

    The drives are in the state that they have at the beginning of the run's block. Nothing is stored.
    """
    from storagelab.engines.simulated import engine as simulated
    from storagelab.report import writing
    from storagelab.report.text.terminal import print_outcome
    from storagelab.spec import matrix, reading
    from storagelab.verbs._planning import site_of

    experiment = reading.load(spec_file)
    plan = matrix.expand(experiment)
    try:
        chosen = _cell(plan, cell)
        block = next(block for block in plan.blocks.values() if chosen.cell_id in block.cells)
        made = simulated.make_one(block, chosen, site_of(experiment, Path()).profiles, every_io=every_io)
    except PreflightError as error:
        raise error.at(experiment.source) from error
    if not (trace or every_io):
        print_outcome(screen.out(), chosen, made.outcome)
        return
    document = {"cell": {"id": chosen.cell_id, "levels": chosen.levels}, **made._asdict()}
    writing.deliver(json.dumps(document, indent=None if every_io else 1, sort_keys=True) + "\n", None)


def _cell(plan: Plan, cell_id: str | None) -> Cell:
    """Returns the cell with the id `cell_id`. If `cell_id` is None, returns the first cell."""
    cells = {cell.cell_id: cell for cell in plan.cells}
    chosen = plan.cells[0] if cell_id is None else cells.get(cell_id)
    if chosen is None:
        raise PreflightError(f"no cell is called {cell_id!r}", hint=choices(str(cell_id), tuple(cells), "There are"))
    if not chosen.config.simulated:
        raise PreflightError("`simulate` is for simulated cells", hint="`storagelab run` measures this one.")
    return chosen
