"""A block of runs on simulated drives: made in order, saved after each, taken up again where it was left.

Every outcome follows from the scenario alone. A block whose saved drives are gone, foreign or too new is therefore made
again from its first run, and what is stored already is not stored twice.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import storagelab
from storagelab import _sim
from storagelab.errors import PreflightError, RunFailed
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, PlannedBlock, PlannedRun
from storagelab.targets import Progress, Site, Target
from storagelab.targets.blocks import drives_lost
from storagelab.targets.simulated.environment import describe
from storagelab.targets.simulated.worlds import world_of


class SimulatedBlock:
    """The runs of one block, all of them, in the plan's order."""

    def __init__(self, block: PlannedBlock, site: Site, state: Path) -> None:
        """`state` is the file that the drives are saved in. Raises PreflightError for a scenario that can't be."""
        self.planned = block
        self.world = world_of(block.first_cell.config)
        self.scale = block.first_cell.config.target.world_scale
        self.content = self.world.scenario(block, site.spec_folder)
        self._scenario = json.dumps(self.content, sort_keys=True)
        words = f"{storagelab.__version__}\n{self._scenario}"
        self._identity = hashlib.sha256(words.encode()).hexdigest()
        self._file = state
        self._block: _sim.Block | _sim.RawBlock | None = None
        self._defect = ""
        self._position = 0
        """Of the run that is next."""

    def needed(self, wanted: Collection[int]) -> Sequence[int]:
        """From the run that the saved drives come before, or from the first one of the block."""
        self._begin(min(wanted))
        return range(self._position, max(wanted) + 1)

    def _begin(self, first: int) -> None:
        """Set up for the run at position `first`, or as near before it as can be."""
        saved = self._saved()
        if saved is not None and saved[0] <= first:
            try:
                self._take_up(*saved)
                return
            except PreflightError:
                pass  # damaged: its first runs are made again
        self._block = self._made()

    def _take_up(self, runs_done: int, drives: list[bytes], defect: str) -> None:
        if not defect:
            self._block = self._made(runs_done, drives)
        self._position, self._defect = runs_done, defect

    def _made(self, runs_done: int = 0, drives: list[bytes] | None = None) -> _sim.Block | _sim.RawBlock:
        try:
            return self.world.core(self._scenario, runs_done, drives)
        except _sim.Refused as refusal:
            raise PreflightError(refusal.what, key=refusal.place) from None

    @contextmanager
    def open(self, planned: PlannedRun) -> Iterator[Target]:
        """The target of the next run. There is nothing to set up or to remove."""
        assert self.planned.runs[self._position] == planned
        yield _Next(self, self.planned.cell_of(planned))

    def make(self, progress: Progress) -> dict[str, object]:
        """The outcome of the next run, its drives saved. Raises RunFailed, and for all that follow, for a defect."""
        self._position += 1
        if self._defect:
            raise RunFailed(drives_lost(self._defect))
        assert self._block is not None
        try:
            text = self._block.run_next(lambda rows: progress(rows * self.scale))
        except RuntimeError as error:
            self._defect = str(error)
            with suppress(RunFailed):  # what can't be saved is found again
                self._save()
            raise RunFailed(self._defect) from error
        assert text is not None
        self._save()
        outcome: dict[str, object] = json.loads(text)
        return outcome

    # --- saved drives ------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """Written beside and put into place, so that a kill leaves the state before or the one after."""
        assert self._block is not None
        drives = [] if self._defect else self._block.state()
        header = {"identity": self._identity, "runs_done": self._position, "bytes": [len(drive) for drive in drives],
                  "defect": self._defect}  # fmt: skip
        beside = self._file.with_suffix(f".{os.getpid()}.part")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as file:
                file.write(json.dumps(header).encode() + b"\n")
                file.writelines(drives)
            beside.replace(self._file)
        except OSError as error:
            raise RunFailed(f"the drives can't be saved in {self._file}: {error.strerror}") from error

    def _saved(self) -> tuple[int, list[bytes], str] | None:
        """Runs done, the drives, and the defect that they were lost in, if any."""
        try:
            head, _, rest = self._file.read_bytes().partition(b"\n")
            header = json.loads(head)
            lengths = [int(length) for length in header["bytes"]]
            if header["identity"] != self._identity or sum(lengths) != len(rest):
                return None
            ends = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
            drives = [rest[a:b] for a, b in itertools.pairwise(ends)]
            return int(header["runs_done"]), drives, str(header["defect"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


class _Next:
    """The next run of a block, as a target."""

    def __init__(self, block: SimulatedBlock, cell: Cell) -> None:
        self._block, self._cell = block, cell

    def describe(self) -> dict[str, object]:
        return describe(self._block.content, self._cell.config)

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:  # noqa: ARG002 - known by its place
        outcome = self._block.make(progress)
        if outcome["failure"]:
            raise RunFailed(str(outcome["failure"]))
        return self._block.world.measurement(outcome, cell, self.describe())


@contextmanager
def opened(block: PlannedBlock, site: Site, state: Path) -> Iterator[SimulatedBlock]:
    """What its drives remember is in `state` after each run."""
    yield SimulatedBlock(block, site, state)
