"""`storagelab init`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from storagelab import screen
from storagelab.verbs import Given, JsonOption, Unused, Verb

app = Verb("Measure", 2)


def _lists(given: Given) -> bool:
    return not (given["name"] or given["from_server"] or given["ask"])


UNUSED = (
    Unused("--output", _lists, "is for a spec, and this lists them", "Name one: storagelab init NAME --output FILE."),
    Unused("--json", lambda given: not _lists(given), "is for the list, and this writes a spec"),
)


@app.command(unused=UNUSED)
def init(
    name: Annotated[str | None, Argument(metavar="NAME", help="Name of a ready-made spec. Default: list all.")] = None,
    from_server: Annotated[
        str | None,
        Option(
            "--from-server",
            metavar="DSN",
            help="Fill NAME in for this running PostgreSQL or MariaDB (or a variable with its DSN); or draft one.",
        ),
    ] = None,
    ask: Annotated[bool, Option("--ask", help="Ask three questions, and draft a spec.")] = False,
    output: Annotated[Path | None, Option("--output", "-o", help="File to write. Default: stdout.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List ready-made specs by their questions, or write one.

    Type `storagelab init NAME > my.toml`, then `plan my.toml`. --from-server reads the programs, settings, volumes and
    size of a running PostgreSQL or MariaDB, and changes nothing on it. For SQL Server, write a spec by hand.
    """
    from storagelab.verbs import _init

    if ask and (name is not None or from_server is not None):
        raise typer.BadParameter("--ask and the other two, NAME and --from-server, exclude each other.")
    if name is not None:
        _init.write(name, output, from_server)
    elif from_server is not None:
        _init.from_server(from_server, output)
    elif ask:
        _init.ask(output)
    elif as_json:
        _list_as_json()
    else:
        _init.list_all()


def _list_as_json() -> None:
    from storagelab.experiments import MEASURED, SIMULATED, question_of

    listed = [
        {"name": name, "question": question_of(name), "group": group, "measured": group in MEASURED}
        for group, names in (MEASURED | SIMULATED).items() for name in names
    ]  # fmt: skip
    screen.write(json.dumps(listed, ensure_ascii=False, indent=1))
