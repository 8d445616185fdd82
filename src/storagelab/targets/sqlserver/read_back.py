"""What the server really made and how it is set, read back from it; nothing is believed because it was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets.sqlserver import tsql
from storagelab.targets.sqlserver.attached import ServerFacts, read_state
from storagelab.targets.sqlserver.connecting import Session
from storagelab.targets.sqlserver.layout import FILEGROUP, DataFile, Layout, is_windows_path
from storagelab.targets.sqlserver.procedures import TABLE
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

FILES = """
SELECT f.name, f.type_desc, f.physical_name, CAST(f.size AS bigint) * 8192 AS size_bytes, g.name AS filegroup_name
FROM sys.database_files AS f LEFT JOIN sys.filegroups AS g ON g.data_space_id = f.data_space_id
ORDER BY f.file_id"""
VOLUMES = """
SELECT f.name, v.volume_mount_point, v.file_system_type, v.total_bytes, v.available_bytes
FROM sys.database_files AS f CROSS APPLY sys.dm_os_volume_stats(DB_ID(), f.file_id) AS v"""
DATABASE = "SELECT * FROM sys.databases WHERE name = {name}"
TABLE_FACTS = f"""
SELECT p.data_compression_desc, i.type_desc, d.name AS filegroup_name
FROM sys.partitions AS p
JOIN sys.indexes AS i ON i.object_id = p.object_id AND i.index_id = p.index_id
JOIN sys.data_spaces AS d ON d.data_space_id = i.data_space_id
WHERE p.object_id = OBJECT_ID(N'dbo.{TABLE}')"""
INDEX = f"SELECT * FROM sys.indexes WHERE object_id = OBJECT_ID(N'dbo.{TABLE}') AND index_id = 1"
PAGES = f"SELECT SUM(used_page_count) FROM sys.dm_db_partition_stats WHERE object_id = OBJECT_ID(N'dbo.{TABLE}')"
COUNT = f"SELECT COUNT_BIG(*) FROM dbo.{TABLE}"
_SHOWN_CONFIGURATIONS = (
    "max server memory (mb)", "min server memory (mb)", "max degree of parallelism", "affinity mask",
    "recovery interval (min)", "max worker threads", "lightweight pooling", "priority boost",
    "tempdb metadata memory-optimized",
)  # fmt: skip
_SHOWN_OF_DATABASE = (
    *(option.column for option in DATABASE_OPTIONS.values()), "collation_name", "is_auto_close_on", "is_auto_shrink_on",
    "is_mixed_page_allocation_on",
)  # fmt: skip
Records = Sequence[Mapping[str, Any]]


def read_files(session: Session) -> list[dict[str, Any]]:
    """The files of the session's database, by file id: name, type_desc, physical_name, size_bytes, filegroup_name."""
    return session.records(FILES)


def server_facts(session: Session, facts: ServerFacts, database: str) -> dict[str, object]:
    """Version, what the operator has set, and how storagelab's database is."""
    state = read_state(session)
    shown = {name: value for name, value in state.configurations.items() if name in _SHOWN_CONFIGURATIONS}
    of_database = _record(session.records(DATABASE.format(name=tsql.text(database))))
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


def _record(records: Records) -> Mapping[str, Any]:
    return records[0] if records else {}


def _shown(value: object) -> str:
    return text_of(value) if isinstance(value, bool) else str(value)


# --- files -----------------------------------------------------------------------------------------------------------


def placement(layout: Layout, files: Records) -> list[Check]:
    """Count, place and equal length of the data files, and place of the log, by the server's own catalogue."""
    found = {str(file["name"]): file for file in files}
    asked, log = layout.data_files, layout.log_file
    data = [file for file in files if file["filegroup_name"] == FILEGROUP]
    return [
        _check("data files", str(len(asked)), str(len(data))),
        _place("place of the data files", [layout.primary_file, *asked], found),
        _place("place of the log", [log], found),
        _lengths("length of the data files", asked, found, layout.data_file_mb),
        _lengths("length of the log", [log], found, layout.log_file_mb),
    ]


def growth(before: Records, after: Records) -> Check:
    """No file may have grown while the clock ran: that would be measured, and no longer be equal."""
    sizes = {str(file["name"]): int(file["size_bytes"]) for file in before}
    grown = [str(file["name"]) for file in after if int(file["size_bytes"]) != sizes.get(str(file["name"]))]
    got = (
        f"{len(grown)} grew: {', '.join(grown[:3])}; set target.settings.data_file_mb or log_file_mb"
        if grown
        else "none"
    )
    return _check("files that grew", "none", got)


def _check(name: str, asked: str, got: str, read_from: str = "sys.database_files") -> Check:
    return Check(name=name, asked=asked, got=got, ok=asked == got, read_from=read_from)


def _place(name: str, asked: Sequence[DataFile], found: Mapping[str, Mapping[str, Any]]) -> Check:
    """One check over all files: the folders they lie in, or the first that lies elsewhere."""
    there = {file.name: str(found.get(file.name, {}).get("physical_name", "absent")) for file in asked}
    wrong = [f"{file.name}: {there[file.name]}" for file in asked if not same_path(file.path, there[file.name])]
    folders = ", ".join(dict.fromkeys(_folder(file.path) for file in asked))
    return Check(
        name=name, asked=folders, got=wrong[0] if wrong else folders, ok=not wrong, read_from="sys.database_files"
    )


def same_path(asked: str, got: str) -> bool:
    """Windows does not tell capitals from small letters, nor doubled separators from single ones."""
    if is_windows_path(asked):
        return _plain(asked).casefold() == _plain(got).casefold()
    return re.sub("/+", "/", asked) == re.sub("/+", "/", got)


def _plain(path: str) -> str:
    return re.sub(r"(?<!^)[\\/]+", r"\\", path)


def _folder(path: str) -> str:
    return re.sub(r"[\\/][^\\/]*$", "", path)


def _lengths(name: str, asked: Sequence[DataFile], found: Mapping[str, Mapping[str, Any]], wanted_mb: int) -> Check:
    sizes = sorted({int(found.get(file.name, {}).get("size_bytes", 0)) for file in asked})
    return _check(name, f"{wanted_mb} MB each", " and ".join(f"{size / 2**20:g} MB" for size in sizes) + " each")


def volumes(config: Config, layout: Layout, records: Records) -> list[Check]:
    """Each volume of the spec against the mount point that the server reports for the files on it.

    An operator described the volume; where the server does not tell, that stays unverified. Two volumes on one mount
    point are not two drives.
    """
    mounts = {str(record["name"]): str(record["volume_mount_point"]) for record in records}
    by_volume: dict[str, set[str]] = {}
    for file in [*layout.data_files, layout.log_file]:
        if file.volume is not None:
            by_volume.setdefault(file.volume, set()).add(mounts.get(file.name, ""))
    return [_volume(config.volumes[name].path or "", name, found) for name, found in sorted(by_volume.items())]


def _volume(path: str, name: str, mounts: set[str]) -> Check:
    # A mount point in the other system's way of writing tells nothing of this path.
    told = sorted(mount for mount in mounts if mount and is_windows_path(mount) == is_windows_path(path))
    inside = all(_plain(path).casefold().startswith(_plain(mount).casefold().rstrip("\\")) for mount in told)
    got = f"on {' and '.join(told)}" if told else "the server does not tell on which volume it is"
    return Check(
        name=f"volume {name}", asked=path, got=got, ok=(inside and len(told) == 1) if told else None,
        read_from="sys.dm_os_volume_stats",
    )  # fmt: skip


# --- settings --------------------------------------------------------------------------------------------------------


def settings(session: Session, config: Config, database: str) -> list[Check]:
    """Each setting asked for, as the database, the table or the server has it."""
    asked = config.target.settings
    if not asked:
        return []
    state = read_state(session)
    of_database = _record(session.records(DATABASE.format(name=tsql.text(database))))
    of_table = {**_record(session.records(INDEX)), **_record(session.records(TABLE_FACTS))}
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


# --- table -----------------------------------------------------------------------------------------------------------


def table(session: Session) -> Check:
    """The table is clustered by its key and lies in the filegroup of the data files."""
    facts = _record(session.records(TABLE_FACTS))
    got = f"{facts.get('type_desc', 'absent')} in {facts.get('filegroup_name', 'no filegroup')}"
    return _check("table", f"CLUSTERED in {FILEGROUP}", got, "sys.indexes")


def one_row_a_page(session: Session, rows: int) -> Check:
    """The sequential workload promises one row a page; upper levels of the tree are few beside them."""
    pages = int(session.value(PAGES) or 0)
    ok = rows <= pages <= rows * 1.1 + 64
    return Check(
        name="one row a page", asked=f"{rows} rows", got=f"{pages} pages", ok=ok,
        read_from="sys.dm_db_partition_stats",
    )  # fmt: skip
