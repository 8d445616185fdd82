"""The articles' table on N data files of PostgreSQL: makes it, reads it back and drops it.

N data files are N hash partitions, each with its index in a tablespace of its own, round robin over the volumes. A single
data file is one partition too, so that every layout pays the same routing. PostgreSQL keeps rows in order of arrival and
the key in a separate B-tree: random keys hit the index, not the heap.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from psycopg import sql

from storagelab.errors import PreflightError
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets.attaching import OWNERSHIP
from storagelab.targets.folders import Folders
from storagelab.targets.places import Places, remote_name
from storagelab.targets.postgres import kept
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.postgres.procedures import TABLE, procedure
from storagelab.targets.steps import check_places, check_same

_DROPPED_TOGETHER = 64
_RANDOM_COLUMNS = """
    c1 uuid NOT NULL DEFAULT gen_random_uuid(),
    c2 timestamp NOT NULL DEFAULT clock_timestamp(),
    c3 char(111) NOT NULL DEFAULT 'a',
    c4 int NOT NULL DEFAULT 1,
    c5 int NOT NULL DEFAULT 2,
    c6 bigint NOT NULL DEFAULT 42"""
# A filler of 8000 bytes kept in the row leaves no room for a second row in an 8 KiB page.
_SEQUENTIAL_COLUMNS = """
    c1 bigint NOT NULL DEFAULT nextval('{schema}.my_big_key'),
    c2 timestamp NOT NULL DEFAULT clock_timestamp(),
    c3 char(8000) NOT NULL DEFAULT 'a',
    c4 int NOT NULL DEFAULT 1,
    c5 int NOT NULL DEFAULT 2,
    c6 bigint NOT NULL DEFAULT 42"""


class Layout(Places):
    """The layout of one cell in one database; `prefix` begins every name that is made, `spaces` those of tablespaces, if they
    outlive the run."""

    def __init__(
        self, config: Config, prefix: str, folders: Folders | Mapping[str, Path] | None, spaces: str | None = None
    ) -> None:
        super().__init__(config, folders, folder_each=True)
        self.prefix, self.spaces = prefix, spaces or prefix
        self.schema = sql.Identifier(prefix)

    def tablespace(self, number: int) -> str:
        return f"{self.spaces}_f{number:04d}"

    def partition(self, number: int) -> str:
        return f"{TABLE}_p{number}"

    def create(self, connection: Connection) -> None:
        """Make tablespaces, schema, table, partitions and the loading procedure, each in its own transaction: a single one
        for all partitions could need more locks than the server has room for."""
        with connection.transaction():
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(self.schema))
            connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(self.schema, sql.Literal(OWNERSHIP)))
        for name, folder in self.tablespaces():
            connection.execute(
                sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(sql.Identifier(name), sql.Literal(str(folder)))
            )
        self._create_tables(connection)

    def tablespaces(self) -> list[tuple[str, Path]]:
        """Every tablespace with its folder."""
        return [(self.tablespace(number), self.folder_of(number)) for number in self.data_files if self.on_volumes]

    def _create_tables(self, connection: Connection) -> None:
        self._create_table(connection)
        connection.execute(self._in_schema(procedure(self.config.insert_load)))

    def _in_schema(self, statement: str) -> sql.Composed:
        return sql.SQL(statement).format(schema=self.schema, table=sql.Identifier(TABLE))

    def _create_table(self, connection: Connection) -> None:
        columns = _RANDOM_COLUMNS
        if self.config.workload.kind == "sequential-insert":
            columns = _SEQUENTIAL_COLUMNS
            connection.execute(self._in_schema("CREATE SEQUENCE {schema}.my_big_key"))
        connection.execute(
            self._in_schema("CREATE TABLE {schema}.{table} (" + columns + ", PRIMARY KEY (c1)) PARTITION BY HASH (c1)")
        )
        if self.config.workload.kind == "sequential-insert":
            connection.execute(self._in_schema("ALTER TABLE {schema}.{table} ALTER COLUMN c3 SET STORAGE PLAIN"))
        for number in self.data_files:
            if self.on_volumes:
                # The partition's index goes into the default tablespace, so set that.
                connection.execute(
                    sql.SQL("SET default_tablespace = {}").format(sql.Identifier(self.tablespace(number)))
                )
            connection.execute(
                sql.SQL("CREATE TABLE {}.{} PARTITION OF {}.{} FOR VALUES WITH (MODULUS {}, REMAINDER {})").format(
                    self.schema, sql.Identifier(self.partition(number)), self.schema, sql.Identifier(TABLE),
                    sql.Literal(len(self.data_files)), sql.Literal(number - 1),
                )
            )  # fmt: skip
        connection.execute("RESET default_tablespace")

    def drop(self, connection: Connection, *, templates: bool = True) -> list[str]:
        """Drop everything that storagelab made under the prefix, in any layout; says what was dropped. Without `templates`,
        the databases from which later runs' are made stay, with their tablespaces.

        Raises PreflightError, with nothing dropped, when something of such a name is not storagelab's.
        """
        databases, schemas, tablespaces = self._made_before(connection)
        if not templates:
            stay = {*databases} - {self.prefix}
            databases = [name for name in databases if name not in stay]
            tablespaces = [name for name in tablespaces if kept.of_template(self.prefix, name) not in stay]
        connection.execute("SET lock_timeout = '30s'")
        connection.execute("SET client_min_messages = warning")
        for name in databases:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        for name in schemas:
            self._drop_partitions(connection, name)
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
        for name in tablespaces:
            connection.execute(sql.SQL("DROP TABLESPACE {}").format(sql.Identifier(name)))
        made = {"database": databases, "schema": schemas, "tablespace": tablespaces}
        return [f"{what} {name}" for what, names in made.items() for name in names]

    def _drop_partitions(self, connection: Connection, schema: str) -> None:
        """Drop partitions one by one if they are many: one transaction for all could need more locks than the server has."""
        partitions = connection.execute(
            "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' AND relnamespace = %s::regnamespace",
            [f'"{schema}"'],
        ).fetchall()
        for (name,) in partitions if len(partitions) > _DROPPED_TOGETHER else ():
            connection.execute(sql.SQL("DROP TABLE {}.{}").format(sql.Identifier(schema), sql.Identifier(name)))

    def check_nothing_in_the_way(self, connection: Connection) -> None:
        """Refuses schemas and tablespaces that are not storagelab's but have a name that it needs. Raises PreflightError."""
        self._made_before(connection)

    def _made_before(self, connection: Connection) -> tuple[list[str], list[str], list[str]]:
        """Names of databases, schemas and tablespaces that an earlier run left.

        A database or a schema is recognised by its comment, a tablespace by its folder: it is in one that storagelab made, or
        has a name that operators give to folders for storagelab.
        """
        databases = connection.execute(
            "SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database WHERE datname ~ %s ORDER BY datname",
            [f"^{self.prefix}(_{kept.NAME})?$"],
        ).fetchall()
        schemas = connection.execute(
            "SELECT nspname, obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", [self.prefix]
        ).fetchall()
        tablespaces = connection.execute(
            "SELECT spcname, pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname ~ %s ORDER BY spcname",
            [f"^{self.prefix}_({kept.NAME}_)?(f[0-9]+|tables|indexes|temp)$"],
        ).fetchall()
        foreign = [f"database {name}" for name, comment in databases if comment != OWNERSHIP]
        foreign += [f"schema {name}" for name, comment in schemas if comment != OWNERSHIP]
        foreign += [
            f"tablespace {name}" for name, place in tablespaces if not self._holds_data_files(name, Path(place))
        ]
        if foreign:
            raise PreflightError(
                f"on the server, {' and '.join(foreign)} has a name that storagelab needs, but storagelab did not make it",
                key="target.dsn",
                hint="rename or drop it; storagelab drops only what it made itself",
            )
        return [name for name, _ in databases], [name for name, _ in schemas], [name for name, _ in tablespaces]

    def _holds_data_files(self, tablespace: str, folder: Path) -> bool:
        identity, above = self.prefix.rpartition("_")[2], folder.parent.name
        end = f"-{identity}"
        if kept.of_template(self.prefix, tablespace) is not None:
            above, end = folder.parent.parent.name, f"-{identity}-templates"
        ours = above.startswith("storagelab-") and above.endswith(end)
        number = tablespace.rpartition("_f")[2]
        return ours or (number.isdigit() and folder.name == remote_name(int(number)))

    def relations(self, connection: Connection) -> dict[int, tuple[str, int | None]]:
        """Every table and index of the layout: `{oid: (name, data file number)}`; None for the partitioned parents."""
        rows = connection.execute(
            """
            SELECT c.oid::bigint, c.relname, coalesce(owner.relname, c.relname)
            FROM pg_class c
            LEFT JOIN pg_index i ON i.indexrelid = c.oid
            LEFT JOIN pg_class owner ON owner.oid = i.indrelid
            WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)
            """,
            [self.prefix],
        ).fetchall()
        numbers = {self.partition(number): number for number in self.data_files}
        return {oid: (name, numbers.get(table)) for oid, name, table in rows}

    def count_rows(self, connection: Connection) -> int:
        row = connection.execute(self._in_schema("SELECT count(*) FROM {schema}.{table}")).fetchone()
        assert row is not None
        return int(row[0])

    def read_back(self, connection: Connection) -> list[Check]:
        """Reads the number of data files and the places of each one and its index from the server's own catalogue."""
        rows = connection.execute(
            """
            SELECT c.relname, c.relkind::text, coalesce(nullif(pg_tablespace_location(c.reltablespace), ''), 'default'),
                   coalesce(owner.relname, c.relname)
            FROM pg_class c
            LEFT JOIN pg_index i ON i.indexrelid = c.oid
            LEFT JOIN pg_class owner ON owner.oid = i.indrelid
            WHERE c.relkind IN ('r', 'i') AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)
            """,
            [self.prefix],
        ).fetchall()
        places = {(table, kind): place for _, kind, place, table in rows}
        tables = sum(1 for _, kind, _, _ in rows if kind == "r")
        asked = [self.asked(number) for number in self.data_files]
        return [
            check_same("data files", str(len(self.data_files)), str(tables), "pg_class"),
            check_places("place of the data files", asked, self._got(places, "r"), "pg_tablespace_location"),
            check_places("place of the indexes", asked, self._got(places, "i"), "pg_tablespace_location"),
        ]

    def _got(self, places: Mapping[tuple[str, str], str], kind: str) -> list[str]:
        return [places.get((self.partition(number), kind), "absent") for number in self.data_files]
