"""The articles' table on N data files of PostgreSQL, and the sessions that fill it.

N data files are N hash partitions, each in its own tablespace with its index, placed in turn on the volumes. A single
data file is one partition, too, so that routing costs the same in every layout. PostgreSQL keeps rows in order of
arrival and the key in a separate B-tree: random keys hit the index, not the heap.
"""

from __future__ import annotations

import contextlib
import selectors
import zlib
from collections.abc import Callable, Mapping

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus, TransactionStatus

from storagelab.engines.postgres.connect import Connection, Reaching
from storagelab.engines.postgres.layout import Layout, relations_in
from storagelab.errors import RunFailed
from storagelab.loads.inserting import InsertingSessions
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.measurement import Check
from storagelab.servers.steps import POLL_S, await_gate, check_places, check_same, rows_per_report
from storagelab.watching.counters import Loop

# --- workload --------------------------------------------------------------------------------------------------------
#
# The loop of inserts as a stored procedure, and the connections that run it: all are opened first, then start together.
TABLE = "my_big_table"


# A worker's key number n is a digest of the worker and n. To the server it is as random as any key, and storagelab can
# compute an existing key again for a point read.
_KEY = "md5(concat_ws('/', seed, worker, {number}))::uuid"


_ANY_OF_THOSE = "floor(random() * (done + 1))::bigint"


_INSERT = "INSERT INTO {schema}.{table} DEFAULT VALUES;"


_INSERT_KNOWN_KEY = f"INSERT INTO {{schema}}.{{table}} (c1) VALUES ({_KEY.format(number='done')});"


_READS = f"""
        reads_due := reads_due + reads_per_row;
        WHILE reads_due >= 1 LOOP
            -- Apart, or every row would be compared with another key.
            wanted := {_KEY.format(number=_ANY_OF_THOSE)};
            SELECT c6 INTO found FROM {{schema}}.{{table}} WHERE c1 = wanted;
            reads_due := reads_due - 1;
            reads_done := reads_done + 1;
            reads_found := reads_found + (found IS NOT DISTINCT FROM 42)::int;
        END LOOP;"""


_PROCEDURE = """
CREATE PROCEDURE {schema}.insert_rows(
    row_count bigint, rows_per_transaction bigint, rows_per_report bigint, gate bigint,
    seed bigint, worker bigint, reads_per_row float8,
    INOUT started_s float8 DEFAULT NULL, INOUT finished_s float8 DEFAULT NULL,
    INOUT reads_done bigint DEFAULT 0, INOUT reads_found bigint DEFAULT 0)
LANGUAGE plpgsql AS $body$
DECLARE
    done bigint := 0;
    found bigint;
    wanted uuid;
    reads_due float8 := 0;
BEGIN
    -- All connections wait here until the gate's holder lets them go together.
    PERFORM pg_advisory_lock_shared(gate);
    PERFORM pg_advisory_unlock_shared(gate);
    COMMIT;
    started_s := extract(epoch FROM clock_timestamp());
    WHILE done < row_count LOOP
        <insert><reads>
        done := done + 1;
        IF done % rows_per_transaction = 0 THEN
            COMMIT;
            IF done % rows_per_report = 0 THEN
                PERFORM set_config('application_name', 'storagelab ' || done, false);
            END IF;
        END IF;
    END LOOP;
    COMMIT;
    finished_s := extract(epoch FROM clock_timestamp());
    PERFORM set_config('application_name', 'storagelab ' || done, false);
END
$body$"""


def procedure(workload: InsertLoad) -> str:
    """The statement that creates the procedure, with places for `schema` and `table`."""
    insert, reads = (_INSERT_KNOWN_KEY, _READS) if workload.with_reads else (_INSERT, "")
    return _PROCEDURE.replace("<insert>", insert).replace("<reads>", reads)


def call(workload: InsertLoad, schema: str, gate: int, seed: int, worker: int) -> sql.Composed:
    """The call sent to each connection; `worker` is its number."""
    values = (
        workload.rows_per_connection, workload.rows_per_transaction, rows_per_report(workload), gate, seed, worker,
        workload.reads_per_row,
    )  # fmt: skip
    literals = sql.SQL(", ").join(map(sql.Literal, values))
    return sql.SQL("CALL {}.insert_rows({})").format(sql.Identifier(schema), literals)


class Workers(InsertingSessions[Connection]):
    """The connections of one run. `gatekeeper` is an extra connection, `gate` the key of an advisory lock that only
    this experiment uses.
    """

    driver_error = psycopg.Error

    def __init__(
        self,
        connect: Callable[[], Connection],
        workload: InsertLoad,
        schema: str,
        gatekeeper: Connection,
        gate: int,
        count_rows: Callable[[], int],
        seed: int = 1,
    ) -> None:
        super().__init__(workload, count_rows)
        self._connect, self.schema, self.seed = connect, schema, seed
        self._gatekeeper, self.gate = gatekeeper, gate
        self._connections: list[Connection] = []

    @property
    def ids(self) -> list[int]:
        """Process ids of the server sessions, one per connection."""
        return [connection.info.backend_pid for connection in self._connections]

    @property
    def first(self) -> Connection:
        return self._connections[0]

    def _add(self) -> None:
        self._connections.append(self._connect())

    def gather(self) -> None:
        """Close the gate, send every connection's call, and return once all of them wait at the gate."""
        self._gatekeeper.execute("SELECT pg_advisory_lock(%s)", [self.gate])
        for number, connection in enumerate(self._connections, start=1):
            connection.pgconn.nonblocking = 1
            statement = call(self.workload, self.schema, self.gate, self.seed, number)
            connection.pgconn.send_query(statement.as_bytes(connection))
            connection.pgconn.flush()
        await_gate(self._all_at_gate, self._raise_if_one_failed, pause_s=0.002)

    def _all_at_gate(self) -> bool:
        row = self._gatekeeper.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = ANY(%s)", [self.ids]
        ).fetchone()
        return row is not None and row[0] == len(self._connections)

    def _raise_if_one_failed(self) -> None:
        for connection in self._connections:
            connection.pgconn.consume_input()
            if not connection.pgconn.is_busy():
                _loop_of(connection)

    def release(self) -> None:
        """Open the gate: the server wakes all connections at once."""
        self._gatekeeper.execute("SELECT pg_advisory_unlock(%s)", [self.gate])

    def wait(self, on_poll: Callable[[], None]) -> list[Loop]:
        """Wait until every loop is done; call `on_poll` a few times a second.

        Raises RunFailed with the server's words as soon as one connection fails.
        """
        loops: dict[Connection, Loop] = {}
        with selectors.DefaultSelector() as selector:
            for connection in self._connections:
                selector.register(connection.pgconn.socket, selectors.EVENT_READ, connection)
            while len(loops) < len(self._connections):
                for key, _ in selector.select(POLL_S):
                    connection = key.data
                    try:
                        connection.pgconn.consume_input()
                    except psycopg.OperationalError as error:
                        raise RunFailed(f"a connection was lost: {error}") from error
                    if not connection.pgconn.is_busy():
                        selector.unregister(key.fileobj)
                        loops[connection] = _loop_of(connection)
                on_poll()
        return [loops[connection] for connection in self._connections]

    def settle(self) -> None:
        """Make each session report its counters now, not later by itself."""
        for connection in self._connections:
            connection.pgconn.nonblocking = 0
            with contextlib.suppress(psycopg.errors.UndefinedFunction):  # before PostgreSQL 15
                connection.execute("SELECT pg_stat_force_next_flush()")

    def close(self) -> None:
        """Close all connections and stop what still runs. Never raises, since it is also called after errors."""
        connections, self._connections = self._connections, []
        for connection in connections:
            with contextlib.suppress(psycopg.Error):
                if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
                    connection.cancel_safe(timeout=2.0)
        for connection in connections:
            connection.close()


def _loop_of(connection: Connection) -> Loop:
    """The result of a finished call. Raises RunFailed with the server's words if it is an error."""
    loop = None
    while (result := connection.pgconn.get_result()) is not None:
        if result.status == ExecStatus.TUPLES_OK:
            started, finished = result.get_value(0, 0), result.get_value(0, 1)
            assert started is not None
            assert finished is not None
            done, found = (int(result.get_value(0, column) or 0) for column in (2, 3))
            loop = Loop(started_s=float(started), finished_s=float(finished), reads_done=done, reads_found=found)
        elif result.status != ExecStatus.COMMAND_OK:
            raise RunFailed(f"a connection failed: {result.error_message.decode(errors='replace').strip()}")
    if loop is None:
        raise RunFailed(f"a connection was lost: {connection.pgconn.error_message.decode(errors='replace').strip()}")
    return loop


_RANDOM_COLUMNS = """
    c1 uuid NOT NULL DEFAULT gen_random_uuid(),
    c2 timestamp NOT NULL DEFAULT clock_timestamp(),
    c3 char(111) NOT NULL DEFAULT 'a',
    c4 int NOT NULL DEFAULT 1,
    c5 int NOT NULL DEFAULT 2,
    c6 bigint NOT NULL DEFAULT 42"""


# A filler of 8000 bytes in the row leaves no room for a second row in an 8 KiB page.
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
        gate = zlib.crc32(self.prefix.encode())  # the advisory lock's key, which only this experiment has
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
        numbers = {self.partition(number): number for number in self.data_files}
        return {one.oid: (one.name, numbers.get(one.table)) for one in relations_in(connection, self.prefix, "rpiIS")}

    def count_rows(self, connection: Connection) -> int:
        row = connection.execute(self._in_schema("SELECT count(*) FROM {schema}.{table}")).fetchone()
        assert row is not None
        return int(row[0])

    def read_back(self, connection: Connection) -> list[Check]:
        """Reads the number of data files, and the place of each one and its index, from the server's own catalogue."""
        found = relations_in(connection, self.prefix)
        places = {(one.table, one.kind): one.place for one in found}
        tables = sum(one.kind == "r" for one in found)
        asked = [self.asked(number) for number in self.data_files]
        return [
            check_same("data files", str(len(self.data_files)), str(tables), "pg_class"),
            check_places("place of the data files", asked, self._got(places, "r"), "pg_tablespace_location"),
            check_places("place of the indexes", asked, self._got(places, "i"), "pg_tablespace_location"),
        ]

    def _got(self, places: Mapping[tuple[str, str], str], kind: str) -> list[str]:
        return [places.get((self.partition(number), kind), "absent") for number in self.data_files]

    def check_after(self, connection: Connection) -> list[Check]:
        """Checks that the sequential workload has one row per page: compares the table's pages with its counted
        rows.
        """
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
        # The server extends files by several pages at once, so a few empty pages at their ends are normal.
        rows = self.load.rows
        ok = rows <= pages <= rows * 1.1 + 1024 * len(self.data_files)
        asked, got = f"{rows} rows", f"{pages} pages"
        return [Check(name="one row a page", asked=asked, got=got, ok=ok, read_from="pg_relation_size")]
