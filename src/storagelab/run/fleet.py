"""The runs of real servers on the hosts of a fleet: which host gets which runs, and what happens there.

Each run is its own task, so that it is stored as soon as it is measured. Each host has its own volume paths,
credentials and servers; relative paths start at the folder in which its worker was started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from storagelab import targets
from storagelab.errors import PreflightError
from storagelab.machine import doctor
from storagelab.machine.doctor import Ability
from storagelab.model.measurement import Run
from storagelab.model.plan import Experiment, Plan
from storagelab.model.values import Frozen
from storagelab.run.loop import failed_run, make_batch
from storagelab.run.rounds import Round, RoundSchedule
from storagelab.run.scheduling import Batch
from storagelab.run.store import Store

if TYPE_CHECKING:
    from storagelab.run.cluster import Cluster
    from storagelab.run.progress import RunProgress

# --- scheduling, where the store is -------------------------------------------------------------------------------------


class Rounds:
    """All rounds, given to an executor run by run, at most `at_once` at a time. The executor works by
    `make_on_host`; relative paths in `site` are the hosts' own. Only this class writes the store and calls the
    progress.
    """

    def __init__(
        self, plan: Plan, todo: Sequence[Round], at_once: int, store: Store, site: targets.Site, progress: RunProgress
    ) -> None:
        self._schedule, self._store, self._progress = RoundSchedule(todo, at_once, site), store, progress
        self._cells = {cell.cell_id: cell for cell in plan.cells}

    def make(self, executor: Cluster[Batch, Run]) -> None:
        """Make the rest of each round, and append each run as it ends."""
        self._executor = executor
        executor.execute(self)

    @property
    def over(self) -> bool:
        return self._schedule.ended

    def assign(self, host: str = "") -> Batch | None:
        scheduled = self._schedule.assign(host, self._executor.hosts)
        if scheduled is None:
            return None
        self._progress.scheduled(scheduled.planned, self._cells[scheduled.planned.cell_id], host, scheduled.instead_of)
        return scheduled.batch

    def reported(self, *reports: Run) -> None:
        self._store.append(*reports)
        for run in reports:
            self._schedule.note_finished(run)
            self._progress.stored(run)

    def ended(self, task: Batch) -> None:
        self._schedule.freed(task)

    def lost(self, task: Batch, why: str) -> None:
        given_up = self._schedule.lost(task)
        for position, attempt in given_up.wanted.items() if given_up is not None else ():
            planned = task.block.runs[position]
            reason = f"{why}; this was the third worker that ended during this run"
            self.reported(failed_run(planned, self._cells[planned.cell_id], attempt, reason))


# --- on a host -------------------------------------------------------------------------------------------------------

_swept: set[tuple[str, int]] = set()
"""Campaigns and their blocks for which this process has already removed what killed ones left."""


def make_on_host(campaign: str, work: Batch, tell: Callable[[Run], None]) -> None:
    """Make a run on this host. `campaign` distinguishes this campaign from those that the worker served before.

    Raises PreflightError if the host itself is at fault: it has no space left, or its server is gone.
    """
    plan = Plan(cells=tuple(work.block.cells.values()), runs=())
    runs: list[Run] = []
    with targets.volumes_locked(plan, work.site):  # another worker may share them, in turns
        if (campaign, work.number) not in _swept:
            targets.sweep(plan, work.site)
            _swept.add((campaign, work.number))
        make_batch(work, lambda reports: runs.append(reports) if isinstance(reports, Run) else None)
    if any(run.status == "failed" for run in runs):
        targets.preflight(Experiment(name=work.site.experiment), plan, work.site, allow_commands=True)
    for run in runs:
        tell(run)


class Asked(Frozen):
    """What each host is asked before anything starts."""

    plan: Plan
    site: targets.Site
    allow_commands: bool
    """Whether settings may run programs and load code."""


class Found(Frozen):
    """A host's answer: what its check found and what it can measure, or why it can't make the runs."""

    preflight: targets.Preflight | None
    abilities: tuple[Ability, ...] = ()
    refusal: str = ""


def look_around(asked: Asked) -> Found:
    """The checks of `run` and `doctor` on this host."""
    volumes: dict[str, Path] = {}
    try:
        experiment = Experiment(name=asked.site.experiment)
        found = targets.preflight(experiment, asked.plan, asked.site, allow_commands=asked.allow_commands)
        with targets.volumes_locked(asked.plan, asked.site):
            targets.sweep(asked.plan, asked.site)  # nobody else is there
        targets.try_starting(asked.plan, asked.site)
        for cell in asked.plan.cells:
            volumes |= asked.site.volume_paths(cell.config)
    except PreflightError as error:
        return Found(preflight=None, refusal=str(error))
    return Found(preflight=found, abilities=(*targets.server_abilities(), *doctor.abilities(volumes, None)))


def clean_up(asked: Asked) -> None:
    """Remove the templates of a campaign that has ended."""
    targets.remove_templates(asked.plan, asked.site)
