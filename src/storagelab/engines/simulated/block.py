"""A block of runs on simulated drives: makes them in order, saves the drives after each, and can resume.

Every outcome follows from the scenario alone. So a block whose saved drives are missing, foreign or too new is made
again from its first run; results that are already stored are not stored twice.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from storagelab import _sim
from storagelab.engines.simulated.environment import describe
from storagelab.engines.simulated.scenario import world_of
from storagelab.errors import PreflightError, RunFailed
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, PlannedBlock, PlannedRun
from storagelab.model.target import Progress, State, Target
from storagelab.profiles import Shelf
from storagelab.run.scheduling import drives_lost
from storagelab.version import __version__
from storagelab.volumes.folders import Site


class SimulatedBlock:
    """All runs of one block, in the plan's order."""

    def __init__(self, block: PlannedBlock, site: Site, state: State) -> None:
        """Makes the block's scenario; `state` holds the saved drives. Raises PreflightError if it is impossible."""
        self.planned = block
        self.world = world_of(block.first_cell.config)
        self.scale = block.first_cell.config.target.world_scale
        self.content = self.world.scenario(block, site.profiles)
        self._scenario = json.dumps(self.content, sort_keys=True)
        self._histories = _Histories(self.content, self.world.runs)
        self._state = state
        self._block: _sim.Block | _sim.RawBlock | None = None
        self._defect = ""
        self._position = 0
        """The position of the next run."""

    def needed(self, wanted: Collection[int]) -> Sequence[int]:
        """The runs from the one that the saved drives are ready for, or from the block's first."""
        self._begin(min(wanted))
        return range(self._position, max(wanted) + 1)

    def _begin(self, first: int) -> None:
        """Set up for the run at position `first`, or the nearest possible one before it."""
        saved = self._saved()
        if saved is not None and saved[0] <= first:
            try:
                runs_done, drives, defect = saved
                if not defect:
                    self._block = self._made(runs_done, drives)
                self._position, self._defect = runs_done, defect
                return
            except PreflightError:
                pass  # damaged: make the first runs again
        self._block = self._made()

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
        """Makes the next run and saves its drives. A defect of the drives raises RunFailed, for this run and all
        later ones.
        """
        self._position += 1
        if self._defect:
            raise RunFailed(drives_lost(self._defect))
        assert self._block is not None
        try:
            text = self._block.run_next(lambda done: progress(done * self.scale))
        except RuntimeError as error:
            self._defect = str(error)
            self._save()
            raise RunFailed(self._defect) from error
        assert text is not None
        self._save()
        outcome: dict[str, object] = json.loads(text)
        return outcome

    # --- saved drives ------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        assert self._block is not None
        drives = [] if self._defect else self._block.state()
        header = {
            "identity": self._histories.until(self._position),
            "runs_done": self._position,
            "bytes": [len(drive) for drive in drives],
            "defect": self._defect,
        }
        with suppress(OSError):  # saved drives only save time
            self._state.write([json.dumps(header).encode() + b"\n", *drives])

    def _saved(self) -> tuple[int, list[bytes], str] | None:
        """The number of runs done, the drives, and the defect that lost them, if any."""
        try:
            head, _, rest = self._state.read().partition(b"\n")
            header = json.loads(head)
            lengths = [int(length) for length in header["bytes"]]
            if min(lengths, default=0) < 0 or sum(lengths) != len(rest):
                return None
            if header["identity"] != self._histories.until(int(header["runs_done"])):
                return None
            ends = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
            drives = [rest[a:b] for a, b in itertools.pairwise(ends)]
            return int(header["runs_done"]), drives, str(header["defect"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None


class _Histories:
    """Names the history of the drives after a number of runs. It does not depend on the runs that follow."""

    def __init__(self, content: Mapping[str, object], runs: str) -> None:
        """`runs` is the key of the block's runs."""
        made = content[runs]
        assert isinstance(made, list)
        before = json.dumps({**content, runs: []}, sort_keys=True)
        self._lines = [f"{__version__}\n{before}\n", *(f"{json.dumps(run, sort_keys=True)}\n" for run in made)]

    def until(self, runs_done: int) -> str:
        lived = "".join(self._lines[: 1 + max(0, runs_done)])
        return f"{hashlib.sha256(lived.encode()).hexdigest()} {runs_done}"


class _Next:
    """The next run of a block, as a target."""

    def __init__(self, block: SimulatedBlock, cell: Cell) -> None:
        self._block, self._cell = block, cell

    def describe(self) -> dict[str, object]:
        return describe(self._block.content, self._cell.config)

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:
        outcome = self._block.make(progress)
        if outcome["failure"]:
            raise RunFailed(str(outcome["failure"]))
        return self._block.world.measurement(outcome, cell, self.describe())


@contextmanager
def opened(block: PlannedBlock, site: Site, state: State) -> Iterator[SimulatedBlock]:
    """Opens the block; saves its drives in `state` after each run."""
    yield SimulatedBlock(block, site, state)


# --- one run alone ---------------------------------------------------------------------------------------------------
#
# One run of one cell, alone on new drives, with the core's whole input and output: for those who want to see what the
# simulator does.


class SingleRun(NamedTuple):
    """The core's scenario, with its defaults filled in, and the core's outcome."""

    scenario: dict[str, Any]
    outcome: dict[str, Any]


def make_one(block: PlannedBlock, cell: Cell, folder: Shelf, *, every_io: bool) -> SingleRun:
    """The cell's first run of this block, on the drives as the block begins with them. `every_io` lists each I/O in
    the outcome. Raises PreflightError that names the key if it can't be simulated.
    """
    world = world_of(cell.config)
    position = next(place for place, planned in enumerate(block.runs) if planned.cell_id == cell.cell_id)
    content = world.scenario(block, folder)
    runs = content[world.runs]
    assert isinstance(runs, list)
    text = json.dumps({**content, world.runs: [runs[position]]}, sort_keys=True)
    try:
        resolved = json.loads(_sim.resolved(text, raw_io=cell.config.target.raw_io))
        made = world.core(text).run_next(every_io=every_io)
    except _sim.Refused as refusal:
        raise PreflightError(refusal.what, key=refusal.place) from None
    assert made is not None
    return SingleRun(resolved, json.loads(made))
