"""Rules that derive reasons from a waterfall, the devices' counters and the samples of waiting sessions. The functions
are pure.

A rule is a small function whose argument is a case. It returns a `Reason`, or None if the evidence is weak: if the
times can't be distinguished, if the interval of the step's change includes zero, or if the step explains too little of
the change. A reason names the quantity that changed together with the time, and the size of its change. This does not
prove that the quantity caused the change of time. Only the mechanism suggests it.

case_between(findings, used, one, other)      the evidence on two cells
reasons(case)                                 the reasons for the change; the reason that explains most comes first
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from storagelab.findings import why
from storagelab.findings.limits import AtLimit, volume_at_limit
from storagelab.findings.model import Estimate, Findings
from storagelab.model.measurement import Measurement, Run, TimeSeries
from storagelab.model.waits import Category
from storagelab.stats.intervals import ALPHA, change, estimate, leaves_out_zero, mean

# --- figures of devices -----------------------------------------------------------------------------------------------
# Figures of the devices in a run, by which any two cells can be compared.
#
# The simulator has counters for drives and volumes. A machine has counters for volumes. Their names differ, so the
# functions here translate both to the same names.

Quantity = Literal[
    "write_amplification", "read_bytes_per_s", "write_bytes_per_s", "read_latency_s", "write_latency_s", "queue"
]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
ALL_DEVICES = "all devices"
_BYTES: tuple[Quantity, Quantity] = ("read_bytes_per_s", "write_bytes_per_s")


@dataclass(frozen=True)
class Figure:
    """A quantity of a device. `device` is a name such as "ssd" or "volume a"."""

    device: str
    quantity: Quantity


@dataclass(frozen=True)
class DeviceChange:
    """A figure before and after a change. The intervals of all compared figures hold together at 95 %."""

    figure: Figure
    before: float
    after: float
    change: Estimate

    @property
    def sure(self) -> bool:
        return leaves_out_zero(self.change)

    @property
    def ratio(self) -> float:
        return self.after / self.before if self.before else float("inf")


def device_changes(pairs: Sequence[tuple[Sequence[Run], Sequence[Run]]]) -> tuple[DeviceChange, ...]:
    """The changes of devices' figures from the first cell of a pair to the second, averaged over the pairs. `pairs` has
    the runs of both cells.

    Only quantities that all runs have are compared. Otherwise the means would be over different runs.
    """
    sides = [tuple([_figures(run) for run in runs] for runs in pair) for pair in pairs]
    runs = [figures for pair in sides for side in pair for figures in side]
    if not runs or not all(side for pair in sides for side in pair):
        return ()
    known = [figure for figure in runs[0] if all(figure in figures for figures in runs)]
    found = []
    for figure in sorted(known, key=lambda one: (QUANTITIES.index(one.quantity), one.device)):
        rows = [change([one[figure] for one in before], [one[figure] for one in after]) for before, after in sides]
        found.append(DeviceChange(figure, *mean(rows), estimate(rows, ALPHA / len(known))))
    return tuple(found)


def _figures(run: Run) -> dict[Figure, float]:
    return dict(_of(run.measurement)) if run.measurement is not None and run.measurement.elapsed_s > 0 else {}


def _of(measurement: Measurement) -> Iterator[tuple[Figure, float]]:
    for group, counters in measurement.counters.items():
        kind, _, name = group.partition(" ")
        if kind == "drive" and "write_amplification" in counters:
            yield Figure(name, "write_amplification"), counters["write_amplification"]
    engine = measurement.counters.get("engine", {})
    for what in ("read", "write"):
        latency = engine.get(f"{what}_latency_s")
        if latency is not None and engine.get(f"{what}s"):
            yield Figure(ALL_DEVICES, "read_latency_s" if what == "read" else "write_latency_s"), latency
    yield from _of_volumes(measurement.counters.get("volumes", {}), measurement.elapsed_s)
    if "volumes" not in measurement.counters:
        yield from _of_series(measurement.series)


def _of_volumes(counters: Mapping[str, float], elapsed_s: float) -> Iterator[tuple[Figure, float]]:
    """The figures of each volume, from the kernel's counters of the disks below it. The counters' names are
    `volume.NAME.write_bytes` and so on."""
    for volume in dict.fromkeys(key.split(".")[1] for key in counters if key.count(".") == 2):
        of = {key.rsplit(".", 1)[1]: value for key, value in counters.items() if key.split(".")[1] == volume}
        name = f"volume {volume}"
        for what, quantity in zip(("read", "write"), _BYTES, strict=True):
            if f"{what}_bytes" in of:
                yield Figure(name, quantity), of[f"{what}_bytes"] / elapsed_s
            if of.get(f"{what}s") and f"{what}_time_s" in of:
                latency = of[f"{what}_time_s"] / of[f"{what}s"]
                yield Figure(name, "read_latency_s" if what == "read" else "write_latency_s"), latency
        if "read_time_s" in of and "write_time_s" in of:
            yield Figure(name, "queue"), (of["read_time_s"] + of["write_time_s"]) / elapsed_s


def _of_series(series: TimeSeries) -> Iterator[tuple[Figure, float]]:
    for column, values in series.columns.items():
        mean_value = _over_time(series.at_s, values)
        if mean_value is None:
            continue
        parts = column.split(".")
        if column == "io_in_progress":
            yield Figure(ALL_DEVICES, "queue"), mean_value
        for quantity in _BYTES:
            if len(parts) == 3 and parts[0] == "volume" and parts[2] == quantity:
                yield Figure(f"volume {parts[1]}", quantity), mean_value


def _over_time(at_s: Sequence[float], values: Sequence[float | None]) -> float | None:
    """The mean of a column over the run's time; None if no value is known. Each value holds for the interval that ends
    at its time."""
    starts = (0.0, *at_s[:-1])
    known = [(end - start, value) for start, end, value in zip(starts, at_s, values, strict=True) if value is not None]
    total = sum(width for width, _ in known)
    return sum(width * value for width, value in known) / total if total > 0 else None


# --- reasons ----------------------------------------------------------------------------------------------------------

WRITES_MORE = 0.03
"""The least relative change of write amplification that counts. Smaller changes are caused by the drive's state before
the run."""
QUEUES_MORE = 0.10
"""The least relative change of a device's queue that counts. By Little's law, the length of the queue follows from the
wait itself, so a smaller change adds no evidence.
"""
TAKES_LONGER = 0.05
"""The least relative change of the time of a request that counts."""
CPU_IS_THE_LIMIT = 0.6
"""CPUs are the limit if connections spend at least this fraction of their time on a CPU or in its queue.
"""


BEHIND = 0.1
"""If a volume is at its limit, waits that make up at least this share of the change are named."""


class Rule(StrEnum):
    """The cause to which a change of time is attributed."""

    MORE_WORK = "more-work"
    VOLUME_LIMIT = "volume-limit"
    WRITE_AMPLIFICATION = "write-amplification"
    DEVICE_QUEUE = "device-queue"
    DEVICE_LATENCY = "device-latency"
    DATA_WAITS = "data-waits"
    LATCHES = "latches"
    LOG = "log"
    LOCKS = "locks"
    CPU_LIMIT = "cpu-limit"
    SCHEDULER = "scheduler"
    CPU_WORK = "cpu-work"


@dataclass(frozen=True)
class Crowd:
    """A kind of object that sessions waited for. `share` is its share of all waiting. `most` is the largest number of
    sessions that waited at once for one such object. If every wait is counted, it is the number for all such objects
    together.
    """

    wait_type: str
    kind: str
    share: float
    most: int


@dataclass(frozen=True)
class Case:
    """All the evidence on one change of time. `waterfall` has the steps by cause, and `parts` by wait type and part.
    `devices` has the changes of devices' figures. `crowds` has the objects that sessions of the slower cell waited for.
    `limit` is the volume whose limit sets the slower cell's pace, if there is one.
    """

    waterfall: why.Waterfall
    parts: why.Waterfall
    devices: Sequence[DeviceChange] = ()
    crowds: Sequence[Crowd] = ()
    limit: AtLimit | None = None

    @property
    def change_s(self) -> float:
        return self.waterfall.change.value

    def explains(self, *names: str) -> why.Step | None:
        """The largest step among those with these names that surely changed in the direction of the time. None if there
        is no such step, or if it explains too little of the change.
        """
        for step in self.waterfall.steps:
            if step.thing.name in names and step.sure and step.change.value * self.change_s > 0:
                return step if abs(step.change.value) >= why.EXPLAINS * abs(self.change_s) else None
        return None

    def moved_along(self, quantity: Quantity, least: float) -> DeviceChange | None:
        """The device whose quantity changed most in the direction of the time. Only sure changes of at least the share
        `least` count. None if there is none."""
        along = [
            one for one in self.devices
            if one.figure.quantity == quantity and one.sure and one.change.value * self.change_s > 0
            and abs(one.change.value) >= least * min(one.before, one.after)
        ]  # fmt: skip
        return max(along, key=lambda one: abs(one.change.value), default=None)


@dataclass(frozen=True)
class Reason:
    """A rule that holds for a case. `step` explains the fraction `share` of the change, and consists mostly of waits of
    these `types`. `device`, `crowd` or `limit` is what changed together with the step.
    """

    rule: Rule
    step: why.Step
    share: float
    types: tuple[str, ...] = ()
    device: DeviceChange | None = None
    crowd: Crowd | None = None
    limit: AtLimit | None = None


def reasons(case: Case) -> tuple[Reason, ...]:
    """The reasons for a change of time. The reason that explains most comes first. Empty unless the times surely
    differ. If several rules use one step, only the first listed rule applies, because it is the most specific. If a
    volume's limit sets the pace, no rule about waits applies, because all waits are in the volume's queue.
    """
    if not case.waterfall.differs:
        return ()
    found: dict[str, Reason] = {}
    for rule in RULES if case.limit is None else (more_work, volume_limit):
        reason = rule(case)
        if reason is not None:
            found.setdefault(reason.step.thing.name, reason)
    return tuple(sorted(found.values(), key=lambda one: -one.share))


def _names(*categories: Category) -> tuple[str, ...]:
    return tuple(dict.fromkeys(why.KINDS[category][0] for category in categories))


_DATA = _names("data-read", "data-write", "file-growth")
_LOG = _names("commit", "log-buffer")


def _reason(case: Case, rule: Rule, step: why.Step | None, device: DeviceChange | None = None) -> Reason | None:
    if step is None:
        return None
    types = tuple(
        one.thing.name for one in case.parts.steps
        if one.thing.part in ("resource", "wait") and why.KINDS[one.thing.category][0] == step.thing.name
        and one.change.value / step.change.value >= why.EXPLAINS
    )  # fmt: skip
    crowd = next((one for one in case.crowds if one.wait_type in types[:1]), None)
    return Reason(rule, step, step.change.value / case.change_s, types, device, crowd)


def more_work(case: Case) -> Reason | None:
    """Holds if the two cells' runs did different amounts of work, and this explains enough of the change."""
    step = next((one for one in case.waterfall.steps if one.thing == why.WORK), None)
    if step is None or step.change.value * case.change_s <= 0:
        return None
    return _reason(case, Rule.MORE_WORK, step) if abs(step.change.value) >= why.EXPLAINS * abs(case.change_s) else None


def volume_limit(case: Case) -> Reason | None:
    """Holds if a volume works at its limit and more requests are waiting."""
    if (limit := case.limit) is None:
        return None
    step = why.Step(why.Thing(f"volume {limit.volume}", "", "other", None), limit.before_s, limit.after_s, limit.change)
    behind = tuple(
        one.thing.name for one in case.parts.steps
        if one.thing.part in ("resource", "wait") and one.change.value / case.change_s >= BEHIND
    )  # fmt: skip
    return Reason(Rule.VOLUME_LIMIT, step, min(1.0, limit.change.value / case.change_s), behind, limit=limit)


def _rule(
    rule: Rule, waits: Sequence[str], quantities: Sequence[Quantity] = (), least: float = 0.0
) -> Callable[[Case], Reason | None]:
    """Makes a rule that holds if these waits explain the change. If `quantities` are given, one of them must also have
    changed at a device in the same direction, by the share `least` or more.
    """

    def judged(case: Case) -> Reason | None:
        moved = (case.moved_along(quantity, least) for quantity in quantities)
        device = next((one for one in moved if one is not None), None)
        if quantities and device is None:
            return None
        return _reason(case, rule, case.explains(*waits), device)

    return judged


def cpu_limit(case: Case) -> Reason | None:
    """Holds if the time in CPUs' queues explains the change, and if connections of the slower cell spend most of their
    time on a CPU or in its queue.
    """
    step = case.explains(why.QUEUE.name)
    rows = [one for one in case.waterfall.steps if one.thing == why.QUEUE or one.thing.part == "cpu"]
    slower_s = max(case.waterfall.before_s, case.waterfall.after_s)
    spent_s = sum(one.after_s if case.change_s > 0 else one.before_s for one in rows)
    return _reason(case, Rule.CPU_LIMIT, step) if spent_s >= CPU_IS_THE_LIMIT * slower_s else None


def cpu_work(case: Case) -> Reason | None:
    """Holds if the time on CPUs explains the change."""
    names = [one.thing.name for one in case.waterfall.steps if one.thing.part == "cpu"]
    return _reason(case, Rule.CPU_WORK, case.explains(*names))


RULES = (
    more_work,
    volume_limit,
    # The drive writes more bytes for each page of the server, so it has less time for the server's requests.
    _rule(Rule.WRITE_AMPLIFICATION, _DATA, ["write_amplification"], WRITES_MORE),
    _rule(Rule.DEVICE_QUEUE, _DATA, ["queue"], QUEUES_MORE),
    _rule(Rule.DEVICE_LATENCY, _DATA, ["read_latency_s", "write_latency_s"], TAKES_LONGER),
    # Waits for data change, but no device's figures show why.
    _rule(Rule.DATA_WAITS, _DATA),
    _rule(Rule.LATCHES, _names("page-latch", "latch")),
    _rule(Rule.LOG, _LOG),
    _rule(Rule.LOCKS, _names("lock")),
    cpu_limit,
    # The time in CPUs' queues changes, although connections spend most of their time on something other than a CPU.
    _rule(Rule.SCHEDULER, [why.QUEUE.name]),
    cpu_work,
)
"""All rules. The most specific come first."""


# ---------------------------------------------------------------------------------------------------------------------
# The evidence on two cells
# ---------------------------------------------------------------------------------------------------------------------

Used = Mapping[str, Mapping[int, Run]]
"""The judged runs of each cell, by cell id and repetition."""


def case_between(findings: Findings, used: Used, one: str, other: str, ratio: Estimate | None = None) -> Case | None:
    """The evidence on the change from one cell to another; None if one of them has no waits. `ratio` has the same
    meaning as in `why.between`."""
    waterfall = why.between(findings, one, other, by=why.by_cause, ratio=ratio)
    parts = why.between(findings, one, other, ratio=ratio)
    if waterfall is None or parts is None:
        return None
    pairs = [(list(used[before].values()), list(used[after].values())) for before, after in waterfall.pairs]
    slower = 1 if waterfall.change.value > 0 else 0
    cells = [(findings.cell(before), findings.cell(after)) for before, after in waterfall.pairs]
    limit = volume_at_limit(cells, waterfall.change.value)
    idle = frozenset[str]().union(*(one.idle_waits for pair in cells for one in pair))
    waiting = crowds((run for pair in pairs for run in pair[slower]), idle)
    return Case(waterfall, parts, device_changes(pairs), waiting, limit)


def crowds(runs: Iterable[Run], idle: Collection[str] = ()) -> tuple[Crowd, ...]:
    """The objects that sessions waited for in these runs, sorted by their shares of waiting, the largest first. They
    are taken from the counts of every wait or, in measured runs without such counts, from samples. Samples of simulated
    runs are not used, because they contain only the longest queues. Sessions in the `idle` waits are left out.
    """
    waited: dict[tuple[str, str], float] = defaultdict(float)
    most: dict[tuple[str, str], int] = defaultdict(int)
    for measured in (run.measurement for run in runs if run.measurement is not None):
        counted = [
            (one.wait_type, one.kind, one.sessions_mean * measured.elapsed_s, one.sessions_most)
            for one in measured.crowds
        ]
        seen = [
            (task.wait_type, task.resource.kind, float(task.sessions), task.sessions)
            for task in measured.waiting_tasks if measured.provenance == "measured"
        ]  # fmt: skip
        for wait_type, kind, amount, at_once in counted or seen:
            if wait_type in idle:
                continue
            waited[wait_type, kind] += amount
            most[wait_type, kind] = max(most[wait_type, kind], at_once)
    total = sum(waited.values())
    ranked = sorted(waited.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Crowd(*key, amount / total, most[key]) for key, amount in ranked if amount)
