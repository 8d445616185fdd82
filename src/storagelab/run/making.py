"""Makes one run: sets up, measures, tears down, and gives it a status."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime

from pydantic import ValidationError

from storagelab.errors import RunFailed
from storagelab.model.measurement import NO_TIME, Measurement, Run, Status
from storagelab.model.plan import Cell, PlannedRun
from storagelab.targets import Progress, Target

Opening = Callable[[], AbstractContextManager[Target]]
"""Gives the target of one run; entering the context sets it up."""


class MeasuredThenStopped(KeyboardInterrupt):
    """The user asked to stop after a run was measured, during its teardown: `run` is complete, and must be stored."""

    def __init__(self, run: Run) -> None:
        self.run = run


def make_run(planned: PlannedRun, cell: Cell, attempt: int, opening: Opening, progress: Progress) -> Run:
    """Set up, measure, tear down. Raises MeasuredThenStopped."""
    began = _Beginning()
    measurement, reason, stopped = _measure(planned, cell, opening, progress)
    run = began.ended(planned, cell, attempt, measurement, reason)
    if stopped:
        raise MeasuredThenStopped(run)
    return run


def failed_run(planned: PlannedRun, cell: Cell, attempt: int, reason: str) -> Run:
    """A run that could not even begin."""
    return _Beginning().ended(planned, cell, attempt, None, reason)


class _Beginning:
    """When a run began."""

    def __init__(self) -> None:
        self._at, self._counter_s = _now(), time.perf_counter()

    def ended(self, planned: PlannedRun, cell: Cell, attempt: int, measurement: Measurement | None, reason: str) -> Run:
        status, reason = _judge(measurement, reason)
        return Run(
            **planned.model_dump(exclude={"cell_id"}),
            cell_id=cell.cell_id,
            attempt=attempt,
            status=status,
            reason=reason,
            started_at=self._at,
            finished_at=_now(),
            wall_s=time.perf_counter() - self._counter_s,
            levels=cell.levels,
            config=cell.config,
            measurement=measurement,
        )


def _measure(
    planned: PlannedRun, cell: Cell, opening: Opening, progress: Progress
) -> tuple[Measurement | None, str, bool]:
    """What was measured, what went wrong, and whether the user asked to stop once it was measured."""
    measurement, reasons, finished, stopped = None, [], 0.0, False
    try:
        with opening() as target:
            try:
                measurement = target.run(cell, planned.repetition, planned.seed, progress)
            except RunFailed as failure:
                reasons.append(str(failure))
            except ValidationError as error:
                reasons.append(_impossible(error))
            finished = time.perf_counter()
    except RunFailed as failure:
        # Set-up failed, or teardown after a run: keep what was measured, and report the first error first.
        reasons.append(str(failure))
    except KeyboardInterrupt:
        if measurement is None:
            raise
        stopped = True
    if measurement is not None:
        measurement = measurement.model_copy(update={"teardown_s": time.perf_counter() - finished})
    return measurement, "\n".join(reasons), stopped


def _impossible(error: ValidationError) -> str:
    """The reason when a server's broken clock or counters give figures that no measurement can have."""
    figures = (f"{'.'.join(map(str, one['loc']))} = {one['input']}" for one in error.errors())
    return f"the measured figures are impossible: {', '.join(figures)}"


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
