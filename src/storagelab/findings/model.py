"""The results of the analysis as values, without sentences: `report` writes these.

Every estimate carries its interval. Ratios are of elapsed time: 1.25 means a quarter slower, 0.8 means 20 % less time.
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
from storagelab.model.values import Described, Frozen, JsonValue
from storagelab.model.values import Estimate as Estimate
from storagelab.model.waits import Category
from storagelab.words.names import group_text, noun


class Comparison(Described):
    """A cell against the best cell: its time divided by the best cell's time. Above 1, the cell is slower, even if
    rates are shown. The 95 % interval is joint: it holds for all comparisons at once. Every output formats this record,
    and no other.

    With several loads, the best cell is the best under the same load; in an experiment run in blocks, the best of the
    same block. The best cell of a block is compared with the best of all `across_blocks`: untested, as a drift between
    blocks would look the same. In a race, the ratio of a cell that left is the ratio to the cell in front at that time.
    """

    cell_id: str
    best_cell_id: str
    ratio: Estimate
    tested: bool = False
    """whether there are enough runs to tell the two apart"""
    distinguishable: bool
    """whether it is surely slower"""
    may_be_fastest: bool = False
    """whether it is among those that may be the fastest"""
    across_blocks: bool = False
    at_most_slower: float | None = None
    """this cell's time over that of the truly fastest is at most this, at 95 %, for all cells at once"""


class Effect(Described):
    """How a level of a factor compares with the factor's baseline (its first listed level).

    `at` fixes other factors; if it is empty, the effect is over all cells in which both levels occur with equal other
    factors. `ratio` is of elapsed times. `across_blocks`: the levels were run one after the other, so the ratio is
    untested and has no interval. With too few runs, the ratio has no interval either.
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
    """whether the level surely takes less time at some levels of other factors and more at others: then `ratio` is a
    mean of opposites"""

    @property
    def tested(self) -> bool:
        """Whether the ratio was tested. An untested ratio does not even say that levels can't be told apart."""
        return self.ratio.low is not None


class BestLevels(Frozen):
    """The best levels of a factor while another factor is at `at`: the fastest first, then the levels not told apart
    from it.
    """

    at: JsonValue
    levels: tuple[JsonValue, ...]


class LevelCost(Frozen):
    """The cost of the wrong level: with the other factor at `at`, using the level that is `best` at `taken_from`."""

    at: JsonValue
    taken_from: JsonValue
    level: JsonValue
    best: JsonValue
    ratio: Estimate


class EffectChange(Frozen):
    """A significant difference of the step from `baseline` to `level` between two levels of another factor. `low` and
    `high` are the ratios of elapsed times at `low_at` and `high_at`; `difference` is high / low.
    """

    level: JsonValue
    baseline: JsonValue
    low_at: JsonValue
    low: Estimate
    high_at: JsonValue
    high: Estimate
    difference: Estimate


class Dependence(Frozen):
    """How the best level, and the effect, of `factor` depend on `within`, averaged over all other factors.

    `best` has an entry for each level of `within`. Two entries that share no level differ beyond their intervals, which
    hold together at 95 %. `cost` is the costliest significant mistake, `change` the largest change of an effect.
    `averaged` names the factors that are averaged over. A load has no best level: then `best` is empty, and only its
    effect may depend on `within`.
    """

    factor: str
    within: str
    best: tuple[BestLevels, ...] = ()
    cost: LevelCost | None = None
    change: EffectChange | None = None
    averaged: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether any two levels of `within` share no best level."""
        sets = [{repr(level) for level in row.levels} for row in self.best]
        return any(not one & other for index, one in enumerate(sets) for other in sets[:index])

    @property
    def in_common(self) -> tuple[JsonValue, ...]:
        """The levels that are among the best everywhere, by the order of the first."""
        if not self.best:
            return ()
        first, *rest = self.best
        return tuple(level for level in first.levels if all(repr(level) in map(repr, row.levels) for row in rest))


class WaitChange(Frozen):
    """One wait type in the best and the worst cell: seconds of the mean run, shares of connections x elapsed (0..1)."""

    wait_type: str
    analogue: str
    category: Category
    best_s: float
    worst_s: float
    best_share: float
    worst_share: float


class WaitTrend(Described):
    """A wait type's share of connections x elapsed (0..1) along an ordered factor, other factors fixed as in `at`."""

    wait_type: str
    analogue: str
    category: Category
    factor: str
    at: dict[str, JsonValue]
    levels: tuple[JsonValue, ...]
    shares: tuple[float | None, ...]
    estimates: tuple[Estimate | None, ...] = ()
    """the same with their intervals over the runs"""


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
    """`by-load`: see `loads`; `one-layout`: nothing but loads is varied."""
    best: tuple[str, ...]
    """ids of the cells that may be the fastest (95 %), the one in front first; empty without a verdict"""
    tied: tuple[str, ...]
    """the same without the first"""
    fastest: str | None = None
    """the cell of the smallest time, verdict or not"""
    worst: str | None = None
    """the last of the ladder: the slowest of those that are surely not the fastest, if any"""
    not_compared: tuple[str, ...] = ()
    """cells that have too few runs for a test: neither fast nor slower; they rule out a winner"""
    at_most_slower: float | None = None
    """the one in front takes at most so many times as the truly fastest (95 %); None = unknown"""


class LoadVerdict(Judged):
    """The verdict on the `cells` under one load or other condition; `load` has the levels of its factors."""

    load: dict[str, JsonValue]
    cells: tuple[str, ...]


class JudgedByLoad(Judged):
    """The verdict over all loads.

    If the load, or another condition, is varied, too, layouts are compared under each load separately. Then the verdict
    is "by-load", and `loads` has a verdict for each load. `best` and `tied` then hold the cells of all loads; `fastest`
    and `worst` belong to the load under which layouts differ most. "one-layout" = only loads are varied, so there is
    nothing to choose. Cells of different blocks are never told apart: the best set then holds the best of each block.
    """

    comparisons: tuple[Comparison, ...]
    """Each cell against the best one."""
    loads: tuple[LoadVerdict, ...] = ()
    """one for each load; empty if there is only one load"""


class HostSummary(Described):
    """A host of a fleet. `level` is the host's time divided by that of the other hosts, over all cells; it has no
    interval if each host made one round. `fastest` has the cell with the shortest time on the host under each load. A
    host that is not
    `counted` has run too few of the cells to take part in verdicts."""

    name: str
    rounds: int
    runs: int
    counted: bool
    level: Estimate | None = None
    odd_level: bool = False
    """whether it is surely slower or faster than the others"""
    odd_ratios: bool = False
    """whether cells compare there in another way than on the others, surely"""
    fastest: tuple[str | None, ...] = ()


class Fleet(Frozen):
    """The hosts of a campaign, if there are several. Verdicts are for hosts like these: host is a random block.
    `scatter` says how much the ratio of two cells' times varies from host to host (one sd, as a share). `p_value` tests
    that it does not vary. Both are None if each host made one round."""

    hosts: tuple[HostSummary, ...]
    scatter: Estimate | None = None
    p_value: float | None = None

    @property
    def counted(self) -> tuple[HostSummary, ...]:
        return tuple(host for host in self.hosts if host.counted)


Severity = Literal["note", "caution"]
CautionGroup = Literal["design", "time", "runs", "sample", "machine", "drive", "waits"]


class Caution(Frozen, ABC):
    """A reason to trust a result less or, as a "note", a limit of what it holds for. `findings.cautions` has them."""

    severity: Severity = "caution"
    cells: tuple[str, ...] = Field((), description="ids of the cells concerned; empty = the whole experiment")
    kind: ClassVar[str]
    group: ClassVar[CautionGroup]
    """The subject of the caution. Cautions of the first group come first, because they could change the choice."""
    unable: ClassVar[str] = ""
    """The fact that keeps the runs from answering; "" for a kind that does not."""
    next_step: ClassVar[str] = ""
    """What to do about it, in a few words for the answer's last line; "" if nothing would change the answer."""
    first_of_used: ClassVar[bool] = False
    """Whether it comes before all others in the answer if it concerns layouts to use, and not all layouts."""

    short: ClassVar[str]
    """The text of `brief`, if it needs no numbers."""

    @classmethod
    def rank(cls) -> tuple[int, str]:
        """The caution's place among all cautions: by group, then by kind."""
        return get_args(CautionGroup).index(cls.group), cls.kind

    @property
    def figures(self) -> dict[str, object]:
        """The fields that only this kind has; their names end with their units."""
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
        """Whether it keeps these runs from answering."""
        return bool(self.unable)

    def where(self, findings: Findings) -> str:
        """The cells concerned, in brackets after a space; "" if all are."""
        known = [cell.levels for cell in findings.cells if cell.cell_id in self.cells]
        return f" ({group_text(known, findings.factors)})" if 0 < len(known) < len(findings.cells) else ""

    def in_some(self, findings: Findings) -> str:
        """A text such as " in 3 of 20 layouts" for all cautions of this kind; "" if they concern all layouts."""
        cells = {cell for one in self.alike(findings) for cell in one.cells}
        return f" in {len(cells)} of {len(findings.cells)} {findings.cell_noun(2)}" if cells else ""

    @model_validator(mode="wrap")
    @classmethod
    def _of_its_kind(cls, value: Any, handler: Callable[[Any], Caution]) -> Caution:
        """A caution read from a file gets the class of its kind."""
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
    """Whether its numbers are measured, simulated or mixed; None while nothing is stored."""
    order: Order = "randomised"
    factors: tuple[Factor, ...]
    runs_planned: int
    """Runs that the spec asks for."""
    runs_stored: int
    """Runs that are stored."""
    cells: tuple[CellSummary, ...]
    effects: tuple[Effect, ...]
    """Each level against its factor's first."""
    wait_changes: tuple[WaitChange, ...]
    """Waits in the fastest and the slowest cell."""
    wait_trends: tuple[WaitTrend, ...]
    """Waits along a factor."""
    cautions: tuple[SerializeAsAny[Caution], ...]
    compared: Compared = "elapsed"
    """The quantity of the ratios. `time-per-row`: cells insert different numbers of rows; `time-per-request`: raw I/O;
    `time-per-transaction`: generated loads, whose runs have the length that the spec sets; others: by `measure.judge`.
    """
    set_time: bool = False
    """whether all runs last as long as the spec says"""
    unit: Unit = "rows"
    """the unit of the work of its runs"""
    fit: FitKind = "robust"
    """`robust`: odd runs with a cause of the machine's are left out of means and verdicts"""
    left_out: tuple[tuple[str, int], ...] = ()
    """(cell_id, repetition) of the runs that are left out"""
    dependences: tuple[Dependence, ...] = ()
    """How the best level of a factor depends on another factor."""
    speed_ups: tuple[Effect, ...] = ()
    """a factor's levels at each level of the axis: `at` has it alone"""
    prefer: tuple[Preference, ...] = PREFERENCES
    indifferent: float | None = None
    """the difference in time, as a share, that the spec calls none"""
    found: Found = Field(default_factory=dict)
    """what else the experiment shows"""
    fleet: Fleet | None = None
    """its hosts; None if all runs were made on one"""
    wait_names: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """if engines are compared: each class of waits in wait_changes and wait_trends -> the engines' own names"""

    def cell(self, cell_id: str) -> CellSummary:
        return next(cell for cell in self.cells if cell.cell_id == cell_id)

    @property
    def by_load(self) -> Sequence[LoadVerdict]:
        """The verdict for each load, also if there is only one."""
        if self.loads:
            return self.loads
        judged = {name: getattr(self, name) for name in Judged.model_fields}
        return [LoadVerdict(load={}, cells=tuple(cell.cell_id for cell in self.cells), **judged)]

    def load_of(self, cell_id: str) -> LoadVerdict | None:
        """The load of a cell; None if all cells have the same."""
        return next((load for load in self.loads if cell_id in load.cells), None)

    @property
    def layout_factors(self) -> list[Factor]:
        """The factors that are choices, as loads and conditions are not."""
        return [factor for factor in self.factors if not (self.loads and factor.name in self.loads[0].load)]

    def cell_noun(self, number: int = 1) -> str:
        """The noun for cells: that of layouts, except under several loads, where a layout has several cells."""
        return "cell" + "s" * (number != 1) if self.loads else noun(self.factors, number)
