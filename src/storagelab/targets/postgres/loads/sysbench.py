"""sysbench's tables on PostgreSQL: sysbench makes them, and each is spread over the data files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from storagelab.model.loads.sysbench import Sysbench
from storagelab.targets import Site
from storagelab.targets.generators import sysbench
from storagelab.targets.generators.program import Program
from storagelab.targets.generators.programs import Clients, make_sysbench_tables, on_sysbench_tables, own_script
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.postgres.generated import GeneratedTables


class Tables(GeneratedTables[Sysbench]):
    """The tables of one cell."""

    unit_bytes = 300
    holds = False  # sysbench keeps the time itself

    @property
    def spread_if_not_said(self) -> tuple[str, ...]:
        return self.load.table_names

    def fill(self, own: Connection, clients: Clients, site: Site) -> None:
        make_sysbench_tables(clients, _server(clients.environment), self.load, own_script(self.load, site))
        self.spread_out(own)
        own.execute("VACUUM ANALYZE")
        self.place(own)

    def program(self, clients: Clients, site: Site, seed: int) -> Program:
        server = _server(clients.environment)
        return on_sysbench_tables(clients, server, self.load, own_script(self.load, site), seed)

    def check(self, site: Site, beside: Path | None) -> str:  # noqa: ARG002 - sysbench is no program of the server's
        own_script(self.load, site)
        return sysbench.version()


def _server(environment: Mapping[str, str]) -> list[str]:
    """The options by which sysbench leaves the server to the client library, whose variables hold it; but for the port."""
    nothing = ("--pgsql-host=", "--pgsql-user=", "--pgsql-password=", "--pgsql-db=")
    return ["--db-driver=pgsql", *nothing, f"--pgsql-port={environment.get('PGPORT', '5432')}"]
