"""The waits that differ most between two cells, and how the largest waits change along a factor. Pure."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from storagelab.findings.effects import combinations, key
from storagelab.findings.model import CellSummary, Estimate, WaitChange, WaitTrend
from storagelab.model.plan import Factor
from storagelab.model.waits import WaitStat
from storagelab.spec.naming import axis_factor, in_order, is_numeric

WAIT_CHANGES_MAX = 8
TREND_PANELS_MAX = 12
TREND_WAITS_MAX = 8


def wait_changes(cells: Sequence[CellSummary], fastest: str | None, slowest: str | None) -> tuple[WaitChange, ...]:
    """The waits, and CPU, whose share of connections x elapsed differs most between the two cells of these ids."""
    by_id = {cell.cell_id: cell for cell in cells}
    best, worst = by_id.get(fastest or ""), by_id.get(slowest or "")
    if best is None or worst is None or not best.available_s or not worst.available_s:
        return ()
    of_best, of_worst = ({row.wait_type: row for row in cell.waits} for cell in (best, worst))
    changes = []
    for wait_type, row in (of_worst | of_best).items():
        best_s, worst_s = (of[wait_type].wait_s if wait_type in of else 0.0 for of in (of_best, of_worst))
        changes.append(
            WaitChange(
                wait_type=wait_type, analogue=row.analogue, category=row.category, best_s=best_s, worst_s=worst_s,
                best_share=best_s / best.available_s, worst_share=worst_s / worst.available_s,
            )
        )  # fmt: skip
    changes.sort(key=lambda change: (-abs(change.worst_share - change.best_share), change.wait_type))
    return tuple(changes[:WAIT_CHANGES_MAX])


def wait_trends(factors: Sequence[Factor], cells: Sequence[CellSummary]) -> Iterator[WaitTrend]:
    """How shares change along the ordered factor: the same waits, in the same order, at all combinations of other
    factors.
    """
    factor = axis_factor([factor for factor in factors if is_numeric(factor)])
    if factor is None:
        return
    levels = tuple(in_order(factor))
    at = {key(cell.levels): cell for cell in cells}
    wait_types = _largest_waits(cells)
    for others in itertools.islice(combinations(cells, factor), TREND_PANELS_MAX):
        along = [at.get(key({**others, factor.name: level})) for level in levels]
        for wait in wait_types:
            estimates = tuple(_share_in(cell, wait.wait_type) for cell in along)
            yield WaitTrend(
                wait_type=wait.wait_type,
                analogue=wait.analogue,
                category=wait.category,
                factor=factor.name,
                at=others,
                levels=levels,
                shares=tuple(None if estimate is None else estimate.value for estimate in estimates),
                estimates=estimates,
            )


def _share_in(cell: CellSummary | None, wait_type: str) -> Estimate | None:
    """The share of a wait; None if the cell has no wait statistics; 0 if it has, but without this wait."""
    return None if cell is None or not cell.waits else cell.wait_shares.get(wait_type, Estimate(value=0.0))


def _largest_waits(cells: Sequence[CellSummary]) -> list[WaitStat]:
    """The wait types, and CPU, with the largest shares in any cell, by category and then by share.

    Waits for allocation come first: they are small compared with the log's, but they are the reason to use more files.
    """
    peak: dict[str, tuple[float, WaitStat]] = {}
    for cell in cells:
        for row in cell.waits if cell.available_s else ():
            share = row.wait_s / (cell.available_s or 1.0)
            if share > peak.get(row.wait_type, (0.0, row))[0]:
                peak[row.wait_type] = (share, row)
    largest = sorted(peak.values(), key=lambda item: (item[1].category != "allocation", -item[0], item[1].wait_type))[
        :TREND_WAITS_MAX
    ]
    of_category: dict[str, float] = defaultdict(float)
    for share, row in largest:
        of_category[row.category] = max(of_category[row.category], share)
    largest.sort(key=lambda item: (-of_category[item[1].category], item[1].category, -item[0], item[1].wait_type))
    return [row for _, row in largest]
