"""Prints text tables that fit a width. The least important columns are dropped before others wrap.

Rich's own tables would shorten texts, separate numbers from their units, and end lines with spaces. So this module uses
only the styles of Rich.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from storagelab.words.numbers import keep_together

GAP = 2
_INDENT_BELOW = 4
_NARROWEST_WRAPPED = 16
"""The least width of a wrapping column. Other columns are dropped before it becomes narrower."""
_NARROWEST = 8
_LONGEST_WORD = 40
"""Only words with more letters than this may be split."""
_BREAK = "\u00a0"
_NUMBER = re.compile(r"[\d.,]+ ?\w{0,3}")
"""A number, with or without its unit."""
_LONG_LEVEL = 16
_WORDS = 32
"""The most characters of a line that columns of levels may take before they become narrower or share one column."""


@dataclass(frozen=True)
class Column:
    """One column. `rank`: the column with the highest rank is dropped first; a column of rank 0 is never dropped.
    `wraps`: the column's text may wrap. `least`: other columns are dropped before a wrapping column gets fewer
    characters.
    """

    heading: str
    cells: Sequence[str]
    rank: int = 0
    right: bool = True
    wraps: bool = False
    style: str = ""
    least: int = _NARROWEST_WRAPPED

    @property
    def width(self) -> int:
        return max(cell_len(text) for text in (self.heading, *self.cells))


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """Returns the columns that fit into `width`. Columns with the highest ranks are dropped; rank 0 always stays."""
    kept = list(columns)
    while _width(kept) > width and any(column.rank for column in kept):
        kept.remove(max(kept, key=lambda column: column.rank))
    return kept


def _width(columns: Sequence[Column]) -> int:
    fixed = sum(column.width for column in columns if not column.wraps)
    wrapping = [column for column in columns if column.wraps]
    least = sum(min(column.width, max(column.least, _longest_word(column))) for column in wrapping)
    return fixed + least + GAP * (len(columns) - 1)


def print_table(
    console: Console,
    columns: Sequence[Column],
    *,
    indent: int = 2,
    rows_styled: Sequence[str] = (),
    below: Sequence[str] = (),
    headed: bool = True,
) -> None:
    """Print the columns that fit on the console. `headed`: print their headings. `rows_styled`: a style for each row.
    `below`: a paragraph below each row.
    """
    kept = fitting(columns, console.width - indent)
    widths = _widths(kept, console.width - indent)
    if headed:
        _print_row(console, [column.heading for column in kept], kept, widths, indent, "bold")
    if headed and console.is_terminal:
        emit(console, Text(" " * indent + "─" * (sum(widths) + GAP * (len(widths) - 1)), style="dim"))
    for number in range(max((len(column.cells) for column in kept), default=0)):
        style = rows_styled[number] if number < len(rows_styled) else ""
        _print_row(console, [column.cells[number] for column in kept], kept, widths, indent, style)
        if number < len(below):
            print_paragraph(console, below[number], first=" " * (indent + _INDENT_BELOW), style="dim")


def _print_row(
    console: Console, texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int], indent: int, style: str
) -> None:
    folded = [_fold(text, column, width) for text, column, width in zip(texts, columns, widths, strict=True)]
    for part in itertools.zip_longest(*folded, fillvalue=""):
        emit(console, _line(part, columns, widths, indent, style))


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Returns the widths of the columns. A wrapping column gets an equal share of the width that the others leave; any
    other column has the width of its longest text.
    """
    fixed = sum(column.width for column in columns if not column.wraps) + GAP * (len(columns) - 1)
    wrapping = [column for column in columns if column.wraps]
    each = max(_NARROWEST, (width - fixed) // max(1, len(wrapping)))
    return [min(column.width, max(each, _longest_word(column))) if column.wraps else column.width for column in columns]


def _longest_word(column: Column) -> int:
    """Returns the smallest width at which no word is split, and no figure is separated from its name."""
    words = (word for text in column.cells for word in _unbroken(text).split(" "))
    return 1 + min(_LONGEST_WORD, max(map(cell_len, words), default=0))


def _fold(text: str, column: Column, width: int) -> list[str]:
    if not column.wraps or cell_len(text) <= width:
        return [text]
    return textwrap.wrap(_unbroken(text), width, subsequent_indent=" ", break_on_hyphens=False) or [""]


def _unbroken(text: str) -> str:
    return keep_together(text).replace(" = ", f"{_BREAK}={_BREAK}")


def _line(texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int], indent: int, style: str) -> Text:
    line = Text(" " * indent)
    for number, (text, column, width) in enumerate(zip(texts, columns, widths, strict=True)):
        plain = text.replace(_BREAK, " ")
        space = " " * max(0, width - cell_len(plain))
        line.append(space + plain if column.right else plain + space, style=style or column.style)
        line.append(" " * GAP if number < len(columns) - 1 else "")
    line.rstrip()
    return line


def print_paragraph(console: Console, text: str, *, first: str = "", style: str = "", hanging: int = 0) -> None:
    """Print a text, wrapped to the console's width. The first line begins with `first`. All other lines are indented by
    the length of `first` or, if it is "", by `hanging`.
    """
    width = max(20, console.width)
    lines = textwrap.wrap(
        keep_together(text), width, initial_indent=first, subsequent_indent=" " * (len(first) or hanging),
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    for line in lines:
        emit(console, Text(line.replace(_BREAK, " "), style=style))


def emit(console: Console, line: Text) -> None:
    """Print one line unchanged. Rich neither wraps it nor adds colours."""
    console.print(line, soft_wrap=True, highlight=False, markup=False)


def blank(console: Console) -> None:
    emit(console, Text(""))


def narrow(factors: Sequence[Column], together: Column) -> list[Column]:
    """Returns narrower columns of factors. If one or two columns have long levels, these columns wrap. Otherwise, the
    column `together` replaces all of them.
    """
    long = [column for column in factors if column.width > _LONG_LEVEL]
    if not 1 <= len(long) <= 2 or sum(column.width for column in factors if column not in long) > _WORDS:
        return [together]
    least = _WORDS // len(long)
    return [replace(column, right=False, wraps=True, least=least) if column in long else column for column in factors]


def are_numbers(texts: Sequence[str]) -> bool:
    """Whether all texts are numbers, with or without units."""
    return all(_NUMBER.fullmatch(text) for text in texts if text)
