"""Where each second of a cell's connections went, over its runs. Pure.

A connection of a run has the elapsed time, and spends it on waits (resource and signal apart), on a CPU, or idle after its
end. So the parts of a run add up to its elapsed time exactly, and so do their means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from storagelab.findings.model import Spent, SpentPart
from storagelab.model.waits import Category, CountedWaits, SampledWaits, WaitStat, conservation

IDLE = "finished early"
UNACCOUNTED = "unaccounted"
_ROUNDING_S = 1e-9


class _Thing(NamedTuple):
    """What time was spent on."""

    name: str
    analogue: str
    category: Category
    part: SpentPart


def spent(runs: Sequence[tuple[SampledWaits | CountedWaits, Iterable[WaitStat]]]) -> tuple[Spent, ...]:
    """What a cell's connections spent, the most first; `runs` = the waits of each run, raw and as rows."""
    of_thing: dict[tuple[str, SpentPart], tuple[_Thing, list[float]]] = {}
    for number, (raw, rows) in enumerate(runs):
        for thing, seconds in _of_a_run(raw, rows):
            _, values = of_thing.setdefault((thing.name, thing.part), (thing, [0.0] * len(runs)))
            values[number] += seconds / raw.connections
    found = [
        Spent(**thing._asdict(), by_run_s=tuple(values))
        for thing, values in of_thing.values()
        if any(abs(value) > _ROUNDING_S for value in values)
    ]
    return tuple(sorted(found, key=lambda one: (-one.mean_s, one.name, one.part)))


def _of_a_run(raw: SampledWaits | CountedWaits, rows: Iterable[WaitStat]) -> Iterator[tuple[_Thing, float]]:
    audit = conservation(raw)
    left_s = audit.available_s - audit.finished_early_s
    for row in rows:
        left_s -= row.wait_s
        yield from _of_a_row(row)
    yield _Thing(IDLE, "", "other", "idle"), audit.finished_early_s
    yield _Thing(UNACCOUNTED, "", "other", "unaccounted"), left_s


def _of_a_row(row: WaitStat) -> Iterator[tuple[_Thing, float]]:
    if not row.is_wait:
        yield _Thing(row.wait_type, row.analogue, row.category, "cpu"), row.wait_s
    elif row.resource_s is None or row.signal_s is None:
        yield _Thing(row.wait_type, row.analogue, row.category, "wait"), row.wait_s
    else:
        yield _Thing(row.wait_type, row.analogue, row.category, "resource"), row.resource_s
        # What is left, not the row's own figure: so the two always add up.
        yield _Thing(row.wait_type, row.analogue, row.category, "signal"), row.wait_s - row.resource_s
