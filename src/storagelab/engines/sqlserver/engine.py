"""The `ENGINE` of SQL Server. Modules that need the driver are imported only when they are used, because the driver may
not be installed.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from importlib import import_module
from typing import Any

from storagelab.engines.sqlserver.meanings import DATABASE_OPTIONS, database_options, judge
from storagelab.machine.doctor import Ability
from storagelab.model.config import Config
from storagelab.model.durability import Durability
from storagelab.run.engine import Engine

DRIVER = "pymssql"


def abilities() -> tuple[Ability, ...]:
    """Whether the driver is installed. `storagelab doctor --target` checks a server."""
    name = "driver for SQL Server"
    try:
        version = importlib.metadata.version(DRIVER)
    except importlib.metadata.PackageNotFoundError:
        mend = "pip install 'storagelab[sqlserver]', if you want to measure one"
        return (Ability(name=name, state="no", detail=f"{DRIVER} is not installed", mend=mend),)
    return (
        Ability(name=name, state="yes", detail=f"{DRIVER} {version}; try a server: storagelab doctor --target DSN"),
    )


def _in(module: str, name: str) -> Callable[..., Any]:
    """A function in a module that needs the driver. A call raises PreflightError if the driver is not installed."""
    return lambda *given: getattr(import_module(f"storagelab.engines.sqlserver.{module}"), name)(*given)


def durability(config: Config) -> Durability:
    """Which data survive a crash, according to the spec's settings. Settings that the spec does not have are the
    defaults of storagelab's database.
    """
    options = database_options(config.target.settings)
    return judge({DATABASE_OPTIONS[name].column: value for name, value in options.items()})


ENGINE = Engine(
    check=_in("preflight", "check"), open=_in("server", "opened"), drop_leftovers=_in("server", "drop_leftovers"),
    abilities=abilities, durability=durability, probe=_in("server", "SqlServerProbe"),
    watched=_in("capture", "watched"), moving=_in("layout", "moving"),
)  # fmt: skip
