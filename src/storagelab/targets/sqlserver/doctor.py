"""Checks whether the driver for SQL Server is installed on this machine."""

from __future__ import annotations

import importlib.metadata

from storagelab.machine.doctor import Ability

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
