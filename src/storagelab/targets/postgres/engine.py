"""What the seam asks of PostgreSQL."""

from __future__ import annotations

from storagelab.errors import PreflightError
from storagelab.machine.doctor import Ability
from storagelab.targets.engines import Engine
from storagelab.targets.postgres import preflight, server, settings, target
from storagelab.targets.postgres.server import STARTER
from storagelab.targets.unprivileged import unprivileged


def abilities() -> tuple[Ability, ...]:
    """Checks for the programs, and for a way to run them without root's rights, as PostgreSQL demands."""
    return (STARTER.ability(), _privileges())


def _privileges() -> Ability:
    name = "running it without root's rights"
    try:
        way = unprivileged()
    except PreflightError as error:
        return Ability(name=name, state="no", detail=error.problem, mend=error.hint)
    return Ability(name=name, state="yes", detail=way.how)


ENGINE = Engine(
    check=preflight.check,
    open=target.opened,
    kinds=server.STARTER.kinds,
    stop_orphan=server.stop_orphan,
    drop_leftovers=target.drop_leftovers,
    abilities=abilities,
    durability=preflight.durability,
    power=settings.power,
)
