"""The tables of a generated load on N data files of MariaDB: has them made, puts each where the layout says, reads that back.

Each table gets N partitions by the remainder of its key, which go round robin over the volumes. A single data file is one
partition too, since only a partition's place can be chosen after its table is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from subprocess import CompletedProcess

from storagelab.errors import RunFailed
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.model.workload import Sysbench
from storagelab.targets.attaching import OWNERSHIP
from storagelab.targets.folders import Folders
from storagelab.targets.generators import sysbench
from storagelab.targets.mariadb.connecting import Address, Connection, ask, identifier
from storagelab.targets.mariadb.layout import Layout, execute, quoted

_PRIMARY_KEY = """
SELECT column_name FROM information_schema.key_column_usage
WHERE table_schema = %s AND table_name = %s AND constraint_name = 'PRIMARY' ORDER BY ordinal_position"""


class GeneratedLayout(Layout):
    """The layout of one cell with a generated load: a database of its own on the server, named `prefix`."""

    def __init__(self, config: Config, prefix: str, folders: Folders | None) -> None:
        super().__init__(config, prefix, folders)
        self.name = self.spread[0]

    @property
    def spread(self) -> tuple[str, ...]:
        load, said = self.config.workload, self.config.layout.spread
        assert isinstance(load, Sysbench)
        return said or tuple(f"sbtest{number}" for number in range(1, load.tables + 1))

    def _create_tables(self, connection: Connection) -> None:
        """The generator makes them."""

    def spread_out(self, connection: Connection) -> None:
        """Make partitions of each table that is to be spread. Raises RunFailed for one that can't be."""
        for table in self.spread:
            key = [name for (name,) in ask(connection, _PRIMARY_KEY, [self.prefix, table])]
            if len(key) != 1:
                why = (
                    "has no primary key of one column, by which it could be spread"
                    if key
                    else "is not there to be spread"
                )
                raise RunFailed(f"the table {table} {why} over data files (layout.spread)")
            partitions = ", ".join(self._partition(number, by_range=False) for number in self.data_files)
            execute(
                connection,
                f"ALTER TABLE {self.schema}.{identifier(table)} COMMENT {quoted(OWNERSHIP)} "
                f"PARTITION BY HASH ({identifier(key[0])}) ({partitions})",
            )

    def write_out(self, connection: Connection) -> None:
        for table in self.spread:
            execute(connection, f"FLUSH TABLES {self.schema}.{identifier(table)} FOR EXPORT")
            execute(connection, "UNLOCK TABLES")

    def read_back(self, connection: Connection) -> list[Check]:
        """Checks the number of data files and their places, table by table."""
        checks = list[Check]()
        for table in self.spread:
            self.name = table
            checks += [
                one.model_copy(update={"name": f"{one.name} of {table}"}) for one in super().read_back(connection)
            ]
        self.name = self.spread[0]
        return checks


def options(address: Address, prefix: str) -> list[str]:
    """The options by which sysbench reaches a server; it finds a password in the environment."""
    place = (
        [f"--mysql-socket={address.unix_socket}"]
        if address.unix_socket
        else [f"--mysql-host={address.host}", f"--mysql-port={address.port}"]
    )
    tls = ["--mysql-ssl=on"] if address.ssl else []
    return ["--db-driver=mysql", *place, f"--mysql-user={address.user}", f"--mysql-db={prefix}", *tls]


def fill(
    layout: GeneratedLayout,
    connection: Connection,
    run: Callable[[Sequence[str]], CompletedProcess[str]],
    server: Sequence[str],
    *,
    own: bool,
) -> None:
    """Have the tables made and filled by sysbench with the options `server`; `own` = it runs a script of the user's. Raises
    RunFailed with its words."""
    load = layout.config.workload
    assert isinstance(load, Sysbench)
    said = run(sysbench.initialise(server, load, own=own))
    if said.returncode != 0:
        raise RunFailed(f"sysbench can't make its tables: {sysbench.words(said.stdout + said.stderr, load.script)}")
    layout.spread_out(connection)
