"""Measures how long the report of a store of thousands of runs takes."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from bench import loads
from storagelab.model.measurement import Measurement, Run
from storagelab.run.store import Store
from storagelab.spec import matrix, reading

CELLS, REPETITIONS = 1_000, 5
_SPEC = """
name = "many-runs"
repetitions = {repetitions}
[target]
engine = "postgres"
[volumes.here]
path = "."
[factors]
"layout.data_files" = {data_files}
"workload.rows_per_transaction" = {transactions}
"""


def report_seconds(folder: Path) -> float:
    """Returns how many seconds `storagelab report` takes for 5,000 stored runs of 1,000 cells."""
    results = stored(folder, CELLS, REPETITIONS)
    began = time.perf_counter()
    report(results)
    return time.perf_counter() - began


def report(results: Path) -> Path:
    """Makes the report on the results that `stored` made. Returns its page."""
    subprocess.run(
        [sys.executable, "-m", "storagelab", "report", "many-runs", "--results", str(results)],
        check=True, capture_output=True,
    )  # fmt: skip
    return results / "many-runs" / "report.html"


def stored(folder: Path, cells: int, repetitions: int) -> Path:
    """Makes a folder of results. All runs have one real run's measurement, with times that are changed at random."""
    results = folder / f"many-runs-{cells}"
    file = folder / f"many-runs-{cells}.toml"
    files, transactions = list(range(1, 11)), [100 * n for n in range(1, cells // 10 + 1)]
    file.write_text(
        _SPEC.format(repetitions=repetitions, data_files=files, transactions=transactions), encoding="utf-8"
    )
    _fill(file, results, loads.through_storagelab(folder, loads.config(5_000)))
    return results


def _fill(file: Path, results: Path, measured: Measurement) -> None:
    experiment = reading.load(file)
    plan = matrix.expand(experiment)
    cells = {cell.cell_id: cell for cell in plan.cells}
    chance = random.Random(1)
    with Store.writing(results / experiment.name, experiment) as store:
        for planned in plan.runs:
            factor = chance.gauss(1.0, 0.03)
            measurement = measured.model_copy(update={"elapsed_s": measured.elapsed_s * factor})
            store.append(
                Run(
                    **planned.model_dump(), status="ok", started_at="2026-01-01T00:00:00+00:00",
                    finished_at="2026-01-01T00:00:03+00:00", wall_s=3.0, levels=cells[planned.cell_id].levels,
                    config=cells[planned.cell_id].config, measurement=measurement,
                )
            )  # fmt: skip
