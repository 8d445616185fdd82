"""The places of a load's tables on MariaDB: a database, and for each data file a partition (a file in its own folder).

Data files are placed in turn on the volumes. A single data file is one partition, too, so that routing costs the same
in every layout.
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
"""The mark of a database whose tables are all made for storagelab, whatever their names and comments."""
_KEY_BITS = 128


class DataFile(NamedTuple):
    """A file of the database. `space` is its number, which changes when the table is rewritten."""

    path: Path
    space: int


class Layout(Places):
    """The layout of one cell: its own database on the server, named `prefix`."""

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
        """Makes the database with its mark, and the tables."""
        mark = f"CREATE TABLE {self.schema}.{self.mark} (x INT) COMMENT '{OWNERSHIP}'"
        for statement in (f"CREATE DATABASE {self.schema} CHARACTER SET utf8mb4", mark):
            ask(connection, statement)
        self._create_tables(connection)

    def _create_tables(self, connection: Connection) -> None:
        """Makes the tables of the load that storagelab makes itself."""

    def _partition(self, number: int, *, by_range: bool, folder: Path | None = None) -> str:
        """One partition, in the folder of its data file unless another folder is given."""
        last = number == len(self.data_files)
        boundary = (number << _KEY_BITS) // len(self.data_files)
        values = "MAXVALUE" if last else f"X'{boundary:032x}'" if by_range else ""
        less = f" VALUES LESS THAN ({values})" if by_range else ""
        place = f" DATA DIRECTORY = {quoted(str(folder or self.folder_of(number)))}" if self.on_volumes else ""
        return f"PARTITION {self.partition(number)}{less}{place}"

    # --- removed -----------------------------------------------------------------------------------------------------

    def drop(self, connection: Connection) -> list[str]:
        """Drops the database that this run or an earlier run made, with any layout.

        Returns the dropped names. If a database of that name is not storagelab's, raises PreflightError and drops
        nothing.
        """
        if not self._made_before(connection):
            return []
        ask(connection, "SET lock_wait_timeout = 30")
        ask(connection, f"DROP DATABASE {self.schema}")
        return [f"database {self.prefix}"]

    def check_nothing_in_the_way(self, connection: Connection) -> None:
        """Refuses a database with the name that storagelab needs if storagelab did not make it. Raises
        PreflightError."""
        self._made_before(connection)

    def _made_before(self, connection: Connection) -> bool:
        there = ask(connection, "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", [self.prefix])
        if not there:
            return False
        tables = ask(
            connection,
            "SELECT table_name, table_comment FROM information_schema.tables WHERE table_schema = %s",
            [self.prefix],
        )
        # The tables lack the mark if the generator was stopped while it made them.
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
        """Makes the server write out every page of the tables that is only in memory, as a checkpoint does."""
        for table in self.tables(connection):
            ask(connection, f"FLUSH TABLES {self.schema}.{identifier(table)} FOR EXPORT")
            ask(connection, "UNLOCK TABLES")

    def tables(self, connection: Connection) -> list[str]:
        """The load's tables."""
        return [TABLE]

    # --- read back ---------------------------------------------------------------------------------------------------

    def files(self, connection: Connection) -> dict[int, Path]:
        """The data file of each partition, `{number: path}`, according to the server's own catalogue."""
        # MySQL writes partition names in small letters.
        wanted = {f"{self.prefix}/{self.name}#P#{self.partition(number)}".lower(): number for number in self.data_files}
        return {wanted[name]: file.path for name, file in self.all_files(connection).items() if name in wanted}

    def all_files(self, connection: Connection) -> dict[str, DataFile]:
        """Every file of the database, by its name in the server's own catalogue, in small letters."""
        mysql = "MariaDB" not in connection.get_server_info()
        statement = (
            "SELECT t.name, d.path, t.space FROM information_schema.innodb_tablespaces t "
            "JOIN information_schema.innodb_datafiles d USING (space) WHERE t.name LIKE %s"
            if mysql
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
        """The folder of a data file, in which the server makes a folder named after the database."""
        if file is None:
            return "absent"
        return str(file.parent.parent) if file.is_absolute() else "default"


# --- moves an administrator's tables ----------------------------------------------------------------------------------


def moving(moves: Sequence[Move], folders: Mapping[str, str]) -> Iterator[str]:
    """The statements, and what to check before them."""
    yield "-- Before: a backup that was restored once; an empty folder that the server may use, also by AppArmor."
    if any(one.names for one in moves):
        yield "-- InnoDB takes DATA DIRECTORY only from CREATE TABLE: the table is made again. Not with triggers,"
        yield "-- foreign keys, generated or invisible columns. Stop writes to it; go on only if a line has no error."
    for one in moves:
        if one.names:
            name, new, old = (".".join(map(identifier, (*one.names[:-1], one.names[-1] + end))) for end in _ENDS)
            yield f"SHOW CREATE TABLE {name};"
            yield f"-- Run what it shows as {new}, with DATA DIRECTORY = {quoted(folders[one.to])} at its end."
            yield f"INSERT INTO {new} SELECT * FROM {name};"
            yield f"SELECT (SELECT count(*) FROM {name}) = (SELECT count(*) FROM {new});  -- go on only if this is 1"
            yield f"RENAME TABLE {name} TO {old}, {new} TO {name};"
            yield f"-- Drop {old} when the new table has proved itself."
    settings = {"log": "innodb_log_group_home_dir", "temporary": "tmpdir"}
    for one in moves:
        if one.kind in settings:
            yield f"-- {one.what}: in my.cnf, below [mysqld]: {settings[one.kind]} = {folders[one.to]}"
            yield "-- Stop the server. It is down until it is started again."
            if one.kind == "log":
                yield f"-- Then move ib_logfile0 from the data folder (SELECT @@datadir) to {folders[one.to]}."


_ENDS = ("", "_new", "_old")
