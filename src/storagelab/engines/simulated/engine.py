"""Makes the runs of a block on simulated drives, in order. Saves the drives after each run, so that it can resume.

Every outcome depends only on the scenario. So if the saved drives of a block are missing, belong to another block or
are of a later run, the block is made again from its first run. Results that are already stored are not stored again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from storagelab import __version__, _sim
from storagelab.engines.simulated import preflight
from storagelab.engines.simulated.scenario import switches_set, world_of
from storagelab.errors import PreflightError, RunFailed
from storagelab.model.config import Config
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, PlannedBlock, PlannedRun
from storagelab.model.target import Progress, State, Target
from storagelab.model.volume import VolumeConfig
from storagelab.profiles import Shelf
from storagelab.run.engine import Engine
from storagelab.run.scheduling import drives_lost
from storagelab.volumes.folders import Site


class SimulatedBlock:
    """All runs of one block, in the order of the plan."""

    def __init__(self, block: PlannedBlock, site: Site, state: State) -> None:
        """Makes the block's scenario. `state` stores the drives. Raises PreflightError if this block is impossible."""
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
        """The positions of the runs that must be made. They begin with the run after the saved drives, or with the
        block's first run if no saved drives can be used.
        """
        self._begin(min(wanted))
        return range(self._position, max(wanted) + 1)

    def _begin(self, first: int) -> None:
        """Sets the block up so that its next run is at position `first`, or at the nearest possible one before it."""
        saved = self._saved()
        if saved is not None and saved[0] <= first:
            try:
                runs_done, drives, defect = saved
                if not defect:
                    self._block = self._made(runs_done, drives)
                self._position, self._defect = runs_done, defect
                return
            except PreflightError:
                pass  # the saved drives are damaged, so the block starts again from its first run
        self._block = self._made()

    def _made(self, runs_done: int = 0, drives: list[bytes] | None = None) -> _sim.Block | _sim.RawBlock:
        try:
            return self.world.core(self._scenario, runs_done, drives)
        except _sim.Refused as refusal:
            raise PreflightError(refusal.what, key=refusal.place) from None

    @contextmanager
    def open(self, planned: PlannedRun) -> Iterator[Target]:
        """The target of the next run. A simulated run needs no set-up and leaves nothing to remove."""
        assert self.planned.runs[self._position] == planned
        yield _Next(self, self.planned.cell_of(planned))

    def make(self, progress: Progress) -> dict[str, object]:
        """Makes the next run and saves its drives. Returns the core's outcome.

        If a drive fails, raises RunFailed for this run and for all later runs.
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
            "identity": self._histories.until(self._position), "runs_done": self._position,
            "bytes": [len(drive) for drive in drives], "defect": self._defect,
        }  # fmt: skip
        with suppress(OSError):  # without the saved drives, the runs are made again
            self._state.write([json.dumps(header).encode() + b"\n", *drives])

    def _saved(self) -> tuple[int, list[bytes], str] | None:
        """The number of finished runs, the saved drives, and the defect that made the drives fail, or "".

        Returns None if no drives of this block are saved.
        """
        try:
            head, _, rest = self._state.read().partition(b"\n")
            header = json.loads(head)
            lengths = [int(length) for length in header["bytes"]]
            is_whole = min(lengths, default=0) >= 0 and sum(lengths) == len(rest)
            if not is_whole or header["identity"] != self._histories.until(int(header["runs_done"])):
                return None
            ends = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
            drives = [rest[a:b] for a, b in itertools.pairwise(ends)]
            return int(header["runs_done"]), drives, str(header["defect"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None


class _Histories:
    """Identifies the history of the drives after each number of runs. A history does not depend on later runs."""

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
    """The target that makes the next run of a block."""

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
    """The block, ready to make its runs. It saves its drives in `state` after each run."""
    yield SimulatedBlock(block, site, state)


# --- one run alone ---------------------------------------------------------------------------------------------------
#
# Makes a single run of a cell on new drives, and returns the complete input and output of the core. This is for
# inspecting the simulator.


class SingleRun(NamedTuple):
    """The core's scenario with all its defaults, and the core's outcome."""

    scenario: dict[str, Any]
    outcome: dict[str, Any]


def make_one(block: PlannedBlock, cell: Cell, folder: Shelf, *, every_io: bool) -> SingleRun:
    """Makes the cell's first run of this block. The drives are as at the beginning of the block.

    With `every_io`, the outcome lists each I/O. Raises PreflightError, which names the key, if the plan can't be
    simulated.
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


# --- environment -----------------------------------------------------------------------------------------------------
#
# The environment of a simulated run: the server and the drives of the scenario, and the simulator. It has no facts
# about this machine.


def describe(content: Mapping[str, Any], config: Config) -> dict[str, object]:
    """The environment of a block, from its scenario `content`.

    The environment has only those costs and switches that the spec sets. If several drives are identical, it has only
    one of them.
    """
    singles = config.single_drives
    drives = {singles.get(name, name): _drive(drive) for name, drive in content["drives"].items()}
    for name, drive in drives.items():
        if name in config.drives and config.drives[name].count > 1:
            drive["count"] = config.drives[name].count
    scale = config.target.world_scale
    if (server := config.server) is None or config.target.raw_io:
        facts = {"engine": "raw I/O on simulated drives", "scale": scale, "prepared": content.get("prepared", "filled")}
    else:
        facts = {
            "engine": "simulated server", "cores": server.cores, "memory_bytes": server.memory_bytes, "scale": scale,
            "switches": switches_set(server), "costs": server.costs,
        }  # fmt: skip
    return {
        "storagelab": {"version": __version__}, "server": facts, "drives": drives,
        "volumes": {name: _volume(volume, config.volumes[name]) for name, volume in content["volumes"].items()},
    }  # fmt: skip


def _volume(volume: Mapping[str, Any], declared: VolumeConfig) -> dict[str, object]:
    """The facts about a volume. Identical drives have the name that they share in the spec."""
    facts = {
        name: value for name, value in volume.items() if name in ("raid", "stripe_bytes", "arrays", "offset_bytes")
    }
    for name in ("cache", "link"):
        if name in volume:
            facts |= {f"{name}_{figure}": value for figure, value in volume[name].items()} or {
                name: "with its defaults"
            }
    lost = {"lost": ", ".join(declared.lost)} if declared.lost else {}
    return {"drives": ", ".join(declared.drives or ()), **facts, **lost}


_HISTORIES = {
    "formatted": "none: as it comes from the factory",
    "filled": "every address written once, in order",
    "aged": "years of writes at random",
}


def _drive(drive: Mapping[str, Any]) -> dict[str, object]:
    profile, is_disk = drive["profile"], drive["profile"]["kind"] == "disk"
    named = {"title": profile["title"], "profile": profile["name"]}
    if profile["kind"] != "flash":
        sizes = profile["platters" if is_disk else "host"]
        order = {"order": drive["order"] or profile["electronics"]["order"]["value"]} if is_disk else {}
        return {**named, **{name: sizes[name]["value"] for name in ("usable_bytes", "sector_bytes")}, **order}
    history = {"history": _HISTORIES[drive["history"]]} if "history" in drive else {}
    return {
        **named, "format": f"{drive['format']}, by the operating system alone" if history else drive["format"],
        **history, "usable_bytes": profile["formats"][drive["format"]]["value"], "driver": drive["driver"],
        "sector_bytes": drive["sector_bytes"],
        "trim": profile["trim"]["value"] if drive["trim"] is None else drive["trim"],
    }  # fmt: skip


ENGINE = Engine(check=preflight.check, open_block=opened)
