"""What a report is made of, as values: sentences, tables, charts, folds. Terminal, Markdown and page lay them out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from storagelab.report.drawing.chart import Drawn
    from storagelab.report.words.ladder import Ladder

Align = Literal["text", "prose", "number"]
"""Names stay on one line, prose wraps, numbers align right."""


@dataclass(frozen=True)
class Heading:
    """A column's heading, its alignment, and its meaning if the heading alone is unclear."""

    text: str
    align: Align = "number"
    meaning: str = ""


@dataclass(frozen=True)
class Link:
    """A text that links to another place of the report."""

    text: str
    target: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Swatch:
    """A text after a small square in its chart colour; `dark`: that colour on a dark ground."""

    text: str
    colour: str
    dark: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Mark:
    """A verdict: its kind, which colours it, and its words."""

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Bar:
    """An interval and its mean, at positions from 0 to 100; None for an unknown end. Only pages draw it."""

    mean: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return ""


Content = str | Link | Swatch | Mark | Bar


@dataclass(frozen=True)
class Table:
    """Headings, and rows with one content per heading. `ranks`: the columns that a narrow terminal drops, the highest
    first. `folded`: the words under which a page folds it. `name`: its id on the page, if a script needs one.
    """

    headings: Sequence[Heading]
    rows: Sequence[Sequence[Content]]
    caption: str = ""
    ranks: Mapping[str, int] = field(default_factory=dict)
    row_kinds: Sequence[str] = ()
    folded: str = ""
    is_open: bool = False
    name: str = ""

    def called(self, caption: str, **more: object) -> Table:
        """The same with a caption."""
        return replace(self, caption=caption, **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sentence:
    """A sentence of a list. `severity` of a caution; `links` to what it is about."""

    text: str
    severity: str = ""
    links: Sequence[Link] = ()


@dataclass(frozen=True)
class Listed:
    """Sentences below each other."""

    sentences: Sequence[Sentence]


def listed(texts: Iterable[str]) -> tuple[Listed, ...]:
    """Plain sentences as a part; none if there are none."""
    found = tuple(map(Sentence, texts))
    return (Listed(found),) if found else ()


@dataclass(frozen=True)
class Code:
    """Text as it is, such as a spec."""

    text: str
    folded: str


@dataclass(frozen=True)
class Picture:
    """A chart."""

    drawn: Drawn


@dataclass(frozen=True)
class Fold:
    """Parts under a title of their own, which a page opens on request. `holds`: what is in it, beside its title."""

    title: str
    parts: Sequence[Part]
    holds: str = ""
    mark: Mark | None = None
    anchor: str = ""
    is_open: bool = False


Part = str | Table | Listed | Code | Picture | Fold
"""A plain text is a paragraph."""


@dataclass(frozen=True)
class Section:
    """Parts under a heading. `holds`: what a page says beside the title while it is folded; "" = it is open."""

    name: str
    title: str
    parts: Sequence[Part]
    holds: str = ""


@dataclass(frozen=True)
class Document:
    """A report. `head`: the answer, a sentence or several; `why`, `doubt` and `next` may be empty; `based`: what it is
    based on. `facts`: short facts on how it was measured. `picture`: a prediction's bars, line by line.
    """

    title: str
    provenance: str
    head: Sequence[str]
    sections: Sequence[Section] = ()
    question: str = ""
    based: str = ""
    ladders: Sequence[Ladder] = ()
    why: Sequence[str] = ()
    doubt: str = ""
    next: str = ""
    facts: Sequence[str] = ()
    picture: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        return " ".join(filter(None, self.head))

    @property
    def tables(self) -> list[Table]:
        """Those that stand in no fold."""
        return [part for section in self.sections for part in section.parts if isinstance(part, Table)]

    def opened_by(self, sentence: str, picture: Sequence[str] = ()) -> Document:
        """The same, with a sentence before its answer, and a picture."""
        return replace(self, head=(sentence, *self.head), picture=picture)


def paper(title: str, provenance: str, verdict: str, notes: Sequence[str], tables: Iterable[Table]) -> Document:
    """A short report: a verdict, notes and tables. `provenance` is part of every caption."""
    shown = [table.called(f"{table.caption} ({provenance})") for table in tables if table.rows]
    sections = [Section("notes", "Notes", listed(notes)), Section("tables", "Tables", shown)]
    return Document(title, provenance, (verdict,), [section for section in sections if section.parts])


def bare(value: str | float | int | None) -> str:
    """A figure in four digits, without a power of ten if it is large; "" if it is unknown."""
    text = "" if value is None else f"{float(value):,.4g}"
    return f"{float(text):,.0f}" if "e+" in text else text
