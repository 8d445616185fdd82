"""The latencies of a run's operations as a histogram, so that runs can be merged and percentiles taken from all of
them.

Percentiles of several runs come from the merged histogram; an average of percentiles would have no meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any, Self

from pydantic import model_validator

from storagelab.model.values import Count, Frozen

_BITS = 8
BIN_ERROR = 2.0**-_BITS / 2
"""The width of a bin is at most 2^-8 of its latency, so its middle is within 0.2 % of every latency in it."""


class Latency(Frozen):
    """A histogram of latencies in nanoseconds. `values_ns` are the middles of the bins, ascending; `counts` the
    operations in each. The sum and the extremes are exact."""

    values_ns: tuple[Count, ...]
    """The middle of each bin, ascending."""
    counts: tuple[Count, ...]
    """Operations in each bin."""
    total_ns: Count
    """Sum of all latencies."""
    least_ns: Count
    longest_ns: Count

    @model_validator(mode="after")
    def _is_a_histogram(self) -> Self:
        if not self.values_ns or len(self.values_ns) != len(self.counts) or min(self.counts) < 1:
            raise ValueError("must have one positive count for each value, and at least one value")
        if any(one >= other for one, other in zip(self.values_ns, self.values_ns[1:], strict=False)):
            raise ValueError("must have ascending values")
        return self

    @property
    def operations(self) -> int:
        return sum(self.counts)

    @property
    def mean_s(self) -> float:
        return self.total_ns / self.operations / 1e9

    def percentile_s(self, per_cent: float) -> float:
        """The latency in seconds that `per_cent` of the operations did not exceed (the nearest rank)."""
        rank = max(1.0, per_cent / 100 * self.operations)
        for value, so_far in zip(self.values_ns, accumulate(self.counts), strict=True):
            if so_far >= rank:
                return min(max(value, self.least_ns), self.longest_ns) / 1e9
        return self.longest_ns / 1e9


def middle_of_bin(ns: int) -> int:
    """The middle of the bin that holds a latency: the same bins for all, so that histograms merge without loss."""
    shift = max(0, ns.bit_length() - _BITS - 1)
    return (ns >> shift << shift) + (1 << shift >> 1)


def latency_of(counted: Iterable[tuple[int, int]], exact: tuple[int, int, int] | None = None) -> Latency | None:
    """The histogram of pairs (latency in ns, operations); None if there are none.

    `exact` has the sum, the least and the longest in ns, if the source knows them better than the pairs do.
    """
    bins: Counter[int] = Counter()
    total, least, longest = 0, None, 0
    for ns, operations in counted:
        if operations < 1:
            continue
        bins[middle_of_bin(ns)] += operations
        total += ns * operations
        least = ns if least is None else min(least, ns)
        longest = max(longest, ns)
    if least is None:
        return None
    values = sorted(bins)
    total, least, longest = exact or (total, least, longest)
    return Latency(
        values_ns=tuple(values), counts=tuple(bins[value] for value in values),
        total_ns=total, least_ns=least, longest_ns=longest,
    )  # fmt: skip


def latency_of_table(table: Mapping[str, Any]) -> Latency | None:
    """The histogram of a table of the Rust core (crates/sim/src/raw_io/latency.rs)."""
    exact = (round(table["mean_ns"] * table["count"]), table["least_ns"], table["longest_ns"])
    return latency_of(((ns, count) for ns, count in table["histogram"]), exact)


def merged(latencies: Iterable[Latency]) -> Latency | None:
    """One histogram of all operations of several runs; None if there are none."""
    parts = list(latencies)
    if not parts:
        return None
    return latency_of(
        ((value, count) for part in parts for value, count in zip(part.values_ns, part.counts, strict=True)),
        (
            sum(part.total_ns for part in parts),
            min(part.least_ns for part in parts),
            max(part.longest_ns for part in parts),
        ),
    )
