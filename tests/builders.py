"""Experiments, plans and runs made up for tests.

FABRICATED: no figure of this file was measured. Experiments, plans and runs have the form of real ones, so that
analysis and reports can be tested without a server. Every environment says so.

    experiment, plan, runs = make_campaign({"layout.data_files": [1, 2, 4, 8]}, elapsed=lambda levels, repetition: 10.0)
"""

import copy
import io
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from rich.console import Console
from scipy.special import bdtr

from storagelab.findings.analysis import analyse
from storagelab.findings.model import Findings
from storagelab.model.config import Config
from storagelab.model.measurement import Check, Measurement, ObserverCost, Run, TimeSeries, WaitingTask
from storagelab.model.plan import Cell, Experiment, Factor, Level, Plan, PlannedRun
from storagelab.model.values import JsonValue
from storagelab.model.waits import NO_EVENT, Category, EventTicks, SampledWaits
from storagelab.report.document import Document
from storagelab.report.text.terminal import print_document
from storagelab.servers.durability import judged

Levels = Mapping[str, JsonValue]
ElapsedOf = Callable[[Levels, int], float]
WaitsOf = Callable[[Levels, int], Mapping[str, float]]

CPU_SHARE = 0.10
QUEUE_SHARE = 0.08
KNOWN_EVENTS: dict[str, tuple[str, Category, bool]] = {
    "Lock:extend": ("PAGELATCH_* on PFS/GAM/SGAM", "allocation", False), "IO:WALSync": ("WRITELOG", "commit", True),
    "LWLock:WALWrite": ("WRITELOG", "commit", False), "LWLock:WALInsert": ("LOGBUFFER", "log-buffer", False),
    "IO:DataFileRead": ("PAGEIOLATCH_*", "data-read", True),
    "IO:DataFileWrite": ("(lazy writer's work)", "data-write", True),
    "IO:DataFileExtend": ("PREEMPTIVE_OS_WRITEFILEGATHER", "file-growth", True),
    "LWLock:BufferContent": ("PAGELATCH_*", "page-latch", False), "LWLock:BufferMapping": ("LATCH_EX", "latch", False),
    "Lock:transactionid": ("LCK_M_*", "lock", False),
}  # fmt: skip
"""wait type -> (analogue, category, in_io), for the fabricated samples."""
EXTEND_SHARE = {1: 0.25, 2: 0.20, 4: 0.12, 8: 0.03, 16: 0.02}


def make_experiment(factors: Mapping[str, Sequence[JsonValue]], repetitions: int = 5, **fields: object) -> Experiment:
    """An experiment on two volumes. `factors` maps a spec path to its levels; a name that is not a path sets
    nothing."""
    known: dict[str, object] = {
        "name": "files-and-log-place",
        "question": "How many data files, and does the log want its own volume?",
        "repetitions": repetitions,
        "order": "randomised",
        "seed": 7,
        "source": "experiments/files-and-log-place.toml",
        "text": '# fabricated for tests\nname = "files-and-log-place"\n',
        "sha256": "f" * 64,
        "base": {
            "target": {"engine": "postgres", "settings": {"shared_buffers": "64MB"}},
            "volumes": {"a": {"path": "./volumes/a"}, "b": {"path": "./volumes/b"}},
            "layout": {"data": ["a"], "log": "a"},
            "workload": {"connections": 16, "rows_per_connection": 50_000},
        },
        "factors": tuple(
            Factor(name=name, levels=tuple(Level(value=value, sets=_sets(name, value)) for value in values))
            for name, values in factors.items()
        ),
    }
    return Experiment.model_validate(known | fields)


def _sets(name: str, value: JsonValue) -> dict[str, JsonValue]:
    return {name: value} if "." in name else {}


def make_plan(experiment: Experiment) -> Plan:
    """The full cross of the experiment's factors, each repetition a complete round of all cells."""
    cells = tuple(
        Cell(
            cell_id=f"cell-{number:03d}",
            levels={factor.name: level.value for factor, level in zip(experiment.factors, levels, strict=True)},
            config=_config(experiment, levels),
        )
        for number, levels in enumerate(itertools.product(*(factor.levels for factor in experiment.factors)), 1)
    )
    shuffle = random.Random(experiment.seed)
    runs: list[PlannedRun] = []
    for repetition in range(1, experiment.repetitions + 1):
        order = list(cells)
        if experiment.order == "randomised":
            shuffle.shuffle(order)
        runs += [
            PlannedRun(sequence=len(runs) + n, block=0, cell_id=cell.cell_id, repetition=repetition, seed=1000 + n)
            for n, cell in enumerate(order)
        ]
    return Plan(cells=cells, runs=tuple(runs))


def _config(experiment: Experiment, levels: Sequence[Level]) -> Config:
    tables = copy.deepcopy(experiment.base)
    for level in levels:
        for path, value in level.sets.items():
            *parents, last = path.split(".")
            table: dict[str, object] = tables
            for parent in parents:
                table = table.setdefault(parent, {})  # type: ignore[assignment]
            table[last] = value
    return Config.model_validate(tables)


def ten_seconds(levels: Levels, repetition: int) -> float:
    """No factor has an effect; runs scatter by about 1 %, the same at each call."""
    return 10.0 * (1 + random.Random(f"{sorted(levels.items())}{repetition}").gauss(0, 0.01))


def extension_story(levels: Levels, repetition: int) -> Mapping[str, float]:
    """Lock:extend falls with the number of data files, and the log's waits take its place: share of session time."""
    files = levels.get("layout.data_files", 1)
    extend = EXTEND_SHARE.get(files if isinstance(files, int) else 1, 0.01)
    rest = 1 - CPU_SHARE - QUEUE_SHARE - extend
    return {
        "Lock:extend": extend, "LWLock:WALWrite": 0.45 * rest, "LWLock:WALInsert": 0.25 * rest,
        "IO:WALSync": 0.15 * rest, "IO:DataFileWrite": 0.10 * rest, "LWLock:BufferContent": 0.05 * rest,
    }  # fmt: skip


def make_runs(
    experiment: Experiment,
    plan: Plan,
    *,
    elapsed: ElapsedOf = ten_seconds,
    waits: WaitsOf | None = extension_story,
    environment: Mapping[str, object] | None = None,
    failed: Callable[[PlannedRun], str] = lambda planned: "",
) -> tuple[Run, ...]:
    """One run for each of the plan's, in its order.

    `elapsed(levels, repetition)` is in seconds; `waits(levels, repetition)` maps wait types to their share of
    connection time (the rest, up to 1, is CPU and its queue); None = waits were not observed. `failed(planned)` gives
    the reason of a failure, "" for success.
    """
    runs = []
    for planned in plan.runs:
        cell, reason = plan.cell(planned.cell_id), failed(planned)
        elapsed_s = elapsed(cell.levels, planned.repetition)
        shares = waits(cell.levels, planned.repetition) if waits is not None else None
        measurement = None if reason else make_measurement(cell.config, elapsed_s, shares, environment)
        runs.append(make_run(planned, cell, measurement, reason))
    return tuple(runs)


def make_planned(
    factors: Mapping[str, Sequence[JsonValue]], repetitions: int = 5, **fields: object
) -> tuple[Experiment, Plan]:
    experiment = make_experiment(factors, repetitions, **fields)
    return experiment, make_plan(experiment)


RUNS = {"elapsed", "waits", "environment", "failed"}
"""The names of the arguments of `make_runs`. All other names are fields of an experiment."""


def make_campaign(
    factors: Mapping[str, Sequence[JsonValue]], repetitions: int = 5, **more: object
) -> tuple[Experiment, Plan, tuple[Run, ...]]:
    experiment, plan = make_planned(factors, repetitions, **{name: more[name] for name in more.keys() - RUNS})
    return experiment, plan, make_runs(experiment, plan, **{name: more[name] for name in more.keys() & RUNS})


def analysed(factors: Mapping[str, Sequence[JsonValue]], repetitions: int = 5, **more: object) -> Findings:
    return analyse(*make_campaign(factors, repetitions, **more))


def story(
    factors: Mapping[str, Sequence[JsonValue]], repetitions: int = 5, **more: object
) -> tuple[Findings, tuple[Run, ...]]:
    """The findings and the runs of an experiment."""
    experiment, plan, runs = make_campaign(factors, repetitions, **more)
    return analyse(experiment, plan, runs), runs


def make_run(
    planned: PlannedRun, cell: Cell, measurement: Measurement | None, reason: str = "", attempt: int = 1
) -> Run:
    """A run as the store returns it: failed without a measurement, and unverified if a check fails."""
    started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=30 * planned.sequence)
    unverified = measurement is not None and bool(measurement.unverified)
    return Run(
        cell_id=cell.cell_id, repetition=planned.repetition, attempt=attempt, sequence=planned.sequence,
        block=planned.block, seed=planned.seed,
        status="failed" if measurement is None else "unverified" if unverified else "ok", reason=reason,
        started_at=started.isoformat(), finished_at=(started + timedelta(seconds=20)).isoformat(), wall_s=20.0,
        levels=cell.levels, config=cell.config, measurement=measurement,
    )  # fmt: skip


def make_measurement(
    config: Config,
    elapsed_s: float,
    shares: Mapping[str, float] | None,
    environment: Mapping[str, object] | None = None,
    **fields: object,
) -> Measurement:
    """The measurement that a target would return for a run of `elapsed_s`; any field can be overridden."""
    rows, files = config.workload.rows, str(config.layout.data_files)
    known: dict[str, object] = {
        "provenance": "measured",
        "elapsed_s": elapsed_s,
        "rows": rows,
        "checkpoint_s": 0.4,
        "connection_s": (elapsed_s * 0.99,) * config.workload.connections,
        "waits": None if shares is None else make_waits(config.workload.connections, elapsed_s, shares),
        "waiting_tasks": make_waiting_tasks(config),
        "counters": make_counters(rows),
        "series": make_series(elapsed_s, rows),
        "environment": dict(environment) if environment is not None else make_environment(),
        "checks": (Check(name="layout.data_files", asked=files, got=files, ok=True, read_from="pg_inherits"),),
        "observer": ObserverCost(
            sampler_cpu_s=0.012 * elapsed_s, session_cpu_s=0.010 * elapsed_s, ticks=round(50 * elapsed_s)
        ),
        "setup_s": 1.1,
        "teardown_s": 0.2,
    }
    known |= fields
    return Measurement.model_validate({"durability": judged(known["environment"]), **known})


def make_waits(connections: int, elapsed_s: float, shares: Mapping[str, float], hz: float = 50.0) -> SampledWaits:
    """Samples in which each wait type has its share of session time, a tenth of which is runnable."""
    passes = round(elapsed_s * hz)
    samples = passes * connections
    events = [
        _ticks(wait_type, blocked=round(0.9 * share * samples), runnable=round(0.1 * share * samples))
        for wait_type, share in shares.items()
    ]
    events.append(_ticks(NO_EVENT, runnable=max(0, samples - sum(event.ticks for event in events))))
    busy_s = 0.99 * connections * elapsed_s
    return SampledWaits(
        connections=connections, elapsed_s=elapsed_s, busy_s=busy_s, passes=passes, events=tuple(events),
        cpu_s=CPU_SHARE * busy_s, runqueue_s=(QUEUE_SHARE + 0.1 * sum(shares.values())) * busy_s,
        voluntary_switches=round(400 * connections * elapsed_s),
        involuntary_switches=round(20 * connections * elapsed_s),
    )  # fmt: skip


def _ticks(wait_type: str, blocked: int = 0, runnable: int = 0) -> EventTicks:
    analogue, category, in_io = KNOWN_EVENTS.get(wait_type, ("", "other", False))
    return EventTicks(
        wait_type=wait_type, analogue=analogue, category=category, in_io=in_io, blocked=blocked, runnable=runnable,
        timeslices=blocked // 2,
    )  # fmt: skip


def make_waiting_tasks(config: Config) -> tuple[WaitingTask, ...]:
    return tuple(
        WaitingTask(
            at_s=0.5 + index,
            wait_type="Lock:extend",
            resource=f"extension of my_big_table_p{index} (data file {index})",
            sessions=5,
            data_file=index,
        )
        for index in range(config.layout.data_files)
    )


def make_counters(rows: int) -> dict[str, dict[str, float]]:
    return {
        "wal": {"records": 2.2 * rows, "bytes": 410.0 * rows, "full_page_images": 0.01 * rows},
        "volume.a": {"write_bytes": 650.0 * rows, "writes": 0.05 * rows, "busy_s": 1.5},
    }


def make_series(elapsed_s: float, rows: int) -> TimeSeries:
    """Once a second, a little faster at the start; the last interval is the rest of a second."""
    at_s = [float(second) for second in range(1, int(elapsed_s) + 1)]
    if not at_s or at_s[-1] < elapsed_s:
        at_s.append(elapsed_s)
    rate = rows / elapsed_s
    return TimeSeries(
        at_s=tuple(at_s),
        columns={
            "rows_per_s": tuple(rate * (1.05 if index < len(at_s) / 2 else 0.95) for index in range(len(at_s))),
            "volume.a.write_bytes_per_s": tuple(650.0 * rate for _ in at_s),
        },
    )


def make_environment() -> dict[str, object]:
    """A host without any reason for doubt."""
    volume = {"filesystem": "ext4", "mount_options": "rw,relatime", "virtual": False, "virtual_reason": ""}
    return {
        "fabricated": "made up for a test; nothing was measured",
        "host": {
            "cpu_count": 8,
            "cpu_model": "Fabricated CPU @ 3.0 GHz",
            "memory_bytes": 16 * 2**30,
            "kernel": "Linux 6.1.0-fabricated",
            "load_1min": 0.2,
        },
        "volumes": {
            "a": volume | {"path": "./volumes/a", "device": "nvme0n1", "device_model": "Fabricated SSD A"},
            "b": volume | {"path": "./volumes/b", "device": "nvme1n1", "device_model": "Fabricated SSD B"},
        },
        "server": {
            "engine": "postgres",
            "version": "18.4",
            "settings": {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "64MB"},
        },
        "storagelab": {"version": "0.0.0"},
    }


def on_a_terminal(of: Document, width: int = 80, *, full: bool = True, **of_console: object) -> str:
    said = io.StringIO()
    print_document(Console(file=said, width=width, **of_console), of, full=full)
    return said.getvalue()


def at_most(experiments: int, rate: float) -> int:
    """The count that a true rate of `rate` exceeds once in a thousand."""
    return next(count for count in range(experiments + 1) if bdtr(count, experiments, rate) >= 0.999)
