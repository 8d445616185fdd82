"""`make bench` prints each figure with its goal. ARGS="--list" prints the question of each part. ARGS="--only mariadb"
runs one part. ARGS="--pairs 3 --quick" gives a rough result.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from bench import (
    carried_over,
    faults,
    fuzz,
    known_answers,
    large,
    limits,
    loads,
    many_runs,
    mariadb_load,
    page,
    predictions,
    raw_io,
    recommended,
    replayed,
    simulator,
    statistics,
    topologies,
)
from bench.figures import Figure, paired_ratios, ratio_figure, rounds, show
from storagelab.model.measurement import Measurement

ROOT = Path(__file__).parent.parent


PARTS = {
    "servers": "What does storagelab cost beside psql and pgbench on PostgreSQL, and between two runs?",
    "mariadb": "What does it cost beside MariaDB's own client, and its sampling?",
    "page": "How long does a report take, and how large is it?",
    "simulator": "How fast is the simulator, against its own smaller worlds?",
    "cluster": "How do two workers of Dask's compare with two processes of our own?",
    "large": "Can a campaign of very many runs be planned, stored and reported?",
    "statistics": "How often are verdicts false, intervals too narrow, and differences found, in drawn experiments?",
    "raw-io": "Does raw I/O through storagelab give fio's own figures?",
}
ON_REQUEST = {
    "known-answers": "Do real campaigns on volumes of known speed name the right winner?",
    "limits": "Do limited volumes keep to their limits, and their burst credits?",
    "carried-over": "Does a run on a server leave something behind for the next one?",
    "topologies": "Does any experiment on drives change a byte outside of them, killed or not?",
    "predictions": "How far are predictions from what is measured then?",
    "recommended": "Are recommended layouts faster, and left alone where nothing gains?",
    "replayed": "Do replays of the kept cases of `recommended` say what the live database says?",
    "faults": "Does a campaign that is killed, stopped or starved lose or repeat a run?",
    "fuzz": "Does a wrong spec, an option or a damaged store ever end in a traceback?",
}
"""These parts take long. They measure no costs of storagelab."""
TABLES = {
    "drawn": "What do reports say of drawn campaigns, for every order of runs and every situation?",
    "drawn_cycles": "What do checkpoint cycles do to verdicts?",
    "pgbench_by_hand": "Does pgbench through storagelab give the figures of pgbench by hand?",
}
"""Separate programs, `python -m bench.NAME`. They print or write tables for docs/records or docs/how-to."""

_CASES = {
    False: {"typed": 1_000, "forked": 5_000, "damaged": 200},
    True: {"typed": 40, "forked": 200, "damaged": 20},
}
"""The numbers of wrong specs tried by process, of wrong specs tried in process, and of damaged stores. The key is
--quick."""


def figures(folder: Path, options: argparse.Namespace, parts: Collection[str]) -> Iterator[Figure]:
    """Yields every figure as soon as it is measured."""
    pairs, quick, write = options.pairs, options.quick, options.write
    if "servers" in parts:
        yield from _servers(folder, pairs, quick)
    if "mariadb" in parts and shutil.which("mariadb"):
        yield from _mariadb(folder, pairs)
    if "page" in parts:
        yield from page.figures(folder, 1 if quick else 5)
    if "simulator" in parts:
        yield from simulator.figures(folder, 1 if quick else simulator.TIMES)
    if "cluster" in parts and find_spec("distributed"):
        from bench import cluster  # this part needs the extra `cluster`

        yield from cluster.figures(folder, pairs, quick)
    if "large" in parts:
        yield from large.figures(folder, 200 if quick else large.CELLS)
    if "statistics" in parts:
        yield from statistics.figures(quick, write, options.kept, options.jobs)
    if "raw-io" in parts and shutil.which("fio"):
        yield from raw_io.figures(folder, pairs)
    yield from _on_request(folder, options, parts)


def _on_request(folder: Path, options: argparse.Namespace, parts: Collection[str]) -> Iterator[Figure]:
    if "known-answers" in parts:
        yield from known_answers.figures(folder, 4 if options.quick else options.campaigns, options.kept)
    if "limits" in parts:
        yield from limits.figures(folder, 1 if options.quick else 3)
    if "carried-over" in parts:
        yield from carried_over.figures(folder, 1 if options.quick else 3)
    if "topologies" in parts:
        yield from topologies.figures(folder, 25 if options.quick else topologies.COUNT, options.kept)
    if "predictions" in parts:
        cases = 2 if options.quick else options.campaigns
        yield from predictions.figures(folder, cases, options.seed, options.kept, write=options.write)
    if "recommended" in parts:
        cases = 2 if options.quick else options.campaigns
        yield from recommended.figures(folder, cases, options.seed, options.kept, write=options.write)
    if "replayed" in parts:
        cases = 2 if options.quick else options.campaigns
        yield from replayed.figures(folder, cases, options.seed, options.kept)
    if "faults" in parts:
        yield from faults.figures(options)
    if "fuzz" in parts:
        yield from fuzz.figures(folder, seed=1, **_CASES[options.quick])


def _servers(folder: Path, pairs: int, quick: bool) -> Iterator[Figure]:
    yield _against_psql(folder, pairs)
    yield _against_pgbench(folder, max(3, pairs // 2))
    yield from _observer(folder, pairs)
    yield from _between_runs(folder)
    seconds = many_runs.report_seconds(folder)
    yield Figure("report of 5,000 stored runs", seconds, "s", "at most 10 s", seconds <= 10)
    if not quick:
        yield _demo(folder)


def _rows_per_s(folder: Path, *, waits: bool = True) -> float:
    measured = loads.through_storagelab(folder, loads.config(waits=waits))
    return measured.work_per_s or 0.0


def _against_psql(folder: Path, pairs: int) -> Figure:
    ratios = paired_ratios(pairs, lambda: _rows_per_s(folder), lambda: loads.procedure_by_psql(folder, loads.config()))
    return ratio_figure(
        "rows/s through storagelab / the same procedure by psql alone", ratios, "at least 0.97", lambda r: r >= 0.97,
        "sampling on in storagelab",
    )  # fmt: skip


def _against_pgbench(folder: Path, pairs: int) -> Figure:
    ratios = paired_ratios(pairs, lambda: _rows_per_s(folder), lambda: loads.inserts_by_pgbench(folder, loads.config()))
    return ratio_figure(
        "rows/s through storagelab / pgbench's client-side inserts", ratios, "more than 1.5", lambda r: r > 1.5,
        "same rows, same transactions",
    )  # fmt: skip


def _mariadb(folder: Path, pairs: int) -> Iterator[Figure]:
    """Each round has three runs: one with sampling, one without, and one by the server's own client alone."""
    shares = []

    def ours(*, waits: bool = True) -> float:
        measured = loads.through_storagelab(folder, mariadb_load.config(waits=waits))
        if waits:
            shares.append(_observer_share(measured))
        return measured.work_per_s or 0.0

    client = functools.partial(mariadb_load.procedure_by_client, folder, mariadb_load.config())
    found = rounds(pairs, (ours, client, functools.partial(ours, waits=False)))
    yield ratio_figure(
        "MariaDB: rows/s through storagelab / the same procedure by its client",
        [watched / alone for watched, alone, _ in found], "at least 0.97", lambda r: r >= 0.97,
        "sampling on in storagelab, waits timed in both",
    )  # fmt: skip
    yield ratio_figure(
        "MariaDB: rows/s with waits timed and sampled / without",
        [watched / unwatched for watched, _, unwatched in found], "stated with its interval", None,
        "50 Hz, 16 connections",
    )  # fmt: skip
    yield Figure(
        "MariaDB: CPU of the sampler and its session", median(shares), "% of one core", "below 4 %", median(shares) < 4,
        min(shares), max(shares), "the interval is the range over runs",
    )  # fmt: skip


def _observer_share(measured: Measurement) -> float:
    """Returns the CPU time of the sampler and its session, in % of one core."""
    assert measured.observer is not None
    return 100 * (measured.observer.sampler_cpu_s + (measured.observer.session_cpu_s or 0)) / measured.elapsed_s


def _observer(folder: Path, pairs: int) -> Iterator[Figure]:
    shares = []

    def observed() -> float:
        measured = loads.through_storagelab(folder, loads.config())
        shares.append(_observer_share(measured))
        return measured.work_per_s or 0.0

    ratios = paired_ratios(pairs, observed, lambda: _rows_per_s(folder, waits=False))
    yield ratio_figure(
        "rows/s with sampling / without", ratios, "stated with its interval", None, "50 Hz, 16 connections"
    )
    yield Figure(
        "CPU of the sampler and its session", median(shares), "% of one core", "below 4 %", median(shares) < 4,
        min(shares), max(shares), "the interval is the range over runs",
    )  # fmt: skip


def _between_runs(folder: Path) -> Iterator[Figure]:
    """Measures the time between two runs, and the time in a run outside its set-up, load and clean-up."""
    from bench import overhead

    outside_ms, inside_ms = overhead.between_runs_ms(folder, runs=8)
    yield Figure(
        "between two runs (choose, store, show)", outside_ms, "ms", "below 50 ms", outside_ms < 50,
        remark="median over runs; without set-up, load, checkpoints and clean-up",
    )  # fmt: skip
    yield Figure(
        "inside a run, without set-up, load, checkpoints and clean-up", inside_ms, "ms", "for the record", None,
        remark="opening 16 connections, counting 480,000 rows, reading back, counters",
    )  # fmt: skip


def _demo(folder: Path) -> Figure:
    began = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "storagelab",
        "demo",
        "--results",
        str(folder / "demo"),
    ]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if said.returncode != 0:
        raise SystemExit(f"bench: the demo failed:\n{said.stderr}")
    return Figure("make demo, packages installed", seconds, "s", "at most 120 s", seconds <= 120)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("--pairs", type=int, default=9, help="how many pairs to measure for each ratio")
    parser.add_argument("--quick", action="store_true", help="leave out the demo, and draw a tenth of the experiments")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the tables of --only statistics, or the errors of predictions",
    )
    parser.add_argument("--only", choices=(*PARTS, *ON_REQUEST), help="run only this part")
    parser.add_argument("--list", action="store_true", help="print the question of each part, and exit")
    parser.add_argument("--campaigns", type=int, default=20, help="known answers per engine, or cases in all")
    parser.add_argument(
        "--kept",
        type=Path,
        help="a file with earlier known answers, faults or topologies, which are not made again; for predictions and "
        "statistics, a folder",
    )
    parser.add_argument("--jobs", type=int, default=0, help="how many processes draw; 0 = as many as there are CPUs")
    faults.add_options(parser)
    options = parser.parse_args()
    if options.list:
        parts = {**PARTS, **{f"--only {name}": said for name, said in ON_REQUEST.items()}}
        for name, question in {**parts, **{f"python -m bench.{name}": said for name, said in TABLES.items()}}.items():
            print(f"{name:36} {question}")
        return 0
    cores = os.cpu_count()
    print(
        f"storagelab's own cost, {options.pairs} pairs a ratio, {cores} CPUs, load "
        f"{os.getloadavg()[0]:.1f} at the start"
    )
    missed = 0
    with tempfile.TemporaryDirectory(prefix="storagelab-bench-", dir=ROOT) as name:
        for figure in figures(Path(name), options, [options.only] if options.only else PARTS):
            print(show(figure), flush=True)
            missed += figure.met is False
    print(f"{missed} goals missed" if missed else "all goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
