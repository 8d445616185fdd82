"""The requests and bytes that a transaction of the captured load needs from volumes. They are counted by object, and by
the kind of process that waits for them.

A capture counts the requests from the server to the operating system. Only a fraction of them reaches the device,
because the page cache answers reads and merges writes. The kernel's counters of the devices show this fraction. The
prediction assumes that the fraction stays the same in other layouts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from storagelab.capture.folder import IDLE, Capture, CapturedObject, IoRow
from storagelab.errors import StoreError
from storagelab.model.engines import ENGINES

Way = Literal["read", "write", "log", "evicted", "background_reads", "background_writes"]
"""Kinds of requests. A session waits for a `read` or a `write`. Commits share `log` writes. Writes of the kind
`evicted` free buffers for pages that are read. No session waits for the `background_` kinds.
"""
SHARE_OF: dict[str, str] = {"evicted": "write", "background_reads": "read", "background_writes": "write"}
"""For some kinds of requests, the fraction that reaches the device is not counted. It is taken from another kind."""
BY_SECOND: tuple[Way, ...] = ("background_reads", "background_writes")
"""The kinds of requests that are counted per second instead of per transaction."""
_LEAST_REQUESTS_PER_S = 1.0
_LEAST_TRANSACTIONS = 20
_CROWDED, _MOSTLY_FOREIGN = 2.0, 0.5
MUCH_MORE = 1.5
"""Devices count somewhat more bytes than a server's processes, because file systems also write their own data. Only if
devices count more than this factor, other programs are assumed to be the reason.
"""
_LEAST_BYTES = 4096


class Amount(NamedTuple):
    """Requests that reach the device, and their bytes. `in_order` is how many of the requests are sequential."""

    requests: float = 0.0
    bytes: float = 0.0
    in_order: float = 0.0

    def times(self, requests: float, bytes_: float | None = None) -> Amount:
        return Amount(
            self.requests * requests, self.bytes * (requests if bytes_ is None else bytes_), self.in_order * requests
        )

    def plus(self, other: Amount) -> Amount:
        return Amount(self.requests + other.requests, self.bytes + other.bytes, self.in_order + other.in_order)


class Need(NamedTuple):
    """The requests of one object to its volume. `amount` is for one transaction or, with background requests, for one
    second at the captured rate. `covered` is the share of the object's pages that were written in the window, or None
    if unknown.
    """

    object: CapturedObject
    way: Way
    amount: Amount
    covered: float | None = None


class Share(NamedTuple):
    """The fraction of a volume's requests that reached the device, and the fraction of their bytes."""

    requests: float
    bytes: float


class LogUse(NamedTuple):
    """How the captured load used the log. `commits`: the fraction of transactions that wrote, and so committed to the
    log, or None if the server does not count them. `writes`: log writes per transaction. `per_s`: transactions a
    second. `busy`: the fraction of the time in which a log write was in progress. `beside`: writes to other files on
    the log's volume for which sessions waited, per transaction.
    """

    commits: float | None = None
    writes: float = 0.0
    per_s: float = 0.0
    busy: float = 0.0
    beside: float = 0.0


@dataclass(frozen=True)
class Demands:
    """What the captured load demands. `per_s`: transactions a second; 1 if they were not counted. `cpu_s`: the CPU time
    of a transaction. `elsewhere_s`: the time of a transaction that was spent neither on I/O nor on a CPU, or None if
    the capture has no times of requests.
    """

    needs: tuple[Need, ...]
    counted: bool
    per_s: float
    sessions: float
    cpu_s: float
    elsewhere_s: float | None
    log: LogUse
    shares: Mapping[tuple[str, str], Share]
    """The fractions that reached the device. The keys are a volume and `read`, `write` or `log`."""
    without_device: tuple[str, ...]
    """The volumes whose devices were not counted. For these, all requests are assumed to reach the device."""


def check_load(capture: Capture, name: str) -> None:
    """Raises StoreError if the capture shows no load that can be predicted. `name` is the capture's name for the
    message.
    """
    manifest = capture.manifest
    asked = sum(row.requests for row in capture.io if row.operation != "sync")
    transactions = manifest.transactions
    idle = transactions is not None and transactions < _LEAST_TRANSACTIONS
    if manifest.seconds <= 0 or idle or asked < _LEAST_REQUESTS_PER_S * manifest.seconds:
        done = "" if transactions is None else f" and ended {transactions} transactions"
        raise StoreError(
            f"{name}: can't say: the server was idle: in {manifest.seconds:g} s it made {asked} requests{done}\n"
            "  Capture again while the load runs that you want to predict."
        )
    if manifest.idle_seconds > max(IDLE * manifest.seconds, manifest.interval_seconds):
        raise StoreError(
            f"{name}: can't say: no session worked for {manifest.idle_seconds:g} of {manifest.seconds:.0f} s, so its "
            "rate is "
            "not the load's\n  Capture again while the load runs all the time."
        )
    machine = manifest.machine
    if machine is not None and machine.crowding >= _CROWDED and machine.foreign_share >= _MOSTLY_FOREIGN:
        raise StoreError(
            f"{name}: can't say: the machine was busy with other work: {machine}\n"
            "  Capture again while it has no other work; clients of the load may run on another machine."
        )


def demands_of(capture: Capture, name: str) -> Demands:
    """The demands of the captured load. Raises StoreError like `check_load`."""
    check_load(capture, name)
    manifest, transactions = capture.manifest, capture.manifest.transactions
    ended = float(transactions) if transactions is not None else manifest.seconds
    per_s = ended / manifest.seconds
    sessions = manifest.connections or 1.0
    cpu_s = (manifest.cpu_seconds or 0.0) / ended
    objects = {one.id: one for one in manifest.objects}
    shares, without = _shares(capture, objects)
    needs = tuple(_needs(capture, objects, shares, ended))
    known_s = _waited_s(capture, objects, ended)
    elsewhere_s = None if known_s is None else max(0.0, sessions / per_s - known_s - cpu_s)
    return Demands(
        needs, transactions is not None, per_s, sessions, cpu_s, elsewhere_s,
        _log_use(capture, objects, needs, ended), shares, without,
    )  # fmt: skip


def _way(row: IoRow, one: CapturedObject) -> Way:
    if row.operation == "read":
        return "read" if row.by == "session" else "background_reads"
    if one.kind == "log":
        return "log"  # whichever process writes the log, sessions that commit wait for it
    return "write" if row.by == "session" else "background_writes"


def _needs(
    capture: Capture, objects: Mapping[str, CapturedObject], shares: Mapping[tuple[str, str], Share], ended: float
) -> Iterable[Need]:
    sums: dict[tuple[str, Way], Amount] = defaultdict(Amount)
    for row in capture.io:
        if row.operation != "sync" and row.object in objects:
            amount = Amount(row.requests, row.bytes, row.sequential_requests or 0)
            key = row.object, _way(row, objects[row.object])
            sums[key] = sums[key].plus(amount)
    page_bytes = ENGINES[capture.manifest.engine].page_bytes
    for (name, way), amount in _with_evictions(sums):
        one = objects[name]
        share = shares[one.volume, SHARE_OF.get(way, way)]
        divisor = capture.manifest.seconds if way in BY_SECOND else ended
        size = one.bytes_at_end or one.bytes_at_start
        covered = amount.bytes / max(size, page_bytes) if size and way == "background_writes" else None
        yield Need(one, way, amount.times(share.requests / divisor, share.bytes / divisor), covered)


def _with_evictions(sums: Mapping[tuple[str, Way], Amount]) -> Iterable[tuple[tuple[str, Way], Amount]]:
    """Splits background writes into two kinds. For each page of the object that is read, one write frees a buffer. The
    number of these writes per transaction does not depend on the rate of transactions. The other writes become fewer
    per transaction if pages change again before they are written.
    """
    for (name, way), amount in sums.items():
        if way != "background_writes" or amount.requests <= 0:
            yield (name, way), amount
            continue
        reads = sum(sums.get((name, of), Amount()).requests for of in ("read", "background_reads"))
        share = min(1.0, reads / amount.requests)
        yield (name, "evicted"), amount.times(share)
        yield (name, way), amount.times(1 - share)


def _shares(
    capture: Capture, objects: Mapping[str, CapturedObject]
) -> tuple[dict[tuple[str, str], Share], tuple[str, ...]]:
    """The fractions of requests that reached the devices of each volume, and the volumes without counted devices.

    All log writes reach the device, because a session waits until its log write is there. A log write also causes the
    flush of its sync, and writes of the file system itself. The log's fraction of these equals its fraction of the
    volume's syncs. The remaining writes of the device belong to the server's other writes.
    """
    asked: dict[tuple[str, str], Amount] = defaultdict(Amount)
    for row in capture.io:
        if row.object in objects:
            one, amount = objects[row.object], Amount(row.requests, row.bytes)
            way = _way(row, one) if row.operation != "sync" else "log syncs" if one.kind == "log" else "syncs"
            key = one.volume, SHARE_OF.get(way, way)
            asked[key] = asked[key].plus(amount)
    reached: dict[tuple[str, str], Amount] = defaultdict(Amount)
    for counts in capture.devices:
        key = counts.volume, counts.operation
        reached[key] = reached[key].plus(Amount(counts.requests, counts.bytes))
    _leave_out_others(capture, reached, asked)
    own = {one.name: Amount(one.own_writes or 0, one.own_write_bytes or 0) for one in capture.manifest.volumes}
    counted = {volume for volume, operation in reached if operation != "sync"}
    shares: dict[tuple[str, str], Share] = {}
    volumes = dict.fromkeys(one.volume for one in objects.values())
    for volume in volumes:
        if volume not in counted:
            shares |= {(volume, way): Share(1.0, 1.0) for way in ("read", "write", "log")}
            continue
        written, log, write = reached[volume, "write"], asked[volume, "log"], asked[volume, "write"]
        of_syncs = reached[volume, "sync"].plus(own.get(volume, Amount()))
        syncs, others = asked[volume, "log syncs"].requests, asked[volume, "syncs"].requests
        logged = log.plus(of_syncs.times(syncs / (syncs + others) if syncs + others else 1.0)) if log.requests else log
        if not write.requests:
            logged = written
        logged = Amount(min(logged.requests, written.requests), min(logged.bytes, written.bytes))
        shares[volume, "read"] = _share(reached[volume, "read"], asked[volume, "read"])
        shares[volume, "log"] = _share(logged, log)
        shares[volume, "write"] = _share(written.plus(logged.times(-1.0)), write)
    return shares, tuple(volume for volume in volumes if volume not in counted)


def bytes_of_server(capture: Capture) -> dict[str, float | None]:
    """The largest number of bytes that the server can have read from devices, and can have written to them. Returns
    None if it is unknown. For reads, the kernel counts the bytes of processes. For writes, the kernel counts whole
    folios. So the requested bytes are used for writes, plus a page for each write.
    """
    own = sum(one.own_write_bytes or 0 for one in capture.manifest.volumes)
    asked = sum(row.bytes + row.requests * _LEAST_BYTES for row in capture.io if row.operation == "write")
    return {"read": capture.manifest.storage_read_bytes, "write": asked + own}


def _leave_out_others(
    capture: Capture, reached: dict[tuple[str, str], Amount], asked: Mapping[tuple[str, str], Amount]
) -> None:
    """Subtracts the reads and writes of other programs from those that reached the devices. Does so only if they are
    many compared with the server's bytes. The server's bytes are distributed over the volumes like the requested bytes.
    The requests on a volume are at most as many as were requested, and have at least the size of a page.
    """
    for operation, mine in bytes_of_server(capture).items():
        ways = ("read",) if operation == "read" else ("write", "log")
        of = {
            key: [asked[key[0], way] for way in ways if (key[0], way) in asked]
            for key in reached
            if key[1] == operation
        }
        whole = sum(one.bytes for some in of.values() for one in some) or 1.0
        if mine is None or sum(reached[key].bytes for key in of) <= MUCH_MORE * mine:
            continue
        for key, some in of.items():
            bytes_ = min(reached[key].bytes, mine * sum(one.bytes for one in some) / whole)
            most = min(sum(one.requests for one in some), bytes_ / _LEAST_BYTES)
            reached[key] = Amount(min(reached[key].requests, most), bytes_)


def _share(reached: Amount, asked: Amount) -> Share:
    if asked.requests <= 0:
        return Share(1.0, 1.0)
    return Share(reached.requests / asked.requests, reached.bytes / asked.bytes if asked.bytes else 1.0)


def _waited_s(capture: Capture, objects: Mapping[str, CapturedObject], ended: float) -> float | None:
    """The seconds that a session spent on I/O for a transaction. Returns None if the capture has no times of requests
    to tables. A commit waits for its log write. If commits share log writes, it also waits for the log write before it:
    on average for half of its time.
    """
    log = _log_rows(capture, objects)
    own = [row for row in capture.io if row.by == "session" and not _of_log(row, objects)]
    if own and all(row.seconds is None for row in own if row.operation != "sync"):
        return None
    own_s = sum(row.seconds or 0.0 for row in own)
    flushes = sum(row.requests for row in log if row.operation == "write")
    if not flushes:
        return own_s / ended
    per_transaction = flushes / ended
    shared = 1.5 if per_transaction < 1 else 1.0
    flush_s = sum(row.seconds or 0.0 for row in log) / flushes
    return own_s / ended + flush_s * max(1.0, per_transaction) * shared


def _log_use(capture: Capture, objects: Mapping[str, CapturedObject], needs: Iterable[Need], ended: float) -> LogUse:
    manifest, log = capture.manifest, _log_rows(capture, objects)
    writes = sum(row.requests for row in log if row.operation == "write") / ended
    busy = min(1.0, sum(row.seconds or 0.0 for row in log) / manifest.seconds)
    commits = manifest.write_transactions
    volumes = {objects[row.object].volume for row in log}
    beside = sum(need.amount.requests for need in needs if need.way == "write" and need.object.volume in volumes)
    return LogUse(None if commits is None else commits / ended, writes, ended / manifest.seconds, busy, beside)


def _log_rows(capture: Capture, objects: Mapping[str, CapturedObject]) -> list[IoRow]:
    """The rows of the capture with writes and syncs of the log."""
    return [row for row in capture.io if row.operation != "read" and _of_log(row, objects)]


def _of_log(row: IoRow, objects: Mapping[str, CapturedObject]) -> bool:
    return row.object in objects and objects[row.object].kind == "log"


def grown(covered: float | None, times: float) -> float:
    """The factor by which background writes grow if the transactions a second grow by the factor `times`.

    If a page changes several times before it is written, it is written only once. If all pages change equally often,
    the fraction of pages that is written is `covered` = 1 - exp(-changes per page). If this fraction is unknown, the
    writes are assumed to grow like the changes.
    """
    if covered is None or covered <= 0:
        return times
    if covered >= 1:
        return 1.0 if times > 0 else 0.0
    return (1 - math.exp(math.log1p(-covered) * times)) / covered
