"""The interface to what is measured: a real server or simulated drives. No code above it can tell which.

preflight(...)                          looks only, and names what stands in the way
with open_block(...) as block:          brings drives or servers into the state that its first run needs
    with block.open(planned) as target: sets up one run's layout, and removes it at the end, whatever happens
        target.run(...)                 one Measurement
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import NamedTuple, Protocol, TypeVar

from pydantic import Field

from storagelab.machine.doctor import Ability
from storagelab.model.config import Config
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, Experiment, Plan, PlannedBlock, PlannedRun
from storagelab.model.values import Frozen
from storagelab.targets.folders import Site

Tell = Callable[[str, int, int], None]
"""Is called before each step, as in ("checking settings", 34, 200): 34 of 200 are done."""

_T = TypeVar("_T")
_TELL: ContextVar[Tell | None] = ContextVar("tell", default=None)


@contextlib.contextmanager
def reporting_to(tell: Tell | None) -> Iterator[None]:
    """Tells the steps to `tell` while the context lasts; None tells nobody."""
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
    """Yields the items, and tells before each one how many are done."""
    for done, item in enumerate(items):
        step(what, done, len(items))
        yield item


Progress = Callable[[int], None]
"""Is called with 0 as the load begins, its warm-up included, and then a few times a second with the amount of work done
so far, in the unit of the run's workload."""


class VolumeNeed(Frozen):
    """The disk space needed on one volume at once, by the cell that needs most, and the free space. None = unknown."""

    name: str
    path: str
    device: str
    needed_bytes: int | None
    free_bytes: int | None
    lacks: str = ""
    """That there is too little space, in words, where the runs are to be made in spite of it."""


class CheckpointCycle(NamedTuple):
    """How far apart a server's checkpoints come: after this time at the latest, or sooner, after so many bytes of log.
    With the names of the settings that say so.
    """

    longest_s: float
    log_bytes: float
    time_setting: str
    log_setting: str


class ClaimedDrive(Frozen):
    """A drive that the plan destroys everything on, in words."""

    serial: str
    text: str


class Preflight(Frozen):
    """What the checks found. `notes` are worth knowing and stop nothing. If engines are compared, `durability` says
    what survives a crash of each. `blocks_at_once`: how many simulated blocks fit into this machine's memory. `cycles`:
    the checkpoints of each cell's server whose runs have a set time, by cell, where they are known.
    """

    server: str
    volumes: tuple[VolumeNeed, ...]
    notes: tuple[str, ...] = ()
    durability: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    """What is done to volumes before each run."""
    objects: tuple[str, ...] = ()
    """Which table or index lies on which volume, where layouts place them singly."""
    drives: tuple[ClaimedDrive, ...] = ()
    """The drives on which everything is destroyed."""
    blocks_at_once: int | None = None
    cycles: dict[str, CheckpointCycle] = Field(default_factory=dict)
    log_rooms: dict[str, float] = Field(default_factory=dict)
    """The bytes of redo log after which each cell's server must write pages, likewise."""
    least_s: dict[str, float] = Field(default_factory=dict)
    """The least time of each cell's runs, where that is known: a trace's requests have their own times."""


class Target(Protocol):
    """One cell's layout, set up."""

    def describe(self) -> dict[str, object]:
        """The environment: host, volumes, server with its non-default settings, storagelab's version. JSON-able."""
        ...

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:
        """Load once and measure. Raises RunFailed with the reason."""
        ...


class Block(Protocol):
    """The runs of one block. They are numbered by their position in it."""

    def needed(self, wanted: Collection[int]) -> Sequence[int]:
        """The runs to make, in order, to get the `wanted` ones. They include runs whose effect on the drives is
        lost.
        """
        ...

    def open(self, planned: PlannedRun) -> AbstractContextManager[Target]:
        """The target of the next needed run. Entering sets it up, or raises RunFailed; leaving removes it."""
        ...


def preflight(
    experiment: Experiment,  # noqa: ARG001 - other engines may ask it
    plan: Plan,
    site: Site,
    *,
    allow_commands: bool = False,
    tell: Tell | None = None,
) -> Preflight:
    """Make every check that changes nothing, for all cells. Raises PreflightError.

    `allow_commands` lets settings run programs, load code and use other folders; such settings are noted. `tell`
    receives the progress of the checks.
    """
    from storagelab.targets.engines import check

    with reporting_to(tell):
        return check(plan, site, allow_commands=allow_commands)


def try_starting(plan: Plan, site: Site, tell: Tell | None = None) -> None:
    """Make each kind of volume and start each kind of server that the plan needs for a moment, and remove it. `tell`
    receives the progress.

    Raises PreflightError with the server's own message for one that does not start.
    """
    from storagelab.targets import engines
    from storagelab.targets.made_volumes import try_making
    from storagelab.targets.starting import try_kinds

    with reporting_to(tell):
        try_making(plan, site)
        try_kinds(engines.kinds(plan, site))


def confirm_drives(plan: Plan, site: Site) -> None:
    """Notes that the user has confirmed that everything on the plan's drives may be destroyed. Raises
    PreflightError.
    """
    from storagelab.targets.made_volumes import confirm

    confirm(plan, site)


class State(Protocol):
    """Where a block may keep the state of its drives, so that it can be resumed later, here or elsewhere."""

    def read(self) -> bytes:
        """The state that was written last; empty if that is lost."""
        ...

    def write(self, parts: Sequence[bytes]) -> None:
        """Raises OSError."""
        ...


def open_block(block: PlannedBlock, site: Site, state: State) -> AbstractContextManager[Block]:
    """Prepare drives or servers for a block's runs; leaving removes everything."""
    from storagelab.targets.engines import engine_of

    return engine_of(block.first_cell.config).open_block(block, site, state)


def open_target(config: Config, site: Site) -> AbstractContextManager[Target]:
    """The target of one independent run. Entering sets it up, or raises RunFailed; leaving removes it."""
    from storagelab.targets.engines import engine_of

    opening = engine_of(config).open
    assert opening is not None, "its runs come in blocks"
    return opening(config, site)


def volumes_locked(plan: Plan, site: Site) -> AbstractContextManager[None]:
    """Keeps other campaigns off the plan's volumes on this machine. Entering raises PreflightError if a volume is in
    use.
    """
    from storagelab.targets import locking

    return locking.volumes_locked(plan, site)


def sweep(plan: Plan, site: Site) -> list[str]:
    """Remove what killed runs left behind: runs of this experiment, and of any in the temporary folder. Returns what
    was removed.

    Raises PreflightError if something has such a name and is not storagelab's.
    """
    from storagelab.targets import engines

    return engines.sweep_temporary() + engines.sweep(plan, site)


def remove_templates(plan: Plan, site: Site) -> None:
    """Remove the prepared data that was kept for the runs of a campaign. Raises RunFailed if that fails."""
    from storagelab.targets import templates

    templates.remove(plan, site)


def server_abilities() -> tuple[Ability, ...]:
    """The servers that this machine could start and the volumes that it could make, for the doctor."""
    from storagelab.targets.engines import every_engine
    from storagelab.targets.made_volumes import abilities

    return (*(ability for engine in every_engine() for ability in engine.abilities()), *abilities())


__all__ = [
    "Block", "CheckpointCycle", "ClaimedDrive", "Preflight", "Progress", "Site", "State", "Target", "Tell",
    "VolumeNeed",
    "confirm_drives", "open_block", "open_target", "preflight", "remove_templates", "server_abilities", "sweep",
    "try_starting", "volumes_locked",
]  # fmt: skip
