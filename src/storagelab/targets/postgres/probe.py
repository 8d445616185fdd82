"""Lists what is on a PostgreSQL, and puts something in the way, for the contract suite."""

from __future__ import annotations

import psycopg
from psycopg import sql

from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.model.values import Scalar
from storagelab.targets.postgres import connecting

_INVENTORY = """
SELECT 'schema ' || nspname || ' (' || oid || ')' FROM pg_namespace
WHERE nspname !~ '^pg_(toast|temp)' AND nspname NOT IN ('pg_catalog', 'information_schema')
UNION ALL
SELECT 'tablespace ' || spcname || ' (' || oid || ')' FROM pg_tablespace
UNION ALL
SELECT 'database ' || datname || ' (' || oid || ')' FROM pg_database
UNION ALL
SELECT 'relation ' || n.nspname || '.' || c.relname || ' (' || c.oid || ', ' || c.relfilenode || ')'
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname !~ '^pg_(toast|temp)' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"""


class PostgresProbe:
    """Implements `contract.probes.Probe`. A relation is listed with its file, which changes when it is rewritten."""

    setting: tuple[str, Scalar] = ("work_mem", "5MB")

    def inventory(self, target: TargetConfig) -> frozenset[str]:
        with connecting.connect(target) as connection:
            return frozenset(name for (name,) in _rows(connection, _INVENTORY))

    def obstruct(self, target: TargetConfig, name: str) -> None:
        self._execute(target, sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))

    def clear(self, target: TargetConfig, name: str) -> None:
        # Without CASCADE: it was made empty, and anything that others put into it is not ours to drop.
        self._execute(target, sql.SQL("DROP SCHEMA IF EXISTS {}").format(sql.Identifier(name)))

    def _execute(self, target: TargetConfig, statement: sql.Composed) -> None:
        with connecting.connect(target) as connection:
            try:
                connection.execute(statement)
            except psycopg.Error as error:
                raise PreflightError(f"the server says: {connecting.words_of(error)}", key="target.dsn") from error


def _rows(connection: connecting.Connection, statement: str) -> list[tuple[str]]:
    try:
        return connection.execute(sql.SQL(statement)).fetchall()
    except psycopg.Error as error:
        raise PreflightError(f"the server says: {connecting.words_of(error)}", key="target.dsn") from error
