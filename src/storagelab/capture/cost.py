"""What capturing costs a server, measured by turns: stretches with and without it, one after the other."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from storagelab.capture.server import Watched
from storagelab.capture.taking import Taking, Wanted, watch

STRETCH_S = 2.0


class Cost(NamedTuple):
    """`percent` of the server's transactions; None if it makes too few to tell."""

    percent: float | None
    words: str


class _Rate(NamedTuple):
    """Transactions per second: those that write, and all; 0 where the server does not tell."""

    writing: float
    all: float


def cost_percent(watched: Watched, wanted: Wanted, turns: int, say: Callable[[str], None]) -> Cost:
    """Measures it in pairs of stretches, in turns, by the transactions that the server ends in each. The order within a
    pair changes, so that a trend favours neither.
    """
    say(f"measuring what capturing costs: {turns} pairs of {STRETCH_S:g} s")
    pairs = []
    with tempfile.TemporaryDirectory(prefix="storagelab-") as place:
        taking = Taking(watched, Path(place), wanted._replace(seconds=STRETCH_S))
        try:
            taking.run(on=False)
            for turn in range(turns):
                order = (taking, None) if turn % 2 else (None, taking)
                rates = {one is not None: _rate(watched, one) for one in order}
                pairs.append((rates[True], rates[False]))
            taking.end()
        finally:
            taking.close()
    for of in (0, 1):  # those that write are known to the moment
        if all(with_[of] and without[of] for with_, without in pairs):
            return _cost([math.log(with_[of] / without[of]) for with_, without in pairs])
    return Cost(None, "Its cost could not be measured: the server ended no transactions in some of the turns.")


def _cost(logs: list[float]) -> Cost:
    """The cost by the logarithm of the ratio of each pair."""
    turns, ratio = len(logs), math.exp(statistics.fmean(logs))
    percent = 100 * (1 - ratio)
    error = f" ± {100 * ratio * statistics.stdev(logs) / turns**0.5:.1f}" if turns > 1 else ""
    return Cost(percent, f"Its cost was measured by {turns} turns: {percent:.1f}{error} % of the transactions.")


def _rate(watched: Watched, taking: Taking | None) -> _Rate:
    """The rate in one stretch, with a capture if one is given."""
    if taking is not None:
        taking.run(on=True)
        taking.begin()
    before, begin = watched.counters(objects=False), time.monotonic()
    if taking is not None:
        watch(taking)
    else:
        time.sleep(STRETCH_S)
    after, end = watched.counters(objects=False), time.monotonic()
    if taking is not None:
        taking.run(on=False)
    pairs = (before.write_transactions, after.write_transactions), (before.transactions, after.transactions)
    return _Rate(*(0.0 if one is None or other is None else (other - one) / (end - begin) for one, other in pairs))
