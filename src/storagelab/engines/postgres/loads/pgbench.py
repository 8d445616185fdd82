"""pgbench's tables on PostgreSQL. pgbench makes them. Its largest table has hash partitions."""

from __future__ import annotations

from pathlib import Path

from storagelab.engines.postgres.connect import Connection
from storagelab.engines.postgres.loads.generated import PostgresTables, find, version_text
from storagelab.errors import RunFailed
from storagelab.loads import pgbench
from storagelab.loads.generator import Clients, Program
from storagelab.loads.own_files import pgbench_scripts
from storagelab.model.loads.pgbench import SPREAD, Pgbench
from storagelab.model.objects import Object
from storagelab.volumes.folders import Site


class Tables(PostgresTables[Pgbench]):
    """The tables of one cell."""

    unit_bytes = 17 * 2**20
    index_share = 0.15
    filled_in_place = True

    @property
    def default_spread(self) -> tuple[str, ...]:
        return SPREAD

    @property
    def asked_partitions(self) -> int | None:
        return self.load.partitions

    @property
    def known_objects(self) -> list[Object]:
        big, key = SPREAD[0], f"{SPREAD[0]}_pkey"
        table_bytes, key_bytes = (1 - self.index_share) * self.data_bytes, self.index_share * self.data_bytes
        small = ("pgbench_branches", "pgbench_tellers")
        return [
            *self._in_parts(big, f"{big}_{{}}", "table", table_bytes),
            *self._in_parts(key, f"{big}_{{}}_pkey", "index", key_bytes),
            *(Object((name,), "table", "public") for name in (*small, "pgbench_history")),
            *(Object((f"{name}_pkey",), "index", "public") for name in small),
        ]

    def fill(self, own: Connection, clients: Clients, site: Site) -> None:
        for steps in ("t", "gvp"):  # without the step d, which could drop tables in other schemas
            command = pgbench.initialise(str(find("pgbench", clients.beside)), self.load, steps, self.partitions)
            output = clients.in_folder(command, {})
            if output.returncode != 0:
                raise RunFailed(f"pgbench can't make its tables: {pgbench.words(output.stderr, ())}")
            self.place(own)  # the first time, the tables are still empty

    def program(self, clients: Clients, site: Site, seed: int) -> Program:
        program = find("pgbench", clients.beside)
        return pgbench.by_pgbench(clients, program, self.load, pgbench_scripts(self.load, site), seed, self.load.scale)

    def check(self, site: Site, beside: Path | None) -> str:
        pgbench_scripts(self.load, site)
        return version_text("pgbench", beside)
