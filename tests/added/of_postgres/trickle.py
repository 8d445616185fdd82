"""The table of the load `trickle` on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from psycopg import sql
from storagelab.model.loads.trickle import ROWS, Trickle

from storagelab.engines.postgres.connect import Connection
from storagelab.engines.postgres.loads.generated import PostgresTables, find, version_text
from storagelab.loads.generator import Clients, Program
from storagelab.loads.own_files import Source
from storagelab.loads.pgbench import by_pgbench
from storagelab.model.loads.pgbench import Script
from storagelab.volumes.folders import Site

SCRIPT = b"\\set who random(1, 100)\nSELECT what FROM trickle WHERE id = :who;\n"


class Tables(PostgresTables[Trickle]):
    unit_bytes = 2

    def fill(self, own: Connection, clients: Clients, site: Site) -> None:
        name = sql.Identifier(self.home, "trickle")
        own.execute(sql.SQL("CREATE TABLE {} (id int PRIMARY KEY, what text)").format(name))
        values = [self.load.width, ROWS]
        own.execute(
            sql.SQL("INSERT INTO {} SELECT n, repeat('a', %s) FROM generate_series(1, %s) n").format(name), values
        )
        self.place(own)

    def program(self, clients: Clients, site: Site, seed: int) -> Program:
        return by_pgbench(
            clients, find("pgbench", clients.beside), self.load, [Source(Script("trickle", 1), SCRIPT)], seed
        )

    def check(self, site: Site, beside: Path | None) -> str:
        return f"trickle by {version_text('pgbench', beside)}"
