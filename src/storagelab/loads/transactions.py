"""The logged transactions of one run, and figures that are computed from them.

Moments are in seconds since the epoch by this machine's clock. Latencies are in microseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from storagelab.machine.descriptors import read_file
from storagelab.model.measurement import Latency, Turns, latency_of

Numbers = NDArray[np.float64]
_US, _NS_PER_US = 1e-6, 1000
P99_LEAST = 100
"""If a second has fewer transactions, its 99th percentile would be its longest latency, so it has none."""


class LoadReport(Protocol):
    """A generator's report of a run: the transactions that it committed within `span_s`, and the number of those that
    it did not commit."""

    @property
    def number(self) -> int: ...
    @property
    def not_done(self) -> Mapping[str, int]:
        """The numbers of transactions that were not done, or not at once. The keys are names of counters
        (`NOT_AT_ONCE`, "skipped").
        """
        ...

    @property
    def lag_s(self) -> tuple[float, float] | None: ...
    @property
    def span_s(self) -> tuple[float, float]: ...
    @property
    def log(self) -> Transactions:
        """All transactions of the run, one by one."""
        ...

    def within(self, start_s: float, end_s: float) -> Self: ...
    def begun_at_earliest(self, start_s: float) -> Self: ...
    def latency(self) -> Latency | None: ...
    def series(self, edges_s: Sequence[float]) -> dict[str, tuple[float | None, ...]]: ...


class Transactions(NamedTuple):
    """One entry for each committed transaction: its end and its latency. If there is a rate, the latency begins at the
    scheduled moment. `lag_us` says how long after that moment the transaction began (0 without a rate). `skipped_s` has
    the moments of transactions that were skipped because they would have begun too late. `failed_s` has the moments of
    transactions that the server refused.
    """

    ended_s: Numbers
    latency_us: Numbers
    lag_us: Numbers
    skipped_s: Numbers
    failed_s: Numbers

    def within(self, start_s: float, end_s: float) -> Self:
        """Returns the transactions that ended after `start_s`, and at `end_s` at the latest."""
        kept = _between(self.ended_s, start_s, end_s)
        return type(self)(
            self.ended_s[kept], self.latency_us[kept], self.lag_us[kept],
            self.skipped_s[_between(self.skipped_s, start_s, end_s)],
            self.failed_s[_between(self.failed_s, start_s, end_s)],
        )  # fmt: skip

    def begun_at_earliest(self, start_s: float) -> Self:
        """Returns the transactions with shorter latencies: the time that a transaction waited before `start_s` does not
        count.
        """
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
        """How late transactions began, in seconds: the mean and the longest time."""
        return (float(self.lag_us.mean()) * _US, float(self.lag_us.max()) * _US) if self.number else None

    @property
    def span_s(self) -> tuple[float, float]:
        """The beginning of the first transaction, and the end of the last one."""
        return float((self.ended_s - self.latency_us * _US).min()), float(self.ended_s.max())

    def latency(self) -> Latency | None:
        values, counts = np.unique(self.latency_us, return_counts=True)
        return latency_of((round(value * _NS_PER_US), int(count)) for value, count in zip(values, counts, strict=True))

    def series(self, edges_s: Sequence[float]) -> dict[str, tuple[float | None, ...]]:
        """Returns columns of a time series over the intervals between the edges: the transactions per second, and their
        p99.
        """
        order = np.argsort(self.ended_s)
        ended_s, latency_us = self.ended_s[order], self.latency_us[order]
        places = np.searchsorted(ended_s, edges_s, side="right")
        per_s, p99_s = list[float | None](), list[float | None]()
        for first, last, start_s, end_s in zip(places, places[1:], edges_s, edges_s[1:], strict=False):
            number = int(last - first)
            per_s.append(number / (end_s - start_s) if end_s > start_s else None)
            p99_s.append(float(np.percentile(latency_us[first:last], 99)) * _US if number >= P99_LEAST else None)
        return {"transactions_per_s": tuple(per_s), "latency_p99_s": tuple(p99_s)}


def joined(parts: Sequence[Transactions]) -> Transactions:
    """Joins the transactions of several logs."""
    if not parts:
        return Transactions(*(np.empty(0) for _ in Transactions._fields))
    return Transactions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _between(moments_s: Numbers, start_s: float, end_s: float) -> NDArray[np.bool_]:
    return (moments_s > start_s) & (moments_s <= end_s)


# --- watched and unwatched periods -----------------------------------------------------------------------------------
# The transactions of a run in periods without sampling and in periods with sampling.


def in_turns(
    counted: LoadReport, unwatched: Sequence[Sequence[float]], start_s: float, end_s: float
) -> tuple[Latency | None, Turns | None]:
    """Returns the latencies that count, and figures of both kinds of periods. If one kind has no transactions, all
    latencies count, and the figures are None.

    A transaction belongs to the period in which it ended.
    """
    rests = [(max(begins_s, start_s), min(ends_s, end_s)) for begins_s, ends_s in unwatched]
    rests = [(begins_s, ends_s) for begins_s, ends_s in rests if begins_s < ends_s]
    if not rests:
        return counted.latency(), None
    looks = list(zip([start_s, *(end for _, end in rests)], [*(begin for begin, _ in rests), end_s], strict=True))
    free, seen = (joined([counted.log.within(*one) for one in stretches]) for stretches in (rests, looks))
    if not free.number or not seen.number:
        return counted.latency(), None
    free_s, seen_s = (sum(end - begin for begin, end in stretches) for stretches in (rests, looks))
    return free.latency(), Turns(
        unwatched_s=free_s, unwatched_transactions=free.number, watched_s=seen_s, watched_transactions=seen.number,
        watched_latency=seen.latency(),
    )  # fmt: skip


# --- the log ---------------------------------------------------------------------------------------------------------
#
# The log with the end of each transaction. It has the format of pgbench, and sysbench's wrapper script writes the same.
#
# Each thread writes its own file. A line has the client, the transaction's number, its latency in us (or a word), the
# script, and the seconds and microseconds of its end. If there is a rate, the lag in us follows (pgbench's manual,
# "Per-Transaction Logging").


LOG_PREFIX = "transactions"
"""How the names of pgbench's log files begin. pgbench opens these files after its first session, which reads the scale,
has ended, and before it connects the load's sessions."""
_EPOCH, _EPOCH_US, _LATENCY, _LAG = 4, 5, 2, 6
_SKIPPED, _FAILED = -1.0, -2.0


def read_log(folder: Path) -> Transactions:
    """Reads the transactions of all threads."""
    return joined([_read(read_file(file)) for file in sorted(folder.glob(f"{LOG_PREFIX}.*"))])


def _read(text: bytes) -> Transactions:
    """Reads one file of the log. Incomplete lines are left out."""
    whole = text[: text.rfind(b"\n") + 1]
    if not whole:
        return joined([])
    columns = len(whole[: whole.find(b"\n")].split())
    plain = whole.replace(b"skipped", b"-1").replace(b"failed", b"-2")
    rows = np.array(plain.split(), dtype=np.float64).reshape(-1, columns)
    ended_s = rows[:, _EPOCH] + rows[:, _EPOCH_US] / 1e6
    latency_us = rows[:, _LATENCY]
    lag_us = rows[:, _LAG] if columns > _LAG else np.zeros(len(rows))
    done = latency_us >= 0
    return Transactions(
        ended_s[done], latency_us[done], lag_us[done], ended_s[latency_us == _SKIPPED], ended_s[latency_us == _FAILED]
    )


def in_lua(module: str) -> str:
    """Returns a sysbench script that does the same as the script `module`, and writes the log. If a transaction is
    tried again, all tries count as one transaction, which begins with the first try.
    """
    return _IN_LUA.replace("MODULE", module).replace("PREFIX", LOG_PREFIX)


_IN_LUA = Path(__file__).with_name("timed.lua").read_text("utf-8")
