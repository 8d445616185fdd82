"""Published figures as data. The folder `published` has a file for each article.

Each figure names the cell that reproduces it. The figure's quantity defines how the figure is read from the runs of
this cell.
"""

from __future__ import annotations

import itertools
import statistics
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
from pydantic import Field, model_validator

from storagelab.errors import SpecError
from storagelab.model.measurement import PFS_PAGE, Measurement
from storagelab.model.plan import Cell
from storagelab.model.values import Frozen, JsonValue
from storagelab.model.waits import NS, CountedWaits, conservation, mean_of_runs, normalise, wait_table
from storagelab.stats import contrast
from storagelab.stats.fit import fit

Quantity = Literal[
    "elapsed_s", "wait_s", "resource_s", "signal_s", "wait_count", "wait_share", "counter", "explained",
    "memory_phase_cpu_per_row_s", "yields_over_memory_phase", "sessions_on_pfs_page", "elapsed_ratio", "gain",
    "mean_elapsed_s", "mean_elapsed_ratio", "counter_ratio", "falling_steps", "best_level", "order", "gone_from_top_95",
    "elapsed_spread_s",
]  # fmt: skip
"""The quantities that `read_off` reads from the runs."""
Use = Literal["calibration", "judged", "fact"]
"""How a figure is used. Calibration: a fit may use the figure. Judged: no fit uses the figure. Fact: the figure follows
from the workload alone.
"""
Levels = dict[str, JsonValue]


class PublishedFigure(Frozen):
    """One figure: a value, a range or an order, and the cells that reproduce it.

    The cells must have the levels in the figure's `cell` and in the article's `cell`. If `along` names a factor, the
    levels of this factor are compared. If the cell is compared with another cell, `against` has the levels in which the
    other cell differs.
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
    """The largest allowed error of the model, relative to the value or to the nearer end of the range."""
    tolerance_absolute: float | None = Field(None, ge=0)
    """For values near 0: the largest allowed error in the unit of the figure, instead of the relative `tolerance`."""
    cell: Levels = Field(default_factory=dict)
    against: Levels = Field(default_factory=dict)
    everywhere: bool = False
    """If True, the cells need only the levels in the figure's `cell`. The article's `cell` is ignored."""
    along: str | None = None
    levels: tuple[JsonValue, ...] | None = None
    """The compared levels of the factor `along`. None means all its levels."""
    wait_type: str | None = None
    counter: str | None = None
    """The counter of the figure, as `group.name` in a run."""
    per: Literal["rows"] | None = None
    times: float = 1.0
    derived: str = ""
    """How the figure is calculated from published figures. The value is empty if the figure itself is published."""
    assumed: str = ""
    """Facts that the article does not give, and what is assumed instead."""
    suspected: str = ""
    """The suspected reason, if the model's figure is far from the published figure."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if sum(one is not None for one in (self.value, self.between, self.order)) != 1:
            raise ValueError(f"{self.id}: needs one of value, between and order")
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
    """One line of a published wait table. It has up to five figures of a wait. `first` is the id of the first one."""

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
    """The figures of the line whose use is calibration. `use` is the use of all others."""
    assumed: str = ""

    def figures(self) -> Iterator[PublishedFigure]:
        """The figures of the line. The tolerance of a very small signal time is a hundredth of the wait time, not a
        share of the signal time.
        """
        published = [(name, getattr(self, name)) for name in _COLUMNS]
        given = [(name, value) for name, value in published if value is not None]
        for number, (name, value) in enumerate(given, start=int(self.first[1:])):
            quantity, (words, unit) = cast("Quantity", name), _COLUMNS[name]
            whole_s = self.wait_s or (self.resource_s or 0.0) + (self.signal_s or 0.0)
            tiny = quantity == "signal_s" and value < _TINY * whole_s
            figure = f"{self.first[0]}{number}"
            use: Use = "calibration" if figure in self.fitted else self.use
            yield PublishedFigure(
                id=figure, what=f"{self.wait_type}, {self.where}: {words}", quantity=quantity,
                use=use, value=value, unit=unit, tolerance=self.tolerance, cell=self.cell, wait_type=self.wait_type,
                tolerance_absolute=_TINY * whole_s if tiny else None, assumed=self.assumed,
            )  # fmt: skip


_COLUMNS = {
    "wait_s": ("wait", "s"), "resource_s": ("resource", "s"), "signal_s": ("signal", "s"), "wait_count": ("waits", ""),
    "wait_share": ("share of all waits", "share"),
}  # fmt: skip
"""For each column of a wait table: its heading and its unit."""
_TINY = 0.01


class OpenInput(Frozen):
    """A fact that an article does not give, and its possible values. The first value is the spec's own.

    The fact is a key of the spec or a figure of a drive's profile.
    """

    what: str
    key: str = ""
    profile: str = ""
    figure: str = ""
    values: tuple[JsonValue, ...] = Field(min_length=2)


class Article(Frozen):
    """One article. `spec` is the ready-made spec that repeats the article's tests. `cell` has the levels that are the
    same for all its figures.
    """

    id: str
    title: str
    url: str = ""
    author: str
    year: int | None = None
    spec: str
    cell: Levels = Field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    open: tuple[OpenInput, ...] = ()
    under_determined: str = ""
    """Facts that the article does not give. Without them, its figures test the model only a little. The value is empty
    if there are none.
    """
    figures: tuple[PublishedFigure, ...]

    @model_validator(mode="before")
    @classmethod
    def _with_wait_tables(cls, content: dict[str, Any]) -> dict[str, Any]:
        """The content of an article, with its single figures and the figures of its wait tables in the order of their
        numbers.
        """
        tables = (WaitTable.model_validate(table) for table in content.get("wait_tables", ()))
        alone = (PublishedFigure.model_validate(figure) for figure in content["figures"])
        figures = [*alone, *(figure for table in tables for figure in table.figures())]
        figures.sort(key=lambda one: int(one.id[1:]))
        return {**{key: value for key, value in content.items() if key != "wait_tables"}, "figures": figures}

    def levels_of(self, figure: PublishedFigure) -> Levels:
        """The levels that the cells of the figure must have."""
        return dict(figure.cell) if figure.everywhere else {**self.cell, **figure.cell}


def articles(only: Sequence[str] = ()) -> tuple[Article, ...]:
    """All articles in order, or only the articles and figures named in `only`. Raises SpecError for unknown names."""
    files = sorted(resources.files(__package__).joinpath("published").iterdir(), key=lambda file: file.name)
    every = [Article.model_validate(tomllib.loads(file.read_text(encoding="utf-8"))) for file in files]
    if not only:
        return tuple(every)
    known = {article.id for article in every} | {figure.id for article in every for figure in article.figures}
    if unknown := [name for name in only if name not in known]:
        hint = "The articles are " + ", ".join(article.id for article in every) + " and figures such as A1."
        raise SpecError(f"no figure or article is named {unknown[0]!r}", key="--only", hint=hint)
    picked = [(article, [one for one in article.figures if {article.id, one.id} & {*only}]) for article in every]
    return tuple(article.model_copy(update={"figures": tuple(some)}) for article, some in picked if some)


def spans(ids: Iterable[str]) -> list[str]:
    """The ids of figures in the order of the articles. Consecutive ids are joined: A1, A6-A7, A11-A25."""
    every = [figure.id for article in articles() for figure in article.figures]
    found: list[list[int]] = []
    for place in sorted(every.index(name) for name in ids):
        if found and place == found[-1][-1] + 1 and every[place][0] == every[place - 1][0]:
            found[-1][1:] = [place]
        else:
            found.append([place])
    return ["-".join(every[place] for place in span) for span in found]


# --- how each quantity is read from simulated runs --------------------------------------------------------------------

_QUANTUM_S = 0.004


class Missing(Exception):
    """The runs or the spec lack a quantity. `str()` of the error says why."""


class RunsOfCell(NamedTuple):
    """A cell and its runs, in the order of their repetitions."""

    cell: Cell
    runs: Sequence[Measurement]


class SimulatedFigure(NamedTuple):
    """A simulated quantity. `values` has its value in each repetition. If it is a quantity over all repetitions, it has
    `level` or `order` instead.
    """

    values: tuple[float, ...] = ()
    level: JsonValue | None = None
    tied: tuple[JsonValue, ...] = ()
    """Levels that can't be distinguished from `level`."""
    order: tuple[JsonValue, ...] = ()


def matching(cells: Sequence[Cell], levels: Levels) -> list[Cell]:
    """The cells that have all of `levels`."""
    return [
        cell for cell in cells
        if all((type(got := cell.levels.get(name)), got) == (type(level), level) for name, level in levels.items())
    ]  # fmt: skip


def needed(figure: PublishedFigure, levels: Levels, cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells that a figure needs. They are lists that are compared with each other, or a single list.

    Raises Missing if the spec does not have these cells.
    """
    if figure.quantity == "mean_elapsed_s":
        return [_some(cells, levels)]
    if figure.along is not None:
        wanted = figure.levels or figure.order
        found = [cell for cell in _some(cells, levels) if wanted is None or cell.levels.get(figure.along) in wanted]
        if len({str(cell.levels.get(figure.along)) for cell in found}) != len(found) or len(found) < 2:
            raise Missing(f"{len(found)} cells of the spec differ in {figure.along}, but each level needs one cell")
        return [found]
    parts = [levels, {**levels, **figure.against}] if figure.against else [levels]
    if figure.quantity == "mean_elapsed_ratio":
        return [_some(cells, part) for part in parts]
    return [[_one(cells, part)] for part in parts]


def _some(cells: Sequence[Cell], levels: Levels) -> list[Cell]:
    found = matching(cells, levels)
    if not found:
        raise Missing(f"the spec has no cell with {_said(levels)}")
    return found


def _one(cells: Sequence[Cell], levels: Levels) -> Cell:
    found = _some(cells, levels)
    if len(found) > 1:
        raise Missing(f"the spec has {len(found)} cells with {_said(levels)}")
    return found[0]


def _said(levels: Levels) -> str:
    return ", ".join(f"{name} = {level}" for name, level in levels.items())


def read_off(figure: PublishedFigure, groups: Sequence[Sequence[RunsOfCell]]) -> SimulatedFigure:
    """Reads a figure from its runs. `groups` has the cells of `needed` with their runs.

    Raises Missing if the runs lack the quantity.
    """
    if any(not made.runs for group in groups for made in group):
        raise Missing("its runs failed")
    if figure.quantity in _OF_LEVELS:
        return _OF_LEVELS[figure.quantity](figure, groups[0])
    if figure.quantity == "mean_elapsed_s":
        return SimulatedFigure(values=_means([made.runs for made in groups[0]]))
    if figure.quantity == "mean_elapsed_ratio":
        means, others = (_means([made.runs for made in group]) for group in groups)
        return SimulatedFigure(values=tuple(mean / other for mean, other in zip(means, others, strict=False)))
    if figure.quantity in _OF_TWO:
        return SimulatedFigure(values=_compared(figure, groups[0][0].runs, groups[1][0].runs))
    return SimulatedFigure(values=tuple(_OF_RUN[figure.quantity](figure, run) for run in groups[0][0].runs))


# --- one run ---------------------------------------------------------------------------------------------------------


def _waits(run: Measurement) -> CountedWaits:
    if not isinstance(run.waits, CountedWaits):
        raise Missing("its runs have no counted waits")
    return run.waits


def _wait(figure: PublishedFigure, run: Measurement) -> float:
    """The figure's quantity of a wait. 0 if the run has no such wait.

    Raises Missing if the run has no counted waits.
    """
    row = next((row for row in _waits(run).rows if row.wait_type == figure.wait_type), None)
    if row is None:
        return 0.0
    wait_ns, signal_ns = row.wait_ns, row.signal_ns or 0
    match figure.quantity:
        case "resource_s":
            return (wait_ns - signal_ns) * NS
        case "signal_s":
            return signal_ns * NS
        case "wait_count":
            if row.wait_count is None:
                raise Missing(f"its runs do not count the waits for {figure.wait_type}")
            return float(row.wait_count)
        case "wait_share":
            return wait_ns / sum(other.wait_ns for other in _waits(run).rows)
        case _:
            return wait_ns * NS


def _counter(figure: PublishedFigure, run: Measurement) -> float:
    assert figure.counter is not None
    group, _, name = figure.counter.rpartition(".")
    try:
        value = run.counters[group][name]
    except KeyError:
        raise Missing(f"its runs have no counter {figure.counter}") from None
    return value * figure.times / (run.work.amount if figure.per == "rows" else 1)


def _memory_phase(run: Measurement) -> tuple[float, float]:
    """The number of rows that were inserted before the first page was read, and the CPU seconds of the sessions until
    then. Raises Missing if the run does not report them.
    """
    engine = run.counters.get("engine", {})
    if not engine.get("memory_phase_rows"):
        raise Missing("its runs do not report the work that was done while the whole table was in memory")
    return engine["memory_phase_rows"], engine["memory_phase_cpu_s"]


def _memory_phase_cpu_per_row_s(_: PublishedFigure, run: Measurement) -> float:
    rows, cpu_s = _memory_phase(run)
    return cpu_s / rows


def _yields_over_memory_phase(_: PublishedFigure, run: Measurement) -> float:
    """The time of all quanta that sessions used up, divided by the CPU time while the whole table was in memory."""
    yields = sum(row.wait_count or 0 for row in _waits(run).rows if row.wait_type == "SOS_SCHEDULER_YIELD")
    return yields * _QUANTUM_S / _memory_phase(run)[1]


def _sessions_on_pfs_page(_: PublishedFigure, run: Measurement) -> float:
    """The median over samples of the largest number of sessions that wait for the same PFS page.

    Samples without such sessions are left out, because nobody publishes a screen without waiting sessions.
    """
    most: dict[float, int] = {}
    for task in run.waiting_tasks:
        if task.resource.kind == PFS_PAGE:
            most[task.at_s] = max(task.sessions, most.get(task.at_s, 0))
    return float(statistics.median(most.values())) if most else 0.0


_OF_RUN: dict[str, Callable[[PublishedFigure, Measurement], float]] = {
    "elapsed_s": lambda _, run: run.elapsed_s,
    "wait_s": _wait,
    "resource_s": _wait,
    "signal_s": _wait,
    "wait_count": _wait,
    "wait_share": _wait,
    "memory_phase_cpu_per_row_s": _memory_phase_cpu_per_row_s,
    "counter": _counter,
    "explained": lambda _, run: conservation(_waits(run)).explained or 0.0,
    "yields_over_memory_phase": _yields_over_memory_phase,
    "sessions_on_pfs_page": _sessions_on_pfs_page,
}


# --- several cells ---------------------------------------------------------------------------------------------------

_OF_TWO = ("elapsed_ratio", "gain", "counter_ratio")


def _compared(figure: PublishedFigure, runs: Sequence[Measurement], others: Sequence[Measurement]) -> tuple[float, ...]:
    """The result of the comparison in each repetition."""
    pairs = list(zip(runs, others, strict=False))
    if figure.quantity == "counter_ratio":
        return tuple(_counter(figure, run) / _counter(figure, other) for run, other in pairs)
    ratios = [run.elapsed_s / other.elapsed_s for run, other in pairs]
    return tuple(1 - ratio for ratio in ratios) if figure.quantity == "gain" else tuple(ratios)


def _means(cells: Sequence[Sequence[Measurement]]) -> tuple[float, ...]:
    """The mean elapsed time of the cells in each repetition."""
    return tuple(sum(run.elapsed_s for run in runs) / len(runs) for runs in zip(*cells, strict=False))


def _mean_elapsed_s(made: RunsOfCell) -> float:
    return sum(run.elapsed_s for run in made.runs) / len(made.runs)


def _level(figure: PublishedFigure, made: RunsOfCell) -> JsonValue:
    assert figure.along is not None
    return made.cell.levels[figure.along]


def _ordered(figure: PublishedFigure, group: Sequence[RunsOfCell]) -> SimulatedFigure:
    return SimulatedFigure(order=tuple(_level(figure, made) for made in sorted(group, key=_mean_elapsed_s)))


def _best(figure: PublishedFigure, group: Sequence[RunsOfCell]) -> SimulatedFigure:
    """The level with the shortest mean time, and the levels that the test of reports can't distinguish from it."""
    best = min(group, key=_mean_elapsed_s)
    rounds = min(len(made.runs) for made in group)
    log_s = np.log([[run.elapsed_s for run in made.runs[:rounds]] for made in group])
    differences = contrast.compare_with_best(fit(log_s), group.index(best))
    tied = [group[place] for place, one in differences.items() if one.tested and not one.distinguishable]
    return SimulatedFigure(level=_level(figure, best), tied=tuple(_level(figure, made) for made in tied))


def _gone(figure: PublishedFigure, group: Sequence[RunsOfCell]) -> SimulatedFigure:
    """The first level from which on the wait is not among the top 95 % of the mean wait table. Also the other levels
    that the tables of single repetitions give.
    """
    rounds = min(len(made.runs) for made in group)
    gone = _gone_from(figure, group, [made.runs for made in group])
    alone = [_gone_from(figure, group, [[made.runs[number]] for made in group]) for number in range(rounds)]
    others = [level for number, level in enumerate(alone) if level not in (gone, *alone[:number])]
    return SimulatedFigure(level=gone, tied=tuple(others))


def _gone_from(
    figure: PublishedFigure, group: Sequence[RunsOfCell], runs: Sequence[Sequence[Measurement]]
) -> JsonValue:
    """The first level from which on the wait is not among the top 95 %. `runs` has the runs whose mean table is used,
    for each cell of the group.
    """
    gone: JsonValue | None = None
    for made, of_cell in zip(group, runs, strict=True):
        table = wait_table(mean_of_runs([normalise(_waits(run)) for run in of_cell]))
        shown = any(row.wait_type == figure.wait_type for row in table)
        gone = None if shown else _level(figure, made) if gone is None else gone
    return "never" if gone is None else gone


def _falling(figure: PublishedFigure, group: Sequence[RunsOfCell]) -> SimulatedFigure:
    """For each repetition: the share of steps from one level to the next in which the wait gets shorter."""
    wait = figure.model_copy(update={"quantity": "wait_s"})
    rounds = zip(*([_wait(wait, run) for run in made.runs] for made in group), strict=False)
    falls = ([b < a for a, b in itertools.pairwise(waits)] for waits in rounds)
    return SimulatedFigure(values=tuple(sum(steps) / len(steps) for steps in falls))


def _spread(_: PublishedFigure, group: Sequence[RunsOfCell]) -> SimulatedFigure:
    """The mean time of the slowest level minus the mean time of the fastest level."""
    means = [_mean_elapsed_s(made) for made in group]
    return SimulatedFigure(values=(max(means) - min(means),))


_OF_LEVELS: Mapping[str, Callable[[PublishedFigure, Sequence[RunsOfCell]], SimulatedFigure]] = {
    "best_level": _best,
    "order": _ordered,
    "gone_from_top_95": _gone,
    "falling_steps": _falling,
    "elapsed_spread_s": _spread,
}
