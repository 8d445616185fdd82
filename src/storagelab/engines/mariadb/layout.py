"""The places of a load's tables on MariaDB. The tables are in their own database. Each data file is a partition, which
is a file in its own folder.

The data files are placed on the volumes in turn. A single data file is also a partition, so that finding the right
partition costs the same in every layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from storagelab.engines.mariadb.connect import Connection, ask, identifier, quoted
from storagelab.loads.sysbench import TABLE as GENERATED_TABLE
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.predicting.recommending import Move
from storagelab.servers.attached import OWNERSHIP, foreign
from storagelab.servers.places import Places, check_places, check_same
from storagelab.volumes.folders import Folders

TABLE = "my_big_table"
MARK = "made_by_storagelab"
ALL_MARK = "all_made_by_storagelab"
"""If a database has this mark, each of its tables was made for a run, even if the table lacks OWNERSHIP as comment."""
_KEY_BITS = 128


class DataFile(NamedTuple):
    """A file of the database. `space` is its number, which changes when the server writes the table anew."""

    path: Path
    space: int


class Layout(Places):
    """The layout of one cell. The cell has its own database on the server. The name of this database is `prefix`."""

    mark: ClassVar[str] = MARK

    def __init__(self, config: Config, prefix: str, folders: Folders | None) -> None:
        super().__init__(config, folders)
        self.prefix = prefix
        self.schema = identifier(prefix)
        self.name = TABLE
        self.table = f"{self.schema}.{TABLE}"

    def partition(self, number: int) -> str:
        return f"p{number}"

    # --- made --------------------------------------------------------------------------------------------------------

    def create(self, connection: Connection) -> None:
        """Makes the database, its mark, and the tables that storagelab makes itself."""
        mark = f"CREATE TABLE {self.schema}.{self.mark} (x INT) COMMENT '{OWNERSHIP}'"
        for statement in (f"CREATE DATABASE {self.schema} CHARACTER SET utf8mb4", mark):
            ask(connection, statement)
        self._create_tables(connection)

    def _create_tables(self, connection: Connection) -> None:
        """Makes the tables that storagelab makes itself. A generator makes all others."""

    def _partition(self, number: int, *, by_range: bool, folder: Path | None = None) -> str:
        """The SQL of one partition. If `folder` is None, the partition is in the folder of its data file."""
        last = number == len(self.data_files)
        boundary = (number << _KEY_BITS) // len(self.data_files)
        values = "MAXVALUE" if last else f"X'{boundary:032x}'" if by_range else ""
        less = f" VALUES LESS THAN ({values})" if by_range else ""
        place = f" DATA DIRECTORY = {quoted(str(folder or self.folder_of(number)))}" if self.on_volumes else ""
        return f"PARTITION {self.partition(number)}{less}{place}"

    # --- removed -----------------------------------------------------------------------------------------------------

    def drop(self, connection: Connection) -> list[str]:
        """Drops the database that this run or an earlier run made, whatever its layout. Returns the dropped names.

        If the database is not storagelab's, raises PreflightError and drops nothing.
        """
        if not self._made_before(connection):
            return []
        ask(connection, "SET lock_wait_timeout = 30")
        ask(connection, f"DROP DATABASE {self.schema}")
        return [f"database {self.prefix}"]

    def check_nothing_in_the_way(self, connection: Connection) -> None:
        """Raises PreflightError if another database has the name that storagelab needs."""
        self._made_before(connection)

    def _made_before(self, connection: Connection) -> bool:
        if not ask(connection, "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", [self.prefix]):
            return False
        tables = ask(
            connection,
            "SELECT table_name, table_comment FROM information_schema.tables WHERE table_schema = %s",
            [self.prefix],
        )
        # If the generator was stopped while it made the tables, they lack storagelab's comment.
        marks = {name for name, comment in tables if comment == OWNERSHIP} & {MARK, ALL_MARK}
        others = [
            name
            for name, comment in tables
            if comment != OWNERSHIP and ALL_MARK not in marks and not (marks and GENERATED_TABLE.fullmatch(name))
        ]
        if not tables or others:
            what = f"the table {others[0]} in the database {self.prefix}" if others else f"the database {self.prefix}"
            raise foreign(what)
        return True

    # --- used --------------------------------------------------------------------------------------------------------

    def write_out(self, connection: Connection) -> None:
        """Makes the server write every changed page of the tables to their files, like a checkpoint."""
        for table in self.tables(connection):
            ask(connection, f"FLUSH TABLES {self.schema}.{identifier(table)} FOR EXPORT")
            ask(connection, "UNLOCK TABLES")

    def tables(self, connection: Connection) -> list[str]:
        """The load's tables."""
        return [TABLE]

    # --- read back ---------------------------------------------------------------------------------------------------

    def files(self, connection: Connection) -> dict[int, Path]:
        """The data file of each partition in the server's catalogue: `{number: path}`."""
        # MySQL writes partition names in small letters.
        wanted = {f"{self.prefix}/{self.name}#P#{self.partition(number)}".lower(): number for number in self.data_files}
        return {wanted[name]: file.path for name, file in self.all_files(connection).items() if name in wanted}

    def all_files(self, connection: Connection) -> dict[str, DataFile]:
        """Every file of the database. The keys are the names in the server's catalogue, in small letters."""
        statement = (
            "SELECT t.name, d.path, t.space FROM information_schema.innodb_tablespaces t "
            "JOIN information_schema.innodb_datafiles d USING (space) WHERE t.name LIKE %s"
            if "MariaDB" not in connection.get_server_info()
            else "SELECT name, filename, space FROM information_schema.innodb_sys_tablespaces WHERE name LIKE %s"
        )
        pattern = self.prefix.replace("_", r"\_") + "/%"
        return {
            str(name).lower(): DataFile(Path(place), int(number))
            for name, place, number in ask(connection, statement, [pattern])
        }

    def read_back(self, connection: Connection) -> list[Check]:
        """Checks the number of data files and the place of each one."""
        found, source = self.files(connection), "information_schema.innodb_sys_tablespaces"
        asked = [self.asked(number) for number in self.data_files]
        got = [self._place(found.get(number)) for number in self.data_files]
        return [
            check_same("data files", str(len(self.data_files)), str(len(found)), source),
            check_places("place of the data files", asked, got, source),
        ]

    def _place(self, file: Path | None) -> str:
        """The folder of a data file, without the subfolder that the server makes for the database."""
        if file is None:
            return "absent"
        return str(file.parent.parent) if file.is_absolute() else "default"


# --- moves an administrator's tables ----------------------------------------------------------------------------------


def moving(moves: Sequence[Move], folders: Mapping[str, str]) -> Iterator[str]:
    """The lines of a script that moves files. Comments say what to check before each step."""
    yield "-- Before you begin: test your backup. Make an empty folder for the server, and allow it in AppArmor."
    if any(one.names for one in moves):
        yield "-- InnoDB needs a new table for DATA DIRECTORY. Don't do this to a table with triggers, foreign keys,"
        yield "-- generated or invisible columns. Stop all writes to the table. If a statement fails, don't go on."
    for one in moves:
        if one.names:
            name, new, old = (".".join(map(identifier, (*one.names[:-1], one.names[-1] + end))) for end in _ENDS)
            yield f"SHOW CREATE TABLE {name};"
            yield f"-- Run this statement for {new}, and add at its end DATA DIRECTORY = {quoted(folders[one.to])}"
            yield f"INSERT INTO {new} SELECT * FROM {name};"
            yield f"SELECT (SELECT count(*) FROM {name}) = (SELECT count(*) FROM {new});  -- go on only if this is 1"
            yield f"RENAME TABLE {name} TO {old}, {new} TO {name};"
            yield f"-- When you are sure that the new table is right, drop {old}."
    settings = {"log": "innodb_log_group_home_dir", "temporary": "tmpdir"}
    for one in moves:
        if one.kind in settings:
            yield f"-- For {one.what}, set in my.cnf below [mysqld]: {settings[one.kind]} = {folders[one.to]}"
            yield "-- Stop the server. Start it again at the end."
            if one.kind == "log":
                yield f"-- Then move ib_logfile0 from the data folder (SELECT @@datadir) to {folders[one.to]}."


_ENDS = ("", "_new", "_old")
