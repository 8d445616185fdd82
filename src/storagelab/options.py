"""Arguments and options that several verbs of the command line share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from storagelab.findings.fit_kinds import FitKind

SpecArgument = Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment's TOML file.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="An experiment's name, or its spec file.")]
ResultsOption = Annotated[
    Path,
    typer.Option(
        "--results", envvar="STORAGELAB_RESULTS", help="The folder of results; each experiment has a subfolder."
    ),
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file (all charts: to this folder).")
]
FitOption = Annotated[
    FitKind,
    typer.Option(
        "--fit",
        help="robust: odd runs of steady cells are left out of means and verdicts; least-squares: all runs count.",
    ),
]
AllowCommandsOption = Annotated[
    bool,
    typer.Option(
        "--allow-commands", help="Allow settings that make a server run programs, load code, or use other folders."
    ),
]
DEFAULT_RESULTS = Path("results")
