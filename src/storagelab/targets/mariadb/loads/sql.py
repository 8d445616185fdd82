"""The user's own tables on MariaDB: its client program makes them, and sysbench uses them."""

from __future__ import annotations

from pathlib import Path

from storagelab.errors import RunFailed
from storagelab.model.loads.sql import Sql
from storagelab.targets import Site
from storagelab.targets.generators import in_lua, sysbench
from storagelab.targets.generators.program import Program
from storagelab.targets.generators.programs import (
    Clients,
    own_transactions,
    own_transactions_by_sysbench,
    words_of_client,
)
from storagelab.targets.mariadb import reaching as programs
from storagelab.targets.mariadb.connecting import Connection
from storagelab.targets.mariadb.generated import MariaDBTables
from storagelab.targets.mariadb.layout import ALL_MARK
from storagelab.targets.programs import installation


class Tables(MariaDBTables[Sql]):
    """The tables of one cell."""

    mark = ALL_MARK

    def fill(self, own: Connection, clients: Clients, site: Site) -> None:
        program = programs.find(clients.beside)
        for what, file in programs.files_of(self.load, site):
            output = clients.run([str(program), *clients.options["mariadb"]], *installation(program), reads=file)
            if output.returncode != 0:
                raise RunFailed(f"{what} failed: {words_of_client(output)}")
        self.finish(own)

    def program(self, clients: Clients, site: Site, seed: int) -> Program:
        return own_transactions_by_sysbench(clients, self.load, own_transactions(self.load, site), seed)

    def check(self, site: Site, beside: Path | None) -> str:
        version = sysbench.version()
        in_lua.written(own_transactions(self.load, site))
        programs.files_of(self.load, site)
        programs.find(beside)
        return version
