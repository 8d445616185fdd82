"""The transactions of one run as its generator logged them, and what follows from them. Pure.

Moments are in seconds since the epoch by this machine's clock, latencies in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from storagelab.model.latency import Latency, latency_of

Numbers = NDArray[np.float64]
_US, _NS_PER_US = 1e-6, 1000
P99_LEAST = 100
"""With fewer transactions in a second, the 99th percentile would be the longest latency."""


class Counted(Protocol):
    """What a generator reports of a run: the transactions that it committed over `span_s`, and those that it did not."""

    @property
    def number(self) -> int: ...
    @property
    def not_done(self) -> Mapping[str, int]:
        """How many were not done, or not at once: by the names of counters (`NOT_AT_ONCE`, "skipped")."""
        ...

    @property
    def lag_s(self) -> tuple[float, float] | None: ...
    @property
    def span_s(self) -> tuple[float, float]: ...
    @property
    def log(self) -> Transactions:
        """All of its transactions, one by one."""
        ...

    def within(self, start_s: float, end_s: float) -> Self: ...
    def begun_at_earliest(self, start_s: float) -> Self: ...
    def latency(self) -> Latency | None: ...
    def series(self, edges_s: Sequence[float]) -> dict[str, tuple[float | None, ...]]: ...


class Transactions(NamedTuple):
    """One entry for each committed transaction: its end, and its latency, which begins at the scheduled moment if
    there is a rate. `lag_us` is how much later it began (0 without a rate). `skipped` and `failed` have the moments
    of transactions that were skipped, since they would have begun too late, and of those that the server refused.
    """

    ended_s: Numbers
    latency_us: Numbers
    lag_us: Numbers
    skipped_s: Numbers
    failed_s: Numbers

    def within(self, start_s: float, end_s: float) -> Self:
        """The transactions that ended after `start_s` and not after `end_s`."""
        kept = _between(self.ended_s, start_s, end_s)
        return type(self)(
            self.ended_s[kept], self.latency_us[kept], self.lag_us[kept],
            self.skipped_s[_between(self.skipped_s, start_s, end_s)],
            self.failed_s[_between(self.failed_s, start_s, end_s)],
        )  # fmt: skip

    def begun_at_earliest(self, start_s: float) -> Self:
        """The transactions as if none could begin before `start_s`, however long it had waited."""
        most_us = (self.ended_s - start_s) / _US
        return self._replace(
            latency_us=np.minimum(self.latency_us, most_us), lag_us=np.clip(self.lag_us, 0.0, np.maximum(0.0, most_us))
        )

    @property
    def log(self) -> Self:
        return self

    @property
    def number(self) -> int:
        return len(self.ended_s)

    @property
    def not_done(self) -> Mapping[str, int]:
        return {"skipped": len(self.skipped_s), "failed": len(self.failed_s)}

    @property
    def lag_s(self) -> tuple[float, float] | None:
        """The mean and the longest time by which transactions began late."""
        return (float(self.lag_us.mean()) * _US, float(self.lag_us.max()) * _US) if self.number else None

    @property
    def span_s(self) -> tuple[float, float]:
        """The time from the beginning of the first to the end of the last."""
        return float((self.ended_s - self.latency_us * _US).min()), float(self.ended_s.max())

    def latency(self) -> Latency | None:
        values, counts = np.unique(self.latency_us, return_counts=True)
        return latency_of(
            (round(value * _NS_PER_US), int(count)) for value, count in zip(values, counts, strict=True)
        )  # fmt: skip

    def series(self, edges_s: Sequence[float]) -> dict[str, tuple[float | None, ...]]:
        """Columns of a time series over the intervals between the edges: transactions a second, and their p99."""
        order = np.argsort(self.ended_s)
        ended_s, latency_us = self.ended_s[order], self.latency_us[order]
        places = np.searchsorted(ended_s, edges_s, side="right")
        per_s, p99_s = list[float | None](), list[float | None]()
        for first, last, start_s, end_s in zip(places, places[1:], edges_s, edges_s[1:], strict=False):
            number = int(last - first)
            per_s.append(number / (end_s - start_s) if end_s > start_s else None)
            enough = number >= P99_LEAST
            p99_s.append(float(np.percentile(latency_us[first:last], 99)) * _US if enough else None)
        return {"transactions_per_s": tuple(per_s), "latency_p99_s": tuple(p99_s)}


def joined(parts: Sequence[Transactions]) -> Transactions:
    """The transactions of several logs."""
    if not parts:
        return Transactions(*(np.empty(0) for _ in Transactions._fields))
    return Transactions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _between(moments_s: Numbers, start_s: float, end_s: float) -> NDArray[np.bool_]:
    return (moments_s > start_s) & (moments_s <= end_s)
