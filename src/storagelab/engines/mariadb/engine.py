"""MariaDB as an engine: its part of a run, its part of the contract suite, and its `ENGINE` for `run.engine`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql

from storagelab.engines.mariadb import connect as db
from storagelab.engines.mariadb.capture import found, watched
from storagelab.engines.mariadb.layout import Layout, moving
from storagelab.engines.mariadb.preflight import check, durability, read_facts
from storagelab.engines.mariadb.sampler import Sampler
from storagelab.engines.mariadb.server import STARTER, privilege, stop_orphan
from storagelab.machine.doctor import Ability
from storagelab.model.config import Config, TargetConfig
from storagelab.model.values import Scalar
from storagelab.run.engine import Engine
from storagelab.run.one_run import OneRun
from storagelab.servers import places
from storagelab.servers.attached import Decoys, dropping_leftovers, dsn_of
from storagelab.servers.interfaces import OUTSIDE_ERRORS, Columns, Sessions, System
from storagelab.stopping import uninterrupted
from storagelab.volumes.folders import Site
from storagelab.watching.counters import Counters, counting

# --- system ----------------------------------------------------------------------------------------------------------
#
# What MariaDB adds to the steps of a run. All engines share these steps.


_NOT_THERE = (2002, 2003, 2006, 2013)


class MariaDB(System[db.Connection]):
    """MariaDB's own part of a cell's run."""

    name, starter = "mariadb", STARTER
    private_reach, attached_reach = db.PrivateReach, db.AttachedReach
    foreign_errors = (pymysql.MySQLError, *OUTSIDE_ERRORS)
    mounts_from = "information_schema.disks"
    log_tells_of_sessions = False
    layout: Any

    def __init__(self, config: Config, site: Site) -> None:
        super().__init__(config, site)
        self.layout = places.tables_of(config)(config, site.prefix, self.folders)

    def meet(self) -> None:
        with db.connect(self.config.target) as connection:
            self.facts = read_facts(connection)
            self.layout.drop(connection)

    def drop(self) -> None:
        with closing(db.connect_to(db.address_of(self.config.target))) as connection:
            self.layout.drop(connection)

    def message_of(self, error: BaseException) -> str:
        return db.words_of(error)

    def is_away(self, error: BaseException) -> bool:
        return isinstance(error, pymysql.MySQLError) and bool(error.args) and error.args[0] in _NOT_THERE

    # --- asked of the server -----------------------------------------------------------------------------------------

    def facts_of(self, connection: db.Connection) -> dict[str, object]:
        return server_facts(connection, self.config.target.settings)

    def data_folder(self, connection: db.Connection) -> Path | None:
        return db.data_folder(connection)

    def mounts(self, connection: db.Connection) -> list[places.Mount]:
        """The file systems of the server's machine.

        The list is empty if the server's plugin DISKS is not loaded or the login lacks the right FILE.
        """
        try:
            rows = db.ask(connection, "SELECT path, disk FROM information_schema.disks")
        except pymysql.MySQLError:
            return []
        return [places.Mount(str(path), str(disk)) for path, disk in rows]

    def time_s(self, connection: db.Connection) -> float:
        return float(str(db.ask(connection, "SELECT UNIX_TIMESTAMP(SYSDATE(6))")[0][0]))

    def page_bytes(self, connection: db.Connection) -> int:
        return int(db.ask(connection, "SELECT @@innodb_page_size")[0][0])

    def write_out(self, connection: db.Connection) -> None:
        self.layout.write_out(connection)

    # --- watched -----------------------------------------------------------------------------------------------------

    def sampler(
        self, own: db.Connection, reach: db.MariaDBReach, sessions: Sessions[db.Connection], columns: Columns
    ) -> Sampler:
        paths = {str(path): number for number, path in self._files(own, reach).items()}
        return Sampler(
            reach.connect, sessions.ids, self.config.measure, server_pid=reach.process(own), paths=paths, probe=columns,
            of_generator=self.config.generated, in_turns=sessions.in_turns,
        )  # fmt: skip

    def _files(self, own: db.Connection, reach: db.MariaDBReach) -> dict[int, Path]:
        """The full path of each data file, by number. The paths are the names in performance_schema."""
        folder = reach.folder(own)
        return {number: folder / path for number, path in self.layout.files(own).items()}

    def count(
        self, own: db.Connection, reach: db.MariaDBReach, sessions: Sessions[db.Connection]
    ) -> Callable[[], Counters]:
        return counting(
            lambda: read_counters(own) | (read_file_counters(own, self._files(own, reach)) if reach.shows_files else {})
        )


def opened(config: Config, site: Site) -> OneRun[db.Connection]:
    """The run of a cell."""
    return OneRun(MariaDB(config, site))


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """Drops what a killed run left on an attached server, and returns the dropped names.

    Raises PreflightError if this fails.
    """
    left = dropping_leftovers(config.target, pymysql.MySQLError, db.words_of, f"the database {site.prefix}")
    with db.connect(config.target) as connection, left:
        return Layout(config, site.prefix, None).drop(connection)


def abilities() -> tuple[Ability, ...]:
    return (STARTER.ability(),)


# --- read back -------------------------------------------------------------------------------------------------------
# The server's version, settings and counters, as the server reports them.


_SHOWN = (
    "innodb_flush_log_at_trx_commit", "innodb_doublewrite", "sync_binlog", "log_bin", "innodb_flush_method",
    "innodb_page_size", "innodb_buffer_pool_size", "innodb_log_file_size", "innodb_redo_log_capacity",
    "innodb_use_native_aio", "innodb_io_capacity", "innodb_io_capacity_max", "innodb_log_file_buffering",
    "innodb_adaptive_hash_index", "innodb_change_buffering", "innodb_checksum_algorithm", "innodb_flush_neighbors",
    "innodb_read_io_threads", "innodb_write_io_threads", "performance_schema", "max_connections",
)  # fmt: skip


def server_facts(connection: db.Connection, asked: Mapping[str, object]) -> dict[str, object]:
    """The server's version, the settings that affect storage and durability, and the settings named in `asked`."""
    values = db.variables(connection)
    names = [*_SHOWN, *(db.setting_name(name) for name in asked)]
    shown = {name: values[name] for name in sorted(set(names)) if name in values}
    text = f"{values['version']} {values['version_comment']}"
    return {"version": values["version"], "version_text": text, "settings": shown}


_GROUPS = {
    "log": (r"Innodb\_os\_log\_written", r"Innodb\_log\_w%", r"Innodb\_lsn\_current"),
    "data": (
        r"Innodb\_data\_fsyncs", r"Innodb\_data\_read%", r"Innodb\_data\_writ%", r"Innodb\_pages\_%",
        r"Innodb\_dblwr\_%", r"Innodb\_page\_splits",
    ),
    "buffer pool": (
        r"Innodb\_buffer\_pool\_read%", r"Innodb\_buffer\_pool\_write\_requests", r"Innodb\_buffer\_pool\_wait\_free",
        r"Innodb\_buffer\_pool\_pages\_%flushed",
    ),
    "rows": (r"Innodb\_rows\_%", r"Innodb\_row\_lock\_waits", r"Innodb\_row\_lock\_time"),
}  # fmt: skip
"""By group: patterns of counters. All are cumulative, because a run's value is the difference of two readings."""


def read_counters(connection: db.Connection) -> Counters:
    """The cumulative counters of SHOW GLOBAL STATUS about storage: `group -> name -> value`."""
    groups: Counters = {}
    for group, patterns in _GROUPS.items():
        condition = " OR ".join(["variable_name LIKE %s"] * len(patterns))
        rows = db.ask(connection, f"SHOW GLOBAL STATUS WHERE {condition}", patterns)
        groups[group] = {name.lower(): float(value) for name, value in rows if _NUMBER.fullmatch(value)}
    return groups


_NUMBER = re.compile(r"-?\d+(\.\d*)?")


def read_file_counters(connection: db.Connection, files: Mapping[int, Path]) -> Counters:
    """The calls and bytes of each data file until now: `group -> name -> value`.

    `files` has the path of each file on the server, by the file's number.
    """
    if not files:
        return {}
    names = {str(path): f"data_file_{number}" for number, path in files.items()}
    rows = db.ask(
        connection,
        "SELECT file_name, count_read, count_write, count_misc, sum_number_of_bytes_read, sum_number_of_bytes_write "
        "FROM performance_schema.file_summary_by_instance WHERE file_name IN %s",
        [list(names)],
    )
    columns = ("reads", "writes", "syncs_and_others", "read_bytes", "write_bytes")
    return {
        "data files": {
            f"{names[path]}.{column}": float(value)
            for path, *values in rows for column, value in zip(columns, values, strict=True)
        }
    }  # fmt: skip


# --- probe -----------------------------------------------------------------------------------------------------------
# For the contract suite: lists the objects on a MariaDB or MySQL server, and makes objects that block storagelab.


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
    """Implements `contract.probes.Probe`. Each table is listed with its creation time, so a remade table is noticed."""

    setting: tuple[str, Scalar] = ("sort_buffer_size", 262_144)

    def inventory(self, target: TargetConfig) -> frozenset[str]:
        return frozenset(str(name) for (name,) in _asked(target, _INVENTORY))

    def obstruct(self, target: TargetConfig, name: str) -> None:
        _asked(target, f"CREATE DATABASE {db.identifier(name)}")

    @contextmanager
    def decoys(self, target: TargetConfig, name: str) -> Iterator[Decoys]:
        table = f"{db.identifier(name)}.sbtest1"
        dsn = urlsplit(dsn_of(target, ""))._replace(path=f"/{name}").geturl()
        rows = ", ".join(f"({number}, 0, '', '')" for number in range(1, 101))
        _asked(target, f"CREATE DATABASE {db.identifier(name)}")
        try:
            _asked(target, f"CREATE TABLE {table} (id INT PRIMARY KEY, k INT, c CHAR(120), pad CHAR(60))")
            _asked(target, f"INSERT INTO {table} VALUES {rows}")
            inside = TargetConfig(engine="mariadb", dsn=dsn)
            yield inside, {"kind": "sysbench", "table_size": 100}, lambda: _asked(target, f"SELECT * FROM {table}")
        finally:
            with uninterrupted():
                _asked(target, f"DROP DATABASE IF EXISTS {db.identifier(name)}")

    def clear(self, target: TargetConfig, name: str) -> None:
        # Drops the database only if it is empty, because others may have put tables into it.
        if not _asked(target, "SELECT 1 FROM information_schema.tables WHERE table_schema = %s", [name]):
            _asked(target, f"DROP DATABASE IF EXISTS {db.identifier(name)}")


def _asked(target: TargetConfig, statement: str, values: list[str] | None = None) -> db.Rows:
    with db.connect(target) as connection:
        return db.ask(connection, statement, values)


ENGINE = Engine(
    check=check, open=opened, kinds=STARTER.kinds, stop_orphan=stop_orphan, drop_leftovers=drop_leftovers,
    abilities=abilities, durability=durability, privilege=privilege, probe=MariaDBProbe, found=found, watched=watched,
    moving=moving,
)  # fmt: skip
