"""The latencies of a cell: percentiles of all operations of its runs, with intervals over its runs. Pure.

A percentile of a cell comes from the merged histogram of its runs. Operations of one run share the run's effect, so
they don't scatter independently. So the interval comes from the runs: each is left out once, and the scatter of the
logarithms of the resulting percentiles gives the standard error (the delete-one jackknife over runs, Efron 1982;
Student's t with one degree of freedom fewer than runs). The longest latency has no interval, since with more runs it is
longer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from storagelab.findings.model import CellSummary, Estimate
from storagelab.model.latency import BIN_ERROR, Latency, merged
from storagelab.stats.points import ALPHA, CONFIDENCE, t_point
from storagelab.stats.samples import FURTHEST, VALUES_LEAST

PERCENTILES: Mapping[str, float] = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}
FIGURES = ("mean", *PERCENTILES, "max")
"""The figures of a histogram, by name."""


def figure_s(latency: Latency, name: str) -> float | None:
    """One figure of a histogram in seconds; None for a percentile that no operation exceeds, which would just be the
    longest latency.
    """
    if name == "mean":
        return latency.mean_s
    if name == "max":
        return latency.longest_ns / 1e9
    per_cent = PERCENTILES[name]
    return latency.percentile_s(per_cent) if latency.operations * (100 - per_cent) >= 100 else None


def figures_s(latency: Latency) -> dict[str, float]:
    """All figures of a histogram for which it has enough operations."""
    found = {name: figure_s(latency, name) for name in FIGURES}
    return {name: value for name, value in found.items() if value is not None}


def of_cell(runs: Sequence[Latency]) -> dict[str, Estimate]:
    """The figures of all operations of a cell's runs, each with its 95 % interval from three runs on."""
    whole = merged(runs)
    if whole is None:
        return {}
    enough = len(runs) >= VALUES_LEAST
    without_one = [merged([*runs[:place], *runs[place + 1 :]]) for place in range(len(runs))] if enough else []
    return {
        name: _estimate(name, value, [one for one in without_one if one is not None])
        for name, value in figures_s(whole).items()
    }


class Disagreement(NamedTuple):
    """The cell with the most throughput is not the cell with the lowest latency (cell ids). `fastest_s` and
    `lowest_s` are the values of `figure` in the two cells; their intervals don't overlap.
    """

    figure: str
    fastest: str
    lowest: str
    fastest_s: Estimate
    lowest_s: Estimate


def disagreement(
    cells: Sequence[CellSummary], told_apart: Collection[frozenset[str]], figure: str = "p99"
) -> Disagreement | None:
    """Whether throughput and a figure of latency surely favour different cells; None if not, or if that is unknown.

    Only cells that the verdict has `told_apart` can disagree: so this is stated where nothing differs as seldom as that
    is.
    """
    known = [(cell, cell.rows_per_s, cell.latency[figure]) for cell in cells if figure in cell.latency]
    rated = [(cell, rate.mean.value, latency) for cell, rate, latency in known if rate is not None]
    if len(rated) < 2:
        return None
    fastest, _, of_fastest = max(rated, key=lambda one: one[1])
    lowest, _, of_lowest = min(rated, key=lambda one: one[2].value)
    if of_lowest.high is None or of_fastest.low is None or of_lowest.high >= of_fastest.low:
        return None
    if frozenset((fastest.cell_id, lowest.cell_id)) not in told_apart:
        return None
    return Disagreement(figure, fastest.cell_id, lowest.cell_id, of_fastest, of_lowest)


def _estimate(name: str, value: float, without_one: Sequence[Latency]) -> Estimate:
    others = [figure for one in without_one if (figure := figure_s(one, name)) is not None and figure > 0]
    if name == "max" or value <= 0 or len(others) < VALUES_LEAST or len(others) < len(without_one):
        return Estimate(value=value)
    logs = [math.log(one) for one in others]
    centre, runs = math.fsum(logs) / len(logs), len(logs)
    error = math.sqrt((runs - 1) / runs * math.fsum((one - centre) ** 2 for one in logs))
    # A percentile is the middle of a bin; the true one may be anywhere in it.
    half = t_point(runs - 1, ALPHA) * error + (BIN_ERROR if name in PERCENTILES else 0.0)
    if half > FURTHEST:
        return Estimate(value=value)
    return Estimate(value=value, low=value * math.exp(-half), high=value * math.exp(half), confidence=CONFIDENCE)
