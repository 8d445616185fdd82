"""Does work in this process or in other processes of this machine. Only this module deals with processes.

An executor takes tasks from `Jobs`, calls `work` for each task, and passes the reports of `work` to `Jobs` in the
calling process.

Each worker has one pipe, to its parent, and shares nothing with other workers. So a worker that dies harms no other
worker. We tried the standard library's pools, with one process in each pool, but they need as much code. They don't
pass on a task's reports before the task ends, and they don't give the exit code of a dead process. Before Python 3.14,
they can't kill a working process, which is necessary after Ctrl-C. Each pool has two threads, and leaves semaphores
behind if it is killed."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, Protocol, TypeVar

from storagelab.machine.processes import Kills
from storagelab.stopping import STOPPING, uninterrupted

_PATIENCE_S = 1.0
"""The time, in seconds, to wait for a process that was killed or that closed its pipe."""
_TOGETHER = 256
"""The largest number of reports that are read from one process before other processes have their turn."""
_TOOK, _REPORT, _DONE, _BROKE, _GONE = "took", "report", "done", "broke", "gone"
"""The kinds of messages that a worker sends. The last one stands for a closed pipe."""

Task = TypeVar("Task")
Report = TypeVar("Report")
Reported = TypeVar("Reported", contravariant=True)
Told = TypeVar("Told", covariant=True)
"""What a listener receives and a worker sends: reports of a task."""
Work = Callable[[Task, Callable[[Report], None]], None]
"""A function that does a task, and reports its progress."""


class Jobs(Protocol[Task, Reported]):
    """The tasks that an executor can take, and the functions that receive what becomes of them."""

    def assign(self) -> Task | None:
        """Returns a task to begin now, or None if there is none at present."""

    def reported(self, *reports: Reported) -> None:
        """Receives reports that arrived together. They are in the order of their arrival."""

    def ended(self, task: Task) -> None:
        """The executor calls this method when the work on the task has ended. Parts of the task that were not reported
        were not begun.
        """

    def lost(self, task: Task, why: str) -> None:
        """The executor calls this method when the process of the task has died. Parts of the task that were not
        reported may be scheduled again.
        """


class Executor(Protocol[Task, Told]):
    @property
    def at_once(self) -> int:
        """The number of tasks that the executor can do in parallel at present."""

    def execute(self, jobs: Jobs[Task, Told]) -> None:
        """Does all tasks, and returns when none is left. If `work` raises an error, all work stops, and this function
        raises the error.
        """


class Here(Generic[Task, Report]):
    """Does the work in this process, one task after the other."""

    def __init__(self, work: Work[Task, Report]) -> None:
        self._work = work

    @property
    def at_once(self) -> int:
        return 1

    def execute(self, jobs: Jobs[Task, Report]) -> None:
        while (task := jobs.assign()) is not None:
            self._work(task, jobs.reported)
            jobs.ended(task)


class Processes(Generic[Task, Report]):
    """Does the work in up to `count` processes of this machine. A process starts when it is needed, and then stays.
    `work` must be a function that another process can find by name."""

    def __init__(self, work: Work[Task, Report], count: int) -> None:
        self._work, self._count = work, count
        self._workers: list[_Worker[Task]] = []

    @property
    def at_once(self) -> int:
        return self._count

    def execute(self, jobs: Jobs[Task, Report]) -> None:
        """Does all tasks. If an error occurs here, or the user presses Ctrl-C, all processes are killed at once. They
        hold no data that could be lost.
        """
        self._kills = Kills("the campaign began")
        try:
            self._assign(jobs)
            while any(worker.task is not None for worker in self._workers):
                self._receive(jobs)
                self._assign(jobs)
        finally:
            with uninterrupted():
                for worker in self._workers:
                    worker.process.kill()
                for worker in self._workers:
                    worker.bury()
                self._workers = []

    def _receive(self, jobs: Jobs[Task, Report]) -> None:
        """Waits for reports. Reports that arrive together are passed on together, before any task is ended."""
        ready = connection.wait([worker.pipe for worker in self._workers])
        received = [(worker, *worker.receive()) for worker in self._workers if worker.pipe in ready]
        if reports := [one for _, reported, *_ in received for one in reported]:
            jobs.reported(*reports)
        for worker, _, end, error in received:
            if end == _BROKE:
                raise error
            if end == _GONE:
                self._workers.remove(worker)
                worker.bury()
            if end and worker.task is not None:
                ended, worker.task = worker.task, None
                if end == _DONE or not worker.took:  # if a process died while it was idle, it had not begun the task
                    jobs.ended(ended)
                else:
                    code = worker.process.exitcode
                    killed = self._kills.words(code)
                    how = f"was {killed}" if killed else f"exited on its own (exit code {code})"
                    jobs.lost(ended, f"its process {how}")

    def _assign(self, jobs: Jobs[Task, Report]) -> None:
        """Assigns tasks to idle processes. All new processes are started first. Then each process gets its task."""
        idle = [worker for worker in self._workers if worker.task is None]
        given = []
        while len(self._workers) - len(idle) < self._count and (task := jobs.assign()) is not None:
            given.append(idle.pop() if idle else self._start())
            given[-1].give(task)
        for worker in given:
            with contextlib.suppress(OSError):  # the process died while it was idle; its closed pipe will show this
                worker.pipe.send(worker.task)

    def _start(self) -> _Worker[Task]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, self._work), daemon=True)
        with uninterrupted(), theirs:
            # Ctrl-C in a terminal reaches all processes, even one that is still starting. Only the parent may react to
            # it.
            resource_tracker.ensure_running()  # multiprocessing's tracker: its start unblocks the signals
            before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
            try:
                process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._workers.append(_Worker(process, ours))
        return self._workers[-1]


class _Worker(Generic[Task]):
    """A worker process, and the parent's end of its pipe. `task` is None while the process is idle. `took` says whether
    the process was alive when it got the task. The first task of a process always counts as taken. Otherwise, processes
    that die during their start would be replaced forever.
    """

    def __init__(self, process: SpawnProcess, pipe: Connection[Any, Any]) -> None:
        self.process, self.pipe = process, pipe
        self.task: Task | None = None
        self.took = self._is_new = True

    def give(self, task: Task) -> None:
        self.task, self.took, self._is_new = task, self._is_new, False

    def receive(self) -> tuple[list[Any], str, Any]:
        """Returns the reports that have arrived. If the task ended, also returns how: _DONE, _BROKE with the error, or
        _GONE if the process itself ended.
        """
        reports: list[Any] = []
        while True:
            try:
                kind, what = self.pipe.recv()
            except (EOFError, OSError, pickle.UnpicklingError):
                kind, what = _GONE, None
            if kind == _REPORT:
                reports.append(what)
            elif kind == _TOOK:
                self.took = True
            else:
                return reports, kind, what
            if len(reports) >= _TOGETHER or not self.pipe.poll():
                return reports, "", None

    def bury(self) -> None:
        self.pipe.close()
        self.process.join(_PATIENCE_S)
        if self.process.exitcode is None:  # the process has closed its pipe, but still runs
            self.process.kill()
            self.process.join(_PATIENCE_S)


# --- in the other process --------------------------------------------------------------------------------------------


def _serve(pipe: Connection[Any, Any], work: Work[Any, Any]) -> None:
    """Does tasks until the parent ends. Ignores Ctrl-C, because the parent reacts to it."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    while True:
        try:
            task = pipe.recv()
            pipe.send((_TOOK, None))
            work(task, lambda report: pipe.send((_REPORT, report)))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the parent
            pipe.send((_BROKE, sendable(error)))
        else:
            pipe.send((_DONE, None))


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


def sendable(error: BaseException) -> BaseException:
    """Returns the error with its traceback as a note. If the error can't be sent to another process, returns an error
    that has only its text.
    """
    error.add_note(traceback.format_exc())
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - pickling may raise any error
        return RuntimeError("".join(traceback.format_exception_only(error)))
    return error
