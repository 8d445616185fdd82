"""The articles' table on N data files of MariaDB, and the sessions that fill it.

InnoDB keeps rows in the order of the key: random keys hit the table itself. Partitions divide the keys evenly: random keys by
equal ranges of the key, ascending ones by their remainder. MariaDB's own PARTITION BY KEY does not: with 2, 4, 8 and 16
partitions, the fullest got 67, 42, 25 and 15 % of random keys (10.11).
"""

from __future__ import annotations

from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.measurement import Check
from storagelab.targets.attaching import OWNERSHIP
from storagelab.targets.mariadb.connecting import Connection, ask
from storagelab.targets.mariadb.layout import Layout, execute
from storagelab.targets.mariadb.reaching import Reaching
from storagelab.targets.mariadb.workload import Workers, procedure

_RANDOM_COLUMNS = """
    c1 BINARY(16) NOT NULL DEFAULT (RANDOM_BYTES(16)),
    c2 DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    c3 CHAR(111) CHARACTER SET latin1 NOT NULL DEFAULT 'a',
    c4 INT NOT NULL DEFAULT 1,
    c5 INT NOT NULL DEFAULT 2,
    c6 BIGINT NOT NULL DEFAULT 42"""
# InnoDB always leaves room for two rows on a page. It puts what does not fit into half a page on a page of its own, so a
# filler of just over half a page makes every row ask for one new page.
_SEQUENTIAL_COLUMNS = """
    c1 BIGINT NOT NULL AUTO_INCREMENT,
    c2 DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    c3 VARCHAR({filler}) CHARACTER SET latin1 NOT NULL DEFAULT (REPEAT('a', {filler})),
    c4 INT NOT NULL DEFAULT 1,
    c5 INT NOT NULL DEFAULT 2,
    c6 BIGINT NOT NULL DEFAULT 42"""
_LARGEST_HALF_PAGE_BYTES = 16 * 1024
_LARGEST_STEP_BYTES = 17 * 2**20
"""The most empty space seen at the end of a data file, with pages of 4 KiB."""


class Tables(Layout):
    """The table of one cell."""

    @property
    def load(self) -> InsertLoad:
        return self.config.insert_load

    def sessions(self, own: Connection, reach: Reaching, seed: int) -> Workers:
        return Workers(reach.connect_worker, self.load, self.schema, own, lambda: self.count_rows(own), seed)

    def _create_tables(self, connection: Connection) -> None:
        page_bytes = int(ask(connection, "SELECT @@innodb_page_size")[0][0])
        for statement in (
            f"CREATE TABLE {self.schema}.gate (x INT) ENGINE=InnoDB COMMENT '{OWNERSHIP}'",
            self._create_table(page_bytes),
            procedure(self.load, self.schema, OWNERSHIP),
        ):
            execute(connection, statement)

    def _create_table(self, page_bytes: int) -> str:
        sequential = self.load.page_a_row
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
        """Checks the sequential workload's promise of one new page per row: the files' pages against the counted rows."""
        if not self.load.page_a_row:
            return []
        page_bytes = int(ask(connection, "SELECT @@innodb_page_size")[0][0])
        names = ", ".join(["%s"] * len(self.data_files))
        view = "innodb_tablespaces" if "MariaDB" not in connection.get_server_info() else "innodb_sys_tablespaces"
        found = ask(
            connection,
            f"SELECT coalesce(sum(file_size), 0) FROM information_schema.{view} WHERE lower(name) IN ({names})",
            [f"{self.prefix}/my_big_table#p#{self.partition(number)}".lower() for number in self.data_files],
        )
        pages = int(found[0][0]) // page_bytes
        # Files grow by several extents at once, and the pages of the tree itself add to them.
        spare = _LARGEST_STEP_BYTES // page_bytes * len(self.data_files)
        rows = self.load.rows
        ok = rows <= pages <= rows * 1.15 + spare
        asked, got = f"{rows} rows", f"{pages} pages"
        return [Check(name="one page a row", asked=asked, got=got, ok=ok, read_from=f"information_schema.{view}")]
