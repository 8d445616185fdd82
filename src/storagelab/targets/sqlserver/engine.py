"""What the seam asks of SQL Server. Rooms that need the driver are entered only when they are used, as it may be absent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from storagelab.model.config import Config
from storagelab.model.plan import Plan
from storagelab.targets import Preflight, Site, Target
from storagelab.targets.trial import Kind


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


def kinds(plan: Plan, site: Site) -> Iterator[Kind]:  # noqa: ARG001 - other engines start servers of their own
    """Kinds of private servers to try: none, as storagelab starts no SQL Server."""
    return iter(())


def stop_orphan(data_folder: Path) -> bool:  # noqa: ARG001 - the same
    """Nothing is started, so nothing is left running."""
    return False
