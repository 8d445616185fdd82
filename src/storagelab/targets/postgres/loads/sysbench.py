"""sysbench's tables on PostgreSQL."""

from __future__ import annotations

from storagelab.model.loads.sysbench import Sysbench
from storagelab.targets.generators.tables import SysbenchTables
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.postgres.generated import PostgresTables


class Tables(SysbenchTables[Connection], PostgresTables[Sysbench]):
    """The tables of one cell."""

    unit_bytes = 300
    holds = False  # sysbench keeps the time itself
