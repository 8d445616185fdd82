"""What the seam asks of an engine. An engine is found in the module `engine` of its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from storagelab.errors import PreflightError
from storagelab.machine.doctor import Ability
from storagelab.model.config import Config
from storagelab.model.durability import Durability
from storagelab.model.engines import KINDS_OF_ENGINE
from storagelab.model.plan import Plan, PlannedBlock
from storagelab.model.values import Scalar
from storagelab.targets import Block, Preflight, Site, State, Target, VolumeNeed
from storagelab.targets.blocks import independent
from storagelab.targets.durability import compared
from storagelab.targets.powers import powers, refuse
from storagelab.targets.starting import Kind


class Engine(NamedTuple):
    """`check` looks at the engine's own cells of a plan. An engine with independent runs says how to `open` one run's target;
    any other opens whole blocks. The rest is for engines with servers."""

    check: Callable[[Plan, Site], Preflight]
    open: Callable[[Config, Site], AbstractContextManager[Target]] | None = None
    open_block: Callable[[PlannedBlock, Site, State], AbstractContextManager[Block]] = independent
    kinds: Callable[[Plan, Site], Iterable[Kind]] = lambda *_: ()
    """The private servers that a plan needs."""
    stop_orphan: Callable[[Path], bool] = lambda _: False
    """Stops the server that still runs on a data folder; true if there was one."""
    drop_leftovers: Callable[[Config, Site], list[str]] = lambda *_: []
    """Drops what is left on a cell's running server; says what was dropped."""
    abilities: Callable[[], tuple[Ability, ...]] = lambda: ()
    durability: Callable[[Config], Durability] | None = None
    """What survives a crash of the server or of its machine."""
    power: Callable[[str, Scalar], str | None] = lambda *_: None
    """What a setting of this name and value makes the server do besides keeping a database; None = nothing."""


@cache
def engine_in(folder: str) -> Engine:
    """The engine whose folder has this name, as `model.engines` says."""
    found: Engine = import_module(f"storagelab.targets.{folder}.engine").ENGINE
    return found


def engine_of(config: Config) -> Engine:
    return engine_in(config.kind.folder)


def every_engine() -> tuple[Engine, ...]:
    """The engines, once for each folder."""
    return tuple(dict.fromkeys(engine_in(kind.folder) for kind in KINDS_OF_ENGINE))


def _by_engine(plan: Plan) -> Iterator[tuple[Engine, Plan]]:
    """Each engine of the plan with its own part of the plan."""
    for kind in dict.fromkeys(cell.config.kind for cell in plan.cells):
        cells = {cell.cell_id: cell for cell in plan.cells if cell.config.kind == kind}
        runs = tuple(planned for planned in plan.runs if planned.cell_id in cells)
        yield engine_in(kind.folder), Plan(cells=tuple(cells.values()), runs=runs)


def check(plan: Plan, site: Site, *, allow_commands: bool) -> Preflight:
    """All engines' checks of their own cells together. Raises PreflightError for the first that fails."""
    kinds_there = {cell.config.kind for cell in plan.cells}
    # Raw I/O is one test wherever it runs, so its tables may stand side by side; blocks keep the two apart.
    if len({kind.provenance for kind in kinds_there}) > 1 and not all(kind.raw_io for kind in kinds_there):
        hint = "Write two specs: one series never mixes measured and simulated runs."
        raise PreflightError("some cells are simulated and some are not", key="target.engine", hint=hint)
    from storagelab.targets.raw import beside  # it stands on what this module offers

    beside.check(plan, site)
    beyond = powers(plan, lambda config: engine_of(config).power)
    if not allow_commands:
        refuse(beyond)
    found = [engine.check(part, site) for engine, part in _by_engine(plan)]
    promises, warnings = compared(plan, lambda config: engine_of(config).durability)
    return Preflight(
        server="; ".join(one.server for one in found),
        volumes=_most_needed([need for one in found for need in one.volumes]),
        notes=(*(power.text for power in beyond), *(note for one in found for note in one.notes), *warnings),
        durability=promises,
        blocks_at_once=min((one.blocks_at_once for one in found if one.blocks_at_once is not None), default=None),
    )


def kinds(plan: Plan, site: Site) -> Iterator[Kind]:
    for engine, part in _by_engine(plan):
        yield from engine.kinds(part, site)


def _most_needed(needs: list[VolumeNeed]) -> tuple[VolumeNeed, ...]:
    """Each volume once: cells run one after the other, so the hungriest cell of any engine counts."""
    hungriest: dict[tuple[str, str], VolumeNeed] = {}
    for need in needs:
        known = hungriest.get((need.name, need.path))
        if known is None or (need.needed_bytes or 0) > (known.needed_bytes or 0):
            hungriest[need.name, need.path] = need
    return tuple(hungriest.values())
