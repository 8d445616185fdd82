"""The table of the articles on N data files of PostgreSQL, and the sessions that fill it.

Each of the N data files is a hash partition. Each partition and its index are in their own tablespace. The tablespaces
are placed on the volumes in turn. A single data file is also a partition, so that finding the right partition costs the
same in every layout. PostgreSQL stores rows in the order of their arrival, and the keys in a separate B-tree. So random
keys are inserted all over the index, but not all over the heap.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from storagelab.engines.postgres.connect import Connection, PostgresReach, execute, page_bytes, value
from storagelab.engines.postgres.layout import Layout, relations_in
from storagelab.loads.inserting import InsertingSessions
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.measurement import Check
from storagelab.servers.interfaces import rows_per_report
from storagelab.servers.places import check_places, check_same
from storagelab.watching.counters import Loop

# --- workload --------------------------------------------------------------------------------------------------------
#
# The loop of inserts is a stored procedure. All connections that run it are opened first. Then they start together.


TABLE = "my_big_table"
# The key number n of a worker is a digest of the worker's number and n. For the server, it is as good as a random key.
# For a point read, storagelab can compute an existing key again.
_KEY = "md5(concat_ws('/', seed, worker, {number}))::uuid"
_ANY_OF_THOSE = "floor(random() * (done + 1))::bigint"
_INSERT = "INSERT INTO {schema}.{table} DEFAULT VALUES;"
_INSERT_KNOWN_KEY = f"INSERT INTO {{schema}}.{{table}} (c1) VALUES ({_KEY.format(number='done')});"
_READS = f"""
        reads_due := reads_due + reads_per_row;
        WHILE reads_due >= 1 LOOP
            -- A variable, because the SELECT would compute another random key for each row.
            wanted := {_KEY.format(number=_ANY_OF_THOSE)};
            SELECT c6 INTO found FROM {{schema}}.{{table}} WHERE c1 = wanted;
            reads_due := reads_due - 1;
            reads_done := reads_done + 1;
            reads_found := reads_found + (found IS NOT DISTINCT FROM 42)::int;
        END LOOP;"""
_PROCEDURE = Path(__file__).with_name("insert_rows.sql").read_text("utf-8")


def procedure(workload: InsertLoad) -> str:
    """The statement that creates the procedure, with places for `schema` and `table`."""
    insert, reads = (_INSERT_KNOWN_KEY, _READS) if workload.with_reads else (_INSERT, "")
    return _PROCEDURE.replace("<insert>", insert).replace("<reads>", reads)


def call(workload: InsertLoad, schema: str, gate: int, seed: int, worker: int) -> sql.Composed:
    """The statement that calls the procedure on a connection. `worker` is the number of the connection."""
    values = (
        workload.rows_per_connection, workload.rows_per_transaction, rows_per_report(workload), gate, seed, worker,
        workload.reads_per_row,
    )  # fmt: skip
    literals = sql.SQL(", ").join(map(sql.Literal, values))
    return sql.SQL("CALL {}.insert_rows({})").format(sql.Identifier(schema), literals)


class Workers(InsertingSessions[Connection]):
    """The connections of one run.

    `gatekeeper` is an extra connection. It holds an advisory lock, for which the workers wait at the start. Only this
    experiment uses the key of the lock.
    """

    driver_error = psycopg.Error

    def __init__(self, connect: Callable[[], Connection], tables: Tables, gatekeeper: Connection, seed: int) -> None:
        super().__init__(connect, tables.config.insert_load, lambda: tables.count_rows(gatekeeper), seed)
        self.schema, self._gatekeeper, self.gate = tables.prefix, gatekeeper, zlib.crc32(tables.prefix.encode())

    @property
    def ids(self) -> list[int]:
        """The process ids of the sessions on the server, one for each connection."""
        return [worker.connection.info.backend_pid for worker in self._workers]

    def _close_gate(self) -> None:
        self._gatekeeper.execute("SELECT pg_advisory_lock(%s)", [self.gate])

    def _all_at_gate(self) -> bool:
        standing = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = ANY(%s)"
        return bool(value(self._gatekeeper, standing, [self.ids]) == len(self._workers))

    def release(self) -> None:
        """Releases the lock for which the workers wait. Then the server wakes all connections together."""
        self._gatekeeper.execute("SELECT pg_advisory_unlock(%s)", [self.gate])

    def _loop(self, connection: Connection, number: int) -> Loop:
        # This calls libpq directly, because libpq sleeps until the answer. psycopg would wake up ten times a second.
        statement = call(self.workload, self.schema, self.gate, self.seed, number)
        result = connection.pgconn.exec_(statement.as_bytes(connection))
        if result.status != ExecStatus.TUPLES_OK:
            raise psycopg.OperationalError(connection.pgconn.error_message.decode(errors="replace"))
        started_s, finished_s, done, found = (float(result.get_value(0, column) or 0) for column in range(4))
        return Loop(started_s=started_s, finished_s=finished_s, reads_done=int(done), reads_found=int(found))

    def _failed(self, error: Exception) -> str:
        words = str(error).strip()
        by_server = re.match(r"\w+:  ", words)  # the severity, in any language
        return f"a connection {'failed' if by_server else 'was lost'}: {words}"

    def settle(self) -> None:
        """Makes each session report its counters now."""
        for worker in self._workers:
            with contextlib.suppress(psycopg.errors.UndefinedFunction):  # before PostgreSQL 15
                worker.connection.execute("SELECT pg_stat_force_next_flush()")

    def _stop(self, working: Sequence[Connection]) -> None:
        for connection in working:
            with contextlib.suppress(psycopg.Error):
                connection.cancel_safe(timeout=2.0)


_RANDOM_COLUMNS = """
    c1 uuid NOT NULL DEFAULT gen_random_uuid(),
    c2 timestamp NOT NULL DEFAULT clock_timestamp(),
    c3 char(111) NOT NULL DEFAULT 'a',
    c4 int NOT NULL DEFAULT 1,
    c5 int NOT NULL DEFAULT 2,
    c6 bigint NOT NULL DEFAULT 42"""
# With a filler of 8000 bytes in the row, a page of 8 KiB has no room for a second row.
_SEQUENTIAL_COLUMNS = """
    c1 bigint NOT NULL DEFAULT nextval('{schema}.my_big_key'),
    c2 timestamp NOT NULL DEFAULT clock_timestamp(),
    c3 char(8000) NOT NULL DEFAULT 'a',
    c4 int NOT NULL DEFAULT 1,
    c5 int NOT NULL DEFAULT 2,
    c6 bigint NOT NULL DEFAULT 42"""


class Tables(Layout):
    """The table of one cell."""

    def sessions(self, own: Connection, reach: PostgresReach, seed: int) -> Workers:
        return Workers(reach.connect_worker, self, own, seed)

    def partition(self, number: int) -> str:
        return f"{TABLE}_p{number}"

    def _create_tables(self, connection: Connection) -> None:
        columns = _RANDOM_COLUMNS
        if self.config.insert_load.page_a_row:
            columns = _SEQUENTIAL_COLUMNS
            connection.execute(self._in_schema("CREATE SEQUENCE {schema}.my_big_key"))
        connection.execute(
            self._in_schema("CREATE TABLE {schema}.{table} (" + columns + ", PRIMARY KEY (c1)) PARTITION BY HASH (c1)")
        )
        if self.config.insert_load.page_a_row:
            connection.execute(self._in_schema("ALTER TABLE {schema}.{table} ALTER COLUMN c3 SET STORAGE PLAIN"))
        for number in self.data_files:
            if self.on_volumes:
                # PostgreSQL puts the partition's index into the default tablespace.
                execute(connection, "SET default_tablespace = {}", self.tablespace(number))
            execute(
                connection, "CREATE TABLE {} PARTITION OF {} FOR VALUES WITH (MODULUS {}, REMAINDER {})",
                (self.prefix, self.partition(number)), (self.prefix, TABLE),
                sql.Literal(len(self.data_files)), sql.Literal(number - 1),
            )  # fmt: skip
        connection.execute("RESET default_tablespace")
        connection.execute(self._in_schema(procedure(self.config.insert_load)))

    def _in_schema(self, statement: str) -> sql.Composed:
        return sql.SQL(statement).format(schema=sql.Identifier(self.prefix), table=sql.Identifier(TABLE))

    def relations(self, connection: Connection) -> dict[int, tuple[str, int | None]]:
        """Every table and index of the layout: `{oid: (name, number of its data file)}`.

        The number is None for the partitioned table and the partitioned index.
        """
        numbers = {self.partition(number): number for number in self.data_files}
        return {one.oid: (one.name, numbers.get(one.table)) for one in relations_in(connection, self.prefix, "rpiIS")}

    def count_rows(self, connection: Connection) -> int:
        return int(value(connection, self._in_schema("SELECT count(*) FROM {schema}.{table}")))

    def read_back(self, connection: Connection) -> list[Check]:
        """Checks the number of data files, and the place of each data file and its index, in the server's catalogue."""
        found = relations_in(connection, self.prefix)
        places = {(one.table, one.kind): one.place for one in found}
        asked, parts = list(map(self.asked, self.data_files)), list(map(self.partition, self.data_files))
        tables = sum(one.kind == "r" for one in found)
        return [check_same("data files", str(len(self.data_files)), str(tables), "pg_class")] + [
            check_places(
                f"place of the {what}", asked, [places.get((part, kind), "absent") for part in parts],
                "pg_tablespace_location",
            )
            for what, kind in (("data files", "r"), ("indexes", "i"))
        ]  # fmt: skip

    def check_after(self, connection: Connection) -> list[Check]:
        """Checks that the sequential workload has one row per page.

        Compares the number of the table's pages with the number of its rows.
        """
        if not self.config.insert_load.page_a_row:
            return []
        sizes = "SELECT sum(pg_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = %s::regclass"
        pages = int(value(connection, sizes, [f'"{self.prefix}".{TABLE}'])) // page_bytes(connection)
        # The server extends files by several pages at once, so a few empty pages at their ends are normal.
        rows = self.config.insert_load.rows
        ok = rows <= pages <= rows * 1.1 + 1024 * len(self.data_files)
        asked, got = f"{rows} rows", f"{pages} pages"
        return [Check(name="one row a page", asked=asked, got=got, ok=ok, read_from="pg_relation_size")]
