"""The verb `capture`: watch what a running server reads and writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    app.command("capture")(_capture)


def _capture(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="DSN of the running server, or a variable that holds it.")
    ],
    length: Annotated[str, typer.Option("--for", metavar="10min", help="How long to watch.")] = "10min",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")] = Path("capture"),
    requests: Annotated[
        bool, typer.Option("--requests", help="Keep each request, too: a log that fio plays back. Needs root.")
    ] = False,
    no_trace: Annotated[
        bool, typer.Option("--no-trace", help="Use the server's own counters only, even as root.")
    ] = False,
    measure_cost: Annotated[
        int,
        typer.Option(
            "--measure-cost", metavar="TURNS", min=0, help="First measure what capturing costs, in pairs of turns."
        ),
    ] = 0,
) -> None:
    """Watch what a running server reads and writes, by object.

    Nothing on the server is changed, and neither its data nor the text of queries is kept. Ctrl-C ends the window early. As
    root on the server's machine, writes and the order of requests are known by table.
    """
    from storagelab.verbs import capture

    capture.capture(target, length, output, requests=requests, trace=not no_trace, turns=measure_cost)
