"""Moves a filled table of MariaDB to another folder. InnoDB takes DATA DIRECTORY only from CREATE TABLE, so the table is made
again there, and its rows are copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storagelab.errors import DataRefused
from storagelab.model.objects import KEY
from storagelab.targets.mariadb.connecting import Connection, ask, identifier
from storagelab.targets.mariadb.layout import execute, quoted

_FOREIGN_KEY = re.compile(r",\n\s*(CONSTRAINT `(?:[^`]|``)*` FOREIGN KEY [^\n]*?)(?=,?\n)")
_BEGINNING = re.compile(r"CREATE TABLE `(?:[^`]|``)*`")
_TRIGGERS = (
    "SELECT count(*) FROM information_schema.triggers WHERE event_object_schema = %s AND event_object_table = %s"
)
_COLUMNS = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s AND coalesce(generation_expression, '') = '' ORDER BY ordinal_position"""


def move(connection: Connection, database: str, table: str, folder: Path) -> None:
    """Make the table again in the folder, with its rows and foreign keys. Raises DataRefused if it can't be moved so."""
    name, aside = (f"{identifier(database)}.{identifier(one)}" for one in (table, f"{table}__placed"))
    text = str(ask(connection, f"SHOW CREATE TABLE {name}")[0][1])
    if ask(connection, _TRIGGERS, [database, table])[0][0]:
        raise _refused(table, "has triggers, which would be lost", "make the triggers in a file after it: setup")
    if "PARTITION BY" in text:
        raise _refused(table, "has partitions of its own", "leave it out, or name it in layout.spread")
    foreign_keys = _FOREIGN_KEY.findall(text)
    columns = ", ".join(identifier(str(column)) for (column,) in ask(connection, _COLUMNS, [database, table]))
    made = _BEGINNING.sub(lambda _: f"CREATE TABLE {aside}", _FOREIGN_KEY.sub("", text), count=1)
    with _as_it_is(connection):
        execute(connection, f"{made} DATA DIRECTORY = {quoted(str(folder))}")
        execute(connection, f"INSERT INTO {aside} ({columns}) SELECT {columns} FROM {name}")
        execute(connection, f"DROP TABLE {name}")
        execute(connection, f"RENAME TABLE {aside} TO {name}")
        for foreign_key in foreign_keys:
            execute(connection, f"ALTER TABLE {name} ADD {foreign_key}")


def _refused(table: str, why: str, hint: str) -> DataRefused:
    return DataRefused(f"{KEY}: the table {table} {why}, so it can't be moved to another folder on MariaDB\n  {hint}")


@contextmanager
def _as_it_is(connection: Connection) -> Iterator[None]:
    """Rows are copied as they are: without a look at foreign keys, and with a key of 0."""
    mode, checks = ask(connection, "SELECT @@sql_mode, @@foreign_key_checks")[0]
    execute(connection, "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO', foreign_key_checks = 0")
    try:
        yield
    finally:
        execute(connection, f"SET SESSION sql_mode = {quoted(str(mode))}, foreign_key_checks = {int(checks)}")
