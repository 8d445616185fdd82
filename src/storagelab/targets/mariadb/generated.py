"""The tables of a generator's load on N data files of MariaDB: puts each where the layout says, and reads that back.

Each table gets N partitions by the remainder of its key, which go round robin over the volumes. A single data file is one
partition too, since only a partition's place can be chosen after its table is made.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Generic, TypeVar, cast

from storagelab.errors import RunFailed
from storagelab.model.config import Config
from storagelab.model.loads.base import GeneratedLoad
from storagelab.model.measurement import Check
from storagelab.targets import Site
from storagelab.targets.attaching import OWNERSHIP
from storagelab.targets.folders import Folders
from storagelab.targets.generators.program import Program
from storagelab.targets.generators.running import Generator
from storagelab.targets.mariadb.connecting import Connection, ask, close, identifier
from storagelab.targets.mariadb.layout import Layout, execute, quoted
from storagelab.targets.mariadb.reaching import Reaching
from storagelab.targets.steps import check_same

_PRIMARY_KEY = """
SELECT k.column_name, c.data_type FROM information_schema.key_column_usage k
JOIN information_schema.columns c USING (table_schema, table_name, column_name)
WHERE k.table_schema = %s AND k.table_name = %s AND k.constraint_name = 'PRIMARY' ORDER BY k.ordinal_position"""
_TABLES = """
SELECT table_name, create_options FROM information_schema.tables
WHERE table_schema = %s AND table_type = 'BASE TABLE' AND engine = 'InnoDB' ORDER BY table_name"""

L = TypeVar("L", bound=GeneratedLoad)


class GeneratedTables(Layout, Generic[L]):
    """The tables of one cell's load, in a database of its own on the server, named `prefix`; each kind of load adds how they
    are filled, and what works on them."""

    others_stay = True
    """Whether tables that are not spread may be there, in the server's own folder."""

    def __init__(self, config: Config, prefix: str, folders: Folders | None) -> None:
        super().__init__(config, prefix, folders)
        self.load = cast("L", config.workload)
        self.name = next(iter(self.spread), "")

    unit_bytes: ClassVar[int] = 0
    """What a unit of the load's data takes on disk, measured and rounded up."""

    @abstractmethod
    def fill(self, own: Connection, reach: Reaching) -> None:
        """Have the tables made and filled. Raises RunFailed with the words of whoever does it."""

    @abstractmethod
    def program(self, reach: Reaching, seed: int) -> Program:
        """The generator that works on them."""

    @abstractmethod
    def check(self, site: Site, beside: Path | None) -> str:
        """Checks that everything needed is there, the server's own programs in the folder `beside`; describes the generator.
        Raises PreflightError."""

    def make(self, own: Connection, reach: Reaching) -> None:
        self.create(own)
        self.fill(own, reach)

    def sessions(self, own: Connection, reach: Reaching, seed: int) -> Generator[Connection]:
        program = self.program(reach, seed)
        return Generator(program, self.load, reach.connect_worker, close, lambda: self._generator_sessions(own))

    def _generator_sessions(self, own: Connection) -> list[int]:
        statement = "SELECT id FROM information_schema.processlist WHERE db = %s AND id <> connection_id()"
        return [number for (number,) in ask(own, statement, [self.prefix])]

    def server(self, reach: Reaching) -> list[str]:
        """The options by which sysbench gets to the server; it finds a password in the environment."""
        address = reach.address
        place = (
            [f"--mysql-socket={address.unix_socket}"]
            if address.unix_socket
            else [f"--mysql-host={address.host}", f"--mysql-port={address.port}"]
        )
        tls = ["--mysql-ssl=on"] if address.ssl else []
        return ["--db-driver=mysql", *place, f"--mysql-user={address.user}", f"--mysql-db={self.prefix}", *tls]

    @property
    def spread_if_not_said(self) -> tuple[str, ...]:
        """The tables that are spread over data files if the spec names none."""
        return ()

    @property
    def spread(self) -> tuple[str, ...]:
        return self.config.layout.spread or self.spread_if_not_said

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

    def tables(self, connection: Connection) -> list[str]:
        return [name for name, _ in self._tables(connection)]

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
        if rest and self.others_stay:
            yield check_same(
                "place of the other tables",
                "default",
                ", ".join(sorted(rest)),
                "information_schema.innodb_sys_tablespaces",
            )
