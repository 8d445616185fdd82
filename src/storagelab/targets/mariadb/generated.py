"""The tables of a generated load on N data files of MariaDB: has them made, puts each where the layout says, reads that back.

Each table gets N partitions by the remainder of its key, which go round robin over the volumes. A single data file is one
partition too, since only a partition's place can be chosen after its table is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
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
from storagelab.targets.steps import check_same

_PRIMARY_KEY = """
SELECT k.column_name, c.data_type FROM information_schema.key_column_usage k
JOIN information_schema.columns c USING (table_schema, table_name, column_name)
WHERE k.table_schema = %s AND k.table_name = %s AND k.constraint_name = 'PRIMARY' ORDER BY k.ordinal_position"""
_TABLES = """
SELECT table_name, create_options FROM information_schema.tables
WHERE table_schema = %s AND table_type = 'BASE TABLE' AND engine = 'InnoDB' ORDER BY table_name"""


class GeneratedLayout(Layout):
    """The layout of one cell with a generated load: a database of its own on the server, named `prefix`."""

    def __init__(self, config: Config, prefix: str, folders: Folders | None) -> None:
        super().__init__(config, prefix, folders)
        self.name = next(iter(self.spread), "")

    @property
    def spread(self) -> tuple[str, ...]:
        load, said = self.config.workload, self.config.layout.spread
        if isinstance(load, Sysbench):
            return said or tuple(f"sbtest{number}" for number in range(1, load.tables + 1))
        return said or ()

    def _create_tables(self, connection: Connection) -> None:
        """The generator makes them."""

    def spread_out(self, connection: Connection) -> None:
        """Make partitions of each table that is to be spread. Raises RunFailed for one that can't be."""
        for table in self.spread:
            key = ask(connection, _PRIMARY_KEY, [self.prefix, table])
            if not key:
                there = (table,) in [(name,) for name, _ in self._tables(connection)]
                why = "has no primary key, by which it could be spread" if there else "is not there to be spread"
                raise RunFailed(f"the table {table} {why} over data files (layout.spread)")
            columns = ", ".join(identifier(name) for name, _ in key)
            # The remainder of a number deals rows out evenly, which the server's own method for other keys does not.
            method = "HASH" if len(key) == 1 and str(key[0][1]).endswith("int") else "KEY"
            partitions = ", ".join(self._partition(number, by_range=False) for number in self.data_files)
            execute(
                connection,
                f"ALTER TABLE {self.schema}.{identifier(table)} COMMENT {quoted(OWNERSHIP)} "
                f"PARTITION BY {method} ({columns}) ({partitions})",
            )

    def _tables(self, connection: Connection) -> list[tuple[str, str]]:
        """Every table of the database, with its options."""
        return [(str(name), str(options)) for name, options in ask(connection, _TABLES, [self.prefix])]

    def write_out(self, connection: Connection) -> None:
        for table, _ in self._tables(connection):
            execute(connection, f"FLUSH TABLES {self.schema}.{identifier(table)} FOR EXPORT")
            execute(connection, "UNLOCK TABLES")

    def files(self, connection: Connection) -> dict[int, Path]:
        return super().files(connection) if self.spread else {}

    def read_back(self, connection: Connection) -> list[Check]:
        """Checks the number of data files and their places, table by table; and the place of tables that are not spread."""
        checks = list[Check]()
        for table in self.spread:
            self.name = table
            checks += [
                one.model_copy(update={"name": f"{one.name} of {table}"}) for one in super().read_back(connection)
            ]
        self.name = next(iter(self.spread), "")
        return [*checks, *self._rest(connection)]

    def _rest(self, connection: Connection) -> Iterator[Check]:
        """Checks that what is not spread lies in the server's own folder."""
        rest = {self._place(file) for name, file in self.all_files(connection).items() if "#p#" not in name}
        if rest and not isinstance(self.config.workload, Sysbench):
            yield check_same(
                "place of the other tables",
                "default",
                ", ".join(sorted(rest)),
                "information_schema.innodb_sys_tablespaces",
            )


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


def fill_own(
    layout: GeneratedLayout,
    connection: Connection,
    run: Callable[[Path], CompletedProcess[str]],
    files: Sequence[tuple[str, Path]],
) -> None:
    """Have a database of the user's own made: `run` has the client read each of `files`. Raises RunFailed with its words."""
    for what, file in files:
        said = run(file)
        if said.returncode != 0:
            words = next((line for line in said.stderr.splitlines() if "error" in line.lower()), said.stderr.strip())
            raise RunFailed(f"{what} failed: {words}")
    layout.spread_out(connection)
