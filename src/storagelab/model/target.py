"""The interface to the measured object: a real server or simulated drives. Code above this interface does not know
which of the two it is.

preflight(...)                             only checks, and names obstacles
with open_block(...) as block:             brings drives or servers into the state that the first run needs
    with block.open(planned) as target:    sets up one run's layout, and removes it at the end, even after an error
        target.run(...)                    returns one Measurement
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import NamedTuple, Protocol, TypeVar

from pydantic import ConfigDict, Field

from storagelab.errors import Placed
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, PlannedRun
from storagelab.model.values import Frozen

Tell = Callable[[str, int, int], None]
"""A function that is called before each step, for example with ("checking settings", 34, 200): 34 of 200 steps are
done."""

_T = TypeVar("_T")
_TELL: ContextVar[Tell | None] = ContextVar("tell", default=None)


@contextlib.contextmanager
def reporting_to(tell: Tell | None) -> Iterator[None]:
    """Reports the steps to `tell` while the context lasts; with None, to nobody."""
    before = _TELL.set(tell)
    try:
        yield
    finally:
        _TELL.reset(before)


def step(what: str, done: int, of: int) -> None:
    tell = _TELL.get()
    if tell is not None:
        tell(what, done, of)


def each(items: Collection[_T], what: str) -> Iterator[_T]:
    """Yields the items, and reports before each item how many are done."""
    for done, item in enumerate(items):
        step(what, done, len(items))
        yield item


Progress = Callable[[int], None]
"""A function that is called with 0 when the load begins (or its warm-up), and then a few times a second with the work
done so far, in the unit of the run's workload."""


class VolumeNeed(Frozen):
    """The largest disk space that a cell needs on one volume at once, and the free space; None if unknown."""

    name: str
    path: str
    device: str
    needed_bytes: int | None
    free_bytes: int | None
    lacks: str = ""
    """A note that the space is too small, if the runs are made nevertheless."""


class CheckpointCycle(NamedTuple):
    """The longest time between a server's checkpoints, and the bytes of log after which a checkpoint comes earlier.
    Also the names of the two settings.
    """

    longest_s: float
    log_bytes: float
    time_setting: str
    log_setting: str


class ClaimedDrive(Frozen):
    """A drive whose whole content the plan destroys, as texts."""

    serial: str
    text: str


class Preflight(Frozen):
    """The results of the checks, as far as they could be made. `notes` are only information. If engines are compared,
    `durability` says which data survive a crash of each engine. `blocks_at_once`: the number of simulated blocks that
    fit into this machine's memory. `cycles`: by cell, the checkpoint cycle of the server, for cells whose runs have a
    set time, if known.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    server: str
    volumes: tuple[VolumeNeed, ...]
    notes: tuple[str, ...] = ()
    durability: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    """The steps on volumes before each run."""
    objects: tuple[str, ...] = ()
    """The volume of each table or index, if layouts place single objects."""
    drives: tuple[ClaimedDrive, ...] = ()
    """The drives on which everything is destroyed."""
    blocks_at_once: int | None = None
    cycles: dict[str, CheckpointCycle] = Field(default_factory=dict)
    log_rooms: dict[str, float] = Field(default_factory=dict)
    """The bytes of redo log after which each cell's server must write pages, for the same cells, if known."""
    least_s: dict[str, float] = Field(default_factory=dict)
    """The shortest time of each cell's runs, if known: a trace's requests have their own times."""
    lacks: tuple[Placed, ...] = ()
    """What this machine or a server lacks, so that nothing can run."""


class Target(Protocol):
    """One cell's layout, set up."""

    def describe(self) -> dict[str, object]:
        """The environment: host, volumes, server with its non-default settings, storagelab's version. JSON-able."""
        ...

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:
        """Runs the load once, and measures. Raises RunFailed with the reason."""
        ...


class Block(Protocol):
    """The runs of one block, numbered by their positions in the block."""

    def needed(self, wanted: Collection[int]) -> Sequence[int]:
        """The runs to make, in order, to get the `wanted` runs. They include earlier runs whose effect on the drives is
        lost.
        """
        ...

    def open(self, planned: PlannedRun) -> AbstractContextManager[Target]:
        """The target of the next needed run. Entering sets it up, or raises RunFailed; leaving removes it."""
        ...


class State(Protocol):
    """Where a block may keep the state of its drives, so that it can be resumed later, here or elsewhere."""

    def read(self) -> bytes:
        """The last written state; empty if it is lost."""
        ...

    def write(self, parts: Sequence[bytes]) -> None:
        """Raises OSError."""
        ...
