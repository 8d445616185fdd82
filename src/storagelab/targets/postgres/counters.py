"""The server's own counters, before and after a run."""

from __future__ import annotations

from collections.abc import Mapping

from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.steps import Counters

_CHECKPOINTER = {
    14: "SELECT 'checkpoints', to_jsonb(t) FROM pg_stat_bgwriter t",
    17: "SELECT 'checkpoints', to_jsonb(t) FROM pg_stat_checkpointer t",
}
_IO = {
    16: "SELECT 'io ' || backend_type || '/' || object || '/' || context, "
    "to_jsonb(t) - '{backend_type,object,context,op_bytes}'::text[] FROM pg_stat_io t",
}
_EVERY_VERSION = (
    "SELECT 'wal', to_jsonb(t) FROM pg_stat_wal t",
    "SELECT 'database', to_jsonb(t) - '{datid,numbackends}'::text[] FROM pg_stat_database t "
    "WHERE datname = current_database()",
)


def read_counters(connection: Connection, major: int) -> Counters:
    """Cumulative counters, `group -> name -> value`: pg_stat_io (16 and later), pg_stat_wal, pg_stat_database and the
    checkpointer's. Times are the server's milliseconds, as `*_time_ms`."""
    statements = [*_EVERY_VERSION, *_newest(_CHECKPOINTER, major), *_newest(_IO, major)]
    groups: Counters = {}
    for statement in statements:
        for group, fields in connection.execute(statement).fetchall():
            groups[group] = {
                (f"{name}_ms" if name.endswith("_time") else name): float(value)
                for name, value in fields.items()
                if isinstance(value, int | float) and not isinstance(value, bool)
            }
    return groups


def _newest(by_version: Mapping[int, str], major: int) -> list[str]:
    fitting = [version for version in by_version if version <= major]
    return [by_version[max(fitting)]] if fitting else []
