"""Findings on a terminal: plain lines in a pipe, colour only on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from storagelab.findings.answer import answer
from storagelab.findings.model import CellSummary, Findings
from storagelab.model.waits import TableRow
from storagelab.report.text import tables
from storagelab.report.text.columns import (
    Column,
    are_numbers,
    blank,
    columns_of,
    emit,
    narrow,
    print_paragraph,
    print_table,
)
from storagelab.report.words import compared
from storagelab.report.words.answer import Line, answer_lines
from storagelab.report.words.caution_texts import caution_sentences
from storagelab.report.words.hosts import host_table
from storagelab.report.words.marks import legend_sentence, verdict_mark
from storagelab.report.words.sentences import sentences
from storagelab.report.words.short import HANGING
from storagelab.report.words.waiting import audit_sentences, no_waits_sentence, wait_footnotes, waits_title

_CELLS_SHOWN = 40
_WIDE = 140  # from this width on, the SQL Server names are in the table, not below it
_LEFT = (tables.CELL_ID, "verdict", tables.AGAINST, "WaitType", tables.IN_SQL_SERVER)
_ANSWER_STYLES: Mapping[str, str] = {"basis": "dim", "caution": "yellow", "next": "bold"}
_MARKS = {"counter": "", "sampled": "~", "derived": "*"}


def print_findings(console: Console, findings: Findings) -> None:
    """Print the answer, then its evidence: sentences, the table of cells, waits of best and worst, cautions.

    A screen shows what is printed last. So if all this is longer than the screen, the answer comes again at the end.
    """
    found = answer(findings)
    lines = answer_lines(findings, found)
    with console.capture() as below:
        _print_evidence(console, findings, sentences(findings, found))
    print_answer(console, lines)
    text = below.get()
    console.file.write(text)
    if console.is_terminal and text.count("\n") + len(lines) > console.height:
        _print_heading(console, "The answer again")
        print_answer(console, lines)


def _print_heading(console: Console, text: str) -> None:
    blank(console)
    emit(console, Text(text, style="bold"))


def print_answer(console: Console, lines: Sequence[Line]) -> None:
    """Print the answer: at most eight rows at 80 columns."""
    for place, line in enumerate(lines):
        style = "bold" if place == 0 else _ANSWER_STYLES.get(line.about, "")
        print_paragraph(console, line.text, style=style, hanging=HANGING)


def _print_evidence(console: Console, findings: Findings, texts: Sequence[str]) -> None:
    if texts:
        _print_heading(console, "Evidence")
    for text in texts:
        print_paragraph(console, text, first="- ")
    _print_cells(console, findings)
    table = host_table(findings)
    if table.rows:
        blank(console)
        print_table(console, columns_of(table))
    if compared.of_raw_io(findings):
        _print_cautions(console, findings)
        return
    # With several loads, use the fastest and slowest cells of the load under which layouts differ most.
    best = () if findings.loads else findings.best[:1]
    ends = [cell_id for cell_id in (*best, findings.fastest, findings.worst) if cell_id is not None]
    print_waits(console, findings, list(dict.fromkeys(ends)), uncut=False)
    _print_cautions(console, findings)


def _print_cells(console: Console, findings: Findings) -> None:
    cells, left_out = tables.cells_shown(findings, _CELLS_SHOWN)
    if not any(cell.elapsed_s for cell in cells):
        return
    blank(console)
    if legend := legend_sentence(findings):
        print_paragraph(console, legend)
        blank(console)
    columns = [
        Column(name, texts, rank=tables.CELL_RANKS.get(name, 0), right=name not in _LEFT and _is_figure(name, texts))
        for name, texts in tables.cell_columns(findings, cells)
    ]
    if sum(column.width + 2 for column in columns if not column.rank) > console.width:
        levels = Column("levels", [cell.text for cell in cells], right=False, wraps=True)
        after = 1 + len(findings.factors)
        columns = [columns[0], *narrow(columns[1:after], levels), *columns[after:]]
    styles = [_STYLES.get(verdict_mark(findings, cell.cell_id).split(" ")[0], "") for cell in cells]
    print_table(console, columns, rows_styled=styles)
    if left_out:
        print_paragraph(console, f"... and {left_out} slower cells; the report has them all.", first="  ")


def _is_figure(name: str, texts: Sequence[str]) -> bool:
    """Whether a column is right-aligned: every column is, except a factor with words as levels."""
    return name in tables.CELL_RANKS or name.startswith("mean") or are_numbers(texts)


_STYLES = {"best": "green", "good": "green", "may": "green", "slower": ""}


def _print_cautions(console: Console, findings: Findings) -> None:
    if not findings.cautions:
        return
    _print_heading(console, "Caveats")
    for severity, text in caution_sentences(findings):
        serious = severity == "caution"
        print_paragraph(console, text, first="! " if serious else "- ", style="yellow" if serious else "")


# ---------------------------------------------------------------------------------------------------------------------
# Waits
# ---------------------------------------------------------------------------------------------------------------------


def print_waits(console: Console, findings: Findings, cell_ids: Sequence[str], uncut: bool) -> None:
    """Print the nine columns for each cell, best first as given. `uncut` shows all waits, not just those of the top
    95 %.
    """
    known = {cell.cell_id: cell for cell in findings.cells}
    noted: dict[str, TableRow] = {}
    for cell_id in cell_ids:
        rows = tables.waits_of(known[cell_id], uncut)
        noted.update((row.wait_type, row) for row in rows)
        blank(console)
        _print_waits_of(console, findings, known[cell_id], rows, uncut)
    if noted:
        blank(console)
    for line in wait_footnotes(list(noted.values()), analogues=console.width < _WIDE):
        print_paragraph(console, line, first="  ", style="dim")


def _print_waits_of(
    console: Console, findings: Findings, cell: CellSummary, rows: Sequence[TableRow], uncut: bool
) -> None:
    print_paragraph(console, waits_title(findings, cell, uncut), style="bold")
    if not rows:
        print_paragraph(console, no_waits_sentence(cell), first="  ")
    else:
        marks = [_MARKS[row.method] for row in rows]
        columns = [
            Column(name, texts, rank=tables.WAIT_RANKS.get(name, 0), right=name not in _LEFT)
            for name, texts in tables.wait_columns(rows)
        ]
        if any(marks):
            columns.insert(1, Column("", marks, right=False))
        print_table(console, [one for one in columns if console.width >= _WIDE or one.heading != tables.IN_SQL_SERVER])
    for line in audit_sentences(cell):
        print_paragraph(console, line, first="  ")
