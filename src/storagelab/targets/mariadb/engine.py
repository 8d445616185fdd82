"""What the seam asks of MariaDB."""

from __future__ import annotations

from storagelab.machine.doctor import Ability
from storagelab.targets.engines import Engine
from storagelab.targets.mariadb import preflight, server, settings, target
from storagelab.targets.mariadb.server import STARTER


def abilities() -> tuple[Ability, ...]:
    return (STARTER.ability(),)


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
