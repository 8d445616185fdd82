"""An experiment and the plan that it expands to: cells and runs in order."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from storagelab.model.config import Config
from storagelab.model.values import Frozen, JsonValue, LeftOut


class Level(Frozen):
    """One setting of a factor. `sets` maps spec paths to values; `value` is what reports and exports call it."""

    value: JsonValue
    sets: dict[str, JsonValue]


class Factor(Frozen):
    """What varies. `name` is a spec path, or a free name if its levels are labelled and set several keys."""

    name: str
    levels: tuple[Level, ...]


Order = Literal["randomised", "as-listed", "cell-by-cell"]


class Race(Frozen):
    """Layouts that are surely slower leave, and the rest go on. `within` = the margin within which a layout is as good as
    the fastest, as a share of the time: 0.03 for 3 %; 0 = no margin."""

    within: float = Field(0.0, ge=0.0, lt=1.0)


class Experiment(Frozen):
    """A checked spec. `base` is the spec's tables with defaults left out; `canonical` is what two specs are compared by."""

    name: Annotated[str, LeftOut("the file's name")] = Field(
        description="Lower-case letters, digits, `.`, `_` and `-`, the first one a letter or a digit. Results live in "
        "`results/<name>/`."
    )
    question: str = Field("", description="What the experiment asks. Every report begins with it.")
    repetitions: int = Field(
        3, ge=1, le=10_000, description="How often each cell is run. 5 or more give useful intervals."
    )
    order: Order = Field(
        "randomised",
        description="A repetition is a complete round of all cells: each round in a new random order, or as listed. "
        "`cell-by-cell` makes all repetitions of a cell before the next cell, as the published harness did. A drift, or a "
        "drive's history, then looks like an effect of the cell, so measured runs in that order are shown and not judged.",
    )
    seed: int = Field(
        1, ge=0, lt=2**63, description="The same seed gives the same order, on every machine and every Python."
    )
    costly: tuple[str, ...] = Field(
        (),
        description="The names of factors to change least often. Each combination of their levels is run in one stretch, a "
        "block, and within it everything else is in rounds. Measured runs of different blocks are not compared.",
    )
    source: str = Field("", description="the spec's file, as the user named it")
    text: str = Field("", description="the spec's text, comments and all")
    sha256: str = Field("", description="hash of the canonical content, comments and blanks apart")
    canonical: dict[str, object] = Field(default_factory=dict)
    base: dict[str, object] = Field(default_factory=dict)
    factors: tuple[Factor, ...] = ()
    excludes: tuple[dict[str, JsonValue], ...] = ()
    race: Race | None = Field(None, description="how it is run, if not with all repetitions of all cells")


class Cell(Frozen):
    """One combination of levels: `levels` maps factor name to the level's value or label."""

    cell_id: str
    levels: dict[str, JsonValue]
    config: Config


class PlannedRun(Frozen):
    """One repetition of one cell, at its place in the order. `block` counts formattings of the drives, from 0.

    Judged repetitions count from 1 up; those of the burn-in, the first runs on newly prepared drives, from 0 down.
    """

    sequence: int
    block: int
    cell_id: str
    repetition: int
    seed: int

    @property
    def burn_in(self) -> bool:
        return self.repetition < 1


class PlannedBlock(NamedTuple):
    """The runs, in order, that follow one preparation of the drives, and their cells."""

    runs: tuple[PlannedRun, ...]
    cells: dict[str, Cell]

    @property
    def number(self) -> int:
        return self.runs[0].block

    @property
    def first_cell(self) -> Cell:
        return self.cell_of(self.runs[0])

    def cell_of(self, planned: PlannedRun) -> Cell:
        return self.cells[planned.cell_id]


class Plan(Frozen):
    """The matrix, expanded: cells as listed, runs in the order they will be made."""

    cells: tuple[Cell, ...]
    runs: tuple[PlannedRun, ...]

    def cell(self, cell_id: str) -> Cell:
        return next(cell for cell in self.cells if cell.cell_id == cell_id)

    @property
    def blocks(self) -> dict[int, PlannedBlock]:
        """The runs by their block, in the order in which they will be made."""
        runs: dict[int, list[PlannedRun]] = {}
        for planned in self.runs:
            runs.setdefault(planned.block, []).append(planned)
        cells = {cell.cell_id: cell for cell in self.cells}
        return {
            number: PlannedBlock(tuple(block), {planned.cell_id: cells[planned.cell_id] for planned in block})
            for number, block in runs.items()
        }
