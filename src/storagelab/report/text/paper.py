"""A short report on a terminal, and as Markdown."""

from __future__ import annotations

from rich.console import Console

from storagelab.report.text.columns import Column, blank, print_paragraph, print_table
from storagelab.report.text.markdown import escaped, markdown_table
from storagelab.report.words.paper import Paper
from storagelab.report.words.secrets import masked


def print_paper(console: Console, paper: Paper) -> None:
    """The verdict, the notes, and the tables as far as they fit."""
    print_paragraph(console, paper.verdict, style="bold")
    blank(console)
    for note in paper.notes:
        print_paragraph(console, note, first="- ")
    for part in paper.parts:
        if not part.table.rows:
            continue
        blank(console)
        print_paragraph(console, f"{part.caption} ({paper.provenance})", style="bold")
        columns = [
            Column(
                heading.text, [row[place] for row in part.table.rows], rank=part.ranks.get(heading.text, 0),
                right=heading.align == "number", wraps=heading.align == "prose",
            )
            for place, heading in enumerate(part.table.headings)
        ]  # fmt: skip
        print_table(console, columns)


def markdown_of(paper: Paper) -> str:
    """All of it."""
    lines = [f"# {escaped(paper.title)}", "", f"**{escaped(paper.verdict)}**", ""]
    lines += [f"- {escaped(note)}" for note in paper.notes]
    for part in paper.parts:
        if part.table.rows:
            headings, rows = part.table
            columns = [(heading.text, [row[place] for row in rows]) for place, heading in enumerate(headings)]
            left = [heading.text for heading in headings if heading.align != "number"]
            lines += ["", f"## {escaped(part.caption)} ({paper.provenance})", "", *markdown_table(columns, left)]
    return masked("\n".join(lines)) + "\n"
