"""The verb `predict`: from a capture to other volumes and layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def add_to(app: typer.Typer) -> None:
    app.command("predict")(_predict)


def _predict(
    capture: Annotated[Path, typer.Argument(metavar="CAPTURE", help="Folder of a capture.")],
    volumes: Annotated[
        Path, typer.Option("--volumes", metavar="FILE", help="TOML file: what each volume can do, and the layouts.")
    ],
    format_: Annotated[Literal["text", "md", "html", "json"], typer.Option("--format", help="What to write.")] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write, - for stdout.")] = None,
) -> None:
    """Predict rate and latency of a captured server on other volumes.

    FILE says what each volume can do, by a limit or a measured drive's profile, and names layouts: [layouts.NAME] with
    objects and log. `compare CAMPAIGN PREDICTION` puts a campaign beside what --format json wrote.
    """
    from storagelab.verbs import predict

    predict.predict(capture, volumes, format_, output)
