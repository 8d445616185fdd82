"""What the seam asks of SQL Server. Rooms that need the driver are entered only when they are used, as it may be absent."""

from __future__ import annotations

from contextlib import AbstractContextManager

from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.targets import Preflight, Site, Target
from storagelab.targets.engines import Engine
from storagelab.targets.sqlserver import doctor, settings


def check(plan: Plan, site: Site) -> Preflight:
    """See `preflight.check`. Raises PreflightError, also when the driver is absent."""
    from storagelab.targets.sqlserver import preflight

    return preflight.check(plan, site)


def open_target(config: Config, site: Site) -> AbstractContextManager[Target]:
    from storagelab.targets.sqlserver.target import SqlServerTarget

    return SqlServerTarget(config, site)


def drop_leftovers(config: Config, site: Site) -> list[str]:
    from storagelab.targets.sqlserver import target

    return target.drop_leftovers(config, site)


ENGINE = Engine(
    check=check, open=open_target, drop_leftovers=drop_leftovers, abilities=doctor.abilities,
    durability=settings.durability,
)  # fmt: skip
