"""Decodes what sessions were waiting for at one moment: which relation's extension, which row, which transaction.

The lock table names the thing that is waited for; for latches and I/O the server shows only the kind of wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from storagelab.model.measurement import Resource, WaitingTask
from storagelab.model.waits import NO_EVENT
from storagelab.targets.postgres.events import event_of

Relations = Mapping[int, tuple[str, int | None]]
"""oid -> (name of the relation, number of the data file it is in, from 1)."""

# One look at the lock table, then each ungranted request with a session that holds that very lock. Two rows are about the
# same lock when all columns that can name a thing agree.
LOCKS_SQL = b"""
with locks as materialized (
  select pid, granted, locktype, relation, page, tuple, transactionid, mode,
         (locktype, database, relation, page, tuple, virtualxid, transactionid, classid, objid, objsubid)::text as thing
  from pg_locks)
select waiter.pid, waiter.locktype, waiter.relation, waiter.page, waiter.tuple, waiter.transactionid,
       (select min(holder.pid) from locks holder where holder.granted and holder.thing = waiter.thing)
from locks waiter where not waiter.granted"""


class LockWait(NamedTuple):
    """One row of `LOCKS_SQL`, empty where the server says null."""

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
    """One moment. `seen` maps the PID of each working session to what it waited for at that moment, `NO_EVENT` if it
    waited for nothing; only the requests of these sessions count in `locks`. Most sessions first."""
    groups: Counter[tuple[str, Resource, int | None, str]] = Counter()
    named = {lock.pid for lock in locks if lock.pid in seen}
    for lock in locks:
        if lock.pid in seen and lock.locktype != "advisory":
            resource, data_file = resource_of(lock, relations)
            groups[(f"Lock:{lock.locktype}", resource, data_file, _doing(lock.holder, seen))] += 1
    for pid, wait_type in seen.items():
        # Leave out a lock that was granted between the two looks: it would name nothing.
        if pid not in named and wait_type != NO_EVENT and not wait_type.startswith("Lock:"):
            groups[(wait_type, Resource(kind=event_of(wait_type).resource), None, "")] += 1
    return tuple(
        WaitingTask(
            at_s=at_s, wait_type=wait_type, resource=resource, sessions=sessions, data_file=data_file, held_by=held_by
        )
        for (wait_type, resource, data_file, held_by), sessions in groups.most_common()
    )


def resource_of(lock: LockWait, relations: Relations) -> tuple[Resource, int | None]:
    """The thing that is locked, and the number of its data file where it has one."""
    name, data_file = relations.get(lock.relation or 0, (f"relation {lock.relation}", None))
    where = name if data_file is None else f"{name} (data file {data_file})"
    match lock.locktype:
        case "extend":
            return Resource(kind=f"extension of {where}"), data_file
        case "relation":
            return Resource(kind=where), data_file
        case "page":
            return Resource(kind=f"page {lock.page} of {where}"), data_file
        case "tuple":
            return Resource(kind=f"row {lock.page}/{lock.tuple_} of {where}"), data_file
        case "transactionid":
            return Resource(kind="end of transaction", name=lock.transaction), None
        case _:
            return Resource(kind=lock.locktype), None


def _doing(holder: int | None, seen: Mapping[int, str]) -> str:
    if holder is None:
        return ""
    if holder not in seen:
        return "a session outside the workload"
    return seen[holder] or "on CPU or waiting for one"
