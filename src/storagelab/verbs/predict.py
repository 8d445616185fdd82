"""`storagelab predict`: predicts a captured server's throughput on other volumes or with another layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from storagelab.verbs import DEFAULT_RESULTS, FileOption, PaperOption, ResultsOption, Verb

app = Verb("Predict", 2)


@app.command()
def predict(
    capture: Annotated[Path, Argument(metavar="CAPTURE", help="Folder of a capture.")],
    volumes: Annotated[
        Path, Option("--volumes", metavar="FILE", help="TOML file: the speed of each volume, and the layouts.")
    ],
    format_: PaperOption = "text",
    output: FileOption = None,
    results: ResultsOption = DEFAULT_RESULTS,
) -> None:
    """Predict rate and latency of a captured server on other volumes.

    FILE gives the speed of each volume, by limits or by the profile of a measured drive. It also names layouts:
    [layouts.NAME] with objects and log. `compare CAMPAIGN PREDICTION` compares a campaign with the file that --format
    json wrote.
    """
    from storagelab.predicting.prediction import OWN_FILE, as_text
    from storagelab.predicting.reckoning import predict as reckoned
    from storagelab.report import writing
    from storagelab.report.words.predicted import predicted_paper

    found = reckoned(capture, volumes, results / OWN_FILE)
    name = f"prediction-{capture.resolve().name}-{volumes.stem}.html"
    writing.deliver_paper(predicted_paper(found), lambda: as_text(found), format_, output, name)
