"""The one seam of storagelab: what stands behind `Target` is a real server, or a simulated one; nobody above can tell.

preflight(...)                    looks, touches nothing, says no by name
with open_target(...) as target:  sets up one cell's layout, and removes it at the end, whatever happens
    target.run(...)               one Measurement
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from storagelab.machine.doctor import Ability
from storagelab.model.config import Config
from storagelab.model.measurement import Measurement
from storagelab.model.plan import Cell, Experiment, Plan
from storagelab.model.values import Frozen
from storagelab.targets.folders import Site

Progress = Callable[[int], None]
"""Told how many rows are in, a few times a second."""


class VolumeNeed(Frozen):
    """Disk space on one volume: what the hungriest cell needs at once, and what is free. None = can't be told."""

    name: str
    path: str
    device: str
    needed_bytes: int | None
    free_bytes: int | None


class Preflight(Frozen):
    """What was found. `notes` are things worth knowing that stop nothing; `durability` says, where engines are compared,
    what of each survives a crash; `blocks_at_once` how many blocks of simulated runs this machine has memory for."""

    server: str
    volumes: tuple[VolumeNeed, ...]
    notes: tuple[str, ...] = ()
    durability: tuple[str, ...] = ()
    blocks_at_once: int | None = None


class Target(Protocol):
    """One cell's layout, set up."""

    def describe(self) -> dict[str, object]:
        """The environment: host, volumes, server with its non-default settings, storagelab's version. JSON-able."""
        ...

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:
        """Load once and measure. Raises RunFailed with its reason."""
        ...


def preflight(
    experiment: Experiment,  # noqa: ARG001 - other engines may ask it
    plan: Plan,
    site: Site,
    *,
    allow_commands: bool = False,
) -> Preflight:
    """Every check that can be made before anything is touched, over all cells. Raises PreflightError.

    `allow_commands`: settings may have a server run programs, load code, and use other folders; they are noted.
    """
    if plan.simulated:
        from storagelab.targets.simulated.preflight import check as check_simulated

        return check_simulated(plan, site)
    from storagelab.targets.engines import check

    return check(plan, site, allow_commands=allow_commands)


def try_starting(plan: Plan, site: Site) -> None:
    """Start each kind of server that the plan needs for a moment, in a temporary folder, and remove it.

    Raises PreflightError with the server's own words for one that does not start.
    """
    if plan.simulated:
        return
    from storagelab.targets.engines import kinds
    from storagelab.targets.trial import try_kinds

    try_kinds(kinds(plan, site))


def open_target(config: Config, site: Site) -> AbstractContextManager[Target]:
    """The target of one cell. Entering sets up, raising RunFailed if that can't be done; leaving tears down.

    A simulated cell's drives come from the run before it, so its target is opened from its block: `targets.simulated`.
    """
    from storagelab.targets.engines import engine_of

    return engine_of(config).open(config, site)


def sweep(plan: Plan, site: Site) -> list[str]:
    """Remove what a killed run of this experiment left behind, and in the temporary folder any; says what was removed.

    Raises PreflightError when something of that name is not ours.
    """
    from storagelab.targets import temporary

    if plan.simulated and not temporary.left_behind():
        return []  # without loading what knows servers
    from storagelab.targets.engines import ENGINES
    from storagelab.targets.sweeping import sweep as sweep_all
    from storagelab.targets.sweeping import sweep_temporary

    stop_orphans = [engine.stop_orphan for engine in ENGINES.values()]
    removed = sweep_temporary(stop_orphans)
    if plan.simulated:
        return removed
    drop_leftovers = {name: engine.drop_leftovers for name, engine in ENGINES.items()}
    return removed + sweep_all(plan, site, stop_orphans, drop_leftovers)


def server_abilities() -> tuple[Ability, ...]:
    """Which servers this machine could start, for the doctor."""
    from storagelab.targets.engines import ENGINES

    return tuple(ability for engine in ENGINES.values() for ability in engine.abilities())


__all__ = [
    "Preflight", "Progress", "Site", "Target", "VolumeNeed", "open_target", "preflight", "server_abilities", "sweep",
    "try_starting",
]  # fmt: skip
