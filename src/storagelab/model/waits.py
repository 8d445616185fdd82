"""Wait statistics in one form for every engine, and the calculations with them.

A target returns raw counts. It returns `SampledWaits` if the engine shows only what each session waits for at the
moment, and `CountedWaits` if the engine keeps exact counters. `normalise` converts both to `WaitStat` rows.
`wait_table` converts these rows to the nine columns that DBAs know. In all of them:

    wait = resource + signal        resource: waiting for the resource; signal: resource ready, waiting for a CPU

If it is unknown how a wait splits into the two parts, each part is None, never 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from storagelab.model.values import Count, Figure, Frozen

NS = 1e-9
NO_EVENT = ""
"""The wait type of a sample for which the engine named no wait."""
RUNNABLE_NO_EVENT = "RUNNABLE_NO_EVENT"
ON_CPU = "ON_CPU"
ON_CPU_OR_RUNNABLE = "ON_CPU_OR_RUNNABLE"
UNSAMPLED = "UNSAMPLED"
UNINSTRUMENTED = "UNINSTRUMENTED"
"""Time that an engine's own timers don't cover, and that was spent neither on a CPU nor in its queue."""
UNINSTRUMENTED_OR_CPU = "UNINSTRUMENTED_OR_CPU"

Category = Literal[
    "data-read", "data-write", "commit", "log-buffer", "allocation", "file-growth", "page-latch", "latch", "lock",
    "cpu-queue", "cpu", "network", "other",
]  # fmt: skip
"""Categories of wait types. Wait types of different engines are matched by their category."""
FOR_CLIENT: Category = "network"
"""The category of waits for the client. The session is idle then, and does not queue for storage."""
Method = Literal["counter", "sampled", "derived"]
"""The source of a figure: the engine's exact counter, samples, or a calculation from other figures (such as a remainder
or a kernel counter)."""


class EventTicks(Frozen):
    """The number of samples that found a session in one wait. `blocked` and `runnable` count samples by the session's
    state in the kernel at that moment. `unknown` counts samples whose state could not be read. `timeslices` counts how
    many times a session got a CPU while the sampler read the event. This is a rough measure of the number of waits that
    ended.
    """

    wait_type: str
    analogue: str = ""
    """The SQL Server wait type that a DBA would look for."""
    category: Category = "other"
    in_io: bool = False
    """Whether the engine counts CPU time inside this call as part of the wait."""
    blocked: Count = Field(0, ge=0)
    runnable: Count = Field(0, ge=0)
    unknown: Count = Field(0, ge=0)
    timeslices: Count = Field(0, ge=0)

    @property
    def ticks(self) -> int:
        return self.blocked + self.runnable + self.unknown


class SampledWaits(Frozen):
    """The samples of one run, with the kernel's exact totals if they were available.

    `busy_s` is the sum, over all connections, of the time from start to finish. `cpu_s` and `runqueue_s` are the
    kernel's totals of the same sessions over the same time. If these are not available, they are None, and
    `no_split_reason` gives the reason.
    """

    form: Literal["sampled"] = "sampled"
    connections: Count = Field(ge=1)
    elapsed_s: Figure = Field(ge=0)
    busy_s: Figure = Field(ge=0)
    passes: Count = Field(ge=0)
    """The number of times that all sessions were sampled."""
    events: tuple[EventTicks, ...]
    cpu_s: Figure | None = None
    runqueue_s: Figure | None = None
    voluntary_switches: Count | None = None
    involuntary_switches: Count | None = None
    cpus: Count | None = Field(None, ge=1)
    """The number of CPUs of the server's machine, if the sampler runs on the same machine."""
    no_split_reason: str = ""


class CountedWait(Frozen):
    """One wait type as an engine counts it, in nanoseconds. `signal_ns` is None if the engine doesn't split waits.
    `wait_count` is None if the engine's counts are not counts of waits. (MariaDB counts each acquisition, even without
    a wait.)
    """

    wait_type: str
    analogue: str = ""
    category: Category = "other"
    wait_ns: Count = Field(ge=0)
    signal_ns: Count | None = Field(None, ge=0)
    wait_count: Count | None = Field(ge=0)


class CountedWaits(Frozen):
    """The exact counters of one run: how much they grew over the run, summed over its connections.

    If an engine's timers leave gaps, sessions were sampled as well. Then `events` holds three kinds of samples: those
    of each timed wait, which give its resource and signal parts; those of waits without a timer; and those of
    `NO_EVENT`.
    """

    form: Literal["counted"] = "counted"
    connections: Count = Field(ge=1)
    elapsed_s: Figure = Field(ge=0)
    busy_s: Figure = Field(ge=0)
    rows: tuple[CountedWait, ...]
    cpu_s: Figure | None = None
    runqueue_s: Figure | None = None
    passes: Count = Field(0, ge=0)
    events: tuple[EventTicks, ...] = ()
    cpus: Count | None = Field(None, ge=1)
    no_split_reason: str = ""


RawWaits = Annotated[SampledWaits | CountedWaits, Field(discriminator="form")]


class WaitStat(Frozen):
    """One row of wait statistics, before small waits are cut off."""

    wait_type: str
    """The engine's own name."""
    analogue: str = ""
    """The SQL Server wait type that a DBA would look for, or empty."""
    category: Category = "other"
    """The category, by which waits of different engines are matched
    ([list](../explanation/waits.md#joining-engines)).
    """
    method: Method
    """The source of the figures. `counter` means that the engine itself counts them exactly."""
    wait_s: float
    """The wait time, summed over all connections. It is `resource_s` + `signal_s` if both are known."""
    resource_s: float | None = None
    """The time of waiting for the resource. None if it can't be separated from the rest."""
    signal_s: float | None = None
    """The time in which the resource was available, but no CPU was free. None if it is unknown."""
    wait_count: float | None = None
    """The number of waits. If waits are sampled, this is a rough share of a total. None if it is unknown."""
    is_wait: bool = True
    """False for CPU time. The audit needs CPU time beside the waits."""


class Conservation(Frozen):
    """The audit of one run: whether waits and CPU time add up to connections x elapsed time.

    `seen_s` was observed independently of this total, so it may be more or less than `available_s`. It is CPU time plus
    the engine's counters. If waits are sampled, it is the kernel's CPU and queue time, plus the time in which samples
    found sessions asleep in a named wait. The kernel's totals don't determine this last part. `finished_early_s` is the
    sum, over all connections, of the time between the connection's end and the end of the last connection.
    """

    available_s: float
    finished_early_s: float
    seen_s: float | None

    @property
    def explained(self) -> float | None:
        """The share of connections x elapsed time that is explained. It should be about 1. None if CPU time is
        unknown.
        """
        if self.seen_s is None or self.available_s <= 0:
            return None
        return (self.seen_s + self.finished_early_s) / self.available_s


class TableRow(Frozen):
    """The nine columns of a wait type. `percentage` is its share of all waits of the run, before small waits are cut
    off.
    """

    wait_type: str
    wait_s: float
    resource_s: float | None
    signal_s: float | None
    wait_count: float | None
    percentage: float
    avg_wait_s: float | None
    avg_resource_s: float | None
    avg_signal_s: float | None
    analogue: str = ""
    category: Category = "other"
    method: Method = "sampled"


def normalise(raw: SampledWaits | CountedWaits) -> tuple[WaitStat, ...]:
    """Converts raw counts to rows before the cut. The largest wait comes first, and CPU time last. Rows with equal
    times are sorted by name, so that results are reproducible.
    """
    rows = _from_counters(raw) if isinstance(raw, CountedWaits) else _from_samples(raw)
    return tuple(sorted(rows, key=lambda row: (not row.is_wait, -row.wait_s, row.wait_type)))


def _from_counters(raw: CountedWaits) -> list[WaitStat]:
    if raw.passes or raw.runqueue_s is not None:
        return _filled_rows(raw)
    rows = [_counted_row(row) for row in raw.rows]
    return rows if raw.cpu_s is None else [*rows, _cpu_row(raw.cpu_s)]


def _counted_row(row: CountedWait) -> WaitStat:
    # Engines don't read the two counters at the same instant. So the signal time may seem longer than the wait that
    # contains it.
    signal_ns = None if row.signal_ns is None else min(row.signal_ns, row.wait_ns)
    return WaitStat(
        wait_type=row.wait_type,
        analogue=row.analogue or row.wait_type,
        category=row.category,
        method="counter",
        wait_s=row.wait_ns * NS,
        resource_s=None if signal_ns is None else (row.wait_ns - signal_ns) * NS,
        signal_s=None if signal_ns is None else signal_ns * NS,
        wait_count=row.wait_count,
    )


def _filled_rows(raw: CountedWaits) -> list[WaitStat]:
    """Returns rows of timers and, for their gaps, rows of samples. The unexplained remainder is always shown, as a row
    of its own.

    Timers are exact, so they override samples. For a timed wait, samples only give the part of the time in a CPU's
    queue.
    """
    rows = [_counted_row(row) for row in raw.rows]
    if raw.cpu_s is None or raw.runqueue_s is None:
        ticks = sum(event.ticks for event in raw.events)
        gaps = [_sampled_row(event, raw.busy_s * event.ticks / ticks) for event in _gaps(raw)]
        left_s = max(0.0, raw.busy_s - sum(row.wait_s for row in (*rows, *gaps)))
        return [*rows, *gaps, _cpu_row(left_s, UNINSTRUMENTED_OR_CPU)]
    states = _raked_states(raw, raw.cpu_s, raw.runqueue_s)
    rows = [_split_by(row, *states[row.wait_type]) if row.wait_type in states else row for row in rows]
    gaps = [_sampled_row(event, sum(states[event.wait_type]), *states[event.wait_type]) for event in _gaps(raw)]
    queue = _queue_row(raw.runqueue_s - sum(row.signal_s or 0.0 for row in (*rows, *gaps)))
    left_s = raw.busy_s - sum(row.wait_s for row in (*rows, *gaps)) - queue.wait_s - raw.cpu_s
    unknown = [_unknown_row(UNINSTRUMENTED, left_s)] if left_s > 0 else []
    return [*rows, queue, *unknown, *gaps, _cpu_row(raw.cpu_s)]


def _gaps(raw: CountedWaits) -> list[EventTicks]:
    """The sampled events that have a name but no timer."""
    timed = {row.wait_type for row in raw.rows}
    return [event for event in raw.events if event.wait_type not in timed | {NO_EVENT}]


def _split_by(row: WaitStat, blocked_s: float, queued_s: float) -> WaitStat:
    """Returns a timed wait with its signal part, which comes from samples. The signal part is never longer than the
    wait itself.
    """
    if not blocked_s and not queued_s:
        return row
    signal_s = min(row.wait_s, queued_s)
    return row.model_copy(update={"resource_s": row.wait_s - signal_s, "signal_s": signal_s})


def _raked_states(raw: CountedWaits, cpu_s: float, runqueue_s: float) -> dict[str, tuple[float, float]]:
    """Maps each wait type that samples found, including `NO_EVENT`, to its blocked seconds and its queued seconds."""
    types = (event.wait_type for event in raw.events)
    return dict(zip(types, _raked(raw, cpu_s, runqueue_s, list(map(_states, raw.events))), strict=True))


def _from_samples(raw: SampledWaits) -> list[WaitStat]:
    if raw.cpu_s is None or raw.runqueue_s is None:
        return _from_samples_alone(raw)
    return _raked_rows(raw, raw.cpu_s, raw.runqueue_s)


def _from_samples_alone(raw: SampledWaits) -> list[WaitStat]:
    """Makes rows from shares of samples, if the kernel's totals are missing. Then waits are not split, and CPU time
    can't be separated from queue time.
    """
    total = sum(event.ticks for event in raw.events)
    rows = [] if total or not raw.busy_s else [WaitStat(wait_type=UNSAMPLED, method="derived", wait_s=raw.busy_s)]
    for event in raw.events:
        wait_s = raw.busy_s * event.ticks / total if total else 0.0
        if event.wait_type == NO_EVENT:
            rows.append(_cpu_row(wait_s, ON_CPU_OR_RUNNABLE, "sampled"))
        else:
            rows.append(_sampled_row(event, wait_s))
    return rows


def _raked_rows(raw: SampledWaits, cpu_s: float, runqueue_s: float) -> list[WaitStat]:
    # If a session is asleep without an event, it is about to enter a wait, or has just left one. Such a state does not
    # last, so the session counts as runnable.
    states = [_states(event) if event.wait_type != NO_EVENT else (0.0, float(event.ticks)) for event in raw.events]
    raked = zip(raw.events, _raked(raw, cpu_s, runqueue_s, states), strict=True)
    named = [(event, seconds) for event, seconds in raked if event.wait_type != NO_EVENT]
    slices = sum(event.timeslices for event, _ in named)
    # If no sample of an event found that a session had got a CPU, some waits still ended. Their number is unknown.
    counts = [
        raw.voluntary_switches * event.timeslices / slices
        if raw.voluntary_switches is not None and event.timeslices
        else None
        for event, _ in named
    ]
    rows = [
        _sampled_row(event, sum(seconds), *seconds, count)
        for (event, seconds), count in zip(named, counts, strict=True)
    ]
    if not any(blocked_s for _, (blocked_s, _) in named) and (unsampled_s := raw.busy_s - cpu_s - runqueue_s) > 0:
        rows.append(_unknown_row(UNSAMPLED, unsampled_s))
    queued_s = sum(queued_s for _, (_, queued_s) in named)
    return [*rows, _queue_row(runqueue_s - queued_s, raw.involuntary_switches), _cpu_row(cpu_s)]


def _raked(
    raw: SampledWaits | CountedWaits, cpu_s: float, runqueue_s: float, states: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Returns the blocked seconds and the queued seconds of each event, from its blocked and runnable ticks. Samples
    give the shares, and the kernel gives the totals.

    Sampled states alone are biased: the sampler needs a CPU itself, so it finds too many sleeping sessions. So the
    table of events has two columns (blocked and queued), and each column is scaled to its exact total. The total of
    blocked seconds is busy time - CPU time - queue time. The total of queued seconds is the queue time. A runnable
    session may be on a CPU instead of in the queue: see `_queued`.
    """
    blocked_s = _scaled([blocked for blocked, _ in states], max(0.0, raw.busy_s - cpu_s - runqueue_s))
    return list(zip(blocked_s, _scaled(_queued(raw, cpu_s, [ticks for _, ticks in states]), runqueue_s), strict=True))


def _queued(raw: SampledWaits | CountedWaits, cpu_s: float, runnable: Sequence[float]) -> list[float]:
    """Returns, for each event, the number of ticks that found its session in the queue for a CPU: runnable, but not
    running.

    Sessions use a CPU while no wait is named, and inside I/O calls. During waits for a lock or a latch, a runnable
    session can only be in the queue. The exact CPU time gives the number of ticks that found a session running. The
    sampler itself uses one of the CPUs at that moment, so this number is corrected.
    """
    on_cpu = [event.in_io or event.wait_type == NO_EVENT for event in raw.events]
    places = 1.0 if raw.cpus is None else 1.0 - 1.0 / raw.cpus
    all_ticks = sum(event.ticks for event in raw.events)
    running = all_ticks * cpu_s / raw.busy_s * places if raw.busy_s > 0 else 0.0
    may_run = sum(ticks for may, ticks in zip(on_cpu, runnable, strict=True) if may)
    queued_share = 1.0 - min(1.0, running / may_run) if may_run else 1.0
    return [ticks * (queued_share if may else 1.0) for may, ticks in zip(on_cpu, runnable, strict=True)]


def _scaled(ticks: Sequence[float], total_s: float) -> list[float]:
    total = sum(ticks)
    return [total_s * each / total if total else 0.0 for each in ticks]


def _states(event: EventTicks) -> tuple[float, float]:
    """Returns the blocked ticks and the runnable ticks of an event.

    Ticks of unknown state are split in the proportion of the known states. If no state is known, they count as blocked,
    because this is the usual state of a session that names a wait.
    """
    known = event.blocked + event.runnable
    if not known:
        return float(event.unknown), 0.0
    return event.blocked * event.ticks / known, event.runnable * event.ticks / known


def _sampled_row(
    event: EventTicks, wait_s: float, resource_s: float | None = None, signal_s: float | None = None,
    count: float | None = None,
) -> WaitStat:  # fmt: skip
    return WaitStat(
        wait_type=event.wait_type, analogue=event.analogue, category=event.category, method="sampled",
        wait_s=wait_s, resource_s=resource_s, signal_s=signal_s, wait_count=count,
    )  # fmt: skip


def _unknown_row(wait_type: str, wait_s: float) -> WaitStat:
    """Makes a row of time that nothing explains. This time was spent neither on a CPU nor in its queue."""
    return WaitStat(wait_type=wait_type, method="derived", wait_s=wait_s, resource_s=wait_s, signal_s=0.0)


def _queue_row(queue_s: float, count: int | None = None) -> WaitStat:
    """Makes a row of time in a CPU's queue without a named wait."""
    queue_s = max(0.0, queue_s)
    return WaitStat(
        wait_type=RUNNABLE_NO_EVENT, analogue="SOS_SCHEDULER_YIELD", category="cpu-queue", method="derived",
        wait_s=queue_s, resource_s=0.0, signal_s=queue_s, wait_count=count,
    )  # fmt: skip


def _cpu_row(cpu_s: float, wait_type: str = ON_CPU, method: Method = "derived") -> WaitStat:
    return WaitStat(wait_type=wait_type, analogue="(CPU)", category="cpu", method=method, wait_s=cpu_s, is_wait=False)


def conservation(raw: SampledWaits | CountedWaits) -> Conservation:
    """Makes the audit of one run (see `Conservation`)."""
    available_s = raw.connections * raw.elapsed_s
    observed_s = _observed_wait_s(raw)
    seen_s = None if raw.cpu_s is None or observed_s is None else raw.cpu_s + observed_s
    return Conservation(available_s=available_s, finished_early_s=max(0.0, available_s - raw.busy_s), seen_s=seen_s)


def _observed_wait_s(raw: SampledWaits | CountedWaits) -> float | None:
    """Returns the observed waiting time in seconds. It is not scaled to any total. Returns None if it is unknown.

    At any moment, a session runs, is in the queue for a CPU, or sleeps. The kernel counts the time of running and
    queueing, and samples give the time of sleep. All time in a named wait would be too much, for two reasons. A session
    inside an I/O call may be on a CPU, and this time already counts as CPU time. And if the sampler displaced a session
    from its CPU, the session looks queued. Neither error affects sleep.
    """
    if isinstance(raw, CountedWaits):
        return sum(row.wait_ns for row in raw.rows) * NS + _seen_beside_timers_s(raw)
    if raw.runqueue_s is None:
        return None
    total = sum(event.ticks for event in raw.events)
    asleep = sum(_states(event)[0] for event in raw.events if event.wait_type != NO_EVENT)
    return raw.runqueue_s + (raw.busy_s * asleep / total if total else 0.0)


def _seen_beside_timers_s(raw: CountedWaits) -> float:
    """Returns the time that samples found outside every timed wait: in a wait without a timer, asleep without a named
    wait, or in a CPU's queue.
    """
    if not raw.passes or raw.cpu_s is None or raw.runqueue_s is None:
        return 0.0
    states = _raked_states(raw, raw.cpu_s, raw.runqueue_s)
    return sum(sum(states[event.wait_type]) for event in _gaps(raw)) + sum(states.get(NO_EVENT, ()))


def mean_of_runs(runs: Sequence[Sequence[WaitStat]]) -> tuple[WaitStat, ...]:
    """Returns the mean of each wait type over all runs of a cell. If a run lacks a wait type, its time there counts as
    0. The split is None if at least one run lacks it.
    """
    by_type: dict[str, list[WaitStat]] = {}
    for run in runs:
        for row in run:
            by_type.setdefault(row.wait_type, []).append(row)
    rows = [_mean_row(rows, len(runs)) for rows in by_type.values()]
    return tuple(sorted(rows, key=lambda row: (not row.is_wait, -row.wait_s, row.wait_type)))


def _mean_row(rows: list[WaitStat], runs: int) -> WaitStat:
    def mean(values: Iterable[float | None]) -> float | None:
        total = 0.0
        for value in values:
            if value is None:
                return None
            total += value
        return total / runs

    return rows[0].model_copy(
        update={
            "wait_s": mean(row.wait_s for row in rows) or 0.0,
            "resource_s": mean(row.resource_s for row in rows),
            "signal_s": mean(row.signal_s for row in rows),
            "wait_count": mean(row.wait_count for row in rows),
        }
    )


class BenignList(NamedTuple):
    """Waits of idle threads, which do not indicate a problem. `name` and `date` identify the version of the list."""

    name: str
    date: str
    wait_types: frozenset[str]


def wait_table(
    stats: Iterable[WaitStat], *, share: float = 0.95, benign: frozenset[str] = frozenset()
) -> tuple[TableRow, ...]:
    """Returns the nine columns of the largest waits, which make up the share `share` of all waits. `share=1` returns
    all waits.

    This follows the well-known script (sqlskills.com, "SQL Server Wait Statistics"). Benign waits are left out first,
    and percentages refer to the sum of the rest. A row is shown if the sum of the rows before it is below the share. So
    the row that crosses the share is still shown, and there is always at least one row.
    """
    waits = sorted(
        (row for row in stats if row.is_wait and row.wait_s > 0 and row.wait_type not in benign),
        key=lambda row: (-row.wait_s, row.wait_type),
    )
    total_s = sum(row.wait_s for row in waits)
    shown: list[TableRow] = []
    before_s = 0.0
    for row in waits:
        if shown and share < 1 and before_s >= share * total_s:
            break
        before_s += row.wait_s
        shown.append(_table_row(row, total_s))
    return tuple(shown)


def _table_row(row: WaitStat, total_s: float) -> TableRow:
    def average(total: float | None) -> float | None:
        return None if total is None or not row.wait_count else total / row.wait_count

    return TableRow(
        **row.model_dump(exclude={"is_wait"}), percentage=100 * row.wait_s / total_s, avg_wait_s=average(row.wait_s),
        avg_resource_s=average(row.resource_s), avg_signal_s=average(row.signal_s),
    )  # fmt: skip
