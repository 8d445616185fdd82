"""Lists what is on a MariaDB or MySQL, and puts something in the way, for the contract suite."""

from __future__ import annotations

import pymysql

from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.model.values import Scalar
from storagelab.targets.attaching import key_of
from storagelab.targets.mariadb.connecting import Rows, ask, connect, identifier, words_of

_OF_THE_SERVER = "('mysql', 'sys', 'information_schema', 'performance_schema')"
_INVENTORY = f"""
SELECT CONCAT('database ', schema_name) FROM information_schema.schemata WHERE schema_name NOT IN {_OF_THE_SERVER}
UNION ALL
SELECT CONCAT('table ', table_schema, '.', table_name, ' (', COALESCE(create_time, ''), ')')
FROM information_schema.tables WHERE table_schema NOT IN {_OF_THE_SERVER}
UNION ALL
SELECT CONCAT('routine ', routine_schema, '.', routine_name, ' (', created, ')')
FROM information_schema.routines WHERE routine_schema NOT IN {_OF_THE_SERVER}"""


class MariaDBProbe:
    """Implements `contract.probes.Probe`. Each table is listed with its creation time, which changes when it is made anew."""

    setting: tuple[str, Scalar] = ("sort_buffer_size", 262_144)

    def inventory(self, target: TargetConfig) -> frozenset[str]:
        return frozenset(str(name) for (name,) in _asked(target, _INVENTORY))

    def obstruct(self, target: TargetConfig, name: str) -> None:
        _asked(target, f"CREATE DATABASE {identifier(name)}")

    def clear(self, target: TargetConfig, name: str) -> None:
        # Only if it is still empty: anything that others put into it is not ours to drop.
        inside = _asked(target, "SELECT 1 FROM information_schema.tables WHERE table_schema = %s", [name])
        if not inside:
            _asked(target, f"DROP DATABASE IF EXISTS {identifier(name)}")


def _asked(target: TargetConfig, statement: str, values: list[str] | None = None) -> Rows:
    with connect(target) as connection:
        try:
            return ask(connection, statement, values)
        except pymysql.MySQLError as error:
            raise PreflightError(f"the server says: {words_of(error)}", key=key_of(target)) from error
