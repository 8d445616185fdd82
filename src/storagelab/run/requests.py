"""What a campaign's workers are asked to do: how batches and questions are sent, what answers must contain, and the
functions that do the work there, which take bytes and return bytes.

What this machine already knows of a run does not come back. Only its outcome does, and it is checked against the batch
that was sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from pydantic import Field, TypeAdapter, field_validator

from storagelab.model.measurement import Measurement, Run, Status, host_of
from storagelab.model.plan import Cell, PlannedBlock, PlannedRun
from storagelab.model.values import MOST, Frozen
from storagelab.run import fleet, loop, messages
from storagelab.run.fleet import Asked, Found
from storagelab.run.loop import Made
from storagelab.run.messages import NoMessage
from storagelab.run.scheduling import Batch
from storagelab.targets import Site
from storagelab.targets.states import Carried, is_packed

_MOST_WORK = 2**63 - 1
_BATCH_PARTS = 3


class _BatchHead(Frozen):
    """A batch without its block and the state of its drives."""

    wanted: dict[int, int]
    site: Site
    budget_s: float | None
    """None = no limit."""
    campaign: str


class Outcome(Frozen):
    """The outcome of a planned run."""

    sequence: int
    attempt: int
    status: Status
    reason: str = Field("", max_length=100_000)
    started_at: str = Field(max_length=40)
    finished_at: str = Field(max_length=40)
    wall_s: float = Field(ge=0, le=MOST, allow_inf_nan=False)
    measurement: Measurement | None

    @field_validator("started_at", "finished_at")
    @classmethod
    def _is_a_time(cls, text: str) -> str:
        datetime.fromisoformat(text)
        return text

    @classmethod
    def of(cls, run: Run) -> Outcome:
        return cls.model_construct(**{name: getattr(run, name) for name in cls.model_fields})

    def run(self, planned: PlannedRun, cell: Cell) -> Run:
        """The outcome as a run. Raises NoMessage if it can't be one."""
        if self.measurement is not None:
            _check(self.measurement)
        if self.status != "failed" and (self.measurement is None or self.measurement.elapsed_s <= 0):
            raise NoMessage(f"run {planned.sequence} is {self.status}, and no time passed in it")
        outcome = {name: getattr(self, name) for name in Outcome.model_fields}
        return Run(**{**planned.model_dump(), **outcome}, levels=cell.levels, config=cell.config)


def _check(measurement: Measurement) -> None:
    """Refuses what could not be read again once it is stored."""
    if not 0 <= measurement.work.amount <= _MOST_WORK:
        raise NoMessage(f"no run does {measurement.work.amount} {measurement.work.unit}")
    for name, value in ((name, value) for group in measurement.counters.values() for name, value in group.items()):
        if not abs(value) <= MOST:
            raise NoMessage(f"counter {name} is {value}")


_OUTCOMES = TypeAdapter(tuple[Outcome, ...])
_BLOCK = TypeAdapter(PlannedBlock)


# --- batches ----------------------------------------------------------------------------------------------------------


def batch_message(task: Batch, campaign: str = "") -> bytes:
    budget_s = task.budget_s if math.isfinite(task.budget_s) else None
    head = _BatchHead.model_construct(wanted=task.wanted, site=task.site, budget_s=budget_s, campaign=campaign)
    return messages.packed(
        head.model_dump_json().encode(), _BLOCK.dump_json(task.block), Carried(task.state.kept()).packed()
    )


def batch_in(message: bytes) -> tuple[Batch, str]:
    """The batch in a message, and its campaign. Raises ValueError."""
    parts = messages.unpacked(message)
    if len(parts) != _BATCH_PARTS:
        raise NoMessage("it is no batch")
    head, block = _BatchHead.model_validate_json(parts[0]), _BLOCK.validate_json(parts[1])
    if not block.runs or any(run.cell_id not in block.cells for run in block.runs):
        raise NoMessage("a block needs runs, and a cell for each")
    budget_s = math.inf if head.budget_s is None else head.budget_s
    return Batch(block, head.wanted, head.site, Carried(parts[2]), budget_s), head.campaign


def outcomes(runs: Sequence[Run]) -> bytes:
    return _OUTCOMES.dump_json(tuple(map(Outcome.of, runs)))


def _runs_in(part: bytes, task: Batch) -> tuple[Run, ...]:
    """The first runs of the batch, in order. Raises ValueError."""
    content = _OUTCOMES.validate_json(part)
    wanted = sorted(task.wanted.items())
    if not 1 <= len(content) <= len(wanted):
        raise NoMessage(f"{len(content)} runs of {len(wanted)}")
    runs = []
    for outcome, (position, attempt) in zip(content, wanted, strict=False):
        planned = task.block.runs[position]
        if (outcome.sequence, outcome.attempt) != (planned.sequence, attempt):
            asked = f"run {planned.sequence}, attempt {attempt}, was asked for"
            raise NoMessage(f"run {outcome.sequence}, attempt {outcome.attempt}, where {asked}")
        runs.append(outcome.run(planned, task.block.cell_of(planned)))
    return tuple(runs)


class SimulatedRuns:
    """Runs of a batch, made by any worker. The state of its drives travels there and back."""

    entry = f"{__name__}:simulate"

    def message(self, task: Batch) -> bytes:
        return batch_message(task)

    def reports(self, task: Batch, host: str, parts: Sequence[bytes]) -> tuple[Made, ...]:  # noqa: ARG002 - any host will do
        content, state = parts
        if state and not is_packed(state):
            raise NoMessage("the state of its drives is not packed")
        return (Made(_runs_in(content, task), task.number, Carried(state)),)


class MeasuredRun:
    """A run of a real server, made on its host. `campaign` differs from those that the worker served before."""

    entry = f"{__name__}:measure"

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign

    def message(self, task: Batch) -> bytes:
        return batch_message(task, self._campaign)

    def reports(self, task: Batch, host: str, parts: Sequence[bytes]) -> tuple[Run, ...]:
        (content,) = parts
        runs = _runs_in(content, task)
        for run in runs:
            if host_of(run) not in ("", host):
                raise NoMessage(f"a run of {host_of(run)}, and its host is {host}")
        return runs


# --- questions -------------------------------------------------------------------------------------------------------


class LookAround:
    """The checks of `run` and `doctor` on a host."""

    entry = f"{__name__}:look_around"

    def message(self, task: Asked) -> bytes:
        return messages.packed(task.model_dump_json().encode())

    def reports(self, task: Asked, host: str, parts: Sequence[bytes]) -> tuple[object, ...]:  # noqa: ARG002 - of any host
        (content,) = parts
        return (Found.model_validate_json(content),)


class CleanUp(LookAround):
    """Removes the templates of a campaign that has ended."""

    entry = f"{__name__}:clean_up"

    def reports(self, task: Asked, host: str, parts: Sequence[bytes]) -> tuple[object, ...]:  # noqa: ARG002 - of any host
        if parts:
            raise NoMessage("it has more parts than were asked for")
        return ("",)


# --- on a worker, where Dask finds these functions by their names ----------------------------------------------------


def simulate(message: bytes) -> bytes:
    def do() -> list[bytes]:
        reports: list[loop.Report] = []
        loop.make_elsewhere(batch_in(message)[0], reports.append)
        (made,) = reports
        assert isinstance(made, Made)
        assert isinstance(made.state, Carried)
        return [outcomes(made.runs), made.state.packed()]

    return messages.answer_of(do)


def measure(message: bytes) -> bytes:
    def do() -> list[bytes]:
        runs: list[Run] = []
        task, campaign = batch_in(message)
        fleet.make_on_host(campaign, task, runs.append)
        return [outcomes(runs)]

    return messages.answer_of(do)


def look_around(message: bytes) -> bytes:
    return messages.answer_of(lambda: [fleet.look_around(_asked(message)).model_dump_json().encode()])


def clean_up(message: bytes) -> bytes:
    def do() -> list[bytes]:
        fleet.clean_up(_asked(message))
        return []

    return messages.answer_of(do)


def _asked(message: bytes) -> Asked:
    (asked,) = messages.unpacked(message)
    return Asked.model_validate_json(asked)
