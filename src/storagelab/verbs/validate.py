"""`storagelab validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from storagelab import screen
from storagelab.model.engines import LARGEST_SCALE
from storagelab.verbs import Verb

app = Verb("Simulate", 2)


@app.command()
def validate(
    format_: Annotated[
        Literal["md", "csv", "json"] | None, Option("--format", help="Format of the tables. Default: for the terminal.")
    ] = None,
    write: Annotated[
        Path | None, Option("--write", metavar="FILE", help="Also write the tables to this file, as md.")
    ] = None,
    only: Annotated[
        list[str] | None, Option("--only", metavar="ID", help="Article (A) or figure (A1) to check. Default: all.")
    ] = None,
    scale: Annotated[
        int | None,
        Option("--scale", min=1, max=LARGEST_SCALE, help="How many times smaller servers are. Default: the specs'."),
    ] = None,
    repetitions: Annotated[
        int | None, Option("--repetitions", min=1, help="Runs of each cell. Default: as in each spec.")
    ] = None,
    checks: Annotated[
        bool,
        Option("--checks/--no-checks", help="Also simulate a second scale, and inputs that articles omit (default)."),
    ] = True,
    jobs: Annotated[int | None, Option("--jobs", "-j", min=1, help="Processes. Default: one for each core.")] = None,
    results: Annotated[
        Path | None, Option("--results", help="Folder that keeps the runs, so that they can be continued.")
    ] = None,
    experiments: Annotated[
        Path | None, Option("--experiments", metavar="FOLDER", help="Folder of the ready-made specs.")
    ] = None,
) -> None:
    """Compare the simulator with published figures.

    The table shows each figure as published and as simulated, with the error, and whether it depends on the scale. A
    miss doesn't change the exit code.
    """
    from storagelab.machine import host
    from storagelab.report import writing
    from storagelab.stopping import Interruptible
    from storagelab.validation import making, table
    from storagelab.validation.articles import articles

    chosen = articles(only or ())
    asked = making.Request(
        experiments or _ready_made_specs(), scale, repetitions, jobs or host.usable_cpus(), results, checks
    )  # fmt: skip
    before = table.existing(write) if write is not None else None
    planned = making.plan(chosen, asked)
    # The parameters are read before the runs, which may take long. So the table shows the profiles that were simulated.
    model = table.parameters([name for one in planned if isinstance(one, making.ArticlePlan) for name in one.profiles])
    with Interruptible() as stopping:
        rows, simulations = making.simulate(planned, asked, screen.err(), stopping.check)
    found = table.Validation(articles=chosen, simulations=tuple(simulations), rows=tuple(rows), parameters=model)
    if format_ is None:
        table.print_validation(screen.out(), found)
    else:
        writing.deliver(table.render(format_, found), None)
    if write is not None:
        writing.deliver(table.document(before, found), write)


def _ready_made_specs() -> Path:
    """Returns the folder `experiments` of the current folder. If there is none, returns that of the checkout from which
    storagelab runs.
    """
    here = Path("experiments")
    return here if here.is_dir() else Path(__file__).resolve().parents[3] / here
