"""The tidy tables as one SQLite file, for queries. Pure: returns the file's bytes."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping

from storagelab.report.export.tables import Table


def sqlite_file(tables: Mapping[str, Table]) -> bytes:
    """A database with these tables by their names. Columns have no declared type: a factor's levels may be of several."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for name, table in tables.items():
            connection.execute(f"CREATE TABLE {_quoted(name)} ({', '.join(map(_quoted, table.columns))})")
            marks = ", ".join("?" * len(table.columns))
            connection.executemany(f"INSERT INTO {_quoted(name)} VALUES ({marks})", table.rows)
        connection.commit()
        return connection.serialize()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
