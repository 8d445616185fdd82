"""What the seam asks of SQL Server. The other rooms are entered only when they are needed, as the driver may be absent."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from storagelab.doctor import Ability
from storagelab.model import Config, Plan
from storagelab.targets import Preflight, Site, Target

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


def sweep(plan: Plan, site: Site) -> list[str]:
    """What a killed run left on each server of the plan is dropped; says what. Raises PreflightError."""
    configs = {(cell.config.target.dsn, cell.config.target.dsn_env): cell.config for cell in plan.cells}
    dropped = [name for config in configs.values() for name in drop_leftovers(config, site)]
    return [f"dropped {name}, left on the server by a run that was killed" for name in dropped]


def kinds(plan: Plan, site: Site) -> Iterator[object]:  # noqa: ARG001 - other engines start servers of their own
    """Kinds of private servers to try: none, as a SQL Server runs already."""
    return iter(())


def stop_orphan(data_folder: Path) -> bool:  # noqa: ARG001 - the same
    """Nothing is started, so nothing is left running."""
    return False


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
