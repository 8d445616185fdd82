"""`storagelab demo`."""

from __future__ import annotations

import typer

from storagelab.verbs import DEFAULT_RESULTS, ResultsOption, Verb

app = Verb("Measure", 1)


@app.command()
def demo(results: ResultsOption = DEFAULT_RESULTS) -> None:
    """Run the quick start: measure data-file layouts on this disk.

    It takes about five minutes. The spec and the data are in the folder of results; `run` continues it.
    """
    from storagelab.verbs import _init

    if not _init.demo(results):
        raise typer.Exit(1)
