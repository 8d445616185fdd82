"""The table of the articles on N data files of MariaDB, and the sessions that fill it.

InnoDB keeps rows in the order of the key, so rows with random keys are inserted all over the table. The partitions get
equal numbers of rows: random keys are divided by equal ranges, ascending keys by their remainder. MariaDB's PARTITION
BY KEY does not divide random keys evenly: with 2, 4, 8 and 16 partitions, the fullest partition got 67, 42, 25 and 15 %
of them (10.11).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pymysql

from storagelab.engines.mariadb.connect import Connection, MariaDBReach, ask, close, words_of
from storagelab.engines.mariadb.layout import TABLE, Layout
from storagelab.loads.inserting import InsertingSessions
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.measurement import Check
from storagelab.servers.attached import OWNERSHIP
from storagelab.servers.interfaces import rows_per_report
from storagelab.watching.counters import Loop

# --- workload --------------------------------------------------------------------------------------------------------
#
# The loop of inserts is a stored procedure. All connections that run it are opened first. Then they start together.


PROGRESS = "storagelab_rows"
"""The user variable in which a session publishes the number of rows that it has committed."""
# The key number n of a worker is a digest of the worker's number and n. For the server, it is as good as a random key.
# For a point read, storagelab can compute an existing key again. The digest is not MD5, because MySQL 9.7 has MD5 only
# in a component.
_KEY = "UNHEX(LEFT(SHA2(CONCAT_WS('/', seed, worker, {number}), 256), 32))"
_ANY_OF_THOSE = "FLOOR(RAND() * (done + 1))"
_INSERT = "INSERT INTO {table} () VALUES ();"
_INSERT_KNOWN_KEY = f"INSERT INTO {{table}} (c1) VALUES ({_KEY.format(number='done')});"
_READS = f"""
            SET reads_due = reads_due + reads_per_row;
            WHILE reads_due >= 1 DO
                SET found = NULL;
                -- A variable, because the SELECT would compute another random key for each row.
                SET wanted = {_KEY.format(number=_ANY_OF_THOSE)};
                SELECT c6 INTO found FROM {{table}} WHERE c1 = wanted;
                SET reads_due = reads_due - 1, reads_done = reads_done + 1;
                SET reads_found = reads_found + COALESCE(found = 42, 0);
            END WHILE;"""
_PROCEDURE = Path(__file__).with_name("insert_rows.sql").read_text("utf-8")


def procedure(workload: InsertLoad, schema: str, ownership: str) -> str:
    """The statement that creates the procedure. `schema` is already quoted."""
    table = f"{schema}.{TABLE}"
    mixed = workload.with_reads
    return _PROCEDURE.format(
        schema=schema, ownership=ownership, progress=PROGRESS,
        insert=(_INSERT_KNOWN_KEY if mixed else _INSERT).format(table=table),
        reads=_READS.format(table=table) if mixed else "",
    )  # fmt: skip


_AT_THE_GATE = "Waiting for table metadata lock"


def call(workload: InsertLoad, schema: str, seed: int, worker: int) -> str:
    """The statement that calls the procedure on a connection. `worker` is the number of the connection."""
    rows, per_transaction = workload.rows_per_connection, workload.rows_per_transaction
    values = (rows, per_transaction, rows_per_report(workload), seed, worker, repr(workload.reads_per_row))
    return f"CALL {schema}.insert_rows({', '.join(map(str, values))})"


class Workers(InsertingSessions[Connection]):
    """The connections of one run. At the end, the extra connection `other` stops statements that still run."""

    driver_error = pymysql.MySQLError

    def __init__(self, connect: Callable[[], Connection], tables: Tables, other: Connection, seed: int) -> None:
        super().__init__(connect, tables.config.insert_load, lambda: tables.count_rows(other), seed)
        self.schema, self._other = tables.schema, other
        self._gate: Connection | None = None

    @property
    def ids(self) -> list[int]:
        """The ids of the connections on the server."""
        return [worker.connection.thread_id() for worker in self._workers]

    def open(self) -> None:
        # An extra connection locks the table `gate`. A connection that has locked a table can't read other tables.
        self._gate = self._connect()
        super().open()

    def _words(self, error: BaseException) -> str:
        return words_of(error)

    def _close_gate(self) -> None:
        ask(self._gate, f"LOCK TABLES {self.schema}.gate WRITE")

    def _all_at_gate(self) -> bool:
        ids = ", ".join(map(str, self.ids))
        standing = f"SELECT count(*) FROM information_schema.processlist WHERE state = %s AND id IN ({ids})"
        return bool(ask(self._gate, standing, [_AT_THE_GATE])[0][0] == len(self._workers))

    def release(self) -> None:
        """Unlocks the table `gate`. Then the server wakes all connections together."""
        ask(self._gate, "UNLOCK TABLES")

    def _loop(self, connection: Connection, number: int) -> Loop:
        found = ask(connection, call(self.workload, self.schema, self.seed, number))[0]
        started_s, finished_s, made, right = (float(str(one)) for one in found)
        return Loop(started_s=started_s, finished_s=finished_s, reads_done=int(made), reads_found=int(right))

    def _failed(self, error: Exception) -> str:
        lost = not isinstance(error, pymysql.MySQLError) or (error.args and error.args[0] in _LOST)
        return f"a connection {'was lost' if lost else 'failed'}: {words_of(error)}"

    def _stop(self, working: Sequence[Connection]) -> None:
        for connection in working:
            with contextlib.suppress(pymysql.MySQLError, OSError):
                ask(self._other, f"KILL {int(connection.thread_id())}")
        close(self._gate)

    def close(self) -> None:
        super().close()
        close(self._gate)


_LOST = (2006, 2013, 1927, 1053)
"""The error numbers of a lost connection or a server that shuts down."""
_RANDOM_COLUMNS = """
    c1 BINARY(16) NOT NULL DEFAULT (RANDOM_BYTES(16)),
    c2 DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    c3 CHAR(111) CHARACTER SET latin1 NOT NULL DEFAULT 'a',
    c4 INT NOT NULL DEFAULT 1,
    c5 INT NOT NULL DEFAULT 2,
    c6 BIGINT NOT NULL DEFAULT 42"""
# InnoDB stores at least two rows on each page. If a row needs more than half a page, InnoDB puts the rest of the row on
# a separate page. So if the filler is just over half a page, every row needs one new page.
_SEQUENTIAL_COLUMNS = """
    c1 BIGINT NOT NULL AUTO_INCREMENT,
    c2 DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    c3 VARCHAR({filler}) CHARACTER SET latin1 NOT NULL DEFAULT (REPEAT('a', {filler})),
    c4 INT NOT NULL DEFAULT 1,
    c5 INT NOT NULL DEFAULT 2,
    c6 BIGINT NOT NULL DEFAULT 42"""
_LARGEST_HALF_PAGE_BYTES = 16 * 1024
_LARGEST_STEP_BYTES = 17 * 2**20
"""The largest empty space that was seen at the end of a data file. The pages had 4 KiB."""


class Tables(Layout):
    """The table of one cell."""

    def sessions(self, own: Connection, reach: MariaDBReach, seed: int) -> Workers:
        return Workers(reach.connect_worker, self, own, seed)

    def _create_tables(self, connection: Connection) -> None:
        page_bytes = int(ask(connection, "SELECT @@innodb_page_size")[0][0])
        for statement in (
            f"CREATE TABLE {self.schema}.gate (x INT) ENGINE=InnoDB COMMENT '{OWNERSHIP}'",
            self._create_table(page_bytes),
            procedure(self.config.insert_load, self.schema, OWNERSHIP),
        ):
            ask(connection, statement)

    def _create_table(self, page_bytes: int) -> str:
        sequential = self.config.insert_load.page_a_row
        columns, method = _RANDOM_COLUMNS, "RANGE COLUMNS (c1)"
        if sequential:
            filler = min(page_bytes // 2, _LARGEST_HALF_PAGE_BYTES) + 64
            columns, method = _SEQUENTIAL_COLUMNS.format(filler=filler), "HASH (c1)"
        partitions = ", ".join(self._partition(number, by_range=not sequential) for number in self.data_files)
        return (
            f"CREATE TABLE {self.table} ({columns}, PRIMARY KEY (c1)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC "
            f"COMMENT '{OWNERSHIP}' PARTITION BY {method} ({partitions})"
        )

    def count_rows(self, connection: Connection) -> int:
        return int(ask(connection, f"SELECT count(*) FROM {self.table}")[0][0])

    def check_after(self, connection: Connection) -> list[Check]:
        """Checks that the sequential workload takes one new page per row.

        Compares the number of pages of the files with the number of rows.
        """
        if not self.config.insert_load.page_a_row:
            return []
        page_bytes = int(ask(connection, "SELECT @@innodb_page_size")[0][0])
        view = "innodb_tablespaces" if "MariaDB" not in connection.get_server_info() else "innodb_sys_tablespaces"
        sizes = f"SELECT coalesce(sum(file_size), 0) FROM information_schema.{view} WHERE lower(name) IN %s"
        files = [f"{self.prefix}/{TABLE}#p#{self.partition(number)}".lower() for number in self.data_files]
        pages = int(ask(connection, sizes, [files])[0][0]) // page_bytes
        # The files may have more pages: they grow by several extents at once, and the B-tree needs pages, too.
        spare = _LARGEST_STEP_BYTES // page_bytes * len(self.data_files)
        rows = self.config.insert_load.rows
        ok = rows <= pages <= rows * 1.15 + spare
        asked, got = f"{rows} rows", f"{pages} pages"
        return [Check(name="one page a row", asked=asked, got=got, ok=ok, read_from=f"information_schema.{view}")]
