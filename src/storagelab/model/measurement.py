"""The raw counts of a run. All other figures are derived from these counts when they are read.

Times are in seconds. Times that a kernel counts are in whole nanoseconds."""

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
# The latencies of a run's operations are stored as a histogram, so that runs can be merged.
#
# Percentiles of several runs come from the merged histogram; an average of percentiles would have no meaning.

_BITS = 8
BIN_ERROR = 2.0**-_BITS / 2
"""The width of a bin is at most 2^-8 of its latency. So the middle of a bin differs by at most 0.2 % from every latency
in the bin."""


class Latency(Frozen):
    """A histogram of latencies in nanoseconds. `values_ns` has the middles of the bins, in ascending order. `counts`
    has the number of operations in each bin. The sum and the extremes are exact."""

    values_ns: tuple[Count, ...]
    """The middle of each bin, in ascending order."""
    counts: tuple[Count, ...]
    """The number of operations in each bin."""
    total_ns: Count
    """The sum of all latencies."""
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
        """Returns the latency in seconds that `per_cent` of the operations did not exceed (nearest-rank method)."""
        rank = max(1.0, per_cent / 100 * self.operations)
        for value, so_far in zip(self.values_ns, accumulate(self.counts), strict=True):
            if so_far >= rank:
                return min(max(value, self.least_ns), self.longest_ns) / 1e9
        return self.longest_ns / 1e9


def middle_of_bin(ns: int) -> int:
    """Returns the middle of the bin that holds a latency. All histograms have the same bins, so they can be merged
    without loss.
    """
    shift = max(0, ns.bit_length() - _BITS - 1)
    return (ns >> shift << shift) + (1 << shift >> 1)


def latency_of(counted: Iterable[tuple[int, int]], exact: tuple[int, int, int] | None = None) -> Latency | None:
    """Makes a histogram of pairs (latency in ns, number of operations). Returns None if there are no operations.

    `exact` has the sum, the shortest and the longest latency in ns, if the source gives them more exactly than the
    pairs do.
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
    """Makes a histogram of a table that the Rust core returns (crates/sim/src/raw_io/latency.rs)."""
    exact = (round(table["mean_ns"] * table["count"]), table["least_ns"], table["longest_ns"])
    return latency_of(((ns, count) for ns, count in table["histogram"]), exact)


def merged(latencies: Iterable[Latency]) -> Latency | None:
    """Returns one histogram of the operations of all given runs, or None if there are none."""
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
"""The group of counters that holds the results of a run of raw I/O."""
RAW_IO_BESIDE = "raw-io beside the load"
"""The group of counters that holds the I/O rates of a database's volumes: `volume.NAME.random_write_ios_per_s` and so
on."""
RAW_IO_AT_DRIVE = "raw-io at the drive"
"""The group of counters that holds fio's counts and the kernel's counts of the same requests."""
GENERATOR = "generator"
"""The group of counters that holds a load generator's other figures beside its transactions: `NOT_AT_ONCE`, `skipped`,
`lag_mean_s`, `lag_max_s` and `warm_up_s`."""
NOT_AT_ONCE: Mapping[str, str] = {
    "failed": "refused by the server",
    "retried": "made again after an error",
    "reconnects": "made again after a lost connection",
}
"""Counters of transactions that failed, or that succeeded only when they were repeated. Maps each counter's name to a
text on these transactions."""
REFUSED_MOST = 0.05
"""If a larger share of a run's transactions was refused or repeated, the run is `unverified`. Deadlocks of sysbench in
small tables reach 3 %."""
LOAD = "load"
"""The group of counters that holds `counts_after_s`: when the measurement started, in seconds since the load began."""
CYCLES = "checkpoint cycles"
"""The group of counters that holds the checkpoints of a generator's run: their numbers `in_warm_up` and
`while_counted`, and the number of `whole` cycles in the measured part. `whole` is 0 if the measured part also contains
parts of cycles."""
LOG_ROOM = "log room"
"""The group of counters that holds the use of the redo log during a generator's run. `begin_share` and `end_share` are
the used shares of `all_bytes` at the start and at the end of the measurement. `full_after_s` is the time from the start
until the log was full, if it became full."""
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
    """A requested property of a server or a file system, with the value that was read back. `ok` is None if the value
    could not be read.
    """

    name: str
    asked: str
    got: str
    ok: bool | None
    read_from: str


class Page(NamedTuple):
    """The number of a page as SQL Server gives it: the database, the file, and the page within the file."""

    database_id: int
    file_id: int
    page_id: int


PFS_PAGE = "a PFS page"


class Resource(Frozen):
    """A resource that sessions wait for. It has a kind and, if known, an identity."""

    kind: str
    """The kind of the resource, such as "a PFS page" or "end of transaction"."""
    page: Page | None = None
    name: str = ""
    """The identity of the resource within its kind, such as the "7" in "end of transaction 7". Empty for a page."""

    @property
    def text(self) -> str:
        if self.page is not None:
            return f"{':'.join(map(str, self.page))}, {self.kind}"
        return f"{self.kind} {self.name}" if self.name else self.kind


_PAGE = re.compile(r"(\d+):(\d+):(\d+), (an? .+)")
_NAMED = re.compile(r"(.+?) ((?:no\. )?\d+)")


@lru_cache(4096)
def resource_of(text: str) -> Resource:
    """Makes the resource that `Resource.text` describes."""
    if page := _PAGE.fullmatch(text):
        return Resource(kind=page[4], page=Page(int(page[1]), int(page[2]), int(page[3])))
    named = _NAMED.fullmatch(text)
    return Resource(kind=named[1], name=named[2]) if named else Resource(kind=text)


class WaitingTask(Frozen):
    """A wait that a sample found: `sessions` sessions waited for one resource."""

    at_s: Figure
    """Seconds since the start of the run."""
    wait_type: str
    resource: Resource
    sessions: Count
    data_file: Count | None = None
    held_by: str = ""
    """What the holder of the resource does, if known."""

    @field_validator("resource", mode="before")
    @classmethod
    def _as_stored(cls, resource: object) -> object:
        """Also accepts the text form that earlier versions stored."""
        return resource_of(resource) if isinstance(resource, str) else resource


class CountedCrowd(Frozen):
    """The sessions that waited for resources of one kind. They are counted at every wait of a run, and not only in
    samples.
    """

    wait_type: str
    kind: str
    """The kind of the resource, as in `Resource`."""
    sessions_mean: Figure
    """The mean number of these sessions over the run. For each wait type, the sum of these means is its wait time
    divided by the elapsed time.
    """
    sessions_most: Count
    """The largest number of sessions that waited at the same time."""
    time_share: Figure
    """The share of the run's time in which at least one session waited."""


class TimeSeries(Frozen):
    """Columns of equal length. `at_s` has the end of each interval. An interval is a second of a measured run, and
    longer in a long simulated run. `columns` maps names (`rows_per_s`, `volume.a.write_bytes_per_s`, with the unit
    last) to the values over each interval.
    """

    at_s: tuple[Figure, ...] = ()
    columns: dict[str, tuple[float | None, ...]] = Field(default_factory=dict)


class ObserverCost(Frozen):
    """The cost of observing. It has the CPU seconds of the sampler, those of the sampler's own server session (None if
    unknown), the number of samples (`ticks`) and the number of late samples. `blind_s` is the total of the gaps in
    which samples were so late that the server or the machine must have stood still.
    """

    sampler_cpu_s: Figure
    session_cpu_s: Figure | None
    ticks: Count
    late_ticks: Count = 0
    blind_s: Figure = 0.0


class Turns(Frozen):
    """The work of a load in alternating periods with sampling (watched) and without sampling (unwatched)."""

    unwatched_s: Figure
    unwatched_transactions: Count
    watched_s: Figure
    watched_transactions: Count
    watched_latency: Latency | None = None
    """The latency in the periods with sampling. The run's own latency is that of the periods without sampling."""


class Measurement(Frozen):
    """One run as a target returns it."""

    provenance: Provenance
    """The source of the figures."""
    elapsed_s: Figure
    """The time from the first start to the last finish of the run's connections, by the server's clock."""
    rows: Count | None = None
    """The number of rows that a database load inserted."""
    requests: Count | None = None
    """The number of requests that raw I/O completed."""
    transactions: Count | None = None
    """The number of transactions that a load generator committed."""
    checkpoint_s: Figure | None = None
    """The time of the checkpoint after the run, which is not part of `elapsed_s`."""
    connection_s: tuple[Figure, ...] = ()
    """The time from start to finish, for each connection."""
    latency: Latency | None = None
    """The latencies of the run's requests or transactions. If periods with and without sampling alternate, only the
    periods without sampling count."""
    waits: RawWaits | None = None
    """Waits as the engine counted them, or from samples of its sessions."""
    waiting_tasks: tuple[WaitingTask, ...] = ()
    """The waits that samples of the sessions found."""
    crowds: tuple[CountedCrowd, ...] = ()
    """The sessions that waited in a simulated run. The longest waits come first."""
    counters: dict[str, dict[str, float]] = Field(default_factory=dict)
    """How much each counter grew over the run: group -> name -> value. Names end with the unit ([list](#counters))."""
    series: TimeSeries = TimeSeries()
    """How figures changed during the run."""
    environment: dict[str, object] = Field(default_factory=dict)
    """The host, the volumes, the server with its settings, and storagelab's version. All are read at this run."""
    durability: Durability | None = None
    """Which data survive a crash. None without a server."""
    checks: tuple[Check, ...] = ()
    """The requested values, with the values that were read back."""
    observer: ObserverCost | None = None
    """The cost of observing."""
    turns: Turns | None = None
    """The work in periods with and without sampling. None if the run had only one of the two kinds of periods."""
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
        """The work per second. If there are periods without sampling, only they count. None if no time passed."""
        return self.unwatched_work / self.elapsed_s if self.elapsed_s > 0 else None

    @property
    def unwatched_work(self) -> float:
        """The work that the run would have done without sampling. If this is not known, the work that it did."""
        turns = self.turns
        return self.work.amount if turns is None else turns.unwatched_transactions / turns.unwatched_s * self.elapsed_s

    @property
    def unverified(self) -> tuple[Check, ...]:
        """The checks that failed: the value differs from the requested value, or could not be read back."""
        return tuple(check for check in self.checks if check.ok is not True)


def refused_share(counted: Mapping[str, float], transactions: int) -> float:
    """Returns the share of refused or repeated transactions among all attempts, by a generator's counters."""
    number = sum(counted.get(name, 0.0) for name in NOT_AT_ONCE)
    return number / (number + transactions) if number else 0.0


HELD_BACK: Mapping[str, str] = {"server": "the server", "load": "the load's own program", "storagelab": "storagelab"}
"""The programs that control groups can throttle. Maps the word in the counters' names to the words for users."""


def held_back(counters: Mapping[str, float], elapsed_s: float) -> dict[str, tuple[float, float]]:
    """Returns the programs that a CPU quota throttled. Each has the throttled seconds, summed over CPUs, and a bound on
    the share of the run that was lost. Both come from the run's counters of CPU time.

    A process on one CPU loses exactly the throttled share of the elapsed time. A program on several CPUs loses at most
    the throttled time divided by the needed CPU time (used plus throttled). Each of the two shares is an upper bound of
    the loss, so the smaller one is returned.
    """
    found = {}
    for who in HELD_BACK:
        throttled_s = counters.get(f"{who}_throttled_s", 0.0)
        if throttled_s > 0:
            wanted_s = throttled_s + counters.get(f"{who}_group_cpu_s", 0.0)
            found[who] = throttled_s, throttled_s / max(elapsed_s, wanted_s)
    return found


NO_TIME = "no time passed between its first start and its last finish"
"""The reason why a run fails if its elapsed time is zero: nothing can be divided by this time."""


_MOST_RUNS = 1_000_000_000


class Run(Frozen):
    """One run in the store. `measurement` is None if the run failed before it was measured."""

    cell_id: str
    repetition: int = Field(ge=-_MOST_RUNS, le=_MOST_RUNS)
    """The number of the run among the runs of its cell, from 1. Burn-in runs have 0, -1, -2 and so on."""
    attempt: int = Field(1, ge=1, le=_MOST_RUNS)
    """The number of the attempt, from 1. If a failed run is repeated, the new attempt has the next number."""
    sequence: int = Field(ge=0, le=_MOST_RUNS)
    """The run's place in the order, from 0."""
    block: int = Field(0, ge=0, le=_MOST_RUNS)
    """The number of the block: all runs that follow one preparation of the drives."""
    seed: int = Field(0, ge=0, lt=2**63)
    """The random seed of the run."""
    status: Status
    """`unverified` means: the run was measured, but a value differs from the spec, or could not be read."""
    reason: str = ""
    """The reason why the run is not `ok`."""
    started_at: str
    """The time at which the run began, in ISO 8601, UTC."""
    finished_at: str
    """The time at which the run ended, in ISO 8601, UTC."""
    wall_s: Figure
    """The time of the run, including set-up and clean-up."""
    levels: dict[str, JsonValue]
    config: Config
    measurement: Measurement | None = None

    @property
    def burn_in(self) -> bool:
        """Whether the run is one of the first runs on newly prepared drives. Such runs are not judged."""
        return self.repetition < 1

    @property
    def usable(self) -> bool:
        """Whether analysis may use the run's figures. It may if the run is ok, and also if a check could not confirm a
        value.
        """
        return self.measurement is not None and self.status != "failed"


def host_of(run: Run) -> str:
    """Returns the name of the host of a run, or "" if there is none.

    This is the name that the user gave to the host, or else the system's name. The system's name of a container is
    random, so it is not used.
    """
    host = run.measurement.environment.get("host") if run.measurement is not None else None
    if not isinstance(host, Mapping):
        return ""
    return str(host.get("name") or ("" if host.get("container") else host.get("hostname")) or "")


PREPARATION = "preparation"
"""The name of the entry in a run's environment that describes the preparation of its volumes, if volumes are kept for
several runs."""


def preparation_of(run: Run) -> str:
    """Returns the id of the preparation of a run's volumes within its block, or "" if there is none."""
    facts = run.measurement.environment.get(PREPARATION) if run.measurement is not None else None
    return str(facts.get("id", "")) if isinstance(facts, Mapping) else ""
