"""The ready-made specs on the terminal, by the questions that they answer."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from storagelab.experiments import Ready
from storagelab.report.text.columns import Column, print_paragraph, print_table

_HEADS = ((False, "Measured on this machine"), (True, "Simulated: hardware that you don't have"))
_HOW = (
    "storagelab init NAME > my.toml       writes the spec; its comments say what to change",
    "storagelab init --from-server DSN    drafts one from a PostgreSQL or MariaDB that runs",
    "storagelab init --ask                asks three questions, and drafts one",
)


def print_ready_made(console: Console, specs: Sequence[Ready]) -> None:
    """One line a spec."""
    for simulated, head in _HEADS:
        shown = [one for one in specs if one.simulated == simulated]
        print_paragraph(console, head, style="bold")
        columns = [
            Column("name", [one.name for one in shown], right=False),
            Column("question", [one.question for one in shown], right=False, wraps=True),
        ]
        print_table(console, columns, indent=0)
        console.print()
    for line in _HOW:
        console.print(line, soft_wrap=True)
