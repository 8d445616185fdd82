"""`storagelab.load`: returns the stored data as tidy tables for a notebook."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from storagelab.errors import StoragelabError
from storagelab.findings import FitKind
from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings
from storagelab.report.export.tables import Table, Value, all_of
from storagelab.run import stored

Frames = Literal["pandas", "polars"]
_LIBRARIES: tuple[Frames, ...] = ("pandas", "polars")


class Loaded:
    """The tables of an experiment as data frames. Each table is made when it is first used. `findings` are the findings
    of the report.
    """

    def __init__(self, findings: Findings, made: dict[str, Callable[[], Table]], frames: Frames | None) -> None:
        self.findings, self._made, self._frames = findings, made, frames

    @cached_property
    def runs(self) -> Any:
        """A table with a row for each run, including failed runs."""
        return self._frame("runs")

    @cached_property
    def waits(self) -> Any:
        """A table with a row for each run and each of its wait types, without a cut."""
        return self._frame("waits")

    @cached_property
    def series(self) -> Any:
        """A table with a row for each run, moment and quantity."""
        return self._frame("series")

    @cached_property
    def cells(self) -> Any:
        """A table with a row for each cell, with its mean, interval and verdict."""
        return self._frame("cells")

    def columns(self, name: str) -> dict[str, list[Value]]:
        """Returns a table as a list for each column. No library for data frames is needed. Raises StoragelabError for
        an unknown name.
        """
        if name not in self._made:
            raise StoragelabError(f"there is no table {name!r}\n  tables: {', '.join(self._made)}")
        table = self._made[name]()
        return {column: _of_one_type([row[place] for row in table.rows]) for place, column in enumerate(table.columns)}

    def _frame(self, name: str) -> Any:
        return _library(self._frames).DataFrame(self.columns(name))

    def __repr__(self) -> str:
        return f"<storagelab results of {self.findings.experiment!r}: {', '.join(self._made)}>"


def load(results: str | Path, *, fit: FitKind = "robust", frames: Frames | None = None) -> Loaded:
    """Returns the tables of a results folder, such as "results/quickstart".

    `frames` chooses the library of the tables. The default is pandas, or polars if pandas is not installed. Raises
    StoragelabError if nothing is stored in the folder, or if the store is damaged.
    """
    folder = Path(results)
    _, experiment, plan, runs = stored.read(folder.name, folder.parent, whole=True)
    findings = analyse(experiment, plan, runs, fit)
    return Loaded(findings, all_of(experiment, plan, runs, findings), frames)


def _library(wanted: Frames | None) -> Any:
    for name in _LIBRARIES if wanted is None else (wanted,):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    missing = " and ".join(_LIBRARIES) if wanted is None else wanted
    raise StoragelabError(
        f"a data frame needs a library that is not installed here: {missing}\n"
        '  install one (pip install "storagelab[notebook]"), or take plain lists: load(...).columns("runs")'
    )


def _of_one_type(values: Sequence[Value]) -> list[Value]:
    """Converts values so that they fit in a column of one type. Levels of several types become text."""
    if len(set(_kinds(values))) > 1:
        return [None if value is None else str(value) for value in values]
    if any(isinstance(value, float) for value in values):
        return [None if value is None else float(value) for value in values]
    return list(values)


def _kinds(values: Sequence[Value]) -> Iterator[type]:
    for value in values:
        if value is not None:
            yield float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)
