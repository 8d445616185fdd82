"""The parts of a report as values: sentences, tables, charts, folds. Other modules write them as text or pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from storagelab.model.values import Estimate
from storagelab.words import numbers

Align = Literal["text", "prose", "number"]
"""The kind of a column. "text" stays on one line, "prose" wraps, "number" is right-aligned."""


@dataclass(frozen=True)
class Heading:
    """A column's heading, its alignment, and its meaning if the heading alone is unclear."""

    text: str
    align: Align = "number"
    meaning: str = ""


@dataclass(frozen=True)
class Link:
    """A text with a link to another part of the report."""

    text: str
    target: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Swatch:
    """A text after a small square. The square has the colour that the charts use for this thing."""

    text: str
    colour: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Mark:
    """A verdict: its kind, which sets its colour, and its short text. The text is "" if there is only one cell."""

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Bar:
    """A mean and the ends of its interval, as positions from 0 to 100. An unknown end is None. Only pages draw bars."""

    mean: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return ""


Content = str | Link | Swatch | Mark | Bar


@dataclass(frozen=True)
class Table:
    """Headings, and rows with one content per heading.

    `ranks`: a narrow terminal drops these columns, the highest rank first. `row_kinds`: the classes of rows on a page.
    `folded`: the title under which a page folds the table; "" if it does not. `name`: the table's id on a page.
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
        """Returns this table with a caption, and with other fields if given."""
        return replace(self, caption=caption, **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sentence:
    """A sentence in a list. `severity`: if it is a caution, how serious it is. `links`: links to what it is about."""

    text: str
    severity: str = ""
    links: Sequence[Link] = ()


@dataclass(frozen=True)
class Listed:
    """A list of sentences."""

    sentences: Sequence[Sentence]


def listed(texts: Iterable[str]) -> tuple[Listed, ...]:
    """Returns a part with these sentences; no part if there are no sentences."""
    found = tuple(map(Sentence, texts))
    return (Listed(found),) if found else ()


@dataclass(frozen=True)
class Code:
    """Preformatted text, such as a spec. `folded`: the title under which a page folds it; "" if it does not."""

    text: str
    folded: str = ""
    language: str = "toml"


@dataclass(frozen=True)
class Picture:
    """A chart. `drawn` is a `drawing.chart.Drawn`; its module imports this one, so this one can't import the type."""

    drawn: Any


@dataclass(frozen=True)
class Fold:
    """Parts that a page shows only if the reader opens their title. `holds`: a summary beside the title."""

    title: str
    parts: Sequence[Part]
    holds: str = ""
    mark: Mark | None = None
    anchor: str = ""
    is_open: bool = False


Part = str | Table | Listed | Code | Picture | Fold
"""A part of a section. A plain string is a paragraph."""


# --- the ladder -------------------------------------------------------------------------------------------------------

MOST, TIED_MOST = 12, 5
"""The most rows of a ladder, and the most rows for layouts that may be the fastest. The layouts without a row of their
own share a row.
"""

Kind = Literal["fastest", "may-be-fastest", "not-told-apart", "not-fastest", "slower", "not-judged"]
IN_FRONT: tuple[Kind, ...] = ("fastest", "may-be-fastest", "not-told-apart")
"""The verdicts on layouts that may be the fastest. These layouts come first in a ladder."""


@dataclass(frozen=True)
class Rung:
    """A row of a ladder: one layout, or several that share the row (`hidden` is their number).

    `name`: a text for each factor that varies. `ratio`: the layout's time divided by that of the fastest layout; None
    if unknown. `figure`: the layout's mean with the unit.
    """

    name: tuple[str, ...]
    ratio: Estimate | None
    figure: str
    verdict: Mark
    cell_id: str = ""
    recommended: bool = False
    hidden: int = 0
    predicted: bool = False

    @property
    def pick(self) -> str:
        """The mark of a recommended layout: "default" if others may be as fast, else "take". "" for other layouts."""
        return "" if not self.recommended else "default" if self.verdict.kind in IN_FRONT[1:] else "take"

    @property
    def is_hollow(self) -> bool:
        """Whether the row's mark is hollow: for a prediction, and for a ratio other than 1 without an interval."""
        return self.predicted or (self.ratio is not None and self.ratio.half_width is None and self.ratio.value != 1)


@dataclass(frozen=True)
class Ladder:
    """The layouts under one load or in one block.

    `title`: the load or block; "" if there is only one. `what`: the compared figure. `over`: the layout that times are
    divided by. `decimals`: the decimals of ratios. `rungs`: all layouts. `most`: the number of rows to show. `limit`:
    the reader's limit as a ratio; `limit_text` describes it. `ends`: the ends of the axis as ratios.
    """

    title: str
    what: str
    decimals: int
    rungs: tuple[Rung, ...]
    most: int
    limit: float | None = None
    limit_text: str = ""
    ends: tuple[float, float] = (1.0, 1.02)
    over: str = "the fastest"

    def shown(self, most: int | None = None) -> list[Rung]:
        """Returns the rows to show. If many layouts may be the fastest, the first ones and the recommended one have
        rows. Of many other layouts, the next ones and the slowest have rows. Layouts without a figure share the last
        row.
        """
        return list(_folded(self.rungs, most or self.most))

    @property
    def hollow_text(self) -> str:
        """The meaning of the ladder's hollow marks; "" if there are none."""
        hollow = [rung for rung in self.shown() if rung.is_hollow]
        return ("predicted" if hollow[0].predicted else "no interval") if hollow else ""

    @property
    def interval(self) -> str:
        """The kind of the ladder's intervals, such as "joint 95 % CI"; "interval" if there are several kinds."""
        kinds = {(one.predicted, one.ratio.confidence) for one in self.rungs if one.ratio and one.ratio.low is not None}
        if len(kinds) > 1:
            return "interval"
        return f"{100 * kinds.pop()[1]:.0f} % interval" if any(kind[0] for kind in kinds) else "joint 95 % CI"

    def ratio_text(self, rung: Rung) -> str:
        return "" if rung.ratio is None else numbers.ratio_text(rung.ratio.value, self.decimals)

    def place(self, ratio: float) -> float:
        """Returns the place of a ratio on the logarithmic axis, from 0 to 1. A ratio beyond the axis is at its end."""
        least, most = self.ends
        return math.log(min(most, max(least, ratio)) / least) / math.log(most / least)

    def percent(self, ratio: float) -> float:
        """Returns the ratio's place as a percentage of the drawing's width, with a margin at both ends."""
        return round(2 + 96 * self.place(ratio), 1)

    @property
    def ticks(self) -> list[float]:
        """The round ratios that are labelled on the axis."""
        return numbers.round_figures(*self.ends, most=5)


def _folded(rungs: Sequence[Rung], most: int) -> Iterator[Rung]:
    front = [rung for rung in rungs if rung.verdict.kind in IN_FRONT]
    rest = list(rungs[len(front) :])
    shown = min(TIED_MOST, max(1, most - 2)) if rest else min(TIED_MOST, most - 1)
    if len(front) > shown + 1:
        picked = [rung for rung in front[shown:] if rung.recommended][:1]
        left = [rung for rung in front[shown:] if rung not in picked]
        folded = [_together(of) for kind in IN_FRONT if (of := [one for one in left if one.verdict.kind == kind])]
        front = [*front[:shown], *((*picked, *folded) if front[shown] in picked else (*folded, *picked))]
    yield from front
    timed = [rung for rung in rest if rung.figure]
    untimed = rest[len(timed) :]
    if len(rest) > (room := max(2, most - len(front))):
        untimed, room = [_together(untimed)] if untimed else [], max(2, room - bool(untimed))
        if len(timed) > room:
            hidden = timed[room - 2 : -1]
            judged = [rung for rung in hidden if rung.verdict.kind != "not-judged"]
            apart = filter(None, (judged, [rung for rung in hidden if rung not in judged]))
            timed = [*timed[: room - 2], *map(_together, apart), timed[-1]]
    yield from (*timed, *untimed)


def _together(rungs: Sequence[Rung]) -> Rung:
    """Returns a row for several layouts. Their verdicts may differ. A layout that can't be told apart from the fastest
    may have a slower mean than the rows below it.
    """
    if len(rungs) == 1:
        return rungs[0]
    kinds = {rung.verdict.text.partition(",")[0]: rung.verdict.kind for rung in rungs}
    verdict = Mark("not-judged" if len(kinds) > 1 else rungs[0].verdict.kind, " or ".join(filter(None, kinds)))
    figures = sorted((rung.figure for rung in rungs if rung.figure), key=_number)
    ends = f", {figures[0].partition(' ')[0]} to {figures[-1]}" if figures else ""
    few = ", too few runs to tell" * (verdict.kind == "not-told-apart")
    return Rung((f"{len(rungs)} more{few}{ends}",), None, "", verdict, hidden=len(rungs))


def _number(figure: str) -> float:
    return float(figure.partition(" ")[0].replace(",", ""))


# --- the whole --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """Parts under a heading. `holds`: a summary that a page shows beside the title; "" if the section is not folded."""

    name: str
    title: str
    parts: Sequence[Part]
    holds: str = ""


@dataclass(frozen=True)
class Document:
    """A report. `head`: the answer in one or more sentences. `based`: the runs that the answer is based on. `why`: the
    reasons. `doubt`: what makes the answer doubtful. `next`: the next step. `facts`: short facts on the measurement.
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

    @property
    def verdict(self) -> str:
        return " ".join(filter(None, self.head))

    @property
    def tables(self) -> list[Table]:
        """The tables that are not inside a fold."""
        return [part for section in self.sections for part in section.parts if isinstance(part, Table)]

    def opened_by(self, sentence: str) -> Document:
        """Returns this document with a sentence before its answer."""
        return replace(self, head=(sentence, *self.head))


def paper(title: str, provenance: str, verdict: str, notes: Sequence[str], tables: Iterable[Table]) -> Document:
    """Returns a short report with a verdict, notes and tables. Every caption contains the provenance."""
    shown = [table.called(f"{table.caption} ({provenance})") for table in tables if table.rows]
    sections = [Section("notes", "Notes", listed(notes)), Section("tables", "Tables", shown)]
    return Document(title, provenance, (verdict,), [section for section in sections if section.parts])


def bare(value: str | float | int | None) -> str:
    """Writes a figure in four digits. A large figure has no power of ten. An unknown figure is ""."""
    text = "" if value is None else f"{float(value):,.4g}"
    return f"{float(text):,.0f}" if "e+" in text else text
