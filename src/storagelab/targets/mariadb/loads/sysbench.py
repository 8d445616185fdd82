"""sysbench's tables on MariaDB."""

from __future__ import annotations

from storagelab.model.loads.sysbench import Sysbench
from storagelab.targets.generators.tables import SysbenchTables
from storagelab.targets.mariadb.connecting import Connection
from storagelab.targets.mariadb.generated import MariaDBTables


class Tables(SysbenchTables[Connection], MariaDBTables[Sysbench]):
    """The tables of one cell."""

    unit_bytes = 500
    others_stay = False
