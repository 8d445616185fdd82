"""Thins out a run's course for the store: enough to see what happened, in some 20 kB.

The core looks at a run so often that short runs are seen whole, and long ones have thousands of points. So intervals are
merged into longer ones that keep the means, and of the looks at waiting tasks only every nth is kept, with its longest
queues. Sums over the run (waits, counters) stay the same. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from storagelab.model.measurement import TimeSeries

POINTS_MOST = 100
LOOKS_MOST = 30
LINES_MOST = 4
_DIGITS = 6
"""Digits of a stored mean."""


def thinned(series: TimeSeries) -> TimeSeries:
    """The same run in at most `POINTS_MOST` intervals, each the time-weighted mean of those that it merges."""
    count = len(series.at_s)
    merged = math.ceil(count / POINTS_MOST)
    if merged <= 1:
        return series
    starts = range(0, count, merged)
    edges_s = [0.0, *series.at_s]
    widths_s = [after - before for before, after in zip(edges_s, series.at_s, strict=False)]
    return TimeSeries(
        at_s=tuple(series.at_s[min(start + merged, count) - 1] for start in starts),
        columns={
            name: tuple(_mean(values[at : at + merged], widths_s[at : at + merged]) for at in starts)
            for name, values in series.columns.items()
        },
    )


def _mean(values: Sequence[float | None], widths_s: Sequence[float]) -> float | None:
    """The mean over the time with known values."""
    known = [(value, width) for value, width in zip(values, widths_s, strict=True) if value is not None]
    time_s = sum(width for _, width in known)
    return float(f"{sum(value * width for value, width in known) / time_s:.{_DIGITS}g}") if time_s > 0 else None


def kept_looks(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most `LOOKS_MOST` of the core's looks at waiting tasks, evenly over the run, each with its longest queues."""
    every = max(1, math.ceil(len(samples) / LOOKS_MOST))
    return [{**sample, "tasks": sample["tasks"][:LINES_MOST]} for sample in samples[every - 1 :: every]]


def left_out(taken: TimeSeries, stored: TimeSeries, looks: int, looks_stored: int) -> dict[str, float]:
    """How much of a run's course was seen, and how much of it is stored, as its counters."""
    return {
        "series_points_taken": len(taken.at_s),
        "series_points_stored": len(stored.at_s),
        "waiting_looks_taken": looks,
        "waiting_looks_stored": looks_stored,
        "waiting_queues_of_a_look": LINES_MOST,
    }
