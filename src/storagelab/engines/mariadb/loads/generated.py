"""The tables of a generator's load on N data files of MariaDB. This module puts each table in the place that the layout
names, and reads the place back.

A spread table gets N partitions by the remainder of its key. The partitions are placed on the volumes in turn. A single
data file is also a partition, because the place of an existing table can only be changed for a partition. Any other
table stays in the server's folder. If the layout names a place for it, it is made again there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from storagelab.engines.mariadb.connect import Connection, MariaDBReach, ask, identifier, quoted
from storagelab.engines.mariadb.layout import DataFile, Layout
from storagelab.errors import DataRefused, RunFailed, shown
from storagelab.loads.generator import Clients
from storagelab.loads.running import Generator
from storagelab.loads.sysbench import ask_by_sysbench
from storagelab.loads.tables import GeneratedTables, L
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.model.objects import KEY, TEMPORARY, Object
from storagelab.servers.attached import OWNERSHIP
from storagelab.servers.places import changed_files, check_files, check_same, refuse_misfits
from storagelab.volumes.folders import Folders

_PRIMARY_KEY = """
SELECT k.column_name, c.data_type FROM information_schema.key_column_usage k
JOIN information_schema.columns c USING (table_schema, table_name, column_name)
WHERE k.table_schema = %s AND k.table_name = %s AND k.constraint_name = 'PRIMARY' ORDER BY k.ordinal_position"""
_CATALOGUE = "information_schema.innodb_sys_tablespaces"
_INDEXES = "SELECT DISTINCT index_name, table_name FROM information_schema.statistics WHERE table_schema = %s"
_TABLES = """
SELECT table_name FROM information_schema.tables
WHERE table_schema = %s AND table_type = 'BASE TABLE' AND engine = 'InnoDB' ORDER BY table_name"""


class MariaDBTables(GeneratedTables[Connection, L], Layout):
    """The tables of one cell's load. They have their own database on the server, whose name is `prefix`.

    The subclass for each kind of load adds the code that fills the tables, and the sessions of the load.
    """

    temporary_beside = False
    others_stay = True
    """Whether tables that are not spread may be in the server's folder."""

    def __init__(self, config: Config, prefix: str, folders: Folders | None) -> None:
        super().__init__(config, prefix, folders)
        self.name = next(iter(self.spread), "")
        self._at_first: dict[str, DataFile] = {}

    def sessions(self, own: Connection, reach: MariaDBReach, seed: int) -> Generator[Connection]:
        self._at_first = self.all_files(own)
        program = self.program(reach.clients(self.session_options), reach.site, seed)
        theirs = "SELECT id FROM information_schema.processlist WHERE db = %s AND id <> connection_id()"
        return Generator(
            program, self.load, reach.connect_worker, lambda: [number for (number,) in ask(own, theirs, [self.prefix])],
            log_room=lambda: log_room(own),
        )  # fmt: skip

    def places(self, clients: Clients) -> Iterator[tuple[str, str]]:
        yield "sysbench", ask_by_sysbench(clients, WHERE)

    # --- made --------------------------------------------------------------------------------------------------------

    def finish(self, own: Connection) -> None:
        """Partitions the spread tables over the data files, and moves the other tables to the places that the layout
        names. Raises RunFailed if this is impossible.
        """
        objects = self._objects(own)
        self._refuse_indexes(own, objects)
        refuse_misfits(self.config, objects)
        for table in self.spread:
            key = ask(own, _PRIMARY_KEY, [self.prefix, table])
            if not key:
                there = table in self.tables(own)
                why = "has no primary key, by which it could be spread" if there else "is not there to be spread"
                raise RunFailed(f"the table {table} {why} over data files (layout.spread; [] = none)")
            columns = ", ".join(identifier(name) for name, _ in key)
            # HASH, the remainder of a number, distributes rows evenly. KEY, the method for other keys, does not.
            method = "HASH" if len(key) == 1 and str(key[0][1]).endswith("int") else "KEY"
            partitions = ", ".join(
                self._partition(number, by_range=False, folder=self._folder_for(self._partition_of(table, number)))
                for number in self.data_files
            )
            ask(
                own,
                f"ALTER TABLE {self.schema}.{identifier(table)} COMMENT {quoted(OWNERSHIP)} "
                f"PARTITION BY {method} ({columns}) ({partitions})",
            )
        for one in objects:
            folder = self._folder_for(one)
            if one.name not in self.spread and len(one.names) == 1 and folder is not None:
                move(own, self.prefix, one.name, folder)

    def _folder_for(self, one: Object) -> Path | None:
        """The folder that the layout names for a table or partition. Returns None if the layout names no folder."""
        volume = self.config.placement.volume_of(one) if self.on_volumes else None
        return None if volume is None else self._folder_on(volume)

    def _partition_of(self, table: str, number: int) -> Object:
        return Object((f"{table}#P#{self.partition(number)}", table), "table", spread=True)

    def _objects(self, connection: Connection) -> list[Object]:
        """The objects that the layout may name: all tables, and the partitions of spread tables."""
        tables = [Object((table,), "table", spread=table in self.spread) for table in self.tables(connection)]
        parts = [self._partition_of(table, number) for table in self.spread for number in self.data_files]
        return [*tables, *parts]

    def _refuse_indexes(self, connection: Connection, objects: Sequence[Object]) -> None:
        """Raises DataRefused if the layout names an index."""
        indexes = ask(connection, _INDEXES, [self.prefix])
        for pattern in self.config.placement.patterns:
            is_table = any(fnmatchcase(name, pattern) for one in objects for name in one.names)
            table = next((table for index, table in indexes if fnmatchcase(str(index), pattern)), None)
            if table is not None and not is_table:
                problem = f"{shown(pattern)} is an index, and InnoDB keeps indexes in their table's own file"
                raise DataRefused(f"{KEY}: {problem}\n  place the table: {table}")

    def tables(self, connection: Connection) -> list[str]:
        return [str(name) for (name,) in ask(connection, _TABLES, [self.prefix])]

    # --- read back ---------------------------------------------------------------------------------------------------

    def files(self, connection: Connection) -> dict[int, Path]:
        return super().files(connection) if self.spread else {}

    def asked(self, number: int) -> str:
        folder = self._folder_for(self._partition_of(self.name, number))
        return super().asked(number) if folder is None else str(folder)

    def read_back(self, connection: Connection) -> list[Check]:
        """For each spread table, checks the number of its data files and their places. Then checks the places of the
        other tables.
        """
        checks = list[Check]()
        for table in self.spread:
            self.name = table
            checks += [
                one.model_copy(update={"name": f"{one.name} of {table}"}) for one in super().read_back(connection)
            ]
        self.name = next(iter(self.spread), "")
        return [*checks, *self._rest(connection), *self._placed(connection), *self._temporary(connection)]

    def _rest(self, connection: Connection) -> Iterator[Check]:
        """Checks that tables that the layout neither spreads nor places are in the server's folder."""
        placed = {self._file_name(one) for one in self._objects(connection) if self._folder_for(one) is not None}
        files = self.all_files(connection).items()
        rest = {self._place(file.path) for name, file in files if "#p#" not in name and name not in placed}
        if rest and self.others_stay:
            yield check_same("place of the other tables", "default", ", ".join(sorted(rest)), _CATALOGUE)

    def _placed(self, connection: Connection) -> Iterator[Check]:
        """Checks the place of each object that the layout names, in the server's catalogue and in the file system."""
        files = self.all_files(connection)
        placed = {one: folder for one in self._objects(connection) if (folder := self._folder_for(one)) is not None
                  and (len(one.names) > 1 or one.name not in self.spread)}  # fmt: skip
        found = {one: file for one in placed if (file := files.get(self._file_name(one))) is not None}
        places = {one: self._place(found[one].path if one in found else None) for one in placed}
        wrong = [f"{one.name}: {place}" for one, place in places.items() if place != str(placed[one])]
        asked = ", ".join(sorted({str(folder) for folder in placed.values()}))
        if placed:
            yield Check(
                name="place of the objects", asked=asked, got=(wrong or [asked])[0], ok=not wrong, read_from=_CATALOGUE
            )
            yield check_files({one.name: (file.path, placed[one]) for one, file in found.items()})

    def _file_name(self, one: Object) -> str:
        """The name of the object's file in the server's catalogue."""
        return f"{self.prefix}/{one.name}".lower()

    def _temporary(self, connection: Connection) -> Iterator[Check]:
        volume = self.config.placed.get(TEMPORARY)
        if volume is not None and self.on_volumes:
            got = str(ask(connection, "SELECT @@tmpdir")[0][0])
            assert self._folders is not None
            yield check_same("place of temporary files", str(self._folders[volume] / TEMPORARY), got, "tmpdir")

    def check_after(self, connection: Connection) -> list[Check]:
        """Checks that every table still has the file that it had when the run began."""
        first, last = (
            {name.partition("/")[2]: str(file.space) for name, file in found.items()}
            for found in (self._at_first, self.all_files(connection))
        )
        placed = [name.partition("/")[2] for name, file in self._at_first.items() if f"{os.sep}on-" in str(file.path)]
        return [*super().check_after(connection), *changed_files(first, last, placed, _CATALOGUE)]


# --- moves a filled table of MariaDB to another folder ----------------------------------------------------------------
#
# InnoDB accepts DATA DIRECTORY only in CREATE TABLE. So storagelab makes the table again in the new folder and copies
# its rows.


_FOREIGN_KEY = re.compile(r",\n\s*(CONSTRAINT `(?:[^`]|``)*` FOREIGN KEY [^\n]*?)(?=,?\n)")
_BEGINNING = re.compile(r"CREATE TABLE `(?:[^`]|``)*`")
_TRIGGERS = (
    "SELECT count(*) FROM information_schema.triggers WHERE event_object_schema = %s AND event_object_table = %s"
)
_COLUMNS = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s AND coalesce(generation_expression, '') = '' ORDER BY ordinal_position"""


def move(connection: Connection, database: str, table: str, folder: Path) -> None:
    """Makes the table again in the folder, with its rows and foreign keys.

    Raises DataRefused if the table can't be moved in this way.
    """
    name, aside = (f"{identifier(database)}.{identifier(one)}" for one in (table, f"{table}__placed"))
    text = str(ask(connection, f"SHOW CREATE TABLE {name}")[0][1])
    if ask(connection, _TRIGGERS, [database, table])[0][0]:
        raise _refused(table, "has triggers, which would be lost", "make the triggers in a file after it: setup")
    if "PARTITION BY" in text:
        raise _refused(table, "has partitions of its own", "leave it out, or name it in layout.spread")
    columns = ", ".join(identifier(str(column)) for (column,) in ask(connection, _COLUMNS, [database, table]))
    made = _BEGINNING.sub(lambda _: f"CREATE TABLE {aside}", _FOREIGN_KEY.sub("", text), count=1)
    with _as_it_is(connection):
        ask(connection, f"{made} DATA DIRECTORY = {quoted(str(folder))}")
        ask(connection, f"INSERT INTO {aside} ({columns}) SELECT {columns} FROM {name}")
        ask(connection, f"DROP TABLE {name}")
        ask(connection, f"RENAME TABLE {aside} TO {name}")
        for foreign_key in _FOREIGN_KEY.findall(text):
            ask(connection, f"ALTER TABLE {name} ADD {foreign_key}")


def _refused(table: str, why: str, hint: str) -> DataRefused:
    return DataRefused(f"{KEY}: the table {table} {why}, so it can't be moved to another folder on MariaDB\n  {hint}")


@contextmanager
def _as_it_is(connection: Connection) -> Iterator[None]:
    """Sets the session so that rows are copied unchanged: foreign keys are not checked, and a key of 0 remains 0."""
    mode, checks = ask(connection, "SELECT @@sql_mode, @@foreign_key_checks")[0]
    ask(connection, "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO', foreign_key_checks = 0")
    try:
        yield
    finally:
        ask(connection, f"SET SESSION sql_mode = {quoted(str(mode))}, foreign_key_checks = {int(checks)}")


WHERE = "SELECT DATABASE()"
"""Reads the database that the session uses for names without a schema."""
_AGE, _MOST = "innodb_checkpoint_age", "innodb_checkpoint_max_age"


def log_room(connection: Connection) -> tuple[int, int] | None:
    """The bytes of log since the last checkpoint, and their upper limit.

    Returns None if the server does not report them. MySQL does not.
    """
    shown = ask(connection, f"SHOW GLOBAL STATUS WHERE variable_name IN ('{_AGE}', '{_MOST}')")
    found = {str(name).lower(): int(value) for name, value in shown}
    return (found[_AGE], found[_MOST]) if {_AGE, _MOST} <= found.keys() else None
