"""`storagelab volumes`: lists the drives that experiments use, and gives back the drives of a killed run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from storagelab import screen
from storagelab.errors import PreflightError
from storagelab.verbs import Verb

app = Verb(
    "This machine", 3, help="List the drives that experiments use, or give them back.", invoke_without_command=True
)


@app.callback()
def _list(context: typer.Context) -> None:
    """List the drives of this machine that experiments have claimed and not given back."""
    from storagelab.volumes.journal import claims

    if context.invoked_subcommand is not None:
        return
    found = claims()
    for claim in found:
        screen.say(f"{claim.drive.text}\n  for the runs whose results are in {claim.results}", stdout=True)
    if not found:
        screen.say("no drive is in use by storagelab", stdout=True)


@app.command()
def undo(
    results: Annotated[Path, Argument(metavar="RESULTS", help="Folder of the experiment's results.")],
    may_wipe: Annotated[
        list[str] | None,
        Option("--yes-wipe", metavar="SERIAL", help="Wipe this drive, whatever it contains. Repeatable."),
    ] = None,
) -> None:
    """Give back the drives that a killed run left.

    It unmounts and removes everything that storagelab made on them, and restores their sector size. It can't restore
    their earlier content.
    """
    from storagelab.volumes.for_runs import put_back

    if not results.is_dir():
        hint = "name the folder of the experiment's results"
        raise PreflightError("there is no such folder", file=results, hint=hint)
    done = put_back(results, may_wipe or ())
    for line in done:
        screen.say(line, stdout=True)
    lost = "the earlier content of these drives can't be restored"
    screen.say(lost if done else "there is no drive to give back", stdout=True)
