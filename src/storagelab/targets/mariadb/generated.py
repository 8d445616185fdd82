"""The tables of a generator's load on N data files of MariaDB: puts each where the layout says, and reads its place
back.

Each table gets N partitions by the remainder of its key, placed in turn on the volumes. A single data file is one
partition, too, since after a table is made, only a partition's place can be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from storagelab.errors import RunFailed
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets.attaching import OWNERSHIP
from storagelab.targets.folders import Folders
from storagelab.targets.generators.running import Generator
from storagelab.targets.generators.tables import GeneratedTables, L
from storagelab.targets.mariadb.connecting import Connection, ask, close, identifier
from storagelab.targets.mariadb.layout import Layout, execute, quoted
from storagelab.targets.mariadb.reaching import Reaching
from storagelab.targets.mariadb.redo_log import log_room
from storagelab.targets.steps import check_same

_PRIMARY_KEY = """
SELECT k.column_name, c.data_type FROM information_schema.key_column_usage k
JOIN information_schema.columns c USING (table_schema, table_name, column_name)
WHERE k.table_schema = %s AND k.table_name = %s AND k.constraint_name = 'PRIMARY' ORDER BY k.ordinal_position"""
_TABLES = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = %s AND table_type = 'BASE TABLE' AND engine = 'InnoDB' ORDER BY table_name"""


class MariaDBTables(GeneratedTables[Connection, L], Layout):
    """The tables of one cell's load, in their own database on the server, named `prefix`. Each kind of load adds how
    they are filled, and what works on them.
    """

    others_stay = True
    """Whether the server's own folder may have tables that are not spread."""

    def __init__(self, config: Config, prefix: str, folders: Folders | None) -> None:
        super().__init__(config, prefix, folders)
        self.name = next(iter(self.spread), "")

    def sessions(self, own: Connection, reach: Reaching, seed: int) -> Generator[Connection]:
        program = self.program(reach.clients(self.session_options), reach.site, seed)
        return Generator(
            program, self.load, reach.connect_worker, close, lambda: self._generator_sessions(own),
            log_room=lambda: log_room(own),
        )  # fmt: skip

    def _generator_sessions(self, own: Connection) -> list[int]:
        statement = "SELECT id FROM information_schema.processlist WHERE db = %s AND id <> connection_id()"
        return [number for (number,) in ask(own, statement, [self.prefix])]

    @property
    def spread(self) -> tuple[str, ...]:
        return self.config.layout.spread or self.default_spread

    def finish(self, own: Connection) -> None:
        """Spread the tables over the data files. Raises RunFailed for a table that can't be."""
        for table in self.spread:
            key = ask(own, _PRIMARY_KEY, [self.prefix, table])
            if not key:
                there = table in self.tables(own)
                why = "has no primary key, by which it could be spread" if there else "is not there to be spread"
                raise RunFailed(f"the table {table} {why} over data files (layout.spread)")
            columns = ", ".join(identifier(name) for name, _ in key)
            # The remainder of a number distributes rows evenly; the server's own method for other keys does not.
            method = "HASH" if len(key) == 1 and str(key[0][1]).endswith("int") else "KEY"
            partitions = ", ".join(self._partition(number, by_range=False) for number in self.data_files)
            execute(
                own,
                f"ALTER TABLE {self.schema}.{identifier(table)} COMMENT {quoted(OWNERSHIP)} "
                f"PARTITION BY {method} ({columns}) ({partitions})",
            )

    def tables(self, connection: Connection) -> list[str]:
        return [str(name) for (name,) in ask(connection, _TABLES, [self.prefix])]

    def files(self, connection: Connection) -> dict[int, Path]:
        return super().files(connection) if self.spread else {}

    def read_back(self, connection: Connection) -> list[Check]:
        """Checks the number of data files and their places, table by table, and the place of tables that are not
        spread.
        """
        checks = list[Check]()
        for table in self.spread:
            self.name = table
            checks += [
                one.model_copy(update={"name": f"{one.name} of {table}"}) for one in super().read_back(connection)
            ]
        self.name = next(iter(self.spread), "")
        return [*checks, *self._rest(connection)]

    def _rest(self, connection: Connection) -> Iterator[Check]:
        """Checks that tables that are not spread lie in the server's own folder."""
        rest = {self._place(file) for name, file in self.all_files(connection).items() if "#p#" not in name}
        if rest and self.others_stay:
            yield check_same(
                "place of the other tables",
                "default",
                ", ".join(sorted(rest)),
                "information_schema.innodb_sys_tablespaces",
            )
