"""Reads a running PostgreSQL without changing it.

For the draft of a spec, it reads the settings and the places of files. For a capture, it reads the tables and indexes,
their files, the processes and the counters.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg

from storagelab.capture.folder import (
    ALL_TABLES,
    LOG,
    NOTHING,
    OTHER_FILES,
    TEMPORARY,
    TOAST,
    Count,
    Counters,
    CountKey,
    ServerGone,
    Thing,
    label_of,
)
from storagelab.engines.postgres.connect import connect, connected, data_folder, words_of
from storagelab.engines.postgres.preflight import read_facts
from storagelab.engines.postgres.server import MADE_WITH
from storagelab.errors import PreflightError
from storagelab.machine.disks import read_text
from storagelab.machine.processes import stat_fields
from storagelab.model.config import TargetConfig
from storagelab.model.values import Scalar
from storagelab.servers.attached import RunningServer, key_of, reasons, volume_name

_CARRIED = (
    "^(Write-Ahead Log / (Settings|Checkpoints)|Resource Usage|Vacuuming|Autovacuum|Lock Management"
    "|Reporting and Logging / W|Query Tuning / (Planner Cost|Other)|Statistics)"
)
"""The categories of settings that affect reads and writes."""
_CARRIED_TOO = ["max_connections", "max_wal_senders", "track_commit_timestamp", "wal_keep_size"]
_NOT_CARRIED = [
    "dynamic_shared_memory_type", "log_error_verbosity", "log_line_prefix", "log_min_error_statement",
    "log_min_messages", "log_timezone",
]  # fmt: skip
"""Settings of the log that storagelab needs, and settings that initdb always sets."""
_REASONS: dict[tuple[str, ...], str] = {
    ("archive_",): "the archive command would run on this machine: to measure how archiving changes the log, add "
    'archive_mode = true and archive_command = "/bin/true", and run with --allow-commands',
    ("synchronous_standby_names",): "commits would wait for a standby that a private server does not have",
    ("shared_preload_libraries",): "it loads code into the server: if the code changes what is written, copy the "
    "setting and run with --allow-commands",
    ("logging_collector",): "storagelab itself collects the server's log",
}
_SETTINGS = """
SELECT name, current_setting(name) AS value,
       source NOT IN ('default', 'override', 'client', 'session') AS chosen,
       (category ~ %s OR name = ANY(%s)) AND NOT name = ANY(%s) AS carried
FROM pg_settings
WHERE category !~ '^(Preset|File Locations|Client Connection|Customized|Process Title|Connections and A.* / SSL)'
      OR name = 'shared_preload_libraries'
ORDER BY name"""
_NOW = """
SELECT current_setting('data_checksums') = 'on' AS checksums, current_setting('wal_segment_size') AS segment,
       extract(epoch FROM current_setting('checkpoint_timeout')::interval)::float AS checkpoint_s,
       (SELECT sum(pg_database_size(oid))::bigint FROM pg_database) AS data_bytes,
       count(*) AS sessions, count(*) FILTER (WHERE state = 'active') AS working
FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""


def found(target: TargetConfig) -> RunningServer:
    """The facts about the server. Raises PreflightError if the server can't be reached."""
    with connected(target) as connection:
        facts = read_facts(connection)
        rows = connection.execute(_SETTINGS, [_CARRIED, _CARRIED_TOO, _NOT_CARRIED]).fetchall()
        checksums, segment, checkpoint_s, data_bytes, sessions, working = connection.execute(_NOW).fetchall()[0]
        spaces = connection.execute(
            "SELECT spcname, oid, pg_tablespace_location(oid) FROM pg_tablespace"
            " WHERE pg_tablespace_location(oid) <> '' AND NOT starts_with(spcname, 'storagelab_') ORDER BY spcname"
        ).fetchall()
        data, programs = data_folder(connection), _programs(connection.info.backend_pid)
    places = {} if data is None else {"data": data, "log": Path(os.path.realpath(data / "pg_wal"))}
    for name, oid, location in spaces:
        plain = volume_name(name)
        merges = plain in ("data", "log", *places)
        places[f"{plain[:20]}-{oid}" if merges else plain] = Path(location)
    chosen = {name: _scalar(text) for name, text, yes, carried in rows if yes and carried}
    return RunningServer(
        title=f"PostgreSQL {facts.version}", places=places, here=facts.on_this_machine, data_bytes=data_bytes,
        settings={"data_checksums": checksums, "wal_segment_size": segment, **chosen},
        bin_dir=programs if facts.on_this_machine else None,
        asked=frozenset({name for name, _, _, carried in rows if carried} | {*MADE_WITH}),
        left_out=reasons(_REASONS, [name for name, _, yes, carried in rows if yes and not carried]),
        sessions=sessions, working=working, checkpoint_s=checkpoint_s,
    )  # fmt: skip


def _scalar(text: str) -> Scalar:
    return int(text) if text.isdecimal() else {"on": True, "off": False}.get(text, text)


def _programs(session_pid: int) -> Path | None:
    """The folder of the server's programs. Returns None if it can't be read.

    The parent of a session's process is the server's first process. Every user can read its command line. Only root and
    the server's user can read its `exe`, which is read if the command line has no full path.
    """
    with contextlib.suppress(OSError, IndexError):
        server = Path("/proc") / stat_fields(Path(f"/proc/{session_pid}"))[1]
        named = Path(read_text(server / "cmdline").partition("\0")[0])
        return named.parent if named.is_absolute() else (server / "exe").readlink().parent
    return None


_ROLE = "pg_monitor"
_OBJECTS = """
    SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, pg_relation_filepath(c.oid),
           (SELECT o.oid::int8 FROM pg_class o
            WHERE n.nspname = 'pg_toast' AND o.reltoastrelid = coalesce(x.indrelid, c.oid)),
           (SELECT sum(pg_relation_size(c.oid, fork)) FROM unnest(ARRAY['main', 'fsm', 'vm']) fork)::int8,
           c.relpersistence = 't'
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_index x ON x.indexrelid = c.oid
    WHERE c.relkind IN ('r', 'i', 'm', 't', 'S') AND pg_relation_filenode(c.oid) IS NOT NULL
    ORDER BY n.nspname = 'pg_toast'
"""
_FILE = re.compile(r"(?P<node>t?[0-9]+(?:_[0-9]+)?)(?P<fork>_fsm|_vm|_init)?(?:\.(?P<part>[0-9]+))?")
_PART_BYTES = 1 << 30
"""PostgreSQL divides files into parts of this size."""
_TABLESPACE = re.compile(r"pg_tblspc/[0-9]+/[^/]+/")
_OWN_FOLDERS = ("data", LOG, TEMPORARY)
_KINDS = {"r": "table", "m": "table", "S": "other", "i": "index", "t": "toast"}
_BY = {
    "checkpointer": "checkpoint", "background writer": "background", "walwriter": "log", "walsender": "background",
    "autovacuum": "background", "archiver": "background", "startup": "background", "logical replication": "background",
    "io worker": "session",
}  # fmt: skip
"""The kind of a process, by the start of its title. Any other process is a session. I/O workers count as sessions,
because they read for sessions.
"""
_WORKING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
      AND (state = 'active' OR state_change > clock_timestamp() - interval '0.1 s')
"""
_VIEWS = ("pg_class", "pg_stat_activity", "pg_stat_database", "pg_statio_all_tables", "pg_statio_all_indexes")


class WatchedPostgres:
    """Implements `capture.folder.Watched`."""

    engine: str = "postgres"
    threads: tuple[str, ...] = ("postgres",)

    def __init__(self, target: TargetConfig) -> None:
        """Raises PreflightError if the server can't be reached, or if the login may not read its counters."""
        self._target, self._own = target, 0
        self._connection = connect(target)
        facts = read_facts(self._connection)
        self.version, self._major = facts.version, facts.major
        if not (facts.superuser or self._rows("SELECT pg_has_role('pg_monitor', 'USAGE')")[0][0]):
            self.close()
            raise PreflightError(
                f"the login lacks the role {_ROLE}, which is needed to read the server's I/O counters",
                key=key_of(target), hint=f"as an administrator: GRANT {_ROLE} TO ...",
            )  # fmt: skip
        data, timed, database, method, self._block = self._rows(
            "SELECT current_setting('data_directory'), current_setting('track_io_timing'), current_database(),"
            " current_setting('io_method', true), current_setting('block_size')::int"
        )[0]
        self._data, self._database = Path(data), str(database)
        self._postmaster = _postmaster(self._data) if facts.on_this_machine else None
        self.local = self._postmaster is not None
        self.notes: list[str] = (
            [] if timed == "on" else ["track_io_timing is off: the times of reads and writes are missing."]
        )
        if method == "worker":
            self.notes.append(
                "io_method is worker: all reads by I/O workers count as reads by sessions, even reads for autovacuum."
            )
        self._has_pg_stat_wal = 14 <= self._major < 18
        self.views: tuple[str, ...] = (*_VIEWS, "pg_stat_io" if self._major >= 16 else "pg_stat_bgwriter")
        self.views += ("pg_stat_wal",) if self._has_pg_stat_wal else ()
        self._labels: dict[int, str] = {}
        """The label of each table or index, by its OID. A renamed object keeps its OID. A new object has a new OID."""
        self._owners: dict[str, int] = {}
        self._by_path: dict[str, Thing] = {}
        self._leads: list[tuple[str, str]] = []
        self._databases: dict[str, str] = {}
        self._known_threads: dict[int, str] = {}
        self.things()

    def _rows(self, statement: Any) -> list[Any]:
        self._own += 1
        try:
            return self._connection.execute(statement).fetchall()
        except psycopg.errors.InsufficientPrivilege as error:
            raise PreflightError(
                f"the login may not read a view or function of the server: {words_of(error)}",
                key=key_of(self._target),
                hint=f"as an administrator: GRANT {_ROLE} TO ..., or GRANT SELECT ON (the named view) TO ...",
            ) from error
        except psycopg.OperationalError as error:
            if not self._connection.broken:
                raise
            raise ServerGone(f"the server is gone: {words_of(error)}") from error

    # --- objects and files -------------------------------------------------------------------------------------------

    def folders(self) -> Mapping[str, Path]:
        rows = self._rows("SELECT spcname, oid::int8 FROM pg_tablespace")
        names = {str(oid): f"{name}-{oid}" if name in _OWN_FOLDERS else str(name) for name, oid in rows}
        spaces = {names[oid]: self._at(f"pg_tblspc/{oid}") for oid in self._spaces() if oid in names}
        return {"data": self._at(""), "log": self._at("pg_wal"), **dict(sorted(spaces.items()))}

    def _spaces(self) -> list[str]:
        """The OIDs of tablespaces. Each is the name of a link in `pg_tblspc`."""
        try:
            return os.listdir(self._at("pg_tblspc")) if self.local else []
        except OSError:
            return []

    def _at(self, path: str) -> Path:
        """A path below the data folder, without symbolic links."""
        return Path(os.path.realpath(self._data / path))

    def _links(self) -> list[tuple[str, str]]:
        """For the data folder and each link in it: the path without symbolic links, and the path in the data folder."""
        inside = ["pg_wal", *(f"pg_tblspc/{oid}" for oid in self._spaces()), ""]
        return [(f"{self._at(path)}/", path) for path in inside]

    def things(self) -> dict[str, Thing]:
        self._databases = {str(oid): name for oid, name in self._rows("SELECT oid::int8, datname FROM pg_database")}
        found: dict[str, Thing] = {}
        self._by_path, self._leads = {}, self._links()
        for oid, schema, name, kind, path, owner, size, temporary in self._rows(_OBJECTS):
            if path is None:  # the table or index has just been dropped
                continue
            folder = self._folder_of(path)
            if temporary:
                thing = Thing(TEMPORARY, None, "temporary tables and files", "temporary", folder)
            elif schema == "pg_toast":
                if owner not in self._labels:
                    continue
                thing = Thing(self._labels[owner] + TOAST, schema, name, "toast", folder, size, path)
            else:
                thing = Thing(self._label(oid, schema, name), schema, name, _KINDS[kind], folder, size, path)
            self._by_path[path] = thing
            if known := found.get(thing.id):  # a toast table and its index belong to the table
                thing = known._replace(bytes=(known.bytes or 0) + (size or 0), files=known.files + path)
            found[thing.id] = thing
        return found

    def _label(self, oid: int, schema: str, name: str) -> str:
        if oid not in self._labels:
            label = label_of(schema, name)
            self._labels[oid] = label if self._owners.setdefault(label, oid) == oid else f"{label}#{oid}"
        return self._labels[oid]

    def _folder_of(self, inside: str) -> Path:
        return self._at("/".join(inside.split("/")[:2]) if inside.startswith("pg_tblspc/") else "")

    def thing_of(self, path: str) -> Thing | None:
        inside = self._inside(path.removesuffix(" (deleted)"))
        if inside is None:
            return None
        if inside.startswith("pg_wal/"):
            return Thing(LOG, None, "write-ahead log", "log", self._at("pg_wal"))
        place = self._folder_of(inside)
        parts = _TABLESPACE.sub("base/", inside).split("/")
        if "pgsql_tmp" in parts or (parts[0] == "base" and parts[-1].startswith("t")):
            return Thing(TEMPORARY, None, "temporary tables and files", "temporary", place)
        node = _FILE.fullmatch(parts[-1])
        if parts[0] not in ("base", "global") or node is None:
            return Thing(OTHER_FILES, None, "transaction status and other files of the server", "other", place)
        if (thing := self._by_path.get(inside.rpartition("/")[0] + "/" + node["node"])) is not None:
            return thing
        name = self._databases.get(parts[1]) if parts[0] == "base" and len(parts) == 3 else None
        if name not in (None, self._database):
            return Thing(f"database {name}", None, name or "", "other", place)
        return None

    def place_in(self, path: str) -> tuple[str, int]:
        node = _FILE.fullmatch(path.removesuffix(" (deleted)").rpartition("/")[2])
        if node is None or not node["node"].isdigit():
            return "", 0
        return node["fork"] or "", int(node["part"] or 0) * _PART_BYTES

    def _inside(self, path: str) -> str | None:
        """The server's name of a file: its path below the data folder. Returns None if the file is not the server's."""
        for whole, inside in self._leads:
            if path.startswith(whole):
                return f"{inside}/{path[len(whole) :]}" if inside else path[len(whole) :]
        return None

    # --- processes ---------------------------------------------------------------------------------------------------

    def has(self, thread: int) -> bool:
        fields = stat_fields(Path(f"/proc/{thread}"))
        return self._postmaster in (thread, int(fields[1])) if fields else thread in self._known_threads

    def by(self, thread: int) -> str:
        if thread not in self._known_threads:
            title = read_text(Path(f"/proc/{thread}/cmdline"))
            if not title:
                return "session"  # the process has ended; other kinds of processes do not end so soon
            kinds = (by for words, by in _BY.items() if f": {words}" in title)
            self._known_threads[thread] = next(kinds, "session")
        return self._known_threads[thread]

    def processes(self) -> list[int]:
        if self._postmaster is None:
            return []
        children = read_text(Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children"))
        return [self._postmaster, *map(int, children.split())]

    # --- counters ----------------------------------------------------------------------------------------------------

    def counters(self, *, objects: bool) -> Counters:
        # The sessions' commits appear in these counters up to a second late.
        commits, temporary_bytes, numbered = self._rows(
            "SELECT sum(xact_commit)::int8, sum(temp_bytes)::int8, txid_snapshot_xmax(txid_current_snapshot())"
            " FROM pg_stat_database"
        )[0]
        working = self._rows(_WORKING)[0][0]
        counts: dict[CountKey, Count] = {}
        times: dict[CountKey, tuple[int, float]] = {}
        for key, count in self._io():
            counts[key] = counts.get(key, NOTHING).plus(count)
            if count.seconds is not None and count.requests is not None:
                kind = (LOG if key[0] == LOG else "data", key[1], key[2])
                requests, seconds = times.get(kind, (0, 0.0))
                times[kind] = requests + count.requests, seconds + count.seconds
        if temporary_bytes:
            counts[TEMPORARY, "write", "session"] = Count(None, temporary_bytes)
        if objects:
            counts |= dict(self._reads())
        return Counters(counts, int(commits) - self._own, int(working), times, int(numbered))

    def _reads(self) -> Iterator[tuple[CountKey, Count]]:
        """The number of blocks read from each table and index. Each block is counted as a request, although PostgreSQL
        may read several blocks in one request.
        """
        rows = self._rows(
            """
            SELECT relid::int8, schemaname, relname, '', coalesce(heap_blks_read, 0) FROM pg_statio_all_tables
            UNION ALL SELECT indexrelid::int8, schemaname, indexrelname, '', coalesce(idx_blks_read, 0)
                      FROM pg_statio_all_indexes
            UNION ALL SELECT relid::int8, schemaname, relname, ' toast',
                             coalesce(toast_blks_read, 0) + coalesce(tidx_blks_read, 0) FROM pg_statio_all_tables
            """
        )
        for oid, schema, name, part, blocks in rows:
            if blocks and schema != "pg_toast":
                label = self._label(oid, schema, name) + part
                yield (label, "read", "session"), Count(int(blocks), int(blocks) * self._block)

    def _io(self) -> Iterator[tuple[CountKey, Count]]:
        """The server's counts for each kind of process: for all data files together, and for the log."""
        if self._major >= 16:
            yield from self._pg_stat_io()
        else:
            buffers = self._rows("SELECT buffers_checkpoint, buffers_clean, buffers_backend FROM pg_stat_bgwriter")[0]
            for by, count in zip(("checkpoint", "background", "session"), map(int, buffers), strict=True):
                yield (ALL_TABLES, "write", by), Count(count, count * self._block)
        if self._has_pg_stat_wal:
            writes, size, write_ms, syncs, sync_ms, timed = self._rows(
                "SELECT wal_write, wal_bytes::int8, wal_write_time, wal_sync, wal_sync_time,"
                " current_setting('track_wal_io_timing') = 'on' FROM pg_stat_wal"
            )[0]
            yield (LOG, "write", "session"), Count(writes, size, write_ms / 1e3 if timed else None)
            yield (LOG, "sync", "session"), Count(syncs, 0, sync_ms / 1e3 if timed else None)

    def _pg_stat_io(self) -> Iterator[tuple[CountKey, Count]]:
        if self._major >= 18:
            sizes = "coalesce(read_bytes, 0)::int8, coalesce(write_bytes, 0)::int8 + coalesce(extend_bytes, 0)::int8"
            timed = "current_setting(CASE object WHEN 'wal' THEN 'track_wal_io_timing' ELSE 'track_io_timing' END)"
        else:
            sizes = (
                "(coalesce(reads, 0) * op_bytes)::int8, ((coalesce(writes, 0) + coalesce(extends, 0)) * op_bytes)::int8"
            )
            timed = "current_setting('track_io_timing')"
        rows = self._rows(
            "SELECT backend_type, object, coalesce(reads, 0), coalesce(writes, 0) + coalesce(extends, 0), "
            f"coalesce(fsyncs, 0), {sizes}, coalesce(read_time, 0), coalesce(write_time, 0) + coalesce(extend_time, "
            f"0), coalesce(fsync_time, 0), {timed} = 'on' FROM pg_stat_io"
        )
        things = {"relation": ALL_TABLES, "temp relation": TEMPORARY, "wal": LOG}
        for kind, what, reads, writes, syncs, read_bytes, write_bytes, read_ms, write_ms, sync_ms, is_timed in rows:
            by = next((by for words, by in _BY.items() if str(kind).startswith(words)), "session")
            thing = things.get(what, OTHER_FILES)
            for operation, requests, size, ms in (
                ("read", reads, read_bytes, read_ms), ("write", writes, write_bytes, write_ms),
                ("sync", syncs, 0, sync_ms),
            ):  # fmt: skip
                if requests:
                    yield (thing, operation, by), Count(int(requests), int(size), ms / 1e3 if is_timed else None)

    def close(self) -> None:
        self._connection.close()


def _postmaster(data: Path) -> int | None:
    """The id of the server's first process. Returns None if it is not on this machine or this user may not see its
    folder.
    """
    for process in Path("/proc").glob("[0-9]*"):
        name, fields = read_text(process / "comm"), stat_fields(process)
        with contextlib.suppress(OSError):
            is_server = name in ("postgres", "postmaster") and os.path.samefile(process / "cwd", data)
            if is_server and fields and read_text(Path(f"/proc/{fields[1]}/comm")) != name:
                return int(process.name)
    return None


watched = WatchedPostgres
