"""SQL Server's own part of a run. The server already runs on another machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from storagelab.engines.sqlserver import connect as db
from storagelab.engines.sqlserver import meanings, sampler
from storagelab.engines.sqlserver.layout import (
    NOW_US,
    TABLE,
    TABLE_FACTS,
    Layout,
    Records,
    is_windows_path,
    plain,
    record_of,
)
from storagelab.engines.sqlserver.preflight import drop, exists
from storagelab.model.config import Config, TargetConfig
from storagelab.model.measurement import Check
from storagelab.model.values import Scalar
from storagelab.run.one_run import OneRun
from storagelab.servers.attached import dropping_leftovers, key_of, quoting
from storagelab.servers.interfaces import OUTSIDE_ERRORS, Columns, Reach, Sessions, System
from storagelab.volumes.folders import Site
from storagelab.watching.counters import Counters, difference

# --- read back -------------------------------------------------------------------------------------------------------
# Reads the objects that the server has really made and the settings that it really has. A request alone proves nothing.


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
    *(option.column for option in meanings.DATABASE_OPTIONS.values()),
    "collation_name", "is_auto_close_on", "is_auto_shrink_on", "is_mixed_page_allocation_on",
)  # fmt: skip


def server_facts(session: db.Session, facts: db.ServerFacts, database: str) -> dict[str, object]:
    """The server's version, its settings for all users, and the state of storagelab's database."""
    state = db.read_state(session)
    shown = {name: value for name, value in state.configurations.items() if name in _SHOWN_CONFIGURATIONS}
    of_database = record_of(session.records(DATABASE.format(name=db.text(database))))
    return {
        "version": facts.version,
        "version_text": facts.version_text,
        "edition": facts.edition,
        "settings": {
            **{name: str(value) for name, value in sorted(shown.items())},
            meanings.TRACE_FLAGS: ", ".join(map(str, state.trace_flags)) or "none",
            meanings.FILE_INITIALISATION: {True: "on", False: "off", None: "unknown"}[state.file_initialisation],
            **{column: _shown(of_database[column]) for column in _SHOWN_OF_DATABASE if column in of_database},
        },
    }


def _shown(value: object) -> str:
    return meanings.text_of(value) if isinstance(value, bool) else str(value)


# --- volumes ----------------------------------------------------------------------------------------------------------


def volumes(config: Config, layout: Layout, records: Records) -> list[Check]:
    """Compares each volume of the spec with the mount point that the server reports for the files on it.

    An operator has described the volume. If the server reports no mount point, the description can't be verified. If
    two volumes have the same mount point, they are not two drives.
    """
    mounts = {str(record["name"]): str(record["volume_mount_point"]) for record in records}
    by_volume: dict[str, set[str]] = {}
    for file in [*layout.data_files, layout.log_file]:
        if file.volume is not None:
            by_volume.setdefault(file.volume, set()).add(mounts.get(file.name, ""))
    return [_volume(config.volumes[name].path or "", name, found) for name, found in sorted(by_volume.items())]


def _volume(path: str, name: str, mounts: set[str]) -> Check:
    # A mount point in the notation of another operating system does not belong to this path.
    reported = sorted(mount for mount in mounts if mount and is_windows_path(mount) == is_windows_path(path))
    inside = all(plain(path).casefold().startswith(plain(mount).casefold().rstrip("\\")) for mount in reported)
    got = f"on {' and '.join(reported)}" if reported else "the server does not report its volume"
    return Check(
        name=f"volume {name}", asked=path, got=got, ok=(inside and len(reported) == 1) if reported else None,
        read_from="sys.dm_os_volume_stats",
    )  # fmt: skip


# --- settings --------------------------------------------------------------------------------------------------------


def settings(session: db.Session, config: Config, database: str) -> list[Check]:
    """Compares each requested setting with the database, the table or the server."""
    asked = config.target.settings
    if not asked:
        return []
    state = db.read_state(session)
    of_database = record_of(session.records(DATABASE.format(name=db.text(database))))
    of_table = {**record_of(session.records(INDEX)), **record_of(session.records(TABLE_FACTS))}
    return [
        _setting_check(name, meanings.text_of(value), state, of_database, of_table)
        for name, value in sorted(asked.items()) if name not in meanings.FILE_SIZES
    ]  # fmt: skip


def _setting_check(
    name: str, asked: str, state: meanings.ServerState, of_database: Mapping[str, Any], of_table: Mapping[str, Any]
) -> Check:
    got: object
    if name in meanings.DATABASE_OPTIONS:
        got, read_from = of_database.get(meanings.DATABASE_OPTIONS[name].column), "sys.databases"
    elif name in meanings.TABLE_OPTIONS:
        column = "data_compression_desc" if name == "data_compression" else name
        got, read_from = of_table.get(column), "sys.partitions, sys.indexes"
    elif name == meanings.TRACE_FLAGS:
        wanted = meanings.trace_flags_of(asked)
        asked = ", ".join(map(str, wanted))
        got, read_from = ", ".join(str(flag) for flag in state.trace_flags if flag in wanted), "DBCC TRACESTATUS"
    elif name == meanings.FILE_INITIALISATION:
        got, read_from = state.file_initialisation, "sys.dm_server_services"
    else:
        got, read_from = state.configurations.get(name), "sys.configurations"
    shown = "nothing: the server does not show it" if got is None else _shown(got).upper()
    asked = {"ON": "1", "OFF": "0"}.get(asked, asked) if read_from == "sys.configurations" else asked
    return Check(
        name=f"target.settings.{name}", asked=asked, got=shown, ok=None if got is None else shown == asked.upper(),
        read_from=read_from,
    )  # fmt: skip


# --- reaching --------------------------------------------------------------------------------------------------------
#
# How sessions reach a SQL Server that already runs.


class AttachedReach(Reach[db.Session]):
    """How sessions reach the server. The sessions of a load use storagelab's own database."""

    def connect(self) -> db.Session:
        return db.connect(self.config.target)

    def connect_worker(self) -> db.Session:
        return self.connect_to_own("storagelab worker")

    def connect_to_own(self, application: str) -> db.Session:
        return db.Session(replace(db.address_of(self.config.target), database=self.site.prefix), application)

    def check_settings(self, own: db.Session, worker: db.Session) -> list[Check]:
        return settings(own, self.config, self.site.prefix)


_OWN_SESSIONS = 8


class SqlServer(System[db.Session]):
    """SQL Server's own part of a cell's run."""

    name, attached_reach = "sqlserver", AttachedReach
    foreign_errors = (db.DriverError, *OUTSIDE_ERRORS)
    counts_this_machine = False
    layout: Layout

    def meet(self) -> None:
        db.allow_sessions(self.config.database_load.connections + _OWN_SESSIONS)
        with db.connect(self.config.target) as session:
            self.facts = db.read_facts(session)
            self.layout = Layout(self.config, self.site.prefix, self.facts)
            drop(session, self.site.prefix, key_of(self.config.target))

    def drop(self) -> None:
        with db.connect(self.config.target, database="master") as session:
            drop(session, self.site.prefix, key_of(self.config.target))

    def message_of(self, error: BaseException) -> str:
        return db.words_of(error) if isinstance(error, db.DriverError) else str(error).strip()

    # --- asked of the server -----------------------------------------------------------------------------------------

    def facts_of(self, connection: db.Session) -> dict[str, object]:
        return server_facts(connection, self.facts, self.site.prefix)

    def remote_volumes(self, connection: db.Session) -> dict[str, dict[str, object]]:
        """For each volume: the operator's description, and the facts that the server reports."""
        records = {str(record["name"]): record for record in _volume_records(connection)}
        facts: dict[str, dict[str, object]] = {}
        for file in [*self.layout.data_files, self.layout.log_file]:
            if file.volume is None or file.volume in facts:
                continue
            record = records.get(file.name, {})
            facts[file.volume] = {
                "path": self.config.volumes[file.volume].path, "remote": True,
                "device": record.get("volume_mount_point"), "filesystem": record.get("file_system_type"),
                "size_bytes": record.get("total_bytes"), "free_bytes": record.get("available_bytes"),
            }  # fmt: skip
        return facts

    def check_remote_volumes(self, connection: db.Session) -> list[Check]:
        return volumes(self.config, self.layout, _volume_records(connection))

    def time_s(self, connection: db.Session) -> float:
        return float(connection.value(NOW_US)) / 1e6

    def page_bytes(self, connection: db.Session) -> int:
        return 8192

    def write_out(self, connection: db.Session) -> None:
        connection.execute("CHECKPOINT")

    # --- watched -----------------------------------------------------------------------------------------------------

    def sampler(
        self, own: db.Session, reach: AttachedReach, sessions: Sessions[db.Session], columns: Columns
    ) -> sampler.Sampler:
        self._counts = sampler.SessionCounts()
        return sampler.Sampler(
            lambda: reach.connect_to_own("storagelab sampler"), sessions.ids, self.config.measure, layout=self.layout,
            counts=self._counts, page_info=self.facts.major >= meanings.MAJOR_2019,
        )  # fmt: skip

    def count(self, own: db.Session, reach: AttachedReach, sessions: Sessions[db.Session]) -> Callable[[], Counters]:
        prefix, ids = self.site.prefix, sessions.ids

        def read() -> tuple[sampler.Waits, sampler.Waits, float, Counters]:
            return (
                sampler.read_session_waits(own, ids), sampler.read_server_waits(own), sampler.read_cpu_s(own, ids),
                {**sampler.read_files(own, prefix), **sampler.read_rates(own, prefix)},
            )  # fmt: skip

        waits, server_waits, cpu_s, counted = read()

        def passed() -> Counters:
            waits_after, server_waits_after, cpu_s_after, counted_after = read()
            self._counts.waits = sampler.waits_between(waits, waits_after)
            self._counts.cpu_s = max(0.0, cpu_s_after - cpu_s)
            of_server = sampler.server_waits_group(sampler.waits_between(server_waits, server_waits_after))
            return {**difference(counted, counted_after), "waits of the whole server": of_server}

        return passed


def _volume_records(session: db.Session) -> list[dict[str, Any]]:
    """The volumes of the database's files, as the server reports them. The result is empty if the server does not
    report them.
    """
    try:
        return session.records(VOLUMES)
    except db.DriverError:
        return []


def opened(config: Config, site: Site) -> OneRun[db.Session]:
    """The run of a cell."""
    return OneRun(SqlServer(config, site))


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """Drops what a killed run left on the server, and returns the dropped names.

    Raises PreflightError if this fails, or if the database of this name is not storagelab's.
    """
    left = dropping_leftovers(config.target, db.DriverError, db.words_of, f"the database {site.prefix}")
    with db.connect(config.target, database="master") as session, left:
        return drop(session, site.prefix, key_of(config.target))


# --- probe -----------------------------------------------------------------------------------------------------------
# For the contract suite: lists the objects on a SQL Server, and makes objects that block storagelab.


INVENTORY = """
SELECT N'database ' + name + N' (' + CAST(database_id AS nvarchar(10)) + N', made ' +
       CONVERT(nvarchar(30), create_date, 126) + N')'
FROM sys.databases WHERE name <> N'tempdb'"""


class SqlServerProbe:
    """Implements `contract.probes.Probe`. The files of a database that others made have the database's name, so
    storagelab does not take it as its own.
    """

    setting: tuple[str, Scalar] = ("page_verify", "checksum")

    def inventory(self, target: TargetConfig) -> frozenset[str]:
        with _asking(target) as session:
            return frozenset(str(name) for (name,) in session.rows(INVENTORY))

    def decoys(self, target: TargetConfig, name: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def obstruct(self, target: TargetConfig, name: str) -> None:
        self._execute(target, f"CREATE DATABASE {db.identifier(name)}", name, there=False)

    def clear(self, target: TargetConfig, name: str) -> None:
        self._execute(target, f"DROP DATABASE {db.identifier(name)}", name, there=True)

    def _execute(self, target: TargetConfig, statement: str, name: str, *, there: bool) -> None:
        """Runs the statement only if the existence of the database is as `there` says."""
        with _asking(target) as session:
            if exists(session, name) == there:
                session.execute(statement)


@contextlib.contextmanager
def _asking(target: TargetConfig) -> Iterator[db.Session]:
    with db.connect(target, database="master") as session, quoting(target, db.DriverError, db.words_of):
        yield session
