"""What the contract suite asks of a MariaDB or MySQL: what is there, and something in the way."""

from __future__ import annotations

import pymysql

from storagelab.errors import PreflightError
from storagelab.model import TargetConfig
from storagelab.targets.mariadb.connecting import Rows, ask, attach, close, identifier, key_of, words_of
from storagelab.values import Scalar

_INVENTORY = """
SELECT CONCAT('database ', schema_name) FROM information_schema.schemata
WHERE schema_name NOT IN ('information_schema', 'performance_schema', 'sys', 'mysql')
UNION ALL
SELECT CONCAT('table ', table_schema, '.', table_name, ' (made ', COALESCE(create_time, 'then'), ')')
FROM information_schema.tables WHERE table_schema NOT IN ('information_schema', 'performance_schema', 'sys', 'mysql')"""


class MariaDBProbe:
    """See `contract.probes.Probe`."""

    setting: tuple[str, Scalar] = ("sort_buffer_size", 262_144)

    def inventory(self, target: TargetConfig) -> frozenset[str]:
        return frozenset(str(name) for (name,) in self._ask(target, _INVENTORY))

    def obstruct(self, target: TargetConfig, name: str) -> None:
        self._ask(target, f"CREATE DATABASE {identifier(name)}")

    def clear(self, target: TargetConfig, name: str) -> None:
        self._ask(target, f"DROP DATABASE IF EXISTS {identifier(name)}")

    def _ask(self, target: TargetConfig, statement: str) -> Rows:
        connection = attach(target)
        try:
            return ask(connection, statement)
        except pymysql.MySQLError as error:
            raise PreflightError(f"the server says: {words_of(error)}", key=key_of(target)) from error
        finally:
            close(connection)
