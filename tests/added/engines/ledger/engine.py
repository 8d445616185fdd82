"""What storagelab asks of it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from storagelab.engines.ledger.meanings import judge

from storagelab.machine import host
from storagelab.model.config import Config
from storagelab.model.measurement import Check, Measurement
from storagelab.model.plan import Cell, Plan
from storagelab.model.target import Preflight, Progress, Target
from storagelab.run.engine import Engine
from storagelab.servers.durability import judged
from storagelab.servers.space import volume_needs
from storagelab.volumes.folders import Folders, Site


def check(plan: Plan, site: Site) -> Preflight:
    configs = [cell.config for cell in plan.cells]
    volumes, lacks = volume_needs(configs, site, lambda *_: 2**20)
    return Preflight(server=f"Ledger {sqlite3.sqlite_version}", volumes=volumes, lacks=lacks)


class _Ledger:
    def __init__(self, config: Config, file: Path) -> None:
        self._config, self._file = config, file

    def describe(self) -> dict[str, object]:
        server = {"engine": "ledger", "version": sqlite3.sqlite_version, "settings": {"synchronous": "FULL"}}
        return {"host": host.describe_host(), "volumes": {}, "server": server, "storagelab": {"version": "0"}}

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:
        rows, environment, began = self._config.insert_load.rows, self.describe(), time.monotonic()
        with closing(sqlite3.connect(self._file)) as connection:
            connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY)")
            connection.executemany("INSERT INTO rows VALUES (?)", ((number,) for number in range(rows)))
            connection.commit()
            (found,) = connection.execute("SELECT count(*) FROM rows").fetchone()
        progress(rows)
        counted = Check(name="rows", asked=str(rows), got=str(found), ok=rows == found, read_from="SELECT")
        return Measurement(
            provenance="measured", elapsed_s=time.monotonic() - began, rows=rows, environment=environment,
            durability=judged(environment), checks=(counted,),
        )  # fmt: skip


@contextmanager
def opened(config: Config, site: Site) -> Iterator[Target]:
    folders = Folders(site, site.volume_paths(config))
    folders.make()
    try:
        yield _Ledger(config, folders[config.data_volumes[0]] / "rows.db")
    finally:
        folders.remove()


ENGINE = Engine(check=check, open=opened, durability=lambda _: judge({}))
