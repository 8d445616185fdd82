"""A capture's requests as a log that fio plays back: version 3, whose times are microseconds from the start.

Files are named by object (`public.orders`), not by the server's paths. It holds what was asked for and when, as a queue
sees it; not how long it took.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import BinaryIO

from storagelab.capture.attributing import OPERATIONS, File
from storagelab.capture.perf import Records
from storagelab.capture.requests import SYNC
from storagelab.capture.server import Watched

HEADER = b"fio version 3 iolog\n"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.#-]+")
_SINGLE = ("table", "index", "toast")
"""Objects whose files go on where the one before ends. Any other file is by itself, and gets a number."""


class Iolog:
    """The log, written as requests come."""

    def __init__(self, file: BinaryIO, watched: Watched, begin_ns: int) -> None:
        self._file, self._watched, self._begin_ns = file, watched, begin_ns
        self._names: dict[File, tuple[str, int]] = {}
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()
        self._opened: set[str] = set()
        self._last_us = 0
        file.write(HEADER)

    def add(self, requests: Records, files: Sequence[File | None]) -> None:
        """Adds requests in their order, each with its file."""
        lines = []
        for request, file in zip(requests.tolist(), files, strict=True):
            time_ns, _, _, _, offset, size, operation, _ = request
            assert file is not None, "only requests to known files are attributed"
            name, begin = self._name(file)
            self._last_us = max(self._last_us, (time_ns - self._begin_ns) // 1000)
            if name not in self._opened:
                self._opened.add(name)
                lines += [f"{self._last_us} {name} add", f"{self._last_us} {name} open"]
            if operation == SYNC:
                lines.append(f"{self._last_us} {name} sync 0 0")
            else:
                lines.append(f"{self._last_us} {name} {OPERATIONS[operation]} {begin + offset} {size}")
        self._file.write("".join(line + "\n" for line in lines).encode())

    def _name(self, file: File) -> tuple[str, int]:
        """The name of a file in the log, and the offset of its first byte there. `new_file`: its object is not known
        yet.
        """
        if file not in self._names:
            thing, key, begin, form = file.thing, (file.path, ""), 0, ".{}"
            of = _NOT_IN_NAMES.sub("_", thing.id if thing else "new_file")
            if thing is not None and thing.kind in _SINGLE:
                ending, begin = self._watched.place_in(file.path)
                key, of, form = (thing.id, ending), of + ending, "#{}"
                self._given.setdefault(key, of if of not in self._taken else "")
            # Characters that are replaced must not make one file of two.
            self._given[key] = self._given.get(key) or next(
                name for n in count(1) if (name := of + form.format(n)) not in self._taken
            )
            self._taken.add(self._given[key])
            self._names[file] = self._given[key], begin
        return self._names[file]

    def end(self) -> None:
        """Closes the files of the log, and the log."""
        self._file.write("".join(f"{self._last_us} {name} close\n" for name in sorted(self._opened)).encode())
        self._file.close()
