"""The raw counts of a run. Everything else is derived from these figures when they are read.

Times are in seconds, or in whole nanoseconds if a kernel counts them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from storagelab.model.config import Config
from storagelab.model.durability import Durability
from storagelab.model.engines import Provenance
from storagelab.model.loads.base import Work
from storagelab.model.values import Count, Figure, Frozen, JsonValue
from storagelab.model.waits import RawWaits

# --- latencies, as a histogram ----------------------------------------------------------------------------------------
# The latencies of a run's operations are a histogram, so that runs can be merged, and percentiles come from all runs
# together.
#
# Percentiles of several runs come from the merged histogram; an average of percentiles would have no meaning.

_BITS = 8
BIN_ERROR = 2.0**-_BITS / 2
"""The width of a bin is at most 2^-8 of its latency, so the middle of a bin is within 0.2 % of every latency in it."""


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
    """The middle of the bin that holds a latency. All histograms have the same bins, so they merge without loss."""
    shift = max(0, ns.bit_length() - _BITS - 1)
    return (ns >> shift << shift) + (1 << shift >> 1)


def latency_of(counted: Iterable[tuple[int, int]], exact: tuple[int, int, int] | None = None) -> Latency | None:
    """The histogram of pairs (latency in ns, operations); None if there are none.

    `exact` has the sum, the shortest and the longest latency in ns, if the source knows these more exactly than the
    pairs.
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


# --- a run ------------------------------------------------------------------------------------------------------------

RAW_IO = "raw-io"
"""The group of counters with the results of a run of raw I/O."""
RAW_IO_BESIDE = "raw-io beside the load"
"""The group of counters with the I/O rates of a database's volumes: `volume.NAME.random_write_ios_per_s` and so on.
"""
RAW_IO_AT_DRIVE = "raw-io at the drive"
"""The group of counters with fio's and the kernel's counts of the same requests."""
GENERATOR = "generator"
"""The group of counters with a load generator's figures other than transactions: `NOT_AT_ONCE`, `skipped`,
`lag_mean_s`, `lag_max_s` and `warm_up_s`.
"""
NOT_AT_ONCE: Mapping[str, str] = {
    "failed": "refused by the server",
    "retried": "made again after an error",
    "reconnects": "made again after a lost connection",
}
"""Transactions that were not done, or not at once: the counter's name -> a text on these transactions."""
REFUSED_MOST = 0.05
"""A run in which a larger share of transactions was refused or made again is `unverified`. Deadlocks of sysbench in
small tables reach 3 %."""
LOAD = "load"
"""The group of counters with `counts_after_s`: the start of the measurement, in seconds since the load began."""
CYCLES = "checkpoint cycles"
"""The group of counters with the checkpoints of a generator's run: the numbers `in_warm_up` and `while_counted`, and
the number of `whole` cycles in the measured part (0 if it contains parts of cycles).
"""
LOG_ROOM = "log room"
"""The group of counters with the use of the redo log during a generator's run: the used shares of `all_bytes` at the
start and the end of the measurement (`begin_share`, `end_share`), and `full_after_s`, the time from the start until the
log was full, if it became full.
"""
SETTLED = "throughput"
"""The name of the check that fails if throughput was not stable before the end of an automatic warm-up."""
BEHIND_RATE = "rate"
"""The name of the check that fails if a run fell behind its rate of transactions."""
WATCHED = "watching"
"""The name of the check that fails if a part of a run was not sampled."""
THROTTLED = "CPU quota"
"""The name of the check that fails if control groups throttled the server or its load for a large part of the run."""
REFUSED = "refused transactions"
"""The name of the check that fails if the share of transactions that were refused or made again is above
`REFUSED_MOST`.
"""
CLOCK = "the server's clock"
"""The name of the check that fails if the clock that times a run was changed during the run."""
AWAKE = "this machine"
"""The name of the check that fails if the machine was suspended during the run."""
REWRITTEN = "objects rewritten meanwhile"
"""The name of the check that lists tables and indexes that got new files during the run, or were dropped."""
Status = Literal["ok", "failed", "unverified"]


class Check(Frozen):
    """A requested property of server or file system, and the value read back. `ok` is None if it was unreadable."""

    name: str
    asked: str
    got: str
    ok: bool | None
    read_from: str


class Page(NamedTuple):
    """A page, as SQL Server numbers it: database, file, and page within the file."""

    database_id: int
    file_id: int
    page_id: int


PFS_PAGE = "a PFS page"


class Resource(Frozen):
    """A resource that sessions wait for: its kind and, if known, its identity."""

    kind: str
    """The kind of the resource: "a PFS page", "end of transaction"."""
    page: Page | None = None
    name: str = ""
    """The identity of the resource within its kind, unless it is a page: the "7" in "end of transaction 7"."""

    @property
    def text(self) -> str:
        if self.page is not None:
            return f"{':'.join(map(str, self.page))}, {self.kind}"
        return f"{self.kind} {self.name}" if self.name else self.kind


_PAGE = re.compile(r"(\d+):(\d+):(\d+), (an? .+)")
_NAMED = re.compile(r"(.+?) ((?:no\. )?\d+)")


@lru_cache(4096)
def resource_of(text: str) -> Resource:
    """The resource that `Resource.text` describes."""
    if page := _PAGE.fullmatch(text):
        return Resource(kind=page[4], page=Page(int(page[1]), int(page[2]), int(page[3])))
    named = _NAMED.fullmatch(text)
    return Resource(kind=named[1], name=named[2]) if named else Resource(kind=text)


class WaitingTask(Frozen):
    """A wait in a sample: `sessions` sessions wait for one resource."""

    at_s: Figure
    """Seconds since the start of the run."""
    wait_type: str
    resource: Resource
    sessions: Count
    data_file: Count | None = None
    held_by: str = ""
    """The holder's activity, if known."""

    @field_validator("resource", mode="before")
    @classmethod
    def _as_stored(cls, resource: object) -> object:
        """Accepts the text that earlier versions stored."""
        return resource_of(resource) if isinstance(resource, str) else resource


class CountedCrowd(Frozen):
    """The sessions that waited for resources of one kind, counted at every wait of a run and not only in samples."""

    wait_type: str
    kind: str
    """The kind of the resource, as in `Resource`."""
    sessions_mean: Figure
    """The mean number of sessions over the run. A wait type's means add up to its time / elapsed time."""
    sessions_most: Count
    """The most sessions that waited at once."""
    time_share: Figure
    """The share of the run's time in which at least one session waited."""


class TimeSeries(Frozen):
    """Columns of equal length. `at_s` is the end of each interval (a second of a measured run, more in a long
    simulated one). `columns` maps a name with its unit last (`rows_per_s`, `volume.a.write_bytes_per_s`) to values
    over that interval.
    """

    at_s: tuple[Figure, ...] = ()
    columns: dict[str, tuple[float | None, ...]] = Field(default_factory=dict)


class ObserverCost(Frozen):
    """The cost of observing: CPU seconds of the sampler and of its own server session (None if unknown), the number of
    samples (`ticks`) and of late samples. `blind_s` is the sum of times in which samples were so late that something
    must have stood still.
    """

    sampler_cpu_s: Figure
    session_cpu_s: Figure | None
    ticks: Count
    late_ticks: Count = 0
    blind_s: Figure = 0.0


class Turns(Frozen):
    """The work of a load in alternating periods without sampling (unwatched) and with sampling (watched)."""

    unwatched_s: Figure
    unwatched_transactions: Count
    watched_s: Figure
    watched_transactions: Count
    watched_latency: Latency | None = None
    """The latency of the periods with sampling; the run's latency is that of the periods without sampling."""


class Measurement(Frozen):
    """One run as a target returns it."""

    provenance: Provenance
    """The source of the figures."""
    elapsed_s: Figure
    """From the first start to the last finish of its connections, by the server's clock."""
    rows: Count | None = None
    """Rows inserted by a database load."""
    requests: Count | None = None
    """Requests done by raw I/O."""
    transactions: Count | None = None
    """Transactions that a load generator committed."""
    checkpoint_s: Figure | None = None
    """The time of the checkpoint after the run, which is not part of `elapsed_s`."""
    connection_s: tuple[Figure, ...] = ()
    """The time from start to finish of each connection."""
    latency: Latency | None = None
    """The latencies of the run's requests or transactions; if periods with and without sampling alternate, only those
    of periods without sampling."""
    waits: RawWaits | None = None
    """Waits as the engine counted them, or as its sessions were sampled."""
    waiting_tasks: tuple[WaitingTask, ...] = ()
    """The waits of sessions at some moments."""
    crowds: tuple[CountedCrowd, ...] = ()
    """Of a simulated run, the longest waits first."""
    counters: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Differences over the run: group -> name -> value, units last in names ([list](#counters))."""
    series: TimeSeries = TimeSeries()
    """Time series."""
    environment: dict[str, object] = Field(default_factory=dict)
    """Host, volumes, server with its settings, and storagelab's version, as found at this run."""
    durability: Durability | None = None
    """Which data survive a crash; None without a server."""
    checks: tuple[Check, ...] = ()
    """The requested values and the values that were read back."""
    observer: ObserverCost | None = None
    """The cost of observing."""
    turns: Turns | None = None
    """The work in periods with and without sampling; None if the run was sampled all the time, or not at all."""
    setup_s: Figure | None = None
    """The time to prepare the run."""
    teardown_s: Figure | None = None
    """The time to clean up after the run."""

    @model_validator(mode="after")
    def _has_one_unit(self) -> Self:
        if sum(amount is not None for amount in (self.rows, self.requests, self.transactions)) != 1:
            raise ValueError("must have either rows, requests or transactions")
        return self

    @property
    def work(self) -> Work:
        """The work of the run."""
        if self.rows is not None:
            return Work(amount=self.rows, unit="rows")
        if self.transactions is not None:
            return Work(amount=self.transactions, unit="transactions")
        return Work(amount=self.requests or 0, unit="requests")

    @property
    def work_per_s(self) -> float | None:
        """Work a second, in periods without sampling if there are any; None if no time passed."""
        return self.unwatched_work / self.elapsed_s if self.elapsed_s > 0 else None

    @property
    def unwatched_work(self) -> float:
        """The work that the run would have done without sampling, if known."""
        turns = self.turns
        return self.work.amount if turns is None else turns.unwatched_transactions / turns.unwatched_s * self.elapsed_s

    @property
    def unverified(self) -> tuple[Check, ...]:
        """The checks whose value differs from the requested value, or could not be read back."""
        return tuple(check for check in self.checks if check.ok is not True)


def refused_share(counted: Mapping[str, float], transactions: int) -> float:
    """Transactions that were refused or repeated, by a generator's counters, as a share of all attempts."""
    number = sum(counted.get(name, 0.0) for name in NOT_AT_ONCE)
    return number / (number + transactions) if number else 0.0


HELD_BACK: Mapping[str, str] = {"server": "the server", "load": "the load's own program", "storagelab": "storagelab"}
"""The programs that control groups can throttle: the word in the counters' names -> its meaning."""


def held_back(counters: Mapping[str, float], elapsed_s: float) -> dict[str, tuple[float, float]]:
    """The programs that a CPU quota throttled, by the run's counters of CPU time: the seconds, summed over CPUs, and
    the share of the run.

    A process on one CPU loses as much of the run as it was throttled. On several CPUs, the share is the throttled time
    over the needed CPU time (used plus throttled). Each share is an upper bound of the loss, so the smaller one is
    returned.
    """
    found = {}
    for who in HELD_BACK:
        throttled_s = counters.get(f"{who}_throttled_s", 0.0)
        if throttled_s > 0:
            wanted_s = throttled_s + counters.get(f"{who}_group_cpu_s", 0.0)
            found[who] = throttled_s, throttled_s / max(elapsed_s, wanted_s)
    return found


NO_TIME = "no time passed between its first start and its last finish"
"""The reason for a failed run whose elapsed time is zero: nothing can be divided by it."""


_MOST_RUNS = 1_000_000_000


class Run(Frozen):
    """One run in the store. `measurement` is None if the run failed before there was one."""

    cell_id: str
    repetition: int = Field(ge=-_MOST_RUNS, le=_MOST_RUNS)
    """From 1; repetitions of a burn-in count down from 0."""
    attempt: int = Field(1, ge=1, le=_MOST_RUNS)
    """From 1; if a failed run is repeated, the new attempt has the next number."""
    sequence: int = Field(ge=0, le=_MOST_RUNS)
    """The run's place in the order, from 0."""
    block: int = Field(0, ge=0, le=_MOST_RUNS)
    """The block: runs on one formatting of the drives."""
    seed: int = Field(0, ge=0, lt=2**63)
    """Its random seed."""
    status: Status
    """`unverified`: measured, but some value differs from the spec, or could not be read."""
    reason: str = ""
    """The reason why the run is not `ok`."""
    started_at: str
    """ISO 8601, UTC."""
    finished_at: str
    """ISO 8601, UTC."""
    wall_s: Figure
    """The time of the run, including set-up and clean-up."""
    levels: dict[str, JsonValue]
    config: Config
    measurement: Measurement | None = None

    @property
    def burn_in(self) -> bool:
        """Whether the run is one of the first on newly prepared drives, which are not judged."""
        return self.repetition < 1

    @property
    def usable(self) -> bool:
        """Whether analysis may use the run's figures: it is ok, or only some setting could not be confirmed."""
        return self.measurement is not None and self.status != "failed"


def host_of(run: Run) -> str:
    """The name that distinguishes the host of a run from others; "" if it is unknown, or has none.

    It is the name that the user gave it or, except in a container, the system's name. A container's name is random, so
    it is not used.
    """
    host = run.measurement.environment.get("host") if run.measurement is not None else None
    if not isinstance(host, Mapping):
        return ""
    return str(host.get("name") or ("" if host.get("container") else host.get("hostname")) or "")


PREPARATION = "preparation"
"""The entry of a run's environment with the preparation of its volumes, if volumes are kept for several runs."""


def preparation_of(run: Run) -> str:
    """The id of the preparation of a run's volumes within its block; "" if there is none."""
    facts = run.measurement.environment.get(PREPARATION) if run.measurement is not None else None
    return str(facts.get("id", "")) if isinstance(facts, Mapping) else ""
