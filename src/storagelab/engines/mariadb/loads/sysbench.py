"""sysbench's tables on MariaDB."""

from __future__ import annotations

from storagelab.engines.mariadb.connect import Connection
from storagelab.engines.mariadb.loads.generated import MariaDBTables
from storagelab.loads.tables import SysbenchTables
from storagelab.model.loads.sysbench import Sysbench
from storagelab.model.objects import Object


class Tables(SysbenchTables[Connection], MariaDBTables[Sysbench]):
    """The tables of one cell."""

    unit_bytes = 500
    others_stay = False

    @property
    def known_objects(self) -> list[Object] | None:
        if self.load.is_own:
            return None
        parts = [self._partition_of(table, number) for table in self.load.table_names for number in self.data_files]
        return [one._replace(bytes=self.data_bytes / len(parts)) for one in parts]
