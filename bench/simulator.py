"""Measures the costs of the simulator: a campaign of 360 runs, one life-size run, and its kernel and flash drive
alone."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.figures import Figure
from storagelab.findings.analysis import analyse
from storagelab.model.measurement import Run
from storagelab.run.store import Store
from storagelab.spec import matrix, reading

ROOT = Path(__file__).parent.parent
CAMPAIGN = ROOT / "experiments" / "multiple-data-files.toml"
JOBS = 2
TIMES = 3
"""How often figures that take a minute are measured. On a shared machine, the same work may take a fifth longer at
another time.
"""
_RATIO_ROW = re.compile(r"^ *(?P<processes>\d+) +[\d.]+ +[\d.]+ +[\d.]+ +(?P<same>[\d.]+) +(?P<standard>[\d.]+) ", re.M)
_FTL_ROW = re.compile(r"^map alone, (?P<pattern>\S+(?: \S+)*) +[\d.]+ +(?P<millions>[\d.]+)$", re.M)


class _Campaign(NamedTuple):
    """The times for making all runs once, in seconds."""

    findings_s: float
    """From the command to the first line of its findings. By then all runs are stored and judged."""
    wall_s: float
    """From the command to its end. By then the report is written."""
    cpu_s: float


def figures(folder: Path, times: int = TIMES) -> Iterator[Figure]:
    """Yields every figure of the simulator as soon as it is measured."""
    yield from _campaigns(folder, times)
    yield from _life_size(folder, times)
    yield from _kernel()
    yield from _flash()


def _campaigns(folder: Path, times: int) -> Iterator[Figure]:
    made = [_campaign(folder / f"campaign-{number}") for number in range(times)]
    experiment = reading.load(CAMPAIGN)
    with Store.reading(folder / "campaign-0" / experiment.name) as store:
        runs = store.runs()
    findings = [each.findings_s for each in made]
    findings_s, wall_s, cpu_s = (median(values) for values in zip(*made, strict=True))
    yield Figure(
        f"simulated runs of {experiment.name}: all {len(runs)}, stored, with findings", findings_s, "s",
        "at most 60 s on 2 idle cores", findings_s <= 60, min(findings), max(findings),
        remark=f"{JOBS} jobs, {_medians(findings)}; with the report {wall_s:.1f} s; "
        f"{cpu_s:.1f} s of CPU time, {1000 * cpu_s / len(runs):.0f} ms a run, {_load()}",
    )  # fmt: skip
    yield from _python_per_run(folder, runs)


def _medians(seconds: Sequence[float]) -> str:
    each = ", ".join(f"{value:.1f}" for value in seconds)
    return f"median of {len(seconds)} times ({each}), the interval is their range"


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f} at the end"


def _campaign(results: Path) -> _Campaign:
    results.mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-u", "-m", "storagelab", "run", str(CAMPAIGN), "--jobs", str(JOBS)]
    with (results / "stderr").open("w+") as stderr:
        began = time.perf_counter()
        with subprocess.Popen(
            [*command, "--results", str(results)], cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr
        ) as running:
            assert running.stdout is not None
            running.stdout.readline()
            findings_s = time.perf_counter() - began
            running.stdout.read()
        wall_s = time.perf_counter() - began
        if running.returncode != 0:
            stderr.seek(0)
            raise SystemExit(f"bench: the campaign failed:\n{stderr.read()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Campaign(findings_s, wall_s, cpu_s)


def _python_per_run(folder: Path, runs: tuple[Run, ...]) -> Iterator[Figure]:
    """Measures Python's part of a run's CPU time, in ms: to store the run, and to judge it with all others."""
    experiment = reading.load(CAMPAIGN)
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


def _life_size(folder: Path, times: int) -> Iterator[Figure]:
    results = [_one_life_size(folder) for _ in range(times)]
    cpu_s, peak_mb = [each["cpu_s"] for each in results], max(each["peak_mb"] for each in results)
    yield Figure(
        "one run at scale 1, CPU time", median(cpu_s), "s", "at most 40 s", median(cpu_s) <= 40, min(cpu_s), max(cpu_s),
        remark=f"{results[0]['rows']:,} rows, {_medians(cpu_s)}; {_load()}",
    )  # fmt: skip
    yield Figure("its memory at most, Python included", peak_mb, "MB", "at most 3000 MB", peak_mb <= 3000)


def _one_life_size(folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.life_size", str(folder)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise SystemExit(f"bench: the run at scale 1 failed:\n{said.stderr}")
    results: dict[str, float] = json.loads(said.stdout)
    return results


def _kernel() -> Iterator[Figure]:
    said = _rust_bench("kernel_speed")
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
    said = _rust_bench("flash_speed", "1")
    for row in _FTL_ROW.finditer(said):
        millions = float(row["millions"])
        yield Figure(
            f"host page writes through the map alone, drive at scale 1, {row['pattern']}", millions,
            "million a CPU s", "at least 7", millions >= 7,
        )  # fmt: skip


def _rust_bench(name: str, *arguments: str) -> str:
    command = ["cargo", "bench", "--quiet", "--locked", "--package", "storagelab-sim", "--features", "internals"]
    said = subprocess.run(
        [*command, "--bench", name, "--", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if said.returncode != 0:
        raise SystemExit(f"bench: cargo bench {name} failed:\n{said.stderr}")
    return said.stdout
