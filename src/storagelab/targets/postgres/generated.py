"""The tables of a generator's load on N data files of PostgreSQL: puts each where the layout says, and reads its
place back.

A table that is spread has hash partitions, placed in turn in the data files' tablespaces. Every other table lies in the
first data file or on its own volume. An index lies beside its table or on the volume for indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from psycopg import sql

from storagelab.errors import RunFailed
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets.folders import Folders
from storagelab.targets.generators import pgbench
from storagelab.targets.generators.running import Generator
from storagelab.targets.generators.tables import GeneratedTables, L
from storagelab.targets.postgres.checkpoints import checkpoint_count
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.postgres.layout import Layout, Relation, relations_in
from storagelab.targets.postgres.reaching import Reaching, generator_sessions
from storagelab.targets.steps import check_same
from storagelab.targets.unprivileged import make_folder

_PRIMARY_KEY = """
SELECT c.relkind::text, coalesce(array_agg(a.attname ORDER BY a.attnum) FILTER (WHERE a.attname IS NOT NULL), '{}')
FROM pg_class c
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey)
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s) AND c.relname = %s AND c.relkind IN ('r', 'p')
GROUP BY c.oid, c.relkind"""
_TABLES = """
SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s) ORDER BY oid"""
_SEQUENCES = """
SELECT attname, pg_get_serial_sequence(attrelid::regclass::text, attname) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND pg_get_serial_sequence(attrelid::regclass::text, attname) IS NOT NULL"""


class PostgresTables(GeneratedTables[Connection, L], Layout):
    """The tables of one cell's load. Each kind of load adds how they are filled, and what works on them."""

    holds = True
    """Whether the tables are locked until the first of a set number of transactions may begin."""

    def __init__(
        self, config: Config, prefix: str, folders: Folders | Mapping[str, Path] | None, spaces: str | None = None
    ) -> None:
        super().__init__(config, prefix, folders, spaces)
        self._numbers: dict[str, int] = {}

    def _extra(self, what: str) -> str:
        return f"{self.spaces}_{what}"

    def _extra_folder(self, what: str) -> Path:
        assert self._folders is not None
        return self._folders[self.config.extra_volumes[what]] / what

    def tablespaces(self) -> list[tuple[str, Path]]:
        extra = [(self._extra(what), self._extra_folder(what)) for what in self.config.extra_volumes if self.on_volumes]
        return [*super().tablespaces(), *extra]

    def make_folders(self, owner: tuple[int, int] | None = None) -> None:
        super().make_folders(owner)
        for what in self.config.extra_volumes if self.on_volumes else ():
            make_folder(self._extra_folder(what), owner)

    @property
    def home(self) -> str:
        """The schema of the tables."""
        return self.prefix

    def sessions(self, own: Connection, reach: Reaching, seed: int) -> Generator[Connection]:
        program = self.program(reach.clients(self.session_options), reach.site, seed)
        return Generator(
            program, self.load, reach.connect_worker, lambda connection: connection.close(),
            lambda: generator_sessions(own), partial(self._hold, reach) if self.holds else None,
            checkpoint_count(own),
        )  # fmt: skip

    def _hold(self, reach: Reaching) -> Callable[[], None]:
        """Lock the load's tables; returns a function that unlocks them."""
        connection = reach.connect("storagelab gate")
        try:
            self.lock(connection)
        except BaseException:
            connection.close()
            raise
        return connection.close

    @property
    def session_options(self) -> dict[str, str]:
        options = {"search_path": self.home}
        if self.on_volumes:
            options["default_tablespace"] = self.tablespace(1)
            if "temp" in self.config.extra_volumes:
                options["temp_tablespaces"] = self._extra("temp")
        return options

    @property
    def partitions(self) -> int:
        """The number of hash partitions of each table that is spread; 0 if none is."""
        files = self.config.layout.data_files
        return self.asked_partitions or (files if files > 1 else 0)

    @property
    def asked_partitions(self) -> int | None:
        """How many hash partitions the load asks for."""
        return None

    @property
    def spread(self) -> tuple[str, ...]:
        given = self.config.layout.spread
        return given if given is not None else self.default_spread

    def finish(self, own: Connection) -> None:
        self.spread_out(own)
        self.place(own)
        own.execute("VACUUM ANALYZE")

    def spread_out(self, connection: Connection) -> None:
        """Make hash partitions for each table that is to be spread and has none yet. Raises RunFailed for a table
        that can't be.
        """
        for table in self.spread if self.partitions else ():
            row = connection.execute(_PRIMARY_KEY, [self.home, table]).fetchone()
            if row is None:
                raise RunFailed(f"there is no table {table} to be spread over data files (layout.spread)")
            kind, columns = row
            if kind == "p":
                continue
            if not columns:
                raise RunFailed(f"the table {table} has no primary key, by which it could be spread (layout.spread)")
            self._partition_by(connection, table, columns)

    def _partition_by(self, connection: Connection, table: str, columns: Sequence[str]) -> None:
        name, whole = sql.Identifier(self.home, table), sql.Identifier(self.home, f"{table}__whole")
        with connection.transaction():
            connection.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(name, sql.Identifier(f"{table}__whole")))
            connection.execute(
                sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL) PARTITION BY HASH ({})").format(
                    name, whole, sql.SQL(", ").join(map(sql.Identifier, columns))
                )
            )
            for number in range(self.partitions):
                connection.execute(
                    sql.SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES WITH (MODULUS {}, REMAINDER {})").format(
                        sql.Identifier(self.home, f"{table}_p{number + 1}"), name,
                        sql.Literal(self.partitions), sql.Literal(number),
                    )
                )  # fmt: skip
            for column, sequence in connection.execute(_SEQUENCES, [f'"{self.home}"."{table}__whole"']).fetchall():
                connection.execute(
                    sql.SQL("ALTER SEQUENCE {} OWNED BY {}").format(
                        sql.SQL(sequence), sql.Identifier(self.home, table, column)
                    )
                )
        self.place(connection)  # while they are empty
        connection.execute(sql.SQL("INSERT INTO {} SELECT * FROM {}").format(name, whole))
        connection.execute(sql.SQL("DROP TABLE {}").format(whole))

    def lock(self, connection: Connection) -> None:
        """Lock every table until the connection ends, except the one that pgbench counts before its sessions
        connect.
        """
        tables = connection.execute(_TABLES, [self.home]).fetchall()
        connection.execute("BEGIN")
        for (table,) in tables:
            if table != pgbench.COUNTED:
                connection.execute(
                    sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(self.home, table))
                )

    # --- places ------------------------------------------------------------------------------------------------------

    def place(self, connection: Connection) -> None:
        """Move every table and index to the tablespace that the layout names. Empty ones cost nothing."""
        for one in self._relations(connection) if self.on_volumes else ():
            wanted = self._wanted(one)
            if one.tablespace != wanted:
                what = "TABLE" if one.kind == "r" else "INDEX"
                connection.execute(
                    sql.SQL(f"ALTER {what} {{}}.{{}} SET TABLESPACE {{}}").format(
                        sql.Identifier(self.home), sql.Identifier(one.name), sql.Identifier(wanted)
                    )
                )

    def _relations(self, connection: Connection) -> list[Relation]:
        found = relations_in(connection, self.home)
        partitions = [(one.spread, one.name) for one in found if one.kind == "r" and one.spread]
        of_table: dict[str, list[str]] = {}
        for parent, name in partitions:
            of_table.setdefault(parent, []).append(name)
        files = self.config.layout.data_files
        self._numbers = {name: place % files + 1 for names in of_table.values() for place, name in enumerate(names)}
        return found

    def _wanted(self, one: Relation) -> str:
        """The tablespace of a table or an index."""
        extra = self.config.extra_volumes
        if one.kind == "i" and "indexes" in extra:
            return self._extra("indexes")
        if one.table in self._numbers:
            return self.tablespace(self._numbers[one.table])
        return self._extra("tables") if "tables" in extra else self.tablespace(1)

    def relations(self, connection: Connection) -> dict[int, tuple[str, int | None]]:
        found = self._relations(connection)
        return {one.oid: (one.name, self._numbers.get(one.table, 1 if one.table else None)) for one in found}

    def read_back(self, connection: Connection) -> list[Check]:
        """Reads which tables are spread, and the place of each table and index, from the server's own catalogue."""
        found = self._relations(connection)
        folders = {name: str(folder) for name, folder in self.tablespaces()}
        checks = [*self._spread_checks(found)]
        for kind, what in (("r", "tables"), ("i", "indexes")):
            asked = {
                one.name: folders[self._wanted(one)] if self.on_volumes else "default"
                for one in found
                if one.kind == kind
            }
            got = {one.name: one.place for one in found if one.kind == kind}
            wrong = [f"{name}: {place}" for name, place in got.items() if place != asked[name]]
            checks.append(
                Check(
                    name=f"place of the {what}", asked=", ".join(sorted(set(asked.values()))),
                    got=", ".join(wrong[:1] or sorted(set(got.values()))), ok=bool(got) and not wrong,
                    read_from="pg_tablespace_location",
                )
            )  # fmt: skip
        return [*checks, *self._temp_check(connection)]

    def _spread_checks(self, found: Sequence[Relation]) -> Iterator[Check]:
        if not self.partitions:
            return
        for table in self.spread:
            parts = [one for one in found if one.kind == "r" and one.spread == table]
            yield check_same(f"partitions of {table}", str(self.partitions), str(len(parts)), "pg_inherits")
            used = {self._numbers[one.name] for one in parts}
            yield check_same(f"data files of {table}", str(len(self.data_files)), str(len(used)), "pg_class")

    def _temp_check(self, connection: Connection) -> Iterator[Check]:
        if not self.on_volumes or "temp" not in self.config.extra_volumes:
            return
        row = connection.execute(
            "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = %s", [self._extra("temp")]
        ).fetchone()
        got = str(row[0]) if row else "absent"
        yield check_same("place of temporary files", str(self._extra_folder("temp")), got, "pg_tablespace_location")
