"""`--only known-answers`: runs real servers on volumes of known speed, so that the gain of a layout can be computed.

storagelab makes each volume for each run. Keys of the spec limit it to a number of requests per second. A run can't be
shorter than the time that its requests to a volume need at this limit. If nothing else slows the server down, the run
is hardly longer. So the shortest possible time of every layout is known. From these times follow which layouts are
fastest, by which ratio, and which volume slows the others down. A campaign is right if storagelab says the same three
things.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from bench.figures import Figure
from storagelab.errors import PreflightError
from storagelab.findings.analysis import analyse
from storagelab.findings.answer import answer
from storagelab.findings.basis import basis_of, ratio_of
from storagelab.findings.campaigns import Campaign as Compared
from storagelab.findings.campaigns import compare
from storagelab.findings.model import Estimate
from storagelab.model.measurement import Run
from storagelab.model.volume import SLICE_S, LimitConfig, VolumeConfig
from storagelab.report.words.answer import opening
from storagelab.report.words.campaigns import environment_differences
from storagelab.run import stored
from storagelab.run.stored import Results
from storagelab.volumes import volume as volumes

ROOT = Path(__file__).parent.parent
TIED, APART = 1.03, 1.15
"""Ratios of the times of two layouts. Below the first value, the report must not tell the layouts apart. From the
second value upward, the report must tell them apart.
"""
GOAL = 0.95
_COUNTED = {"read_iops": "reads", "write_iops": "writes"}
VOLUME_BYTES = 768 * 2**20
_MEMORY = Path("/dev/shm")
"""The drives' files are in memory if there is room. So only the limit slows a volume down, and no other use of the disk
does.
"""

Speed = Mapping[str, int]
"""The limits of a volume, by the spec's keys. A kind of request without a key is not limited."""


def iops(number: int) -> Speed:
    """Returns a limit of this many reads and this many writes per second."""
    return {"read_iops": number, "write_iops": number}


def why_not() -> str:
    """Returns why no volume of known speed can be made here, or "" if one can."""
    try:
        volumes.check("a", VolumeConfig(path=".", file_bytes=VOLUME_BYTES, limit=LimitConfig(write_iops=1)))
    except PreflightError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Layout:
    """A layout: the volumes of its data and the volume of its log."""

    label: str
    data: tuple[str, ...]
    log: str


@dataclass(frozen=True)
class Kind:
    """A campaign: volumes of known speed and the layouts on them. With `then`, the campaign is repeated at other
    speeds.
    """

    name: str
    speeds: Mapping[str, Speed]
    layouts: tuple[Layout, ...]
    data_files: int = 2
    then: Mapping[str, Speed] = field(default_factory=dict)


class Load(NamedTuple):
    """A load with which an engine requests more from its volumes than they allow, with little work for CPUs. `each` is
    the key for the work of each connection, and `amount` its usual value.
    """

    engine: str
    settings: str
    workload: str
    each: str
    amount: int


class Size(NamedTuple):
    """The size of a campaign: the runs of each layout, and the work of each connection."""

    repetitions: int
    amount: int


LOADS = {
    # The buffers are far smaller than the table, so nearly every row reads one page and writes another.
    "postgres": Load(
        "postgres",
        'debug_io_direct = "data,wal", shared_buffers = "512kB", max_wal_size = "2GB"',
        "connections = 8, rows_per_transaction = 100",
        "rows_per_connection",
        1_200,
    ),
    # There is one connection, and every row is a commit, because several connections would share writes by chance.
    # Pages stay in memory, because MariaDB itself decides when to write them. So only the log's I/O can be computed. If
    # a commit in a procedure coincides with a log write of another thread, it continues without a wait, and later
    # commits share that thread's writes. With a binary log, MariaDB first prepares each commit, and this step always
    # waits for its own write.
    "mariadb": Load(
        "mariadb",
        'innodb_flush_method = "O_DIRECT", innodb_buffer_pool_size = "32M", innodb_log_file_size = "64M", '
        'log_bin = "binlog", sync_binlog = 0',
        "connections = 1, rows_per_transaction = 1",
        "rows_per_connection",
        300,
    ),
    # The accounts are thirty times as large as the buffers, so nearly every transaction reads a page of the table and a
    # page of its index. The number of transactions is fixed, because the time of a run must depend on its requests.
    "pgbench": Load(
        "postgres",
        'debug_io_direct = "data,wal", shared_buffers = "1MB", max_wal_size = "256MB"',
        'kind = "pgbench", scale = 1, scripts = ["tpcb-like"], connections = 8',
        "transactions_per_connection",
        100,
    ),
}


_ALL_ON_A = Layout("all on a", ("a",), "a")
_LOG_APART = (_ALL_ON_A, Layout("log on b", ("a",), "b"), Layout("data on both", ("a", "b"), "a"))
KINDS = {
    "postgres": (
        Kind("log apart, data over both", {"a": iops(300), "b": iops(300)}, _LOG_APART),
        Kind(
            "data on volumes of unequal speed", {"a": iops(300), "b": iops(100), "c": iops(9_000)},
            (Layout("on a", ("a",), "c"), Layout("on b", ("b",), "c"), Layout("on both", ("a", "b"), "c")),
        ),
        Kind("a volume twice as fast", {"a": iops(150)}, (_ALL_ON_A,), then={"a": iops(300)}),
        Kind(
            "a third moved to a slow volume", {"a": iops(300), "b": iops(50), "c": iops(9_000)},
            (Layout("all on a", ("a",), "c"), Layout("a third on b", ("a", "b"), "c")), data_files=3,
        ),
    ),
    "mariadb": (
        Kind(
            "log on volumes of unequal speed", {"a": iops(120), "b": iops(60), "c": iops(9_000)},
            (Layout("log on a", ("c",), "a"), Layout("log on b", ("c",), "b")),
        ),
        Kind("a volume twice as fast", {"a": iops(60), "c": iops(9_000)}, (Layout("log on a", ("c",), "a"),),
             then={"a": iops(120), "c": iops(9_000)}),
        # Data on the log's volume would be an additional load, because the file system also writes its journal there.
        Kind(
            "the log alone is busy, data elsewhere: nothing to gain",
            {"a": iops(120), "b": iops(120), "c": iops(9_000)},
            (Layout("data on b", ("b",), "a"), Layout("data on c", ("c",), "a"), Layout("on both", ("b", "c"), "a")),
        ),
    ),
    "pgbench": (
        Kind(
            "data on volumes of unequal speed",
            {"a": {"read_iops": 400}, "b": {"read_iops": 200}, "c": {}},
            (Layout("on a", ("a",), "c"), Layout("on b", ("b",), "c"), Layout("on both", ("a", "b"), "c")),
        ),
        Kind(
            "log apart from data that writes hold back", {"a": {"write_iops": 200}, "b": {"write_iops": 200}},
            (_ALL_ON_A, Layout("log on b", ("a",), "b")),
        ),
    ),
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# One campaign
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """The statements of storagelab about a campaign, compared with the known answer. `said`: its reasons. `cautions`:
    the kinds of its cautions, without notes.
    """

    load: str
    kind: str
    seed: int
    expected: float
    ratio: float
    low: float | None
    high: float | None
    right_set: bool
    right_ratio: bool
    right_reason: bool
    said: str
    cautions: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        return self.right_set and self.right_ratio and self.right_reason


def campaign(load: str, kind: Kind, seed: int, folder: Path, repetitions: int = 5, amount: int | None = None) -> Judged:
    """Makes one campaign in `folder`, and judges what storagelab says about it. `amount` is the work of each
    connection. None = the usual amount.
    """
    size = Size(repetitions, amount or LOADS[load].amount)
    first = _run(load, kind, kind.speeds, seed, folder / "first", size)
    cautions = analyse(first.experiment, first.plan, first.runs).cautions
    raised = tuple(sorted({one.kind for one in cautions if one.severity == "caution"}))
    if not kind.then:
        return replace(_judge_layouts(load, kind, seed, first), cautions=raised)
    second = _run(load, kind, kind.then, seed, folder / "second", size)
    return replace(_judge_change(load, kind, seed, first, second), cautions=raised)


def _run(load: str, kind: Kind, speeds: Mapping[str, Speed], seed: int, folder: Path, size: Size) -> Results:
    folder.mkdir(parents=True)
    spec = folder / "known.toml"
    spec.write_text(_spec(LOADS[load], kind, speeds, seed, size), encoding="utf-8")
    words = [sys.executable, "-m", "storagelab", "run", str(spec), "--results", str(folder)]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"bench: {kind.name} by {load} failed:\n{done.stderr}")
    return stored.read("known", folder)


def _spec(load: Load, kind: Kind, speeds: Mapping[str, Speed], seed: int, size: Size) -> str:
    room = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2 * len(speeds) * VOLUME_BYTES
    made = f'path = "{_MEMORY if room else "."}", file_bytes = {VOLUME_BYTES}, mount_options = "noatime"'
    places = ", ".join(f"{name} = {{ {made}{_limit(speed)} }}" for name, speed in speeds.items())
    levels = ", ".join(
        f'{{ label = "{one.label}", "layout.data" = {json.dumps(one.data)}, "layout.log" = "{one.log}" }}'
        for one in kind.layouts
    )
    only = kind.layouts[0]
    place = f', data = {json.dumps(only.data)}, log = "{only.log}"' if len(kind.layouts) == 1 else ""
    return (
        f'question = "Is the known answer found: {kind.name}?"\nrepetitions = {size.repetitions}\nseed = {seed}\n'
        f'target = {{ engine = "{load.engine}", settings = {{ {load.settings} }} }}\nvolumes = {{ {places} }}\n'
        f"layout = {{ data_files = {kind.data_files}{place} }}\n"
        f"workload = {{ {load.workload}, {load.each} = {size.amount} }}\n"
        + (f"[factors]\nplace = [{levels}]\n" if not place else "")
    )


def _limit(speed: Speed) -> str:
    return f", limit = {{ {', '.join(f'{key} = {value}' for key, value in speed.items())} }}" if speed else ""


# ---------------------------------------------------------------------------------------------------------------------
# What is known, and what storagelab said
# ---------------------------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """The shortest possible time of a layout's mean run, which may be wrong by `SLICE_S`, and the volume whose limit
    causes it."""

    seconds: float
    volume: str


def known_ratio(slow: Known, fast: Known) -> tuple[float, float, float]:
    """Returns the ratio of the slow layout's time to the fast one's, with the smallest and the largest possible
    ratio."""
    return (
        slow.seconds / fast.seconds,
        (slow.seconds - SLICE_S) / (fast.seconds + SLICE_S),
        (slow.seconds + SLICE_S) / (fast.seconds - SLICE_S),
    )


def known(runs: Sequence[Run], speeds: Mapping[str, Speed]) -> Known:
    """Returns the known answer for these runs. It follows from the requests that the kernel counted on each volume, and
    from the volumes' limits per second. Reads and writes are limited separately, so the volume with the longest reads
    or writes decides.
    """
    times = [_least(run, speeds) for run in runs]
    volumes = [one.volume for one in times]
    return Known(math.exp(fmean(math.log(one.seconds) for one in times)), max(set(volumes), key=volumes.count))


def _least(run: Run, speeds: Mapping[str, Speed]) -> Known:
    assert run.measurement is not None
    counted = run.measurement.counters["volumes"]
    return max(
        Known(counted.get(f"volume.{name}.throttled_{_COUNTED[limit]}", 0.0) / most, name)  # a cell need not use it
        for name, speed in speeds.items()
        for limit, most in speed.items()
    )


def _judge_layouts(load: str, kind: Kind, seed: int, found: Results) -> Judged:
    findings, basis = (
        analyse(found.experiment, found.plan, found.runs),
        basis_of(found.experiment, found.plan, found.runs),
    )
    expected = {
        cell.cell_id: known([run for run in found.runs if run.cell_id == cell.cell_id], kind.speeds)
        for cell in findings.cells
    }
    fastest = min(expected, key=lambda cell: expected[cell].seconds)
    slowest = max(expected, key=lambda cell: expected[cell].seconds)
    best = {*findings.best, *findings.tied}
    ratios = {cell: one.seconds / expected[fastest].seconds for cell, one in expected.items()}
    right_set = all(
        cell not in best if ratio >= APART else cell in best or ratio > TIED for cell, ratio in ratios.items()
    )
    said = opening(findings).why
    causes = [cause.limit for cause in answer(findings).causes]
    named = len(causes) == 1 and causes[0] is not None and causes[0].volume == expected[slowest].volume
    right_reason = named or (not causes and ratios[slowest] < APART)
    false_cause = any(caution.kind == "shared-device" for caution in findings.cautions)
    ratio = ratio_of(basis, found.plan, fastest, slowest)
    return _judged(
        load, kind, seed, known_ratio(expected[slowest], expected[fastest]), ratio, right_set,
        right_reason and not false_cause, " ".join(said),
    )  # fmt: skip


def _judge_change(load: str, kind: Kind, seed: int, first: Results, second: Results) -> Judged:
    one, other = (
        Compared(
            name, found.experiment, analyse(found.experiment, found.plan, found.runs),
            basis_of(found.experiment, found.plan, found.runs),
        )
        for name, found in (("before", first), ("after", second))
    )  # fmt: skip
    compared = compare(one, other)
    expected = known_ratio(known(second.runs, kind.then), known(first.runs, kind.speeds))
    differences = environment_differences(compared, (first.runs, second.runs))
    throttles = [(name, *values) for name, *values in differences if ".throttle." in name]
    changed = {volume for volume, speed in kind.then.items() if speed != kind.speeds[volume]}
    reason = {name.split(".")[1] for name, *_ in throttles} == changed
    said = "; ".join(f"{name}: {before}, then {after}" for name, before, after in throttles)
    return _judged(load, kind, seed, expected, compared.overall, compared.differs, reason, said)


def _judged(
    load: str,
    kind: Kind,
    seed: int,
    expected: tuple[float, float, float],
    ratio: Estimate | None,
    right_set: bool,
    right_reason: bool,
    said: str,
) -> Judged:
    low, high = (None, None) if ratio is None else (ratio.low, ratio.high)
    known_value, least, most = expected
    meet = low is not None and high is not None and low <= most and least <= high
    value = math.nan if ratio is None else ratio.value
    return Judged(load, kind.name, seed, known_value, value, low, high, right_set, meet, right_reason, said)


# ---------------------------------------------------------------------------------------------------------------------
# All of them
# ---------------------------------------------------------------------------------------------------------------------


def figures(folder: Path, campaigns: int, kept: Path | None, loads: Sequence[str] = tuple(LOADS)) -> Iterator[Figure]:
    """Makes this many campaigns of each load, and reports each as soon as it is judged. It does not repeat campaigns in
    the file `kept`.
    """
    if reason := why_not():
        print(f"known answers are left out: {reason}")
        return
    judged = _read(kept)
    for number in range(campaigns):
        for load in loads:
            of_load = KINDS[load]
            kind, seed = of_load[number % len(of_load)], 1 + number // len(of_load)
            found = next((one for one in judged if (one.load, one.kind, one.seed) == (load, kind.name, seed)), None)
            if found is None:
                found = campaign(load, kind, seed, folder / f"{load}-{number}")
                judged.append(found)
                if kept is not None:
                    with kept.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(found)) + "\n")
            yield _figure(found)
    for load in loads:
        of_load = [one for one in judged if one.load == load]
        yield from _totals(load, of_load)


def _read(kept: Path | None) -> list[Judged]:
    if kept is None or not kept.exists():
        return []
    return [Judged(**json.loads(line)) for line in kept.read_text(encoding="utf-8").splitlines()]


def _figure(one: Judged) -> Figure:
    wrong = [
        name
        for name, right in (("set", one.right_set), ("ratio", one.right_ratio), ("reason", one.right_reason))
        if not right
    ]
    remark = f"wrong: {', '.join(wrong)}; " if wrong else ""
    return Figure(
        f"{one.load}, {one.kind}, seed {one.seed}: ratio of times", one.ratio, "", f"{one.expected:.3f}", one.right,
        one.low, one.high, f"{remark}{one.said}",
    )  # fmt: skip


def _totals(load: str, judged: Sequence[Judged]) -> Iterator[Figure]:
    for name in ("right_set", "right_ratio", "right_reason"):
        right = sum(getattr(one, name) for one in judged)
        yield Figure(
            f"{load}: {name.replace('_', ' ')}", right, f"of {len(judged)}", "at least 19 of 20",
            right >= GOAL * len(judged),
        )  # fmt: skip
    raised = Counter(kind for one in judged for kind in one.cautions)
    often = [kind for kind, number in raised.items() if number > len(judged) / 2]
    remark = ", ".join(f"{kind} in {number}" for kind, number in raised.most_common())
    yield Figure(f"{load}: cautions in most campaigns", len(often), "kinds", "none", not often, remark=remark)
