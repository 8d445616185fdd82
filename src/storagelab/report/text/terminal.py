"""Prints reports, and the results of `doctor` and `simulate`, as text. Only a terminal gets colours.

The answer comes last, because a terminal shows the end of a long text.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from storagelab.machine.doctor import Ability
from storagelab.model.plan import Cell
from storagelab.model.promises import Promise
from storagelab.model.waits import NS
from storagelab.report.document import (
    Bar,
    Code,
    Document,
    Fold,
    Heading,
    Ladder,
    Listed,
    Part,
    Picture,
    Rung,
    Section,
    Table,
)
from storagelab.report.text.columns import GAP, Column, blank, emit, print_paragraph, print_table
from storagelab.report.words.secrets import masked
from storagelab.words.numbers import count, plural, rate, seconds

_ROWS = 40
"""The most rows of a table on a terminal."""
_NOT_SHOWN = ("pictures", "over-time", "manifest")
"""The sections that a terminal leaves out, because they are charts or too long. The page has them."""
_LADDERS = 9
"""If ladders have taken more lines than this, the ladders of further loads are printed only in the full report."""
_BAR_LEAST, _BAR_MOST, _VERDICT_MOST = 11, 31, 30
_STYLES = {"fastest": "green", "may-be-fastest": "green", "not-judged": "dim"}
_HANGING = 2


def as_text(of: Document) -> str:
    """Returns the document as text for a file, without colours and 100 columns wide."""
    file = io.StringIO()
    print_document(Console(file=file, width=100, highlight=False, markup=False), of)
    return file.getvalue()


def print_document(console: Console, of: Document, *, full: bool = True) -> None:
    """Print the answer. If `full`, print the sections before it."""
    for section in of.sections if full else ():
        if section.name not in _NOT_SHOWN:
            _print_section(console, section)
    if full and of.sections and (of.verdict or of.based):
        blank(console)
    _print_answer(console, of, full=full)


def _print_answer(console: Console, of: Document, *, full: bool) -> None:
    first = of.head[0] if of.head else ""
    gap = console.width - cell_len(first) - cell_len(of.based)
    if gap >= GAP and first:
        emit(console, Text.assemble((first, "bold"), " " * gap, (of.based, "dim")))
    else:
        print_paragraph(console, first, style="bold", hanging=_HANGING)
    for text in of.head[1:]:
        print_paragraph(console, text, style="bold" if of.ladders else "", hanging=_HANGING)
    if gap < GAP or not first:
        print_paragraph(console, of.based, style="dim", hanging=_HANGING)
    _print_ladders(console, of.ladders, full=full)
    for text, style in (*((why, "") for why in of.why), (of.doubt, "yellow"), (of.next, "bold")):
        print_paragraph(console, text, style=style, hanging=_HANGING)


# --- the ladder -------------------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """The rows of a ladder as text. `lines` is the number of lines that the longest name takes."""

    rungs: Sequence[Rung]
    names: Sequence[str]
    ratios: Sequence[str]
    figures: Sequence[str]
    verdicts: Sequence[str]
    lines: int

    def room(self, console: Console) -> int:
        """Returns how many characters are left for a bar beside all other columns."""
        return _room(console, [self.names, self.ratios, self.figures, self.verdicts])


def _print_ladders(console: Console, ladders: Sequence[Ladder], *, full: bool) -> None:
    """Print all ladders. All bars have the same width, which is as large as the console allows."""
    rows = [_rows(console, ladder) for ladder in ladders]
    width = min([_BAR_MOST, *(max(_BAR_LEAST, of.room(console)) for of in rows)])
    lines = 0
    for place, (ladder, of) in enumerate(zip(ladders, rows, strict=True)):
        if lines > _LADDERS and not full:
            left = plural(len(ladders) - place, "more load")
            print_paragraph(console, f"... and {left}: --full, or the report.", first="  ")
            break
        _print_ladder(console, ladder, of, width)
        lines += of.lines * len(of.rungs) + bool(ladder.title) + bool(ladder.limit_text)


def _print_ladder(console: Console, ladder: Ladder, of: _Rows, width: int) -> None:
    bars = [_bar(ladder, rung, width) for rung in of.rungs] if any(rung.ratio for rung in of.rungs) else []
    columns = [
        Column("", [">" if rung.recommended else " " for rung in of.rungs], right=False),
        Column("", of.names, right=False, wraps=True, least=8), Column("", of.ratios),
        *([Column("", bars, rank=1, right=False)] if bars else []),
        Column("", of.figures), Column("", of.verdicts, right=False),
    ]  # fmt: skip
    speeds = any(rung.predicted for rung in of.rungs)
    if title := ladder.title or f"time / {ladder.over.removeprefix('the ')}, and {ladder.what}" * speeds:
        print_paragraph(console, f"{title}:", style="bold")
    styles = [_STYLES.get(rung.verdict.kind, "") for rung in of.rungs]
    print_table(console, columns, indent=0, rows_styled=styles, headed=False)
    default = "default" * any(rung.pick == "default" for rung in of.rungs)
    marks = {">": default, ":": ladder.limit_text, "o": ladder.hollow_text}
    told = "; ".join(f"{mark} {text}" for mark, text in marks.items() if text)
    print_paragraph(console, told, first="  ", style="dim")


def _rows(console: Console, ladder: Ladder) -> _Rows:
    """Returns the rows of a ladder as text. If the names leave no room for a bar, their levels share one column that
    wraps, and fewer layouts have a row of their own.
    """
    rungs = ladder.shown()
    ratios, figures = [ladder.ratio_text(one) for one in rungs], [one.figure for one in rungs]
    of = _Rows(rungs, _padded(rungs), ratios, figures, [one.verdict.text for one in rungs], 1)
    if of.room(console) >= _BAR_LEAST:
        return of
    verdicts = {rung: shorten(rung.verdict.text.partition(",")[0], _VERDICT_MOST, placeholder=" ...") for rung in rungs}
    wide = _room(console, [ratios, figures, list(verdicts.values())]) - _BAR_LEAST - GAP
    lines = max(-(-cell_len(", ".join(rung.name)) // max(8, wide - 2)) for rung in rungs)
    rungs = ladder.shown(max(5, ladder.most // lines))
    return _Rows(
        rungs, [", ".join(filter(None, rung.name)) for rung in rungs], [ladder.ratio_text(one) for one in rungs],
        [one.figure for one in rungs], [verdicts.get(one, one.verdict.text) for one in rungs], lines,
    )  # fmt: skip


def _room(console: Console, columns: Sequence[Sequence[str]]) -> int:
    return console.width - 1 - 2 * GAP - sum(max(map(cell_len, texts)) + GAP for texts in columns if any(texts))


def _padded(rungs: Sequence[Rung]) -> list[str]:
    """Returns one text per row, with the levels of all factors aligned. A row for several layouts has only one name."""
    own = [rung.name for rung in rungs if not rung.hidden]
    widths = [max(map(cell_len, texts)) for texts in zip(*own, strict=True)]
    padded = (
        [text + " " * (width - cell_len(text)) for text, width in zip(rung.name, widths, strict=False)]
        for rung in rungs
    )
    return [(" " * GAP).join(texts).rstrip() for texts in padded]


def _bar(ladder: Ladder, rung: Rung, width: int) -> str:
    """Draws a ratio as text. Bars mark the ends of its interval. A star marks its value; an o marks a prediction or a
    value without an interval. A colon marks the reader's limit.
    """
    letters = [" "] * width

    def place(ratio: float) -> int:
        return round(ladder.place(ratio) * (width - 1))

    if rung.ratio is not None and rung.ratio.low and rung.ratio.high:
        first, last = place(rung.ratio.low), place(rung.ratio.high)
        letters[first : last + 1] = "-" * (last + 1 - first)
        letters[first] = "<" if rung.ratio.low < ladder.ends[0] else "|"
        letters[last] = ">" if rung.ratio.high > ladder.ends[1] else "|"
    if ladder.limit is not None and letters[place(ladder.limit)] in " -":
        letters[place(ladder.limit)] = ":"
    if rung.ratio is not None:
        letters[place(rung.ratio.value)] = "o" if rung.is_hollow else "*"
    return "".join(letters)


# --- sections ---------------------------------------------------------------------------------------------------------


def _print_section(console: Console, section: Section) -> None:
    shown = [part for part in section.parts if not isinstance(part, Picture) and not _is_folded(part)]
    folds = [part for part in shown if isinstance(part, Fold)]
    if folds:  # only those that a page shows open, if a part of them is not folded
        shown = [part for part in shown if part not in folds or (part.is_open and not all(map(_is_folded, part.parts)))]
    if not shown:
        return
    blank(console)
    emit(console, Text(section.title, style="bold"))
    for part in shown:
        print_part(console, part)


def _is_folded(part: Part) -> bool:
    return isinstance(part, Table | Code) and bool(part.folded)


def print_part(console: Console, part: Part) -> None:
    match part:
        case str():
            print_paragraph(console, part)
        case Listed(sentences):
            for one in sentences:
                serious = one.severity == "caution"
                print_paragraph(console, one.text, first="! " if serious else "- ", style="yellow" if serious else "")
        case Table():
            _print_table(console, part)
        case Fold():
            blank(console)
            for inner in part.parts:
                print_part(console, inner)
        case Code(text, ""):
            for line in text.splitlines():
                emit(console, Text(line))
        case Code() | Picture():
            pass


def _print_table(console: Console, table: Table) -> None:
    if _is_folded(table) or not table.rows:
        return
    blank(console)
    print_paragraph(console, table.caption, style="bold")
    columns = columns_of(table, table.rows[:_ROWS])
    print_table(console, columns, rows_styled=[_STYLES.get(kind.partition(" ")[0], "") for kind in table.row_kinds])
    if (left := len(table.rows) - _ROWS) > 0:
        print_paragraph(console, f"... and {left} more rows; the report has them all.", first="  ")


def columns_of(table: Table, rows: Sequence[Sequence[object]]) -> list[Column]:
    """Returns the columns of a table that can be printed as text."""
    return [
        Column(
            heading.text, [str(row[place]) for row in rows], rank=table.ranks.get(heading.text, 0),
            right=heading.align == "number", wraps=heading.align == "prose",
        )
        for place, heading in written(table)
    ]  # fmt: skip


def written(table: Table) -> list[tuple[int, Heading]]:
    """Returns the columns that have text, with their places. Columns of bars are left out: only pages draw bars."""
    return [
        (place, heading) for place, heading in enumerate(table.headings)
        if not any(isinstance(row[place], Bar) for row in table.rows)
    ]  # fmt: skip


# --- the time of one simulated run, and what its connections waited for -----------------------------------------------


def print_outcome(console: Console, cell: Cell, outcome: Mapping[str, Any]) -> None:
    """Print the simulator's outcome in units of the real server. At scale N, a simulated second or row stands for N
    real ones.
    """
    scale = cell.config.target.world_scale
    print_paragraph(console, f"{cell.cell_id}: one run on the drives of a new block, at scale {scale}", style="bold")
    if outcome["failure"]:
        print_paragraph(console, f"It failed: {outcome['failure']}")
    elapsed_s = outcome["elapsed_ns"] * scale * NS
    if "ios" in outcome and "rows" not in outcome:
        text = f"{rate(outcome['ios_per_s'], 'requests')}, {seconds(outcome['latency']['mean_ns'] * NS)} each"
        print_paragraph(console, f"{seconds(elapsed_s)} counted: {text}.")
    else:
        rows = outcome["rows"] * scale
        print_paragraph(console, f"{seconds(elapsed_s)}, {count(rows)} rows, {outcome['connections']} connections.")
        waits = outcome["waits"]
        columns = [
            Column("wait", [row["wait_type"] for row in waits], right=False),
            Column("wait s", [seconds((row["resource_ns"] + row["signal_ns"]) * scale * NS) for row in waits]),
            Column("signal s", [seconds(row["signal_ns"] * scale * NS) for row in waits], rank=1),
            Column("count", [count(row["count"] * scale) for row in waits]),
        ]
        print_table(console, columns, indent=0)
    print_paragraph(console, "--trace prints the scenario and the whole outcome; --every-io adds each I/O.")


# --- the results of `doctor` and the promises that a server keeps, on a terminal --------------------------------------

_STATES = {"no": ("no    ", "red"), "partly": ("partly", "yellow"), "yes": ("yes   ", "green")}
_OUTCOMES = {"pass": ("pass", "green"), "fail": ("FAIL", "red"), "open": ("open", "yellow")}


def print_abilities(console: Console, abilities: Sequence[Ability], whole: bool = False) -> None:
    """Print a paragraph on each ability that is missing or incomplete, with the fix. Then print the names of the
    abilities that work or, with `whole`, a paragraph on each. Then print how many work and what can be measured.
    """
    of = {state: [one for one in abilities if one.state == state] for state in _STATES}
    for one in (*of["no"], *of["partly"], *(of["yes"] if whole else ())):
        mark, style = _STATES[one.state]
        console.print(Text.assemble((mark, style), "  ", (one.name, "bold")), soft_wrap=True)
        print_paragraph(console, one.detail, first="        ")
        print_paragraph(console, one.mend and f"to fix it: {one.mend}", first="        ")
    if not whole:
        print_paragraph(console, "; ".join(one.name for one in of["yes"]), first="yes     ")
    verdict = "only what needs none of the missing can be measured" if of["no"] else "everything can be measured"
    print_paragraph(console, f"{len(of['yes'])} work, {len(of['partly'])} partly, {len(of['no'])} missing: {verdict}")


def print_promises(console: Console, promises: Sequence[Promise]) -> None:
    """Print a line for each promise, with the evidence below it. Then print how many are kept, broken and open."""
    for promise in promises:
        mark, style = _OUTCOMES[promise.state]
        console.print(Text.assemble((mark, style), "  ", (promise.name, "bold")), soft_wrap=True)
        for line in masked(promise.detail).splitlines():
            print_paragraph(console, line.strip(), first="      ")
    counts = {state: sum(promise.state == state for promise in promises) for state in _OUTCOMES}
    console.print(f"{counts['pass']} kept, {counts['fail']} broken, {counts['open']} open", highlight=False)
