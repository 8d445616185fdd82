"""What capturing costs a server, measured by turns: stretches with and without it, one after the other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from storagelab.capture.attributing import Attribution, Files
from storagelab.capture.taking import LOOK_S, Wanted, tracer_of, volumes_of
from storagelab.targets.captured import Watched

STRETCH_S = 5.0


class Cost(NamedTuple):
    """`percent` of the server's transactions; None if it makes too few to tell."""

    percent: float | None
    words: str


def cost_percent(watched: Watched, wanted: Wanted, turns: int, say: Callable[[str], None]) -> Cost:
    """Measures it in pairs of stretches, in turns, by the transactions that the server ends in each. The order within a
    pair changes, so that a trend favours neither.
    """
    say(f"measuring what capturing costs: {turns} pairs of {STRETCH_S:g} s")
    ratios = []
    for turn in range(turns):
        rates = {}
        for capturing in (True, False) if turn % 2 else (False, True):
            rates[capturing] = _rate(watched, wanted, capturing=capturing)
        if rates[True] and rates[False]:
            ratios.append(rates[True] / rates[False])
    if len(ratios) < max(1, turns):
        return Cost(None, "Its cost could not be measured: the server ended no transactions in some of the turns.")
    percent = 100 * (1 - statistics.median(ratios))
    spread = 100 * statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else None
    error = f" ± {spread:.1f}" if spread is not None else ""
    return Cost(percent, f"Its cost was measured by {turns} turns: {percent:.1f}{error} % of the transactions.")


def _rate(watched: Watched, wanted: Wanted, *, capturing: bool) -> float:
    """The transactions per second of one stretch."""
    tracer = tracer_of(watched, [], volumes_of(watched)) if capturing and wanted.trace else None
    attribution = None
    if tracer is not None:
        attribution = Attribution(watched, Files(watched), time.monotonic_ns(), wanted.interval_s)
    try:
        begin, before = time.monotonic(), watched.counters(objects=False)
        while (gone := time.monotonic() - begin) < STRETCH_S:
            time.sleep(min(LOOK_S if capturing else STRETCH_S, STRETCH_S - gone))
            if tracer is not None and attribution is not None:
                attribution.of(tracer.drain())
            if capturing:
                watched.counters(objects=tracer is None)
        after, end = watched.counters(objects=False), time.monotonic()
    finally:
        if tracer is not None:
            tracer.close()
    if after.transactions is None or before.transactions is None:
        return 0.0
    return (after.transactions - before.transactions) / (end - begin)
