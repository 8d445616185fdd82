"""What the seam asks of PostgreSQL."""

from __future__ import annotations

from storagelab.targets.engines import Engine
from storagelab.targets.postgres import doctor, preflight, server, settings, target

ENGINE = Engine(
    check=preflight.check,
    open=target.opened,
    kinds=server.STARTER.kinds,
    stop_orphan=server.stop_orphan,
    drop_leftovers=target.drop_leftovers,
    abilities=doctor.abilities,
    durability=preflight.durability,
    power=settings.power,
)
