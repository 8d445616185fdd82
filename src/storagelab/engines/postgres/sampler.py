"""Observes a run: samples the wait of each worker session, reads exact totals from the kernel, and records a time
series once a second.

PostgreSQL shows only the present wait of a session. So the sampler samples all worker sessions many times a second. In
each sample, it reads the state of each session from the kernel, and the wait of the session from the server. The kernel
also counts exactly how long each session was on a CPU, and how long it was in the CPU's queue. `storagelab.model.waits`
makes wait statistics from the samples and the kernel's counts.
"""

from __future__ import annotations

import re
import select
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import psycopg
from psycopg import pq

from storagelab.engines.postgres.connect import Connection, value
from storagelab.engines.postgres.meanings import BARRIER, IDLE, event_of
from storagelab.machine.processes import STOPPED, TaskView
from storagelab.model.config import MeasureConfig
from storagelab.model.measurement import Resource, WaitingTask
from storagelab.model.waits import NO_EVENT, SampledWaits
from storagelab.watching.sampler import Observation, RawWaitsOf, SessionSampler

# --- waiting ---------------------------------------------------------------------------------------------------------
#
# Finds the objects for which sessions waited at one moment, for example a row, a transaction or the extension of a
# relation. The lock table names these objects. For latches and I/O, the server shows only the kind of the wait.


Relations = Mapping[int, tuple[str, int | None]]
"""By OID: the name of the relation, and the number of its data file. The numbers begin with 1."""
# Reads the lock table once. Then joins each request that was not granted with a session that holds the same lock. Two
# rows concern the same lock if they have equal values in all columns that can identify an object.
LOCKS_SQL = b"""
with locks as materialized (
  select pid, granted, locktype, relation, page, tuple, transactionid, mode,
         (locktype, database, relation, page, tuple, virtualxid, transactionid, classid, objid, objsubid)::text as thing
  from pg_locks)
select waiter.pid, waiter.locktype, waiter.relation, waiter.page, waiter.tuple, waiter.transactionid,
       (select min(holder.pid) from locks holder where holder.granted and holder.thing = waiter.thing)
from locks waiter where not waiter.granted"""


class LockWait(NamedTuple):
    """One row of `LOCKS_SQL`. If the server returns null, the field is empty or None."""

    pid: int
    locktype: str
    relation: int | None
    page: str
    tuple_: str
    transaction: str
    holder: int | None


def lock_wait(row: Sequence[bytes | None]) -> LockWait:
    pid, locktype, relation, page, tuple_, transaction, holder = (value.decode() if value else "" for value in row)
    return LockWait(
        int(pid), locktype, int(relation) if relation else None, page, tuple_, transaction,
        int(holder) if holder else None,
    )  # fmt: skip


def waiting_tasks(
    at_s: float, seen: Mapping[int, str], locks: Sequence[LockWait], relations: Relations
) -> tuple[WaitingTask, ...]:
    """The waits of all sessions at one moment. The wait with the most sessions comes first.

    `seen` maps the PID of each working session to its wait, or to `NO_EVENT` if it has none. In `locks`, requests of
    other sessions are ignored.
    """
    groups: Counter[tuple[str, Resource, int | None, str]] = Counter()
    named = {lock.pid for lock in locks if lock.pid in seen}
    for lock in locks:
        if lock.pid in seen and lock.locktype != "advisory":
            resource, data_file = resource_of(lock, relations)
            groups[(f"Lock:{lock.locktype}", resource, data_file, _doing(lock.holder, seen))] += 1
    for pid, wait_type in seen.items():
        # If a lock was granted between the two readings, its object is unknown, so this wait is left out.
        if pid not in named and wait_type != NO_EVENT and not wait_type.startswith("Lock:"):
            groups[(wait_type, Resource(kind=event_of(wait_type).resource), None, "")] += 1
    return tuple(
        WaitingTask(
            at_s=at_s, wait_type=wait_type, resource=resource, sessions=sessions, data_file=data_file, held_by=held_by
        )
        for (wait_type, resource, data_file, held_by), sessions in groups.most_common()
    )


def resource_of(lock: LockWait, relations: Relations) -> tuple[Resource, int | None]:
    """The locked object, and the number of its data file. The number is None if the object has no data file."""
    name, data_file = relations.get(lock.relation or 0, (f"relation {lock.relation}", None))
    where = name if data_file is None else f"{name} (data file {data_file})"
    if lock.locktype == "transactionid":
        return Resource(kind="end of transaction", name=lock.transaction), None
    if lock.locktype not in _LOCKED:
        return Resource(kind=lock.locktype), None
    return Resource(kind=_LOCKED[lock.locktype].format(where=where, lock=lock)), data_file


_LOCKED = {
    "extend": "extension of {where}", "relation": "{where}", "page": "page {lock.page} of {where}",
    "tuple": "row {lock.page}/{lock.tuple_} of {where}",
}  # fmt: skip


def _doing(holder: int | None, seen: Mapping[int, str]) -> str:
    if holder is None:
        return ""
    if holder not in seen:
        return "a session outside the workload"
    return seen[holder] or "on CPU or waiting for one"


LOOKS_PER_TURNS = 2
"""Only every second sample reads how many times the sessions have got a CPU. This number is used only for the shares of
WaitCount, which need not be exact.
"""
ANSWER_POLL_MS = 2_000
_SESSIONS = b"storagelab_sessions"
_LOCKS = b"storagelab_locks"
# This statement uses the function on which the view pg_stat_activity is built. The view also joins the names of
# databases and roles, and these joins would cost more than the rest of the statement.
_SESSIONS_SQL = b"""
select pid, wait_event_type, wait_event, application_name
from pg_stat_get_activity(null) where pid = any($1::int[])"""
_LAST_INTEGER = re.compile(rb"(\d+)\s*$")
_NOT_WORK = frozenset({IDLE, BARRIER})


def _raw_waits(seen: Observation, elapsed_s: float, busy_s: float, connections: int) -> SampledWaits:
    totals = seen.totals
    return SampledWaits(
        connections=connections, elapsed_s=elapsed_s, busy_s=busy_s, passes=seen.passes, events=seen.events,
        cpu_s=totals.cpu_s if totals else None, runqueue_s=totals.runqueue_s if totals else None,
        voluntary_switches=totals.switches.voluntary if totals else None,
        involuntary_switches=totals.switches.involuntary if totals else None,
        cpus=seen.cpus, no_split_reason=seen.no_split_reason,
    )  # fmt: skip


class Sampler(SessionSampler):
    """Samples the sessions whose processes have the ids `pids`.

    `probe` reads cumulative counters. Their names end with the unit. The sampler's thread calls it once a second.
    Workers report the number of their rows as the last integer of their application name. With `of_generator`, the
    sessions don't report their rows, and waits for the client between statements count as waits.
    """

    event_of = event_of
    budget = 0.035

    def __init__(
        self, connect: Callable[[], Connection], pids: Sequence[int], measure: MeasureConfig, *, kernel_view: bool,
        relations: Relations, probe: Callable[[], Mapping[str, float]], of_generator: bool = False,
        in_turns: bool = False,
    ) -> None:  # fmt: skip
        unseen = "" if kernel_view else "the server's processes can't be seen from here"
        super().__init__(
            measure, lambda error: " ".join(str(error).split()) or type(error).__name__, unseen, in_turns=in_turns
        )
        self._connect, self._probe, self._relations = connect, probe, relations
        self._pids, self._kernel_view, self._of_generator = pids, kernel_view, of_generator
        self._checkpointer: int | None = None
        self._checkpoint_s = self._looked_s = 0.0
        self._in_checkpoint = False
        self._rows_done = dict.fromkeys(pids, 0)
        self._connection: Connection | None = None
        self._libpq: pq.abc.PGconn
        self._readable: select.poll

    # -- before the run -----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Connects to the server, prepares the statements and opens the kernel's files.

        Raises psycopg.Error or PreflightError if it can't connect.
        """
        self._connection = self._connect()
        self._connection.autocommit = True
        self._libpq = self._connection.pgconn
        self._readable = select.poll()
        self._readable.register(self._libpq.socket, select.POLLIN)
        # Each sample includes the checkpointer if this login may see its waits.
        self._checkpointer = value(
            self._connection, "SELECT max(pid) FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
            " AND wait_event_type IS NOT NULL"
        )  # fmt: skip
        pids = [*self._pids, *([self._checkpointer] if self._checkpointer else [])]
        self._looked_at = f"{{{','.join(map(str, pids))}}}".encode()
        for name, sql in ((_SESSIONS, _SESSIONS_SQL), (_LOCKS, LOCKS_SQL)):
            _check(self._libpq.prepare(name, sql))
        # The first execution of a statement takes longer, because the server plans it. So do this before the run.
        for _ in range(2):
            self._ask(_SESSIONS, [self._looked_at])
            self._answer()
            self._query(_LOCKS)
        if self._kernel_view:
            self._open_kernel_view(self._connection.info.backend_pid)

    def _open_kernel_view(self, own_pid: int) -> None:
        """If the processes with these PIDs are the sessions, opens the kernel's view of them.

        They are the sessions if they have the same parent as the process that serves the sampler's own session. If the
        server is in another PID namespace, its PIDs here belong to no process or to other processes.
        """
        own = TaskView(own_pid)
        views = {pid: TaskView(pid) for pid in self._pids}
        siblings = {(view.parent(), view.name()) for view in (own, *views.values())}
        if own.parent() is not None and any(view.parent() is None for view in views.values()):
            self.accounts.reason = "a session had ended before its state could be read from the kernel"
        elif len(siblings) != 1 or own.parent() is None:
            self.accounts.reason = "the server's processes are hidden, or in another PID namespace"
        elif own.sched() is None:
            self.accounts.reason = "this kernel keeps no schedstat (CONFIG_SCHED_INFO)"
        else:
            self.accounts.open(views, own)
            return
        for view in (own, *views.values()):
            view.close()

    # -- while it lasts: all this runs in the sampler's thread ---------------------------------------------------------

    def _last_look(self) -> None:
        self._look(count=False)
        self._take_series(last=True)

    def _tick(self) -> None:
        seen = self._look(count=self.sample_waits)
        at_s, moments = self.at_s, self.moments
        if self.sample_waits and seen and moments.due(at_s):
            locked = any(wait_type.startswith("Lock:") for wait_type in seen.values())
            locks = [lock_wait(row) for row in self._query(_LOCKS)] if locked else list[LockWait]()
            moments.add(at_s, waiting_tasks(at_s, seen, locks, self._relations))
        self._take_series()

    def _look(self, *, count: bool) -> dict[int, str]:
        """One sample of all sessions. Returns the wait of each working session.

        First, it sends the query to the server. While the server prepares its answer, it reads the kernel's states. So
        a session's wait and state are from almost the same moment. Otherwise, sessions that commit often would mostly
        have changed their state in between. A session that waits for its client or at the barrier isn't working.
        """
        accounts = self.accounts
        turns = accounts.turns() if count and self.passes % LOOKS_PER_TURNS == 0 else {}
        self._ask(_SESSIONS, [self._looked_at])
        states = accounts.states() if count else {}
        seen: dict[int, str] = {}
        for pid_wire, type_wire, event_wire, application_name in self._answer():
            pid = int(pid_wire or 0)
            if pid == self._checkpointer:
                # Between checkpoints, the checkpointer waits in its main loop. The type of this wait is Activity.
                self._in_checkpoint = type_wire != b"Activity"
                self._add_checkpoint()
                continue
            reported = _LAST_INTEGER.search(application_name or b"")
            if reported:
                self._rows_done[pid] = int(reported[1])
            wait_type = f"{type_wire.decode()}:{event_wire.decode()}" if type_wire and event_wire else NO_EVENT
            if wait_type not in _NOT_WORK or (self._of_generator and wait_type == IDLE):
                seen[pid] = wait_type
        if count and seen:
            self.passes += 1
            turns_after = accounts.turns() if turns else {}
            for pid, wait_type in seen.items():
                taken = turns_after[pid] - turns[pid] if pid in turns and pid in turns_after else 0
                self._count(pid, wait_type, states, taken)
            if any(states.get(pid) in STOPPED for pid in seen):
                self.pace.saw_stopped()
        return seen

    def _add_checkpoint(self) -> None:
        """Adds the time since the last call to the checkpointer's working time, if it was working."""
        at_s = self.at_s
        if self._in_checkpoint:
            self._checkpoint_s += at_s - self._looked_s
        self._looked_s = at_s

    def _columns(self) -> dict[str, float]:
        if self.pace.resting:  # without a new sample, the checkpointer's last state counts
            self._add_checkpoint()
        rows = {} if self._of_generator else {"rows": float(self.progress())}
        checkpoint = {} if self._checkpointer is None else {"checkpoint_s": self._checkpoint_s}
        return {**rows, **checkpoint, **self._probe()}

    # This calls libpq directly, because with psycopg's cursors each sample would cost twice as much.

    def _query(self, name: bytes) -> list[list[bytes | None]]:
        self._ask(name, None)
        return self._answer()

    def _ask(self, name: bytes, parameters: list[bytes] | None) -> None:
        self._libpq.send_query_prepared(name, parameters)
        self._libpq.flush()

    def _answer(self) -> list[list[bytes | None]]:
        """The rows of the last query. Raises psycopg.OperationalError if the run is over and no answer comes."""
        libpq, rows = self._libpq, list[list[bytes | None]]()
        while True:
            while libpq.is_busy():
                if self._readable.poll(ANSWER_POLL_MS):
                    libpq.consume_input()
                elif self.ending:
                    raise psycopg.OperationalError("the server does not answer")
            result = libpq.get_result()
            if result is None:
                return rows
            _check(result)
            columns = range(result.nfields)
            rows += [[result.get_value(row, column) for column in columns] for row in range(result.ntuples)]

    # -- after it -----------------------------------------------------------------------------------------------------

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _raw_waits(self) -> RawWaitsOf:
        return _raw_waits


def _check(result: pq.abc.PGresult) -> None:
    if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        raise psycopg.OperationalError(result.get_error_message() or "the server went away")
