"""What the simulator costs: a campaign of 360 runs, one run life-size, its kernel and its flash drive alone."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.figures import Figure
from storagelab import matrix, pool, spec
from storagelab.analysis import analyse
from storagelab.model import Run
from storagelab.report import REPORT_FILE
from storagelab.store import FILE_NAME, Store

ROOT = Path(__file__).parent.parent
CAMPAIGN = ROOT / "experiments" / "multiple-data-files.toml"
JOBS = 2
_RATIO_ROW = re.compile(r"^ *(?P<processes>\d+) +[\d.]+ +[\d.]+ +[\d.]+ +(?P<same>[\d.]+) +(?P<standard>[\d.]+) ", re.M)
_FTL_ROW = re.compile(r"^map alone, (?P<pattern>\S+(?: \S+)*) +[\d.]+ +(?P<millions>[\d.]+)$", re.M)


def figures(folder: Path) -> Iterator[Figure]:
    """Every figure of the simulator, one by one as it is measured."""
    yield from _campaign(folder)
    yield from _life_size(folder)
    yield from _kernel()
    yield from _flash()


def _campaign(folder: Path) -> Iterator[Figure]:
    results = folder / "campaign"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    command = ["run", str(CAMPAIGN), "--jobs", str(JOBS), "--results", str(results)]
    said = subprocess.run(
        [sys.executable, "-m", "storagelab.cli", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    wall_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if said.returncode != 0:
        raise SystemExit(f"bench: the campaign failed:\n{said.stderr}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    experiment = spec.load(CAMPAIGN)
    with Store.reading(results / experiment.name) as store:
        runs = store.runs()
    stored_at, written_at = ((results / experiment.name / name).stat().st_mtime for name in (FILE_NAME, REPORT_FILE))
    yield Figure(
        f"simulated runs of {experiment.name}: all {len(runs)}, stored, with findings and report", wall_s, "s",
        "at most 60 s on 2 idle cores", wall_s <= 60,
        remark=f"{JOBS} jobs, {written_at - stored_at:.1f} s of it from the last run on: findings and report; "
        f"{cpu_s:.1f} s of CPU time, {1000 * cpu_s / len(runs):.0f} ms a run, load {os.getloadavg()[0]:.1f} at the end",
    )  # fmt: skip
    yield from _python_per_run(folder, runs)


def _python_per_run(folder: Path, runs: tuple[Run, ...]) -> Iterator[Figure]:
    """What of that is Python's own, in ms of CPU time a run: storing it, and judging it with all others."""
    experiment = spec.load(CAMPAIGN)
    with Store.writing(folder / "stored-again", experiment) as store:
        began = time.process_time()
        for run in runs:
            store.append(run)
        stored_ms = 1000 * (time.process_time() - began) / len(runs)
    plan = matrix.expand(experiment)
    began = time.process_time()
    analyse(experiment, plan, runs)
    judged_ms = 1000 * (time.process_time() - began) / len(runs)
    goal = "at most 10 ms"
    yield Figure("storing a simulated run, CPU time", stored_ms, "ms a run", goal, stored_ms <= 10)
    yield Figure("findings over all of them, CPU time", judged_ms, "ms a run", goal, judged_ms <= 10)


def _life_size(folder: Path) -> Iterator[Figure]:
    command = [sys.executable, "-m", "bench.life_size", str(folder)]
    with pool.large_pages():  # as `storagelab run` has it
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise SystemExit(f"bench: the run at scale 1 failed:\n{said.stderr}")
    told = json.loads(said.stdout)
    remark = f"{told['rows']:,} rows, {told['wall_s']:.0f} s of wall time, load {os.getloadavg()[0]:.1f} at the end"
    yield Figure("one run at scale 1, CPU time", told["cpu_s"], "s", "at most 40 s", told["cpu_s"] <= 40, remark=remark)
    yield Figure(
        "its memory at most, Python included", told["peak_mb"], "MB", "at most 3000 MB", told["peak_mb"] <= 3000
    )


def _kernel() -> Iterator[Figure]:
    said = _cargo("bench", "--package", "storagelab-sim", "--bench", "kernel_speed")
    single, _, double = said.partition("the cycle of two")
    for cycle, text in (("one wait", single), ("two waits", double)):
        rows = list(_RATIO_ROW.finditer(text))
        for other, group in (("the standard library's heap", "standard"), ("the kernel's own event list", "same")):
            ratios = [float(row[group]) for row in rows]
            middle = median(ratios)
            each = ", ".join(f"{row['processes']}: {row[group]}" for row in rows)
            yield Figure(
                f"timer events/s, kernel / by hand on {other}, a cycle of {cycle}", middle, "",
                "at least 0.8", middle >= 0.8,
                min(ratios), max(ratios), f"the interval is the range over numbers of processes; {each}",
            )  # fmt: skip


def _flash() -> Iterator[Figure]:
    with pool.large_pages():  # as `storagelab run` has it
        said = _cargo("run", "--package", "storagelab-sim", "--release", "--example", "flash_speed", "--", "1")
    for row in _FTL_ROW.finditer(said):
        millions = float(row["millions"])
        yield Figure(
            f"host page writes through the map alone, drive at scale 1, {row['pattern']}", millions,
            "million a CPU s", "at least 7", millions >= 7,
        )  # fmt: skip


def _cargo(*arguments: str) -> str:
    verb, *rest = arguments
    said = subprocess.run(
        ["cargo", verb, "--quiet", "--locked", *rest], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if said.returncode != 0:
        raise SystemExit(f"bench: cargo {verb} failed:\n{said.stderr}")
    return said.stdout
