"""Cells and sites for tests of SQL Server."""

from pathlib import Path
from typing import Any

from storagelab.engines.sqlserver.connect import ServerFacts
from storagelab.model.config import Config
from storagelab.model.plan import Cell, Plan
from storagelab.volumes.folders import Site

PREFIX = "storagelab_0badcafe"
VOLUMES = {"a": {"path": "/data/a", "remote": True}, "b": {"path": "/data/b", "remote": True}}
WORKLOAD = {"connections": 3, "rows_per_connection": 500, "rows_per_transaction": 100}


def facts(**changes: Any) -> ServerFacts:
    known: dict[str, Any] = {
        "version": "15.0.4153.1", "version_text": "", "edition": "Developer Edition (64-bit)", "engine_edition": 3,
        "data_path": "/var/opt/mssql/data/", "log_path": "/var/opt/mssql/log/", "max_connections": 32767,
        "may_create": True, "may_view_state": True,
    }  # fmt: skip
    return ServerFacts(**{**known, **changes})


def config(**tables: Any) -> Config:
    """A cell on a server named by the variable STORAGELAB_TESTED; `tables` are tables of the spec."""
    target = {"engine": "sqlserver", "dsn_env": "STORAGELAB_TESTED", **tables.pop("target", {})}
    return Config.model_validate(
        {"target": target, "volumes": VOLUMES, "workload": {**WORKLOAD, **tables.pop("workload", {})}, **tables}
    )


def plan_of(*configs: Config) -> Plan:
    cells = [Cell(cell_id=f"c{number:02d}", levels={}, config=one) for number, one in enumerate(configs, 1)]
    return Plan(cells=tuple(cells), runs=())


def site() -> Site:
    return Site(experiment="tested", identity=PREFIX.removeprefix("storagelab_"), spec_folder=Path("specs"))
