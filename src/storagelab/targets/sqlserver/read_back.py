"""Reads back what the server really made and how it is set; asking for something proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets.sqlserver import tsql
from storagelab.targets.sqlserver.attached import ServerFacts, read_state
from storagelab.targets.sqlserver.connecting import Session
from storagelab.targets.sqlserver.layout import TABLE_FACTS, Layout, Records, is_windows_path, plain, record_of
from storagelab.targets.sqlserver.settings import (
    DATABASE_OPTIONS,
    FILE_INITIALISATION,
    FILE_SIZES,
    TABLE_OPTIONS,
    TRACE_FLAGS,
    ServerState,
    text_of,
    trace_flags_of,
)
from storagelab.targets.sqlserver.workload import TABLE

VOLUMES = """
SELECT f.name, v.volume_mount_point, v.file_system_type, v.total_bytes, v.available_bytes
FROM sys.database_files AS f CROSS APPLY sys.dm_os_volume_stats(DB_ID(), f.file_id) AS v"""
DATABASE = "SELECT * FROM sys.databases WHERE name = {name}"
INDEX = f"SELECT * FROM sys.indexes WHERE object_id = OBJECT_ID(N'dbo.{TABLE}') AND index_id = 1"
_SHOWN_CONFIGURATIONS = (
    "max server memory (mb)", "min server memory (mb)", "max degree of parallelism", "affinity mask",
    "recovery interval (min)", "max worker threads", "lightweight pooling", "priority boost",
    "tempdb metadata memory-optimized",
)  # fmt: skip
_SHOWN_OF_DATABASE = (
    *(option.column for option in DATABASE_OPTIONS.values()), "collation_name", "is_auto_close_on", "is_auto_shrink_on",
    "is_mixed_page_allocation_on",
)  # fmt: skip


def server_facts(session: Session, facts: ServerFacts, database: str) -> dict[str, object]:
    """The version, the operator's settings, and the state of storagelab's database."""
    state = read_state(session)
    shown = {name: value for name, value in state.configurations.items() if name in _SHOWN_CONFIGURATIONS}
    of_database = record_of(session.records(DATABASE.format(name=tsql.text(database))))
    said = {True: "on", False: "off", None: "unknown"}[state.file_initialisation]
    return {
        "version": facts.version,
        "version_text": facts.version_text,
        "edition": facts.edition,
        "settings": {
            **{name: str(value) for name, value in sorted(shown.items())},
            TRACE_FLAGS: ", ".join(map(str, state.trace_flags)) or "none",
            FILE_INITIALISATION: said,
            **{column: _shown(of_database[column]) for column in _SHOWN_OF_DATABASE if column in of_database},
        },
    }


def _shown(value: object) -> str:
    return text_of(value) if isinstance(value, bool) else str(value)


# --- volumes ----------------------------------------------------------------------------------------------------------


def volumes(config: Config, layout: Layout, records: Records) -> list[Check]:
    """Checks each volume of the spec against the mount point that the server reports for the files on it.

    An operator described the volume; without the server's report, that stays unverified. Two volumes on one mount point
    are not two drives.
    """
    mounts = {str(record["name"]): str(record["volume_mount_point"]) for record in records}
    by_volume: dict[str, set[str]] = {}
    for file in [*layout.data_files, layout.log_file]:
        if file.volume is not None:
            by_volume.setdefault(file.volume, set()).add(mounts.get(file.name, ""))
    return [_volume(config.volumes[name].path or "", name, found) for name, found in sorted(by_volume.items())]


def _volume(path: str, name: str, mounts: set[str]) -> Check:
    # A mount point in the other operating system's notation says nothing about this path.
    told = sorted(mount for mount in mounts if mount and is_windows_path(mount) == is_windows_path(path))
    inside = all(plain(path).casefold().startswith(plain(mount).casefold().rstrip("\\")) for mount in told)
    got = f"on {' and '.join(told)}" if told else "the server does not report its volume"
    return Check(
        name=f"volume {name}", asked=path, got=got, ok=(inside and len(told) == 1) if told else None,
        read_from="sys.dm_os_volume_stats",
    )  # fmt: skip


# --- settings --------------------------------------------------------------------------------------------------------


def settings(session: Session, config: Config, database: str) -> list[Check]:
    """Checks each setting asked for against the database, the table or the server."""
    asked = config.target.settings
    if not asked:
        return []
    state = read_state(session)
    of_database = record_of(session.records(DATABASE.format(name=tsql.text(database))))
    of_table = {**record_of(session.records(INDEX)), **record_of(session.records(TABLE_FACTS))}
    return [
        _setting_check(name, text_of(value), state, of_database, of_table)
        for name, value in sorted(asked.items()) if name not in FILE_SIZES
    ]  # fmt: skip


def _setting_check(
    name: str, asked: str, state: ServerState, of_database: Mapping[str, Any], of_table: Mapping[str, Any]
) -> Check:
    got: object
    if name in DATABASE_OPTIONS:
        got, read_from = of_database.get(DATABASE_OPTIONS[name].column), "sys.databases"
    elif name in TABLE_OPTIONS:
        column = "data_compression_desc" if name == "data_compression" else name
        got, read_from = of_table.get(column), "sys.partitions, sys.indexes"
    elif name == TRACE_FLAGS:
        wanted = trace_flags_of(asked)
        asked = ", ".join(map(str, wanted))
        got, read_from = ", ".join(str(flag) for flag in state.trace_flags if flag in wanted), "DBCC TRACESTATUS"
    elif name == FILE_INITIALISATION:
        got, read_from = state.file_initialisation, "sys.dm_server_services"
    else:
        got, read_from = state.configurations.get(name), "sys.configurations"
    shown = "nothing: the server does not show it" if got is None else _shown(got).upper()
    asked = {"ON": "1", "OFF": "0"}.get(asked, asked) if read_from == "sys.configurations" else asked
    return Check(
        name=f"target.settings.{name}", asked=asked, got=shown, ok=None if got is None else shown == asked.upper(),
        read_from=read_from,
    )  # fmt: skip
