"""The parts that the page's templates lay out: tables, their special cells, and charts. Plain values; the templates
escape them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from storagelab.report.drawing import palette
from storagelab.report.drawing.chart import Drawn
from storagelab.report.words.table import Align, Heading
from storagelab.words import numbers

View = dict[str, object]
"""What a section's template lays out."""
MAX_TABLE_ROWS = 400
_CLASSES: dict[Align, str] = {"text": "", "prose": "p", "number": "n"}


@dataclass(frozen=True)
class Link:
    """A text that links to another place on the page."""

    kind: ClassVar[str] = "link"
    text: str
    target: str


@dataclass(frozen=True)
class Swatch:
    """A text after a small square in its chart colour."""

    kind: ClassVar[str] = "swatch"
    text: str
    colour: str

    @property
    def fill(self) -> str:
        return self.colour or palette.CATEGORY["other"]


@dataclass(frozen=True)
class Bar:
    """An interval as a line and its mean as a dot, at positions from 0 to 100; "" for an unknown end."""

    kind: ClassVar[str] = "bar"
    mean: str
    low: str
    high: str


@dataclass(frozen=True)
class Mark:
    """A verdict in colour, and the interval on which it is based."""

    kind: ClassVar[str] = "mark"
    text: str
    interval: str = ""


Content = str | Link | Swatch | Bar | Mark


@dataclass(frozen=True)
class PageTable:
    """A table with its caption. `folded`: the words under which it is folded; `name`: its id on the page, if the
    script needs one.
    """

    caption: str
    headings: Sequence[Heading]
    rows: Sequence[Sequence[Content]]
    row_classes: Sequence[str] = ()
    folded: str = ""
    is_open: bool = False
    name: str = ""

    @property
    def column_classes(self) -> list[str]:
        return [_CLASSES[heading.align] for heading in self.headings]


@dataclass(frozen=True)
class PageChart:
    """A chart with its accessible name, its caption and its table."""

    name: str
    title: str
    heading: str
    label: str
    caption: str
    table: PageTable
    end_s: str = ""
    most: str = ""
    unit: str = ""


def view(note: str = "", charts: Sequence[PageChart] = (), tables: Iterable[PageTable] = ()) -> View:
    """A section with a sentence, charts and tables, which needs no special template."""
    return {"note": note, "charts": charts, "tables": list(tables)}


def page_chart(drawn: Drawn) -> PageChart:
    table = drawn.table
    caption = f"{drawn.title} ({drawn.where}): what the chart shows"
    if len(table.rows) > MAX_TABLE_ROWS:
        caption += f"; the first {MAX_TABLE_ROWS} of {numbers.count(len(table.rows))} rows, the rest is in the raw data"
    end_s, tops = drawn.chart.ends(drawn.data) if drawn.chart.ends else (None, ())
    return PageChart(
        name=drawn.name,
        title=drawn.title,
        heading=drawn.title if drawn.chart.is_headed else "",
        label=drawn.label,
        caption=drawn.caption,
        table=PageTable(caption, table.headings, table.rows[:MAX_TABLE_ROWS], folded="The same numbers as a table"),
        end_s="" if end_s is None else f"{end_s:g}",
        most=" ".join(f"{top:g}" for top in tops),
        unit=drawn.chart.time_unit,
    )
