"""The interface to what is measured: a real server or simulated drives. Callers need not distinguish between the two.

preflight(...)                             makes all checks, changes nothing, and names obstacles
with open_block(...) as block:             brings drives or servers into the state that the first run needs
    with block.open(planned) as target:    sets up one run's layout, and removes it at the end, even after an error
        target.run(...)                    returns one Measurement"""

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
"""A function that is called before each step. For example, ("checking settings", 34, 200) means that 34 of 200 steps
are done."""

_T = TypeVar("_T")
_TELL: ContextVar[Tell | None] = ContextVar("tell", default=None)


@contextlib.contextmanager
def reporting_to(tell: Tell | None) -> Iterator[None]:
    """Reports the steps to `tell` while the context lasts. If `tell` is None, steps are not reported."""
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
    """Yields the items. Before each item, reports how many items are done."""
    for done, item in enumerate(items):
        step(what, done, len(items))
        yield item


Progress = Callable[[int], None]
"""A function that receives the work done so far, in the unit of the run's workload. It is called with 0 when the load
or its warm-up begins, and then a few times per second."""


class VolumeNeed(Frozen):
    """The largest disk space that a cell needs on one volume at any time, and the free space there. A figure is None if
    it is unknown.
    """

    name: str
    path: str
    device: str
    needed_bytes: int | None
    free_bytes: int | None
    lacks: str = ""
    """A text that says that the space is too small, if the runs are made nevertheless."""


class CheckpointCycle(NamedTuple):
    """The longest time between a server's checkpoints, and the bytes of log after which a checkpoint comes earlier.
    Also the names of the two settings that set these limits.
    """

    longest_s: float
    log_bytes: float
    time_setting: str
    log_setting: str


class ClaimedDrive(Frozen):
    """A drive whose whole content the plan destroys. Both fields are texts for users."""

    serial: str
    text: str


class Preflight(Frozen):
    """The results of the checks, as far as the checks could be made. `notes` are only information. If engines are
    compared, `durability` says for each engine which data survive a crash. `blocks_at_once` is the number of simulated
    blocks that fit into this machine's memory. `cycles` maps cells whose runs have a set time to the checkpoint cycles
    of their servers, if known.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    server: str
    volumes: tuple[VolumeNeed, ...]
    notes: tuple[str, ...] = ()
    durability: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    """The steps that prepare the volumes before each run."""
    objects: tuple[str, ...] = ()
    """The volume of each table or index, if layouts place single objects."""
    drives: tuple[ClaimedDrive, ...] = ()
    """The drives whose whole content is destroyed."""
    blocks_at_once: int | None = None
    cycles: dict[str, CheckpointCycle] = Field(default_factory=dict)
    log_rooms: dict[str, float] = Field(default_factory=dict)
    """For the cells of `cycles`: the bytes of redo log after which the cell's server must write pages, if known."""
    least_s: dict[str, float] = Field(default_factory=dict)
    """The shortest time of each cell's runs, if known. For example, a trace's requests have their own times."""
    lacks: tuple[Placed, ...] = ()
    """Missing requirements of this machine or a server. If there is one, nothing can run."""


class Target(Protocol):
    """The layout of one cell, set up for a run."""

    def describe(self) -> dict[str, object]:
        """Returns the environment: the host, the volumes, the server with its non-default settings, and storagelab's
        version. JSON can represent it.
        """
        ...

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:
        """Runs the load once and measures it. Raises RunFailed with the reason."""
        ...


class Block(Protocol):
    """The runs of one block. Each run is identified by its position in the block."""

    def needed(self, wanted: Collection[int]) -> Sequence[int]:
        """Returns the runs to make, in order, so that the `wanted` runs can be made. Includes earlier runs if their
        effect on the drives was lost.
        """
        ...

    def open(self, planned: PlannedRun) -> AbstractContextManager[Target]:
        """Opens the target of the next needed run. Entering the context sets the target up, or raises RunFailed.
        Leaving it removes the target.
        """
        ...


class State(Protocol):
    """A place where a block keeps the state of its drives. With this state, any machine can resume the block later."""

    def read(self) -> bytes:
        """Returns the state that was written last, or empty bytes if it is lost."""
        ...

    def write(self, parts: Sequence[bytes]) -> None:
        """Stores the state. Raises OSError."""
        ...
