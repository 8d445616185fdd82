"""What the server says of itself: what it really is and does, since asking for something proves nothing, and its counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from storagelab.model.measurement import Check
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.steps import Counters

_ALWAYS_SHOWN = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size", "wal_level",
    "wal_compression", "io_method", "checkpoint_timeout", "data_checksums", "block_size", "autovacuum",
)  # fmt: skip
_NEVER_SHOWN = (
    "primary_conninfo",
    "ssl_passphrase_command",
    "archive_command",
    "restore_command",
    "krb_server_keyfile",
    "unix_socket_directories",  # differs in each run, which means nothing
)

_AUTOMATIC_AT_0 = ("commit_timestamp_buffers", "subtransaction_buffers", "transaction_buffers")
"""The server chooses their size at 0; other settings use -1 for that."""
_NORMALISED = ("client_encoding", "datestyle", "log_timezone", "timezone")
"""Texts that the server writes in its own case, whatever the case asked for."""


def server_facts(connection: Connection) -> dict[str, object]:
    """The version, every setting that differs from the server's built-in one, and the durability settings in any case."""
    rows = connection.execute(
        """
        SELECT name, current_setting(name) FROM pg_settings
        WHERE (setting IS DISTINCT FROM boot_val OR name = ANY(%s)) AND NOT name = ANY(%s)
          AND category !~ 'File Locations' ORDER BY name
        """,
        [list(_ALWAYS_SHOWN), list(_NEVER_SHOWN)],
    ).fetchall()
    version = connection.execute("SELECT current_setting('server_version'), version()").fetchone()
    assert version is not None
    return {"version": version[0], "version_text": version[1], "settings": dict(rows)}


class _Setting(NamedTuple):
    """A setting as the server shows it: `raw` in base units, `shown` in readable ones; `source` says where it was set."""

    raw: str
    shown: str
    source: str


def settings(connection: Connection, asked: Mapping[str, str], expected: Mapping[str, str]) -> list[Check]:
    """Checks each setting asked for against the server's; `expected` is its parser's reading, in base units."""
    return _setting_checks(connection, asked, lambda name, setting: _is_as_read(name, setting.raw, expected[name]))


def session_settings(connection: Connection, asked: Mapping[str, str]) -> list[Check]:
    """Checks each setting asked for on an attached server against a worker's session."""
    return _setting_checks(connection, asked, lambda _, setting: setting.source == "session")


def _is_as_read(name: str, raw: str, expected: str) -> bool:
    if _left_to_server(name, expected):
        return True
    if name.lower() in _NORMALISED:
        return raw.casefold() == expected.casefold()
    return raw == expected


def _left_to_server(name: str, text: str) -> bool:
    return text == "-1" or (text == "0" and name.lower() in _AUTOMATIC_AT_0)


def _setting_checks(
    connection: Connection, asked: Mapping[str, str], confirmed: Callable[[str, _Setting], bool]
) -> list[Check]:
    rows = connection.execute(
        "SELECT lower(name), setting, current_setting(name), source FROM pg_settings WHERE lower(name) = ANY(%s)",
        [[name.lower() for name in asked]],
    ).fetchall()
    found = {name: _Setting(*fields) for name, *fields in rows}
    checks = []
    for name, text in sorted(asked.items()):
        setting = found.get(name.lower())
        got, ok = (
            (setting.shown, confirmed(name, setting)) if setting else ("nothing: the server does not show it", None)
        )
        if setting and ok and _left_to_server(name, text) and setting.raw != text:
            got = f"the server chose {setting.shown}"
        checks.append(Check(name=f"target.settings.{name}", asked=text, got=got, ok=ok, read_from="pg_settings"))
    return checks


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
