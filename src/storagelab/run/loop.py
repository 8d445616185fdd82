"""The main loop: makes each missing run, and appends it to the store.

Keep this loop simple. Runs come in blocks. An executor makes each block whole or in batches, in this process or in
others. Only this process writes the store. A run gives the same result in any process, because its block contains the
state of its drives."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from storagelab import profiles
from storagelab.errors import DataRefused, PreflightError, RunFailed, StoreError
from storagelab.model.measurement import NO_TIME, Measurement, Run, Status
from storagelab.model.plan import Cell, Plan, PlannedRun
from storagelab.model.target import Preflight, Progress, Target
from storagelab.run.engine import open_block, remove_templates
from storagelab.run.estimate import estimate, learned
from storagelab.run.executors import Executor, Here, Processes
from storagelab.run.scheduling import Batch, DriveState, InFile, InMemory, Schedule, drives_lost, pending
from storagelab.run.store import Store
from storagelab.stopping import uninterrupted
from storagelab.volumes.folders import Site

if TYPE_CHECKING:
    from storagelab.run.cluster import Cluster
    from storagelab.run.progress import RunProgress
    from storagelab.run.stored import Racing

STATE_FOLDER = "state"
_BUDGET_S = 5.0
"""The time, in seconds, after which a batch in another process begins no further run. It is short, so that little work
is lost if a machine fails, but long compared with the 20 ms that it takes to send a batch."""
_TIMES_ESTIMATED, _LEAST_LIMIT_S = 20, 120.0
_WORTH_A_PROCESS_S = 10.0
"""If the work takes at least this many seconds, another process does it, even if it is a single run. A process takes
about a second to start. If a run then uses up the memory, only that process ends, not storagelab."""


class RunStart(NamedTuple):
    planned: PlannedRun


class WorkSoFar(NamedTuple):
    planned: PlannedRun
    amount: int


class BatchResult(NamedTuple):
    """The runs of a batch that was made on a worker, and the drives' state after them. They arrive together."""

    runs: tuple[Run, ...]
    number: int
    """The number of the block."""
    state: DriveState


Report = RunStart | WorkSoFar | Run | BatchResult
Tell = Callable[[Report], None]


def processes(plan: Plan, todo: Sequence[PlannedRun], found: Preflight | None, jobs: int) -> int:
    """Returns how many of `jobs` processes are useful: there must be work for each and, if the memory was checked,
    enough memory.
    """
    if not (todo and portable(plan)):
        return 1
    fit = found.blocks_at_once if found and found.blocks_at_once else jobs
    return min(jobs, fit, len({planned.block for planned in todo}))


def time_limit_s(plan: Plan, finished: Iterable[tuple[str, float]], run_s: float | None = None) -> float:
    """Returns the time in seconds after which a batch in another process counts as hung. The batch's last run may take
    `run_s`. If `run_s` is not given, it may take many times the estimate of the longest run, because machines differ.
    So a hung run costs little more than this time.
    """
    if run_s is None:
        of_cell = {planned.cell_id: planned for planned in plan.runs}
        longest_s = max(map(learned(plan, finished), of_cell.values()), default=0.0)
        run_s = max(_LEAST_LIMIT_S, _TIMES_ESTIMATED * longest_s)
    return _BUDGET_S + run_s


def run_all(
    plan: Plan,
    store: Store,
    site: Site,
    listener: RunProgress,
    *,
    again: bool = False,
    jobs: int = 1,
    rounds: Racing | None = None,
    elsewhere: Executor[Batch, Report] | None = None,
) -> None:
    """Makes every pending run, and appends each run to the store when it ends. If other processes can make the blocks,
    uses up to `jobs` processes. `elsewhere` is an executor that calls `make_elsewhere`. If it is given, it replaces
    these processes.

    In a race (`rounds`), then makes the runs of each further round until there is none.
    """
    todo = batches(plan, store.attempts(), site, store.folder, again=again)
    if not todo and rounds is None:
        elsewhere = None  # no need to wait for a worker
    executor: Executor[Batch, Report] = elsewhere or Here(make_batch)
    # These blocks have a state: those on simulated drives, and those whose volumes a person prepares.
    if portable(plan) or any(volume.by_hand for cell in plan.cells for volume in cell.config.volumes.values()):
        # The folder is made before the first run. Without the folder, every run would fail at its end.
        folder = store.folder / STATE_FOLDER
        try:
            folder.mkdir(exist_ok=True)
            if folder.is_symlink():
                raise NotADirectoryError(errno.ENOTDIR, "it is a link")
        except OSError as error:
            hint = "storagelab saves drives there: move away what has that name"
            raise StoreError(f"{folder} can't be created: {error.strerror}\n  {hint}") from None
    if portable(plan) and elsewhere is None:
        at_once, runs = min(jobs, len(todo)), [batch.block.runs[place] for batch in todo for place in batch.wanted]
        if at_once > 1 or estimate(plan, runs, store.durations()).seconds >= _WORTH_A_PROCESS_S:
            executor = Processes(make_batch, at_once)
    _remove_states(store.folder, but={_state_file(store.folder, batch.number) for batch in todo})
    try:
        _Campaign(plan, store, site, listener, rounds).make(todo, executor, carried=elsewhere is not None)
    finally:
        with uninterrupted():
            remove_templates(plan, site)
    _remove_states(store.folder)  # all runs of these blocks are stored


def portable(plan: Plan) -> bool:
    return all(cell.config.kind.portable for cell in plan.cells)


def batches(
    plan: Plan, stored: Mapping[tuple[str, int], tuple[int, str]], site: Site, results: Path, *, again: bool = False
) -> list[Batch]:
    """Returns, for each block that has runs to make, a batch of these runs. Blocks are in order."""
    wanted = {planned.sequence for planned in pending(plan, stored, again=again)}
    found = []
    for number, block in plan.blocks.items():
        attempts = {
            position: stored.get((planned.cell_id, planned.repetition), (0, ""))[0] + 1
            for position, planned in enumerate(block.runs)
            if planned.sequence in wanted
        }
        if attempts:
            found.append(Batch(block, attempts, site, InFile(_state_file(results, number))))
    return found


class _Campaign:
    """All blocks of a campaign, given to an executor in batches. Only this class writes the store and calls the
    listener.
    """

    def __init__(self, plan: Plan, store: Store, site: Site, listener: RunProgress, rounds: Racing | None) -> None:
        self._plan, self._store, self._site = plan, store, site
        self._listener, self._rounds = listener, rounds
        self._cells = plan.cells_by_id

    def make(self, todo: Sequence[Batch], executor: Executor[Batch, Report], *, carried: bool) -> None:
        """Makes all batches. If `carried` is true, each batch is sent with the drives' state, and returns the new state
        with its runs.
        """
        self._schedule, self._executor = Schedule(todo, executor.at_once), executor
        self._carried, self._texts = carried, _profiles_of(self._plan, self._site) if carried else None
        executor.execute(self)

    def assign(self) -> Batch | None:
        if self._schedule.ended and self._rounds is not None:
            todo = batches(self._rounds.further(), self._store.attempts(), self._site, self._store.folder)
            self._schedule = Schedule(todo, self._executor.at_once)
            if not todo:
                self._rounds = None
        self._schedule.processes = self._executor.at_once
        scheduled = self._schedule.assign()
        return scheduled if scheduled is None or not self._carried else self._packed(scheduled)

    def _packed(self, scheduled: Batch) -> Batch:
        """Returns the batch with everything that a worker needs if it can't read the files of this machine."""
        site = scheduled.site.model_copy(update={"spec_folder": Path(), "texts": self._texts})
        return scheduled._replace(site=site, state=InMemory(scheduled.state.kept()), budget_s=_BUDGET_S)

    def reported(self, *reports: Report) -> None:
        """First stores all runs that arrived together, because a listener may stop the campaign."""
        if runs := [run for one in reports for run in _runs_of(one)]:
            self._store.append(*runs)
        for one in reports:
            match one:
                case RunStart(planned):
                    self._listener.started(planned, self._cells[planned.cell_id])
                case WorkSoFar(planned, amount):
                    self._listener.work_done(planned, amount)
                case BatchResult(_, number, state):
                    # The state is written after the runs are stored. A state that is ahead of the store would be
                    # useless.
                    with suppress(OSError):  # a state that is lost can be made again
                        InFile(_state_file(self._store.folder, number)).write([state.kept()])
            for run in _runs_of(one):
                self._listener.stored(run)
                self._schedule.note_finished(run)
                if self._rounds is not None:
                    self._rounds.note_finished(run)

    def ended(self, task: Batch) -> None:
        self._schedule.freed(task)

    def lost(self, task: Batch, why: str) -> None:
        """Schedules the batch's runs again. If a run can't be made, this run and all later runs of its block fail,
        because the later runs need the drives as this run leaves them.
        """
        logging.getLogger("storagelab").info("block %d: %s", task.number, why)
        if (given_up := self._schedule.lost(task)) is None:
            return
        reason = f"{why}; this was the third process that ended during this run"
        for position, attempt in given_up.wanted.items():
            planned = given_up.block.runs[position]
            self.reported(_Beginning().ended(planned, self._cells[planned.cell_id], attempt, None, reason))
            reason = drives_lost(why)


def _runs_of(report: Report) -> tuple[Run, ...]:
    return report.runs if isinstance(report, BatchResult) else (report,) if isinstance(report, Run) else ()


def make_batch(work: Batch, tell: Tell) -> None:
    """Makes the wanted runs of a block. If the drives' state is lost, it first repeats earlier runs."""
    began = time.monotonic()
    with open_block(work.block, work.site, work.state) as block:
        for made, position in enumerate(block.needed(work.wanted)):
            if made and time.monotonic() - began > work.budget_s:
                return
            planned = work.block.runs[position]
            cell, progress = work.block.cell_of(planned), lambda amount, of=planned: tell(WorkSoFar(of, amount))
            if position not in work.wanted:
                with suppress(RunFailed), block.open(planned) as target:  # it is stored already
                    target.run(cell, planned.repetition, planned.seed, progress)
                continue
            tell(RunStart(planned))
            try:
                tell(make_run(planned, cell, work.wanted[position], partial(block.open, planned), progress))
            except MeasuredThenStopped as stop:
                tell(stop.run)
                raise


def make_elsewhere(work: Batch, tell: Tell) -> None:
    """Makes a batch like `make_batch`, but on another machine. It sends all its reports at the end."""
    reports: list[Report] = []
    make_batch(work, reports.append)
    runs = tuple(report for report in reports if isinstance(report, Run))
    at_end = any(run.sequence == work.block.runs[-1].sequence for run in runs)
    tell(BatchResult(runs, work.number, InMemory() if at_end else work.state))


class Elsewhere(NamedTuple):
    """The cluster that the user requested. `scheduler` is None if Dask's own settings name the scheduler, or if the
    cluster consists of local processes. `trusted` says that everybody who can reach the scheduler's network may run
    programs on the cluster.
    """

    scheduler: str | None
    trusted: bool
    time_limit_s: float | None

    def executor(
        self, plan: Plan, jobs: int, durations: list[tuple[str, float]], say: Callable[[str], None]
    ) -> Cluster[Batch, Report]:
        """Returns an executor for the cluster, without connecting to it. Raises PreflightError if the cluster's address
        is not safe, or if Dask is not installed.
        """
        try:
            from storagelab.run.cluster import Cluster, asked
        except ModuleNotFoundError as missing:
            if missing.name is None or missing.name.partition(".")[0] == "storagelab":
                raise
            problem = f"Dask is not installed (there is no {missing.name})"
            raise PreflightError(problem, key="--executor", hint='pip install "storagelab[cluster]"') from None
        reach = asked(self.scheduler, jobs, trusted=self.trusted)
        return Cluster(make_elsewhere, reach, say, limit_s=time_limit_s(plan, durations, self.time_limit_s))


def _profiles_of(plan: Plan, site: Site) -> dict[str, str]:
    """Maps the names of the user's own drive profiles to their texts."""
    names = {drive.profile for cell in plan.cells for drive in cell.config.drives.values()}
    return {name: profiles.text_of(name, site.spec_folder) for name in sorted(names) if profiles.is_own(name)}


# --- the states of the drives that blocks keep between two batches ----------------------------------------------------


def _state_file(results: Path, number: int) -> Path:
    return results / STATE_FOLDER / f"block-{number}.bin"


def _remove_states(results: Path, but: Collection[Path] = ()) -> None:
    """Removes the states of all blocks except those in `but`. Also removes the unfinished files of killed processes.
    This process holds the lock on the results, so no other process writes there.
    """
    if (results / STATE_FOLDER).is_symlink():
        return  # the link belongs to somebody else, because storagelab makes no links
    with suppress(FileNotFoundError, NotADirectoryError):
        for file in (results / STATE_FOLDER).iterdir():
            if file not in but and file.name.startswith(("block-", ".block-")):
                file.unlink(missing_ok=True)


# --- one run ----------------------------------------------------------------------------------------------------------


Opening = Callable[[], AbstractContextManager[Target]]
"""A function that returns the target of one run as a context manager. Entering the context sets the target up."""


class MeasuredThenStopped(KeyboardInterrupt):
    """The user stopped storagelab while it cleaned up after a measured run. `run` is complete, and must be stored."""

    def __init__(self, run: Run) -> None:
        self.run = run


class _Beginning:
    """The time at which a run began. It makes the Run when the run ends."""

    def __init__(self) -> None:
        self._at, self._counter_s = _now(), time.perf_counter()

    def ended(self, planned: PlannedRun, cell: Cell, attempt: int, measurement: Measurement | None, reason: str) -> Run:
        status, reason = _judge(measurement, reason)
        return Run(
            **planned.model_dump(), attempt=attempt, status=status, reason=reason, started_at=self._at,
            finished_at=_now(), wall_s=time.perf_counter() - self._counter_s, levels=cell.levels, config=cell.config,
            measurement=measurement,
        )  # fmt: skip


def make_run(planned: PlannedRun, cell: Cell, attempt: int, opening: Opening, progress: Progress) -> Run:
    """Sets up, measures and cleans up one run, and returns it. Raises MeasuredThenStopped."""
    began, stopped = _Beginning(), False
    measurement, reasons, finished = None, [], 0.0
    try:
        with opening() as target:
            try:
                measurement = target.run(cell, planned.repetition, planned.seed, progress)
            except RunFailed as failure:
                reasons.append(str(failure))
            except ValidationError as error:
                # A server's clock or counters can be wrong.
                figures = (f"{'.'.join(map(str, one['loc']))} = {one['input']}" for one in error.errors())
                reasons.append(f"the measured figures are impossible: {', '.join(figures)}")
            finished = time.perf_counter()
    except DataRefused:
        raise  # every other run would fail for the same reason
    except RunFailed as failure:
        # The set-up failed, or the clean-up after a run. The measurement is kept, and the first error is reported
        # first.
        reasons.append(str(failure))
    except KeyboardInterrupt:
        if measurement is None:
            raise
        stopped = True
    if measurement is not None:
        measurement = measurement.model_copy(update={"teardown_s": time.perf_counter() - finished})
    run = began.ended(planned, cell, attempt, measurement, "\n".join(reasons))
    if stopped:
        raise MeasuredThenStopped(run)
    return run


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
