"""What drives report, run by run: pages written for each page they were given, and how full they are. Pure.

A drive that was formatted once remembers every run since. If its state changes along the order of runs, times may change too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Literal, get_args

import numpy as np

from storagelab.findings import samples, stats
from storagelab.findings.model import DriveState, DriveTrend, Estimate
from storagelab.model.measurement import Measurement, Run

Quantity = Literal["write_amplification", "utilisation"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
PREFIX = "drive "
CORRELATION_LEAST = 0.7
BOUNDS: dict[Quantity, tuple[float, float]] = {"write_amplification": (1.0, math.inf), "utilisation": (0.0, 1.0)}
"""A drive writes at least what it is given, and can't be more than full."""
CHANGE_LEAST: dict[Quantity, float] = {"write_amplification": 0.03, "utilisation": 0.05}
"""Smaller changes don't count: as a share of the first write amplification, and as points of utilisation."""
RUNS_LEAST = 8
ENDS = 8
"""The first and the last eighth of a block are compared."""


def states(measurements: Sequence[Measurement]) -> Iterator[DriveState]:
    """Means over the runs of a cell, for every drive that reports its state."""
    for drive, quantity in product(_drives(measurements), QUANTITIES):
        values = [value for one in measurements if (value := _value(one, drive, quantity)) is not None]
        if values:
            yield DriveState(drive=drive, quantity=quantity, mean=_mean(values, quantity))


def trends(runs: Iterable[Run], randomised: bool) -> Iterator[DriveTrend]:
    """What changed along the order of runs, on each drive, over all blocks together; `runs` in any order."""
    blocks: dict[int, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.sequence):
        if run.measurement is not None and not run.config.between_runs.format_drives:
            blocks[run.block].append(run)
    kept = [block for block in blocks.values() if len(block) >= RUNS_LEAST]
    measured = [run.measurement for block in kept for run in block if run.measurement is not None]
    for drive, quantity in product(_drives(measured), QUANTITIES):
        found = _trend(kept, drive, quantity, randomised)
        if found is not None:
            yield found


def _trend(blocks: Sequence[Sequence[Run]], drive: str, quantity: Quantity, randomised: bool) -> DriveTrend | None:
    first, last, with_place, with_time = [], [], [], []
    for block in blocks:
        rows = [
            (value, run.measurement.elapsed_s)
            for run in block
            if run.measurement is not None and (value := _value(run.measurement, drive, quantity)) is not None
        ]
        if len(rows) < RUNS_LEAST:
            continue
        values, times = (list(column) for column in zip(*rows, strict=True))
        end = max(1, len(values) // ENDS)
        first += values[:end]
        last += values[-end:]
        with_place.append(_rank_correlation(values, range(len(values))))
        with_time.append(_rank_correlation(values, times))
    if not with_place:
        return None
    correlation, start, end_mean = float(np.mean(with_place)), _mean(first, quantity), _mean(last, quantity)
    moved = abs(end_mean.value - start.value) / ((quantity == "write_amplification" and start.value) or 1.0)
    if abs(correlation) < CORRELATION_LEAST or moved < CHANGE_LEAST[quantity]:
        return None
    return DriveTrend(
        drive=drive, quantity=quantity, first=start, last=end_mean, rank_correlation=correlation,
        with_time=float(np.mean(with_time)), blocks=len(with_place), randomised=randomised,
    )  # fmt: skip


def _mean(values: Sequence[float], quantity: Quantity) -> Estimate:
    """The mean with a 95 % interval that stays within the possible range without being cut off.

    It is the t interval of log((mean - least) / (most - mean)), or of log(mean - least) if there is no `most` (delta
    method). Its width is 0 if all values are equal.
    """
    least, most = BOUNDS[quantity]
    plain = samples.mean_estimate(values)
    below, above = plain.value - least, most - plain.value
    if plain.high is None or plain.high == plain.value or min(below, above) <= 0:
        return plain
    factor = math.exp((plain.high - plain.value) * (1 / below + 1 / above))
    low, high = below / factor, below * factor
    if math.isfinite(most):
        low, high = ((most - least) * part / (part + above) for part in (low, high))
    return plain.model_copy(update={"low": least + low, "high": least + high})


def _drives(measurements: Iterable[Measurement]) -> list[str]:
    groups = dict.fromkeys(group for one in measurements for group in one.counters)
    return [group.removeprefix(PREFIX) for group in groups if group.startswith(PREFIX)]


def _value(measurement: Measurement, drive: str, quantity: Quantity) -> float | None:
    return measurement.counters.get(f"{PREFIX}{drive}", {}).get(quantity)


def _rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rank correlation; 0 if one of the two is constant."""
    ranks = [_ranks(values) for values in (one, other)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Sequence[float]) -> stats.Matrix:
    """Ranks from 0, ties at their mean."""
    _, place, counts = np.unique(np.asarray(values, dtype=float), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2)[place], dtype=float)
