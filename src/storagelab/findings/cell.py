"""The findings of one cell as values: how its connections spent the time of its runs, samples of the runs, and other
findings. The functions are pure.

The elapsed time of a run is the time of each of its connections. A connection spends it on waits (resource and signal
separately), on a CPU, or idle after its own end. So the parts of a run's time add up exactly to its elapsed time. The
means of the parts add up to the mean elapsed time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BeforeValidator, Field, SerializeAsAny

from storagelab.model.engines import Provenance
from storagelab.model.values import Described, Estimate, Frozen, JsonValue
from storagelab.model.waits import FOR_CLIENT, UNINSTRUMENTED, Category, Conservation, WaitStat
from storagelab.servers.durability import BENIGN_WAITS
from storagelab.words.names import cell_name, cell_text

if TYPE_CHECKING:
    from storagelab.findings.model import Findings


SpentPart = Literal["resource", "signal", "wait", "cpu", "idle", "unaccounted"]
"""The parts of a connection's time. "wait" is a wait that could not be split into resource and signal. "idle" is the
time after the connection had finished, while others still worked. "unaccounted" is the remaining time; it is negative
if the other parts overlap.
"""
IDLE = "finished early"
UNACCOUNTED = "unaccounted"
_ROUNDING_S = 1e-9

_Key = tuple[str, SpentPart]


LimitedRate = Literal["read_iops", "write_iops", "read_bytes_per_s", "write_bytes_per_s"]


@dataclass(frozen=True)
class Bound:
    """A limit of a volume. `by_run_s` has the seconds that each run's requests take at this limit, in the order of
    repetitions. No run can be shorter. If the cell's `each_s` is known, the seconds are those of a connection's mean
    transaction. Runs that verdicts leave out are left out here, too.
    """

    volume: str
    rate: LimitedRate
    limit: float
    by_run_s: tuple[float, ...]


@dataclass(frozen=True)
class Spent:
    """The time that the connections of a cell spent on one thing. `by_run_s` has the seconds of the mean connection of
    each run, in the order of repetitions.

    In each run, the seconds of all things add up to the elapsed time. Runs that verdicts leave out are left out here,
    too. `name` is the wait type, the name of the row for CPU time, or a name for idle or unaccounted time.
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
    """The time that a cell's connections spent on each thing, the largest first. `runs` has three values for each run:
    the number by which its seconds are divided (of connections for the mean connection, of transactions for the mean
    transaction), its audit, and its waits.
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
            # The signal part is calculated as the remainder, so that the two parts always add up to the wait.
            found.append(((name, "signal"), row, wait_s - resource_s))
    return [*found, ((IDLE, "idle"), None, audit.finished_early_s), ((UNACCOUNTED, "unaccounted"), None, left_s)]


# --- waits of several engines -----------------------------------------------------------------------------------------
# Engines have no common names of waits. For example, PostgreSQL's IO:DataFileRead and MariaDB's
# wait/io/file/innodb/innodb_data_file are both reads of data. So waits are joined into classes by category. A class has
# a name in words. The native names are shown in each cell's own table of waits, and beside the class.

_CATEGORIES: tuple[Category, ...] = get_args(Category)
CLASS_NAMES: dict[Category, str] = {
    **{category: category.replace("-", " ") for category in _CATEGORIES}, "cpu-queue": "CPU queue",
    "other": "other wait",
}  # fmt: skip


def in_classes(rows: Iterable[WaitStat]) -> tuple[WaitStat, ...]:
    """The waits of one run, summed by class, the largest first. CPU time, benign waits and untimed time are not
    joined."""
    by_class: dict[str, list[WaitStat]] = {}
    for row in rows:
        name = CLASS_NAMES[row.category] if _is_joined(row) else row.wait_type
        by_class.setdefault(name, []).append(row)
    joined = (rows[0] if name == rows[0].wait_type else _sum(name, rows) for name, rows in by_class.items())
    return tuple(sorted(joined, key=lambda row: (not row.is_wait, -row.wait_s, row.wait_type)))


def native_names(rows: Iterable[WaitStat]) -> dict[str, tuple[str, ...]]:
    """Maps each class to the native names of the waits in it. The longest waits come first."""
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
    """Whether a wait is joined with others of its class. Benign waits are not, because an engine's idle threads must
    not count as waiting for the same thing as another engine's sessions."""
    return row.is_wait and row.wait_type != UNINSTRUMENTED and row.wait_type not in BENIGN_WAITS


def _sum(name: str, rows: list[WaitStat]) -> WaitStat:
    """The sum of rows. If one row lacks the split into resource and signal, the sum lacks it, too. The sum has the
    method of its rows if all have the same; otherwise its method is `sampled`.
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
    """The value of the run with the number `repetition`."""

    repetition: int
    value: float


class Sample(Described):
    """One quantity over the runs of a cell. If there are three runs or more, `mean` has a 95 % interval, which does not
    include 0 or less. `sd` is the standard deviation; it is None for a single run. For times and rates, `mean` is the
    figure by which cells are compared. It is the geometric mean of the runs that verdicts use, adjusted for rounds that
    the cell missed and for effects of the previous run. For all other quantities, `mean` is the arithmetic mean of the
    points."""

    mean: Estimate
    median: float
    sd: float | None
    minimum: float
    maximum: float
    points: tuple[Point, ...]
    adjusted: Estimate | None = None
    """the same value as `mean`, if `mean` is adjusted; otherwise None"""


class Finding(Frozen):
    """A finding with its texts. `findings.kinds` has a class for each kind. The fields of the class are exported."""

    kind: ClassVar[str]
    """The name of the kind, which is also its key in `found`."""
    meaning: ClassVar[str]
    """A description of this key of `found`, for the reference."""
    about: ClassVar[Literal["use", "gains", "why"]]
    """The part of the evidence to which this kind belongs."""
    weight: ClassVar[int] = 0
    """Within a part of the evidence, the kind with the smallest weight comes first."""
    of_cells: ClassVar[bool] = False
    """Whether findings of this kind belong to a cell. Then they are in the `found` of their cells."""

    @classmethod
    def of(cls, where: CellSummary | Findings) -> tuple[Self, ...]:
        """All findings of this kind in the experiment or cell `where`."""
        return tuple(one for one in where.found.get(cls.kind, ()) if isinstance(one, cls))

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:
        """The text of all findings of this kind for the evidence, with figures."""
        return [one.sentence(findings) for one in cls.of(findings)]

    def sentence(self, findings: Findings) -> str:  # noqa: ARG002
        """The text of this finding. A kind needs it unless it has its own `sentences`."""
        raise AssertionError(f"the kind {self.kind} has no text")

    @classmethod
    def line(cls, findings: Findings) -> str:  # noqa: ARG003
        """The text of all findings of this kind for the answer, in one sentence; "" if there is none."""
        return ""


def _read_as_kinds(found: Any) -> Any:
    """Makes findings that are read from a file objects of the classes for their kinds. Raises ValueError if a kind is
    unknown."""
    kinds = {one.kind: one for one in Finding.__subclasses__()}
    if unknown := [kind for kind in found if kind not in kinds]:
        raise ValueError(f"no finding is of the kind {unknown[0]}")
    return {kind: tuple(kinds[kind].model_validate(one) for one in those) for kind, those in found.items()}


Found = Annotated[dict[str, tuple[SerializeAsAny[Finding], ...]], BeforeValidator(_read_as_kinds)]
"""Findings, by the name of their kind."""


class DriveState(Frozen):
    """The state of a drive in the runs of a cell, if the drive reports it. `mean` is the mean of `quantity` over the
    runs."""

    drive: str
    quantity: Literal["write_amplification", "utilisation"]
    mean: Estimate


class CellSummary(Described):
    """The summary of one cell over its repetitions. Samples are None while the cell has no usable run."""

    cell_id: str
    levels: dict[str, JsonValue]
    provenance: Provenance | None
    """Whether the cell's figures are measured or simulated."""
    runs_planned: int
    """The number of runs that the spec asks for."""
    runs_ok: int
    """The number of runs with the status `ok`."""
    runs_unverified: int
    """The number of runs with the status `unverified`. These runs are used, too."""
    runs_failed: int
    """The number of runs with the status `failed`."""
    connections: int
    """The number of connections of a run."""
    data_files: int
    """The number of data files of the cell's layout."""
    elapsed_s: Sample | None = None
    """The elapsed times of the runs."""
    work_per_s: Sample | None = None
    """The work per second of the runs: rows, requests or transactions."""
    work: float | None = None
    """the work of the mean run, in the experiment's `unit`"""
    checkpoint_s: Sample | None = None
    """The time of the checkpoint after each run."""
    latency: dict[str, Estimate] = Field(default_factory=dict)
    """latencies in seconds: mean, p50 to p99.9, max. They are calculated over all operations of the cell's runs. If a
    latency is judged, they are geometric means of the runs' latencies."""
    judged: Sample | None = None
    """the latency of each run by which the spec compares cells"""
    raw_io: dict[str, Sample] = Field(default_factory=dict)
    """results of raw I/O runs, by counter"""
    steady: bool | None = None
    """whether raw I/O ended in steady state; None if there were too few rounds"""
    waits: tuple[WaitStat, ...] = ()
    """all waits of the mean run, with a row for CPU time"""
    waits_asked: bool = True
    """false if the spec has measure.waits = false, so that no waits were sampled"""
    wait_shares: dict[str, Estimate] = Field(default_factory=dict)
    """the share (0..1) of each wait type in connections x elapsed time, as the mean over the runs"""
    available_s: float | None = None
    """connections x elapsed time of the mean run"""
    each_s: float | None = None
    """the time of the mean transaction, if the parts of `spent` add up to it"""
    explained: float | None = None
    """the share of the connections' time that waits and CPU time explain"""
    drive_states: tuple[DriveState, ...] = ()
    """the states of drives in the runs"""
    spent: tuple[Spent, ...] = ()
    """how connections spent their time; by class of wait if there are several engines"""
    bounds: tuple[Bound, ...] = ()
    """the shortest times that known limits of the cell's volumes allow"""
    stretch: int = 0
    """the number of the period in which the cell ran. Cells of different periods can't be tested against each other."""
    drives: int | None = None
    """the number of drives on which data and log are. A volume without declared drives counts as one."""
    capacity_bytes: float | None = None
    """the capacity of the data's volumes, if known"""
    price_per_month: float | None = None
    """the sum of the prices that the spec gives for the cell's volumes and levels"""
    found: Found = Field(default_factory=dict)
    """further findings of the cell's runs, by kind"""
    labels: dict[str, str] = Field(default_factory=dict)
    """the spec's own short names of levels"""
    volatile: bool = False
    """whether a crash of the machine loses the cell's data or log, because they are in memory or nothing is synced"""

    @property
    def idle_waits(self) -> frozenset[str]:
        """The waits for the client. The session is idle then, so they are no queue for storage."""
        return frozenset(row.wait_type for row in self.waits if row.category == FOR_CLIENT)

    @property
    def text(self) -> str:
        """The cell's levels in short form."""
        return cell_text(self.levels, self.labels)

    @property
    def name(self) -> str:
        """The name of the cell for use in a sentence."""
        return cell_name(self.cell_id, self.levels, self.labels)
