"""`--only limits`: compares the limits that a spec sets on a volume with fio's measurements. It also measures the two
rates of a volume with burst credits, and the moment at which it has no credits left.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, median

from bench.figures import Figure
from bench.known_answers import why_not
from storagelab.model.measurement import RAW_IO, Measurement
from storagelab.run import stored

_MEMORY = Path("/dev/shm")
MIB = 2**20
LIMITS = {
    ("read_iops", "read", 8192): 200, ("write_iops", "write", 8192): 200,
    ("read_bytes_per_s", "read", MIB): 20 * MIB, ("write_bytes_per_s", "write", MIB): 20 * MIB,
}  # fmt: skip
"""Maps a key, an operation and a block size to the limit per second. The limits are so low that fio, with 64 requests
in progress, needs hardly any CPU.
"""
SECONDS = 20
RATE, BURST, CREDITS = 200, 600, 3_200
"""A bucket of this many credits is empty after CREDITS / (BURST - RATE) = 8 s."""
GOAL, BURST_GOAL = 0.01, 0.05


def figures(folder: Path, repetitions: int) -> Iterator[Figure]:
    if reason := why_not():
        print(f"limits are left out: {reason}")
        return
    for (key, operation, block), limit in LIMITS.items():
        runs = _runs(folder, f"{key} = {limit}", operation, block, repetitions)
        ratios = [(_rate(one) * (block if "bytes" in key else 1)) / limit for one in runs]
        yield _figure(f"{key} = {limit:,}: measured over asked", ratios, GOAL)
    burst = f"read_iops = {RATE}, burst = {{ iops = {BURST}, credits = {CREDITS} }}"
    runs = _runs(folder, burst, "read", 8192, repetitions)
    expected_s = CREDITS / (BURST - RATE)
    # These are whole seconds well before and well after the change.
    before = [median(_per_s(one)[1 : int(expected_s) - 1]) for one in runs]
    after = [median(_per_s(one)[int(expected_s) + 2 : -1]) for one in runs]
    yield _figure(f"burst of {BURST:,}/s: measured over asked", [one / BURST for one in before], BURST_GOAL)
    yield _figure(f"then {RATE:,}/s: measured over asked", [one / RATE for one in after], BURST_GOAL)
    # The number of all requests is the sum over both rates, so the moment of the change can be computed from it.
    changed_s = [(_rate(one) * one.elapsed_s - RATE * one.elapsed_s) / (BURST - RATE) for one in runs]
    yield _figure(
        f"moment of change, {expected_s:g} s: measured over asked", [one / expected_s for one in changed_s], BURST_GOAL
    )


def _figure(name: str, ratios: list[float], goal: float) -> Figure:
    met = all(abs(one - 1) <= goal for one in ratios)
    remark = ", ".join(f"{one:.4f}" for one in ratios)
    return Figure(name, fmean(ratios), "", f"within {100 * goal:g} %, each", met, min(ratios), max(ratios), remark)


def _rate(run: Measurement) -> float:
    return run.counters[RAW_IO]["ios_per_s"]


def _per_s(run: Measurement) -> list[float]:
    return [one or 0.0 for one in run.series.columns["requests_per_s"]]


def _runs(folder: Path, limit: str, operation: str, block: int, repetitions: int) -> list[Measurement]:
    place = folder / f"limits-{abs(hash(limit + operation)):x}"
    place.mkdir()
    memory = _MEMORY / f"storagelab-bench-limits-{os.getpid()}"
    memory.mkdir(exist_ok=True)
    spec = place / "limits.toml"
    spec.write_text(
        f'repetitions = {repetitions}\n[target]\nengine = "raw-io"\n[volumes.a]\npath = "{memory}"\nfile = "256MiB"\n'
        f'limit = {{ {limit} }}\n[layout]\ndata_size = "128MiB"\n[workload]\noperation = "{operation}"\n'
        f'pattern = "random"\nblock_bytes = {block}\noutstanding = 64\nduration_s = {SECONDS}\nwarm_up_s = 0\n',
        encoding="utf-8",
    )
    try:
        done = subprocess.run(
            [sys.executable, "-m", "storagelab", "run", str(spec), "--results", str(place)], cwd=place, check=False,
            capture_output=True, text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    finally:
        memory.rmdir()
    if done.returncode != 0:
        raise SystemExit(f"bench: {limit} failed:\n{done.stderr}")
    return [run.measurement for run in stored.read("limits", place).runs if run.measurement is not None]
