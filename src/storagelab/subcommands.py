"""The verbs of the command line that have verbs of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

profiles_app = typer.Typer(
    help="List or show the drive profiles for simulations.", invoke_without_command=True, rich_markup_mode=None
)


@profiles_app.callback()
def profiles_(context: typer.Context) -> None:
    """List the drive profiles that come with storagelab."""
    if context.invoked_subcommand is None:
        from storagelab.verbs import profiles

        profiles.list_all()


@profiles_app.command("show")
def show_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile, or its file.")],
    sources: Annotated[bool, typer.Option("--sources", help="Print where each figure comes from, too.")] = False,
    toml: Annotated[bool, typer.Option("--toml", help="Print the TOML file itself, as a start for your own.")] = False,
) -> None:
    """Print a drive's capacity, speed, CPU cost and need of host memory, then all figures of its profile."""
    from storagelab.verbs import profiles

    if toml:
        profiles.show_file(name)
    else:
        profiles.show(name, sources=sources)


volumes_app = typer.Typer(
    help="List the drives that experiments use, or give them back.", invoke_without_command=True, rich_markup_mode=None
)


@volumes_app.callback()
def volumes_(context: typer.Context) -> None:
    """List the drives of this machine that experiments have claimed and not given back."""
    if context.invoked_subcommand is None:
        from storagelab.verbs import volumes

        volumes.list_all()


@volumes_app.command("undo")
def undo_volumes(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="Folder of the experiment's results.")],
) -> None:
    """Give back the drives that a killed run left.

    Unmounts and removes what storagelab made on them, and formats them to their old sectors. What lay on them before can't
    be put back.
    """
    from storagelab.verbs import volumes

    volumes.undo(results)


APPS = {"profiles": profiles_app, "volumes": volumes_app}
