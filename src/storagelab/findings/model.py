"""The results of the analysis as values. They contain no sentences, because the package `report` writes these.

Every estimate has its interval. Ratios are ratios of elapsed times: 1.25 means 25 % more time, 0.8 means 20 % less
time.
If cells insert different numbers of rows, ratios are of elapsed time per row (`Findings.compared`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import Field, SerializeAsAny, model_serializer, model_validator

from storagelab.findings import FitKind
from storagelab.findings.cell import CellSummary as CellSummary
from storagelab.findings.cell import DriveState as DriveState
from storagelab.findings.cell import Finding as Finding
from storagelab.findings.cell import Found as Found
from storagelab.findings.cell import Point as Point
from storagelab.findings.cell import Sample as Sample
from storagelab.model.engines import Provenances
from storagelab.model.loads.base import Unit
from storagelab.model.plan import PREFERENCES, Factor, Order, Preference
from storagelab.model.values import KNOWN, Described, Frozen, JsonValue
from storagelab.model.values import Estimate as Estimate
from storagelab.model.waits import Category
from storagelab.words.names import group_text, noun


class Comparison(Described):
    """The comparison of a cell with the best cell. `ratio` is the cell's time divided by the best cell's time. If it is
    above 1, the cell is slower, even if reports show rates. The 95 % intervals hold for all comparisons at once. All
    outputs take comparisons with the best cell from this record.

    With several loads, the best cell is the best under the same load. In an experiment that runs in blocks, it is
    the best of the same block. The best cell of each block is compared with the best cell of all blocks
    (`across_blocks`). That comparison is untested, because a drift between blocks would look the same. If a cell
    left a race, its ratio is to the cell that was in front at that time.
    """

    cell_id: str
    best_cell_id: str
    ratio: Estimate
    tested: bool = False
    """whether there are enough runs for a test of the difference"""
    distinguishable: bool
    """whether the cell is surely slower than the best cell"""
    may_be_fastest: bool = False
    """whether the cell is among those that may be the fastest"""
    across_blocks: bool = False
    at_most_slower: float | None = None
    """an upper bound (95 %, for all cells at once) of this cell's time divided by the time of the truly fastest cell"""

    @property
    def bound(self) -> float | None:
        """`at_most_slower`, but at least the upper end of the ratio's interval. None if it is above `KNOWN`."""
        bound = KNOWN + 1 if self.at_most_slower is None else max(self.at_most_slower, self.ratio.high or 1.0)
        return bound if bound <= KNOWN else None


class Effect(Described):
    """The comparison of a factor's level with the factor's baseline (its first listed level).

    `at` has the fixed levels of other factors. If it is empty, the effect is the mean over all `pairs` of cells that
    differ only in this factor. `ratio` is a ratio of elapsed times. If `across_blocks` is true, the levels ran one
    after the other, so the ratio is untested and has no interval. With too few runs, the ratio has no interval either.
    """

    factor: str
    level: JsonValue
    baseline: JsonValue
    at: dict[str, JsonValue] = Field(default_factory=dict)
    ratio: Estimate
    pairs: int
    distinguishable: bool
    across_blocks: bool = False
    reverses: bool = False
    """whether the level surely takes less time at some levels of other factors, and surely more time at other levels.
Then `ratio` is a mean of opposite effects."""

    @property
    def tested(self) -> bool:
        """Whether the ratio was tested. From an untested ratio, it is not even known whether the levels can be
        distinguished."""
        return self.ratio.low is not None


class BestLevels(Frozen):
    """The best levels of a factor while another factor has the level `at`. The fastest comes first. The other levels
    can't be distinguished from it.
    """

    at: JsonValue
    levels: tuple[JsonValue, ...]


class LevelCost(Frozen):
    """The cost of a wrong level. `level` is the best level while the other factor has the level `taken_from`; `best` is
    the best level while it has the level `at`. `ratio` is the time of `level` divided by the time of `best`, both at
    `at`."""

    at: JsonValue
    taken_from: JsonValue
    level: JsonValue
    best: JsonValue
    ratio: Estimate


class EffectChange(Frozen):
    """A significant change of an effect between two levels of another factor. The effect is that of the step from
    `baseline` to `level`. `low` and `high` are its ratios of elapsed times at the other factor's levels `low_at` and
    `high_at`. `difference` is high / low.
    """

    level: JsonValue
    baseline: JsonValue
    low_at: JsonValue
    low: Estimate
    high_at: JsonValue
    high: Estimate
    difference: Estimate


class Dependence(Frozen):
    """How the best level and the effect of `factor` depend on the factor `within`, averaged over all other factors.

    `best` has an entry for each level of `within`. If two entries have no level in common, their difference is
    significant (95 %, for all entries at once). `cost` is the costliest significant mistake. `change` is the largest
    change of an effect. `averaged` names the factors over which the mean is taken. If `factor` is a load, it has no
    best level. Then `best` is empty, and only the effect of `factor` may depend on `within`.
    """

    factor: str
    within: str
    best: tuple[BestLevels, ...] = ()
    cost: LevelCost | None = None
    change: EffectChange | None = None
    averaged: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether there are two levels of `within` that have no best level in common."""
        sets = [{repr(level) for level in row.levels} for row in self.best]
        return any(not one & other for index, one in enumerate(sets) for other in sets[:index])

    @property
    def in_common(self) -> tuple[JsonValue, ...]:
        """The levels that are among the best at each level of `within`, in the order of the first entry of `best`."""
        if not self.best:
            return ()
        first, *rest = self.best
        return tuple(level for level in first.levels if all(repr(level) in map(repr, row.levels) for row in rest))


class WaitChange(Frozen):
    """One wait type in the best and the worst cell. Seconds are those of the mean run. Shares (0..1) are of the number
    of connections times the elapsed time. `best_each_s` and `worst_each_s` are seconds of the mean transaction; null if
    waits don't add up to it. If they are known, cells are compared by them, because runs of a set length have the same
    seconds in all."""

    wait_type: str
    analogue: str
    category: Category
    best_s: float
    worst_s: float
    best_share: float
    worst_share: float
    best_each_s: float | None = None
    worst_each_s: float | None = None


class WaitTrend(Described):
    """The shares of a wait type at the levels of an ordered factor. `at` has the fixed levels of the other factors.
    Shares (0..1) are of the number of connections times the elapsed time."""

    wait_type: str
    analogue: str
    category: Category
    factor: str
    at: dict[str, JsonValue]
    levels: tuple[JsonValue, ...]
    shares: tuple[float | None, ...]
    estimates: tuple[Estimate | None, ...] = ()
    """the same shares, each with its interval over the runs"""
    each_s: tuple[Estimate | None, ...] = ()
    """the seconds of the wait in the mean transaction. Empty if waits don't add up to it."""


Compared = Literal[
    "elapsed", "time-per-row", "time-per-request", "time-per-transaction", "latency-mean", "latency-p50", "latency-p95",
    "latency-p99", "latency-p99.9", "latency-max",
]  # fmt: skip
Verdict = Literal[
    "winner", "best-set", "indistinguishable", "by-load", "one-layout", "too-few-runs", "untested", "single-cell"
]  # fmt: skip


class Judged(Described):
    """The verdict on layouts. "winner" = all other layouts are slower; "best-set" = some may be the fastest;
    "indistinguishable" = each may be the fastest; "too-few-runs" = no test is possible yet; "untested" = each cell ran
    in a separate period.
    """

    verdict: Verdict
    """`by-load`: `loads` has the verdicts; `one-layout`: only loads are varied"""
    best: tuple[str, ...]
    """ids of the cells that may be the fastest (95 %); the fastest comes first; empty without a verdict"""
    tied: tuple[str, ...]
    """the ids of `best` without the first"""
    fastest: str | None = None
    """the cell with the shortest time, also without a verdict"""
    worst: str | None = None
    """the slowest of the cells that are surely not the fastest; without such cells, the slowest cell"""
    not_compared: tuple[str, ...] = ()
    """cells that have too few runs for a test. They are not judged, and while there are any, no cell is the winner."""
    at_most_slower: float | None = None
    """an upper bound (95 %) of the first cell's time divided by the time of the truly fastest cell; None = unknown"""


class LoadVerdict(Judged):
    """The verdict on the `cells` under one load or other condition. `load` has the levels of the factors that are loads
    or conditions."""

    load: dict[str, JsonValue]
    cells: tuple[str, ...]


class JudgedByLoad(Judged):
    """The verdict over all loads.

    If the load or another condition is varied, too, layouts are compared under each load separately. Then the
    verdict is "by-load", and `loads` has a verdict for each load. `best` and `tied` then contain the cells of all
    loads. `fastest` and `worst` are those of the load under which layouts differ most. "one-layout" = only loads
    are varied, so there is nothing to choose. Cells of different blocks can't be distinguished. If there are
    several blocks, `best` contains the best cells of each block.
    """

    comparisons: tuple[Comparison, ...]
    """the comparison of each cell with the best cell"""
    loads: tuple[LoadVerdict, ...] = ()
    """a verdict for each load; empty if there is only one load"""


class HostSummary(Described):
    """A host of a fleet. `level` is the host's time divided by the time of the other hosts, over all cells. It has no
    interval if each host made one round. `fastest` has the cell with the shortest time on the host under each load. If
    `counted` is false, the host ran too few of the cells, and verdicts don't use its runs."""

    name: str
    rounds: int
    runs: int
    counted: bool
    level: Estimate | None = None
    odd_level: bool = False
    """whether the host is surely slower or faster than the other hosts"""
    odd_ratios: bool = False
    """whether the ratios of cells' times on the host surely differ from those on the other hosts"""
    fastest: tuple[str | None, ...] = ()


class Fleet(Frozen):
    """The hosts of a campaign that ran on several. Verdicts hold for hosts like these, because each host is a random
    block. `scatter` says how much the ratio of two cells' times varies from host to host (one standard deviation, as a
    share). `p_value` belongs to the test that this ratio does not vary. Both are None if each host made one round."""

    hosts: tuple[HostSummary, ...]
    scatter: Estimate | None = None
    p_value: float | None = None

    @property
    def counted(self) -> tuple[HostSummary, ...]:
        return tuple(host for host in self.hosts if host.counted)


Severity = Literal["note", "caution"]
CautionGroup = Literal["design", "time", "runs", "sample", "machine", "drive", "waits"]


class Caution(Frozen, ABC):
    """A reason to trust a result less. A "note" says for what the result holds, and for what it does not. The package
    `findings.cautions` has one module for each kind."""

    severity: Severity = "caution"
    cells: tuple[str, ...] = Field((), description="ids of the cells concerned; empty = the whole experiment")
    kind: ClassVar[str]
    group: ClassVar[CautionGroup]
    """The subject of the caution. Cautions of the first group come first, because they could change the choice."""
    unable: ClassVar[str] = ""
    """The fact because of which the runs can't answer the question; "" if cautions of this kind don't prevent an
answer."""
    next_step: ClassVar[str] = ""
    """What to do about the problem, in a few words for the answer's last line; "" if nothing would change the
    answer."""
    first_of_used: ClassVar[bool] = False
    """Whether the caution comes before all others in the answer if it concerns layouts to use, but not all layouts."""

    short: ClassVar[str]
    """The text of `brief`, if it needs no numbers."""

    @classmethod
    def rank(cls) -> tuple[int, str]:
        """The caution's place among all cautions: by group, then by kind."""
        return get_args(CautionGroup).index(cls.group), cls.kind

    @property
    def figures(self) -> dict[str, object]:
        """The fields that only this kind has. The names of the fields end with their units."""
        own = type(self).model_fields.keys() - Caution.model_fields.keys()
        return {name: value for name, value in self.model_dump().items() if name in own}

    @abstractmethod
    def sentence(self, findings: Findings) -> str:
        """The caution as a sentence: the problem, its size, and the remedy."""

    def brief(self, findings: Findings) -> str:  # noqa: ARG002
        """All cautions of this kind in a few words, for the answer."""
        return self.short

    def joined(self, findings: Findings) -> str:  # noqa: ARG002
        """One text for all cautions of this kind; "" if each has its own."""
        return ""

    def alike(self, findings: Findings) -> list[Self]:
        """All cautions of the same kind."""
        return [one for one in findings.cautions if isinstance(one, type(self))]

    def is_unable(self, findings: Findings) -> bool:  # noqa: ARG002
        """Whether this caution prevents an answer from these runs."""
        return bool(self.unable)

    def where(self, findings: Findings) -> str:
        """The cells concerned, in brackets after a space; "" if the caution concerns all cells."""
        known = [cell.levels for cell in findings.cells if cell.cell_id in self.cells]
        return f" ({group_text(known, findings.factors)})" if 0 < len(known) < len(findings.cells) else ""

    def in_some(self, findings: Findings) -> str:
        """A text such as " in 3 of 20 layouts" for all cautions of this kind; "" if they concern all layouts."""
        cells = {cell for one in self.alike(findings) for cell in one.cells}
        return f" in {len(cells)} of {len(findings.cells)} {findings.cell_noun(2)}" if cells else ""

    @model_validator(mode="wrap")
    @classmethod
    def _of_its_kind(cls, value: Any, handler: Callable[[Any], Caution]) -> Caution:
        """Makes a caution that is read from a file an object of the class for its kind. Raises ValueError if the kind
        is unknown."""
        if cls is not Caution or isinstance(value, Caution):
            return handler(value)
        fields, kinds = dict(value), {one.kind: one for one in Caution.__subclasses__()}
        if (kind := fields.pop("kind")) not in kinds:
            raise ValueError(f"no caution is of the kind {kind}")
        return kinds[kind].model_validate(fields)

    @model_serializer(mode="wrap")
    def _with_its_kind(self, handler: Callable[[Caution], dict[str, Any]]) -> dict[str, Any]:
        return {"kind": self.kind} | handler(self)


class Findings(JudgedByLoad):
    """Everything found in one experiment."""

    experiment: str
    question: str
    provenance: Provenances | None
    """Whether the numbers are measured, simulated or mixed; None while nothing is stored."""
    order: Order = "randomised"
    factors: tuple[Factor, ...]
    runs_planned: int
    """The number of runs that the spec asks for."""
    runs_stored: int
    """The number of runs that are stored."""
    cells: tuple[CellSummary, ...]
    effects: tuple[Effect, ...]
    """The comparison of each level with its factor's first level."""
    wait_changes: tuple[WaitChange, ...]
    """The waits in the fastest and in the slowest cell."""
    wait_trends: tuple[WaitTrend, ...]
    """How waits change along a factor."""
    cautions: tuple[SerializeAsAny[Caution], ...]
    compared: Compared = "elapsed"
    """The quantity that ratios compare. `time-per-row`: cells insert different numbers of rows; `time-per-request`: raw
I/O; `time-per-transaction`: generated loads, whose runs have the length that the spec sets. `measure.judge` sets the
latencies.
    """
    set_time: bool = False
    """whether all runs last as long as the spec says"""
    unit: Unit = "rows"
    """the unit of the runs' work"""
    fit: FitKind = "robust"
    """`robust`: if the machine caused an odd run, means and verdicts leave this run out"""
    left_out: tuple[tuple[str, int], ...] = ()
    """(cell_id, repetition) of the runs that are left out"""
    dependences: tuple[Dependence, ...] = ()
    """How the best level of a factor depends on another factor."""
    speed_ups: tuple[Effect, ...] = ()
    """the effects of a factor's levels at each level of the charts' axis. `at` contains only the axis's factor."""
    prefer: tuple[Preference, ...] = PREFERENCES
    indifferent: float | None = None
    """the difference in time, as a share, up to which the spec calls layouts equal"""
    found: Found = Field(default_factory=dict)
    """further findings, by kind"""
    fleet: Fleet | None = None
    """the hosts of the runs; None if all runs were made on one host"""
    wait_names: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Maps each class of waits in wait_changes and wait_trends to the engines' own names. Empty if engines are not
    compared."""

    def cell(self, cell_id: str) -> CellSummary:
        return next(cell for cell in self.cells if cell.cell_id == cell_id)

    @property
    def by_load(self) -> Sequence[LoadVerdict]:
        """The verdicts for each load. If there is only one load, the verdict on all cells."""
        if self.loads:
            return self.loads
        judged = {name: getattr(self, name) for name in Judged.model_fields}
        return [LoadVerdict(load={}, cells=tuple(cell.cell_id for cell in self.cells), **judged)]

    def load_of(self, cell_id: str) -> LoadVerdict | None:
        """The verdict for the load of this cell; None if all cells have the same load."""
        return next((load for load in self.loads if cell_id in load.cells), None)

    @property
    def layout_factors(self) -> list[Factor]:
        """The factors without loads and conditions, so only those that are choices."""
        return [factor for factor in self.factors if not (self.loads and factor.name in self.loads[0].load)]

    def cell_noun(self, number: int = 1) -> str:
        """The noun for cells. It is the noun for layouts, or "cell" under several loads, where a layout has several
        cells."""
        return "cell" + "s" * (number != 1) if self.loads else noun(self.factors, number)
