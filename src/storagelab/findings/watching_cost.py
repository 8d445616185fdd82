"""What watching costs: the watched stretches of runs compared with their unwatched ones, in which nothing looked.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from storagelab.findings import latencies
from storagelab.findings.samples import from_logs, mean_estimate
from storagelab.model.measurement import Measurement
from storagelab.model.values import Estimate


class WatchingCost(NamedTuple):
    """Ratios of watched to unwatched stretches, as means over `runs`; no interval below three runs."""

    runs: int
    throughput: Estimate
    p99: Estimate | None
    """None if transactions are too few for a percentile."""


def watching_cost(measurements: Iterable[Measurement]) -> WatchingCost | None:
    """None if no run was watched in turns."""
    throughput, p99 = list[float](), list[float]()
    for one in measurements:
        turns = one.turns
        if turns is None:
            continue
        rate = turns.unwatched_transactions / turns.unwatched_s
        throughput.append(math.log(turns.watched_transactions / turns.watched_s / rate))
        watched, unwatched = (
            None if latency is None else latencies.figure_s(latency, "p99")
            for latency in (turns.watched_latency, one.latency)
        )
        if watched and unwatched:
            p99.append(math.log(watched / unwatched))
    if not throughput:
        return None
    return WatchingCost(len(throughput), _ratio(throughput), _ratio(p99) if len(p99) == len(throughput) else None)


def _ratio(logs: list[float]) -> Estimate:
    mean = mean_estimate(logs)
    return Estimate(value=math.exp(mean.value)) if mean.high is None else from_logs(mean.value, mean.high - mean.value)
