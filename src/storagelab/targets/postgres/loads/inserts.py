"""The articles' table on N data files of PostgreSQL, and the sessions that fill it.

N data files are N hash partitions, each with its index in a tablespace of its own, round robin over the volumes. A single
data file is one partition too, so that every layout pays the same routing. PostgreSQL keeps rows in order of arrival and
the key in a separate B-tree: random keys hit the index, not the heap.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from psycopg import sql

from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.measurement import Check
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.postgres.layout import Layout
from storagelab.targets.postgres.reaching import Reaching
from storagelab.targets.postgres.workload import TABLE, Workers, procedure
from storagelab.targets.steps import check_places, check_same

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


class Tables(Layout):
    """The table of one cell."""

    @property
    def load(self) -> InsertLoad:
        return self.config.insert_load

    def sessions(self, own: Connection, reach: Reaching, seed: int) -> Workers:
        gate = zlib.crc32(self.prefix.encode())  # the advisory lock's key: this experiment's own
        count = self.count_rows
        return Workers(reach.connect_worker, self.load, self.prefix, own, gate, lambda: count(own), seed)

    def partition(self, number: int) -> str:
        return f"{TABLE}_p{number}"

    def _create_tables(self, connection: Connection) -> None:
        self._create_table(connection)
        connection.execute(self._in_schema(procedure(self.load)))

    def _in_schema(self, statement: str) -> sql.Composed:
        return sql.SQL(statement).format(schema=self.schema, table=sql.Identifier(TABLE))

    def _create_table(self, connection: Connection) -> None:
        columns = _RANDOM_COLUMNS
        if self.load.page_a_row:
            columns = _SEQUENTIAL_COLUMNS
            connection.execute(self._in_schema("CREATE SEQUENCE {schema}.my_big_key"))
        connection.execute(
            self._in_schema("CREATE TABLE {schema}.{table} (" + columns + ", PRIMARY KEY (c1)) PARTITION BY HASH (c1)")
        )
        if self.load.page_a_row:
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

    def check_after(self, connection: Connection) -> list[Check]:
        """Checks the sequential workload's promise of one row per page: the table's pages against its counted rows."""
        if not self.load.page_a_row:
            return []
        row = connection.execute(
            sql.SQL(
                "SELECT sum(pg_relation_size(inhrelid)) / current_setting('block_size')::int "
                "FROM pg_inherits WHERE inhparent = {}::regclass"
            ).format(sql.Literal(f'"{self.prefix}".{TABLE}'))
        ).fetchone()
        assert row is not None
        pages = int(row[0])
        # The server extends files by several pages at once, so a few empty ones at their ends are normal.
        rows = self.load.rows
        ok = rows <= pages <= rows * 1.1 + 1024 * len(self.data_files)
        asked, got = f"{rows} rows", f"{pages} pages"
        return [Check(name="one row a page", asked=asked, got=got, ok=ok, read_from="pg_relation_size")]
