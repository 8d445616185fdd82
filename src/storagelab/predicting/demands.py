"""The requests and bytes that a transaction of the captured load needs from volumes, by object and by the kind of
process that waits for them.

A capture counts requests from the server to the operating system. Only a fraction of them reaches the device: the page
cache answers reads and merges writes. The kernel's counters of the devices show this fraction. It is assumed to stay
the same in other layouts.
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
"""Reads and writes that a session waits for, log writes that commits share, background writes that free buffers for
pages that are read, and all other requests for which no session waits."""
SHARE_OF: dict[str, str] = {"evicted": "write", "background_reads": "read", "background_writes": "write"}
"""For these kinds of requests, the fraction that reaches the device is taken from another kind."""
BY_SECOND: tuple[Way, ...] = ("background_reads", "background_writes")
"""The kinds of requests that are counted per second, not per transaction."""
_LEAST_REQUESTS_PER_S = 1.0
_LEAST_TRANSACTIONS = 20
_CROWDED, _MOSTLY_FOREIGN = 2.0, 0.5
MUCH_MORE = 1.5
"""Devices count somewhat more bytes than a server's processes, because file systems write bytes of their own."""
_LEAST_BYTES = 4096


class Amount(NamedTuple):
    """Requests that reach the device, and their bytes; `in_order`: the number of sequential requests among them."""

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
    """The requests of one object to its volume. `amount` is for one transaction; for background writes, for one second
    at the captured rate. `covered` is the share of the object's pages that were written in the window; None if unknown.
    """

    object: CapturedObject
    way: Way
    amount: Amount
    covered: float | None = None


class Share(NamedTuple):
    """The fractions of a volume's requests and of their bytes that reached the device."""

    requests: float
    bytes: float


class LogUse(NamedTuple):
    """The use of the log in the capture: `commits` and log `writes` per transaction, `per_s` transactions a second.
    `busy`: the fraction of time in which a log write was in progress. `beside`: other writes per transaction to the
    log's volume for which sessions waited. `commits` is None if writing transactions were not counted.
    """

    commits: float | None = None
    writes: float = 0.0
    per_s: float = 0.0
    busy: float = 0.0
    beside: float = 0.0


@dataclass(frozen=True)
class Demands:
    """`per_s`: transactions a second when captured, or 1 if they were not counted. `elsewhere_s`: the part of a
    transaction's time that was spent neither on I/O nor on a CPU; None if the capture has no times of requests.
    """

    needs: tuple[Need, ...]
    counted: bool
    per_s: float
    sessions: float
    cpu_s: float
    elsewhere_s: float | None
    log: LogUse
    shares: Mapping[tuple[str, str], Share]
    """By volume, then by `read`, `write` or `log`."""
    without_device: tuple[str, ...]
    """The volumes whose devices were not counted. All requests are assumed to reach these devices."""


def check_load(capture: Capture, name: str) -> None:
    """Raises StoreError, which begins with `name`, if the capture shows no load that could be predicted."""
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
            "  Capture again while it has none; clients of the load may run on another machine."
        )


def demands_of(capture: Capture, name: str) -> Demands:
    """What the load needs. Raises StoreError as `check_load` does."""
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
        return "log"  # whoever writes it: a session that commits does so itself, or waits for who does
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
    """Splits background writes. One write frees a buffer for each page of the object that is read; the number of these
    writes per transaction does not depend on the rate of transactions. The other writes become fewer if pages change
    again before they are written.
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
    """The fractions of requests that reached each volume's devices. All log writes reach the device, because a session
    waits until its log write is there. With a log write come the flush of its sync and the file system's own writes:
    the log's fraction of these is its fraction of the volume's syncs. All remaining device writes belong to the other
    writes.
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
    """The most bytes that the server can have read from devices and written to them; None if unknown. The kernel counts
    the bytes that processes read. For bytes that processes write, it counts whole folios, so the requested bytes are
    used instead, plus a page for each write.
    """
    own = sum(one.own_write_bytes or 0 for one in capture.manifest.volumes)
    asked = sum(row.bytes + row.requests * _LEAST_BYTES for row in capture.io if row.operation == "write")
    return {"read": capture.manifest.storage_read_bytes, "write": asked + own}


def _leave_out_others(
    capture: Capture, reached: dict[tuple[str, str], Amount], asked: Mapping[tuple[str, str], Amount]
) -> None:
    """Subtracts other programs' reads and writes from the requests at the devices, if they are many in comparison with
    the server's bytes. Each volume gets the fraction of the server's bytes that it has of the requested bytes. A
    request has at least one page, and must have been requested.
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
    """The seconds that a transaction's session spent on I/O; None if the capture lacks the times of tables. A commit
    waits for its log write and, if commits share log writes, on average for half of the log write before it.
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
    """The lines of the capture with the log's writes and syncs."""
    return [row for row in capture.io if row.operation != "read" and _of_log(row, objects)]


def _of_log(row: IoRow, objects: Mapping[str, CapturedObject]) -> bool:
    return row.object in objects and objects[row.object].kind == "log"


def grown(covered: float | None, times: float) -> float:
    """The factor by which background writes grow if there are `times` as many transactions a second. A page that
    changes several times before it is written is written once. If all pages change equally often, a fraction `covered`
    of the pages is written, where 1 - exp(-changes per page) = `covered`. If this fraction is unknown, writes grow with
    changes.
    """
    if covered is None or covered <= 0:
        return times
    if covered >= 1:
        return 1.0 if times > 0 else 0.0
    return (1 - math.exp(math.log1p(-covered) * times)) / covered
