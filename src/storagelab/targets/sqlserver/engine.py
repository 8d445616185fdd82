"""What the seam asks of SQL Server. It imports modules that need the driver only when used, since that may be absent."""

from __future__ import annotations

import importlib.metadata
from contextlib import AbstractContextManager

from storagelab.machine.doctor import Ability
from storagelab.model.config import Config
from storagelab.model.durability import Durability
from storagelab.model.plan import Plan
from storagelab.targets import Preflight, Site, Target
from storagelab.targets.engines import Engine
from storagelab.targets.sqlserver.known import judge
from storagelab.targets.sqlserver.settings import DATABASE_OPTIONS, database_options

DRIVER = "pymssql"


def abilities() -> tuple[Ability, ...]:
    """Checks for the driver; `storagelab doctor --target` checks a server."""
    name = "driver for SQL Server"
    try:
        version = importlib.metadata.version(DRIVER)
    except importlib.metadata.PackageNotFoundError:
        mend = "pip install 'storagelab[sqlserver]', if you want to measure one"
        return (Ability(name=name, state="no", detail=f"{DRIVER} is not installed", mend=mend),)
    return (
        Ability(name=name, state="yes", detail=f"{DRIVER} {version}; try a server: storagelab doctor --target DSN"),
    )


def check(plan: Plan, site: Site) -> Preflight:
    """Calls `preflight.check`. Raises PreflightError, also if the driver is absent."""
    from storagelab.targets.sqlserver import preflight

    return preflight.check(plan, site)


def open_target(config: Config, site: Site) -> AbstractContextManager[Target]:
    from storagelab.targets.sqlserver import target

    return target.opened(config, site)


def drop_leftovers(config: Config, site: Site) -> list[str]:
    from storagelab.targets.sqlserver import target

    return target.drop_leftovers(config, site)


def durability(config: Config) -> Durability:
    """What survives a crash: by the spec's settings, and by the defaults of storagelab's database for the others."""
    options = database_options(config.target.settings)
    return judge({DATABASE_OPTIONS[name].column: value for name, value in options.items()})


ENGINE = Engine(
    check=check, open=open_target, drop_leftovers=drop_leftovers, abilities=abilities,
    durability=durability,
)  # fmt: skip
