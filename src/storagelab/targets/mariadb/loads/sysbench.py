"""sysbench's tables on MariaDB: sysbench makes them, and each is spread over the data files."""

from __future__ import annotations

from pathlib import Path

from storagelab.model.loads.sysbench import Sysbench
from storagelab.targets import Site
from storagelab.targets.generators import sysbench
from storagelab.targets.generators.program import Program
from storagelab.targets.generators.programs import make_sysbench_tables, on_sysbench_tables, own_script
from storagelab.targets.mariadb.connecting import Connection
from storagelab.targets.mariadb.generated import GeneratedTables
from storagelab.targets.mariadb.reaching import Reaching


class Tables(GeneratedTables[Sysbench]):
    """The tables of one cell."""

    unit_bytes = 500
    others_stay = False

    @property
    def spread_if_not_said(self) -> tuple[str, ...]:
        return self.load.table_names

    def fill(self, own: Connection, reach: Reaching) -> None:
        make_sysbench_tables(reach.clients(), self.server(reach), self.load, own_script(self.load, reach.site))
        self.spread_out(own)

    def program(self, reach: Reaching, seed: int) -> Program:
        scripts = own_script(self.load, reach.site)
        return on_sysbench_tables(reach.clients(), self.server(reach), self.load, scripts, seed)

    def check(self, site: Site, beside: Path | None) -> str:  # noqa: ARG002 - sysbench is no program of the server's
        own_script(self.load, site)
        return sysbench.version()
