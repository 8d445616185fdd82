"""Measures what a cluster costs: a batch, two workers against two processes, and a client with many workers."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest import mock

from bench import stand_ins
from bench.figures import Figure, paired_ratios, ratio_figure
from bench.listening import Quiet
from bench.small_worlds import SERVER
from storagelab.console import Screen
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.run import cluster, joining, loop
from storagelab.run.executors import Executor
from storagelab.run.messages import Request
from storagelab.run.progress import RunProgress
from storagelab.run.requests import SimulatedRuns
from storagelab.run.scheduling import Batch, Schedule
from storagelab.run.store import Store
from storagelab.spec import matrix, reading
from storagelab.targets import Site

ROOT = Path(__file__).parent.parent
ARTICLE_A = ROOT / "experiments" / "multiple-data-files.toml"
SCALE, SMALLEST, WORKERS = 256, 1000, 2
STARTING = 5
"""This many runs don't count: the worker is still loading its programs."""
STAND_INS, PROCESSES = 64, 4
SETTLING_S, WATCHED_S, IN_WORK_S = 12.0, 60.0, 8.0
_LOCAL = "127.0.0.1"
_SIMULATED = SimulatedRuns()
_MANY_BLOCKS = f"""
name = "stand-ins"
repetitions = 100
{SERVER}
rows_per_connection = 500_000
[factors]
"drives.ssd.host_ram_bytes" = {{ram}}
"""

Elsewhere = Executor[Any, Any]


def figures(folder: Path, pairs: int, quick: bool) -> Iterator[Figure]:
    """Every figure of a cluster, each as soon as it is measured."""
    yield from _batches(folder, _article_a(SMALLEST, 1 if quick else 3))
    yield from _against_processes(folder, _article_a(SCALE, 2 if quick else 5), 2 if quick else max(3, pairs // 3))
    yield from _many_workers(folder, 20.0 if quick else WATCHED_S)


def _article_a(scale: int, repetitions: int) -> Experiment:
    text = re.sub(r"(?m)^scale = \d+", f"scale = {scale}", ARTICLE_A.read_text("utf-8"))
    return reading.parse(text, str(ARTICLE_A)).model_copy(update={"repetitions": repetitions})


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f} at the end"


def _cluster(
    request: Request[Batch, Any] = _SIMULATED, address: str | None = None, workers: int = WORKERS
) -> cluster.Cluster[Any, Any]:
    return cluster.Cluster(request, joining.Reach(address, workers), lambda _: None, limit_s=3600.0)


def _made(folder: Path, experiment: Experiment, elsewhere: Elsewhere | None) -> tuple[Run, ...]:
    """All runs of the experiment, made by two workers or by two processes."""
    place = folder / f"cluster-{time.monotonic_ns()}"
    site = Site(experiment="bench", identity="c1057e40", spec_folder=folder)
    with Store.writing(place, experiment) as store:
        loop.run_all(matrix.expand(experiment), store, site, Quiet(), jobs=WORKERS, elsewhere=elsewhere)
        return store.runs()


def _times(runs: Iterable[Run]) -> list[tuple[float, float]]:
    """When runs began and ended, in that order."""
    texts = ((run.started_at, run.finished_at) for run in runs)
    return sorted((datetime.fromisoformat(a).timestamp(), datetime.fromisoformat(b).timestamp()) for a, b in texts)


def _side_by_side(runs: tuple[Run, ...]) -> tuple[float, list[Run]]:
    """The seconds since two runs were first made at once, and the runs begun since then; without the time in which
    processes start.
    """
    times = _times(runs)
    since = next((later for (_, ended), (later, _) in itertools.pairwise(times) if later < ended), times[0][0])
    begun = [run for run in runs if datetime.fromisoformat(run.started_at).timestamp() >= since]
    return max(ended for _, ended in times) - since, begun


def digest(runs: tuple[Run, ...]) -> str:
    """A digest of everything measured, except the time that it took here."""
    digest = hashlib.sha256()
    for run in sorted(runs, key=lambda run: run.sequence):
        assert run.measurement is not None
        measured = run.measurement.model_copy(update={"teardown_s": None})
        digest.update(f"{run.sequence} {run.status} {measured.model_dump_json()}\n".encode())
    return digest.hexdigest()[:16]


# --- a batch ---------------------------------------------------------------------------------------------------------


def _batches(folder: Path, experiment: Experiment) -> Iterator[Figure]:
    """Makes a batch for each run with one worker, so that it and its client have a core each. Measures the time of
    the worker outside its runs, and the CPU time of all processes, including client and scheduler, that batches of
    several runs save.
    """
    _, few, few_cpu_s = _with_cpu_time(folder, experiment)
    with mock.patch.object(loop, "_BUDGET_S", 0.0):
        single, many, cpu_s = _with_cpu_time(folder, experiment)
    times = _times(single)[STARTING:]
    run_ms = 1000 * sum(ended - began for began, ended in times) / len(times)
    each_ms = 1000 * (times[-1][1] - times[0][0]) / len(times) - run_ms
    yield Figure(
        "a batch's time at a worker beside its runs", each_ms, "ms", "below 20 ms", each_ms < 20,
        remark=f"{len(single)} batches of one run, which took {run_ms:.0f} ms, drives loaded in each; {_load()}",
    )  # fmt: skip
    yield Figure(
        "a batch's CPU time in all processes beside its runs", each_ms, "ms", "for the record", None,
        remark=f"{cpu_s:.1f} s with {many} batches, {few_cpu_s:.1f} s with {few} batches of the same runs",
    )  # fmt: skip


def _with_cpu_time(folder: Path, experiment: Experiment) -> tuple[tuple[Run, ...], int, float]:
    """Makes all runs on a cluster; returns the number of batches, and the CPU time of this process and the
    cluster's.
    """
    before, sent = _cpu_s(), list[Batch | None]()
    assign = Schedule.assign

    def noting(schedule: Schedule) -> Batch | None:
        sent.append(assign(schedule))
        return sent[-1]

    with mock.patch.object(Schedule, "assign", noting):
        runs = _made(folder, experiment, _cluster(workers=1))
    return runs, sum(one is not None for one in sent), _cpu_s() - before


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


# --- two workers, two processes --------------------------------------------------------------------------------------


def _against_processes(folder: Path, experiment: Experiment, pairs: int) -> Iterator[Figure]:
    digests: set[str] = set()

    def speed(elsewhere: Elsewhere | None) -> float:
        runs = _made(folder, experiment, elsewhere)
        digests.add(digest(runs))
        took_s, begun = _side_by_side(runs)
        return len(begun) / took_s

    ratios = paired_ratios(pairs, lambda: speed(_cluster()), lambda: speed(None))
    yield ratio_figure(
        "runs/s of two Dask workers / of two processes of our own", ratios, "at least 0.95", lambda r: r >= 0.95,
        f"{experiment.name}, {experiment.repetitions} repetitions at scale {SCALE}, once two runs go at a time; {_load()}",
    )  # fmt: skip
    yield Figure(
        "different outcomes of these campaigns, by digest", len(digests), "", "exactly 1", len(digests) == 1,
        remark=", ".join(sorted(digests)),
    )  # fmt: skip


# --- many workers ----------------------------------------------------------------------------------------------------


class _Watched(RunProgress):
    """The progress that `storagelab run` shows. It notes all batches and the client's CPU time, and stops in time."""

    def watch(self, executor: cluster.Cluster[Any, Any], watched_s: float) -> None:
        self._executor, self._watched_s = executor, watched_s
        self._full_at: float | None = None
        self.slept: list[tuple[float, float]] = []
        self.at_s, self.cpu_s, self.runs = [0.0, 0.0], [0.0, 0.0], 0

    def stored(self, run: Run) -> None:
        super().stored(run)
        now = time.time()
        times = (datetime.fromisoformat(at).timestamp() for at in (run.started_at, run.finished_at))
        self.slept.append((next(times), next(times)))
        if self._full_at is None:
            self._full_at = now if self._executor.at_once == STAND_INS else None
            return
        since_s = now - self._full_at
        if since_s < SETTLING_S:
            self.at_s[0], self.cpu_s[0] = now, time.process_time()
        elif since_s < SETTLING_S + self._watched_s:
            self.at_s[1], self.cpu_s[1] = now, time.process_time()
            self.runs += 1
        elif since_s > SETTLING_S + self._watched_s + IN_WORK_S:
            raise KeyboardInterrupt


def _many_workers(folder: Path, watched_s: float) -> Iterator[Figure]:
    file = folder / "stand-ins.toml"
    file.write_text(_MANY_BLOCKS.format(ram=[8 * 2**30 + n for n in range(300)]), encoding="utf-8")
    experiment = reading.load(file)
    plan = matrix.expand(experiment)
    with _stand_ins(folder) as address:
        watched = _slept(folder, experiment, plan, address, watched_s)
    low, high = watched.at_s
    slept_s = sum(max(0.0, min(end, high) - max(start, low)) for start, end in watched.slept)
    busy = 100 * slept_s / (STAND_INS * (high - low))
    cpu = 100 * (watched.cpu_s[1] - watched.cpu_s[0]) / (high - low)
    rate = watched.runs / (high - low)
    seen = f"{rate:.0f} runs/s stored and shown, watched for {high - low:.0f} s"
    remark = f"batches of {stand_ins.SLICE_S:g} s, {seen}; {_load()}"
    yield Figure(f"{STAND_INS} workers that only sleep: busy", busy, "%", "at least 90 %", busy >= 90, remark=remark)
    yield Figure(
        "CPU of their client", cpu, "% of one core", "below 30 %", cpu < 30,
        remark=f"{cpu / rate * 10:.2f} ms a run, {cpu / rate * 10 * stand_ins.SLICE_S / stand_ins.RUN_S:.1f} ms a batch",
    )  # fmt: skip
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Figure("memory of their client at most", peak_mb, "MB", "below 1000 MB", peak_mb < 1000)


def _slept(folder: Path, experiment: Experiment, plan: Plan, address: str, watched_s: float) -> _Watched:
    site = Site(experiment="bench", identity="57a4d194", spec_folder=folder)
    executor = _cluster(stand_ins.Sleeping(), address)
    place = folder / "stand-ins"
    with (
        Store.writing(place, experiment) as store,
        _Watched(plan, plan.runs, (), Screen(file=io.StringIO()), place) as progress,
    ):
        progress.workers = lambda: executor.at_once
        progress.watch(executor, watched_s)
        with contextlib.suppress(KeyboardInterrupt):
            loop.run_all(plan, store, site, progress, elsewhere=executor)
            raise SystemExit("bench: the stand-ins had nothing left to do")
        return progress


@contextlib.contextmanager
def _stand_ins(folder: Path) -> Iterator[str]:
    """The address of a scheduler with this many workers that only sleep."""
    with socket.socket() as asking:
        asking.bind((_LOCAL, 0))
        port = asking.getsockname()[1]
    address = f"tcp://{_LOCAL}:{port}"
    scheduler = ["distributed.cli.dask_scheduler", "--host", _LOCAL, "--port", str(port), "--no-dashboard"]
    workers = ["bench.stand_ins", address, str(STAND_INS // PROCESSES)]
    with (folder / "stand-ins.log").open("w") as log, contextlib.ExitStack() as stack:
        for words in (scheduler, *[workers] * PROCESSES):
            process = subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
            if words is scheduler:
                _wait_for(port)
        yield address


def _wait_for(port: int) -> None:
    for _ in range(120):
        with contextlib.suppress(OSError), socket.create_connection((_LOCAL, port), timeout=1):
            return
        time.sleep(0.5)
    raise SystemExit("bench: no scheduler came up")
