"""`storagelab waits`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from storagelab import screen
from storagelab.verbs import DEFAULT_RESULTS, JsonOption, NameArgument, ResultsOption, SqlServerNamesOption, Verb

app = Verb("Read", 2)


@app.command()
def waits(
    name: NameArgument,
    cells: Annotated[
        list[str] | None,
        Argument(metavar="CELL", help='Cells by id (c07) or by levels ("data_files=4,log=b"). Default: all.'),
    ] = None,
    results: ResultsOption = DEFAULT_RESULTS,
    uncut: Annotated[bool, Option("--uncut", help="Show all waits, not only the top 95 %.")] = False,
    sql_server_names: SqlServerNamesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the wait statistics of each cell."""
    from storagelab.findings.analysis import analyse
    from storagelab.report.sections.waits import wait_parts
    from storagelab.report.text import as_data, terminal
    from storagelab.report.writing import own_names_only
    from storagelab.run import stored
    from storagelab.spec.naming import find_cell
    from storagelab.words.names import factor_labels

    of = stored.read(name, results)
    findings = analyse(of.experiment, of.plan, of.runs)
    if not sql_server_names:
        findings = own_names_only(findings)
    labels = factor_labels(findings.factors)
    shown = [find_cell(cell, findings.cells, labels) for cell in cells or ()]
    shown = shown or [cell.cell_id for cell in findings.cells]
    if as_json:
        screen.write(as_data.waits_json(findings, shown, uncut=uncut))
        return
    for cell_id in shown:
        for part in wait_parts(findings, findings.cell(cell_id), uncut=uncut):
            terminal.print_part(screen.out(), part)
