"""`storagelab tally`, a verb of the tests."""

from __future__ import annotations

from typing import Annotated

import typer

from storagelab.verbs import SpecArgument, Unused, Verb, when

app = Verb("Read", 9)


@app.command(unused=(Unused("--long", when("count"), "is for the list"),))
def tally(
    spec_file: SpecArgument,
    count: Annotated[bool, typer.Option("--count", help="Print their number.")] = False,
    long: Annotated[bool, typer.Option("--long", help="Print their levels, too.")] = False,
) -> None:
    """List the cells of a spec."""
    from storagelab import screen
    from storagelab.spec import matrix, reading

    found = matrix.expand(reading.load(spec_file)).cells
    lines = [f"{one.cell_id} {one.levels if long else ''}".rstrip() for one in found]
    screen.say(str(len(found)) if count else "\n".join(lines), stdout=True)
