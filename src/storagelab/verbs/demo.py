"""`storagelab demo`."""

from __future__ import annotations

import typer

from storagelab.verbs import DEFAULT_RESULTS, ResultsOption, Verb

app = Verb("Measure", 1)


@app.command()
def demo(results: ResultsOption = DEFAULT_RESULTS) -> None:
    """Show how much a faster disk could gain here, at most.

    It takes about two minutes. The spec and the data are in the folder of results. After an interruption, the same
    command continues.
    """
    from storagelab.verbs import _demo

    if not _demo.demo(results):
        raise typer.Exit(1)
