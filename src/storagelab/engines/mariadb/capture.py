"""Reads a running MariaDB or MySQL without changing it.

For the draft of a spec, it reads the settings and the places of files. For a capture, it reads the tables and logs,
their files, the threads and the counters.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pymysql

from storagelab.capture.folder import (
    LOG,
    NOTHING,
    OTHER_FILES,
    TEMPORARY,
    Count,
    Counters,
    CountKey,
    ServerGone,
    Thing,
    label_of,
)
from storagelab.engines.mariadb.connect import Connection, ask, connect
from storagelab.engines.mariadb.preflight import read_facts
from storagelab.errors import PreflightError
from storagelab.machine.disks import read_text
from storagelab.model.config import TargetConfig
from storagelab.model.values import Scalar
from storagelab.servers.attached import RunningServer, key_of, pid_in, reasons

_OF_STORAGE = (
    "aria_checkpoint_interval", "aria_pagecache_buffer_size", "binlog_cache_size", "general_log",
    "innodb_adaptive_flushing", "innodb_adaptive_flushing_lwm", "innodb_adaptive_hash_index",
    "innodb_buffer_pool_size", "innodb_change_buffering", "innodb_checksum_algorithm", "innodb_compression_level",
    "innodb_doublewrite", "innodb_file_per_table", "innodb_flush_log_at_timeout", "innodb_flush_log_at_trx_commit",
    "innodb_flush_method", "innodb_flush_neighbors", "innodb_flush_sync", "innodb_io_capacity",
    "innodb_io_capacity_max", "innodb_log_buffer_size", "innodb_log_file_size", "innodb_log_write_ahead_size",
    "innodb_lru_flush_size", "innodb_lru_scan_depth", "innodb_max_dirty_pages_pct", "innodb_max_dirty_pages_pct_lwm",
    "innodb_page_size", "innodb_purge_threads", "innodb_read_ahead_threshold", "innodb_read_io_threads",
    "innodb_undo_tablespaces", "innodb_use_native_aio", "innodb_write_io_threads", "long_query_time",
    "max_connections", "slow_query_log", "transaction_isolation",
)  # fmt: skip
_REASONS: dict[tuple[str, ...], str] = {
    ("log_bin", "sync_binlog", "binlog_"): "a private server writes no binary log",
    ("innodb_encrypt", "aria_encrypt", "file_key", "plugin"): "encryption needs a plugin that holds the keys",
    ("innodb_data_file_path", "innodb_temp_data_file_path", "innodb_undo_directory"): "files are where the layout says",
}
_NOT_CHOSEN = "('COMPILE-TIME', 'AUTO')"


def found(target: TargetConfig) -> RunningServer:
    """The facts about the server. Raises PreflightError if the server can't be reached."""
    with connect(target) as connection:
        facts = read_facts(connection)
        data, log, pid_file = ask(connection, "SELECT @@datadir, @@innodb_log_group_home_dir, @@pid_file")[0]
        data_bytes = ask(
            connection, "SELECT COALESCE(SUM(data_length + index_length), 0) FROM information_schema.tables"
        )
        sessions, working = ask(
            connection,
            "SELECT COUNT(*), COALESCE(SUM(command <> 'Sleep'), 0) FROM information_schema.processlist"
            " WHERE id <> CONNECTION_ID() AND command <> 'Daemon'",
        )[0]
        folder, chosen = Path(data), dict(_chosen(connection))
        return RunningServer(
            title=facts.name, settings={name: value for name, value in chosen.items() if name in _OF_STORAGE},
            places={"data": folder, "log": folder / log, **_elsewhere(connection)}, here=facts.on_this_machine,
            data_bytes=int(data_bytes[0][0]), bin_dir=_programs(folder / pid_file) if facts.on_this_machine else None,
            asked=frozenset(_OF_STORAGE), left_out=reasons(_REASONS, [one for one in chosen if one not in _OF_STORAGE]),
            sessions=int(sessions), working=int(working),
        )  # fmt: skip


def _programs(pid_file: Path) -> Path | None:
    """The folder of the program that the server's process runs, or None if this user can't read it."""
    pid = pid_in(pid_file).strip()
    with contextlib.suppress(OSError):
        return Path(f"/proc/{int(pid)}/exe").readlink().parent if pid.isdigit() else None
    return None


def _chosen(connection: Connection) -> list[tuple[str, Scalar]]:
    """The changed settings. The list is empty on MySQL, because MySQL has no single table of them."""
    with contextlib.suppress(pymysql.MySQLError):
        rows = ask(
            connection,
            "SELECT LOWER(variable_name), global_value FROM information_schema.system_variables"
            f" WHERE global_value_origin NOT IN {_NOT_CHOSEN} ORDER BY 1",
        )
        return [(name, int(value) if str(value).isdigit() else str(value)) for name, value in rows]
    return []


def _elsewhere(connection: Connection) -> dict[str, Path]:
    """The folders outside the data folder that hold tables."""
    try:
        rows = ask(connection, "SELECT path FROM information_schema.innodb_sys_datafiles WHERE path LIKE '/%'")
    except pymysql.MySQLError:  # the login lacks the right, or the server is MySQL
        return {}
    folders = sorted({Path(path).parent for (path,) in rows})
    return {f"tables{number}": folder for number, folder in enumerate(folders, 1)}


_TABLESPACES = ("innodb_sys_tablespaces", "innodb_tablespaces")
"""The name of the view that lists InnoDB's files. The first name is MariaDB's, and the second is MySQL's."""
_PARTITION = re.compile(r"#p#", re.IGNORECASE)
_ENCODED = re.compile(r"@([0-9a-f]{4})")
_SERVERS_OWN = ("ibdata", "undo", "innodb_undo", "innodb_system")
_PS_PER_S = 1e12
_CHANGING = (
    "Com_delete", "Com_delete_multi", "Com_insert", "Com_insert_select", "Com_load", "Com_replace",
    "Com_replace_select", "Com_update", "Com_update_multi",
)  # fmt: skip
"""Counts of statements that change rows. A transaction with several such statements counts several times."""
_TRANSACTIONS = """
    SELECT count_star FROM performance_schema.events_transactions_summary_global_by_event_name
    JOIN performance_schema.setup_instruments ON name = event_name WHERE enabled = 'YES'
"""
_STATEMENTS_OF_ONE = 100
"""If there are more statements per COMMIT than this, `_ended` takes all statements as autocommitted."""
_BACKGROUND = ("thread/innodb/", "thread/aria/", "thread/mysys/", "thread/sql/main", "thread/sql/slave", "iou-wrk")
"""The beginnings of the names of threads that serve no session."""
_LOG_FILES = re.compile(r"ib_logfile\d+|ib_redo\d+|#ib_redo\d+(_tmp)?")
_DATA_FILE = re.compile(r"(?P<database>[^/]+)/(?P<table>[^/]+)\.(?:ibd|MAD|MAI|MYD|MYI)$")


class WatchedMariaDB:
    """Implements `capture.folder.Watched`."""

    engine: str = "mariadb"

    def __init__(self, target: TargetConfig) -> None:
        """Raises PreflightError if the server can't be reached, or if the login may not read its counters."""
        self._held = contextlib.ExitStack()
        self._connection = self._held.enter_context(connect(target))
        try:
            self._begin(target)
        except BaseException:
            self.close()
            raise

    def _begin(self, target: TargetConfig) -> None:
        facts = read_facts(self._connection)
        self.version, self._mysql = facts.version, facts.mysql
        self._counts_files = facts.counts_files
        needs: dict[str, tuple[str, str | None]] = {"PROCESS ON *.*": ("PROCESS", None)}
        if facts.counts_files:
            needs["SELECT ON performance_schema.*"] = "SELECT", "performance_schema"
        for granted, (right, database) in needs.items():
            if not facts.may(right, database):
                where = f" on {database}" if database else ""
                raise PreflightError(
                    f"the login lacks the right {right}{where}, which is needed to read the server's I/O counters",
                    key=key_of(target), hint=f"as an administrator: GRANT {granted} TO ...",
                )  # fmt: skip
        off = "performance_schema is off: the server has no counters by file, and the task of a thread is not known."
        self.notes = [] if facts.counts_files else [off]
        data, log, temporary, pid_file = ask(
            self._connection, "SELECT @@datadir, @@innodb_log_group_home_dir, @@tmpdir, @@pid_file"
        )[0]
        self._data = Path(data)
        self._log, self._temporary = self._data / log, Path(str(temporary).partition(":")[0])
        self._pid = _process(self._data, self._data / pid_file)
        self.local = self._pid is not None
        self.threads = tuple(sorted({*self._names(), "iou-wrk*"}))
        self.views: tuple[str, ...] = ("innodb_sys_tablespaces", "processlist", "global_status")
        self.views += ("file_summary_by_instance", "threads") if facts.counts_files else ()
        self._kinds: dict[int, str] = {}
        self._commits: tuple[int, ...] = ()
        self.things()

    def _rows(self, statement: str) -> list[Any]:
        try:
            return ask(self._connection, statement)
        except (pymysql.OperationalError, pymysql.InterfaceError) as error:
            if not self._connection.open:
                raise ServerGone("the server is gone: it broke the connection") from error
            raise

    def _names(self) -> Iterator[str]:
        threads = Path(f"/proc/{self._pid}/task").glob("[0-9]*") if self._pid else ()
        return filter(None, (read_text(thread / "comm") for thread in threads))

    # --- objects and files -------------------------------------------------------------------------------------------

    def folders(self) -> Mapping[str, Path]:
        found = {"data": self._data, "log": self._log, "temporary": self._temporary}
        apart = (folder.parent for _, folder in self._places() if not folder.is_relative_to(self._data))
        found |= {f"tables{number}": folder for number, folder in enumerate(sorted(set(apart)), 1)}
        return found

    def things(self) -> dict[str, Thing]:
        rows = self._first_rows(
            f"SELECT space, name, file_size FROM information_schema.{view}" for view in _TABLESPACES
        )
        places, found = dict(self._places()), dict[str, Thing]()
        for space, name, size in rows:
            if (thing := self._named(str(name), places.get(int(space), self._data))) is not None:
                found[thing.id] = thing._replace(bytes=int(size or 0), files=str(space))
        return found

    def _first_rows(self, statements: Iterable[str]) -> list[Any]:
        """Returns the rows of the first statement that this server can execute, or no rows if it can execute none."""
        for statement in statements:
            with contextlib.suppress(pymysql.MySQLError):
                return self._rows(statement)
        return []

    def _places(self) -> Iterator[tuple[int, Path]]:
        """The number and the folder of each tablespace outside the data folder."""
        rows = self._first_rows((
            "SELECT space, filename FROM information_schema.innodb_sys_tablespaces",  # from MariaDB 10.6 on
            "SELECT space, path FROM information_schema.innodb_sys_datafiles",
        ))  # fmt: skip
        return ((int(space), Path(path).parent) for space, path in rows if str(path).startswith("/"))

    def _named(self, name: str, folder: Path) -> Thing | None:
        """The table in the tablespace `database/table`. Returns None for the server's own or a temporary tablespace."""
        database, slash, table = name.partition("/")
        if not slash or table.startswith("#sql"):
            return None
        parts = (database, *_PARTITION.split(table, maxsplit=1))
        database, table, *partition = (_ENCODED.sub(lambda found: chr(int(found[1], 16)), part) for part in parts)
        label, name = ("#".join([one, *partition]) for one in (label_of(database, table), table))
        return Thing(label, database, name, "table", folder)

    def thing_of(self, path: str) -> Thing | None:
        place = Path(path.removesuffix(" (deleted)"))
        if not place.is_absolute():
            place = self._data / place
        known = [folder for folder in self._is_temporary if place.is_relative_to(folder)]
        if not known:
            return None
        deepest = max(known, key=lambda folder: len(folder.parts))
        if self._is_temporary[deepest] and place.parent != deepest:
            return None
        if _LOG_FILES.fullmatch(place.name):
            return Thing(LOG, None, "redo log", "log", self._log)
        if place.name.startswith(("ibtmp", "#sql", "temp_")) or self._is_temporary[deepest]:
            return Thing(TEMPORARY, None, "temporary tables and files", "temporary", place.parent)
        if re.fullmatch(r".*-bin\.\d+", place.name):
            return Thing("binary log", None, "binary log", "log", place.parent)
        match = _DATA_FILE.search(str(place))
        if match and (thing := self._named(f"{match['database']}/{match['table']}", place.parent)):
            return thing
        if place.name.startswith(_SERVERS_OWN):
            return Thing("system tablespace", None, "system tablespace, undo and double writes", "other", place.parent)
        return Thing(OTHER_FILES, None, "other files of the server", "other", place.parent)

    @cached_property
    def _is_temporary(self) -> dict[Path, bool]:
        """For each folder of the server: whether it holds only temporary files.

        Each folder is listed with the server's path and with the path without symbolic links.
        """
        found = {}
        for name, folder in sorted(self.folders().items(), key=lambda one: one[0] != "temporary"):
            found[folder] = found[Path(os.path.realpath(folder))] = name == "temporary"
        return found

    def place_in(self, _path: str) -> tuple[str, int]:
        return "", 0

    # --- threads -----------------------------------------------------------------------------------------------------

    def has(self, thread: int) -> bool:
        return Path(f"/proc/{self._pid}/task/{thread}").exists() or (
            thread in self._kinds and not Path(f"/proc/{thread}").exists()
        )

    def by(self, thread: int) -> str:
        if thread not in self._kinds:
            named = "SELECT thread_os_id, name FROM performance_schema.threads WHERE thread_os_id IS NOT NULL"
            rows = self._rows(named) if self._counts_files else []
            self._kinds |= {int(one): _kind(str(name)) for one, name in rows}
            if thread not in self._kinds and (name := read_text(Path(f"/proc/{thread}/comm"))):
                self._kinds[thread] = _kind(name)
        return self._kinds.get(thread, "session")

    def processes(self) -> list[int]:
        return [] if self._pid is None else [self._pid]

    # --- counters ----------------------------------------------------------------------------------------------------

    def counters(self, *, objects: bool) -> Counters:
        status = {str(name).lower(): int(value) for name, value in self._rows(
            "SHOW GLOBAL STATUS WHERE variable_name IN ('Com_commit', 'Handler_commit', 'Innodb_os_log_written',"
            f" 'Innodb_max_trx_id', {', '.join(map(repr, _CHANGING))})"
        )}  # fmt: skip
        recent = "" if self._mysql else " OR time_ms < 100"
        working = self._rows(
            "SELECT count(*) FROM information_schema.processlist WHERE id <> connection_id()"
            f" AND command <> 'Daemon' AND user <> 'system user' AND (command <> 'Sleep'{recent})"
        )[0][0]
        counts: dict[CountKey, Count] = {}
        if (written := status.get("innodb_os_log_written")) is not None:
            counts[LOG, "write", "session"] = Count(None, written)
        if objects and self._counts_files:
            for key, count in self._by_file():
                counts[key] = counts.get(key, NOTHING).plus(count)
        # Each transaction that writes uses two transaction numbers.
        changed = status["innodb_max_trx_id"] // 2 if "innodb_max_trx_id" in status else sum(
            status.get(name.lower(), 0) for name in _CHANGING
        )  # fmt: skip
        ended, unit = self._ended(status, changed)
        return Counters(counts, ended, int(working), self._times(), changed, unit)

    def _ended(self, status: Mapping[str, int], changed: int) -> tuple[int, Literal["transaction", "unit"]]:
        """The number of ended transactions, and what was counted.

        If performance_schema counts transactions, the number is its count. (On MariaDB, this counter must be enabled.)
        Otherwise, the number is an estimate from the counts since the first reading. If there was no COMMIT, each
        handled statement was a transaction. If there were COMMITs, the server counts autocommitted statements together
        with the statements of transactions. Then the larger of two numbers is used: the number of COMMITs, or the
        number of changes. If there are more than `_STATEMENTS_OF_ONE` statements per COMMIT, it is the number of
        statements.
        """
        with contextlib.suppress(pymysql.MySQLError):  # older servers lack the table
            for (count,) in self._rows(_TRANSACTIONS) if self._counts_files else ():
                return int(count), "transaction"
        now = status.get("com_commit", 0), status.get("handler_commit", 0), changed
        self._commits = self._commits or now
        commits, handled, changes = (count - before for count, before in zip(now, self._commits, strict=True))
        if not commits:
            return handled, "transaction"
        return (handled if handled > _STATEMENTS_OF_ONE * commits else max(commits, changes)), "unit"

    def _times(self) -> dict[CountKey, tuple[int, float]]:
        """The number of reads by sessions and their time. The time of a write is unknown, because the server times only
        the submission of a write.
        """
        if not self._counts_files:
            return {}
        reads, read_ps = self._rows(
            "SELECT COALESCE(SUM(count_read), 0), COALESCE(SUM(sum_timer_read), 0) FROM "
            "performance_schema.file_summary_by_event_name WHERE event_name = 'wait/io/file/innodb/innodb_data_file'"
        )[0]
        return {("data", "read", "session"): (int(reads), int(read_ps) / _PS_PER_S)} if read_ps else {}

    def _by_file(self) -> Iterator[tuple[CountKey, Count]]:
        rows = self._rows(
            "SELECT file_name, count_read, sum_number_of_bytes_read, sum_timer_read,"
            " count_write, sum_number_of_bytes_write, sum_timer_write FROM performance_schema.file_summary_by_instance"
            " WHERE count_read + count_write > 0"
        )
        for name, reads, read_bytes, read_ps, writes, write_bytes, write_ps in rows:
            thing = self.thing_of(os.path.normpath(self._data / str(name)))
            if thing is None or thing.id == LOG:  # SHOW GLOBAL STATUS has the bytes of the log
                continue
            for operation, requests, size, ps in (
                ("read", reads, read_bytes, read_ps), ("write", writes, write_bytes, write_ps),
            ):  # fmt: skip
                if requests:
                    yield (thing.id, operation, "session"), Count(int(requests), int(size), int(ps) / _PS_PER_S)

    def close(self) -> None:
        self._held.close()


def _kind(name: str) -> str:
    """The kind of a thread. `name` is its name in performance_schema or in the kernel."""
    if "page_cleaner" in name:
        return "checkpoint"
    return "background" if name.startswith(_BACKGROUND) else "session"


def _process(data: Path, pid_file: Path) -> int | None:
    """The id of the server's process, or None if it is not on this machine or this user may not see its folder."""
    pid = pid_in(pid_file)
    with contextlib.suppress(OSError):
        return int(pid) if pid.isdigit() and os.path.samefile(f"/proc/{pid}/cwd", data) else None
    return None


watched = WatchedMariaDB
