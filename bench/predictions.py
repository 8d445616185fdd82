"""`--only predictions`: generates random cases of a server on unequal volumes with known rates. It predicts each case
from a capture, and then measures it.

A case has two to four volumes that the spec's own keys limit, tables with unequal use, and three layouts. The bench
captures one layout while its load runs. It predicts the other layouts from only the capture and the limits. Then a
campaign measures all three layouts. If the campaign tells a pair of layouts apart, the bench judges their predicted
order. It also judges each predicted ratio to the captured layout.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeVar

import psycopg

from bench.figures import Figure
from bench.known_answers import why_not
from storagelab.capture import folder as captures
from storagelab.capture.taking import Window, take
from storagelab.errors import StoragelabError
from storagelab.model.engines import ENGINES
from storagelab.model.plan import Cell
from storagelab.predicting.prediction import KnownCase, KnownLayout, Prediction, as_toml, known_cases
from storagelab.predicting.reckoning import predict
from storagelab.run import contract
from storagelab.run.engine import engine_in, open_block
from storagelab.run.scheduling import InMemory
from storagelab.spec.matrix import expand
from storagelab.spec.reading import load
from storagelab.volumes.folders import Site

ORDER_GOAL, RATIO_GOAL = 0.90, 0.15
PRESENT = "present"
_VOLUME_BYTES = 2**30
_MEMORY = Path("/dev/shm")
_SECONDS, _WARM_UP_S = {"postgres": 6, "mariadb": 15}, 2
"""The seconds of a run, and the seconds of its warm-up, in which new sessions read the system's tables. A run on
MariaDB is longer because with so small a buffer pool its rate varies from 60 to 1,200 transactions a second within a
minute.
"""
_RUNS = (1, 2)
_APART = 1.05
"""Two layouts are told apart if each run of one layout is faster than each run of the other, and their means differ by
this factor."""
LIMITED = ("read_iops", "write_iops")
_SLOWEST, _FASTEST = 250, 2000
"""The limits of volumes, in requests per second."""
_LOOK_S, _LOOKS = 0.2, 300
LOADED = ("postgres", "mariadb")
_ROWS = {"postgres": 15_000, "mariadb": 40_000}
_SETTINGS = {
    # The buffers are far smaller than the tables, and there is no page cache, so requests reach the volumes.
    "postgres": 'debug_io_direct = "data,wal", shared_buffers = "4MB", wal_buffers = "1MB", max_wal_size = "256MB", '
    'track_io_timing = "on", track_wal_io_timing = "on", autovacuum = "off"',
    "mariadb": 'innodb_flush_method = "O_DIRECT", innodb_buffer_pool_size = "16M", innodb_log_file_size = "96M"',
}

KNOWN = Path(__file__).parent.parent / "src/storagelab/predicting/known_answers.toml"

Made = TypeVar("Made")
Place = Mapping[str, str]
"""The volume of each object, and of `log`."""


@dataclass(frozen=True)
class Case:
    """The random properties of a case."""

    engine: str
    seed: int
    limits: dict[str, dict[str, int]]
    weights: dict[str, tuple[int, int]]
    """How often each table is read and how often it is updated, relative to the other tables."""
    connections: int
    layouts: dict[str, dict[str, str]]


def drawn(engine: str, seed: int) -> Case:
    """Returns the case of this seed."""
    dice = random.Random(f"predictions {engine} {seed}")
    volumes = "abcd"[: dice.randint(2, 4)]
    limits = {
        name: {
            key: round(math.exp(dice.uniform(math.log(_SLOWEST), math.log(_FASTEST))))
            for key in ("read_iops", "write_iops")
        }
        for name in volumes
    }
    tables = [f"t{number}" for number in range(1, dice.randint(2, 4) + 1)]
    weights = unequal_weights(tables, dice)
    layouts: dict[str, dict[str, str]] = {}
    while len(layouts) < 3:
        place = _place(engine, tables, volumes, dice)
        if place not in layouts.values():
            layouts[(PRESENT, "second", "third")[len(layouts)]] = place
    return Case(engine, seed, limits, weights, dice.choice((4, 8, 16)), layouts)


def unequal_weights(tables: Sequence[str], dice: random.Random) -> dict[str, tuple[int, int]]:
    """Returns how often each table is read and updated. The first table is used most."""
    updated = dice.choice((0.1, 0.3, 0.6))
    found = {}
    for rank, name in enumerate(tables, 1):
        weight = 100 / rank ** dice.uniform(0.5, 1.5)
        found[name] = (max(1, round(weight * (1 - updated))), max(1, round(weight * updated)))
    return found


def _place(engine: str, tables: Sequence[str], volumes: str, dice: random.Random) -> dict[str, str]:
    """A volume for each table and for the log. On PostgreSQL, each index has a volume, too. This volume may differ from
    the volume of the index's table.
    """
    place = {name: dice.choice(volumes) for name in (*tables, "log")}
    if engine == "postgres":
        place |= {f"{name}_pkey": dice.choice(volumes) if dice.random() < 0.3 else place[name] for name in tables}
    return place


# ---------------------------------------------------------------------------------------------------------------------
# The spec of a case
# ---------------------------------------------------------------------------------------------------------------------


def write_spec(case: Case, place: Path) -> Path:
    """Writes the spec and its SQL files into a folder. Returns the spec's path."""
    place.mkdir(parents=True)
    (place / "schema.sql").write_text("".join(_schema(case)), encoding="utf-8")
    rows = _ROWS[case.engine]
    transactions = []
    for name, of_kinds in case.weights.items():
        for what, weight in zip(("read", "update"), of_kinds, strict=True):
            statement = (
                f"SELECT n, pad FROM {name} WHERE id = :id;\n"
                if what == "read"
                else f"UPDATE {name} SET n = n + 1 WHERE id = :id;\n"
            )
            file = f"{what}-{name}.sql"
            (place / file).write_text(f"\\set id random(1, {rows})\n{statement}", encoding="utf-8")
            transactions.append(f'{{ file = "{file}", weight = {weight} }}')
    levels = ",\n".join(level(label, layout) for label, layout in case.layouts.items())
    first = next(iter(case.limits))
    spec = place / "predicted.toml"
    spec.write_text(
        f'question = "Is the prediction right: {case.engine}, seed {case.seed}?"\nrepetitions = 1\nseed = {case.seed}\n'
        f'target = {{ engine = "{case.engine}", settings = {{ {_SETTINGS[case.engine]} }} }}\n'
        f"volumes = {{ {volume_table(case, place)} }}\n"
        f'layout = {{ data = ["{first}"] }}\n'
        f'workload = {{ kind = "sql", setup = ["schema.sql"], transactions = [{", ".join(transactions)}], '
        f"connections = {case.connections}, duration_s = {_SECONDS[case.engine]}, warm_up_s = {_WARM_UP_S} }}\n"
        f"[factors]\nplace = [\n{levels}\n]\n",
        encoding="utf-8",
    )
    return spec


def volume_table(case: Case, place: Path) -> str:
    """Returns the volumes of a spec with their limits. They are in memory if /dev/shm exists."""
    memory = _MEMORY if _MEMORY.is_dir() else place
    made = f'path = "{memory}", file_bytes = {_VOLUME_BYTES}, mount_options = "noatime"'
    return ", ".join(f"{name} = {{ {made}, limit = {_table(limit)} }}" for name, limit in case.limits.items())


def _table(values: Mapping[str, object]) -> str:
    return f"{{ {', '.join(f'{json.dumps(key)} = {json.dumps(value)}' for key, value in values.items())} }}"


def level(label: str, layout: Place) -> str:
    """Returns a labelled level of a factor that places the objects and the log."""
    objects = ", ".join(f'"layout.objects.{name}" = "{volume}"' for name, volume in layout.items() if name != "log")
    return f'{{ label = "{label}", {objects}, "layout.log" = "{layout["log"]}" }}'


def _schema(case: Case) -> Iterator[str]:
    rows = _ROWS[case.engine]
    for name in case.weights:
        if case.engine == "postgres":
            yield (
                f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer, pad char(200)) WITH (fillfactor = 80);\n"
                f"INSERT INTO {name} SELECT id, 0, 'x' FROM generate_series(1, {rows}) id;\n"
            )
        else:
            yield (
                f"CREATE TABLE {name} (id integer PRIMARY KEY, n integer, pad char(200)) ENGINE = InnoDB;\n"
                f"INSERT INTO {name} SELECT seq, 0, 'x' FROM seq_1_to_{rows};\n"
            )


# ---------------------------------------------------------------------------------------------------------------------
# Capture, predict, measure
# ---------------------------------------------------------------------------------------------------------------------


def measured(
    spec: Path, case: Case, to: Path, *, requests: bool = False
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Makes a server for each layout, and runs the load on it. It begins with the captured layout, and captures it
    before. Returns each layout's transactions per second in each run, and the spec's volume for each volume of the
    capture.
    """
    plan = expand(load(spec))
    block = plan.blocks[0]
    rates: dict[str, list[float]] = {}
    names: dict[str, str] = {}
    for label in case.layouts:
        cell = next(one for one in plan.cells if one.levels["place"] == label)
        planned = next(one for one in block.runs if one.cell_id == cell.cell_id)
        site = Site(experiment="predicted", identity=f"{os.getpid():08x}", spec_folder=spec.parent)
        with open_block(block, site, InMemory()) as opened, opened.open(planned) as target:
            # Each layout runs for the same time before its measurement, because tables grow during updates.
            if label == PRESENT:
                names = capture(target, cell, to, requests)
            else:
                target.run(cell, 0, 0, lambda _: None)
            rates[label] = [target.run(cell, number, number, lambda _: None).work_per_s or 0.0 for number in _RUNS]
    return rates, names


def capture(target: Any, cell: Cell, to: Path, requests: bool) -> dict[str, str]:
    """Runs the load once, and captures it meanwhile. Returns the spec's volume for each volume of the capture."""
    server = target._target.server  # noqa: SLF001 - the server below the volumes that were made
    dsn, sessions = _dsn(server.process), cell.config.generated_load.connections
    seconds, said = _SECONDS[cell.config.target.engine] - 1, list[str]()
    watching = threading.Thread(
        target=lambda: said.append(_captured(dsn, sessions, Window(seconds, requests=requests), to))
    )
    watching.start()
    target.run(cell, 0, 0, lambda _: None)
    places = {name: str(path) for name, path in server.volumes().items()}
    watching.join()
    if said != [""]:
        raise SystemExit(f"bench: the capture failed:\n{''.join(said)}")
    found: dict[str, str] = {}
    for volume in captures.read(to).manifest.volumes:
        near = [name for name, path in places.items() if Path(volume.path).is_relative_to(path)]
        found[volume.name] = near[0] if near else volume.name
    return found


def _dsn(process: Any) -> str:
    """Returns the DSN of the private server. On PostgreSQL it contains the database of the tables."""
    if not hasattr(process, "conninfo"):
        return f"mysql://{process.address.user}@localhost/?unix_socket={process.address.unix_socket}"
    with psycopg.connect(process.conninfo) as connection:
        names = connection.execute(
            "SELECT datname FROM pg_database WHERE NOT datistemplate ORDER BY oid DESC"
        ).fetchall()
    return psycopg.conninfo.make_conninfo(process.conninfo, dbname=str(names[0][0]))


def _captured(dsn: str, sessions: int, window: Window, to: Path) -> str:
    """Waits until the sessions work, and captures them. Returns the error as text, or "" if there was none. The capture
    is made in this process, because a new process takes seconds to load on a busy machine.
    """
    try:
        server = contract.target_of(dsn)
        watched_of = engine_in(ENGINES[server.engine].folder).watched
        assert watched_of is not None, "its engine can be captured"
        with contextlib.closing(watched_of(server)) as watched:
            for _ in range(_LOOKS):
                if watched.counters(objects=False).working >= sessions / 2:
                    time.sleep(_WARM_UP_S)
                    take(watched, to, window)
                    return ""
                time.sleep(_LOOK_S)
    except Exception as error:  # noqa: BLE001 - the waiting thread reports it
        return repr(error)
    return "no session worked"


def write_volumes(case: Case, names: Mapping[str, str], file: Path) -> None:
    """Writes the volumes file of a prediction: the limits of the spec, and all layouts except the captured one."""
    lines = []
    for name, limit in case.limits.items():
        captured = [old for old, new in names.items() if new == name]
        lines.append(f"[volumes.{name}]\nlimit = {_table(limit)}\ncaptured = {json.dumps(captured)}\n")
    for label, layout in case.layouts.items():
        if label != PRESENT:
            objects = {name: volume for name, volume in layout.items() if name != "log"}
            lines.append(f'[layouts.{label}]\nobjects = {_table(objects)}\nlog = "{layout["log"]}"\n')
    lines.append(f"[server]\ncpus = {os.cpu_count()}\n")
    file.write_text("".join(lines), encoding="utf-8")


@dataclass(frozen=True)
class Judged:
    """A case and its result. `pairs`: the number of pairs that the runs tell apart, and the number of these pairs whose
    order was predicted correctly. There is a predicted rate for each layout, and a measured rate for each run.
    """

    case: dict[str, Any]
    captured_per_s: float
    predicted_per_s: dict[str, float]
    predicted_times: dict[str, float]
    limited_by: dict[str, str]
    measured_per_s: dict[str, list[float]]
    measured_times: dict[str, float]
    moved: dict[str, float | None]
    pairs: int
    right: int

    @property
    def errors(self) -> list[float]:
        """The logarithm of each measured ratio divided by the predicted ratio. Both are ratios to the captured
        layout."""
        return [math.log(self.measured_times[name] / times) for name, times in self.predicted_times.items()]


def judged(case: Case, place: Path) -> Judged:
    """Captures, measures, predicts and judges a case. If the folder already has the case's capture and rates, it only
    predicts and judges.
    """
    rates_file, file = place / "measured.json", place / "volumes.toml"
    if not rates_file.exists():
        shutil.rmtree(place, ignore_errors=True)
        rates, names = measured(write_spec(case, place), case, place / "capture")
        write_volumes(case, names, file)
        rates_file.write_text(json.dumps(rates), encoding="utf-8")
    return _judge(case, predict(place / "capture", file), json.loads(rates_file.read_text("utf-8")))


def _judge(case: Case, found: Prediction, runs: Mapping[str, Sequence[float]]) -> Judged:
    rates = {label: fmean(of_runs) for label, of_runs in runs.items()}
    predicted = {one.name: one.per_s.value for one in found.layouts if one.per_s is not None}
    times = {name: per_s / predicted[PRESENT] for name, per_s in predicted.items() if name != PRESENT}
    pairs = right = 0
    for one, other in combinations(runs, 2):
        slower, faster = sorted((one, other), key=lambda name: rates[name])
        if max(runs[slower]) < min(runs[faster]) and rates[faster] > _APART * rates[slower]:
            pairs += 1
            right += predicted[slower] < predicted[faster]
    return Judged(
        asdict(case), found.captured_per_s or math.nan, predicted, times,
        {one.name: one.limited_by for one in found.layouts}, {name: list(of_runs) for name, of_runs in runs.items()},
        {name: rates[name] / rates[PRESENT] for name in times}, {one.name: one.moved for one in found.layouts},
        pairs, right,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# All of them
# ---------------------------------------------------------------------------------------------------------------------


def figures(folder: Path, cases: int, first_seed: int, kept: Path | None, *, write: bool = False) -> Iterator[Figure]:
    """Makes this many cases, with alternating engines. Cases in the folder `kept` are not measured again, but are
    predicted again from their captures. If `write`, their errors are stored in the package, for the intervals of
    predictions.
    """
    made = []
    for one in in_turns(
        cases, first_seed, lambda engine, seed, name: judged(drawn(engine, seed), (kept or folder) / name)
    ):
        made.append(one)
        yield from _figures(one)
    if made:
        yield from _totals(made)
    if write:
        write_known([_known(one) for one in made])


def in_turns(cases: int, first_seed: int, judge: Callable[[str, int, str], Made]) -> Iterator[Made]:
    """Yields the results of this many cases, with alternating engines. `judge` gets the engine, the seed and a name for
    the folder. If storagelab refuses a case, for example because the machine was busy during the capture, the case is
    left out and its name is printed.
    """
    if reason := why_not():
        print(f"the cases are left out: {reason}")
        return
    engines = [name for name in LOADED if name != "mariadb" or shutil.which("mariadbd")]
    for number in range(cases):
        engine, seed = engines[number % len(engines)], first_seed + number // len(engines)
        try:
            yield judge(engine, seed, f"{engine}-{seed}")
        except StoragelabError as error:
            print(f"left out: {engine}, seed {seed}: {error}", flush=True)


def write_known(new: Sequence[KnownCase]) -> None:
    """Adds cases to the package's file of errors. They replace cases with the same engine and name."""
    names = {(one.engine, one.case) for one in new}
    cases = [*(one for one in known_cases() if (one.engine, one.case) not in names), *new]
    KNOWN.write_text(
        "# What was predicted of random cases from a capture, and what was measured then, as ratios to the captured\n"
        "# layout's rate. Each case has two to four volumes, which are limited to known rates. The differences\n"
        "# between predicted and measured ratios determine the intervals of later predictions. Made by:\n"
        '# make bench ARGS="--only predictions --kept FOLDER --write", and the same with --only recommended\n'
        f"{as_toml(sorted(cases, key=lambda one: one.case))}", encoding="utf-8"
    )  # fmt: skip


def _known(one: Judged) -> KnownCase:
    layouts = (
        KnownLayout(name=name, predicted=times, measured=one.measured_times[name], moved=one.moved[name])
        for name, times in one.predicted_times.items()
    )
    return KnownCase(engine=one.case["engine"], case=f"seed {one.case['seed']}", layout=tuple(layouts))


def _figures(one: Judged) -> Iterator[Figure]:
    what = f"{one.case['engine']}, seed {one.case['seed']}"
    for name, times in one.predicted_times.items():
        measured = one.measured_times[name]
        yield Figure(
            f"{what}, {name}: predicted rate over the captured layout's", times, "", f"{measured:.3f}", None,
            remark=f"limited by {one.limited_by[name]}; {one.right} of {one.pairs} pairs in order",
        )  # fmt: skip


def _totals(made: Sequence[Judged]) -> Iterator[Figure]:
    pairs, right = sum(one.pairs for one in made), sum(one.right for one in made)
    yield Figure(
        "pairs that measurement tells apart, in the right order", right, f"of {pairs}", "at least 90 %",
        right >= ORDER_GOAL * pairs,
    )  # fmt: skip
    middle = median(abs(math.expm1(-error)) for one in made for error in one.errors)
    yield Figure(
        f"ratio of layouts, median error in {len(made)} cases", 100 * middle, "%", "at most 15 %", middle <= RATIO_GOAL
    )
