"""The verbs that give what comes with storagelab: the demo, ready-made specs, the schema of specs."""

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


def _demo(results: ResultsOption = DEFAULT_RESULTS) -> None:
    """Show how much faster storage could gain here, at most.

    It takes about two minutes. The spec and the data are in the folder of results; `demo` again continues it.
    """
    from storagelab.verbs import demo

    if not demo.demo(results):
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
            help="Fill NAME in for this running PostgreSQL or MariaDB (or a variable with its DSN); or draft one.",
        ),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask three questions, and draft a spec.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write; default: stdout.")] = None,
) -> None:
    """List ready-made specs by their questions, or write one.

    `storagelab init NAME > my.toml`, then `plan my.toml`. --from-server reads the programs, settings, volumes and size
    of a PostgreSQL or MariaDB that runs, and changes nothing on it. A spec for SQL Server is written by hand.
    """
    from storagelab.verbs import init

    if ask and (name is not None or from_server is not None):
        raise typer.BadParameter("--ask and the other two, NAME and --from-server, exclude each other.")
    if name is not None:
        init.write(name, output, from_server)
    elif from_server is not None:
        init.from_server(from_server, output)
    elif ask:
        init.ask(output)
    else:
        init.list_all()


def _schema(
    of: Annotated[
        Literal["spec", "capture"], typer.Argument(metavar="OF", help="spec, or capture: its manifest.")
    ] = "spec",
) -> None:
    """Print the JSON schema of specs, or of captures."""
    from storagelab.capture.folder import capture_schema_text
    from storagelab.report import writing
    from storagelab.spec.schema import spec_schema_text

    writing.deliver(spec_schema_text() if of == "spec" else capture_schema_text(), None)
