"""sysbench's tables on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

from storagelab.engines.postgres.connect import Connection
from storagelab.engines.postgres.loads.generated import PostgresTables
from storagelab.loads.generator import Clients
from storagelab.loads.sysbench import ask_by_sysbench
from storagelab.loads.tables import SysbenchTables
from storagelab.model.loads.sysbench import Sysbench
from storagelab.model.objects import Object


class Tables(SysbenchTables[Connection], PostgresTables[Sysbench]):
    """The tables of one cell."""

    unit_bytes = 300

    def places(self, clients: Clients) -> Iterator[tuple[str, str]]:
        yield "sysbench", ask_by_sysbench(clients, "SELECT current_schema()")

    @property
    def known_objects(self) -> list[Object] | None:
        if self.load.is_own:
            return None
        each_bytes = self.data_bytes / self.load.tables
        index_bytes = self.index_share * each_bytes / 2
        found = list[Object]()
        for number, name in enumerate(self.load.table_names, 1):
            found += self._in_parts(name, f"{name}_p{{}}", "table", (1 - self.index_share) * each_bytes)
            found += self._in_parts(f"{name}_pkey", f"{name}_p{{}}_pkey", "index", index_bytes)
            found += self._in_parts(f"k_{number}", f"{name}_p{{}}_k_idx", "index", index_bytes)
        return found

    holds = False  # sysbench itself measures the time
