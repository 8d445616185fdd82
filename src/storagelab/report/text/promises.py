"""The promises that a server kept, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from storagelab.report.text.columns import print_paragraph
from storagelab.report.words.secrets import masked
from storagelab.targets.contract import Promise

_MARKS = {"pass": ("pass", "green"), "fail": ("FAIL", "red"), "open": ("open", "yellow")}


def print_promises(console: Console, promises: Sequence[Promise]) -> None:
    """A line for each promise, with the evidence below it, and a count at the end."""
    for promise in promises:
        mark, style = _MARKS[promise.state]
        console.print(Text.assemble((mark, style), "  ", (promise.name, "bold")), soft_wrap=True)
        for line in masked(promise.detail).splitlines():
            print_paragraph(console, line.strip(), first="      ")
    counts = {state: sum(promise.state == state for promise in promises) for state in _MARKS}
    console.print(f"{counts['pass']} kept, {counts['fail']} broken, {counts['open']} open", highlight=False)
