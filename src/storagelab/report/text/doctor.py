"""What the doctor found, and the promises that a server kept, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from storagelab.machine.doctor import Ability
from storagelab.report.text.columns import print_paragraph
from storagelab.report.words.secrets import masked
from storagelab.targets.contract import Promise

_STATES = {"yes": ("yes   ", "green"), "partly": ("partly", "yellow"), "no": ("no    ", "red")}
_OUTCOMES = {"pass": ("pass", "green"), "fail": ("FAIL", "red"), "open": ("open", "yellow")}


def print_abilities(console: Console, abilities: Sequence[Ability]) -> None:
    """Print a line for each ability; below a missing one, how to fix it."""
    for ability in abilities:
        mark, style = _STATES[ability.state]
        console.print(Text.assemble((mark, style), "  ", (ability.name, "bold")), soft_wrap=True)
        if ability.detail:
            print_paragraph(console, ability.detail, first="        ")
        if ability.mend:
            print_paragraph(console, f"to fix it: {ability.mend}", first="        ")


def print_promises(console: Console, promises: Sequence[Promise]) -> None:
    """Print a line for each promise, with the evidence below it, and a count at the end."""
    for promise in promises:
        mark, style = _OUTCOMES[promise.state]
        console.print(Text.assemble((mark, style), "  ", (promise.name, "bold")), soft_wrap=True)
        for line in masked(promise.detail).splitlines():
            print_paragraph(console, line.strip(), first="      ")
    counts = {state: sum(promise.state == state for promise in promises) for state in _OUTCOMES}
    console.print(f"{counts['pass']} kept, {counts['fail']} broken, {counts['open']} open", highlight=False)
