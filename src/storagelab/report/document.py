"""The parts of a report as values: sentences, tables, charts, folds. Other modules lay them out for each medium."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from storagelab.model.values import Estimate
from storagelab.words import numbers

Align = Literal["text", "prose", "number"]
"""The kind of a column: names stay on one line, prose wraps, numbers are right-aligned."""


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
    """A text after a small square in its chart colour."""

    text: str
    colour: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Mark:
    """A verdict: its kind, which sets the colour, and its short text; "" if there is only one cell."""

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Bar:
    """An interval and its mean as positions from 0 to 100; None for an unknown end. Only pages draw it."""

    mean: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        return ""


Content = str | Link | Swatch | Mark | Bar


@dataclass(frozen=True)
class Table:
    """Headings, and rows with one content per heading. `ranks`: the columns that a narrow terminal drops, the highest
    rank first. `folded`: the title under which a page folds the table. `name`: its id on the page, if scripts need it.
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
        """This table with a caption."""
        return replace(self, caption=caption, **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sentence:
    """A sentence of a list. `severity`: that of a caution. `links`: the parts of the report that it is about."""

    text: str
    severity: str = ""
    links: Sequence[Link] = ()


@dataclass(frozen=True)
class Listed:
    """A list of sentences."""

    sentences: Sequence[Sentence]


def listed(texts: Iterable[str]) -> tuple[Listed, ...]:
    """Plain sentences as a part; no part if there are no sentences."""
    found = tuple(map(Sentence, texts))
    return (Listed(found),) if found else ()


@dataclass(frozen=True)
class Code:
    """Preformatted text, such as a spec. `folded`: the title under which it is folded, "" if it is not."""

    text: str
    folded: str = ""
    language: str = "toml"


@dataclass(frozen=True)
class Picture:
    """A chart: a `drawing.chart.Drawn`, a type that can't be imported here because its module imports this one."""

    drawn: Any


@dataclass(frozen=True)
class Fold:
    """Parts under a title of their own, which a page opens on request. `holds`: a summary beside the title."""

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
"""The most rows of a ladder, and the most for layouts that may be the fastest; all other layouts share a row."""

Kind = Literal["fastest", "may-be-fastest", "not-told-apart", "not-fastest", "slower", "not-judged"]
IN_FRONT: tuple[Kind, ...] = ("fastest", "may-be-fastest", "not-told-apart")
"""The verdicts of the layouts that come first."""


@dataclass(frozen=True)
class Rung:
    """A row: a layout, or several that share it (`hidden`). `name` has a text for each factor that varies.

    `ratio`: its time divided by that of the fastest layout; None if unknown. `figure`: its mean with the unit.
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
        """The mark of a recommended layout: "take" only if it is surely the fastest, or worth a move."""
        return "" if not self.recommended else "default" if self.verdict.kind in IN_FRONT[1:] else "take"

    @property
    def is_hollow(self) -> bool:
        """Whether its mark is hollow: a prediction, or a ratio without an interval, unless it is the fastest's own."""
        unbound = self.ratio is not None and self.ratio.half_width is None and self.ratio.value != 1
        return unbound or self.predicted


@dataclass(frozen=True)
class Ladder:
    """The layouts under one load or in one block, which `title` names ("" if there is only one). `what`: the compared
    figure. Ratios are to the time of `over`, with `decimals` decimals. `rungs`: all layouts, of which `most` rows are
    shown. `limit`: the reader's limit as a ratio, and `limit_text` in words. `ends`: the ends of the axis as ratios.
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
        """The rows to show. Of many rows that may be the fastest: the first ones and the recommended one. Of many other
        rows: the next ones and the slowest; those without a figure share the last row.
        """
        return list(_folded(self.rungs, most or self.most))

    @property
    def hollow_text(self) -> str:
        """The meaning of hollow marks; "" if there are none."""
        hollow = [rung for rung in self.shown() if rung.is_hollow]
        return ("predicted" if hollow[0].predicted else "no interval") if hollow else ""

    @property
    def interval(self) -> str:
        """The kind of its intervals, if all are of one kind."""
        kinds = {(one.predicted, one.ratio.confidence) for one in self.rungs if one.ratio and one.ratio.low is not None}
        if len(kinds) > 1:
            return "interval"
        return f"{100 * kinds.pop()[1]:.0f} % interval" if any(kind[0] for kind in kinds) else "joint 95 % CI"

    def ratio_text(self, rung: Rung) -> str:
        return "" if rung.ratio is None else numbers.ratio_text(rung.ratio.value, self.decimals)

    def place(self, ratio: float) -> float:
        """The place of a ratio on the logarithmic axis, from 0 to 1; a ratio beyond the axis is at its end."""
        least, most = self.ends
        return math.log(min(most, max(least, ratio)) / least) / math.log(most / least)

    def percent(self, ratio: float) -> float:
        """The ratio's place in per cent of the width, with room at both ends."""
        return round(2 + 96 * self.place(ratio), 1)

    @property
    def ticks(self) -> list[float]:
        """The round ratios of the axis."""
        return numbers.round_figures(*self.ends, most=5)


def _folded(rungs: Sequence[Rung], most: int) -> Iterator[Rung]:
    front = [rung for rung in rungs if rung.verdict.kind in IN_FRONT]
    rest = list(rungs[len(front) :])
    shown = min(TIED_MOST, max(1, most - 2)) if rest else min(TIED_MOST, most - 1)
    if len(front) > shown + 1:
        picked = [rung for rung in front[shown:] if rung.recommended][:1]
        left = [rung for rung in front[shown:] if rung not in picked]
        others = [_together(left), *picked]
        front = [*front[:shown], *(others if front[shown] is left[0] else reversed(others))]
    yield from front
    timed = [rung for rung in rest if rung.figure]
    untimed = rest[len(timed) :]
    if len(rest) > (room := max(2, most - len(front))):
        untimed, room = [_together(untimed)] if untimed else [], max(2, room - bool(untimed))
        timed = timed if len(timed) <= room else [*timed[: room - 2], _together(timed[room - 2 : -1]), timed[-1]]
    yield from (*timed, *untimed)


def _together(rungs: Sequence[Rung]) -> Rung:
    """A row for several layouts, of the same verdict or not. Layouts that can't be told apart from the fastest may have
    a slower mean than the rows below.
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
    """Parts under a heading. `holds`: a summary that a page shows beside the title of a folded section; "" if open."""

    name: str
    title: str
    parts: Sequence[Part]
    holds: str = ""


@dataclass(frozen=True)
class Document:
    """A report. `head`: the answer in one or more sentences. `based`: the runs that the answer is based on. `why`,
    `doubt` and `next` may be empty. `facts`: short facts on how the runs were measured.
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
        """The tables outside of all folds."""
        return [part for section in self.sections for part in section.parts if isinstance(part, Table)]

    def opened_by(self, sentence: str) -> Document:
        """This document with a sentence before its answer."""
        return replace(self, head=(sentence, *self.head))


def paper(title: str, provenance: str, verdict: str, notes: Sequence[str], tables: Iterable[Table]) -> Document:
    """A short report: a verdict, notes and tables. `provenance` is part of every caption."""
    shown = [table.called(f"{table.caption} ({provenance})") for table in tables if table.rows]
    sections = [Section("notes", "Notes", listed(notes)), Section("tables", "Tables", shown)]
    return Document(title, provenance, (verdict,), [section for section in sections if section.parts])


def bare(value: str | float | int | None) -> str:
    """A figure in four digits, without a power of ten if it is large; "" if it is unknown."""
    text = "" if value is None else f"{float(value):,.4g}"
    return f"{float(text):,.0f}" if "e+" in text else text
