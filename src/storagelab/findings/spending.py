"""Where each second of a cell's connections went, over its runs. Pure.

A connection of a run has the elapsed time, and spends it on waits (resource and signal apart), on a CPU, or idle after its
end. So the parts of a run add up to its elapsed time exactly, and so do their means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from storagelab.findings.model import Spent, SpentPart
from storagelab.model.waits import Conservation, WaitStat

IDLE = "finished early"
UNACCOUNTED = "unaccounted"
_ROUNDING_S = 1e-9

_Key = tuple[str, SpentPart]


def spent(runs: Sequence[tuple[int, Conservation, Iterable[WaitStat]]]) -> tuple[Spent, ...]:
    """What a cell's connections spent, the most first; `runs` = the connections of each run, its audit and its waits."""
    rows_of: dict[str, WaitStat] = {}
    seconds: dict[_Key, list[float]] = {}
    for number, (connections, audit, rows) in enumerate(runs):
        for row, key, of_run_s in _of_a_run(audit, rows):
            if row is not None:
                rows_of[row.wait_type] = row
            seconds.setdefault(key, [0.0] * len(runs))[number] += of_run_s / connections
    found = [
        _spent(key, rows_of.get(key[0]), values)
        for key, values in seconds.items()
        if any(abs(value) > _ROUNDING_S for value in values)
    ]
    return tuple(sorted(found, key=lambda one: (-one.mean_s, one.name, one.part)))


def _spent(key: _Key, row: WaitStat | None, values: Sequence[float]) -> Spent:
    name, part = key
    return Spent(name, row.analogue if row else "", row.category if row else "other", part, tuple(values))


def _of_a_run(audit: Conservation, rows: Iterable[WaitStat]) -> Iterator[tuple[WaitStat | None, _Key, float]]:
    left_s = audit.available_s - audit.finished_early_s
    for row in rows:
        left_s -= row.wait_s
        if not row.is_wait:
            yield row, (row.wait_type, "cpu"), row.wait_s
        elif row.resource_s is None or row.signal_s is None:
            yield row, (row.wait_type, "wait"), row.wait_s
        else:
            yield row, (row.wait_type, "resource"), row.resource_s
            # What is left, not the row's own figure: so the two always add up.
            yield row, (row.wait_type, "signal"), row.wait_s - row.resource_s
    yield None, (IDLE, "idle"), audit.finished_early_s
    yield None, (UNACCOUNTED, "unaccounted"), left_s
