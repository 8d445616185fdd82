"""Generates random campaigns of every kind, stopped at any point, for tests of all that stored runs give.

FABRICATED: no figure that comes out of this file was ever measured. Hypothesis draws a campaign's shape, which it can
make smaller; the figures of its runs follow from the shape's seed.
"""

import functools
import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from builders import KNOWN_EVENTS, make_environment, make_run, make_waiting_tasks, make_waits
from hypothesis import strategies as st

from storagelab.model import measurement
from storagelab.model.config import Config
from storagelab.model.loads.base import DatabaseLoad, GeneratedLoad
from storagelab.model.loads.raw_io import RawIo
from storagelab.model.measurement import Check, Latency, Measurement, ObserverCost, Run, TimeSeries
from storagelab.model.plan import Cell, Experiment, Plan, PlannedRun, Race
from storagelab.model.waits import CountedWait, CountedWaits, RawWaits
from storagelab.run.stored import Racing, as_run
from storagelab.servers.durability import judged
from storagelab.spec.matrix import expand
from storagelab.spec.reading import parse

ROUNDS_OF_A_RACE = 6
REAL = '[volumes.a]\npath = "./a"\n[volumes.b]\npath = "./b"\n[layout]\ndata = ["a"]\nlog = "a"\n'
DRIVE = (
    '[server]\ncores = 4\nmemory = "4GB"\n[drives.ssd]\nprofile = "iodrive-320"\nformat = "basic"\ndriver = "2.2.3"\n'
    'sector_bytes = 512\n[volumes.a]\ndrives = ["ssd"]\n'
)
INSERTS = "[workload]\nconnections = 4\nrows_per_connection = 5_000\n"
FILES, ROWS = '"layout.data_files" = [1, 2, 8]', '"workload.rows_per_transaction" = [10, 1000]'
LOG = '"layout.log" = ["a", "b"]'
CONNECTIONS, FORMATS = '"workload.connections" = [1, 4]', '"drives.ssd.format" = ["basic", "maximum-write"]'
THREADS, BLOCKS = '"workload.threads" = [1, 4]', '"workload.block" = ["4KiB", "64KiB"]'
LABELS = 'tuning = [{ label = "none" }, { label = "some", "layout.data_files" = 4, "workload.connections" = 2 }]'


def _database(engine: str, workload: str, measure: str = "") -> str:
    return f'[target]\nengine = "{engine}"\n{REAL}[workload]\n{workload}\n{measure}'


_PGBENCH = 'kind = "pgbench"\nconnections = 4\nduration = "10s"\n'
_RAW = '[workload]\noperation = "{}"\npattern = "random"\nblock = "8KiB"\noutstanding = 2\nduration = "{}"\n'
SPECS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "inserts on PostgreSQL": (f'[target]\nengine = "postgres"\n{REAL}{INSERTS}',
    (FILES, LOG, ROWS, CONNECTIONS, LABELS)),
    "inserts on MariaDB": (f'[target]\nengine = "mariadb"\n{REAL}{INSERTS}', (FILES, LOG, CONNECTIONS)),
    "two engines": (
        f'[target]\nengine = "postgres"\n{REAL}{INSERTS}', ('"target.engine" = ["postgres", "mariadb"]', FILES, LOG),
    ),
    "pgbench": (_database("postgres", _PGBENCH), (FILES, LOG, CONNECTIONS)),
    "pgbench by its slowest": (_database("postgres", _PGBENCH, '[measure]\njudge = "max"'), (FILES, LOG)),
    "pgbench by p99.9": (_database("postgres", _PGBENCH, '[measure]\njudge = "p99.9"'), (FILES, LOG)),
    "pgbench at a rate": (_database("postgres", _PGBENCH + "rate = 100", '[measure]\njudge = "mean"'), (FILES, LOG)),
    "transactions in a set number": (
        _database("postgres", 'kind = "pgbench"\nconnections = 4\ntransactions_per_connection = 100'),
        (FILES, CONNECTIONS),
    ),
    "sysbench": (_database("mariadb", 'kind = "sysbench"\nconnections = 4\nduration = "10s"'), (FILES, LOG)),
    "sql by p50": (
        _database(
            "postgres",
            'kind = "sql"\nconnections = 4\nduration = "10s"\nsetup = ["a.sql"]\ntransactions = [{ file = "a.sql" }]',
            '[measure]\njudge = "p50"',
        ).replace("[layout]", '[layout]\nspread = ["orders"]'),
        (FILES, LOG, CONNECTIONS),
    ),
    "raw I/O": (
        '[target]\nengine = "raw-io"\n[volumes.a]\npath = "./a"\n[layout]\ndata_size = "8MiB"\n'
        + _RAW.format("mixed", "20s"),
        (THREADS, BLOCKS, '"workload.pattern" = ["random", "sequential"]'),
    ),
    "simulated": (f'[target]\nengine = "simulated"\nscale = 256\n{DRIVE}{INSERTS}', (FILES, FORMATS, CONNECTIONS)),
    "simulated with a burn-in": (
        f'[target]\nengine = "simulated"\nscale = 256\n{DRIVE}{INSERTS}[between_runs]\nburn_in = 1\n', (FILES, FORMATS),
    ),
    "simulated raw I/O": (
        f'[target]\nengine = "raw-io"\nscale = 256\n{DRIVE}'.replace('[server]\ncores = 4\nmemory = "4GB"\n', "")
        + _RAW.format("read", "1s"),
        (THREADS, BLOCKS),
    ),
}  # fmt: skip
"""What is measured -> the spec without its heading, and the factors that it may have."""
TIMES = ("a little noise", "all equal", "anything", "a steep trend", "odd runs", "a jump")


@dataclass(frozen=True)
class Shape:
    """The kind of a campaign. `made` of its planned runs were made before it stopped. `troubles` is the share of runs
    that failed, are unverified or are missing. `hosts` made its rounds in turn. `race` has the rules of its race; None
    without a race."""

    of: str
    factors: int
    repetitions: int
    order: str
    costly: bool
    made: int
    times: str
    troubles: float
    hosts: int
    race: Race | None
    waits: bool
    seed: int


def shapes(most_runs: int) -> st.SearchStrategy[Shape]:
    return st.builds(
        Shape, of=st.sampled_from(sorted(SPECS)), factors=st.integers(0, 3),
        repetitions=st.sampled_from((1, 2, 3, 5, 30, 10_000)),
        order=st.sampled_from(("randomised", "as-listed", "cell-by-cell")), costly=st.booleans(),
        made=st.integers(1, 16) | st.integers(1, most_runs), times=st.sampled_from(TIMES),
        troubles=st.sampled_from((0.0, 0.0, 0.2, 0.6)), hosts=st.sampled_from((1, 1, 2, 3)),
        race=st.sampled_from((None, None, Race(), Race(within=0.03))), waits=st.booleans(),
        seed=st.integers(0, 2**16),
    )  # fmt: skip


@dataclass(frozen=True)
class Campaign:
    """What is stored of an experiment, as a report reads it."""

    experiment: Experiment
    plan: Plan
    runs: tuple[Run, ...]


def drawn(shape: Shape, seed: int | None = None) -> Campaign:
    """The campaign of this shape; another `seed` makes another of the same experiment."""
    experiment, plan = _planned(shape.of, shape.factors, shape.repetitions, shape.order, shape.costly)
    noise = _Noise(shape, plan, random.Random(shape.seed if seed is None else seed))
    simulated = all(cell.config.simulated for cell in plan.cells)
    if shape.race is not None and (shape.order == "randomised" or (shape.order == "as-listed" and simulated)):
        experiment = experiment.model_copy(update={"race": shape.race})
        runs = _raced(experiment, noise)
    else:
        runs = [
            run
            for planned in sorted(plan.runs, key=lambda run: run.sequence)[: shape.made]
            for run in noise.runs(planned)
        ]
    return Campaign(experiment, as_run(experiment, plan, runs), tuple(runs))


@functools.lru_cache(32)
def _planned(of: str, factors: int, repetitions: int, order: str, costly: bool) -> tuple[Experiment, Plan]:
    body, known = SPECS[of]
    varied = known[:factors]
    named = varied[0].partition(" =")[0].strip('"') if varied else ""
    head = f'name = "drawn"\nrepetitions = {repetitions}\norder = "{order}"\n'
    head += f'costly = ["{named}"]\n' if costly and varied else ""
    experiment = parse(head + body + ("\n[factors]\n" + "\n".join(varied) if varied else ""), "drawn.toml")
    return experiment, expand(experiment)


def _raced(experiment: Experiment, noise: "_Noise") -> list[Run]:
    """Rounds of a race, until it is decided or its time is over, which may be in the middle of a round."""
    racing, runs = Racing(experiment, []), []
    for _ in range(ROUNDS_OF_A_RACE):
        made = {(run.cell_id, run.repetition) for run in runs}
        for planned in racing.state.plan.runs:
            if (planned.cell_id, planned.repetition) not in made:
                if len(runs) >= noise.shape.made:
                    return runs
                for run in noise.runs(planned):
                    runs.append(run)
                    racing.note_finished(run)
        racing.further()
    return runs


class _Noise:
    """Draws what happens to each run."""

    def __init__(self, shape: Shape, plan: Plan, rng: random.Random) -> None:
        self.shape, self._plan, self._rng = shape, plan, rng
        self._speeds = {cell.cell_id: math.exp(rng.gauss(0, 0.3)) for cell in plan.cells}
        self._scale = 10.0 ** rng.uniform(-3, 5)
        self._slope = rng.choice((-1, 1)) * rng.uniform(0.5, 5)
        self._jumps_at = rng.randint(1, max(1, shape.made))

    def runs(self, planned: PlannedRun) -> list[Run]:
        """The attempts at one run: none if it is missing, two if the first failed and was made again."""
        cell, trouble = self._plan.cell(planned.cell_id), self._rng.random() < self.shape.troubles
        if not trouble:
            return [make_run(planned, cell, self._measured(planned, cell))]
        what = self._rng.choice(("missing", "failed", "made again", "unverified"))
        failed = make_run(planned, cell, None, "the server did not start: no space left on device")
        if what == "made again":
            return [failed, make_run(planned, cell, self._measured(planned, cell), attempt=2)]
        unverified = [make_run(planned, cell, self._measured(planned, cell, failing=True), "could not be read back")]
        return {"missing": [], "failed": [failed], "unverified": unverified}[what]

    def _time_s(self, planned: PlannedRun) -> float:
        """From a millisecond to a million seconds, whatever the kind of times."""
        rng, place = self._rng, planned.sequence
        if self.shape.times == "all equal":
            return self._scale
        if self.shape.times == "anything":
            return 10.0 ** rng.uniform(-3, 6)
        log_s = math.log(self._scale * self._speeds[planned.cell_id]) + rng.gauss(0, 0.02)
        if self.shape.times == "a steep trend":
            log_s += self._slope * place
        elif self.shape.times == "odd runs" and rng.random() < 0.15:
            log_s += rng.choice((0.3, 3, 10))
        elif self.shape.times == "a jump" and place >= self._jumps_at:
            log_s += self._slope
        return min(1e6, max(1e-3, math.exp(min(50.0, max(-50.0, log_s)))))

    def _measured(self, planned: PlannedRun, cell: Cell, failing: bool = False) -> Measurement:
        config, time_s, rng = cell.config, self._time_s(planned), self._rng
        work, fields = config.workload, {}
        if isinstance(work, RawIo) or (isinstance(work, GeneratedLoad) and work.transactions_per_connection is None):
            elapsed_s = work.duration_s * (1 + abs(rng.gauss(0, 0.001)))  # the work shows how fast it was
            fields["requests" if isinstance(work, RawIo) else "transactions"] = max(1, round(elapsed_s / time_s * 100))
        else:
            elapsed_s = time_s
            fields["transactions" if config.generated else "rows"] = work.work.amount
        if isinstance(work, GeneratedLoad | RawIo):
            fields["latency"] = self._latency(time_s)
        counters = self._counters(config, elapsed_s)
        if isinstance(work, RawIo):
            rate = fields["requests"] / elapsed_s
            counters[measurement.RAW_IO] = {"ios_per_s": rate, "bytes_per_s": work.block_bytes * rate}
        environment = self._environment(config, planned)
        connections = work.connections if isinstance(work, DatabaseLoad) else 0
        return Measurement.model_validate(
            {
                "provenance": "simulated" if config.simulated else "measured",
                "elapsed_s": elapsed_s,
                "checkpoint_s": rng.choice((None, 0.0, 0.1 * elapsed_s)) if connections else None,
                "connection_s": (elapsed_s * rng.uniform(0.5, 1),) * connections,
                "waits": self._waits(config, connections, elapsed_s) if connections and self.shape.waits else None,
                "waiting_tasks": make_waiting_tasks(config) if rng.random() < 0.5 else (),
                "counters": counters,
                "series": self._series(elapsed_s, isinstance(work, RawIo)),
                "environment": environment,
                "durability": judged(environment) if connections else None,
                "checks": self._checks(failing),
                "observer": ObserverCost(
                    sampler_cpu_s=rng.uniform(0, 0.1) * elapsed_s, session_cpu_s=rng.choice((None, 0.0)), ticks=100
                ),
                **fields,
            }
        )  # fmt: skip

    def _latency(self, time_s: float) -> Latency | None:
        rng = self._rng
        middle_ns = max(1.0, time_s * 1e7)
        drawn = [
            (max(1, round(middle_ns * math.exp(rng.gauss(0, 1)))), rng.choice((1, 50, 10**6)))
            for _ in range(rng.randint(1, 5))
        ]
        return measurement.latency_of(drawn)

    def _waits(self, config: Config, connections: int, elapsed_s: float) -> RawWaits | None:
        rng = self._rng
        names = rng.sample(sorted(KNOWN_EVENTS), 3)
        if config.target.engine == "postgres":
            return make_waits(connections, min(elapsed_s, 1e4), {name: rng.uniform(0, 0.3) for name in names})
        rows = tuple(
            CountedWait(
                wait_type=name, wait_ns=ns, signal_ns=rng.choice((None, ns // 10)), wait_count=rng.choice((None, 0, 7))
            )
            for name in ("WRITELOG", "PAGELATCH_UP", "buf_pool_mutex")
            for ns in [round(rng.uniform(0, 0.4) * elapsed_s * connections * 1e9)]
        )  # fmt: skip
        return CountedWaits(
            connections=connections, elapsed_s=elapsed_s, busy_s=connections * elapsed_s, rows=rows,
            cpu_s=rng.choice((None, 0.0, 0.3 * connections * elapsed_s)),
        )  # fmt: skip

    def _counters(self, config: Config, elapsed_s: float) -> dict[str, dict[str, float]]:
        rng = self._rng
        busy_s, others_s = rng.uniform(0, 4) * elapsed_s, rng.choice((0.0, 0.1, 3.0)) * elapsed_s
        found = {
            "cpu": {
                "busy_s": busy_s + others_s, "idle_s": elapsed_s, "iowait_s": 0.0, "steal_s": 0.0, "server_s": busy_s,
                "storagelab_s": 0.0, "others_s": others_s,
                "server_throttled_s": rng.choice((0.0, 0.0, 0.02 * elapsed_s, 40 * elapsed_s)),
                "server_group_cpu_s": rng.choice((0.0, elapsed_s)),
            },
            "volumes": {"volume.a.writes": rng.choice((0.0, 1e9)), "volume.a.throttled_writes": 600 * elapsed_s},
            "wal": {"bytes": rng.choice((0.0, 1.0, 1e15))},
        }  # fmt: skip
        if config.drives:
            found["drive ssd"] = {
                "write_amplification": rng.choice((0.0, 1.0, rng.uniform(1, 9))),
                "utilisation": rng.choice((0.0, 0.5, 1.0)),
            }  # fmt: skip
        return found

    def _series(self, elapsed_s: float, raw_io: bool) -> TimeSeries:
        rng = self._rng
        at_s = tuple(elapsed_s * part / 8 for part in range(1, 9)) if rng.random() < 0.8 else ()
        name = "requests_per_s" if raw_io else "rows_per_s"
        return TimeSeries(
            at_s=at_s,
            columns={
                name: tuple(rng.choice((None, 0.0, 1e-9, 1e5, rng.uniform(1, 1e6))) for _ in at_s),
                "volume.a.write_bytes_per_s": tuple(rng.choice((0.0, 1e12)) for _ in at_s),
            },
        )

    def _environment(self, config: Config, planned: PlannedRun) -> dict[str, object]:
        environment = make_environment()
        host = environment["host"]
        if self.shape.hosts > 1 and not config.simulated:
            host["name"] = f"host-{planned.repetition % self.shape.hosts}"
        if self._rng.random() < 0.3:
            environment["volumes"]["a"]["throttle"] = {"write_iops": 600}
        environment["server"]["engine"] = config.target.engine
        return environment

    def _checks(self, failing: bool) -> Sequence[Check]:
        name = (
            self._rng.choice((measurement.SETTLED, measurement.BEHIND_RATE, "watching", "layout.data_files"))
            if failing
            else "layout.data_files"
        )
        return (Check(name=name, asked="1", got="2" if failing else "1", ok=not failing, read_from="the server"),)


def pairs_of(plan: Plan) -> list[tuple[str, str]]:
    """Two pairs of cells to compare, if there are two cells."""
    ids = [cell.cell_id for cell in plan.cells]
    return list(itertools.islice(itertools.permutations((ids[0], ids[-1]), 2), 2)) if len(ids) > 1 else []
