"""Arguments and options that several verbs of the command line share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from storagelab.findings import FitKind

SpecArgument = Annotated[Path, typer.Argument(metavar="SPEC", help="TOML file of the experiment.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the experiment, or its spec file.")]
ResultsOption = Annotated[
    Path,
    typer.Option(
        "--results",
        envvar="STORAGELAB_RESULTS",
        help="Folder that holds the results, one subfolder for each experiment.",
    ),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write, - for stdout; for all charts, the folder.")
]
FitOption = Annotated[
    FitKind,
    typer.Option(
        "--fit",
        help="robust: leave the odd runs of steady cells out of means and verdicts; least-squares: count all runs.",
    ),
]
AllowCommandsOption = Annotated[
    bool,
    typer.Option("--allow-commands", help="Allow server settings that run programs, load code or use other folders."),
]
DEFAULT_RESULTS = Path("results")
