"""`storagelab validate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from storagelab import screen
from storagelab.machine import host
from storagelab.report import writing
from storagelab.stopping import Interruptible
from storagelab.validation import making, table
from storagelab.validation.articles import articles


def validate(
    only: Sequence[str],
    format_: str | None,
    write: Path | None,
    *,
    scale: int,
    repetitions: int | None,
    jobs: int | None,
    results: Path | None,
    experiments: Path | None,
) -> None:
    chosen = articles(only)
    asked = making.Request(experiments or _ready_made_specs(), scale, repetitions, jobs or host.usable_cpus(), results)
    before = table.existing(write) if write is not None else None
    planned = making.plan(chosen, asked)
    # Read before the runs, which may take long: what is shown must be what was simulated.
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
    """The folder `experiments` here, else that of the checkout that storagelab runs from."""
    here = Path("experiments")
    return here if here.is_dir() else Path(__file__).resolve().parents[3] / here
