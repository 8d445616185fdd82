"""Measures the time and the memory of a report of 100,000 simulated runs."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.figures import Figure
from bench.listening import Quiet
from storagelab.model.measurement import Measurement, Run
from storagelab.model.plan import Experiment
from storagelab.run import loop
from storagelab.run.store import Store
from storagelab.spec import matrix, reading
from storagelab.volumes.folders import Site

SERVER = """
[target]
engine = "simulated"
scale = 1000
[server]
cores = 4
memory = "4GB"
[drives.ssd]
profile = "iodrive-320"
format = "basic"
driver = "2.2.3"
sector_bytes = 512
[volumes.a]
drives = ["ssd"]
[workload]
connections = 8
"""
CELLS, REPETITIONS = 2_000, 50
_TOGETHER = 10
"""The number of runs that are stored at the same time, as a cluster delivers them."""
_SPEC = f"""
name = "{{name}}"
repetitions = {{repetitions}}
{SERVER}
[factors]
"layout.data_files" = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128]
"workload.rows_per_connection" = {{rows}}
"""


def figures(folder: Path, cells: int) -> Iterator[Figure]:
    """Yields the figures of `cells` cells with 50 repetitions each."""
    results = folder / "large"
    made = _made(results)
    experiment = _experiment(results, "large", cells // 10, REPETITIONS)
    runs_per_s = _fill(results / "large", experiment, made)
    many = f"{cells * REPETITIONS:,} runs of {cells:,} layouts"
    yield Figure(
        f"runs stored a second, {_TOGETHER} at a time", runs_per_s, "", "at least 300", runs_per_s >= 300, remark=many
    )
    began, before = time.perf_counter(), _cpu_s()
    subprocess.run(
        [sys.executable, "-m", "storagelab", "report", "large", "--results", str(results)],
        check=True, capture_output=True,
    )  # fmt: skip
    wall_s, cpu_s = time.perf_counter() - began, _cpu_s() - before
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield Figure(
        f"`storagelab report` of {many}, CPU time", cpu_s, "s", "at most 60 s", cpu_s <= 60,
        remark=f"{wall_s:.0f} s by the clock, load {os.getloadavg()[0]:.1f} at the end",
    )  # fmt: skip
    yield Figure("its memory at most", peak_mb, "MB", "at most 1000 MB", peak_mb <= 1000)


def _experiment(results: Path, name: str, rows: int, repetitions: int) -> Experiment:
    results.mkdir(exist_ok=True)
    file = results / f"{name}.toml"
    levels = [500_000 + 1_000 * number for number in range(rows)]
    file.write_text(_SPEC.format(name=name, repetitions=repetitions, rows=levels), encoding="utf-8")
    return reading.load(file)


def _made(results: Path) -> list[Measurement]:
    """Makes real runs of small simulated servers, and returns their measurements."""
    experiment = _experiment(results, "made", 2, 2)
    site = Site(experiment="bench", identity="1a46e000", spec_folder=results)
    with Store.writing(results / "made", experiment) as store:
        loop.run_all(matrix.expand(experiment), store, site, Quiet())
        return [run.measurement for run in store.runs() if run.measurement is not None]


def _fill(place: Path, experiment: Experiment, made: Sequence[Measurement]) -> float:
    """Stores all runs of the experiment. Each is a copy of a real run whose time is changed at random. Returns stored
    runs per second.
    """
    plan, chance, storing_s = matrix.expand(experiment), random.Random(1), 0.0
    cells = {cell.cell_id: cell for cell in plan.cells}
    with Store.writing(place, experiment) as store:
        for first in range(0, len(plan.runs), _TOGETHER):
            runs = []
            for one in plan.runs[first : first + _TOGETHER]:
                measured = chance.choice(made)
                shifted = measured.model_copy(update={"elapsed_s": measured.elapsed_s * chance.gauss(1.0, 0.03)})
                runs.append(
                    Run(
                        **one.model_dump(), status="ok", started_at="2026-01-01T00:00:00+00:00",
                        finished_at="2026-01-01T00:00:01+00:00", wall_s=0.01, levels=cells[one.cell_id].levels,
                        config=cells[one.cell_id].config, measurement=shifted,
                    )
                )  # fmt: skip
            began = time.perf_counter()
            store.append(*runs)
            storing_s += time.perf_counter() - began
    return len(plan.runs) / storing_s


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
