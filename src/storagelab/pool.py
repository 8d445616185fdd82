"""Blocks of simulated runs side by side, in slices; runs on real servers one at a time, which is `runner`'s.

A block's runs are made in order, but not all of them by one process: its drives are saved after each run, so whichever is
free takes it up there. What they come to depends on nothing but the block, so results are the same however many processes
make them. Only this process writes the store.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

from storagelab import runner
from storagelab.errors import RunFailed, StoreError
from storagelab.estimate import estimate
from storagelab.model import Cell, Plan, PlannedRun, Run
from storagelab.runner import Listener
from storagelab.store import Store
from storagelab.targets import Preflight, Site
from storagelab.targets.simulated.block import STATE_FOLDER, Block, state_file
from storagelab.targets.simulated.preflight import blocks_of

_TUNABLES = "GLIBC_TUNABLES"
_LARGE_PAGES = "glibc.malloc.hugetlb"
_WORTH_A_PROCESS_S = 10.0
"""As long as this, work is done in a process of its own even if there is one only: it starts in a second, and with large
pages takes a tenth less."""
_PATIENCE_S = 0.1
"""How long news from the slices are waited for before looking whether one broke, or somebody asked to stop."""
_SLICES = 8
"""A process gets this part of its share of what is left: parts so small that all end at about the same time, so large that
taking up the drives (13 ms, of a run's half second at scale 64) costs next to nothing. 4 are as good for few processes,
but of 9 blocks on 8 processes the last would begin too late."""


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


class Began(NamedTuple):
    planned: PlannedRun


class Rows(NamedTuple):
    planned: PlannedRun
    rows: int


Tell = Callable[[Began | Rows | Run], None]


def processes(plan: Plan, pending: Sequence[PlannedRun], found: Preflight | None, jobs: int) -> int:
    """How many of `jobs` processes there is work, and as far as it was looked at memory, for."""
    if not (plan.simulated and pending):
        return 1
    fit = found.blocks_at_once if found and found.blocks_at_once else jobs
    return min(jobs, fit, len({planned.block for planned in pending}))


def why_alone() -> str:
    """Why no processes can work side by side on this system; nothing where they can."""
    try:
        multiprocessing.get_context("spawn").Lock()
    except OSError as error:
        return f"this system gives processes no semaphores (is /dev/shm writable?): {error.strerror}"
    return ""


def run_all(plan: Plan, store: Store, site: Site, listener: Listener, *, again: bool = False, jobs: int = 1) -> None:
    """Make every pending run and append each as it ends: simulated ones in up to `jobs` processes beside this one, or in this
    one if there is work for one only, and little of it."""
    if not plan.simulated:
        runner.run_all(plan, store, site, listener, again=again)
        return
    cells = {cell.cell_id: cell for cell in plan.cells}

    def tell(news: Began | Rows | Run) -> None:
        match news:
            case Began(planned):
                listener.started(planned, cells[planned.cell_id])
            case Rows(planned, rows):
                listener.rows_done(planned, rows)
            case Run():
                store.append(news)
                listener.stored(news)

    todo = tasks(plan, store.attempts(), site, store.folder, again=again)
    pending = [task.runs[position] for task in todo for position in task.wanted]
    expected_s = estimate(plan, pending, store.durations()).seconds
    at_once = min(jobs, len(todo))
    _make_state_folder(store.folder)
    if at_once <= 1 and (expected_s < _WORTH_A_PROCESS_S or why_alone()):
        for task in todo:
            make_block(task, tell)
    else:
        _side_by_side(todo, at_once, tell)
    for task in todo:
        state_file(store.folder, task.block).unlink(missing_ok=True)  # its runs are all stored


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


# --- dealing out -----------------------------------------------------------------------------------------------------


class Dealer:
    """Says which slice a free process gets: the next few runs of the block, not in work elsewhere, that has most left.

    So all blocks get shorter together, and the slices with them, and no long one is left for the end.
    """

    def __init__(self, todo: Sequence[Task], processes: int) -> None:
        self.processes = processes
        self._left = {task.block: task for task in todo}
        self._in_work: dict[int, int] = {}
        """Block -> runs of its slice that are not yet told of."""

    def deal(self) -> Task | None:
        """A slice to begin with now; None if there is no process or no block to be had."""
        waiting = [task for block, task in self._left.items() if block not in self._in_work]
        if not waiting or len(self._in_work) == self.processes:
            return None
        longest = max(waiting, key=lambda task: len(task.wanted))
        dealt, rest = longest.split(self._runs())
        del self._left[rest.block]
        if rest.wanted:
            self._left[rest.block] = rest
        self._in_work[dealt.block] = len(dealt.wanted)
        return dealt

    def _runs(self) -> int:
        left = sum(len(task.wanted) for task in self._left.values())
        if self.processes == 1 or len(self._left) <= self.processes:
            return left  # no reason to hand blocks around
        return max(1, left // (_SLICES * self.processes))

    def told_of(self, run: Run) -> None:
        """The last one of a slice sets its process and its block free."""
        self._in_work[run.block] -= 1
        if not self._in_work[run.block]:
            del self._in_work[run.block]

    @property
    def ended(self) -> bool:
        return not (self._left or self._in_work)


# --- processes -------------------------------------------------------------------------------------------------------


def _side_by_side(todo: Sequence[Task], jobs: int, tell: Tell) -> None:
    """Whatever goes wrong here, or Ctrl-C, stops the others within a fraction of a second."""
    context = multiprocessing.get_context("spawn")
    news, stop = context.Queue(), context.Event()
    dealer, slices = Dealer(todo, jobs), list[Future[None]]()
    with ProcessPoolExecutor(jobs, context, _begin_worker, (news, stop)) as workers:

        def deal() -> None:
            while (task := dealer.deal()) is not None:
                slices.append(workers.submit(_make_block_here, task))

        try:
            with large_pages():
                deal()  # one slice for each process, which starts them all
            while not dealer.ended:
                item = _next_of(news, slices)
                tell(item)
                if isinstance(item, Run):
                    dealer.told_of(item)
                    deal()
            for slice_ in slices:
                slice_.result()
        finally:
            stop.set()
            for slice_ in slices:
                slice_.cancel()


@contextmanager
def large_pages() -> Iterator[None]:
    """Processes that are started meanwhile get their memory in large pages, where the C library can."""
    before = os.environ.get(_TUNABLES)
    os.environ[_TUNABLES] = _tunables(before or "")
    try:
        yield
    finally:
        if before is None:
            del os.environ[_TUNABLES]
        else:
            os.environ[_TUNABLES] = before


def _tunables(before: str) -> str:
    """GLIBC_TUNABLES for a process that simulates: memory in large pages, which maps of drives and leaves want, as each
    access leads to another place in them. A tenth of the time; other C libraries and older ones take no notice."""
    return before if _LARGE_PAGES in before else ":".join(filter(None, (before, f"{_LARGE_PAGES}=1")))


def _next_of(news: Any, slices: Sequence[Future[None]]) -> Began | Rows | Run:
    """What is told next. Raises what broke a slice, once those that did not break have nothing to tell."""
    while True:
        try:
            item: Began | Rows | Run = news.get(timeout=_PATIENCE_S)
        except queue.Empty:
            if broken := next((error for slice_ in slices if slice_.done() and (error := slice_.exception())), None):
                raise broken from None
        else:
            return item


_news: Any = None
_stop: Event | None = None


def _begin_worker(news: Any, stop: Event) -> None:
    """Ctrl-C is the parent's business; and without a parent there is no business."""
    global _news, _stop
    _news, _stop = news, stop
    news.cancel_join_thread()  # once the parent no longer reads, what is still to be told must not keep a worker alive
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _make_block_here(task: Task) -> None:
    """Raises KeyboardInterrupt, inside a run too, once the parent wants no more."""

    def tell(item: Began | Rows | Run) -> None:
        if _stop is not None and _stop.is_set():
            raise KeyboardInterrupt
        _news.put(item)

    make_block(task, tell)
