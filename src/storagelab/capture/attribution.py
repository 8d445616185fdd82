"""Turns requests into rows. A row has an object, a kind of process, and four figures about requests: their number,
their bytes, how many are sequential, and their time.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from storagelab.capture.folder import TEMPORARY, UNKNOWN_FILES, IoRow, Thing, Watched
from storagelab.capture.tracing import READ, SYNC, Column, Records

OPERATIONS = ("read", "write", "sync")
_LOOKS_APART = 50
"""The least time between two listings of folders, as a multiple of the time that a listing takes. So listings use at
most 2 % of a CPU.
"""
_AGAIN_S = 20.0
"""The least time in seconds until folders are listed again. By then, a file's number may belong to another file."""
_Inode = tuple[int, int]


class File(NamedTuple):
    """A file of the server. `thing` is the object to which it belongs, or None if that is not known yet."""

    path: str
    thing: Thing | None


class Files:
    """Finds the server's files by their numbers (device and inode), which trace points show."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._known: dict[_Inode, File] = {}
        self._foreign: set[_Inode] = set()
        self._listed_at, self._listing_s = 0.0, 0.0
        self._folders: list[str] = []
        self._devices: set[int] = set()
        self.things = watched.things()
        self.renew()

    def renew(self) -> dict[str, Thing]:
        """Reads the server's objects, and lists all its files again. Returns the objects as they were before."""
        began, before = time.monotonic(), self.things
        self.things = self._watched.things()
        self._known = {}
        places = {name: os.path.realpath(folder) for name, folder in self._watched.folders().items()}
        self._folders = list(dict.fromkeys(folder for name, folder in places.items() if name != TEMPORARY))
        walks = [walk for folder in self._folders for walk in os.walk(folder)]
        # Folders below the folder of temporary files (e.g. /tmp) belong to other programs, so only its files are
        # listed.
        walks += itertools.islice(os.walk(places[TEMPORARY]), 1) if TEMPORARY in places else ()
        for path in (os.path.join(place, name) for place, _, names in walks for name in names):
            with contextlib.suppress(OSError):
                facts = os.lstat(path)
                if stat.S_ISREG(facts.st_mode):
                    inode = kernel_device(facts.st_dev), facts.st_ino
                    self._devices.add(inode[0])
                    self._keep(inode, File(path, self._watched.thing_of(path)))
        self._foreign.clear()
        self._listed_at = time.monotonic()
        self._listing_s = self._listed_at - began
        return before

    @property
    def stale(self) -> bool:
        """Whether the list of files is so old that it must be read again."""
        return time.monotonic() - self._listed_at > max(_AGAIN_S, _LOOKS_APART * self._listing_s)

    @property
    def may_renew(self) -> bool:
        return time.monotonic() - self._listed_at > max(1.0, _LOOKS_APART * self._listing_s)

    def get(self, inode: _Inode, threads: Callable[[], Column]) -> File | None:
        """The file with this number. Returns None if the file is not the server's, or if it no longer exists. A new
        file is looked for among the open files of the threads that requested it.
        """
        if (known := self._known.get(inode)) is not None:
            if known.thing is None:
                known = self._known[inode] = File(known.path, self._watched.thing_of(known.path))
            return known
        paths = (_open_file(int(thread), inode) for thread in (threads() if inode not in self._foreign else ()))
        if (path := next(filter(None, paths), None)) is None:
            return None
        thing = self._watched.thing_of(path)
        if thing is None and not any(path.startswith(f"{folder}/") for folder in self._folders):
            self._foreign.add(inode)
            return None
        return self._keep(inode, File(path, thing))

    def unknown(self, inode: _Inode, threads: Callable[[], Column], seen: Collection[int]) -> File | None:
        """A file whose name is unknown, if it is the server's: if a thread of the server used it. `seen` are threads
        that used other files of the server.
        """
        if inode in self._foreign or inode[0] not in self._devices:
            return None
        if any(thread in seen or self._watched.has(thread) for thread in threads().tolist()):
            return File(f"{UNKNOWN_FILES}/{inode[0]}/{inode[1]}", unknown_files(self._folders[0]))
        return None

    def _keep(self, inode: _Inode, file: File) -> File:
        """Stores which file has this number. A temporary file is not stored, because the next file may get
        its number.
        """
        if file.thing is None or file.thing.kind != "temporary":
            self._known[inode] = file
        return file


def unknown_files(folder: str | Path) -> Thing:
    """The object for all files that were deleted before their names were known."""
    return Thing(UNKNOWN_FILES, None, "files that were deleted before their names were known", "other", Path(folder))


def _threads(requests: Records, which: Column, number: int) -> Column:
    """The threads that requested the file with this position."""
    return np.asarray(np.unique(requests["pid"][which == number]))


def _distinct(*columns: Column) -> tuple[Column, Column]:
    """Numbers the distinct combinations of the columns' values. Returns the first position of each combination, and for
    each position the number of its combination.
    """
    number = np.zeros(len(columns[0]), "i8")
    for column in columns:
        if (column == column[:1]).all():
            continue
        values, place = np.unique(column, return_inverse=True)
        number = np.unique(number * len(values) + place, return_inverse=True)[1]
    firsts = np.empty(number.max(initial=-1) + 1, "i8")
    firsts[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    return firsts, number


def kernel_device(number: int) -> int:
    """A device's number in the form that the kernel uses internally, and in its trace points."""
    return os.major(number) << 20 | os.minor(number)


def _open_file(thread: int, inode: _Inode) -> str | None:
    """Returns the path of the file with this number. Returns None if the thread has no open file with this number."""
    with contextlib.suppress(OSError):
        for place in Path(f"/proc/{thread}/fd").iterdir():
            facts = place.stat()
            if (kernel_device(facts.st_dev), facts.st_ino) == inode:
                return str(place.readlink())
    return None


class FileRequests(NamedTuple):
    """Requests to the server's files: as `rows`, and one by one. `which` has the position of each request's file in
    `files`.
    """

    rows: list[IoRow]
    requests: Records
    which: Column
    files: list[File | None]

    @property
    def things(self) -> dict[str, Thing]:
        """The objects of these files, by their IDs."""
        return {file.thing.id: file.thing for file in self.files if file is not None and file.thing is not None}


class Attribution:
    """Turns requests into rows. To recognise sequential requests, it keeps the end of the last request to each file."""

    def __init__(self, watched: Watched, files: Files, begin_ns: int, interval_s: float) -> None:
        self._watched, self._files = watched, files
        self._begin_ns, self._interval_s = begin_ns, interval_s
        self._seen: set[int] = set()
        """The threads that used files of the server. They may have ended before it was known that they are the
        server's.
        """
        self._ends: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.waiting: list[tuple[File, IoRow]] = []
        """The rows of files whose object is not known yet, e.g. because their table is just being made."""
        self._open: Records | None = None
        """The requests that have not ended yet."""

    def of(self, requests: Records) -> FileRequests:
        if not len(requests):
            return FileRequests([], requests, np.empty(0, int), [])
        firsts, which = _distinct(requests["device"], requests["inode"])
        inodes = list(zip(requests["device"][firsts].tolist(), requests["inode"][firsts].tolist(), strict=True))
        threads = [partial(_threads, requests, which, number) for number in range(len(inodes))]
        found = [self._files.get(*one) for one in zip(inodes, threads, strict=True)]
        ours = np.array([file is not None for file in found])
        if not ours.all():
            self._seen.update(np.unique(requests["pid"][ours[which]]).tolist())
            for number in np.flatnonzero(~ours).tolist():
                found[number] = self._files.unknown(inodes[number], threads[number], self._seen)
                ours[number] = found[number] is not None
            requests, which = requests[ours[which]], which[ours[which]]
        in_order = self._in_order(requests, which, inodes)
        return FileRequests(list(self._rows(requests, which, in_order, found)), requests, which, found)

    def _in_order(self, requests: Records, which: Column, inodes: list[_Inode]) -> Column:
        """Marks the sequential requests. Such a request begins inside the previous request to the same file or at its
        end, and does not end before it. PostgreSQL may write the last page of its log again, and this counts as
        sequential, too.
        """
        lane = which * 3 + requests["operation"]
        # numpy sorts numbers of 16 bits faster: in linear time.
        order = np.argsort(lane.astype("u2") if 3 * len(inodes) < 1 << 16 else lane, kind="stable")
        lanes, begins = lane[order], requests["offset"][order]
        ends = begins + requests["bytes"][order]
        before_begin, before_end = np.empty_like(begins), np.empty_like(ends)
        before_begin[1:], before_end[1:] = begins[:-1], ends[:-1]
        first = np.ones(len(lanes), bool)
        first[1:] = lanes[1:] != lanes[:-1]
        last = np.roll(first, -1)
        for begin, end in zip(np.flatnonzero(first).tolist(), np.flatnonzero(last).tolist(), strict=True):
            place, operation = divmod(int(lanes[begin]), 3)
            key = *inodes[place], operation
            before_begin[begin], before_end[begin] = self._ends.get(key, (-2, -1))
            self._ends[key] = int(begins[end]), int(ends[end])
        found = np.empty(len(lanes), bool)
        found[order] = (begins >= before_begin) & (begins <= before_end) & (ends >= before_end)
        return found

    def _rows(self, requests: Records, which: Column, in_order: Column, files: list[File | None]) -> Iterator[IoRow]:
        threads, thread = np.unique(requests["pid"], return_inverse=True)
        kinds = [self._watched.by(one) for one in threads.tolist()]
        names = sorted(set(kinds))
        by = np.array([names.index(kind) for kind in kinds], "i8")[thread]
        interval = self._interval(requests)
        firsts, group = _distinct(interval, which, requests["operation"], by)
        counts, sizes, ordered = (
            np.bincount(group, weights).tolist() for weights in (None, requests["bytes"], in_order)
        )
        groups = (column[firsts].tolist() for column in (interval, which, requests["operation"], by))
        for number, (second, of, operation, kind) in enumerate(zip(*groups, strict=True)):
            file = files[of]
            assert file is not None
            row = IoRow(
                second * self._interval_s, file.thing.id if file.thing else "",
                OPERATIONS[operation], names[kind], counts[number], int(sizes[number]),  # type: ignore[arg-type]
                None if operation == SYNC else int(ordered[number]),
            )  # fmt: skip
            if file.thing is None:
                self.waiting.append((file, row))
            else:
                yield row

    def times(self, requests: Records, ends: Records) -> Iterator[IoRow]:
        """Rows that have no requests, but the time of requests. The time counts in the interval in which the request
        ended.

        A thread waits for one request at a time. So the end of direct I/O belongs to the thread's last such request,
        and the end of a sync to its last sync. Not traced are the ends of requests for which no thread waits, of
        buffered I/O, and of syncs on XFS.
        """
        if not len(ends):
            return
        pairs, self._open = paired(requests if self._open is None else np.concatenate([self._open, requests]), ends)
        columns = (pairs[name].astype("i8") for name in ("device", "inode", "operation", "pid"))
        groups, group = np.unique(np.stack([self._interval(pairs), *columns], axis=1), axis=0, return_inverse=True)
        seconds = np.bincount(group.reshape(-1), pairs["bytes"], len(groups)) / 1e9
        for (number, device, inode, operation, pid), of_group in zip(groups.tolist(), seconds.tolist(), strict=True):
            file = self._files.get((device, inode), partial(np.array, [pid]))
            if file is not None and file.thing is not None:
                yield IoRow(
                    number * self._interval_s, file.thing.id,
                    OPERATIONS[operation], self._watched.by(pid),  # type: ignore[arg-type]
                    0, 0, None if operation == SYNC else 0, of_group,
                )  # fmt: skip

    def _interval(self, requests: Records) -> Column:
        """The number of the interval in which each request was."""
        since_ns = requests["time_ns"].astype("i8") - self._begin_ns
        return np.asarray(np.maximum(0, since_ns // round(self._interval_s * 1e9)))

    def known_by_now(self) -> list[IoRow]:
        """The waiting rows whose objects are known now."""
        looked = [(self._watched.thing_of(file.path), file, row) for file, row in self.waiting]
        self.waiting = [(file, row) for thing, file, row in looked if thing is None]
        return [row._replace(object=thing.id) for thing, _, row in looked if thing is not None]


# --- the duration of requests -----------------------------------------------------------------------------------------


_FEW = 16
"""The most log files whose writes are traced to their end. Servers with more log files, such as PostgreSQL, report the
time of log writes themselves.
"""


def log_files(watched: Watched) -> list[int]:
    """The inode numbers of the log's files, or [] if there are too many."""
    found: list[int] = []
    folders = dict.fromkeys(folder.resolve() for folder in watched.folders().values())
    for path in (path for folder in folders for path in folder.glob("*")):
        if (thing := watched.thing_of(str(path))) is not None and thing.kind == "log":
            with contextlib.suppress(OSError):
                found.append(path.stat().st_ino)
    return found if len(found) <= _FEW else []


def paired(requests: Records, ends: Records) -> tuple[Records, Records]:
    """Returns the ends of requests, and the requests that have not ended. The `bytes` of an end is the duration of its
    request in nanoseconds.
    """
    begun = requests[requests["operation"] != READ]
    some = np.concatenate([begun, ends])
    is_end = np.arange(len(some)) >= len(begun)
    order = np.lexsort((some["time_ns"], some["operation"] == SYNC, some["pid"]))
    some, is_end = some[order], is_end[order]
    before, after = some[:-1], some[1:]
    same = ~is_end[:-1]
    for name in ("pid", "device", "inode"):
        same &= before[name] == after[name]
    is_sync = some["operation"] == SYNC
    same_kind = is_sync[:-1] == is_sync[1:]
    ended = same & same_kind & is_end[1:]
    found = after[ended]
    found["operation"] = before["operation"][ended]
    found["bytes"] = (found["time_ns"] - before["time_ns"][ended]).astype("i8")
    last = np.ones(len(some), bool)
    last[:-1] = (before["pid"] != after["pid"]) | ~same_kind
    return found, some[last & ~is_end]


# --- a log of the requests --------------------------------------------------------------------------------------------


HEADER = b"fio version 3 iolog\n"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.#-]+")
SINGLE = ("table", "index", "toast")
"""Kinds of objects whose files are consecutive parts of one file. Other files are separate, and get numbers."""


class Iolog:
    """Writes a capture's requests to a log that fio can replay, in the order in which they come. The log has version 3
    of fio's format, whose times are microseconds since the start.

    Files are named after objects (`public.orders`), not after the server's paths. The log has the requests and their
    times, but not their durations.
    """

    def __init__(self, file: BinaryIO, watched: Watched, begin_ns: int) -> None:
        self._file, self._watched, self._begin_ns = file, watched, begin_ns
        self._names: dict[File, tuple[str, int]] = {}
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()
        self._opened: set[str] = set()
        self._last_us = 0
        file.write(HEADER)

    def add(self, requests: Records, files: Sequence[File | None]) -> None:
        """Adds requests in the order of their times. `files` has the file of each request."""
        lines = []
        for request, file in zip(requests.tolist(), files, strict=True):
            time_ns, _, _, _, offset, size, operation, _ = request
            assert file is not None, "only requests to known files are attributed"
            name, begin = self._name(file)
            self._last_us = max(self._last_us, (time_ns - self._begin_ns) // 1000)
            if name not in self._opened:
                self._opened.add(name)
                lines += [f"{self._last_us} {name} add", f"{self._last_us} {name} open"]
            span = "0 0" if operation == SYNC else f"{begin + offset} {size}"
            lines.append(f"{self._last_us} {name} {OPERATIONS[operation]} {span}")
        self._file.write("".join(line + "\n" for line in lines).encode())

    def _name(self, file: File) -> tuple[str, int]:
        """The name of a file in the log, and the offset of the file's first byte under this name. The name is
        `new_file` with a number if the file's object is not known yet.
        """
        if file not in self._names:
            thing, key, begin, form = file.thing, (file.path, ""), 0, ".{}"
            of = _NOT_IN_NAMES.sub("_", thing.id if thing else "new_file")
            if thing is not None and thing.kind in SINGLE:
                ending, begin = self._watched.place_in(file.path)
                key, of, form = (thing.id, ending), of + ending, "#{}"
                self._given.setdefault(key, of if of not in self._taken else "")
            # Two names may become equal when characters are replaced. Then the second file gets another name.
            self._given[key] = self._given.get(key) or next(
                name for n in itertools.count(1) if (name := of + form.format(n)) not in self._taken
            )
            self._taken.add(self._given[key])
            self._names[file] = self._given[key], begin
        return self._names[file]

    def end(self) -> None:
        """Writes that the files are closed, and closes the log."""
        self._file.write("".join(f"{self._last_us} {name} close\n" for name in sorted(self._opened)).encode())
        self._file.close()


# --- changes of the load during a capture -----------------------------------------------------------------------------


_FEWEST = 20
"""The least number of intervals in which a change can be found."""
_AT_EACH_END = 5
"""Each side of a change must have at least this number of intervals."""
_CERTAIN = 6.0
"""The least difference between the two sides of a change. Its unit is the standard error. It was tried with 1,000
random series without a change (20 to 600 intervals, spread 10 or 30 %). At most 0.1 % of the series exceed it if
neighbours correlate by up to 0.5. At 0.8, 2.8 % of the series exceed it, and at 0.9, 5.5 %. No series with bursts of
checkpoints exceeds it. If the rate doubles in the middle, this is found in 87 to 100 % of series with a spread of 10 %.
With a spread of 30 %, it is found only in long captures.
"""
_MATTERS = 0.25
"""The least change that matters, as a share of the larger side."""


class LoadChange(NamedTuple):
    """The mean rates before and after a change, and the number of the interval in which the change is."""

    interval: int
    before: float
    after: float


def load_change(rates: Sequence[float]) -> LoadChange | None:
    """The largest change of a rate. Returns None if it is too small to matter, or if noise explains it.

    The rate is split where its two sides differ most. The difference counts as a change if it is at least _MATTERS, and
    larger than noise with the rate's own autocorrelation explains.
    """
    rate = np.asarray(rates, float)
    n = len(rate)
    if n < _FEWEST or not rate.any():
        return None
    at_least = max(_AT_EACH_END, n // 6)
    sums = np.concatenate([[0.0], np.cumsum(rate)])
    splits = np.arange(at_least, n - at_least + 1)
    left, right = sums[splits] / splits, (sums[n] - sums[splits]) / (n - splits)
    weight = np.sqrt(splits * (n - splits) / n)
    best = int(splits[np.argmax(np.abs(left - right) * weight)])
    before, after = float(rate[:best].mean()), float(rate[best:].mean())
    if abs(before - after) < _MATTERS * max(before, after):
        return None
    # The shorter side may lie within one slow fluctuation. Then its variance is too low, so the larger one is used.
    noise = max(_long_run_variance(rate[:best]), _long_run_variance(rate[best:]))
    error = np.sqrt(noise / best + noise / (n - best))
    return LoadChange(best, before, after) if abs(before - after) > _CERTAIN * error else None


def _long_run_variance(part: np.ndarray[Any, np.dtype[Any]]) -> float:
    """The variance of a mean times the number of values. It takes into account that correlated neighbours give less
    information than independent values. It is at least the variance of counted events.
    """
    off = part - part.mean()
    n, variance = len(part), float(np.mean(off**2))
    reach = min(n // 3, int(2 * n ** (1 / 3)) + 1)
    total = variance
    for lag in range(1, reach + 1):
        total += 2 * (1 - lag / (reach + 1)) * float(np.dot(off[lag:], off[:-lag])) / n
    # With few values, the estimate of the autocorrelation is uncertain, and on average too low.
    return max(total, variance, float(part.mean())) * n / max(1, n - reach - 1)
