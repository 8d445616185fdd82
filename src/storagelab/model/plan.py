"""An experiment, and the plan to which it expands: cells, and runs in order."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic import JsonValue as AnyJson

from storagelab.model.config import Config
from storagelab.model.values import Described, Frozen, JsonValue, LeftOut, share_of


class Level(Frozen):
    """One level of a factor. `sets` maps paths of the spec to values. Reports show `value`."""

    value: JsonValue
    sets: dict[str, AnyJson]


def as_key(level: JsonValue) -> str:
    """Returns a level as text, in the form of a key in a spec."""
    if isinstance(level, bool):
        return str(level).lower()
    return " + ".join(map(as_key, level)) if isinstance(level, list) else str(level)


class Factor(Frozen):
    """A factor. `name` is a path of the spec. If the levels are labelled and set several keys, it may be any name."""

    name: str
    levels: tuple[Level, ...]
    labels: dict[str, str] = Field(default_factory=dict)
    """Short names that the spec gives to the factor, or to paths that its levels set."""
    prices: dict[str, float] = Field(default_factory=dict)
    """The price of each level per month. Keys are the levels' values in the form of `as_key`. Either all levels have a
    price or none. These prices are added to those of volumes.
    """


Order = Literal["randomised", "as-listed", "cell-by-cell"]
Preference = Literal["lowest-price", "fewest-files", "most-capacity", "fewest-drives", "baseline", "fastest"]
PREFERENCES: tuple[Preference, ...] = ("lowest-price", "fewest-files", "most-capacity", "fewest-drives", "baseline")
"""The default order of preferences. They choose among layouts without a proven difference."""


FEW_RACED = 3
"""With at most this many layouts, a race interleaves two rounds before each test. (Without a race, `spec.matrix` does
this with up to five layouts.) With more layouts, some leave the race before its end, and the rest of two interleaved
rounds would not be balanced."""


class Race(Frozen, extra="ignore"):  # earlier versions stored the round of the race's first test
    """A race for the best layout: layouts that are certainly slower leave the race, and the others continue. If a
    layout's time is within the margin `within` of the fastest time, it counts as equal to the fastest. The margin is a
    share of the time: 0.03 for 3 %, or 0 for no margin.
    """

    within: float = Field(0.0, ge=0.0, lt=1.0)


MOST_REPETITIONS = 10_000
REPETITIONS_SOUND = 5
"""The default number of repetitions. With three repetitions of many layouts, up to half of the experiments miss
differences of 10 %."""


class Experiment(Described):
    """A checked spec. `base` holds its tables without defaults. Specs with equal `canonical` content count as the same
    spec.
    """

    name: Annotated[str, LeftOut("the file's name")]
    """Lower-case letters, digits, `.`, `_` and `-`. The first character is a letter or a digit. Results are stored in
    `results/<name>/`."""
    question: str = ""
    """The question that the experiment answers. It is the beginning of every report."""
    repetitions: int = Field(REPETITIONS_SOUND, ge=1, le=MOST_REPETITIONS)
    """The number of runs of each cell, on all hosts together. 5 or more give useful intervals."""
    order: Order = "randomised"
    """The order of the runs. `randomised`: each repetition is a complete round of all cells in random order. Measured
    runs are also balanced: each cell follows every cell, including itself, about equally often. With up to five cells,
    two rounds are interleaved. `as-listed`: each round has the same order. `cell-by-cell`: all repetitions of a cell
    come before the next cell, as in the published harness. In the last two orders, carry-over looks like an effect of
    the cells. In the last one, drift does, too. So measured runs in these orders are shown but not judged."""
    seed: int = Field(1, ge=0, lt=2**63)
    """The same seed gives the same order on every machine and with every version of Python."""
    costly: tuple[str, ...] = ()
    """Names of the factors that change as rarely as possible. All runs with one combination of their levels are made
    together, as a block, which contains rounds of all other factors. Measured runs of different blocks are compared
    only if `blocks` is at least 2. Factors that change a volume with `made_for = "block"` are always costly.
    """
    blocks: int = Field(1, ge=1, le=1000)
    """Measured runs: how many times each combination of the costly factors' levels is prepared. The resulting blocks
    are in random order and share the repetitions, so `repetitions` must be a multiple of `blocks`. With 2 or more,
    layouts of different preparations are compared, and their intervals include the effect of another preparation. 3 or
    more give useful intervals."""
    prefer: tuple[Preference, ...] = PREFERENCES
    """The preferences by which reports choose a default layout if several layouts have no proven difference. The first
    preference decides. If several layouts remain, the next preference decides, and at last the order of the levels.
    `baseline` means the levels that are listed first. `lowest-price` counts only if each of these layouts has a price.
    """
    indifferent: Annotated[str | None, LeftOut("no margin")] = None
    """The difference in time that does not matter to you, such as `"3%"`. If the runs show it, reports then say which
    layouts are the same within this margin. Reports name no winner with a smaller lead. The default margin for winners
    is 0.5 %.
    """
    source: str = ""
    """The path of the spec, as the user wrote it."""
    text: str = ""
    """The spec's text, with comments."""
    sha256: str = ""
    """The hash of the canonical content, which has no comments and blanks."""
    canonical: dict[str, object] = Field(default_factory=dict)
    base: dict[str, object] = Field(default_factory=dict)
    factors: tuple[Factor, ...] = ()
    """The factors that vary, in the spec's order."""
    excludes: tuple[dict[str, JsonValue], ...] = ()
    """Combinations of levels that are left out."""
    balanced: bool = True
    """Whether the random order of measured runs is balanced for carry-over. Campaigns of earlier versions were not
    balanced, and continue without balance."""
    files: dict[str, str] = Field(default_factory=dict)
    """The SHA-256 of each file that the spec names, by key and name. Empty in campaigns of version 0.2.0 and
    earlier.
    """
    judged_before: str = ""
    """The kind of a stored campaign, if only earlier versions could judge this kind."""
    race: Race | None = None
    """The settings of the race. None if all repetitions of all cells are run."""

    @field_validator("indifferent")
    @classmethod
    def _is_a_margin(cls, text: str | None) -> str | None:
        if text is not None and not 0 < (share_of(text) or 0) < 1:
            raise ValueError("must be above 0 % and below 100 %")
        return text

    @property
    def margin(self) -> float | None:
        """`indifferent` as a share, such as 0.03 for "3%". None without a margin."""
        return None if self.indifferent is None else share_of(self.indifferent)


class Cell(Frozen):
    """One combination of levels."""

    cell_id: str
    """The id of the cell. It is the same for all runs of the same spec."""
    levels: dict[str, JsonValue]
    """Maps each factor's name to the level's value or label."""
    config: Config


def price_of(cell: Cell, factors: Sequence[Factor]) -> float | None:
    """Returns the price of a layout per month: the prices of its volumes plus the prices of its levels. Returns None if
    neither has a price.
    """
    priced = [factor for factor in factors if factor.prices and factor.name in cell.levels]
    of_levels = [factor.prices[as_key(cell.levels[factor.name])] for factor in priced]
    of_volumes = cell.config.price_per_month
    return sum(of_levels) + (of_volumes or 0) if of_levels else of_volumes


class PlannedRun(Frozen):
    """One repetition of one cell, with its place in the order. `block` is the number of the preparation of the drives,
    from 0.

    Judged repetitions count from 1. Burn-in runs, the first runs on newly prepared drives, have 0, -1, -2 and so on.
    """

    sequence: int
    block: int
    cell_id: str
    repetition: int
    seed: int

    @property
    def burn_in(self) -> bool:
        return self.repetition < 1


@dataclass(frozen=True)
class PlannedBlock:
    """The runs that follow one preparation of the drives, in their order, and the cells of these runs."""

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


MANY_RUNS = 5_000
"""The number of runs of which reports read the time series and the waiting tasks. These take three quarters of a run's
memory."""


class Plan(Frozen):
    """The expanded matrix. Cells are in the order of the spec, and runs in the order in which they are made."""

    cells: tuple[Cell, ...]
    runs: tuple[PlannedRun, ...]

    @property
    def cells_by_id(self) -> dict[str, Cell]:
        return {cell.cell_id: cell for cell in self.cells}

    def cell(self, cell_id: str) -> Cell:
        return next(cell for cell in self.cells if cell.cell_id == cell_id)

    @property
    def in_detail(self) -> float:
        """For each cell, the number of repetitions that reports read with time series and waiting tasks. Reports read
        all of them, unless there are very many runs. Raw I/O always needs its series for the verdict.
        """
        few = len(self.runs) <= MANY_RUNS or any(cell.config.workload.raw_io for cell in self.cells)
        return math.inf if few else MANY_RUNS // len(self.cells)

    @property
    def blocks(self) -> dict[int, PlannedBlock]:
        """Maps the number of each block to the block. A block's runs are in the order in which they are made."""
        runs: dict[int, list[PlannedRun]] = {}
        for planned in self.runs:
            runs.setdefault(planned.block, []).append(planned)
        cells = self.cells_by_id
        return {
            number: PlannedBlock(tuple(block), {planned.cell_id: cells[planned.cell_id] for planned in block})
            for number, block in runs.items()
        }


# --- data that are prepared once and copied for each run: which cells share them --------------------------------------

RESTORED = "restored from a template, "
"""How the description of a run's data begins if they come from a template. The kind of copy follows."""


def wants_template(config: Config) -> bool:
    return config.between_runs.data == "template"


def template_name(config: Config) -> str:
    """Returns a name that is equal for cells that begin with the same data in the same places, on servers with the same
    settings.
    """
    load = config.workload.model_dump(mode="json", exclude=set(config.workload.of_runs))
    target, layout = config.target.model_dump(mode="json"), config.layout.model_dump(mode="json")
    volumes = {name: volume.path for name, volume in config.volumes.items()}
    return hashlib.sha256(json.dumps([target, layout, volumes, load], sort_keys=True).encode()).hexdigest()[:12]


def one_of_each_template(configs: Iterable[Config]) -> list[Config]:
    """Returns one cell for each template that the given cells need."""
    return list({template_name(config): config for config in configs if wants_template(config)}.values())
