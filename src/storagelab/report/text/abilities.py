"""What the doctor found, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from storagelab.machine.doctor import Ability
from storagelab.report.text.columns import print_paragraph

_MARKS = {"yes": ("yes   ", "green"), "partly": ("partly", "yellow"), "no": ("no    ", "red")}


def print_abilities(console: Console, abilities: Sequence[Ability]) -> None:
    """A line for each ability; below a missing one, how to fix it."""
    for ability in abilities:
        mark, style = _MARKS[ability.state]
        console.print(Text.assemble((mark, style), "  ", (ability.name, "bold")), soft_wrap=True)
        if ability.detail:
            print_paragraph(console, ability.detail, first="        ")
        if ability.mend:
            print_paragraph(console, f"to fix it: {ability.mend}", first="        ")
