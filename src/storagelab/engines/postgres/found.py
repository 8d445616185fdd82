"""A PostgreSQL that already runs, as a start for a spec: its settings, tablespaces, and the place of its log."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg

from storagelab.engines.postgres import connecting
from storagelab.model.config import TargetConfig
from storagelab.model.values import Scalar
from storagelab.servers.attached import quoting
from storagelab.servers.found import Found, volume_name

_OF_STORAGE = [
    "bgwriter_delay", "bgwriter_lru_maxpages", "checkpoint_completion_target", "checkpoint_timeout", "commit_delay",
    "effective_cache_size", "effective_io_concurrency", "fsync", "full_page_writes", "huge_pages", "io_combine_limit",
    "io_max_combine_limit", "io_max_concurrency", "io_method", "io_workers", "maintenance_io_concurrency",
    "maintenance_work_mem", "max_wal_size", "min_wal_size", "random_page_cost", "shared_buffers", "synchronous_commit",
    "temp_buffers", "wal_buffers", "wal_compression", "wal_init_zero", "wal_recycle", "wal_sync_method",
    "wal_writer_delay", "wal_writer_flush_after", "work_mem",
]  # fmt: skip


def found(target: TargetConfig) -> Found:
    """What the server shows. Raises PreflightError if it can't be reached."""
    with connecting.connect(target) as connection, quoting(target, psycopg.Error, connecting.words_of):
        facts = connecting.read_facts(connection)
        rows = connection.execute(
            "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)"
            " AND source NOT IN ('default', 'override', 'client', 'session') ORDER BY name",
            [_OF_STORAGE],
        ).fetchall()
        spaces = connection.execute(
            "SELECT spcname, oid, pg_tablespace_location(oid) FROM pg_tablespace"
            " WHERE pg_tablespace_location(oid) <> '' AND NOT starts_with(spcname, 'storagelab_') ORDER BY spcname"
        ).fetchall()
        data_bytes = int(connecting.value(connection, "SELECT sum(pg_database_size(oid))::bigint FROM pg_database"))
        data = _data_directory(connection)
    places = {} if data is None else {"data": data, "log": Path(os.path.realpath(data / "pg_wal"))}
    for name, oid, location in spaces:
        plain = volume_name(name)
        merges = plain in ("data", "log", *places)
        places[f"{plain[:20]}-{oid}" if merges else plain] = Path(location)
    return Found(
        title=f"PostgreSQL {facts.version}",
        settings={name: _value(text) for name, text in rows},
        places=places,
        here=facts.on_this_machine,
        data_bytes=data_bytes,
        bin_dir=_programs(data) if facts.on_this_machine else None,
    )


def _data_directory(connection: connecting.Connection) -> Path | None:
    """The server's data folder; None if this login may not know it."""
    try:
        return Path(connecting.value(connection, "SELECT current_setting('data_directory')"))
    except psycopg.errors.InsufficientPrivilege:
        return None


def _value(text: str) -> Scalar:
    return {"on": True, "off": False}.get(text, text)


def _programs(data: Path | None) -> Path | None:
    """The folder of the server's programs, by the process that its data folder names."""
    try:
        pid = (data / "postmaster.pid").read_text("utf-8").split()[0] if data is not None else ""
        return Path(f"/proc/{int(pid)}/exe").readlink().parent
    except (OSError, ValueError, IndexError):
        return None
