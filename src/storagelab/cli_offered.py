"""The verbs that give what comes with storagelab: the demo, ready-made specs, the schema of specs, drive profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

DEFAULT_RESULTS = Path("results")
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write, - for stdout; for all charts, the folder.")
]
ResultsOption = Annotated[
    Path,
    typer.Option(
        "--results",
        envvar="STORAGELAB_RESULTS",
        help="Folder that holds the results, one subfolder for each experiment.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Adds the verbs, first those that a newcomer types."""
    app.command("demo")(_demo)
    app.command("init")(_init)
    app.command("schema")(_schema)
    app.add_typer(_profiles_app, name="profiles")


def _demo(results: ResultsOption = DEFAULT_RESULTS) -> None:
    """Run the quick start: measure data-file layouts on this disk.

    It takes about five minutes. The spec and the data are in the folder of results; `run` continues it.
    """
    from storagelab.verbs import init

    if not init.demo(results):
        raise typer.Exit(1)


def _init(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of a ready-made spec; default: list all.")
    ] = None,
    from_server: Annotated[
        str | None,
        typer.Option(
            "--from-server",
            metavar="DSN",
            help="Draft a spec from this running PostgreSQL or MariaDB, or a variable that holds its DSN.",
        ),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask three questions, and draft a spec.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; default: stdout.")] = None,
) -> None:
    """List ready-made specs by their questions, or write one.

    `storagelab init NAME > my.toml`, then `plan my.toml`. --from-server reads the settings, tablespaces and volumes of a
    PostgreSQL or MariaDB that runs, and changes nothing on it. A spec for SQL Server is written by hand.
    """
    from storagelab.verbs import init

    if (name is not None) + (from_server is not None) + ask > 1:
        raise typer.BadParameter("NAME, --from-server and --ask exclude each other.")
    if from_server is not None:
        init.from_server(from_server, output)
    elif ask:
        init.ask(output)
    elif name is not None:
        init.write(name, output)
    else:
        init.list_all()


def _schema(
    of: Annotated[
        Literal["spec", "capture"], typer.Argument(metavar="OF", help="spec, or capture: its manifest.")
    ] = "spec",
) -> None:
    """Print the JSON schema of specs, or of captures."""
    from storagelab.capture.model import capture_schema_text
    from storagelab.report import writing
    from storagelab.spec.schema import spec_schema_text

    writing.deliver(spec_schema_text() if of == "spec" else capture_schema_text(), None)


_profiles_app = typer.Typer(
    help="List or show the drive profiles for simulations.", invoke_without_command=True, rich_markup_mode=None
)


@_profiles_app.callback()
def _profiles(context: typer.Context) -> None:
    """List the drive profiles that come with storagelab."""
    if context.invoked_subcommand is None:
        from storagelab.verbs import profiles

        profiles.list_all()


@_profiles_app.command("show")
def _show_profile(
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
