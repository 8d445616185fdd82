"""What the seam asks of SQL Server. The other rooms are entered only when they are needed, as the driver may be absent."""

from __future__ import annotations

import importlib.metadata
from contextlib import AbstractContextManager

from storagelab.machine.doctor import Ability
from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.targets import Preflight, Site, Target
from storagelab.targets.durability import Commit, Durability
from storagelab.targets.engines import Engine
from storagelab.targets.sqlserver.settings import database_options

DRIVER = "pymssql"


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


def abilities() -> tuple[Ability, ...]:
    """Is the driver there? Whether a server is well, `storagelab doctor --target` tells."""
    name = "driver for SQL Server"
    try:
        version = importlib.metadata.version(DRIVER)
    except importlib.metadata.PackageNotFoundError:
        mend = "pip install 'storagelab[sqlserver]', if you want to measure one"
        return (Ability(name=name, state="no", detail=f"{DRIVER} is not installed", mend=mend),)
    return (
        Ability(name=name, state="yes", detail=f"{DRIVER} {version}; try a server: storagelab doctor --target DSN"),
    )


def durability(config: Config) -> Durability:
    """By the spec's settings, and what storagelab's database gets where it says nothing.

    A log record holds enough to redo a page, and checksums or torn-page bits tell of one that was half written; they do
    not mend it, so pages count as whole only where the medium writes them whole.
    """
    options = database_options(config.target.settings)
    commit: Commit = "each commit is on the disk"
    if options["delayed_durability"] == "FORCED":
        commit = "the last second of commits may be lost"
    because = f"delayed_durability = {options['delayed_durability']}, page_verify = {options['page_verify']}"
    return Durability(engine="SQL Server", commit=commit, whole_pages=False, because=because)


ENGINE = Engine(
    check=check, open=open_target, drop_leftovers=drop_leftovers, abilities=abilities, durability=durability,
)  # fmt: skip
