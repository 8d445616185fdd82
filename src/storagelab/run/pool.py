"""Blocks of simulated runs side by side, in slices; runs on real servers one at a time, which is `runner`'s.

A block's runs are made in order, but not all of them by one process: its drives are saved after each run, so whichever is
free takes it up there. What they come to depends on nothing but the block, so results are the same however many processes
make them, and whichever of those die. Only this process writes the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import RunFailed, StoreError
from storagelab.model.config import Config
from storagelab.model.measurement import Run
from storagelab.model.plan import Cell, Plan, PlannedRun
from storagelab.run import runner
from storagelab.run.estimate import estimate
from storagelab.run.executors import Executor, Here, Processes
from storagelab.run.runner import Listener
from storagelab.run.store import Store
from storagelab.targets import Preflight, Site, Target
from storagelab.targets.simulated.block import STATE_FOLDER, Block, drives_lost, remove_states
from storagelab.targets.simulated.preflight import blocks_of

_WORTH_A_PROCESS_S = 10.0
"""As long as this, work is done in a process of its own even if there is one only: it starts in a second, and with large
pages takes a tenth less."""
_SLICES = 8
"""A process gets this part of its share of what is left: parts so small that all end at about the same time, so large that
taking up the drives (13 ms, of a run's half second at scale 64) costs next to nothing. 4 are as good for few processes,
but of 9 blocks on 8 processes the last would begin too late."""
_ATTEMPTS = 3
"""A run at which so many processes came to an end is given up."""


class Task(NamedTuple):
    """A block, or a slice of one: all its runs, those that are wanted with the number of the attempt, where it happens."""

    runs: tuple[PlannedRun, ...]
    cells: dict[str, Cell]
    wanted: dict[int, int]
    """Position in the block -> attempt."""
    site: Site
    results: Path

    @property
    def block(self) -> int:
        return self.runs[0].block

    def split(self, runs: int) -> tuple[Task, Task]:
        """Its first wanted `runs`, and the rest."""
        wanted = sorted(self.wanted.items())
        return self._replace(wanted=dict(wanted[:runs])), self._replace(wanted=dict(wanted[runs:]))

    def without(self, sequence: int) -> Task:
        """The same, as that run is made."""
        left = {at: attempt for at, attempt in self.wanted.items() if self.runs[at].sequence != sequence}
        return self._replace(wanted=left)


class Began(NamedTuple):
    planned: PlannedRun


class Rows(NamedTuple):
    planned: PlannedRun
    rows: int


News = Began | Rows | Run
Tell = Callable[[News], None]


def processes(plan: Plan, pending: Sequence[PlannedRun], found: Preflight | None, jobs: int) -> int:
    """How many of `jobs` processes there is work, and as far as it was looked at memory, for."""
    if not (plan.simulated and pending):
        return 1
    fit = found.blocks_at_once if found and found.blocks_at_once else jobs
    return min(jobs, fit, len({planned.block for planned in pending}))


def run_all(plan: Plan, store: Store, site: Site, listener: Listener, *, again: bool = False, jobs: int = 1) -> None:
    """Make every pending run and append each as it ends: simulated ones in up to `jobs` processes beside this one, or in this
    one if there is work for one only, and little of it."""
    if not plan.simulated:
        runner.run_all(plan, store, site, listener, again=again)
        return
    todo = tasks(plan, store.attempts(), site, store.folder, again=again)
    _make_state_folder(store.folder)
    remove_states(store.folder, but={task.block for task in todo})
    pending = [task.runs[position] for task in todo for position in task.wanted]
    expected_s = estimate(plan, pending, store.durations()).seconds
    at_once = min(jobs, len(todo))
    little = at_once <= 1 and expected_s < _WORTH_A_PROCESS_S
    executor: Executor[Task, News] = Here(_work) if little else Processes(_work, at_once)
    executor.execute(_Campaign(todo, at_once, store, listener))
    remove_states(store.folder)  # their runs are all stored


class _Campaign:
    """All blocks, as an executor asks for slices of them. Only here the store is written, and somebody told."""

    def __init__(self, todo: Sequence[Task], at_once: int, store: Store, listener: Listener) -> None:
        self._dealer = Dealer(todo, at_once)
        self._cells = {cell_id: cell for task in todo for cell_id, cell in task.cells.items()}
        self._store, self._listener = store, listener

    def deal(self) -> Task | None:
        return self._dealer.deal()

    def told(self, news: News) -> None:
        match news:
            case Began(planned):
                self._listener.started(planned, self._cells[planned.cell_id])
            case Rows(planned, rows):
                self._listener.rows_done(planned, rows)
            case Run():
                self._store.append(news)
                self._listener.stored(news)
                self._dealer.told_of(news)

    def lost(self, task: Task, why: str) -> None:
        """Its runs are made again; but those of a block of which one can't be made are failed, since all need its drives."""
        logging.getLogger("storagelab").info("block %d: %s", task.block, why)
        given_up = self._dealer.lost(task.block)
        if given_up is None:
            return
        reason = f"{why}; it was the third one at this run"
        for position, attempt in given_up.wanted.items():
            planned = given_up.runs[position]
            self.told(_failed(planned, given_up.cells[planned.cell_id], attempt, given_up.site, reason))
            reason = drives_lost(why)


def _failed(planned: PlannedRun, cell: Cell, attempt: int, site: Site, reason: str) -> Run:
    @contextmanager
    def opening(_config: Config, _site: Site) -> Iterator[Target]:
        raise RunFailed(reason)
        yield

    return runner.make_run(planned, cell, attempt, site, lambda _: None, opening)


def _make_state_folder(results: Path) -> None:
    """Before the first run, as each would fail in the end without it."""
    folder = results / STATE_FOLDER
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        hint = "it is for saved drives: move away what is there under its name"
        raise StoreError(f"{folder} can't be made: {error.strerror}\n  {hint}") from None


def tasks(
    plan: Plan, stored: Mapping[tuple[str, int], tuple[int, str]], site: Site, results: Path, *, again: bool = False
) -> list[Task]:
    """The blocks in which something is still to be made, in order."""
    wanted = {planned.sequence for planned in runner.pending(plan, stored, again=again)}
    cells = {cell.cell_id: cell for cell in plan.cells}
    found = []
    for runs in blocks_of(plan).values():
        attempts = {
            position: stored.get((planned.cell_id, planned.repetition), (0, ""))[0] + 1
            for position, planned in enumerate(runs)
            if planned.sequence in wanted
        }
        if attempts:
            inside = {planned.cell_id: cells[planned.cell_id] for planned in runs}
            found.append(Task(tuple(runs), inside, attempts, site, results))
    return found


def make_block(task: Task, tell: Tell) -> None:
    """Make the wanted runs of a block or slice, and those before them that the drives' history needs and that are lost."""
    block = Block(task.runs, task.cells, task.site, task.results)
    block.begin(min(task.wanted))
    for position in range(block.position, max(task.wanted) + 1):
        planned = task.runs[position]

        def heard(rows: int, planned: PlannedRun = planned) -> None:
            tell(Rows(planned, rows * block.scale))

        if position not in task.wanted:
            with suppress(RunFailed):  # it is stored as failed already
                block.make(heard)
            continue
        tell(Began(planned))
        cell = task.cells[planned.cell_id]
        try:
            tell(runner.make_run(planned, cell, task.wanted[position], task.site, heard, block.opened))
        except runner.MeasuredThenStopped as stop:
            tell(stop.run)
            raise


def _work(task: Task, tell: Tell) -> None:
    """`make_block`, for an executor, by a name that other processes know."""
    make_block(task, tell)


# --- dealing out -----------------------------------------------------------------------------------------------------


class Dealer:
    """Says which slice a free process gets: the next few runs of the block, not in work elsewhere, that has most left.

    So all blocks get shorter together, and the slices with them, and no long one is left for the end.
    """

    def __init__(self, todo: Sequence[Task], processes: int) -> None:
        self.processes = processes
        self._left = {task.block: task for task in todo}
        self._in_work: dict[int, Task] = {}
        """Block -> its slice, less the runs that were told of."""
        self._losses: dict[tuple[int, int], int] = {}
        """Block and position of a run -> how many processes died at it."""

    def deal(self) -> Task | None:
        """A slice to begin with now; None if there is no process or no block to be had."""
        waiting = [task for block, task in self._left.items() if block not in self._in_work]
        if not waiting or len(self._in_work) == self.processes:
            return None
        chosen = max(waiting, key=lambda task: len(task.wanted)) if self.processes > 1 else waiting[0]
        dealt, rest = chosen.split(self._runs())
        del self._left[rest.block]
        if rest.wanted:
            self._left[rest.block] = rest
        self._in_work[dealt.block] = dealt
        return dealt

    def _runs(self) -> int:
        left = sum(len(task.wanted) for task in self._left.values())
        if self.processes == 1 or len(self._left) <= self.processes:
            return left  # no reason to hand blocks around
        return max(1, left // (_SLICES * self.processes))

    def told_of(self, run: Run) -> None:
        """The last one of a slice sets its process and its block free."""
        left = self._in_work.pop(run.block).without(run.sequence)
        if left.wanted:
            self._in_work[run.block] = left

    def lost(self, block: int) -> Task | None:
        """Whoever made this block's slice is gone: what was not told of is left again. But if that happened too often at one
        run, it and all that follow in its block are given up: they count as in work, and must be told of."""
        slice_ = self._in_work.pop(block)
        rest = self._left.pop(block, None)
        whole = slice_._replace(wanted=slice_.wanted | (rest.wanted if rest else {}))
        at = block, min(whole.wanted)
        self._losses[at] = self._losses.get(at, 0) + 1
        if self._losses[at] < _ATTEMPTS:
            self._left[block] = whole
            return None
        self._in_work[block] = whole
        return whole

    @property
    def ended(self) -> bool:
        return not (self._left or self._in_work)
