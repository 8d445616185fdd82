"""The real engines, a line each: what the seam asks of every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from storagelab.machine.doctor import Ability
from storagelab.model.config import Config
from storagelab.model.durability import Durability
from storagelab.model.plan import Plan
from storagelab.targets import Preflight, Site, Target, VolumeNeed
from storagelab.targets.durability import compared
from storagelab.targets.mariadb import doctor as mariadb_doctor
from storagelab.targets.mariadb import preflight as mariadb_preflight
from storagelab.targets.mariadb import server as mariadb_server
from storagelab.targets.mariadb import settings as mariadb_settings
from storagelab.targets.mariadb import target as mariadb_target
from storagelab.targets.mariadb import trial as mariadb_trial
from storagelab.targets.postgres import doctor as postgres_doctor
from storagelab.targets.postgres import preflight as postgres_preflight
from storagelab.targets.postgres import server as postgres_server
from storagelab.targets.postgres import settings as postgres_settings
from storagelab.targets.postgres import target as postgres_target
from storagelab.targets.postgres import trial as postgres_trial
from storagelab.targets.powers import PowerOf, powers, refuse
from storagelab.targets.sqlserver import engine as sqlserver
from storagelab.targets.trial import Kind


class Engine(NamedTuple):
    """`check` looks at its own cells of a plan, `kinds` lists the private servers they need, `open` is a cell's target."""

    title: str
    check: Callable[[Plan, Site], Preflight]
    kinds: Callable[[Plan, Site], Iterator[Kind]]
    open: Callable[[Config, Site], AbstractContextManager[Target]]
    stop_orphan: Callable[[Path], bool]
    drop_leftovers: Callable[[Config, Site], list[str]]
    abilities: Callable[[], tuple[Ability, ...]]
    durability: Callable[[Config], Durability]
    power: PowerOf


ENGINES = {
    "postgres": Engine(
        "PostgreSQL", postgres_preflight.check, postgres_trial.kinds, postgres_target.PostgresTarget,
        postgres_server.stop_orphan, postgres_target.drop_leftovers, postgres_doctor.abilities, postgres_preflight.durability,
        postgres_settings.power,
    ),
    "mariadb": Engine(
        "MariaDB", mariadb_preflight.check, mariadb_trial.kinds, mariadb_target.MariaDBTarget,
        mariadb_server.stop_orphan, mariadb_target.drop_leftovers, mariadb_doctor.abilities, mariadb_preflight.durability,
        mariadb_settings.power,
    ),
    "sqlserver": Engine(
        "SQL Server", sqlserver.check, sqlserver.kinds, sqlserver.open_target, sqlserver.stop_orphan,
        sqlserver.drop_leftovers, sqlserver.abilities, sqlserver.durability, sqlserver.power,
    ),
}  # fmt: skip


def engine_of(config: Config) -> Engine:
    return ENGINES[config.target.engine]


def _by_engine(plan: Plan) -> Iterator[tuple[Engine, Plan]]:
    """Each engine of the plan with the cells that are its own."""
    for name in dict.fromkeys(cell.config.target.engine for cell in plan.cells):
        yield (
            ENGINES[name],
            plan.model_copy(update={"cells": tuple(cell for cell in plan.cells if cell.config.target.engine == name)}),
        )


def check(plan: Plan, site: Site, *, allow_commands: bool) -> Preflight:
    """Each engine's checks of its own cells, put together. Raises PreflightError for the first that says no."""
    beyond = powers(plan, {name: engine.power for name, engine in ENGINES.items()})
    if not allow_commands:
        refuse(beyond)
    found = [engine.check(part, site) for engine, part in _by_engine(plan)]
    promises, warnings = compared(plan, {name: engine.durability for name, engine in ENGINES.items()})
    return Preflight(
        server="; ".join(one.server for one in found),
        volumes=_most_needed([need for one in found for need in one.volumes]),
        notes=(*(power.text for power in beyond), *(note for one in found for note in one.notes), *warnings),
        durability=promises,
    )


def kinds(plan: Plan, site: Site) -> Iterator[Kind]:
    for engine, part in _by_engine(plan):
        yield from engine.kinds(part, site)


def _most_needed(needs: list[VolumeNeed]) -> tuple[VolumeNeed, ...]:
    """Each volume once: cells follow one another, so the hungriest of any engine counts."""
    hungriest: dict[tuple[str, str], VolumeNeed] = {}
    for need in needs:
        known = hungriest.get((need.name, need.path))
        if known is None or (need.needed_bytes or 0) > (known.needed_bytes or 0):
            hungriest[need.name, need.path] = need
    return tuple(hungriest.values())
