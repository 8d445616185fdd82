"""Rules that turn a waterfall, the devices' counters and the samples of waiting sessions into reasons. Pure.

A rule is a small function of a case. It returns a `Reason`, or None if the evidence is weak: if the times can't be told
apart, if a step lies within its interval, or if it explains too little of the change. A reason names the quantity that
changed together with the time, and the size of its change. The mechanism only suggests that this quantity causes the
change.

case_between(findings, used, one, other)      the evidence on two cells
reasons(case)                                 the reasons for the change, the one that explains most first
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from storagelab.findings import why
from storagelab.findings.limits import AtLimit, volume_at_limit
from storagelab.findings.model import Estimate, Findings
from storagelab.model.measurement import Measurement, Run, TimeSeries
from storagelab.model.waits import Category
from storagelab.stats.intervals import ALPHA, change, estimate, leaves_out_zero, mean

# --- what devices did -------------------------------------------------------------------------------------------------
# Figures of the devices in a run, by which any two cells can be compared. Pure.
#
# The simulator counts by drive and by volume, a machine by volume, each with its own names; here they have the same
# names.

Quantity = Literal[
    "write_amplification", "read_bytes_per_s", "write_bytes_per_s", "read_latency_s", "write_latency_s", "queue"
]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
ALL_DEVICES = "all devices"
_BYTES: tuple[Quantity, Quantity] = ("read_bytes_per_s", "write_bytes_per_s")


@dataclass(frozen=True)
class Figure:
    """A quantity of a device: "ssd", or "volume a"."""

    device: str
    quantity: Quantity


@dataclass(frozen=True)
class DeviceChange:
    """A figure before and after; the intervals of all figures that are compared hold together at 95 %."""

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
    """The changes at the devices from the runs of one cell to those of another, averaged over the pairs of cells.

    Only quantities that every run has are compared: a mean over some runs would compare different runs.
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
    """The kernel's counters of the disks below each volume: `volume.NAME.write_bytes` and so on."""
    volumes = dict.fromkeys(key.split(".")[1] for key in counters if key.count(".") == 2)
    for volume in volumes:
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
    """The mean of a column over the run; each value holds for the interval that ends at its time."""
    starts = (0.0, *at_s[:-1])
    known = [(end - start, value) for start, end, value in zip(starts, at_s, values, strict=True) if value is not None]
    total = sum(width for width, _ in known)
    return sum(width * value for width, value in known) / total if total > 0 else None


# --- reasons ----------------------------------------------------------------------------------------------------------

WRITES_MORE = 0.03
"""The least change of write amplification that counts: smaller changes result from the drive's state before the run."""
QUEUES_MORE = 0.10
"""The least change of a device's queue that counts. By Little's law, this number follows from the wait itself, so a
smaller change adds no evidence.
"""
TAKES_LONGER = 0.05
"""The least change of the time of a request that counts."""
CPU_IS_THE_LIMIT = 0.6
"""A fraction of a connection's time, on a CPU or in its queue. Above it, waits for anything else can't be most of the
time.
"""


BEHIND = 0.1
"""Waits in a volume's queue that make up this share of a change are named."""


class Rule(StrEnum):
    """The thing to which a change of time is attributed."""

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
    """A kind of object that sessions waited for. `share`: its share of all waiting; `most`: the most sessions that
    waited at once for one such object, or for all of them if every wait is counted.
    """

    wait_type: str
    kind: str
    share: float
    most: int


@dataclass(frozen=True)
class Case:
    """All the evidence on one change: the `waterfall` by cause, and in `parts` by wait type and part; the figures of
    `devices`; at the slower end, the objects that sessions waited for (`crowds`) and the volume whose `limit` sets the
    pace.
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
        """The largest of the steps with these names, if it is sure, has the direction of the change, and explains
        enough of it.
        """
        for step in self.waterfall.steps:
            along = step.change.value * self.change_s > 0
            if step.thing.name in names and step.sure and along:
                return step if abs(step.change.value) >= why.EXPLAINS * abs(self.change_s) else None
        return None

    def moved_along(self, quantity: Quantity, least: float) -> DeviceChange | None:
        """The device whose quantity surely changed most in the direction of the time, and by at least `least`."""
        along = [
            one for one in self.devices
            if one.figure.quantity == quantity and one.sure and one.change.value * self.change_s > 0
            and abs(one.change.value) >= least * min(one.before, one.after)
        ]  # fmt: skip
        return max(along, key=lambda one: abs(one.change.value), default=None)


@dataclass(frozen=True)
class Reason:
    """A rule that holds. Its `step` explains the fraction `share` of the change, and consists mostly of waits of these
    `types`. `device`, `crowd` or `limit` is the quantity that changed together with the step.
    """

    rule: Rule
    step: why.Step
    share: float
    types: tuple[str, ...] = ()
    device: DeviceChange | None = None
    crowd: Crowd | None = None
    limit: AtLimit | None = None


def reasons(case: Case) -> tuple[Reason, ...]:
    """The reasons for a change of time, ordered by the fraction that they explain; empty unless the times surely
    differ. If several rules use one step, only the first listed rule applies, because it is the most specific. If a
    volume's limit sets the pace, all waits are in the volume's queue, and no rule about waits applies.
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
    """The runs did not do the same work."""
    step = next((one for one in case.waterfall.steps if one.thing == why.WORK), None)
    if step is None or step.change.value * case.change_s <= 0:
        return None
    return _reason(case, Rule.MORE_WORK, step) if abs(step.change.value) >= why.EXPLAINS * abs(case.change_s) else None


def volume_limit(case: Case) -> Reason | None:
    """A volume works at its limit, and more requests are waiting."""
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
    """The rule that holds if these waits explain the change and, if quantities are given, one of them changed with
    it at a device, by `least` or more.
    """

    def judged(case: Case) -> Reason | None:
        moved = (case.moved_along(quantity, least) for quantity in quantities)
        device = next((one for one in moved if one is not None), None)
        if quantities and device is None:
            return None
        return _reason(case, rule, case.explains(*waits), device)

    return judged


def cpu_limit(case: Case) -> Reason | None:
    """Queueing for a CPU changes, and at the slower end connections spend almost all their time on a CPU or in its
    queue.
    """
    step = case.explains(why.QUEUE.name)
    rows = [one for one in case.waterfall.steps if one.thing == why.QUEUE or one.thing.part == "cpu"]
    slower_s = max(case.waterfall.before_s, case.waterfall.after_s)
    spent_s = sum(one.after_s if case.change_s > 0 else one.before_s for one in rows)
    return _reason(case, Rule.CPU_LIMIT, step) if spent_s >= CPU_IS_THE_LIMIT * slower_s else None


def cpu_work(case: Case) -> Reason | None:
    """The work of a CPU itself changes."""
    names = [one.thing.name for one in case.waterfall.steps if one.thing.part == "cpu"]
    return _reason(case, Rule.CPU_WORK, case.explains(*names))


RULES = (
    more_work,
    volume_limit,
    # The drive writes more for each page that it is given, so it has less time for the server.
    _rule(Rule.WRITE_AMPLIFICATION, _DATA, ["write_amplification"], WRITES_MORE),
    _rule(Rule.DEVICE_QUEUE, _DATA, ["queue"], QUEUES_MORE),
    _rule(Rule.DEVICE_LATENCY, _DATA, ["read_latency_s", "write_latency_s"], TAKES_LONGER),
    # Waits for data change, for a reason that no device shows.
    _rule(Rule.DATA_WAITS, _DATA),
    _rule(Rule.LATCHES, _names("page-latch", "latch")),
    _rule(Rule.LOG, _LOG),
    _rule(Rule.LOCKS, _names("lock")),
    cpu_limit,
    # Queueing for a CPU changes, although most of the time is spent on something other than the CPU.
    _rule(Rule.SCHEDULER, [why.QUEUE.name]),
    cpu_work,
)
"""Rules in order, the most specific first."""


# ---------------------------------------------------------------------------------------------------------------------
# The evidence on two cells
# ---------------------------------------------------------------------------------------------------------------------

Used = Mapping[str, Mapping[int, Run]]
"""The runs of each cell that are judged: cell -> repetition -> run."""


def case_between(findings: Findings, used: Used, one: str, other: str, ratio: Estimate | None = None) -> Case | None:
    """The case from one cell to another; None without waits of both. `ratio` as in `between`."""
    waterfall = why.between(findings, one, other, by=why.by_cause, ratio=ratio)
    parts = why.between(findings, one, other, ratio=ratio)
    if waterfall is None or parts is None:
        return None
    pairs = [(list(used[before].values()), list(used[after].values())) for before, after in waterfall.pairs]
    slower = 1 if waterfall.change.value > 0 else 0
    cells = [(findings.cell(before), findings.cell(after)) for before, after in waterfall.pairs]
    limit = volume_at_limit(cells, waterfall.change.value)
    waiting = crowds(run for pair in pairs for run in pair[slower])
    return Case(waterfall, parts, device_changes(pairs), waiting, limit)


def crowds(runs: Iterable[Run]) -> tuple[Crowd, ...]:
    """The objects that sessions waited for in these runs, the largest first, from every wait or from the samples of a
    measured run. The samples of a simulated run keep only its longest queues.
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
            waited[wait_type, kind] += amount
            most[wait_type, kind] = max(most[wait_type, kind], at_once)
    total = sum(waited.values())
    ranked = sorted(waited.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Crowd(*key, amount / total, most[key]) for key, amount in ranked if amount)
