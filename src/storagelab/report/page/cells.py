"""The parts of single cells: wait tables in nine columns, what sessions were seen waiting for, counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from storagelab.findings.model import CellSummary, Findings
from storagelab.model.measurement import Run
from storagelab.model.waits import Method, TableRow
from storagelab.report.drawing import arrange, palette
from storagelab.report.page.crowds import crowds
from storagelab.report.page.pieces import Content, PageTable, Swatch, View
from storagelab.report.text.tables import IN_SQL_SERVER, NINE_COLUMNS, are_likened, wait_columns, waits_of
from storagelab.report.words import compared
from storagelab.report.words.marks import verdict_mark
from storagelab.report.words.table import Heading
from storagelab.report.words.waiting import audit_sentences, method_text, no_waits_sentence, wait_footnotes, waits_title
from storagelab.words import numbers
from storagelab.words.names import cell_entry
from storagelab.words.numbers import quantity_text

MAX_CELLS_SHOWN = 110
"""As many cells as the largest experiment of the articles has, so that each of its cells has a wait table."""
CELLS_OF_A_LARGE_EXPERIMENT = 20
_MARKS: dict[Method, str] = {"counter": "", "sampled": "~ ", "derived": "* "}
_TITLES = {
    "Wait_S": "seconds waited, summed over connections: Resource_S + Signal_S",
    "Resource_S": "waiting for the thing itself",
    "Signal_S": "the thing was ready, waiting for a CPU",
    "Percentage": "of all waits of the run, before the cut",
}
_HEADINGS = [
    Heading(NINE_COLUMNS[0], "text"),
    *(Heading(name, meaning=_TITLES.get(name, "")) for name in NINE_COLUMNS[1:]),
    Heading(IN_SQL_SERVER, "text", "the wait type that a SQL Server DBA would look for"),
    Heading("Method", "text", "counted by the engine, sampled, or derived from other figures"),
]


def cells_with_parts(findings: Findings) -> list[CellSummary]:
    """All cells or, if there are very many, those that most deserve a section."""
    if len(findings.cells) <= MAX_CELLS_SHOWN:
        return list(findings.cells)
    return arrange.notable_cells(findings, CELLS_OF_A_LARGE_EXPERIMENT)


def cells_view(findings: Findings, runs: Sequence[Run], colours: Mapping[str, str]) -> View:
    """A part for each cell: those to look at first are open, the others folded. `colours` are those that the chart
    gave to wait types.
    """
    by_cell: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_cell[run.cell_id].append(run)
    chosen = arrange.chosen_cells(findings)
    first = {cell.cell_id for cell in chosen}
    rest = [cell for cell in cells_with_parts(findings) if cell.cell_id not in first]
    folds = bool(chosen) and len(rest) > 1
    return {
        "note": _which(findings) if folds else "",
        "open": [_part(cell, findings, by_cell[cell.cell_id], colours, is_open=True) for cell in chosen],
        "folded": numbers.plural(len(rest), "other cell") if folds else "",
        "others": [_part(cell, findings, by_cell[cell.cell_id], colours, is_open=False) for cell in rest],
    }


def _which(findings: Findings) -> str:
    """A sentence on which cells are open, and where the others are."""
    x = arrange.arrange(findings).x_title
    left_out = len(findings.cells) - len(
        {cell.cell_id for cell in (*cells_with_parts(findings), *arrange.chosen_cells(findings))}
    )
    words = (
        f"Shown open: the cells with the first, the best and the last {x} beside the fastest "
        "cell, and the slowest cell."
    )
    if left_out:
        words += (
            f" Of {numbers.count(len(findings.cells))} cells, those at the ends of each factor and some between them "
            f"are below; the other {numbers.count(left_out)} are in the raw data, uncut."
        )
    return words


def _part(
    cell: CellSummary, findings: Findings, runs: Sequence[Run], colours: Mapping[str, str], is_open: bool
) -> View:
    name, rows = cell.text, waits_of(cell, uncut=False)
    caption = waits_title(findings, cell, uncut=False)
    notes = [*audit_sentences(cell), *wait_footnotes(rows, analogues=False), *_no_split_reasons(runs)]
    return {
        "anchor": cell_anchor(cell),
        "is_open": is_open,
        "name": cell_entry(cell.cell_id, name),
        "mark": verdict_mark(findings, cell.cell_id),
        "time": compared.figure_text(findings, cell) or "no time measured",
        "waits": PageTable(caption, _headings(rows), _nine_columns(rows, colours)) if rows else None,
        "no_waits": "" if rows else no_waits_sentence(cell),
        "notes": notes if rows else [],
        **crowds(runs),
        "counters": _counters(cell, runs),
    }


def cell_anchor(cell: CellSummary) -> str:
    """The id of a cell's section. storagelab makes cell ids, but a stored one may contain anything."""
    return "cell-" + "".join(char if char.isalnum() and char.isascii() else "-" for char in cell.cell_id)


def _headings(rows: Sequence[TableRow]) -> list[Heading]:
    return [one for one in _HEADINGS if one.text != IN_SQL_SERVER or are_likened(rows)]


def _nine_columns(rows: Sequence[TableRow], colours: Mapping[str, str]) -> list[list[Content]]:
    """Wait tables as DBAs know them, then the analogue and the method. Unknown figures stay empty and never show as
    0.
    """
    texts = zip(*(cells for _, cells in wait_columns(rows)), strict=True)
    return [
        [
            Swatch(name, colours.get(row.wait_type, palette.CATEGORY[row.category])),
            *figures,
            f"{_MARKS[row.method]}{method_text(row.method)}",
        ]
        for row, (name, *figures) in zip(rows, texts, strict=True)
    ]


def _no_split_reasons(runs: Sequence[Run]) -> list[str]:
    """Why Resource and Signal are empty, in the words of the target."""
    reasons = {
        run.measurement.waits.no_split_reason: None
        for run in runs
        if run.measurement is not None and run.measurement.waits is not None
    }
    return [f"No split into Resource and Signal: {reason}" for reason in reasons if reason]


def _counters(cell: CellSummary, runs: Sequence[Run]) -> PageTable | None:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        for group, counters in run.measurement.counters.items() if run.measurement is not None else ():
            for name, value in counters.items():
                values[group, name].append(value)
    known = {key: sum(found) / len(found) for key, found in values.items() if any(found)}
    if not known:
        return None
    headings = [Heading("counter", "text"), Heading("of", "text"), Heading("mean of a run")]
    rows = [[name, group, quantity_text(name, mean)] for (group, name), mean in known.items()]
    caption = f"Counters of server and devices, differences over a run, of {cell.name}; zeros left out"
    return PageTable(caption, headings, rows, folded="Counters of server and devices")
