"""The findings of one cell, as values: how its connections spent the time of its runs, samples of the runs, and other
findings. Pure.

A connection of a run has the elapsed time, and spends it on waits (resource and signal separately), on a CPU, or idle
after its end. So the parts of a run add up to its elapsed time exactly, and so do their means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BeforeValidator, Field, SerializeAsAny

from storagelab.model.engines import Provenance
from storagelab.model.values import Described, Estimate, Frozen, JsonValue
from storagelab.model.waits import UNINSTRUMENTED, Category, Conservation, WaitStat
from storagelab.servers.durability import BENIGN_WAITS
from storagelab.words.names import cell_name, cell_text

if TYPE_CHECKING:
    from storagelab.findings.model import Findings


SpentPart = Literal["resource", "signal", "wait", "cpu", "idle", "unaccounted"]
"""The parts of a connection's time. "wait": a wait that could not be split into resource and signal; "idle": the time
after it had finished, while others worked; "unaccounted": the rest of its time, negative if the other parts overlap.
"""
IDLE = "finished early"
UNACCOUNTED = "unaccounted"
_ROUNDING_S = 1e-9

_Key = tuple[str, SpentPart]


LimitedRate = Literal["read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s"]


@dataclass(frozen=True)
class Bound:
    """A limit of a volume, and the seconds that each run's requests take at it, in the order of repetitions: no run can
    be shorter. If `each_s` is known, the seconds are those of a connection's mean transaction. Runs that verdicts leave
    out are left out here, too.
    """

    volume: str
    rate: LimitedRate
    limit: float
    by_run_s: tuple[float, ...]


@dataclass(frozen=True)
class Spent:
    """The seconds that the mean connection of each run of a cell spent on one thing: `by_run_s`, in the order of
    repetitions.

    In each run they add up to the elapsed time. Runs that verdicts leave out are left out here, too. `name` is the wait
    type, the CPU row's name, or the name of the rest.
    """

    name: str
    analogue: str
    category: Category
    part: SpentPart
    by_run_s: tuple[float, ...]

    @property
    def mean_s(self) -> float:
        return sum(self.by_run_s) / len(self.by_run_s)


def spent(runs: Sequence[tuple[float, Conservation, Iterable[WaitStat]]]) -> tuple[Spent, ...]:
    """The time that a cell's connections spent on each thing, the largest first. `runs`: for each run, the number that
    divides its seconds (connections for the mean connection, transactions for the mean transaction), its audit and its
    waits.
    """
    row_of: dict[str, WaitStat] = {}
    seconds: dict[_Key, list[float]] = {}
    for number, (shares, audit, rows) in enumerate(runs):
        for key, row, of_run_s in _of_a_run(audit, rows):
            if key not in seconds:
                seconds[key] = [0.0] * len(runs)
                if row is not None:
                    row_of[row.wait_type] = row
            seconds[key][number] += of_run_s / shares
    found = [
        _spent(key, row_of.get(key[0]), values)
        for key, values in seconds.items()
        if max(values) > _ROUNDING_S or min(values) < -_ROUNDING_S
    ]
    return tuple(sorted(found, key=lambda one: (-sum(one.by_run_s), one.name, one.part)))


def _spent(key: _Key, row: WaitStat | None, values: Sequence[float]) -> Spent:
    name, part = key
    return Spent(name, row.analogue if row else "", row.category if row else "other", part, tuple(values))


def _of_a_run(audit: Conservation, rows: Iterable[WaitStat]) -> list[tuple[_Key, WaitStat | None, float]]:
    found: list[tuple[_Key, WaitStat | None, float]] = []
    left_s = audit.available_s - audit.finished_early_s
    for row in rows:
        name, wait_s, resource_s = row.wait_type, row.wait_s, row.resource_s
        left_s -= wait_s
        if resource_s is None or not row.is_wait or row.signal_s is None:
            found.append(((name, "wait" if row.is_wait else "cpu"), row, wait_s))
        else:
            found.append(((name, "resource"), row, resource_s))
            # The remainder, not the row's own value, so that the two always add up.
            found.append(((name, "signal"), row, wait_s - resource_s))
    return [*found, ((IDLE, "idle"), None, audit.finished_early_s), ((UNACCOUNTED, "unaccounted"), None, left_s)]


# --- waits of several engines -----------------------------------------------------------------------------------------
# Engines have no common names: PostgreSQL's IO:DataFileRead and MariaDB's wait/io/file/innodb/innodb_data_file are both
# a read of data. So waits are joined by category. A class has a name in words; the native names stay in each cell's own
# wait table, and beside the class.

_CATEGORIES: tuple[Category, ...] = get_args(Category)
CLASS_NAMES: dict[Category, str] = {
    **{category: category.replace("-", " ") for category in _CATEGORIES}, "cpu-queue": "CPU queue",
    "other": "other wait",
}  # fmt: skip


def in_classes(rows: Iterable[WaitStat]) -> tuple[WaitStat, ...]:
    """Waits of one run summed by class, largest first; CPU, benign waits and untimed time stay separate."""
    by_class: dict[str, list[WaitStat]] = {}
    for row in rows:
        name = CLASS_NAMES[row.category] if _is_joined(row) else row.wait_type
        by_class.setdefault(name, []).append(row)
    joined = (rows[0] if name == rows[0].wait_type else _sum(name, rows) for name, rows in by_class.items())
    return tuple(sorted(joined, key=lambda row: (not row.is_wait, -row.wait_s, row.wait_type)))


def native_names(rows: Iterable[WaitStat]) -> dict[str, tuple[str, ...]]:
    """Class -> the native names joined in it, longest waits first."""
    total_s: dict[tuple[str, str], float] = {}
    for row in rows:
        if _is_joined(row):
            key = (CLASS_NAMES[row.category], row.wait_type)
            total_s[key] = total_s.get(key, 0.0) + row.wait_s
    names: dict[str, tuple[str, ...]] = {}
    for name, wait_type in sorted(total_s, key=lambda key: (-total_s[key], key)):
        names[name] = (*names.get(name, ()), wait_type)
    return names


def _is_joined(row: WaitStat) -> bool:
    """Whether a wait is joined. Idle time of threads must not count as a wait of another engine."""
    return row.is_wait and row.wait_type != UNINSTRUMENTED and row.wait_type not in BENIGN_WAITS


def _sum(name: str, rows: list[WaitStat]) -> WaitStat:
    """The sum of rows. If one row lacks the split into resource and signal, the sum also lacks it. A sum is `counted`
    only if all its rows are.
    """
    methods = {row.method for row in rows}
    split = all(row.resource_s is not None and row.signal_s is not None for row in rows)
    return WaitStat(
        wait_type=name, category=rows[0].category, method=methods.pop() if len(methods) == 1 else "sampled",
        wait_s=sum(row.wait_s for row in rows), wait_count=None,
        resource_s=sum(row.resource_s or 0.0 for row in rows) if split else None,
        signal_s=sum(row.signal_s or 0.0 for row in rows) if split else None,
    )  # fmt: skip


# --- samples, and other findings --------------------------------------------------------------------------------------


class Point(Frozen):
    """One run's value, by repetition."""

    repetition: int
    value: float


class Sample(Described):
    """One quantity over the runs of a cell. `mean` has a 95 % interval that stays above 0, from three runs on; `sd` is
    None for a single run. For times and rates, `mean` is the figure by which cells are compared: the geometric mean of
    the runs that count, adjusted for rounds that the cell missed and for what the run before left behind. For
    everything else, it is the arithmetic mean of the points."""

    mean: Estimate
    median: float
    sd: float | None
    minimum: float
    maximum: float
    points: tuple[Point, ...]
    adjusted: Estimate | None = None
    """`mean` again, if it is adjusted; None for all others"""


class Finding(Frozen, ABC):
    """A finding with its texts; `findings.kinds` has a class for each kind. Its fields are exported."""

    kind: ClassVar[str]
    """Its name, and its field in `found`."""
    meaning: ClassVar[str]
    """What that field contains, for the reference."""
    about: ClassVar[Literal["use", "gains", "why"]]
    """The part of the evidence that it belongs to."""
    weight: ClassVar[int] = 0
    """Within that part, the kind with the smallest weight comes first."""
    of_cells: ClassVar[bool] = False
    """Whether it belongs to a cell: then it is in `found` of each cell that has it."""

    @classmethod
    def of(cls, where: CellSummary | Findings) -> tuple[Self, ...]:
        """All of this kind."""
        return tuple(one for one in where.found.get(cls.kind, ()) if isinstance(one, cls))

    @classmethod
    @abstractmethod
    def sentences(cls, findings: Findings) -> list[str]:
        """The text of all findings of this kind for the evidence, with figures."""

    @classmethod
    def line(cls, findings: Findings) -> str:  # noqa: ARG003
        """The text of all findings of this kind for the answer, in one sentence; "" if there is none."""
        return ""


def _read_as_kinds(found: Any) -> Any:
    """Findings read from a file get the class of their kind."""
    kinds = {one.kind: one for one in Finding.__subclasses__()}
    if unknown := [kind for kind in found if kind not in kinds]:
        raise ValueError(f"no finding is of the kind {unknown[0]}")
    return {kind: tuple(kinds[kind].model_validate(one) for one in those) for kind, those in found.items()}


Found = Annotated[dict[str, tuple[SerializeAsAny[Finding], ...]], BeforeValidator(_read_as_kinds)]
"""By kind."""


class DriveState(Frozen):
    """A drive's state in the runs of a cell, if the drive reports it: the mean of `quantity` over the runs."""

    drive: str
    quantity: Literal["write_amplification", "utilisation"]
    mean: Estimate


class CellSummary(Described):
    """One cell over its repetitions. Samples are None while the cell has no usable run."""

    cell_id: str
    levels: dict[str, JsonValue]
    provenance: Provenance | None
    """Where its figures come from."""
    runs_planned: int
    """Runs that the spec asks for."""
    runs_ok: int
    """Runs that are `ok`."""
    runs_unverified: int
    """Runs that are `unverified`; these count, too."""
    runs_failed: int
    """Runs that `failed`."""
    connections: int
    """Connections of a run."""
    data_files: int
    """Data files of its layout."""
    elapsed_s: Sample | None = None
    """Completion times."""
    work_per_s: Sample | None = None
    """Work a second: rows, requests or transactions."""
    work: float | None = None
    """the work of the mean run, in its unit"""
    checkpoint_s: Sample | None = None
    """The checkpoint after a run."""
    latency: dict[str, Estimate] = Field(default_factory=dict)
    """figures in seconds, mean, p50 to p99.9, max: of all operations of its runs, or, where a latency is judged,
    geometric means of the runs' own"""
    judged: Sample | None = None
    """the figure of each run's latency by which the spec compares cells"""
    raw_io: dict[str, Sample] = Field(default_factory=dict)
    """results of raw I/O runs, by counter"""
    steady: bool | None = None
    """whether raw I/O ended in steady state; None after too few rounds"""
    waits: tuple[WaitStat, ...] = ()
    """the mean run, uncut, CPU row included"""
    waits_asked: bool = True
    """False where measure.waits = false: nothing was sampled"""
    wait_shares: dict[str, Estimate] = Field(default_factory=dict)
    """wait type -> share of connections x elapsed (0..1), mean over the runs"""
    available_s: float | None = None
    """connections x elapsed of the mean run"""
    each_s: float | None = None
    """its mean transaction, if `spent` adds up to that"""
    explained: float | None = None
    """share of it that waits + CPU account for"""
    drive_states: tuple[DriveState, ...] = ()
    """the drives as these runs found and left them"""
    spent: tuple[Spent, ...] = ()
    """where each second went; of several engines by class of wait"""
    bounds: tuple[Bound, ...] = ()
    """the shortest times that known limits of its volumes allow"""
    stretch: int = 0
    """cells of different stretches of time can't be tested against each other"""
    drives: int | None = None
    """drives of data and log, or volumes if drives are not known"""
    capacity_bytes: float | None = None
    """capacity of the volumes of the data, if known"""
    price_per_month: float | None = None
    """the sum of the spec's prices of its volumes and levels"""
    found: Found = Field(default_factory=dict)
    """other findings of its runs"""
    labels: dict[str, str] = Field(default_factory=dict)
    """the spec's own short names of what varies"""
    volatile: bool = False
    """whether a crash of the machine loses its data or log: they are in memory, or nothing is synced"""

    @property
    def text(self) -> str:
        """The cell's levels in short form."""
        return cell_text(self.levels, self.labels)

    @property
    def name(self) -> str:
        """The cell in a sentence."""
        return cell_name(self.cell_id, self.levels, self.labels)
