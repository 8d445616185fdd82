"""A block of runs on simulated drives: made in order, saved after each, taken up again where it was left.

Every outcome follows from the scenario alone. A block whose saved drives are gone, foreign or too new is therefore made
again from its first run, and what is stored already is not stored twice.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import storagelab
from storagelab import _sim
from storagelab.errors import PreflightError, RunFailed
from storagelab.model.config import Config
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, PlannedRun
from storagelab.targets import Progress, Site, Target
from storagelab.targets.simulated.environment import describe
from storagelab.targets.simulated.measurement import measurement
from storagelab.targets.simulated.raw_io import raw_measurement, raw_scenario
from storagelab.targets.simulated.scenario import scale_of, scenario

STATE_FOLDER = "state"


def state_file(results: Path, block: int) -> Path:
    """Where the drives of a block are kept between two of its runs."""
    return results / STATE_FOLDER / f"block-{block}.bin"


def remove_states(results: Path, but: Collection[int] = ()) -> None:
    """Remove the drives of all blocks, `but` of these, and what was only half written when somebody was killed.

    Whoever calls holds the results: nobody else writes there.
    """
    kept = {state_file(results, block) for block in but}
    with suppress(FileNotFoundError):
        for file in (results / STATE_FOLDER).iterdir():
            if file not in kept and file.name.startswith("block-"):
                file.unlink(missing_ok=True)


def drives_lost(defect: str) -> str:
    """Why a run can't be made that comes after another one."""
    return f"its drives were lost in an earlier run of its block: {defect}"


class Block:
    """The runs of one block, all of them, in the plan's order."""

    def __init__(self, runs: Sequence[PlannedRun], cells: Mapping[str, Cell], site: Site, results: Path) -> None:
        """Raises PreflightError for a scenario that can't be."""
        self.runs, self.cells = runs, cells
        self.raw_io = cells[runs[0].cell_id].config.target.raw_io
        self.content = (raw_scenario if self.raw_io else scenario)(runs, cells, site.spec_folder)
        self.scale = scale_of(cells[runs[0].cell_id].config)
        self._scenario = json.dumps(self.content, sort_keys=True)
        words = f"{storagelab.__version__}\n{self._scenario}"
        self._identity = hashlib.sha256(words.encode()).hexdigest()
        self._file = state_file(results, runs[0].block)
        self._block: _sim.Block | _sim.RawBlock | None = None
        self._defect = ""
        self.position = 0
        """Of the run that is next."""

    def begin(self, first: int) -> None:
        """Set up for the run at position `first`, or as near before it as can be: `position` says where."""
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
        self.position, self._defect = runs_done, defect

    def _made(self, runs_done: int = 0, drives: list[bytes] | None = None) -> _sim.Block | _sim.RawBlock:
        try:
            return (_sim.RawBlock if self.raw_io else _sim.Block)(self._scenario, runs_done, drives)
        except _sim.Refused as refusal:
            raise PreflightError(refusal.what, key=refusal.place) from None

    @contextmanager
    def opened(self, config: Config, _site: Site) -> Iterator[Target]:
        """The target of the next run, whose cell must be of `config`. There is nothing to set up or to remove."""
        planned = self.runs[self.position]
        assert self.cells[planned.cell_id].config == config
        yield _Next(self, planned)

    def make(self, progress: Progress) -> dict[str, object]:
        """The outcome of the next run, its drives saved. Raises RunFailed, and for all that follow, for a defect."""
        self.position += 1
        if self._defect:
            raise RunFailed(drives_lost(self._defect))
        assert self._block is not None
        try:
            text = self._block.run_next(progress)
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
        header = {"identity": self._identity, "runs_done": self.position, "bytes": [len(drive) for drive in drives],
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

    def __init__(self, block: Block, planned: PlannedRun) -> None:
        self.block, self.planned = block, planned

    def describe(self) -> dict[str, object]:
        return describe(self.block.content, self.block.cells[self.planned.cell_id].config)

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:
        assert (cell.cell_id, repetition, seed) == (self.planned.cell_id, self.planned.repetition, self.planned.seed)
        outcome = self.block.make(progress)
        if outcome["failure"]:
            raise RunFailed(str(outcome["failure"]))
        return (raw_measurement if self.block.raw_io else measurement)(outcome, cell, self.describe())
