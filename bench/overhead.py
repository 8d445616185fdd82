"""Measures the time that storagelab itself takes between two runs."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from bench import loads
from storagelab.model.measurement import Run
from storagelab.model.plan import Cell, Experiment, Plan, PlannedRun
from storagelab.run import loop
from storagelab.run.store import Store
from storagelab.volumes.folders import Site


class _Clock:
    """A listener that records the time between the end of a run and the next run."""

    def __init__(self) -> None:
        self.gaps_s: list[float] = []
        self._last: tuple[float, float] | None = None
        self._started = 0.0

    def started(self, planned: PlannedRun, cell: Cell) -> None:  # noqa: ARG002
        self._started = time.perf_counter()

    def work_done(self, planned: PlannedRun, amount: int) -> None:
        pass

    def stored(self, run: Run) -> None:
        # From the call until the run is stored, minus the run itself.
        self.gaps_s.append(time.perf_counter() - self._started - run.wall_s)


def between_runs_ms(folder: Path, runs: int) -> tuple[float, float]:
    """Returns two medians over `runs` runs, in ms: the time that storagelab needs between two runs, and the time in a
    run outside its set-up, load, checkpoint and clean-up.
    """
    config = loads.config()
    plan = Plan(
        cells=(Cell(cell_id="c01", levels={}, config=config),),
        runs=tuple(PlannedRun(sequence=n, block=0, cell_id="c01", repetition=n, seed=n) for n in range(1, runs + 1)),
    )
    experiment = Experiment(name="overhead", sha256="0" * 64)
    clock = _Clock()
    site = Site(experiment="bench", identity="be9c4be9", spec_folder=folder)
    with Store.writing(folder / "overhead", experiment) as store:
        loop.run_all(plan, store, site, clock)
        stored = store.runs()
    inside = [run.wall_s - sum(part or 0.0 for part in _parts(run)) for run in stored if run.measurement is not None]
    return 1000 * median(clock.gaps_s), 1000 * median(inside)


def _parts(run: Run) -> tuple[float | None, ...]:
    assert run.measurement is not None
    measured = run.measurement
    return measured.setup_s, measured.elapsed_s, measured.checkpoint_s, measured.teardown_s
