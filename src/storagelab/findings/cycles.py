"""Which cells can't be compared, because their runs hold parts of the server's checkpoint cycles. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from storagelab.findings.times import measured
from storagelab.model.measurement import CYCLES, Run

ENOUGH = 5
"""From this many checkpoints on, the part of a cycle that is left over hardly matters: if throughput differs by 20 %
between the halves of a cycle, it is then off by 1 %."""
_MOST_RUNS = 0.75
"""A cell is as this share of its runs."""

Told = Mapping[str, float]
"""What one run stores about checkpoints."""


def told_of(used: Mapping[str, Mapping[int, Run]]) -> dict[str, list[Told]]:
    """What the runs of each cell tell about checkpoints, if they do."""
    told: dict[str, list[Told]] = {
        cell_id: [run.counters[CYCLES] for _, run in measured(runs) if CYCLES in run.counters]
        for cell_id, runs in used.items()
    }
    return {cell_id: runs for cell_id, runs in told.items() if runs}


def nothing_seen(told: Mapping[str, Sequence[Told]]) -> bool:
    """Whether no cell saw a checkpoint in most of its runs."""
    return all(_most(_saw_none, runs) for runs in told.values())


def in_parts(told: Mapping[str, Sequence[Told]]) -> tuple[str, ...]:
    """The cells whose runs hold parts of cycles, or none while those of others hold some."""
    if nothing_seen(told):
        return ()
    return tuple(cell_id for cell_id, runs in told.items() if not _most(_whole, runs))


def withheld(used: Mapping[str, Mapping[int, Run]]) -> tuple[str, ...]:
    """The cells that are not compared: their runs were to count whole cycles, and do not."""
    found = in_parts(told_of(used))
    return tuple(one for one in found if any(run.config.workload.warm_up_is_found for run in used[one].values()))


def _most(what: Callable[[Told], bool], runs: Sequence[Told]) -> bool:
    return sum(map(what, runs)) >= _MOST_RUNS * len(runs)


def _whole(run: Told) -> bool:
    return run["whole"] > 0 or run["while_counted"] >= ENOUGH


def _saw_none(run: Told) -> bool:
    return run["in_warm_up"] + run["while_counted"] == 0


def log_rates(runs: Iterable[Run]) -> dict[str, float]:
    """The bytes of log that a cell's runs wrote in a second, by cell, where their servers count them."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.usable and run.measurement is not None and run.measurement.elapsed_s > 0:
            counters = run.measurement.counters
            written = counters.get("wal", {}).get("wal_bytes", counters.get("log", {}).get("innodb_lsn_current"))
            if written is not None:
                found[run.cell_id].append(written / run.measurement.elapsed_s)
    return {cell_id: fmean(rates) for cell_id, rates in found.items()}
