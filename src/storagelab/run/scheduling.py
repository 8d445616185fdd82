"""Assigns runs to processes. The runs of each block are assigned in batches, together with the state of the block's
drives. The number of processes may change.

States are compressed when they are sent. A state of drives with little data shrinks to a hundredth. Code that only
passes on a state does not decompress it, so a file may contain either form."""

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
"""The first bytes of zlib's output at its fastest level. No uncompressed state begins with these bytes, because states
begin with JSON."""
_MOST_BYTES = 2**32
"""A larger state counts as damaged. A file of this size may decompress to a thousand times this size, and somebody else
may have made the file."""


class InFile(NamedTuple):
    """A state in a file. The caller removes the file."""

    path: Path

    def read(self) -> bytes:
        """Returns the state, decompressed. It is empty if there is no readable file."""
        return _plain(self.kept())

    def kept(self) -> bytes:
        """Returns the state as it is stored, compressed or not. Only a regular file is read, because a FIFO may have no
        writer, and a device may never end.
        """
        try:
            with open(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
                facts = os.fstat(file.fileno())
                return file.read() if stat.S_ISREG(facts.st_mode) and facts.st_size <= _MOST_BYTES else b""
        except OSError:
            return b""

    def write(self, parts: Sequence[bytes]) -> None:
        """Replaces the state. If the process is killed meanwhile, the file has either the old or the new state. Raises
        OSError.
        """
        write_whole(self.path, parts, within=self.path.parents[1], synced=False)

    def __str__(self) -> str:
        return str(self.path)


class InMemory:
    """A state that is kept in memory. It may be compressed."""

    def __init__(self, kept: bytes = b"") -> None:
        self._parts: Sequence[bytes] = (kept,)

    def read(self) -> bytes:
        return _plain(self.kept())

    def kept(self) -> bytes:
        """Returns the state as it is stored. It is compressed if it was sent."""
        return b"".join(self._parts)

    def write(self, parts: Sequence[bytes]) -> None:
        self._parts = tuple(parts)

    def __getstate__(self) -> dict[str, Sequence[bytes]]:
        """Compresses the state, because it is sent to another process."""
        kept = self.kept()
        return {"_parts": (kept if not kept or is_packed(kept) else zlib.compress(kept, level=1),)}

    def __str__(self) -> str:
        return "memory"


DriveState = InFile | InMemory


def is_packed(kept: bytes) -> bool:
    return kept.startswith(_PACKED)


def _plain(kept: bytes) -> bytes:
    """Returns the decompressed state. It is empty if the state is damaged, or too large for a state of drives."""
    if not is_packed(kept):
        return kept
    with suppress(zlib.error):
        unpacking = zlib.decompressobj()
        plain = unpacking.decompress(kept, _MOST_BYTES)
        if unpacking.eof:
            return plain
    return b""


def drives_lost(defect: str) -> str:
    """Returns the reason why runs fail after a failure of an earlier run, if the drives keep their state
    between runs.
    """
    return f"its drives were lost in an earlier run of its block: {defect}"


_BATCHES = 8
"""The size of a batch is the remaining runs divided by this number and by the number of processes. So a batch is small,
and all processes end at about the same time. But it takes long compared with loading the drives: loading takes 13 ms,
and a run half a second at scale 64. The value 4 is equally good for few processes. But if 8 processes make 9 blocks,
the last block would then begin too late."""
ATTEMPTS = 3
"""If this many processes end during a run, the run is given up."""


def pending(plan: Plan, stored: Mapping[tuple[str, int], tuple[int, str]], *, again: bool = False) -> list[PlannedRun]:
    """Returns the runs that are still to be made, in order. These are the runs that are not stored. With `again`, runs
    whose latest attempt failed are also included.
    """
    return [
        planned
        for planned in plan.runs
        if (latest := stored.get((planned.cell_id, planned.repetition))) is None or (again and latest[1] == "failed")
    ]


class Batch(NamedTuple):
    """Wanted runs of a block. Each has the number of its attempt. `state` is the place of the drives' state."""

    block: PlannedBlock
    wanted: dict[int, int]
    """Maps a run's position in the block to the number of its attempt."""
    site: Site
    state: DriveState
    """The place where the block keeps the state of its drives."""
    budget_s: float = math.inf
    """After this many seconds, no further run begins. At least one run is made in any case."""

    @property
    def number(self) -> int:
        return self.block.number

    def split(self, runs: int) -> tuple[Batch, Batch]:
        """Splits the batch after its first `runs` wanted runs."""
        wanted = sorted(self.wanted.items())
        return self._replace(wanted=dict(wanted[:runs])), self._replace(wanted=dict(wanted[runs:]))


class Schedule:
    """Chooses the batch for a free process: the next few runs of the idle block that has the most runs left.

    So all blocks come to their end at about the same time, and no long block is left over. Batches become smaller
    towards the end.
    """

    def __init__(self, todo: Sequence[Batch], processes: int) -> None:
        self.processes = processes
        self._left: dict[int, Batch] = {}
        """Maps the number of a block to its runs that are not scheduled yet."""
        self._runs_left = 0
        self._in_work: dict[int, tuple[Batch, dict[int, int]]] = {}
        """Maps the number of a block to its scheduled batch, and to the runs that this batch has not reported yet
        (sequence -> position)."""
        self._offered: list[tuple[int, int]] = []
        """A heap of blocks that may be scheduled: (-runs, block). The block with the most runs left comes first.
        Outdated entries are skipped.
        """
        self._losses = Counter[tuple[int, int]]()
        """Counts how many processes died during a run. The key is the number of the block and the run's
        position in it.
        """
        for batch in todo:
            self._put(batch)

    def assign(self) -> Batch | None:
        """Returns a batch for a free process, or None if no block is free."""
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
        """Returns the number of the idle block with the most runs left. With a single process, returns the first block
        instead, because this process makes whole blocks."""
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
            return self._runs_left  # no other process needs work
        return max(1, self._runs_left // (_BATCHES * self.processes))

    def note_finished(self, run: Run) -> None:
        """Notes a finished run. After the last run of a batch, its block is free again."""
        _, unreported = self._in_work[run.block]
        del unreported[run.sequence]
        if not unreported:
            del self._in_work[run.block]
            self._offer(run.block)

    def freed(self, scheduled: Batch) -> None:
        """Notes that the process of this batch is free again. Runs of the batch that were not reported were not begun,
        and are scheduled again.
        """
        if (batch := self._taken_back(scheduled)) is not None:
            self._put(batch)

    def _taken_back(self, scheduled: Batch) -> Batch | None:
        """Takes back a batch that still has unreported runs, so that these runs no longer count as in progress. Returns
        all remaining runs of the block, or None if the batch has reported all its runs."""
        in_work = self._in_work.get(scheduled.number)
        if in_work is None or not scheduled.wanted.keys() >= set(in_work[1].values()):
            return None  # another process works on the block by now
        batch, unreported = self._in_work.pop(scheduled.number)
        rest = self._left.pop(scheduled.number, batch._replace(wanted={}))
        self._runs_left -= len(rest.wanted)
        return batch._replace(wanted={at: batch.wanted[at] for at in unreported.values()} | rest.wanted)

    def lost(self, scheduled: Batch) -> Batch | None:
        """Notes that the process of this batch has died. Unreported runs of the batch are scheduled again. If too many
        processes died during one run, this run and all later runs of its block are given up and returned. They count as
        in progress, and the caller must report them.
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
