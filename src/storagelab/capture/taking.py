"""Takes a capture: records a server's I/O for some time. Writes it to a folder after each interval."""

from __future__ import annotations

import contextlib
import datetime
import errno
import itertools
import math
import os
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from storagelab import __version__
from storagelab.capture import folder
from storagelab.capture.attribution import Attribution, Files, Iolog, load_change, log_files, unknown_files
from storagelab.capture.folder import Change, Counters, IoRow, Manifest, Thing, Volume, Watched
from storagelab.capture.tracing import TRACED, FileSystems, NoTracing, OwnWrites, Tracer
from storagelab.errors import StoragelabError
from storagelab.machine import processes
from storagelab.machine.counts import DeviceCounters, difference
from storagelab.machine.disks import block_devices_of, mount_of, mounts_here
from storagelab.model.engines import ENGINES
from storagelab.words import numbers

LOOK_S = 0.5
"""The time between two readings of the rings, in seconds. It is short, so that the rings do not become full."""
_HARDLY = 0.05
"""If fewer transactions than this share of the mean ended in an interval, the server may have been idle."""
_OTHERS = frozenset({folder.OTHER_FILES, folder.UNKNOWN_FILES})
_UNNAMED = {folder.ALL_TABLES, folder.LOG, folder.TEMPORARY, folder.OTHER_FILES}
_READ_AND_WRITE: tuple[folder.Operation, ...] = ("read", "write")


class Window(NamedTuple):
    """The options of a capture: its length, the length of an interval, whether to store requests, whether to trace."""

    seconds: float
    interval_s: float = 1.0
    requests: bool = False
    trace: bool = True


Progress = Callable[[float, float], None]
"""Is called with the seconds that have passed, and the requests per second in the last interval."""


def tracer_of(watched: Watched, notes: list[str], volumes: Iterable[Volume]) -> Tracer | None:
    """The kernel's trace of the server's requests. If tracing is impossible, None, and a note says what is missing."""
    missing = "So the writes of single tables and the order of requests are not known."
    if not watched.local:
        notes.append(f"The server is on another machine, so the kernel's trace points can't be used. {missing}")
        return None
    filesystems = {volume.filesystem or "" for volume in volumes}
    try:
        tracer = Tracer(watched.threads, filesystems & set(TRACED), log_files(watched))
    except NoTracing as error:
        notes.append(f"The kernel's trace is not possible: {error}. {missing}")
        return None
    if tracer.missing:
        notes.append(f"This kernel lacks the trace points {', '.join(tracer.missing)}, so such requests are missing.")
    if untraced := sorted(filesystems - set(TRACED)):
        notes.append(f"Files on {', '.join(name or 'an unknown file system' for name in untraced)} are not traced.")
    return tracer


def volumes_of(watched: Watched) -> tuple[Volume, ...]:
    """The file systems that have the server's folders, each once. A file system is named after the first
    folder on it.
    """
    if not watched.local:
        return tuple(Volume(name=name, path=str(path)) for name, path in list(watched.folders().items())[:1])
    mounts, found = mounts_here(), dict[int, Volume]()
    for name, path in watched.folders().items():
        place = path.resolve()
        with contextlib.suppress(OSError):
            if (number := place.stat().st_dev) not in found:
                mount = mount_of(place, mounts)
                device = next(iter(block_devices_of(mount) if mount else ()), None)
                filesystem = mount.filesystem if mount else None
                found[number] = Volume(name=name, path=str(place), device=device, filesystem=filesystem)
    return tuple(found.values())


class Taking:
    """A capture that is in progress."""

    def __init__(self, watched: Watched, out: Path, window: Window) -> None:
        self.watched, self.out, self.window = watched, out, window
        self.notes, self.system = list(watched.notes), ENGINES[watched.engine].own_schemas
        self.volumes = volumes_of(watched)
        self._places = {Path(volume.path).stat().st_dev: volume.name for volume in self.volumes if volume.device}
        self.tracer = tracer_of(watched, self.notes, self.volumes) if window.trace else None
        if not window.trace:
            self.notes.append("Tracing was switched off, so the writes of single tables are not known.")
        if window.requests and self.tracer is None:
            raise StoragelabError(
                f"--requests: the requests can't be traced here\n  {self.notes[-1]} Leave --requests out, or run as "
                "root on the server's machine."
            )
        self.file_systems: FileSystems | None = None
        if self.tracer is not None:
            try:
                self.file_systems = FileSystems({one.name: one.device for one in self.volumes if one.device})
            except NoTracing as error:
                self.notes.append(f"The writes of the file systems themselves are not known: {error}.")
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
        self.traced = 0
        """The number of requests that were traced."""
        self.seen: set[str] = set()
        self.rows: list[IoRow] = []
        """The rows that are not written yet."""
        self.written = Counter[str]()
        """The number of writes at the device of each volume."""

    @property
    def own_writes(self) -> Mapping[str, OwnWrites]:
        return self.file_systems.counts if self.file_systems is not None else {}

    def run(self, *, on: bool) -> None:
        """Continues the kernel's traces (`on`), or pauses them."""
        for traces in filter(None, (self.tracer, self.file_systems)):
            traces.run(on=on)

    def begin(self) -> None:
        self.used_before = self.used = self._used()
        self.first = self.last = self._counters()
        self.used_s = math.inf
        self.devices_before = self.devices.read()
        self.started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self.tracer is not None:
            self.tracer.drain()
        if self.file_systems is not None:
            self.file_systems.begin()
        self.begin_ns = time.monotonic_ns()
        if self.files is not None:
            self.attribution = Attribution(self.watched, self.files, self.begin_ns, self.window.interval_s)
        folder.begin(self.out, self.manifest(0.0, complete=False))
        if self.window.requests:
            if self.iolog is not None:  # the log of the previous period
                self.iolog.end()
            self.iolog = Iolog((self.out / folder.REQUESTS).open("wb"), self.watched, self.begin_ns)

    @property
    def gone_s(self) -> float:
        return (time.monotonic_ns() - self.begin_ns) / 1e9

    def _counters(self) -> Counters:
        return self.watched.counters(objects=self.tracer is None)

    def look(self) -> None:
        """Reads the records from the rings, and turns them into rows."""
        self.runnable.append(processes.run_queue())
        if self.tracer is None or self.attribution is None or self.files is None:
            return
        requests = self.tracer.drain()
        found = self.attribution.of(requests)
        times = list(self.attribution.times(requests, self.tracer.ended))
        self.traced += len(requests)
        if self.iolog is not None:
            self.iolog.add(found.requests, [found.files[place] for place in found.which])
        if self.files.stale or (self.attribution.waiting and self.files.may_renew):
            self._note_changes(self.files.renew(), self.files.things)
        self.ever = found.things | self.ever
        self.rows += [*found.rows, *self.attribution.known_by_now(), *times]

    def _note_changes(self, before: dict[str, Thing], after: dict[str, Thing]) -> None:
        for name, thing in before.items():
            now = after.get(name)
            if thing.kind in ("table", "index") and (now is None or now.files != thing.files):
                what = "rewritten: its figures are those of its old and its new files" if now else "dropped"
                self.changes.append(Change(second=round(self.gone_s, 1), what=f"{name} was {what}."))
        self.ever |= after

    def interval(self, second: float) -> float:
        """Ends an interval, and writes its rows. Returns the requests per second in the interval."""
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
        self.written.update({one.volume: one.requests for one in devices if one.operation == "write"})
        if self.file_systems is not None:
            self.file_systems.drain()
        folder.append(self.out, rows, devices)
        if new := {row.object for row in rows} - self.seen:
            self.seen |= new
            folder.write_manifest(self.out, self.manifest(self.gone_s, complete=False))
        # The requests of the load, without those that this capture made to the server's catalogs.
        others = _OTHERS.union(name for name, thing in self.ever.items() if thing.schema in self.system)
        asked = [row for row in rows if row.by in ("session", "log") and row.object not in others]
        self.totals.append(sum(row.requests for row in asked))
        return sum(row.requests for row in rows) / self.window.interval_s

    def _counted(self, second: float, now: Counters) -> list[IoRow]:
        """The rows of an interval from the server's own counters."""
        rows = []
        for (name, operation, by), count in now.counts.items():
            before = self.last.counts.get((name, operation, by), folder.NOTHING)
            size = max(0, count.bytes - before.bytes)
            requests = -(-size // 8192) if count.requests is None else count.requests - (before.requests or 0)
            if requests > 0:
                seconds = None if count.seconds is None else max(0.0, count.seconds - (before.seconds or 0.0))
                rows.append(IoRow(second, name, operation, by, requests, size, None, seconds))  # type: ignore[arg-type]
                if name not in self.ever:
                    kind = name if name in (folder.LOG, folder.TEMPORARY) else "other"
                    place = self.watched.folders().get(kind, Path(self.volumes[0].path))
                    self.ever[name] = Thing(name, None, name, kind, place)
        # The counts of all tables together include the reads of single tables: subtract these.
        named = sum(row.bytes for row in rows if row.operation == "read" and row.object not in _UNNAMED)
        found = []
        for row in rows:
            if row.object != folder.ALL_TABLES or row.operation != "read":
                found.append(row)
                continue
            left = max(0, row.bytes - named)
            named -= row.bytes - left
            if left:
                found.append(row._replace(requests=max(1, row.requests * left // row.bytes), bytes=left))
        return found

    def _timed(self, row: IoRow, now: Counters) -> IoRow:
        """The row with its time. It is estimated from the mean time of such requests, which the server counted in this
        interval.
        """
        if row.seconds is not None:
            return row
        thing = self.ever.get(row.object)
        key: folder.CountKey = (folder.LOG if thing and thing.kind == "log" else "data", row.operation, row.by)
        (before, before_s), (after, after_s) = (counters.times.get(key, (0, 0.0)) for counters in (self.last, now))
        return row._replace(seconds=row.requests * (after_s - before_s) / (after - before)) if after > before else row

    def end(self) -> Manifest:
        seconds = self.gone_s
        try:
            self.look()
            before = self.things_at_start if self.files is None else self.files.renew()
            self._note_changes(before, self.watched.things() if self.files is None else self.files.things)
        except folder.ServerGone:
            self.notes.append(f"The server was gone after {numbers.duration(seconds)}, so the window ends then.")
        if self.attribution is not None:
            self.rows += self.attribution.known_by_now()
            # What still waits belongs to tables that were made and dropped within the window.
            self.rows += [row._replace(object=folder.UNKNOWN_FILES) for _, row in self.attribution.waiting]
        rows = [row for row in self.rows if row.second < seconds]
        if any(row.object == folder.UNKNOWN_FILES for row in rows):
            self.ever.setdefault(folder.UNKNOWN_FILES, unknown_files(self.volumes[0].path))
        folder.append(self.out, merged(rows), ())
        self.seen |= {row.object for row in rows}
        if self.iolog is not None:
            self.iolog.end()
        if (change := load_change(self.totals)) is not None:
            per_s = [numbers.round_figure(rate / self.window.interval_s) for rate in (change.before, change.after)]
            what = f"The load changed: {per_s[0]} requests/s before, {per_s[1]} requests/s after."
            self.changes.append(Change(second=change.interval * self.window.interval_s, what=what))
        if not sum(self.totals):
            self.notes.append("The server was idle: no session read or wrote a table or the log.")
        elif (idle_s := self._idle_s()) > folder.IDLE * seconds:
            self.notes.append(f"No session worked for {numbers.duration(idle_s)} of the window.")
        if self.tracer is not None and (lost := self.tracer.lost):
            share = numbers.percent(lost / (lost + self.traced))
            self.notes.append(f"{share} of the trace was lost, because this machine was too busy to read it.")
        self.notes += [
            f"Of {self.written[name]:,} writes at the device of volume {name}, {own.flushes:,} were flushes "
            f"without data, and {own.requests:,} were the file system's own (journal and metadata)."
            for name, own in self.own_writes.items()
            if own.flushes or own.requests
        ]
        manifest = self.manifest(seconds, complete=True)
        folder.write_manifest(self.out, manifest)
        return manifest

    def manifest(self, seconds: float, *, complete: bool) -> Manifest:
        counters, used = self.last, processes.cpu_time_between(self.used_before, self.used)
        transactions = _since(self.first.transactions, counters.transactions)
        writing = _since(self.first.write_transactions, counters.write_transactions)
        if transactions is not None and writing is not None:
            writing = min(writing, transactions)
        now = self.files.things if self.files is not None else self.things_at_start
        return Manifest(
            storagelab=__version__, engine=self.watched.engine,
            server_version=self.watched.version,
            started_at=self.started_at, seconds=seconds, interval_seconds=self.window.interval_s,
            connections=statistics.fmean(self.working) if self.working else None, transactions=transactions,
            unit=counters.unit, write_transactions=writing,
            cpu_seconds=used.get("server_s"), machine=self._machine(used), idle_seconds=self._idle_s(),
            storage_read_bytes=max(0, int(used["read_bytes"])) if "read_bytes" in used else None,
            sources=folder.Sources(views=self.watched.views, trace=self.tracer.points if self.tracer else None),
            volumes=tuple(self._counted_volumes()), objects=tuple(self._objects(now)),
            changes=tuple(self.changes), notes=tuple(self.notes), complete=complete,
        )  # fmt: skip

    def _idle_s(self) -> float:
        """The length of the longest period in which no reading found a working session and almost no
        transaction ended.
        """
        few = _HARDLY * statistics.fmean(self.ended or [0])
        idle = (not working and ended <= few for working, ended in zip(self.working, self.ended, strict=True))
        stretches = [len(list(stretch)) for is_idle, stretch in itertools.groupby(idle) if is_idle]
        return max(stretches, default=0) * self.window.interval_s

    def _used(self) -> dict[str, float]:
        """The CPU times of the machine, and what the server's processes have used so far. Figures that can't be read
        are left out.
        """
        return {**processes.read_cpu_time(None), **folder.used_by(self.watched.processes())}

    def _machine(self, used: dict[str, float]) -> folder.Machine | None:
        if "others_s" not in used or not self.runnable:
            return None
        means = {f"{who}_cpus": used[f"{who}_s"] / self.used_s for who in ("busy", "others", "steal")}
        return folder.Machine(cpus=os.cpu_count() or 1, run_queue=statistics.fmean(self.runnable), **means)

    def _counted_volumes(self) -> Iterable[Volume]:
        for volume in self.volumes:
            own = self.own_writes.get(volume.name)
            counts = own and {"own_writes": own.requests, "own_write_bytes": own.bytes, "flush_writes": own.flushes}
            yield volume.model_copy(update=counts)

    def _objects(self, now: dict[str, Thing]) -> Iterable[folder.CapturedObject]:
        for name, thing in sorted(self.ever.items()):
            before, after = self.things_at_start.get(name), now.get(name)
            is_users = thing.kind in ("table", "index") and thing.schema not in self.system
            if name in self.seen or (before is not None and is_users):
                yield folder.CapturedObject(
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
        for traces in filter(None, (self.tracer, self.file_systems)):
            traces.close()
        self.devices.close()


def take(watched: Watched, out: Path, window: Window, progress: Progress = lambda *_: None) -> Manifest:
    """Records a server's I/O, and writes a capture. Ctrl-C ends the window early. Raises StoragelabError."""
    taking = Taking(watched, out, window)
    try:
        taking.begin()
        try:
            watch(taking, progress)
        except KeyboardInterrupt:
            taking.notes.append("The user ended the window early.")
        except folder.ServerGone:
            pass  # the data so far is stored, and `end` notes that the server ended
        return taking.end()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        if folder.is_capture(out):
            kept = "What was captured until then is kept: make room, and capture again into another folder."
        else:
            shutil.rmtree(out, ignore_errors=True)  # the folder was empty, or did not exist
            kept = "Make room, or choose another folder with --output."
        raise StoragelabError(f"{out}: can't be written: {error.strerror}\n  {kept}") from None
    finally:
        taking.close()


def watch(taking: Taking, progress: Progress = lambda *_: None) -> None:
    """Records until the end of the window."""
    number, window = 0, taking.window
    while number * window.interval_s < window.seconds - 1e-9:
        ends = min((number + 1) * window.interval_s, window.seconds)
        while (left := ends - taking.gone_s) > 0:
            time.sleep(min(left, LOOK_S))
            taking.look()
        asked_per_s = taking.interval(number * window.interval_s)
        number = max(number + 1, int(taking.gone_s / window.interval_s))
        progress(taking.gone_s, asked_per_s)


def merged(rows: Iterable[IoRow]) -> list[IoRow]:
    """Returns one row for each second, object, operation and kind of process. An object's files are added up."""
    found: dict[tuple[object, ...], IoRow] = {}
    for row in rows:
        key, figures = row[:4], row[4:]
        other = found.get(key)
        found[key] = row if other is None else IoRow(*row[:4], *map(_sum, figures, other[4:]))  # type: ignore[arg-type]
    return sorted(found.values())


def _since(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else max(0, now - before)


def _sum(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else one + other


def _device_rows(second: float, volumes: Iterable[Volume], counted: dict[str, float]) -> Iterable[folder.DeviceRow]:
    """The requests that reached the devices. If a file system shares its disk with others, only its own requests are
    counted.
    """
    for volume in volumes:
        whole = f"volume.{volume.name}."
        own = f"{whole}file_system_"
        for one in _READ_AND_WRITE:
            prefix = own if f"{own}{one}s" in counted else whole
            if asked := counted.get(f"{prefix}{one}s"):
                time_s = counted.get(f"{whole}{one}_time_s") if prefix == whole else None
                yield folder.DeviceRow(
                    second, volume.name, one, int(asked), int(counted[f"{prefix}{one}_bytes"]), time_s
                )
        if flushes := counted.get(whole + "flushes"):
            yield folder.DeviceRow(second, volume.name, "sync", int(flushes), 0, counted.get(whole + "flush_time_s"))


# --- what capturing costs a server ------------------------------------------------------------------------------------
# Measures this in alternating periods with and without a capture.

STRETCH_S = 2.0


class Cost(NamedTuple):
    """The cost of capturing, in percent of the server's transactions, or None if too few transactions ended. `words`
    describes it.
    """

    percent: float | None
    words: str


def cost_percent(watched: Watched, window: Window, turns: int, say: Callable[[str], None]) -> Cost:
    """Measures the cost in pairs of periods, one with and one without a capture. The transactions that end in each
    period are compared. The order within the pairs alternates, so that a trend favours neither kind.
    """
    say(f"measuring what capturing costs: {turns} pairs of {STRETCH_S:g} s")
    pairs = []
    with tempfile.TemporaryDirectory(prefix="storagelab-") as place:
        taking = Taking(watched, Path(place), window._replace(seconds=STRETCH_S))
        try:
            taking.run(on=False)
            for turn in range(turns):
                order = (taking, None) if turn % 2 else (None, taking)
                rates = {one is not None: _rates(watched, one) for one in order}
                pairs.append((rates[True], rates[False]))
            taking.end()
        finally:
            taking.close()
    for of in (0, 1):  # writing transactions are preferred, because they are counted at once
        if all(with_[of] and without[of] for with_, without in pairs):
            logs = [math.log(with_[of] / without[of]) for with_, without in pairs]
            ratio = math.exp(statistics.fmean(logs))
            percent = 100 * (1 - ratio)
            error = f" ± {100 * ratio * statistics.stdev(logs) / turns**0.5:.1f}" if turns > 1 else ""
            return Cost(
                percent, f"Capturing cost {percent:.1f}{error} % of the transactions ({turns} pairs of periods)."
            )
    return Cost(None, "The cost of capturing could not be measured: in some periods, no transaction ended.")


def _rates(watched: Watched, taking: Taking | None) -> list[float]:
    """The rates in one period: writing transactions and all transactions per second. A rate is 0 if the server does not
    report it. If `taking` is given, it captures during the period.
    """
    if taking is not None:
        taking.run(on=True)
        taking.begin()
    before, begin = watched.counters(objects=False), time.monotonic()
    if taking is not None:
        watch(taking)
    else:
        time.sleep(STRETCH_S)
    after, end = watched.counters(objects=False), time.monotonic()
    if taking is not None:
        taking.run(on=False)
    pairs = (before.write_transactions, after.write_transactions), (before.transactions, after.transactions)
    return [0.0 if one is None or other is None else (other - one) / (end - begin) for one, other in pairs]
