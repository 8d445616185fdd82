"""Takes a capture: watches a server for a while, and writes what it does into a folder, interval by interval."""

from __future__ import annotations

import datetime
import errno
import math
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

from storagelab.capture import folder
from storagelab.capture.attributing import Attribution, Files, unknown_files
from storagelab.capture.file_systems import FileSystems, OwnWrites, told
from storagelab.capture.iolog import Iolog
from storagelab.capture.load_changes import load_change
from storagelab.capture.model import IDLE, CapturedObject, Change, DeviceRow, IoRow, Machine, Manifest, Sources, Volume
from storagelab.capture.requests import TRACED, Tracer
from storagelab.capture.server import (
    ALL_TABLES,
    LOG,
    OTHER_FILES,
    SYSTEM_SCHEMAS,
    TEMPORARY,
    UNKNOWN_FILES,
    Count,
    Counters,
    CountKey,
    ServerGone,
    Thing,
    Watched,
    used_by,
)
from storagelab.capture.tracefs import NoTracing
from storagelab.capture.waits import Waits, log_files
from storagelab.errors import StoragelabError
from storagelab.machine import processes
from storagelab.machine.devices import DeviceCounters, difference
from storagelab.machine.disks import block_devices_of, mount_of, mounts_here
from storagelab.version import __version__
from storagelab.words import numbers

LOOK_S = 0.5
"""Between two looks at the rings, which must not fill."""
_HARDLY = 0.05
"""A stretch is idle if so small a share of the mean transactions ended in it."""
UNNAMED = {ALL_TABLES, LOG, TEMPORARY, OTHER_FILES}
_DEVICE_COUNTS = (("read", "reads", "read_bytes", "read_time_s"), ("write", "writes", "write_bytes", "write_time_s"))


class Wanted(NamedTuple):
    """What is asked of a capture."""

    seconds: float
    interval_s: float = 1.0
    requests: bool = False
    trace: bool = True


Progress = Callable[[float, float], None]
"""(seconds gone, requests per second in the last interval)"""


def tracer_of(watched: Watched, notes: list[str], volumes: Iterable[Volume]) -> Tracer | None:
    """The kernel's trace of the server's requests; None, with a note of what is missing then, if there can be none."""
    missing = "So writes are not known by table, and requests in order are not known."
    if not watched.local:
        notes.append(f"The server is on another machine: the kernel's trace points can't be used. {missing}")
        return None
    filesystems = {volume.filesystem or "" for volume in volumes}
    try:
        tracer = Tracer(watched.threads, filesystems & set(TRACED), log_files(watched))
    except NoTracing as error:
        notes.append(f"No trace by the kernel: {error}. {missing}")
        return None
    if tracer.missing:
        notes.append(f"This kernel lacks the trace points {', '.join(tracer.missing)}: such requests are missing.")
    if untraced := sorted(filesystems - set(TRACED)):
        notes.append(f"Files on {', '.join(name or 'an unknown file system' for name in untraced)} are not traced.")
    return tracer


def volumes_of(watched: Watched) -> tuple[Volume, ...]:
    """The file systems under the server's folders, each once, by the first folder on it."""
    if not watched.local:
        return tuple(Volume(name=name, path=str(path)) for name, path in list(watched.folders().items())[:1])
    mounts, found, seen = mounts_here(), [], set()
    for name, path in watched.folders().items():
        try:
            device = path.resolve().stat().st_dev
        except OSError:
            continue
        if device in seen:
            continue
        seen.add(device)
        mount = mount_of(path.resolve(), mounts)
        devices = block_devices_of(mount) if mount else ()
        found.append(
            Volume(
                name=name, path=str(path.resolve()),
                device=devices[0] if devices else None, filesystem=mount.filesystem if mount else None,
            )
        )  # fmt: skip
    return tuple(found)


class Taking:
    """A capture that goes on."""

    def __init__(self, watched: Watched, out: Path, wanted: Wanted) -> None:
        self.watched, self.out, self.wanted = watched, out, wanted
        self.notes, self.system = list(watched.notes), SYSTEM_SCHEMAS[watched.engine]
        self.volumes = volumes_of(watched)
        self._places = {Path(volume.path).stat().st_dev: volume.name for volume in self.volumes if volume.device}
        self.tracer = tracer_of(watched, self.notes, self.volumes) if wanted.trace else None
        if not wanted.trace:
            self.notes.append("The kernel's trace points were not asked for: writes are not known by table.")
        if wanted.requests and self.tracer is None:
            raise StoragelabError(
                f"--requests: the requests can't be traced here\n  {self.notes[-1]} Leave --requests out, or run as "
                "root on the server's machine."
            )
        self.file_systems = self._file_systems() if self.tracer is not None else None
        self.devices = DeviceCounters({volume.name: Path(volume.path) for volume in self.volumes if volume.device})
        self.files = Files(watched) if self.tracer is not None else None
        self.things_at_start = self.files.things if self.files is not None else watched.things()
        self.ever: dict[str, Thing] = dict(self.things_at_start)
        self.changes: list[Change] = []
        self.working: list[int] = []
        self.ended: list[int] = []
        self.runnable: list[int] = []
        self.totals: list[float] = []
        self.attribution: Attribution | None = None
        self.iolog: Iolog | None = None
        self.foreign = self.attributed = 0
        self.seen: set[str] = set()
        self.rows: list[IoRow] = []
        """What no interval has written yet."""
        self.written: dict[str, int] = {}
        self.own_writes: dict[str, OwnWrites] = {}

    def _file_systems(self) -> FileSystems | None:
        try:
            return FileSystems({one.name: one.device for one in self.volumes if one.device is not None})
        except NoTracing as error:
            self.notes.append(f"What file systems write on their own account is not known: {error}.")
            return None

    def run(self, *, on: bool) -> None:
        """Goes on with the kernel's traces, or rests."""
        for traced in (self.tracer, self.file_systems):
            if traced is not None:
                traced.run(on=on)

    def begin(self) -> None:
        self.used_before, self.first = self._used(), self._counters()
        self.used, self.used_s = self.used_before, math.inf
        self.last = self.first
        self.devices_before = self.devices.read()
        self.started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self.tracer is not None:
            self.tracer.drain()
        if self.file_systems is not None:
            self.file_systems.begin()
        self.begin_ns = time.monotonic_ns()
        if self.tracer is not None and self.files is not None:
            how = self.watched, self.files, self.begin_ns, self.wanted.interval_s
            self.attribution, self.waits = Attribution(*how), Waits(*how)
        folder.begin(self.out, self.manifest(0.0, complete=False))
        if self.wanted.requests:
            if self.iolog is not None:
                self.iolog.end()
            self.iolog = Iolog((self.out / folder.REQUESTS).open("wb"), self.watched, self.begin_ns)

    @property
    def gone_s(self) -> float:
        return (time.monotonic_ns() - self.begin_ns) / 1e9

    def _counters(self) -> Counters:
        return self.watched.counters(objects=self.tracer is None)

    def look(self) -> None:
        """Takes what the rings hold."""
        self.runnable.append(processes.run_queue())
        if self.tracer is None or self.attribution is None or self.files is None:
            return
        requests = self.tracer.drain()
        found = self.attribution.of(requests)
        waits = list(self.waits.of(requests, self.tracer.ended))
        self.foreign += found.foreign
        self.attributed += len(found.requests)
        if self.iolog is not None:
            self.iolog.add(found.requests, [found.files[place] for place in found.which])
        if self.files.stale or (self.attribution.waiting and self.files.may_renew):
            self._note_changes(self.files.renew(), self.files.things)
        self.ever = found.things | self.ever
        self.rows += [*found.rows, *self.attribution.known_by_now(), *waits]

    def _note_changes(self, before: dict[str, Thing], after: dict[str, Thing]) -> None:
        for name, thing in before.items():
            now = after.get(name)
            if now is None and thing.kind in ("table", "index"):
                self.changes.append(Change(second=round(self.gone_s, 1), what=f"{name} was dropped."))
            elif now is not None and now.files != thing.files and thing.kind in ("table", "index"):
                what = f"{name} was rewritten: its files are new, and its figures are of both."
                self.changes.append(Change(second=round(self.gone_s, 1), what=what))
        self.ever |= after

    def interval(self, second: float) -> float:
        """Writes the rows of an interval; returns the requests per second in it."""
        counters = self._counters()
        self.working.append(counters.working)
        self.ended.append(_since(self.last.transactions, counters.transactions) or 0)
        if self.tracer is None:
            self.rows = self._counted(second, counters)
        rows, self.rows = [self._timed(row, counters) for row in merged(self.rows)], []
        self.last, self.used, self.used_s = counters, self._used(), self.gone_s
        now = self.devices.read()
        devices = list(_device_rows(second, self.volumes, difference(self.devices_before, now)))
        self.devices_before = now
        for one in devices:
            if one.operation == "write":
                self.written[one.volume] = self.written.get(one.volume, 0) + one.requests
        if self.file_systems is not None:
            self.file_systems.drain()
            self.own_writes = dict(self.file_systems.counts)
        new = {row.object for row in rows} - self.seen
        self.seen |= new
        folder.append(self.out, rows, devices)
        if new:
            folder.write_manifest(self.out, self.manifest(self.gone_s, complete=False))
        asked = sum(row.requests for row in rows)
        self.totals.append(sum(row.requests for row in rows if row.by in ("session", "log") and self._of_load(row)))
        return asked / self.wanted.interval_s

    def _of_load(self, row: IoRow) -> bool:
        """Whether the load asked for it, and not this capture, which reads catalogs."""
        thing = self.ever.get(row.object)
        return row.object not in (OTHER_FILES, UNKNOWN_FILES) and (thing is None or thing.schema not in self.system)

    def _counted(self, second: float, now: Counters) -> list[IoRow]:
        """The rows by the server's own counters."""
        rows = []
        for (name, operation, by), count in now.counts.items():
            before = self.last.counts.get((name, operation, by), Count(0, 0, 0.0))
            size = max(0, count.bytes - before.bytes)
            requests = (
                (count.requests or 0) - (before.requests or 0) if count.requests is not None else -(-size // 8192)
            )
            if requests > 0:
                seconds = None if count.seconds is None else max(0.0, count.seconds - (before.seconds or 0.0))
                row = IoRow(second, name, operation, by, requests, size, None, seconds)  # type: ignore[arg-type]
                rows.append(row)
                if name not in self.ever:
                    kind = name if name in (LOG, TEMPORARY) else "other"
                    place = self.watched.folders().get(kind, Path(self.volumes[0].path))
                    self.ever[name] = Thing(name, None, name, kind, place)
        # The rows, without the reads of all tables together that those of single tables count already
        named = sum(row.bytes for row in rows if row.operation == "read" and row.object not in UNNAMED)
        found = []
        for row in rows:
            if row.object != ALL_TABLES or row.operation != "read":
                found.append(row)
                continue
            left = max(0, row.bytes - named)
            named -= row.bytes - left
            if left:
                found.append(row._replace(requests=max(1, row.requests * left // row.bytes), bytes=left))
        return found

    def _timed(self, row: IoRow, now: Counters) -> IoRow:
        """The row with its time, by the mean time of such a request that the server counted in this interval."""
        if row.seconds is not None:
            return row
        thing = self.ever.get(row.object)
        key: CountKey = (LOG if thing and thing.kind == "log" else "data", row.operation, row.by)
        (requests, seconds), (requests0, seconds0) = now.times.get(key, (0, 0.0)), self.last.times.get(key, (0, 0.0))
        if requests <= requests0:
            return row
        return row._replace(seconds=row.requests * (seconds - seconds0) / (requests - requests0))

    def end(self) -> Manifest:
        seconds = self.gone_s
        try:
            self.look()
            if self.files is None:
                self._note_changes(self.things_at_start, self.watched.things())
            else:
                self._note_changes(self.files.renew(), self.files.things)
        except ServerGone:
            self.notes.append(f"The server was gone after {numbers.duration(seconds)}: the window ends there.")
        if self.attribution is not None:
            self.rows += self.attribution.known_by_now()
            # Tables that were made and dropped within the window.
            self.rows += [row._replace(object=UNKNOWN_FILES) for _, row in self.attribution.waiting]
        rows = [row for row in self.rows if row.second < seconds]
        if any(row.object == UNKNOWN_FILES for row in rows):
            self.ever.setdefault(UNKNOWN_FILES, unknown_files(self.volumes[0].path))
        folder.append(self.out, merged(rows), ())
        self.seen |= {row.object for row in rows}
        if self.iolog is not None:
            self.iolog.end()
        if (change := load_change(self.totals)) is not None:
            begin = change.interval * self.wanted.interval_s
            per_s = [numbers.round_figure(rate / self.wanted.interval_s) for rate in (change.before, change.after)]
            what = f"The load changed: {per_s[0]} requests/s before, {per_s[1]} requests/s after."
            self.changes.append(Change(second=begin, what=what))
        if not sum(self.totals):
            self.notes.append("The server was idle: no session read or wrote a table or the log.")
        elif (idle_s := self._idle_s()) > IDLE * seconds:
            self.notes.append(f"No session worked for {numbers.duration(idle_s)} of the window.")
        if self.tracer is not None:
            self._note_losses(self.tracer)
        self.notes += [told(name, own, self.written.get(name, 0)) for name, own in self.own_writes.items()
                       if own.flushes or own.requests]  # fmt: skip
        manifest = self.manifest(seconds, complete=True)
        folder.write_manifest(self.out, manifest)
        return manifest

    def _note_losses(self, tracer: Tracer) -> None:
        if tracer.lost:
            share = tracer.lost / (tracer.lost + self.attributed + self.foreign)
            self.notes.append(
                f"{numbers.percent(share)} of the trace was lost, because this machine was too busy to read it."
            )

    def manifest(self, seconds: float, *, complete: bool) -> Manifest:
        counters, used = self.last, processes.cpu_time_between(self.used_before, self.used)
        transactions = _since(self.first.transactions, counters.transactions)
        writing = _since(self.first.write_transactions, counters.write_transactions)
        if transactions is not None and writing is not None:
            writing = min(writing, transactions)
        now = self.files.things if self.files is not None else self.things_at_start
        return Manifest(
            storagelab=__version__, engine=self.watched.engine,  # type: ignore[arg-type]
            server_version=self.watched.version,
            started_at=self.started_at, seconds=seconds, interval_seconds=self.wanted.interval_s,
            connections=sum(self.working) / len(self.working) if self.working else None, transactions=transactions,
            unit=counters.unit, write_transactions=writing,
            cpu_seconds=used.get("server_s"), machine=self._machine(used), idle_seconds=self._idle_s(),
            storage_read_bytes=max(0, int(used["read_bytes"])) if "read_bytes" in used else None,
            sources=Sources(views=self.watched.views, trace=self.tracer.points if self.tracer is not None else None),
            volumes=tuple(self._counted_volumes()), objects=tuple(self._objects(now)),
            changes=tuple(self.changes), notes=tuple(self.notes),
            complete=complete,
        )  # fmt: skip

    def _idle_s(self) -> float:
        """The longest stretch in which no session worked when looked at, and hardly a transaction ended."""
        few = _HARDLY * statistics.fmean(self.ended or [0])
        longest = stretch = 0
        for working, ended in zip(self.working, self.ended, strict=True):
            stretch = 0 if working or ended > few else stretch + 1
            longest = max(longest, stretch)
        return longest * self.wanted.interval_s

    def _used(self) -> dict[str, float]:
        """What the machine's CPUs did so far, and what the server's processes used; nothing that can't be seen."""
        return {**processes.read_cpu_time(None), **used_by(self.watched.processes())}

    def _machine(self, used: dict[str, float]) -> Machine | None:
        if "others_s" not in used or not self.runnable:
            return None
        means = {f"{who}_cpus": used[f"{who}_s"] / self.used_s for who in ("busy", "others", "steal")}
        return Machine(cpus=os.cpu_count() or 1, run_queue=statistics.fmean(self.runnable), **means)

    def _counted_volumes(self) -> Iterable[Volume]:
        for volume in self.volumes:
            if (own := self.own_writes.get(volume.name)) is None:
                yield volume
            else:
                counts = {"own_writes": own.requests, "own_write_bytes": own.bytes, "flush_writes": own.flushes}
                yield volume.model_copy(update=counts)

    def _objects(self, now: dict[str, Thing]) -> Iterable[CapturedObject]:
        for name, thing in sorted(self.ever.items()):
            before, after = self.things_at_start.get(name), now.get(name)
            if name in self.seen or (
                before is not None and thing.kind in ("table", "index") and thing.schema not in self.system
            ):
                yield CapturedObject(
                    id=name, schema=thing.schema, name=thing.name, kind=thing.kind,  # type: ignore[arg-type]
                    volume=self._volume(thing), bytes_at_start=before.bytes if before else None,
                    bytes_at_end=after.bytes if after else None,
                )  # fmt: skip

    def _volume(self, thing: Thing) -> str:
        try:
            return self._places[thing.folder.resolve().stat().st_dev]
        except (OSError, KeyError):
            return self.volumes[0].name

    def close(self) -> None:
        if self.tracer is not None:
            self.tracer.close()
        if self.file_systems is not None:
            self.file_systems.close()
        self.devices.close()


def take(watched: Watched, out: Path, wanted: Wanted, progress: Progress = lambda *_: None) -> Manifest:
    """Watches a server and writes a capture; Ctrl-C ends the window early. Raises StoragelabError."""
    taking = Taking(watched, out, wanted)
    try:
        taking.begin()
        try:
            watch(taking, progress)
        except KeyboardInterrupt:
            taking.notes.append("The window was ended early, by hand.")
        except ServerGone:
            pass  # what was seen is kept; the end says so
        return taking.end()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        if folder.is_capture(out):
            kept = "What was captured until then is kept: make room, and capture again into another folder."
        else:
            shutil.rmtree(out, ignore_errors=True)  # it was empty, or not there
            kept = "Make room, or choose another folder with --output."
        raise StoragelabError(f"{out}: can't be written: {error.strerror}\n  {kept}") from None
    finally:
        taking.close()


def watch(taking: Taking, progress: Progress = lambda *_: None) -> None:
    """Watches until the window ends."""
    number, wanted = 0, taking.wanted
    while number * wanted.interval_s < wanted.seconds - 1e-9:
        ends = min((number + 1) * wanted.interval_s, wanted.seconds)
        while (left := ends - taking.gone_s) > 0:
            time.sleep(min(left, LOOK_S))
            taking.look()
        asked_per_s = taking.interval(number * wanted.interval_s)
        number = max(number + 1, int(taking.gone_s / wanted.interval_s))
        progress(taking.gone_s, asked_per_s)


def merged(rows: Iterable[IoRow]) -> list[IoRow]:
    """One row for each second, object, operation and kind of process: an object has several files."""
    found: dict[tuple[float, str, str, str], IoRow] = {}
    for one in rows:
        row, key = one, (one.second, one.object, one.operation, one.by)
        if (other := found.get(key)) is not None:
            row = row._replace(
                requests=row.requests + other.requests, bytes=row.bytes + other.bytes,
                sequential_requests=_sum(row.sequential_requests, other.sequential_requests),
                seconds=_sum(row.seconds, other.seconds),
            )  # fmt: skip
        found[key] = row
    return sorted(found.values())


def _since(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else max(0, now - before)


_Number = TypeVar("_Number", int, float)


def _sum(one: _Number | None, other: _Number | None) -> _Number | None:
    return one if other is None else other if one is None else one + other


def _device_rows(second: float, volumes: Iterable[Volume], counted: dict[str, float]) -> Iterable[DeviceRow]:
    """What reached the devices: of the file system itself where it shares a disk with others."""
    for volume in volumes:
        whole = f"volume.{volume.name}."
        for operation, requests, size, seconds in _DEVICE_COUNTS:
            own = f"{whole}file_system_"
            prefix = own if own + requests in counted else whole
            if asked := counted.get(prefix + requests):
                time_s = counted.get(whole + seconds) if prefix == whole else None
                sizes = int(counted[prefix + size])
                yield DeviceRow(second, volume.name, operation, int(asked), sizes, time_s)  # type: ignore[arg-type]
        if flushes := counted.get(whole + "flushes"):
            yield DeviceRow(second, volume.name, "sync", int(flushes), 0, counted.get(whole + "flush_time_s"))
