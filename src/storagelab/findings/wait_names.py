"""Findings with the engine's own names of waits alone. Pure.

The wait of SQL Server that comes closest to a wait of another engine helps those who know SQL Server, and is in the
others' way. So reports have it only where it is asked for; the export always has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from storagelab.findings.model import Findings, WaitChange, WaitTrend
from storagelab.model.waits import WaitStat

_Named = TypeVar("_Named", WaitStat, WaitChange, WaitTrend)


def own_names_only(findings: Findings) -> Findings:
    """The findings without the names of other engines' waits."""
    cells = tuple(
        cell.model_copy(
            update={"waits": _own(cell.waits), "spent": tuple(replace(one, analogue="") for one in cell.spent)}
        )
        for cell in findings.cells
    )
    changed = {"cells": cells, "wait_changes": _own(findings.wait_changes), "wait_trends": _own(findings.wait_trends)}
    return findings.model_copy(update=changed)


def _own(rows: Iterable[_Named]) -> tuple[_Named, ...]:
    return tuple(row.model_copy(update={"analogue": ""}) if row.analogue else row for row in rows)
