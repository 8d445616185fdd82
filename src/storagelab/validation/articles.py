"""Published figures as data: one file for each article, in the folder published. A figure names the cell to reproduce
it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Any, Literal, Self, cast

from pydantic import Field, model_validator

from storagelab.errors import SpecError
from storagelab.model.values import Frozen, JsonValue

Quantity = Literal[
    "elapsed_s", "wait_s", "resource_s", "signal_s", "wait_count", "wait_share", "counter", "explained",
    "memory_phase_cpu_per_row_s", "yields_over_memory_phase", "sessions_on_pfs_page", "elapsed_ratio", "gain",
    "mean_elapsed_s", "mean_elapsed_ratio", "counter_ratio", "falling_steps", "best_level", "order", "gone_from_top_95",
    "elapsed_spread_s",
]  # fmt: skip
"""The quantities that are read from the runs; `quantities` defines how."""
Use = Literal["calibration", "judged", "fact"]
"""Calibration: a fit may use it. Judged: no fit does. Fact: it follows from the workload, regardless of any fit."""
Levels = dict[str, JsonValue]


class Published(Frozen):
    """One figure: a value, a range or an order, and the cells that reproduce it.

    `cell` picks cells by their levels, in addition to the article's own `cell`. If `along` names a factor, the levels
    of that factor are compared. `against` holds the levels that differ in the cell to compare with.
    """

    id: str
    what: str
    quantity: Quantity
    use: Use
    value: float | None = None
    between: tuple[float, float] | None = None
    order: tuple[JsonValue, ...] | None = None
    unit: str = ""
    tolerance: float = Field(0.0, ge=0)
    """How far the model may be off, relative to the value or to the range's end."""
    tolerance_absolute: float | None = Field(None, ge=0)
    """Instead of that: in the unit, for values near 0."""
    cell: Levels = Field(default_factory=dict)
    against: Levels = Field(default_factory=dict)
    everywhere: bool = False
    """All cells of the spec that have the figure's `cell`, whatever the article's own `cell` says."""
    along: str | None = None
    levels: tuple[JsonValue, ...] | None = None
    """Levels of the factor `along`; default: all."""
    wait_type: str | None = None
    counter: str | None = None
    """Group.name, as in a run."""
    per: Literal["rows"] | None = None
    times: float = 1.0
    derived: str = ""
    """How it follows from published figures; empty if it is itself published."""
    assumed: str = ""
    """What the article leaves open, and how it was interpreted."""
    suspected: str = ""
    """The suspected mechanism, if the model is far off."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if sum(one is not None for one in (self.value, self.between, self.order)) != 1:
            raise ValueError(f"{self.id}: takes one of value, between and order")
        for taken in _TAKES.get(self.quantity, "").split():
            if getattr(self, taken) in (None, {}):
                raise ValueError(f"{self.id}: {self.quantity} takes {taken}")
        return self


_TAKES = {
    "wait_s": "wait_type", "resource_s": "wait_type", "signal_s": "wait_type", "wait_count": "wait_type",
    "wait_share": "wait_type", "gone_from_top_95": "wait_type", "falling_steps": "along", "best_level": "along",
    "order": "along", "counter": "counter", "elapsed_ratio": "against", "gain": "against", "elapsed_spread_s": "along",
    "mean_elapsed_ratio": "against", "counter_ratio": "counter against",
}  # fmt: skip


class WaitTable(Frozen):
    """One line of a published wait table: up to five figures of one wait, numbered from `first` on."""

    first: str
    where: str
    wait_type: str
    cell: Levels
    wait_s: float | None = None
    resource_s: float | None = None
    signal_s: float | None = None
    wait_count: float | None = None
    wait_share: float | None = None
    tolerance: float = Field(ge=0)
    use: Use
    fitted: tuple[str, ...] = ()
    """Those of its figures that are for calibration, whatever `use` says."""
    assumed: str = ""

    def figures(self) -> Iterator[Published]:
        """Its figures. A very small signal time may be off by a hundredth of the wait, not by a share of itself."""
        published = [(name, getattr(self, name)) for name in _COLUMNS]
        given = [(name, value) for name, value in published if value is not None]
        for number, (name, value) in enumerate(given, start=int(self.first[1:])):
            quantity, (words, unit) = cast("Quantity", name), _COLUMNS[name]
            whole_s = self.wait_s or (self.resource_s or 0.0) + (self.signal_s or 0.0)
            tiny = quantity == "signal_s" and value < _TINY * whole_s
            figure = f"{self.first[0]}{number}"
            use: Use = "calibration" if figure in self.fitted else self.use
            yield Published(
                id=figure, what=f"{self.wait_type}, {self.where}: {words}", quantity=quantity,
                use=use, value=value, unit=unit, tolerance=self.tolerance, cell=self.cell, wait_type=self.wait_type,
                tolerance_absolute=_TINY * whole_s if tiny else None, assumed=self.assumed,
            )  # fmt: skip


_COLUMNS = {
    "wait_s": ("wait", "s"), "resource_s": ("resource", "s"), "signal_s": ("signal", "s"), "wait_count": ("waits", ""),
    "wait_share": ("share of all waits", "share"),
}  # fmt: skip
"""The columns of a wait table, with their words and units."""
_TINY = 0.01


class Article(Frozen):
    """One article. `spec` is the ready-made spec that repeats its tests, `cell` the levels that all of its figures
    share.
    """

    id: str
    title: str
    author: str
    year: int | None = None
    spec: str
    cell: Levels = Field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    under_determined: str = ""
    """What the article leaves so open that its figures test little."""
    figures: tuple[Published, ...]

    @model_validator(mode="before")
    @classmethod
    def _with_wait_tables(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Figures alone and those of wait tables, in the order of their numbers."""
        tables = (WaitTable.model_validate(table) for table in content.get("wait_tables", ()))
        alone = (Published.model_validate(figure) for figure in content["figures"])
        figures = sorted([*alone, *(figure for table in tables for figure in table.figures())], key=_number)
        return {**{key: value for key, value in content.items() if key != "wait_tables"}, "figures": figures}

    def levels_of(self, figure: Published) -> Levels:
        """The levels that the figure's cell, or cells, must have."""
        return dict(figure.cell) if figure.everywhere else {**self.cell, **figure.cell}


def _number(figure: Published) -> int:
    return int(figure.id[1:])


def articles(only: Sequence[str] = ()) -> tuple[Article, ...]:
    """All articles in order, or only the articles and figures named in `only`."""
    files = sorted(resources.files(__package__).joinpath("published").iterdir(), key=lambda file: file.name)
    every = [Article.model_validate(tomllib.loads(file.read_text(encoding="utf-8"))) for file in files]
    if not only:
        return tuple(every)
    known = {article.id for article in every} | {figure.id for article in every for figure in article.figures}
    if unknown := [name for name in only if name not in known]:
        hint = "The articles are " + ", ".join(article.id for article in every) + " and figures such as A1."
        raise SpecError(f"no figure or article is named {unknown[0]!r}", key="--only", hint=hint)
    return tuple(_picked(every, set(only)))


def _picked(every: Sequence[Article], only: set[str]) -> Iterator[Article]:
    for article in every:
        figures = tuple(figure for figure in article.figures if article.id in only or figure.id in only)
        if figures:
            yield article.model_copy(update={"figures": figures})


def spans(ids: Iterable[str]) -> list[str]:
    """Numbers of figures in the articles' order, neighbours joined: A1, A6-A7, A11-A25."""
    every = [figure.id for article in articles() for figure in article.figures]
    found: list[list[int]] = []
    for place in sorted(every.index(name) for name in ids):
        if found and place == found[-1][-1] + 1 and every[place][0] == every[place - 1][0]:
            found[-1][1:] = [place]
        else:
            found.append([place])
    return ["-".join(every[place] for place in span) for span in found]
