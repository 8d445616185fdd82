"""Finds how a drive changed over the order of runs. The functions are pure.

Each run since the last formatting affects a drive's state. If the state changes over the order of runs, times may
change, too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Literal, get_args

import numpy as np

from storagelab.findings.basis import Evidence
from storagelab.findings.model import DriveState, Estimate, Finding, Findings
from storagelab.model.measurement import Measurement, Run
from storagelab.stats import intervals
from storagelab.stats.fit import Vector
from storagelab.words.names import listed
from storagelab.words.numbers import percent, share_estimate

# --- the states of drives ---------------------------------------------------------------------------------------------
# Figures that drives report for a run: write amplification and utilisation.

Quantity = Literal["write_amplification", "utilisation"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
PREFIX = "drive "
BOUNDS: dict[Quantity, tuple[float, float]] = {"write_amplification": (1.0, math.inf), "utilisation": (0.0, 1.0)}
"""The possible range of each quantity. Write amplification is at least 1, and utilisation is between 0 and 1."""


def states(measurements: Sequence[Measurement]) -> Iterator[DriveState]:
    """The states of each drive that reports its state, as means over the runs of a cell."""
    for drive, quantity in product(drives_in(measurements), QUANTITIES):
        values = [value for one in measurements if (value := value_of(one, drive, quantity)) is not None]
        if values:
            yield DriveState(drive=drive, quantity=quantity, mean=mean_of(values, quantity))


def mean_of(values: Sequence[float], quantity: Quantity) -> Estimate:
    """The mean with a 95 % interval. The interval is always within the possible range and need not be cut off.

    The interval is the t interval of log((mean - least) / (most - mean)), or of log(mean - least) if there is no `most`
    (delta method). Its width is 0 if all values are equal.
    """
    least, most = BOUNDS[quantity]
    plain = intervals.mean_estimate(values)
    below, above = plain.value - least, most - plain.value
    if plain.high is None or plain.high == plain.value or min(below, above) <= 0:
        return plain
    # If values scatter far beyond their mean, the interval is useless. The limit of 300 only prevents an overflow.
    factor = math.exp(min(300.0, (plain.high - plain.value) * (1 / below + 1 / above)))
    low, high = below / factor, below * factor
    if math.isfinite(most):
        low, high = ((most - least) * part / (part + above) for part in (low, high))
    return plain.model_copy(update={"low": least + low, "high": least + high})


def drives_in(measurements: Iterable[Measurement]) -> list[str]:
    groups = dict.fromkeys(group for one in measurements for group in one.counters)
    return [group.removeprefix(PREFIX) for group in groups if group.startswith(PREFIX)]


def value_of(measurement: Measurement, drive: str, quantity: Quantity) -> float | None:
    return measurement.counters.get(f"{PREFIX}{drive}", {}).get(quantity)


# --- their trends -----------------------------------------------------------------------------------------------------

CORRELATION_LEAST = 0.7
CHANGE_LEAST: dict[Quantity, float] = {"write_amplification": 0.03, "utilisation": 0.05}
"""Smaller changes don't count. For write amplification, the change is a share of its first value. For utilisation, it
is a difference."""
RUNS_LEAST = 8
ENDS = 8
"""The first eighth of a block's runs is compared with the last eighth."""
_FORMAT_DRIVES = "between_runs.format_drives"
_MOVES_TOGETHER = 0.5


class DriveTrend(Finding):
    """How a drive changed from the first runs after a formatting to the last runs before the next. `blocks` is the
    number of formattings that were analysed.

    `rank_correlation` is the correlation of the quantity with the place of runs in the order. `with_time` is its
    correlation with the runs' time. Both are calculated from single runs within blocks.
    """

    kind, about = "drive_trends", "gains"
    meaning = "How a simulated drive changed along the order of runs."
    drive: str
    quantity: Literal["write_amplification", "utilisation"]
    first: Estimate
    last: Estimate
    rank_correlation: float
    with_time: float
    blocks: int
    randomised: bool

    @classmethod
    def sentences(cls, findings: Findings) -> list[str]:
        """A sentence on the drive that changed most. Empty if no drive changed."""
        of_drive: dict[str, list[DriveTrend]] = {}
        for trend in cls.of(findings):
            of_drive.setdefault(trend.drive, []).append(trend)
        if not of_drive or findings.verdict == "too-few-runs":
            return []
        drive, trends = max(of_drive.items(), key=lambda item: max(abs(t.last.value - t.first.value) for t in item[1]))
        moved = listed([_moved(trend) for trend in trends]).replace(" and utilisation", " and its utilisation")
        strongest = max(trends, key=lambda trend: abs(trend.with_time))
        together = ""
        if abs(strongest.with_time) >= _MOVES_TOGETHER:
            together = f" Times moved with it (rank correlation {strongest.with_time:.2f})."
        start = f"Drive {drive} changed from the first runs after a formatting to the last: its {moved}.{together}"
        if trends[0].randomised:
            return [f"{start} The order was random, so on average this affects all cells alike."]
        advice = (
            "" if any(_FORMAT_DRIVES in level.sets for factor in findings.factors for level in factor.levels)
            else f"; {_FORMAT_DRIVES} as a factor separates the two"
        )  # fmt: skip
        return [f"{start} Cells that ran late may owe part of their time to the drive's past{advice}."]


def _moved(trend: DriveTrend) -> str:
    went = "rose" if trend.last.value > trend.first.value else "fell"
    if trend.quantity == "utilisation":
        return f"utilisation {went} from {percent(trend.first.value)} to {share_estimate(trend.last)}"
    low, high = trend.last.low, trend.last.high
    interval = f" (95 % CI {low:.2f} to {high:.2f})" if low is not None and high is not None else ""
    return f"write amplification {went} from {trend.first.value:.2f} to {trend.last.value:.2f}{interval}"


def find(evidence: Evidence) -> Iterator[DriveTrend]:
    runs = (run for of_cell in evidence.basis.used.values() for run in of_cell.values())
    return trends(runs, evidence.experiment.order == "randomised")


def trends(runs: Iterable[Run], randomised: bool) -> Iterator[DriveTrend]:
    """The changes of each drive over the order of runs, over all blocks together. `runs` may be in any order."""
    blocks: dict[int, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.sequence):
        if run.measurement is not None and not run.config.between_runs.format_drives:
            blocks[run.block].append(run)
    kept = [block for block in blocks.values() if len(block) >= RUNS_LEAST]
    measured = [run.measurement for block in kept for run in block if run.measurement is not None]
    for drive, quantity in product(drives_in(measured), QUANTITIES):
        found = _trend(kept, drive, quantity, randomised)
        if found is not None:
            yield found


def _trend(blocks: Sequence[Sequence[Run]], drive: str, quantity: Quantity, randomised: bool) -> DriveTrend | None:
    first, last, with_place, with_time = [], [], [], []
    for block in blocks:
        rows = [
            (value, run.measurement.elapsed_s)
            for run in block
            if run.measurement is not None and (value := value_of(run.measurement, drive, quantity)) is not None
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
    correlation, start, end_mean = float(np.mean(with_place)), mean_of(first, quantity), mean_of(last, quantity)
    moved = abs(end_mean.value - start.value) / ((quantity == "write_amplification" and start.value) or 1.0)
    if abs(correlation) < CORRELATION_LEAST or moved < CHANGE_LEAST[quantity]:
        return None
    return DriveTrend(
        drive=drive, quantity=quantity, first=start, last=end_mean, rank_correlation=correlation,
        with_time=float(np.mean(with_time)), blocks=len(with_place), randomised=randomised,
    )  # fmt: skip


def _rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rank correlation; 0 if one of the two is constant."""
    ranks = [_ranks(values) for values in (one, other)]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Sequence[float]) -> Vector:
    """The ranks of values, from 0. Equal values get the mean of their ranks."""
    _, place, counts = np.unique(np.asarray(values, dtype=float), return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts + 1) / 2)[place], dtype=float)
