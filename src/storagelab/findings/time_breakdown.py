"""How each cell's connections spent the time of its runs, and the least time that a volume's limit allows. Pure.

A connection of a run has the elapsed time, and spends it on waits (resource and signal separately), on a CPU, or idle
after its end. So the parts of a run add up to its elapsed time exactly, and so do their means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from storagelab.model.waits import UNINSTRUMENTED, Category, Conservation, WaitStat
from storagelab.servers.durability import BENIGN_WAITS

SpentPart = Literal["resource", "signal", "wait", "cpu", "idle", "unaccounted"]
"""The parts of a connection's time. "wait": a wait that could not be split into resource and signal; "idle": after
it had finished, while others worked; "unaccounted": what waits, CPU and idle time leave, negative if they overlap.
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
    """What the mean connection of each run of a cell spent on one thing, in seconds: `by_run_s`, in the order of
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
    """What a cell's connections spent, the largest first. `runs`: what a run's seconds are divided by (its
    connections for the mean connection, its transactions for the mean transaction), its audit and its waits.
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
