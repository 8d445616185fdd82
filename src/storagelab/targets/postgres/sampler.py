"""Watches a run: what each worker session waits for, with exact totals of the kernel, and a series once a second.

PostgreSQL shows only what a session waits for now. So all worker sessions are looked at many times a second; each look
asks the kernel for each session's state first, then the server for its wait. What a session spent on a CPU and in its
queue over the whole run the kernel knows exactly. `storagelab.model.waits` makes wait statistics of the two.
"""

from __future__ import annotations

import contextlib
import functools
import re
import select
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import pq

from storagelab.machine.host import usable_cpus
from storagelab.machine.procfs import GONE, STOPPED, SchedStat, Switches, TaskView
from storagelab.model.measurement import ObserverCost, TimeSeries, WaitingTask
from storagelab.model.waits import NO_EVENT, NS, EventTicks, SampledWaits
from storagelab.targets.postgres.events import BARRIER, IDLE, event_of
from storagelab.targets.postgres.waiting import LOCKS_SQL, LockWait, Relations, lock_wait, waiting_tasks
from storagelab.targets.watch import Looks, Watch
from storagelab.targets.watching import SERIES_HZ, Moments, Pace, Series, Tallies

BUDGET = 0.035
"""Share of one core that the sampler and its session may take; above it samples get rarer."""
WAITING_TASKS_INTERVAL_S = 0.5
WAITING_TASKS_MAX = 400
LOOKS_PER_TURNS = 2
"""How often sessions get a CPU is read at every second look only: WaitCount's shares come of it, which are rough."""
ANSWER_POLL_MS = 2_000
STOP_TIMEOUT_S = 5.0

_SESSIONS = b"storagelab_sessions"
_LOCKS = b"storagelab_locks"
# The function below the view: joins of the view to names of databases and roles would cost more than all the rest.
_SESSIONS_SQL = b"""
select pid, wait_event_type, wait_event, application_name
from pg_stat_get_activity(null) where pid = any($1::int[])"""
_LAST_INTEGER = re.compile(rb"(\d+)\s*$")
_NOT_WORK = frozenset({IDLE, BARRIER})


@dataclass
class _Worker:
    """One worker session. `view` is None where the kernel can't be asked."""

    pid: int
    view: TaskView | None
    rows_done: int = 0
    start: tuple[SchedStat, Switches] | None = None
    end: tuple[SchedStat, Switches] | None = None

    def reading(self) -> tuple[SchedStat, Switches] | None:
        sched = self.view.sched() if self.view else None
        switches = self.view.switches() if self.view else None
        return None if sched is None or switches is None else (sched, switches)


@dataclass(frozen=True)
class Sampled:
    """What was seen of one run. `error` is empty unless watching broke off before the run's end."""

    events: tuple[EventTicks, ...]
    passes: int
    cpu_s: float | None
    runqueue_s: float | None
    switches: Switches | None
    no_split_reason: str
    waiting_tasks: tuple[WaitingTask, ...]
    series: TimeSeries
    observer: ObserverCost
    rows_done: int
    error: str = ""
    sampled: bool = True

    def waits(self, elapsed_s: float, busy_s: float, connections: int) -> SampledWaits | None:
        """The raw waits, given the times by the server's clock; None when waits were not sampled.

        `busy_s` is the sum over connections of start to finish.
        """
        if not self.sampled:
            return None
        return SampledWaits(
            connections=connections, elapsed_s=elapsed_s, busy_s=busy_s, passes=self.passes, events=self.events,
            cpu_s=self.cpu_s, runqueue_s=self.runqueue_s, no_split_reason=self.no_split_reason,
            voluntary_switches=self.switches.voluntary if self.switches else None,
            involuntary_switches=self.switches.involuntary if self.switches else None,
            cpus=usable_cpus() if self.cpu_s is not None else None,
        )  # fmt: skip


class Sampler:
    """Watches the worker sessions `pids` through a connection of its own.

    In order: `prepare`, `baseline` while all workers wait at the barrier, `start` as it is lifted, `stop` when the last
    worker is done but all are still connected. `probe` reads cumulative counters, units last in their names; it is
    called once a second from the sampler's thread. Workers report rows done as the last integer of their application
    name, every `rows_per_report` rows; 0 = they don't. Nothing that breaks while watching is raised: it stands in
    `Sampled.error`.
    """

    def __init__(
        self,
        *,
        connect: Callable[[], psycopg.Connection[Any]],
        pids: Sequence[int],
        hz: float,
        sample_waits: bool,
        kernel_view: bool,
        relations: Relations,
        probe: Callable[[], Mapping[str, float]],
        rows_per_report: int = 1,
        budget: float = BUDGET,
    ) -> None:
        self._connect, self._probe, self._relations = connect, probe, relations
        self._sample_waits, self._kernel_view, self._budget = sample_waits, kernel_view, budget
        self._workers = {pid: _Worker(pid, None) for pid in pids}
        self._by_wire = {b"%d" % pid: worker for pid, worker in self._workers.items()}
        self._pids_wire = b"{%s}" % b",".join(self._by_wire)
        self._no_split_reason = "" if kernel_view else "the server's processes can't be seen from here"
        self._pace = Pace(hz, budget, at_random=True) if sample_waits else Pace(SERIES_HZ, budget, at_random=False)
        self._series = Series(with_rows=rows_per_report > 0)
        self._moments = Moments(WAITING_TASKS_INTERVAL_S, WAITING_TASKS_MAX)
        self._tallies = Tallies()
        self._waits_by_wire: dict[tuple[bytes | None, bytes | None], str] = {}
        self._passes = 0
        looks = Looks(functools.partial(self._take_series, first=True), self._tick, self._last_look)
        self._watch = Watch(self._pace, looks, _one_line, self._session_cpu_s)
        self._connection: psycopg.Connection[Any] | None = None
        self._libpq: pq.abc.PGconn
        self._readable: select.poll
        self._own_view: TaskView | None = None

    # -- before the run -----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Connects, prepares the statements and opens the kernel's files. Errors of the connection are raised here."""
        self._connection = self._connect()
        self._connection.autocommit = True
        self._libpq = self._connection.pgconn
        self._readable = select.poll()
        self._readable.register(self._libpq.socket, select.POLLIN)
        for name, sql in ((_SESSIONS, _SESSIONS_SQL), (_LOCKS, LOCKS_SQL)):
            _check(self._libpq.prepare(name, sql))
        # The first run of a statement loads catalogues and plans it: that cost belongs before the run.
        for _ in range(2):
            self._ask(_SESSIONS, [self._pids_wire])
            self._answer()
            self._query(_LOCKS)
        if self._kernel_view:
            self._open_kernel_view(self._connection.info.backend_pid)

    def _open_kernel_view(self, own_pid: int) -> None:
        """Opens the kernel's view, if the processes by these PIDs are the sessions: siblings of the sampler's own.

        A server in another PID namespace gives PIDs that are nobody's here, or somebody else's.
        """
        own = TaskView(own_pid)
        views = {pid: TaskView(pid) for pid in self._workers}
        siblings = {(view.parent(), view.name()) for view in (own, *views.values())}
        if len(siblings) != 1 or own.parent() is None:
            self._no_split_reason = "the server's processes are hidden, or in another PID namespace"
        elif own.sched() is None:
            self._no_split_reason = "this kernel keeps no schedstat (CONFIG_SCHED_INFO)"
        else:
            self._own_view = own
            for pid, worker in self._workers.items():
                worker.view = views[pid]
            return
        for view in (own, *views.values()):
            view.close()

    def baseline(self) -> None:
        """Reads the kernel's totals of all workers; call while they sleep at the barrier."""
        for worker in self._workers.values():
            worker.start = worker.reading()

    def start(self) -> None:
        """Starts watching. Call at the moment the barrier is lifted."""
        self._watch.start()

    # -- while it lasts: all this runs in the sampler's thread ---------------------------------------------------------

    def _last_look(self) -> None:
        self._look(count=False)
        self._take_series(last=True)

    def _tick(self) -> None:
        seen = self._look(count=self._sample_waits)
        at_s = self._watch.at_s
        if self._sample_waits and seen and self._moments.due(at_s):
            locked = any(wait_type.startswith("Lock:") for wait_type in seen.values())
            locks = [lock_wait(row) for row in self._query(_LOCKS)] if locked else list[LockWait]()
            self._moments.add(at_s, waiting_tasks(at_s, seen, locks, self._relations))
        self._take_series()

    def _look(self, *, count: bool) -> dict[int, str]:
        """One look at all sessions. Returns what each working one waits for.

        The server is asked first, and the kernel while the server works on its answer: a session's wait and its state
        are then of nearly the same moment. Read one after the other, most sessions that commit often have moved on
        in between. A session that waits for its client or at the barrier isn't working.
        """
        turns = self._turns() if count and self._passes % LOOKS_PER_TURNS == 0 else {}
        self._ask(_SESSIONS, [self._pids_wire])
        states = self._states() if count else {}
        seen: dict[int, str] = {}
        for pid_wire, type_wire, event_wire, application_name in self._answer():
            worker = self._by_wire.get(pid_wire or b"")
            if worker is None:
                continue
            reported = _LAST_INTEGER.search(application_name or b"")
            if reported:
                worker.rows_done = int(reported[1])
            wait_type = self._wait_type(type_wire, event_wire)
            if wait_type not in _NOT_WORK:
                seen[worker.pid] = wait_type
        if count and seen:
            self._passes += 1
            self._count(seen, states, turns)
            if any(states.get(pid) in STOPPED for pid in seen):
                self._pace.saw_stopped()
        return seen

    def _turns(self) -> dict[int, int]:
        """How often each session has been put on a CPU so far."""
        scheds = {pid: worker.view.sched() for pid, worker in self._workers.items() if worker.view is not None}
        return {pid: sched.timeslices for pid, sched in scheds.items() if sched is not None}

    def _states(self) -> dict[int, str]:
        return {pid: worker.view.state() for pid, worker in self._workers.items() if worker.view is not None}

    def _count(self, seen: Mapping[int, str], states: Mapping[int, str], turns: Mapping[int, int]) -> None:
        turns_after = self._turns() if turns else {}
        for pid, wait_type in seen.items():
            taken = turns_after[pid] - turns[pid] if pid in turns and pid in turns_after else 0
            self._tallies.count(wait_type, states.get(pid, GONE), taken)

    def _wait_type(self, type_wire: bytes | None, event_wire: bytes | None) -> str:
        key = (type_wire, event_wire)
        known = self._waits_by_wire.get(key)
        if known is None:
            known = NO_EVENT if not (type_wire and event_wire) else f"{type_wire.decode()}:{event_wire.decode()}"
            self._waits_by_wire[key] = known
        return known

    def _take_series(self, *, first: bool = False, last: bool = False) -> None:
        at_s = self._watch.at_s
        if first or last or self._series.due(at_s):
            self._series.add(at_s, {"rows": float(self.progress()), **self._probe()}, last=last)

    # Straight to libpq: a cursor's work around each of fifty looks a second would double their cost.

    def _query(self, name: bytes) -> list[list[bytes | None]]:
        self._ask(name, None)
        return self._answer()

    def _ask(self, name: bytes, parameters: list[bytes] | None) -> None:
        self._libpq.send_query_prepared(name, parameters)
        self._libpq.flush()

    def _answer(self) -> list[list[bytes | None]]:
        """The rows of the question asked last. Raises OperationalError when no answer comes though the run is over."""
        libpq, rows = self._libpq, list[list[bytes | None]]()
        while True:
            while libpq.is_busy():
                if self._readable.poll(ANSWER_POLL_MS):
                    libpq.consume_input()
                elif self._watch.ending:
                    raise psycopg.OperationalError("the server does not answer")
            result = libpq.get_result()
            if result is None:
                return rows
            _check(result)
            columns = range(result.nfields)
            rows += [[result.get_value(row, column) for column in columns] for row in range(result.ntuples)]

    def _session_cpu_s(self) -> float | None:
        sched = self._own_view.sched() if self._own_view else None
        return None if sched is None else sched.cpu_ns * NS

    # -- after it -----------------------------------------------------------------------------------------------------

    def progress(self) -> int:
        """Rows that all workers together have reported as done. May be called from any thread."""
        return sum(worker.rows_done for worker in self._workers.values())

    def stop(self) -> Sampled:
        """Reads the kernel's totals, ends the thread and the connection, and hands over what was seen. Never raises."""
        for worker in self._workers.values():
            worker.end = worker.reading()
        self._watch.end(STOP_TIMEOUT_S)
        totals = self._totals()
        self._close()
        return Sampled(
            events=self._tallies.frozen(event_of), passes=self._passes,
            waiting_tasks=self._moments.tasks, series=self._series.frozen(),
            cpu_s=totals[0].cpu_ns * NS if totals else None,
            runqueue_s=totals[0].runqueue_ns * NS if totals else None,
            switches=totals[1] if totals else None,
            no_split_reason="" if totals else self._no_split_reason,
            observer=self._pace.cost(), rows_done=self.progress(), error=self._watch.error, sampled=self._sample_waits,
        )  # fmt: skip

    def _totals(self) -> tuple[SchedStat, Switches] | None:
        """Sums over all workers of end minus start; None, with the reason noted, when one of them can't be had."""
        if self._own_view is None:
            return None
        sched, switches = [0, 0, 0], [0, 0]
        for worker in self._workers.values():
            if worker.start is None or worker.end is None:
                self._no_split_reason = "a session ended before the kernel's totals of it could be read"
                return None
            sched = _plus_growth(sched, worker.start[0], worker.end[0])
            switches = _plus_growth(switches, worker.start[1], worker.end[1])
        return SchedStat(*sched), Switches(*switches)

    def _close(self) -> None:
        if self._connection is not None and not self._watch.stuck:  # libpq is not to be used by two threads at once
            with contextlib.suppress(Exception):
                self._connection.close()
        for view in (self._own_view, *(worker.view for worker in self._workers.values())):
            if view is not None:
                view.close()


def _plus_growth(totals: Sequence[int], start: Sequence[int], end: Sequence[int]) -> list[int]:
    return [total + after - before for total, before, after in zip(totals, start, end, strict=True)]


def _check(result: pq.abc.PGresult) -> None:
    if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        raise psycopg.OperationalError(result.get_error_message() or "the server went away")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
