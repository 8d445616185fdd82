"""Assigns runs to processes: the runs of blocks in batches, for any number of processes, with the state of the blocks'
drives.

States are sent packed, because the state of drives with little data shrinks to a hundredth. Code that only passes on a
state keeps it packed, so a file may contain either form.
"""

from __future__ import annotations

import heapq
import math
import os
import stat
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from storagelab.machine.descriptors import write_whole
from storagelab.model.measurement import Run
from storagelab.model.plan import Plan, PlannedBlock, PlannedRun
from storagelab.volumes.folders import Site

_PACKED = b"\x78\x01"
"""The first bytes of zlib's fastest level. No unpacked state begins with them: states begin as JSON."""
_MOST_BYTES = 2**32
"""A larger state counts as damaged. A file of this size may unpack to a thousand times as much, and somebody else may
have made it.
"""


class InFile(NamedTuple):
    """A state in a file. The caller removes it."""

    path: Path

    def read(self) -> bytes:
        """The kept state; empty if there is no readable file."""
        return _plain(self.kept())

    def kept(self) -> bytes:
        """The state, packed or not. Only a regular file is read: a FIFO may have no writer, and a device may never
        end.
        """
        try:
            with open(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                facts = os.fstat(file.fileno())
                return file.read() if stat.S_ISREG(facts.st_mode) and facts.st_size <= _MOST_BYTES else b""
        except OSError:
            return b""

    def write(self, parts: Sequence[bytes]) -> None:
        """After a kill, the old or the new state is there. Raises OSError."""
        write_whole(self.path, parts, within=self.path.parents[1], synced=False)

    def __str__(self) -> str:
        return str(self.path)


class InMemory:
    """A state in memory, packed or not."""

    def __init__(self, kept: bytes = b"") -> None:
        self._parts: Sequence[bytes] = (kept,)

    def read(self) -> bytes:
        return _plain(self.kept())

    def kept(self) -> bytes:
        """The state; packed if it was sent."""
        return b"".join(self._parts)

    def write(self, parts: Sequence[bytes]) -> None:
        self._parts = tuple(parts)

    def __getstate__(self) -> dict[str, Sequence[bytes]]:
        """Packs the state, because it is sent to another process."""
        kept = self.kept()
        return {"_parts": (kept if not kept or is_packed(kept) else zlib.compress(kept, level=1),)}

    def __str__(self) -> str:
        return "memory"


DriveState = InFile | InMemory


def is_packed(kept: bytes) -> bool:
    return kept.startswith(_PACKED)


def _plain(kept: bytes) -> bytes:
    """The unpacked state; empty if it is damaged or too large to be a drive state."""
    if not is_packed(kept):
        return kept
    with suppress(zlib.error):
        unpacking = zlib.decompressobj()
        plain = unpacking.decompress(kept, _MOST_BYTES)
        if unpacking.eof:
            return plain
    return b""


def drives_lost(defect: str) -> str:
    """The reason for runs after a failure on drives that keep their state."""
    return f"its drives were lost in an earlier run of its block: {defect}"


_BATCHES = 8
"""A batch is this part of a process's share of the remaining runs. A batch is small, so that all processes end at about
the same time, but takes long compared with loading the drives (13 ms; a run takes half a second at scale 64). The value
4 is equally good for few processes, but with 9 blocks on 8 processes the last block would begin too late.
"""
ATTEMPTS = 3
"""A run is given up after this many processes ended during it."""


def pending(plan: Plan, stored: Mapping[tuple[str, int], tuple[int, str]], *, again: bool = False) -> list[PlannedRun]:
    """The runs still to be made, in order: those that are not stored and, with `again`, those whose latest attempt
    failed.
    """
    return [
        planned
        for planned in plan.runs
        if (latest := stored.get((planned.cell_id, planned.repetition))) is None or (again and latest[1] == "failed")
    ]


class Batch(NamedTuple):
    """The wanted runs of a block, each with the number of its attempt, and the place of the drives' state."""

    block: PlannedBlock
    wanted: dict[int, int]
    """Position in the block -> attempt."""
    site: Site
    state: DriveState
    """Where the block may keep the state of its drives."""
    budget_s: float = math.inf
    """No further run begins after this time. At least one run is made."""

    @property
    def number(self) -> int:
        return self.block.number

    def split(self, runs: int) -> tuple[Batch, Batch]:
        """The batch's first wanted `runs`, and the rest."""
        wanted = sorted(self.wanted.items())
        return self._replace(wanted=dict(wanted[:runs])), self._replace(wanted=dict(wanted[runs:]))


class Schedule:
    """Picks the batch for a free process: the next few runs of the idle block with the most runs left.

    So all blocks and batches shrink together, and no long block remains at the end.
    """

    def __init__(self, todo: Sequence[Batch], processes: int) -> None:
        self.processes = processes
        self._left: dict[int, Batch] = {}
        """Block -> its runs that are not scheduled yet."""
        self._runs_left = 0
        self._in_work: dict[int, tuple[Batch, dict[int, int]]] = {}
        """Maps a block to its scheduled batch, and to the runs that this batch has not reported yet: sequence ->
        position."""
        self._offered: list[tuple[int, int]] = []
        """A heap of blocks that may be scheduled, those with the most runs left first: (-runs, block). Outdated entries
        are skipped.
        """
        self._losses = Counter[tuple[int, int]]()
        """Block and position of a run -> how many processes died during it."""
        for batch in todo:
            self._put(batch)

    def assign(self) -> Batch | None:
        """A batch for a process that is free; None if no block is free."""
        runs, number = self._runs(), self._next()
        if number is None:
            return None
        chosen = self._left.pop(number)
        self._runs_left -= len(chosen.wanted)
        scheduled, rest = chosen.split(runs)
        self._begun(scheduled)
        if rest.wanted:
            self._put(rest)
        return scheduled

    def _begun(self, scheduled: Batch) -> Batch:
        unreported = {scheduled.block.runs[position].sequence: position for position in scheduled.wanted}
        self._in_work[scheduled.number] = scheduled, unreported
        return scheduled

    def _next(self) -> int | None:
        """The idle block with the most runs left; for a single process the first block, because it makes whole
        blocks."""
        if self.processes == 1:
            return next((number for number in self._left if number not in self._in_work), None)
        while self._offered:
            runs, number = heapq.heappop(self._offered)
            if number not in self._in_work and number in self._left and len(self._left[number].wanted) == -runs:
                return number
        return None

    def _put(self, left: Batch) -> None:
        self._left[left.number] = left
        self._runs_left += len(left.wanted)
        self._offer(left.number)

    def _offer(self, number: int) -> None:
        if number in self._left and number not in self._in_work:
            heapq.heappush(self._offered, (-len(self._left[number].wanted), number))

    def _runs(self) -> int:
        if self.processes == 1 or len(self._left) <= self.processes:
            return self._runs_left  # no reason to hand blocks to other processes
        return max(1, self._runs_left // (_BATCHES * self.processes))

    def note_finished(self, run: Run) -> None:
        """Notes a finished run. The last run of a batch frees its process and its block."""
        _, unreported = self._in_work[run.block]
        del unreported[run.sequence]
        if not unreported:
            del self._in_work[run.block]
            self._offer(run.block)

    def freed(self, scheduled: Batch) -> None:
        """The process of this batch is free again. Its unreported runs were not begun and are scheduled again."""
        if (batch := self._taken_back(scheduled)) is not None:
            self._put(batch)

    def _taken_back(self, scheduled: Batch) -> Batch | None:
        """All remaining runs of the block, if some runs of this batch are unreported. These runs are no longer in
        progress."""
        in_work = self._in_work.get(scheduled.number)
        if in_work is None or not scheduled.wanted.keys() >= set(in_work[1].values()):
            return None  # it had reported all its runs; the block's runs in progress are another process's
        batch, unreported = self._in_work.pop(scheduled.number)
        rest = self._left.pop(scheduled.number, batch._replace(wanted={}))
        self._runs_left -= len(rest.wanted)
        return batch._replace(wanted={at: batch.wanted[at] for at in unreported.values()} | rest.wanted)

    def lost(self, scheduled: Batch) -> Batch | None:
        """The process of this batch is gone; its unreported runs are scheduled again. If this happened too often during
        one run, that run and all later ones of its block are given up: they count as in progress, and must be reported.
        """
        if (whole := self._taken_back(scheduled)) is None:
            return None
        at = scheduled.number, min(whole.wanted)
        self._losses[at] += 1
        if self._losses[at] == ATTEMPTS:
            return self._begun(whole)
        self._put(whole)
        return None

    @property
    def ended(self) -> bool:
        return not (self._left or self._in_work)
