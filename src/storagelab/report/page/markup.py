"""HTML built from values: whatever is not already `Markup` is escaped, so that no name in a spec can become markup,
and no password that a message quotes can leave with the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal

from storagelab.report.words.secrets import masked

VOID = frozenset({"meta", "br", "hr", "col", "input"})


class Markup(str):
    """Text that is HTML already. Made only by the functions of this module."""

    __slots__ = ()


def _escaped(words: str) -> str:
    """As HTML, without the passwords that a message may quote."""
    return escape(masked(words), quote=True)


Child = str | None | Iterable["Child"]
"""Plain strings are escaped, Markup is taken as it is, None is nothing, and an iterable is its members in a row."""


def text(child: Child) -> Markup:
    """Any child as HTML."""
    if child is None:
        return Markup("")
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return Markup(_escaped(child))
    return Markup("".join(text(part) for part in child))


def trusted(html: str) -> Markup:
    """HTML from a renderer of this package (an SVG, a template); never from a person."""
    return Markup(html)


def tag(name: str, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """One element. `class_` and `for_` lose their underscore, other underscores become hyphens; None and False are left
    out, True stands alone."""
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        parts.append(label if value is True else f'{label}="{_escaped(str(value))}"')
    opening = f"<{' '.join(parts)}>"
    return Markup(opening if name in VOID else f"{opening}{text(children)}</{name}>")


Align = Literal["text", "prose", "number"]
"""Names stay on one line, prose wraps, numbers stand to the right."""
_CLASSES: dict[Align, str | None] = {"text": None, "prose": "p", "number": "n"}


class Column:
    """A column's heading, its alignment, and what it means where the heading doesn't say."""

    __slots__ = ("align", "heading", "title")

    def __init__(self, heading: str, align: Align = "number", title: str = "") -> None:
        self.heading, self.align, self.title = heading, align, title


Row = Sequence[Child]


def table(caption: Child, columns: Sequence[Column], rows: Iterable[Row], *, row_classes: Sequence[str] = ()) -> Markup:
    """A table with its caption, headings in scope, the first column as row heading, in a frame that scrolls."""
    head = tag("tr", [_heading(column) for column in columns])
    body = [
        tag("tr", _cells(row, columns), class_=row_classes[index] or None if index < len(row_classes) else None)
        for index, row in enumerate(rows)
    ]
    content = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body))
    return tag("div", content, class_="scroll", tabindex=0, role="group", aria_label="table, scrolls sideways")


def _heading(column: Column) -> Markup:
    return tag("th", column.heading, scope="col", class_=_CLASSES[column.align], title=column.title or None)


def _cells(row: Row, columns: Sequence[Column]) -> list[Markup]:
    first, *rest = row
    return [
        tag("th", first, scope="row", class_=_CLASSES[columns[0].align]),
        *(tag("td", cell, class_=_CLASSES[column.align]) for cell, column in zip(rest, columns[1:], strict=True)),
    ]


def fold(summary: Child, *content: Child, open_: bool = False, **attributes: str | None) -> Markup:
    """A part that is opened by its summary."""
    return tag("details", tag("summary", summary), content, open=open_, **attributes)
