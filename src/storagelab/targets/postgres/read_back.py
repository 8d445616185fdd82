"""What the server really is and does, read back from it; nothing is believed because it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from storagelab.model import Check
from storagelab.targets.postgres.layout import TABLE, Layout

Connection = psycopg.Connection[Any]

_ALWAYS_SHOWN = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size", "wal_level",
    "wal_compression", "io_method", "checkpoint_timeout", "data_checksums", "block_size", "autovacuum",
)  # fmt: skip
_NEVER_SHOWN = ("primary_conninfo", "ssl_passphrase_command", "archive_command", "restore_command", "krb_server_keyfile")


def server_facts(connection: Connection) -> dict[str, object]:
    """Version, and every setting that is not as the server was built, with the durability settings in any case."""
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


def settings(connection: Connection, asked: Mapping[str, str], expected: Mapping[str, str]) -> list[Check]:
    """Each setting asked for against what the server runs with; `expected` is its own parser's reading, in base units."""
    return [
        _setting_check(name, asked[name], shown, shown if raw == expected[name] else None)
        for name, raw, shown in _current(connection, asked)
    ]


def session_settings(connection: Connection, asked: Mapping[str, str]) -> list[Check]:
    """Each setting asked for on an attached server, as a worker's session has it."""
    rows = connection.execute(
        "SELECT name, current_setting(name), source FROM pg_settings WHERE name = ANY(%s) ORDER BY name", [list(asked)]
    ).fetchall()
    return [
        _setting_check(name, asked[name], shown, shown if source == "session" else None) for name, shown, source in rows
    ]


def _current(connection: Connection, asked: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return connection.execute(
        "SELECT name, setting, current_setting(name) FROM pg_settings WHERE name = ANY(%s) ORDER BY name", [list(asked)]
    ).fetchall()


def _setting_check(name: str, asked: str, shown: str, confirmed: str | None) -> Check:
    return Check(
        name=f"target.settings.{name}", asked=asked, got=shown, ok=confirmed is not None, read_from="pg_settings"
    )


def one_row_a_page(connection: Connection, layout: Layout) -> Check:
    """The sequential workload promises one row a page: pages of the table against its rows."""
    row = connection.execute(
        sql.SQL(
            "SELECT sum(pg_relation_size(i.inhrelid)) / current_setting('block_size')::int, "
            "(SELECT count(*) FROM {}.{}) FROM pg_inherits i WHERE i.inhparent = {}::regclass"
        ).format(layout.schema, sql.Identifier(TABLE), sql.Literal(f'"{layout.prefix}".{TABLE}'))
    ).fetchone()
    assert row is not None
    pages, rows = int(row[0]), int(row[1])
    # The server extends files by several pages at once, so a few empty ones at their ends are as they should be.
    ok = rows <= pages <= rows * 1.1 + 1024 * len(layout.data_files)
    return Check(name="one row a page", asked=f"{rows} rows", got=f"{pages} pages", ok=ok, read_from="pg_relation_size")
