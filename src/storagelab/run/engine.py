"""The interface to an engine, found in the module `engine` of its folder, and the blocks of independent runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from storagelab.capture.server import Watched
from storagelab.machine.doctor import Ability
from storagelab.model.config import Config, TargetConfig
from storagelab.model.durability import Durability
from storagelab.model.engines import KINDS_OF_ENGINE
from storagelab.model.plan import Plan, PlannedBlock, PlannedRun
from storagelab.model.target import Block, Preflight, State, Target
from storagelab.model.values import Scalar
from storagelab.servers.attached import RunningServer as Found
from storagelab.servers.starting import Kind
from storagelab.volumes import for_runs
from storagelab.volumes.folders import Site
from storagelab.volumes.for_runs import BlockVolumes


class Independent:
    """A block of independent runs: each has its own server or schema."""

    def __init__(self, block: PlannedBlock, site: Site, volumes: BlockVolumes) -> None:
        self._block, self._site, self._volumes = block, site, volumes

    def needed(self, wanted: Collection[int]) -> Sequence[int]:
        return sorted(wanted)

    def open(self, planned: PlannedRun) -> AbstractContextManager[Target]:
        return for_runs.opened(self._block.cell_of(planned), self._site, open_target, self._volumes)


@contextmanager
def independent(block: PlannedBlock, site: Site, state: State) -> Iterator[Block]:
    """Opens a block that keeps nothing but volumes that are made for blocks."""
    with for_runs.kept(block, site, state) as volumes:
        yield Independent(block, site, volumes)


class Engine(NamedTuple):
    """`check` looks at the engine's own cells of a plan. An engine with independent runs has `open` for the target
    of one run; any other engine opens whole blocks. The rest is for engines with servers.
    """

    check: Callable[[Plan, Site], Preflight]
    open: Callable[[Config, Site], AbstractContextManager[Target]] | None = None
    open_block: Callable[[PlannedBlock, Site, State], AbstractContextManager[Block]] = independent
    kinds: Callable[[Plan, Site], Iterable[Kind]] = lambda *_: ()
    """The private servers that a plan needs."""
    stop_orphan: Callable[[Path], bool] = lambda _: False
    """Stops the server that still runs on a data folder; true if there was one."""
    drop_leftovers: Callable[[Config, Site], list[str]] = lambda *_: []
    """Drops what is left on the server that a cell attaches to; returns what was dropped."""
    abilities: Callable[[], tuple[Ability, ...]] = lambda: ()
    durability: Callable[[Config], Durability] | None = None
    """What survives a crash of the server or of its machine."""
    probe: Callable[[], Any] = lambda: None
    """Lists what is on a server, for the contract suite."""
    privilege: Callable[[str, Scalar], str | None] = lambda *_: None
    """What a setting with this name and value makes the server do besides keeping a database; None = nothing."""
    found: Callable[[TargetConfig], Found] | None = None
    """What a running server shows of its layout."""
    watched: Callable[[TargetConfig], Watched] | None = None
    """A running server, for a capture of what it reads and writes."""


@cache
def engine_in(folder: str) -> Engine:
    """The engine in the folder of this name; `model.engines` lists the names."""
    found: Engine = import_module(f"storagelab.engines.{folder}.engine").ENGINE
    return found


def engine_of(config: Config) -> Engine:
    return engine_in(config.kind.folder)


def every_engine() -> tuple[Engine, ...]:
    """The engines, one for each folder."""
    return tuple(dict.fromkeys(engine_in(kind.folder) for kind in KINDS_OF_ENGINE))


def open_block(block: PlannedBlock, site: Site, state: State) -> AbstractContextManager[Block]:
    """Prepare drives or servers for a block's runs; leaving removes everything."""
    return engine_of(block.first_cell.config).open_block(block, site, state)


def open_target(config: Config, site: Site) -> AbstractContextManager[Target]:
    """The target of one independent run. Entering sets it up, or raises RunFailed; leaving removes it."""
    opening = engine_of(config).open
    assert opening is not None, "its runs come in blocks"
    return opening(config, site)
