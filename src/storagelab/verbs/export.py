"""`storagelab export`."""

from __future__ import annotations

from typing import Annotated, Literal

from typer import Option

from storagelab import screen, verbs
from storagelab.verbs import Unused, Verb, when

app = Verb("Read", 4)
UNUSED = (
    Unused("--fit", when("format_", "csv", "waits-csv"), "is for what is found, and this format has runs only",
           "Leave it out, or write --format json or sqlite."),
)  # fmt: skip


@app.command(unused=UNUSED)
def export(
    name: verbs.NameArgument,
    results: verbs.ResultsOption = verbs.DEFAULT_RESULTS,
    format_: Annotated[
        Literal["json", "csv", "waits-csv", "sqlite"], Option("--format", help="Format of the data.")
    ] = "json",
    output: verbs.OutputOption = None,
    fit: verbs.FitOption = "robust",
    salvage: Annotated[bool, Option("--salvage", help="Export what can still be read in a damaged store.")] = False,
) -> None:
    """Write all stored data for other programs: JSON, CSV, SQLite.

    json follows schema 2, and has every run with all its waits. csv has a line for each run, and waits-csv has a line
    for each wait. sqlite writes a file with tables of runs, waits, series and cells.
    """
    from storagelab.findings.analysis import analyse
    from storagelab.report import writing
    from storagelab.run import stored

    if salvage:
        of, lost = stored.salvage(name, results)
        screen.say(f"{len(of.runs)} runs can be read of the {len(of.plan.runs)} that the spec asks for")
        for one in lost:
            screen.say(f"lost: {one}")
    else:
        of = stored.read(name, results, whole=True)
    findings = analyse(of.experiment, of.plan, of.runs, fit)
    if format_ == "sqlite":
        writing.write_tables(output, *of, findings)
    else:
        writing.deliver(writing.render(format_, of.experiment, of.plan, of.runs, findings), output)
