"""For each run not yet stored: run it, append it. Nothing else. It must stay boring."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from storagelab.errors import RunFailed
from storagelab.model.config import Config
from storagelab.model.measurement import NO_TIME, Measurement, Run, Status
from storagelab.model.plan import Cell, Plan, PlannedRun
from storagelab.run.store import Store
from storagelab.targets import Progress, Site, Target, open_target

Opening = Callable[[Config, Site], AbstractContextManager[Target]]
"""Gives the target of one cell, which entering sets up."""


class Listener(Protocol):
    """Told what happens, to show it."""

    def started(self, planned: PlannedRun, cell: Cell) -> None: ...

    def rows_done(self, planned: PlannedRun, rows: int) -> None: ...

    def stored(self, run: Run) -> None: ...


def pending(plan: Plan, stored: Mapping[tuple[str, int], tuple[int, str]], *, again: bool = False) -> list[PlannedRun]:
    """The runs still to be made, in order: those not stored, and with `again` those whose latest attempt failed."""
    return [
        planned
        for planned in plan.runs
        if (latest := stored.get((planned.cell_id, planned.repetition))) is None or (again and latest[1] == "failed")
    ]


def run_all(plan: Plan, store: Store, site: Site, listener: Listener, *, again: bool = False) -> None:
    """Make every pending run and append each as it ends. A run that fails is stored with its reason; the next go on."""
    stored = store.attempts()
    cells = {cell.cell_id: cell for cell in plan.cells}
    for planned in pending(plan, stored, again=again):
        cell = cells[planned.cell_id]
        attempt = stored.get((planned.cell_id, planned.repetition), (0, ""))[0] + 1
        listener.started(planned, cell)
        try:
            run = make_run(planned, cell, attempt, site, partial(listener.rows_done, planned))
        except MeasuredThenStopped as stop:
            store.append(stop.run)
            listener.stored(stop.run)
            raise
        store.append(run)
        listener.stored(run)


class MeasuredThenStopped(KeyboardInterrupt):
    """The user asked to stop when a run was measured and only its teardown was left: `run` is whole, and must be stored."""

    def __init__(self, run: Run) -> None:
        self.run = run


def make_run(
    planned: PlannedRun, cell: Cell, attempt: int, site: Site, progress: Progress, opening: Opening | None = None
) -> Run:
    """Set up, measure, tear down: one run, whatever becomes of it. Raises MeasuredThenStopped."""
    started_at, began = _now(), time.perf_counter()
    measurement, reason, stopped = _measure(planned, cell, site, progress, opening or open_target)
    status, reason = _judge(measurement, reason)
    run = Run(
        **planned.model_dump(exclude={"cell_id"}),
        cell_id=cell.cell_id,
        attempt=attempt,
        status=status,
        reason=reason,
        started_at=started_at,
        finished_at=_now(),
        wall_s=time.perf_counter() - began,
        levels=cell.levels,
        config=cell.config,
        measurement=measurement,
    )
    if stopped:
        raise MeasuredThenStopped(run)
    return run


def _measure(
    planned: PlannedRun, cell: Cell, site: Site, progress: Progress, opening: Opening
) -> tuple[Measurement | None, str, bool]:
    """What was measured, what went wrong, and whether the user asked to stop once it was measured."""
    measurement, reasons, finished, stopped = None, [], 0.0, False
    try:
        with opening(cell.config, site) as target:
            try:
                measurement = target.run(cell, planned.repetition, planned.seed, progress)
            except RunFailed as failure:
                reasons.append(str(failure))
            finished = time.perf_counter()
    except RunFailed as failure:
        # Set-up, or teardown after a run: then what was measured is kept, and what went wrong first is said first.
        reasons.append(str(failure))
    except KeyboardInterrupt:
        if measurement is None:
            raise
        stopped = True
    if measurement is not None:
        measurement = measurement.model_copy(update={"teardown_s": time.perf_counter() - finished})
    return measurement, "\n".join(reasons), stopped


def _judge(measurement: Measurement | None, reason: str) -> tuple[Status, str]:
    if measurement is None:
        return "failed", reason
    if measurement.elapsed_s <= 0:
        return "failed", "; ".join(filter(None, (reason, NO_TIME)))
    doubts = [reason] if reason else []
    doubts += [f"{check.name}: asked {check.asked}, got {check.got}" for check in measurement.unverified]
    return ("unverified" if doubts else "ok"), "; ".join(doubts)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
