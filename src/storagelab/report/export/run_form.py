"""The export's form of a cell and its runs, and what all forms have in common. Pure."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, GetPydanticSchema, WithJsonSchema, with_config
from typing_extensions import TypedDict

from storagelab.model.durability import Commits, Deciding
from storagelab.model.engines import Provenances
from storagelab.model.measurement import Status
from storagelab.model.waits import Category, Method

FORM = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@with_config(FORM)
class Form(TypedDict):
    """A table of the export."""


def dumped(model: Any) -> GetPydanticSchema:
    """The form of a value that is dumped from this model."""
    return GetPydanticSchema(lambda _, handler: handler.generate_schema(model))


_SCALAR = {"type": ["string", "number", "boolean"]}
Level = Annotated[object, WithJsonSchema({"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]})]
Levels = dict[str, Level]
Amount = Annotated[float | None, Field(ge=0)]
Count = Annotated[int | None, Field(ge=0)]
Interval = Annotated[list[float] | None, Field(min_length=2, max_length=2)]
Table = Annotated[object, WithJsonSchema({"type": "object"})]


class WaitingTask(Form):
    at_s: float
    """Seconds since the start."""
    wait_type: str
    """What the sessions waited for."""
    resource: str
    """Which page, file or lock they waited for."""
    sessions: int
    """How many sessions waited for it."""
    data_file: int | None
    """The data file, from 1, or `null`."""
    held_by: str
    """What the holder was doing, or empty."""


class CrowdForm(Form):
    wait_type: str
    """What the sessions waited in."""
    kind: str
    """What kind of thing they waited for."""
    sessions_mean: float
    """How many waited so, on average over the whole run."""
    sessions_most: int
    """The most at once."""
    time_share: float
    """The share of the run's time in which at least one did."""


class SeriesForm(Form):
    at_s: list[float | None]
    """The end of each interval: one second in a measured run, longer in a simulated one."""
    columns: dict[str, list[float | None]]
    """Name -> means over the intervals."""


class CheckForm(Form):
    name: str
    """What was checked."""
    asked: str
    """What the spec asks for."""
    got: str
    """What was read back."""
    ok: bool | None
    """`null` = it could not be read."""
    read_from: str
    """Where it was read."""


class Observer(Form):
    sampler_cpu_s: float
    """CPU time of the sampler."""
    session_cpu_s: Amount
    """CPU time of its session in the server."""
    ticks: int
    """Samples taken."""
    late_ticks: int
    """Samples taken too late."""
    blind_s: float
    """For how long nothing could be observed."""


class DurabilityForm(Form):
    commits: Commits
    """What happens to commits."""
    settings: Annotated[list[Any], dumped(list[Deciding])]
    """The settings that decide it, and what each one `loses`."""
    whole_pages: bool
    """Whether half-written pages are repaired."""


_CATEGORY = "The class by which waits are joined across engines ([list](../explanation/waits.md#joining-engines))."


@with_config(ConfigDict(**FORM, json_schema_extra={
    "if": {"properties": {"method": {"const": "counter"}}}, "then": {"properties": {"counted": {"const": True}}},
    "else": {"properties": {"counted": {"const": False}}},
}))  # fmt: skip
class Wait(Form):
    wait_type: Annotated[str, Field(min_length=1)]
    """The engine's own name."""
    wait_s: Annotated[float, Field(ge=0)]
    """Summed over all connections: `resource_s` + `signal_s` if the two are known."""
    resource_s: Amount
    """Waiting for the resource; `null` if it can't be separated from the rest."""
    signal_s: Amount
    """The resource is available, but no CPU is free; `null` if unknown."""
    wait_count: Amount
    """The number of waits: a rough share of a total if waits are sampled, `null` if unknown."""
    counted: bool
    """True only if the engine itself counts it exactly."""
    method: Method
    """How it is known."""
    category: Annotated[Category, Field(description=_CATEGORY)]
    analogue: str
    """The SQL Server wait type that a DBA would look for, or empty."""
    is_wait: bool
    """False for CPU time, which is included for the audit."""


class Planned(Form):
    """Which run it is, and how it ended."""

    repetition: int
    """From 1; repetitions of a burn-in count down from 0."""
    attempt: Annotated[int, Field(ge=1)]
    """From 1; a failed run that is made again has the next attempt."""
    status: Status
    """`unverified`: measured, but something is not as asked, or could not be read."""
    reason: str
    """Why it is not `ok`."""
    sequence: int
    """The run's place in the order."""
    block: int
    """The block: runs on one formatting of the drives."""
    seed: int
    """Its random seed."""
    started_at: str
    """ISO 8601, UTC."""
    finished_at: str
    """ISO 8601, UTC."""
    wall_s: Annotated[float, Field(ge=0)]
    """How long it took, including set-up and clean-up."""


class TurnsForm(Form):
    unwatched_s: float
    """How long nothing looked at the sessions: throughput and latency come from these stretches."""
    unwatched_transactions: int
    """Transactions that ended in them."""
    watched_s: float
    """How long the sessions were watched: sampled waits come from these stretches."""
    watched_transactions: int
    """Transactions that ended in them."""
    watched_latency_s: dict[str, float]
    """Figures of their latencies, named as in `latency_s`."""


class Measured(Form):
    """What a run measured; `null` and empty lists for a failed run."""

    provenance: Provenances | None
    """Where the figures come from."""
    elapsed_s: Amount
    """From the first start to the last finish of the connections, by the server's clock."""
    rows: Count
    """Rows inserted and counted; requests or transactions of other loads."""
    rows_per_s: Amount
    """The same per second; while unwatched, if the run was watched in turns."""
    checkpoint_s: Amount
    """The checkpoint after the run, which is not part of `elapsed_s`."""
    cpu_s: Amount
    """CPU time of the connections' sessions; `null` if unknown."""
    available_s: Amount
    """Connections x elapsed."""
    explained: Amount
    """The share of `available_s` that waits and CPU time add up to."""
    connection_s: list[float]
    """From start to finish of each connection."""
    latency_s: dict[str, float]
    """Figures of the latencies of its transactions: `mean`, `p50`, `p95`, `p99`, `p99.9`, `max`. Empty if they were not
    timed one by one."""
    waits: list[Wait]
    """Uncut rows of wait statistics ([below](#a-wait))."""
    waiting_tasks: list[WaitingTask]
    """What sessions were waiting for at some moments."""
    crowds: NotRequired[list[CrowdForm]]
    """Only of a simulated run: all sessions, counted at every wait, by wait type and kind of thing."""
    counters: Annotated[
        object,
        WithJsonSchema({
            "type": "object",
            "additionalProperties": {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
        }),
    ]  # fmt: skip
    """Differences over the run: group -> name -> value, units last in names. The group `cpu` of a measured run has
    CPU seconds. `server_throttled_s`, `load_throttled_s` (a load generator, fio) and `storagelab_throttled_s` are
    the time, summed over CPUs, for which the CPU quota of a control group held each of them back.
    `server_group_cpu_s` and so on are the CPU time that this group got, if it is counted. In a simulated run, the
    group `stored in part` says how many points of the series and samples of waiting tasks were taken, and how many
    of them the export has.
    """
    series: SeriesForm
    """Time series."""
    environment: Table
    """Host, volumes, server with its settings, and storagelab's version, as found at this run."""
    checks: list[CheckForm]
    """What was asked for and what was read back."""
    observer: Observer | None
    """What observing cost."""
    turns: NotRequired[TurnsForm]
    """Only of a run that was watched in turns."""
    durability: DurabilityForm | None
    """What survives a crash of the server; `null` if no server was measured."""


@with_config(
    ConfigDict(
        **FORM,
        json_schema_extra={
            "if": {"properties": {"status": {"const": "failed"}}},
            "then": {
                "properties": {
                    "elapsed_s": {"type": "null"}, "rows": {"type": "null"}, "waits": {"maxItems": 0},
                    "reason": {"minLength": 1},
                }
            },
            "else": {"properties": {"elapsed_s": {"type": "number"}, "rows": {"type": "integer"}}},
        },
    )
)  # fmt: skip
class RunForm(Planned, Measured):
    """One run."""


class LatencyForm(Form):
    value_s: float
    """The figure over all transactions of the cell's runs."""
    ci95_s: Interval
    """Its 95 % interval, over the runs."""


class Rate(Form):
    mean: float
    """The mean of the runs: see `mean_s` of a summary."""
    ci95: Interval
    """Its 95 % interval."""
    fitted: NotRequired[float]
    """The adjusted mean, by which cells are compared."""
    fitted_ci95: NotRequired[Interval]
    """Its 95 % interval."""


class Summary(Form):
    mean_s: Amount
    """The mean of the completion times, as reports show it: the geometric mean of the runs that count where cells are
    compared by their times, else the arithmetic mean of all; `null` without a usable run."""
    median_s: Amount
    """Their median."""
    ci95_s: Interval
    """The 95 % interval of the mean, which stays above 0. That of a cell that was picked as the fastest reaches further
    up ([why](../explanation/statistics.md#means-and-their-intervals)). `null` if there are too few runs."""
    fitted_s: NotRequired[Amount]
    """The adjusted mean, by which cells are compared: the geometric mean of the runs on which verdicts rest, adjusted
    for the rounds that the cell missed."""
    fitted_ci95_s: NotRequired[Interval]
    """Its 95 % interval."""
    sd_s: Amount
    """The standard deviation of the completion times; `null` for a single run."""
    min_s: Amount
    """The shortest completion time."""
    max_s: Amount
    """The longest completion time."""
    rows_per_s: Rate | None
    """Rows, requests or transactions per second."""
    latency: NotRequired[dict[str, LatencyForm]]
    """Figures of all transactions of the cell's runs, by name ([how percentiles are
    joined](../explanation/statistics.md#percentiles-of-a-cell)). Empty if they were not timed one by one."""
    runs_planned: Count
    """Runs that the spec asks for."""
    runs_ok: Annotated[int, Field(ge=0)]
    """Runs that are `ok`."""
    runs_unverified: Annotated[int, Field(ge=0)]
    """Runs that are `unverified`."""
    runs_failed: Annotated[int, Field(ge=0)]
    """Runs that are `failed`."""
    explained: Amount
    """The share of connections x elapsed that waits and CPU account for, in the mean run."""
    steady: NotRequired[bool | None]
    """Raw I/O only: whether each run ended in [steady state](../how-to/raw-io.md); `null` if it was too short to tell.
    """


class CellForm(Form):
    cell_id: Annotated[str, Field(min_length=1)]
    """Its id, the same in every run of the same spec."""
    levels: Levels
    """Factor -> value or label."""
    provenance: Provenances | None
    """The same as above, for this cell."""
    config: Table
    """The spec's tables with this cell's levels, and with defaults filled in."""
    runs: list[RunForm]
    """Every stored run by repetition and attempt, including failed ones, without those of a burn-in."""
    burn_in: NotRequired[list[RunForm]]
    """Only if the spec has a burn-in: its runs, which no finding uses."""
    summary: Summary
    """Figures over the usable runs ([below](#its-summary))."""
