"""Watches a run: exact timers of every wait that has one, samples of what has none, and a series once a second.

MariaDB times most waits for each session (performance_schema), but neither the redo log nor page latches. So all worker
sessions are also looked at many times a second: the kernel for each one's state, the server for its wait or, where it
names none, for what it is doing. What a session spent on a CPU and in its queue over the whole run the kernel knows
exactly. `storagelab.model.waits` makes wait statistics of the three.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from storagelab.machine.host import usable_cpus
from storagelab.machine.procfs import GONE, RUNNABLE, TaskView
from storagelab.model.measurement import ObserverCost, TimeSeries, WaitingTask
from storagelab.model.waits import NO_EVENT, NS, CountedWait, CountedWaits, EventTicks
from storagelab.targets.mariadb.connecting import Connection, ask, close, words_of
from storagelab.targets.mariadb.events import (
    COMMIT,
    COMMIT_STATE,
    GATE,
    IDLE,
    counts_waits,
    event_of,
    is_counted,
)
from storagelab.targets.mariadb.procedures import PROGRESS
from storagelab.targets.mariadb.waiting import Sighting, waiting_tasks
from storagelab.targets.watch import Looks, Watch
from storagelab.targets.watching import Moments, Pace, Series, Tallies

BUDGET = 0.02
"""Share of one core that the sampler and its session may take; above it samples get rarer."""
PROGRESS_INTERVAL_S = 0.25
WAITING_TASKS_INTERVAL_S = 0.5
WAITING_TASKS_MAX = 400
STOP_TIMEOUT_S = 5.0
_PICOSECONDS_PER_NS = 1000

# Of the events a thread has begun, one that has not ended is what it waits for now; TIMER_END is never null here.
_LOOK = """
SELECT t.thread_id, t.processlist_state, w.event_name{more}
FROM performance_schema.threads t LEFT JOIN performance_schema.events_waits_current w
  ON w.thread_id = t.thread_id AND w.end_event_id IS NULL
WHERE t.thread_id IN ({threads})"""
_TIMERS = """
SELECT event_name, SUM(count_star), SUM(sum_timer_wait)
FROM performance_schema.events_waits_summary_by_thread_by_event_name
WHERE thread_id IN ({threads}) AND count_star > 0 GROUP BY event_name"""
_ROWS_DONE = """
SELECT thread_id, variable_value FROM performance_schema.user_variables_by_thread
WHERE variable_name = '{progress}' AND thread_id IN ({threads})"""
_WHO = """
SELECT thread_id, thread_os_id, processlist_id FROM performance_schema.threads
WHERE processlist_id IN ({ids}) OR processlist_id = connection_id()"""


class Timers(dict[str, tuple[int, int]]):
    """Instrument -> (count, picoseconds), summed over the worker threads."""

    def since(self, earlier: Mapping[str, tuple[int, int]]) -> Timers:
        return Timers(
            {
                name: (count - earlier.get(name, (0, 0))[0], waited - earlier.get(name, (0, 0))[1])
                for name, (count, waited) in self.items()
            }
        )


@dataclass
class _Worker:
    """One worker session: its thread in the server, and the kernel's view of it, None where it can't be asked."""

    view: TaskView | None = None
    rows_done: int = 0
    start: tuple[int, int] | None = None
    end: tuple[int, int] | None = None

    def reading(self) -> tuple[int, int] | None:
        """CPU and run queue so far, in nanoseconds."""
        sched = self.view.sched() if self.view else None
        return None if sched is None else (sched.cpu_ns, sched.runqueue_ns)


@dataclass(frozen=True)
class Sampled:
    """What was seen of one run. `error` is empty unless watching broke off before the run's end."""

    timers: Timers
    events: tuple[EventTicks, ...]
    passes: int
    cpu_s: float | None
    runqueue_s: float | None
    no_split_reason: str
    waiting_tasks: tuple[WaitingTask, ...]
    series: TimeSeries
    observer: ObserverCost
    error: str = ""

    def waits(self, elapsed_s: float, busy_s: float, connections: int) -> CountedWaits:
        """The raw waits, given the times by the server's clock. `busy_s` is the sum over connections of start to finish."""
        return CountedWaits(
            connections=connections, elapsed_s=elapsed_s, busy_s=busy_s, rows=tuple(_rows(self.timers)),
            cpu_s=self.cpu_s, runqueue_s=self.runqueue_s, passes=self.passes, events=self.events,
            cpus=usable_cpus() if self.cpu_s is not None else None, no_split_reason=self.no_split_reason,
        )  # fmt: skip


def _rows(timers: Timers) -> list[CountedWait]:
    rows = []
    for name, (count, waited) in sorted(timers.items()):
        if is_counted(name) and waited > 0:
            known = event_of(name)
            row = CountedWait(
                wait_type=name, analogue=known.analogue, category=known.category,
                wait_ns=waited // _PICOSECONDS_PER_NS, wait_count=count if counts_waits(name) else None,
            )  # fmt: skip
            rows.append(row)
    return rows


@dataclass
class Sampler:
    """Watches the sessions whose connections have the server's numbers `ids`, through a connection of its own.

    In order: `prepare`, `baseline` while all workers wait at the gate, `start` as it is opened, `stop` when the last
    worker is done but all are still connected. `probe` reads cumulative counters, units last in their names; it is called
    once a second from the sampler's thread. `server_pid` is None where the kernel can't be asked, `paths` names data files
    by their path. Nothing that breaks while watching is raised: it stands in `Sampled.error`.
    """

    connect: Callable[[], Connection]
    ids: Sequence[int]
    hz: float
    sample_waits: bool
    server_pid: int | None
    paths: Mapping[str, int]
    probe: Callable[[], Mapping[str, float]]
    no_split_reason: str = ""
    budget: float = BUDGET
    _workers: dict[int, _Worker] = field(default_factory=dict, init=False)
    _tallies: Tallies = field(default_factory=Tallies, init=False)
    _before: Timers = field(default_factory=Timers, init=False)
    _passes: int = field(default=0, init=False)
    _connection: Connection | None = field(default=None, init=False)
    _own_view: TaskView | None = field(default=None, init=False)
    _rows_due_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        sampling = (self.hz, True) if self.sample_waits else (1 / PROGRESS_INTERVAL_S, False)
        self._pace = Pace(sampling[0], self.budget, at_random=sampling[1])
        self._series = Series(with_rows=True)
        self._moments = Moments(WAITING_TASKS_INTERVAL_S, WAITING_TASKS_MAX)
        looks = Looks(functools.partial(self._take_series, first=True), self._tick, self._last_look)
        self._watch = Watch(self._pace, looks, words_of, self._session_cpu_s)

    # -- before the run -----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Connects, and opens the kernel's files. Errors of the connection are raised here."""
        self._connection = self.connect()
        rows = ask(self._connection, _WHO.format(ids=", ".join(map(str, self.ids))))
        os_ids = {thread: os_id for thread, os_id, _ in rows}
        mine = [thread for thread, _, connection in rows if connection not in self.ids]
        self._workers = {thread: _Worker() for thread in os_ids if thread not in mine}
        self._threads = ", ".join(map(str, self._workers))
        self._series.with_rows = bool(self._workers)  # a server without performance_schema shows no threads
        if self.server_pid is not None:
            self._open_kernel_view(self.server_pid, os_ids, mine)

    def _open_kernel_view(self, pid: int, os_ids: Mapping[int, int | None], mine: Sequence[int]) -> None:
        views = {thread: TaskView(pid, os_id) for thread, os_id in os_ids.items() if os_id is not None}
        if all(view.sched() is not None for view in views.values()) and len(views) == len(os_ids):
            self._own_view = views[mine[0]] if mine else None
            for thread, worker in self._workers.items():
                worker.view = views[thread]
            return
        self.no_split_reason = "this kernel keeps no schedstat of the server's threads, or hides them"
        for view in views.values():
            view.close()

    def baseline(self) -> None:
        """Reads the timers, and the kernel's totals of all workers; call while they sleep at the gate."""
        self._before = self._timers()
        for worker in self._workers.values():
            worker.start = worker.reading()

    def _timers(self) -> Timers:
        assert self._connection is not None, "the sampler is not prepared"
        if not self.sample_waits:
            return Timers()
        rows = ask(self._connection, _TIMERS.format(threads=self._threads))
        return Timers({name: (int(count), int(waited)) for name, count, waited in rows})

    def start(self) -> None:
        """Starts watching. Call at the moment the gate is opened."""
        self._watch.start()

    # -- while it lasts: all this runs in the sampler's thread ---------------------------------------------------------

    def _last_look(self) -> None:
        self._read_progress()
        self._take_series(last=True)

    def _tick(self) -> None:
        at_s = self._watch.at_s
        if self.sample_waits:
            with_objects = self._moments.due(at_s)
            seen = self._look(with_objects)
            if with_objects and seen:
                self._moments.add(at_s, waiting_tasks(at_s, seen, self.paths))
        if at_s >= self._rows_due_s:
            self._rows_due_s = at_s + PROGRESS_INTERVAL_S
            self._read_progress()
        self._take_series()

    def _look(self, with_objects: bool) -> list[Sighting]:
        """One look at all sessions: what each that works waits for, and its state by the kernel."""
        assert self._connection is not None, "the sampler is not prepared"
        more = ", w.object_name" if with_objects else ""
        states = {thread: worker.view.state() for thread, worker in self._workers.items() if worker.view is not None}
        seen = []
        for thread, state, event, *rest in ask(self._connection, _LOOK.format(threads=self._threads, more=more)):
            if thread not in self._workers or event in (IDLE, GATE):
                continue
            wait_type, kernel_state = _wait_type(state, event), states.get(thread, GONE)
            asleep = kernel_state not in (GONE, RUNNABLE)
            seen.append(Sighting(wait_type, state or "", rest[0] if rest else None, asleep))
            self._tallies.count(wait_type, kernel_state)
        self._passes += bool(seen)
        return seen

    def _read_progress(self) -> None:
        assert self._connection is not None, "the sampler is not prepared"
        if not self._workers:
            return
        statement = _ROWS_DONE.format(progress=PROGRESS, threads=self._threads)
        for thread, rows_done in ask(self._connection, statement):
            self._workers[thread].rows_done = int(rows_done or 0)

    def _take_series(self, *, first: bool = False, last: bool = False) -> None:
        at_s = self._watch.at_s
        if first or last or self._series.due(at_s):
            self._series.add(at_s, {"rows": float(self.progress()), **self.probe()}, last=last)

    def _session_cpu_s(self) -> float | None:
        sched = self._own_view.sched() if self._own_view else None
        return None if sched is None else sched.cpu_ns * NS

    # -- after it -----------------------------------------------------------------------------------------------------

    def progress(self) -> int:
        """Rows that all workers together have reported as done. May be called from any thread."""
        return sum(worker.rows_done for worker in self._workers.values())

    def stop(self) -> Sampled:
        """Reads the kernel's totals and the timers, ends thread and connection, and hands over what was seen. Never
        raises."""
        for worker in self._workers.values():
            worker.end = worker.reading()
        self._watch.end(STOP_TIMEOUT_S)
        timers = self._last_timers()
        totals = self._totals()
        self._close()
        return Sampled(
            timers=timers, events=self._tallies.frozen(event_of), passes=self._passes, waiting_tasks=self._moments.tasks,
            cpu_s=totals[0] * NS if totals else None, runqueue_s=totals[1] * NS if totals else None,
            no_split_reason="" if totals else self.no_split_reason, series=self._series.frozen(),
            observer=self._pace.cost(), error=self._watch.error,
        )  # fmt: skip

    def _last_timers(self) -> Timers:
        if self._watch.error or self._connection is None:
            return Timers()
        try:
            return self._timers().since(self._before)
        except Exception as error:  # noqa: BLE001 - as while watching
            self._watch.error = f"the timers of the waits could not be read: {words_of(error)}"
            return Timers()

    def _totals(self) -> tuple[int, int] | None:
        """CPU and run queue of all workers over the run, in nanoseconds; None, the reason noted, when one's is missing."""
        if not self._workers or any(worker.view is None for worker in self._workers.values()):
            return None
        cpu_ns = runqueue_ns = 0
        for worker in self._workers.values():
            if worker.start is None or worker.end is None:
                self.no_split_reason = "a session ended before the kernel's totals of it could be read"
                return None
            cpu_ns += worker.end[0] - worker.start[0]
            runqueue_ns += worker.end[1] - worker.start[1]
        return cpu_ns, runqueue_ns

    def _close(self) -> None:
        if not self._watch.stuck:  # a connection is not to be used by two threads at once
            close(self._connection)
        for view in (self._own_view, *(worker.view for worker in self._workers.values())):
            if view is not None:
                view.close()


def _wait_type(state: str | None, event: str | None) -> str:
    if event is not None and is_counted(event):
        return event
    return COMMIT if state == COMMIT_STATE else NO_EVENT
