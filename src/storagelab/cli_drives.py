"""The verbs `volumes`, the drives that experiments use, and `drives`, what drives can do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from storagelab.cli_unused import Verbs


def add_to(app: typer.Typer) -> None:
    app.add_typer(_volumes_app, name="volumes")
    app.add_typer(_drives_app, name="drives")


_volumes_app = Verbs(
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
    may_wipe: Annotated[
        list[str] | None,
        typer.Option("--yes-wipe", metavar="SERIAL", help="Wipe this drive, whatever it holds now. May be repeated."),
    ] = None,
) -> None:
    """Give back the drives that a killed run left.

    Unmounts and removes what storagelab made on them, and formats them to their old sectors. What lay on them before
    can't be put back.
    """
    from storagelab.verbs import volumes

    volumes.undo(results, may_wipe or ())


_drives_app = Verbs(
    help="List or show the profiles of drives, or measure a drive for one.", no_args_is_help=True, rich_markup_mode=None
)


@_drives_app.callback()
def _drives() -> None:
    """List or show the profiles of drives, or measure a drive for one."""


@_drives_app.command("list")
def _list_profiles() -> None:
    """List all drive profiles, also those measured here."""
    from storagelab.verbs import drives

    drives.list_all()


@_drives_app.command("show")
def _show_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile, or its file.")],
    sources: Annotated[bool, typer.Option("--sources", help="Print where each figure comes from, too.")] = False,
    toml: Annotated[bool, typer.Option("--toml", help="Print the TOML file itself, as a start for your own.")] = False,
) -> None:
    """Show what a drive can do, and its profile.

    First its capacity, speed, CPU cost and need of host memory, then all figures of its profile.
    """
    from storagelab.verbs import drives

    if toml:
        drives.show_file(name)
    else:
        drives.show(name, sources=sources)


@_drives_app.command("fit")
def _fit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile; in specs and in lists.")],
    volume: Annotated[
        str, typer.Option("--volume", metavar="PATH", help="Folder on the drive; with --spec, a volume of that spec.")
    ],
    spec: Annotated[
        Path | None, typer.Option("--spec", help="Spec that declares the volume, which is made with its limits.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Measure about two minutes, at fewer points.")] = False,
    size: Annotated[str | None, typer.Option("--size", help="Size of the file to measure with, such as 16GiB.")] = None,
) -> None:
    """Measure a drive with fio in up to 15 minutes, and fit a profile to it.

    It writes one file in a folder of its own, and removes both. The profile holds every point that was measured, and
    the simulator runs it like any other drive.
    """
    from storagelab.verbs import drives

    drives.fit(name, volume, spec=spec, quick=quick, size=size)
