"""Joins waits of several engines by what is waited for, since engines have no common names. Pure.

PostgreSQL's IO:DataFileRead and MariaDB's wait/io/file/innodb/innodb_data_file are both a read of data. A class has a
name in words; the native names stay in each cell's own wait table, and beside the class.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from storagelab.model.waits import UNINSTRUMENTED, Category, WaitStat
from storagelab.servers.durability import BENIGN_WAITS

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
    """The sum of rows. A split that one row lacks is missing in the sum; a sum is counted only if all its parts are."""
    methods = {row.method for row in rows}
    split = all(row.resource_s is not None and row.signal_s is not None for row in rows)
    return WaitStat(
        wait_type=name, category=rows[0].category, method=methods.pop() if len(methods) == 1 else "sampled",
        wait_s=sum(row.wait_s for row in rows), wait_count=None,
        resource_s=sum(row.resource_s or 0.0 for row in rows) if split else None,
        signal_s=sum(row.signal_s or 0.0 for row in rows) if split else None,
    )  # fmt: skip
