"""Observes a run: reads exact timers of the waits that have timers, samples the other waits, and records a time series
once a second.

In performance_schema, MariaDB times most waits of each session. It does not time waits for the redo log and for page
latches. So the sampler also samples all worker sessions many times a second. It reads each session's state from the
kernel, and the session's wait from the server. If the server reports no wait, it reads the session's activity. The
kernel also counts exactly how long each session was on a CPU, and how long it was in the CPU's queue.
`storagelab.model.waits` makes wait statistics from the timers, the samples and the kernel's counts.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from storagelab.engines.mariadb.connect import Connection, ask, close, words_of
from storagelab.engines.mariadb.loads.inserts import PROGRESS
from storagelab.engines.mariadb.meanings import COMMIT, COMMIT_STATE, GATE, IDLE, counts_waits, event_of, is_counted
from storagelab.machine.processes import GONE, RUNNABLE, TaskView
from storagelab.model.config import MeasureConfig
from storagelab.model.measurement import Resource, WaitingTask
from storagelab.model.waits import NO_EVENT, UNINSTRUMENTED, CountedWait, CountedWaits
from storagelab.watching.sampler import Observation, RawWaitsOf, SessionSampler

# --- waiting ---------------------------------------------------------------------------------------------------------
#
# The waits of all sessions at one moment. For an I/O, the server names the file. For other waits, it names only the
# kind.


class Sighting(NamedTuple):
    """The state of one session at one moment.

    `wait_type` is its wait, or `NO_EVENT`. `state` is the server's name for its activity. `object_name` is the file, if
    the server names one. `asleep` says whether the session sleeps, according to the kernel.
    """

    wait_type: str
    state: str
    object_name: str | None
    asleep: bool


def waiting_tasks(at_s: float, seen: Sequence[Sighting], data_files: Mapping[str, int]) -> tuple[WaitingTask, ...]:
    """The waits of all sessions at one moment. The wait with the most sessions comes first.

    `data_files` maps the paths of data files to numbers.
    """
    groups: Counter[tuple[str, Resource, int | None]] = Counter()
    for wait_type, state, name, asleep in seen:
        number = data_files.get(name or "")
        if wait_type == NO_EVENT:
            if asleep:  # otherwise, the session is on a CPU or in its queue
                kind = f'something without a timer, in the state "{state}"'
                groups[UNINSTRUMENTED, Resource(kind=kind), None] += 1
        elif number is None:
            groups[wait_type, Resource(kind=event_of(wait_type).resource), None] += 1
        else:
            groups[wait_type, Resource(kind="data file", name=str(number)), number] += 1
    return tuple(
        WaitingTask(at_s=at_s, wait_type=wait_type, resource=resource, sessions=sessions, data_file=data_file)
        for (wait_type, resource, data_file), sessions in groups.most_common()
    )


PROGRESS_INTERVAL_S = 0.25
_PICOSECONDS_PER_NS = 1000
# A thread's current wait is the event that has begun but not ended. TIMER_END can't show this: it is never null here.
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
    """By instrument: the sums of counts and of picoseconds over the worker threads."""

    def since(self, earlier: Mapping[str, tuple[int, int]]) -> Timers:
        before = {name: earlier.get(name, (0, 0)) for name in self}
        return Timers((name, (one[0] - before[name][0], one[1] - before[name][1])) for name, one in self.items())


def _raw_waits(timers: Timers, seen: Observation, elapsed_s: float, busy_s: float, connections: int) -> CountedWaits:
    totals = seen.totals
    return CountedWaits(
        connections=connections, elapsed_s=elapsed_s, busy_s=busy_s, rows=tuple(_rows(timers)),
        cpu_s=totals.cpu_s if totals else None, runqueue_s=totals.runqueue_s if totals else None,
        passes=seen.passes, events=seen.events, cpus=seen.cpus, no_split_reason=seen.no_split_reason,
    )  # fmt: skip


def _rows(timers: Timers) -> list[CountedWait]:
    return [
        CountedWait(
            wait_type=name, analogue=event_of(name).analogue, category=event_of(name).category,
            wait_ns=waited // _PICOSECONDS_PER_NS, wait_count=count if counts_waits(name) else None,
        )
        for name, (count, waited) in sorted(timers.items()) if is_counted(name) and waited > 0
    ]  # fmt: skip


class Sampler(SessionSampler):
    """Samples the sessions whose connections have the ids `ids` on the server.

    `probe` reads cumulative counters. Their names end with the unit. The sampler's thread calls it once a second.
    `server_pid` is None if the kernel shows nothing about the server's threads. `paths` maps the paths of data files to
    numbers. With `of_generator`, the sessions don't report their rows.
    """

    event_of = event_of
    hz_without_waits = 1 / PROGRESS_INTERVAL_S

    def __init__(
        self, connect: Callable[[], Connection], ids: Sequence[int], measure: MeasureConfig, *, server_pid: int | None,
        paths: Mapping[str, int], probe: Callable[[], Mapping[str, float]], of_generator: bool = False,
        in_turns: bool = False,
    ) -> None:  # fmt: skip
        unseen = "" if server_pid is not None else "the server's threads can't be seen from here"
        super().__init__(measure, words_of, unseen, in_turns=in_turns)
        self._connect, self._ids, self._server_pid = connect, ids, server_pid
        self._paths, self._probe, self._of_generator = paths, probe, of_generator
        self._rows_due_s = 0.0
        self._threads, self._before = "", Timers()
        self._connection: Connection | None = None

    # -- before the run -----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Connects to the server, and opens the kernel's files. Raises pymysql.MySQLError if it can't connect."""
        self._connection = self._connect()
        rows = ask(self._own, _WHO.format(ids=", ".join(map(str, self._ids))))
        os_ids = {thread: os_id for thread, os_id, _ in rows}
        mine = next((thread for thread, _, connection in rows if connection not in self._ids), None)
        # If the server runs without performance_schema, it shows no threads, so this is empty.
        self._rows_done = {thread: 0 for thread in os_ids if thread != mine}
        # This is empty, too, if the sessions have already ended: the run was short and the machine was busy.
        self._threads = ", ".join(map(str, self._rows_done)) or "NULL"
        if self._server_pid is not None:
            self._open_kernel_view(self._server_pid, os_ids, mine)

    @property
    def _own(self) -> Connection:
        assert self._connection is not None, "the sampler is not prepared"
        return self._connection

    def _open_kernel_view(self, pid: int, os_ids: Mapping[int, int | None], mine: int | None) -> None:
        views = {thread: TaskView(pid, os_id) for thread, os_id in os_ids.items() if os_id is not None}
        if all(view.sched() is not None for view in views.values()) and len(views) == len(os_ids):
            self.accounts.open(views, views.pop(mine) if mine is not None else None)
            return
        self.accounts.reason = "this kernel keeps no schedstat of the server's threads, or hides them"
        for view in views.values():
            view.close()

    def baseline(self) -> None:
        """Reads the timers, and the kernel's totals of all workers. Call it while all workers wait at the gate."""
        self._before = self._timers()
        super().baseline()

    def _timers(self) -> Timers:
        if not self.sample_waits:
            return Timers()
        rows = ask(self._own, _TIMERS.format(threads=self._threads))
        return Timers({name: (int(count), int(waited)) for name, count, waited in rows})

    # -- while it lasts: all this runs in the sampler's thread ---------------------------------------------------------

    def _last_look(self) -> None:
        self._read_progress()
        self._take_series(last=True)

    def _tick(self) -> None:
        at_s, moments = self.at_s, self.moments
        if self.sample_waits:
            with_objects = moments.due(at_s)
            seen = self._look(with_objects)
            if with_objects and seen:
                moments.add(at_s, waiting_tasks(at_s, seen, self._paths))
        if at_s >= self._rows_due_s:
            self._rows_due_s = at_s + PROGRESS_INTERVAL_S
            self._read_progress()
        self._take_series()

    def _look(self, with_objects: bool) -> list[Sighting]:
        """One sample: for each working session, its wait and its state according to the kernel."""
        more = ", w.object_name" if with_objects else ""
        states = self.accounts.states()
        seen = []
        for thread, state, event, *rest in ask(self._own, _LOOK.format(threads=self._threads, more=more)):
            if thread not in self._rows_done or event in (IDLE, GATE):
                continue
            wait_type = COMMIT if state == COMMIT_STATE else NO_EVENT
            if event is not None and is_counted(event):
                wait_type = event
            asleep = self._count(thread, wait_type, states) not in (GONE, RUNNABLE)
            seen.append(Sighting(wait_type, state or "", rest[0] if rest else None, asleep))
        self.passes += bool(seen)
        return seen

    def _read_progress(self) -> None:
        if not self._rows_done or self._of_generator:
            return
        for thread, rows_done in ask(self._own, _ROWS_DONE.format(progress=PROGRESS, threads=self._threads)):
            self._rows_done[thread] = int(rows_done or 0)

    def _columns(self) -> dict[str, float]:
        rows = {"rows": float(self.progress())} if self._rows_done and not self._of_generator else {}
        return {**rows, **self._probe()}

    # -- after it -----------------------------------------------------------------------------------------------------

    def _disconnect(self) -> None:
        close(self._connection)

    def _raw_waits(self) -> RawWaitsOf:
        return functools.partial(_raw_waits, self._last_timers())

    def _last_timers(self) -> Timers:
        if self.error or self._connection is None:
            return Timers()
        try:
            return self._timers().since(self._before)
        except Exception as error:  # noqa: BLE001 - as while watching
            self.error = f"can't read the timers of the waits: {words_of(error)}"
            return Timers()
