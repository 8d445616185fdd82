"""A block of runs on simulated drives: made in order, saved after each, taken up again where it was left.

Every outcome follows from the scenario alone. A block whose saved drives are gone, foreign or too new is therefore made
again from its first run, and what is stored already is not stored twice.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import storagelab
from storagelab import _sim
from storagelab.errors import PreflightError, RunFailed
from storagelab.model import Cell, Measurement, PlannedRun
from storagelab.targets import Progress, Site, Target
from storagelab.targets.simulated.environment import describe
from storagelab.targets.simulated.measurement import measurement
from storagelab.targets.simulated.scenario import scale_of, scenario

STATE_FOLDER = "state"


class Block:
    """The runs of one block, all of them, in the plan's order."""

    def __init__(self, runs: Sequence[PlannedRun], cells: Mapping[str, Cell], site: Site, results: Path) -> None:
        """Raises PreflightError for a scenario that can't be."""
        self.runs, self.cells = runs, cells
        self.content = scenario(runs, cells, site.spec_folder)
        self.scale = scale_of(cells[runs[0].cell_id].config)
        self._scenario = json.dumps(self.content, sort_keys=True)
        words = f"{storagelab.__version__}\n{self._scenario}"
        self._identity = hashlib.sha256(words.encode()).hexdigest()
        self._file = results / STATE_FOLDER / f"block-{runs[0].block}.bin"
        self._block: _sim.Block | None = None

    def begin(self, first: int) -> None:
        """Set up for the run at position `first`, or as near before it as can be: `position` says where."""
        saved = self._saved()
        if saved is not None and saved[0] <= first:
            self._block = _made(self._scenario, *saved)
        else:
            self._block = _made(self._scenario)

    @property
    def position(self) -> int:
        """Of the run that is next."""
        assert self._block is not None
        return self._block.runs_done

    @contextmanager
    def opened(self, planned: PlannedRun) -> Iterator[Target]:
        """The target of the next run, which must be `planned`."""
        assert self.runs[self.position] == planned
        yield _Next(self, planned)

    def make(self, progress: Progress) -> dict[str, object]:
        """The outcome of the next run, its drives saved. Raises RunFailed if the simulator contradicts itself."""
        assert self._block is not None
        try:
            text = self._block.run_next(progress)
        except RuntimeError as error:
            raise RunFailed(str(error)) from error
        assert text is not None
        self._save()
        outcome: dict[str, object] = json.loads(text)
        return outcome

    # --- saved drives ------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """Written beside and put into place, so that a kill leaves the state before or the one after."""
        assert self._block is not None
        drives = self._block.state()
        header = {"identity": self._identity, "runs_done": self.position, "bytes": [len(drive) for drive in drives]}
        beside = self._file.with_suffix(f".{os.getpid()}.part")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as file:
                file.write(json.dumps(header).encode() + b"\n")
                file.writelines(drives)
            beside.replace(self._file)
        except OSError as error:
            raise RunFailed(f"the drives can't be saved in {self._file}: {error.strerror}") from error

    def _saved(self) -> tuple[int, list[bytes]] | None:
        try:
            head, _, rest = self._file.read_bytes().partition(b"\n")
            header = json.loads(head)
            lengths = [int(length) for length in header["bytes"]]
            if header["identity"] != self._identity or sum(lengths) != len(rest):
                return None
            ends = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
            return int(header["runs_done"]), [rest[a:b] for a, b in itertools.pairwise(ends)]
        except (OSError, ValueError, KeyError, TypeError):
            return None


class _Next:
    """The next run of a block, as a target."""

    def __init__(self, block: Block, planned: PlannedRun) -> None:
        self.block, self.planned = block, planned

    def describe(self) -> dict[str, object]:
        return describe(self.block.content, self.block.cells[self.planned.cell_id].config)

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:
        assert (cell.cell_id, repetition, seed) == (self.planned.cell_id, self.planned.repetition, self.planned.seed)
        outcome = self.block.make(progress)
        if outcome["failure"]:
            raise RunFailed(str(outcome["failure"]))
        return measurement(outcome, cell, self.describe())


def _made(scenario: str, runs_done: int = 0, drives: list[bytes] | None = None) -> _sim.Block:
    try:
        return _sim.Block(scenario, runs_done, drives)
    except _sim.Refused as refusal:
        raise PreflightError(refusal.what, key=refusal.place) from None
