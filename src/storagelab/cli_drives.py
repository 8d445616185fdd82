"""The verb `volumes`: the drives that experiments use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    app.add_typer(_volumes_app, name="volumes")


_volumes_app = typer.Typer(
    help="List the drives that experiments use, or give them back.", invoke_without_command=True, rich_markup_mode=None
)


@_volumes_app.callback()
def _volumes(context: typer.Context) -> None:
    """List the drives of this machine that experiments have claimed and not given back."""
    if context.invoked_subcommand is None:
        from storagelab.verbs import volumes

        volumes.list_all()


@_volumes_app.command("undo")
def _undo(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="Folder of the experiment's results.")],
) -> None:
    """Give back the drives that a killed run left.

    Unmounts and removes what storagelab made on them, and formats them to their old sectors. What lay on them before can't
    be put back.
    """
    from storagelab.verbs import volumes

    volumes.undo(results)
