"""A running PostgreSQL that is only looked at: as a start for a spec, and for a capture."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg

from storagelab.capture.server import (
    ALL_TABLES,
    LOG,
    OTHER_FILES,
    TEMPORARY,
    Count,
    Counters,
    CountKey,
    ServerGone,
    Thing,
    label_of,
)
from storagelab.engines.postgres.connect import Connection, connect, value, words_of
from storagelab.engines.postgres.preflight import read_facts
from storagelab.errors import PreflightError
from storagelab.machine.disks import read_text
from storagelab.model.config import TargetConfig
from storagelab.model.values import Scalar
from storagelab.servers.attached import key_of, quoting
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
    with connect(target) as connection, quoting(target, psycopg.Error, words_of):
        facts = read_facts(connection)
        rows = connection.execute(
            "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)"
            " AND source NOT IN ('default', 'override', 'client', 'session') ORDER BY name",
            [_OF_STORAGE],
        ).fetchall()
        spaces = connection.execute(
            "SELECT spcname, pg_tablespace_location(oid) FROM pg_tablespace"
            " WHERE pg_tablespace_location(oid) <> '' AND NOT starts_with(spcname, 'storagelab_') ORDER BY spcname"
        ).fetchall()
        data_bytes = int(value(connection, "SELECT sum(pg_database_size(oid))::bigint FROM pg_database"))
        data = _data_directory(connection)
    places = {} if data is None else {"data": data, "log": Path(os.path.realpath(data / "pg_wal"))}
    return Found(
        title=f"PostgreSQL {facts.version}",
        settings={name: _value(text) for name, text in rows},
        places={**places, **{volume_name(name): Path(location) for name, location in spaces}},
        here=facts.on_this_machine,
        data_bytes=data_bytes,
        bin_dir=_programs(data) if facts.on_this_machine else None,
    )


def _data_directory(connection: Connection) -> Path | None:
    """The server's data folder; None if this login may not know it."""
    try:
        return Path(value(connection, "SELECT current_setting('data_directory')"))
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
"""PostgreSQL cuts files into parts of this size."""


_TABLESPACE = re.compile(r"pg_tblspc/[0-9]+/[^/]+/")


_OWN_FOLDERS = ("data", LOG, TEMPORARY)


_KINDS = {"r": "table", "m": "table", "S": "other", "i": "index", "t": "toast"}


_BY = {
    "checkpointer": "checkpoint", "background writer": "background", "walwriter": "log", "walsender": "background",
    "autovacuum": "background", "archiver": "background", "startup": "background", "logical replication": "background",
    "io worker": "session",
}  # fmt: skip
"""What a process does, by how its title begins; any other is a session. I/O workers read what sessions ask for."""


_WORKING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
      AND (state = 'active' OR state_change > clock_timestamp() - interval '0.1 s')
"""


class WatchedPostgres:
    engine: str = "postgres"
    threads: tuple[str, ...] = ("postgres",)
    notes: list[str]
    views: tuple[str, ...]

    def __init__(self, target: TargetConfig) -> None:
        """Raises PreflightError if the server can't be reached, or if the login may not read its counters."""
        self._target, self._own = target, 0
        self._connection = connect(target)
        facts = read_facts(self._connection)
        self.version, self._major = facts.version, facts.major
        if not (facts.superuser or self._rows("SELECT pg_has_role('pg_monitor', 'USAGE')")[0][0]):
            self.close()
            raise PreflightError(
                f"the login lacks the role {_ROLE}, needed to read what the server reads and writes",
                key=key_of(target), hint=f"as an administrator: GRANT {_ROLE} TO ...",
            )  # fmt: skip
        data, timed, database = self._rows(
            "SELECT current_setting('data_directory'), current_setting('track_io_timing'), current_database()"
        )[0]
        self._data, self._database = Path(data), str(database)
        self._postmaster = _postmaster(self._data) if facts.on_this_machine else None
        self.local = self._postmaster is not None
        self.notes = []
        if timed != "on":
            self.notes.append("track_io_timing is off: the times of reads and writes are missing.")
        if self._rows("SELECT current_setting('io_method', true)")[0][0] == "worker":
            self.notes.append(
                "io_method is worker: reads by I/O workers count as reads by sessions, also those "
                "that autovacuum asked for."
            )
        self.views = tuple(self._views())
        self._labels: dict[int, str] = {}
        """By the OID of a table or index: a renamed one keeps it, and one that takes its name gets another."""
        self._owners: dict[str, int] = {}
        self._by_path: dict[str, Thing] = {}
        self._leads: list[tuple[str, str]] = []
        self._databases: dict[str, str] = {}
        self._known_threads: dict[int, str] = {}
        self.things()

    def _views(self) -> Iterator[str]:
        yield from ("pg_class", "pg_stat_activity", "pg_stat_database", "pg_statio_all_tables", "pg_statio_all_indexes")
        yield "pg_stat_io" if self._major >= 16 else "pg_stat_bgwriter"
        if 14 <= self._major < 18:
            yield "pg_stat_wal"

    def _rows(self, statement: Any) -> list[Any]:
        self._own += 1
        try:
            return self._connection.execute(statement).fetchall()
        except psycopg.errors.InsufficientPrivilege as error:
            raise PreflightError(
                f"the login may not read what the server shows: {words_of(error)}",
                key=key_of(self._target),
                hint=f"as an administrator: GRANT {_ROLE} TO ..., or GRANT SELECT ON what it may not read TO ...",
            ) from error
        except psycopg.OperationalError as error:
            if not self._connection.broken:
                raise
            raise ServerGone(f"the server is gone: {words_of(error)}") from error

    # --- objects and files -------------------------------------------------------------------------------------------

    def folders(self) -> Mapping[str, Path]:
        rows = self._rows("SELECT spcname, oid::int8 FROM pg_tablespace")
        names = {str(oid): f"{name}-{oid}" if name in _OWN_FOLDERS else str(name) for name, oid in rows}
        spaces = {
            names[entry.name]: self._at(f"pg_tblspc/{entry.name}") for entry in self._spaces() if entry.name in names
        }
        return {"data": self._at(""), "log": self._at("pg_wal"), **dict(sorted(spaces.items()))}

    def _spaces(self) -> list[os.DirEntry[str]]:
        return _listed(self._at("pg_tblspc")) if self.local else []

    def _at(self, path: str) -> Path:
        """A path below the data folder; links of the server's are followed."""
        return Path(os.path.realpath(self._data / path))

    def _links(self) -> list[tuple[str, str]]:
        """(folder as the kernel names it, folder as the server names it) of all that leads out of the data folder."""
        inside = ["pg_wal", *(f"pg_tblspc/{entry.name}" for entry in self._spaces()), ""]
        return [(f"{self._at(path)}/", path) for path in inside]

    def things(self) -> dict[str, Thing]:
        self._databases = {
            str(oid): str(name) for oid, name in self._rows("SELECT oid::int8, datname FROM pg_database")
        }
        found: dict[str, Thing] = {}
        self._by_path, self._leads = {}, self._links()
        for oid, schema, name, kind, path, owner, size, temporary in self._rows(_OBJECTS):
            if path is None:  # dropped at this moment
                continue
            folder = self._folder_of(path)
            if temporary:
                thing = Thing(TEMPORARY, None, "temporary tables and files", "temporary", folder)
            elif schema == "pg_toast":
                if owner not in self._labels:
                    continue
                thing = Thing(f"{self._labels[owner]} toast", schema, name, "toast", folder, size, path)
            else:
                thing = Thing(self._label(oid, schema, name), schema, name, _KINDS[kind], folder, size, path)
            self._by_path[path] = thing
            known = found.get(thing.id)  # a toast table and its index are one object
            merged = (
                known._replace(bytes=(known.bytes or 0) + (size or 0), files=known.files + path) if known else thing
            )
            found[thing.id] = merged
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
        """The path below the data folder, as the server names it; None if it is not the server's."""
        for whole, inside in self._leads:
            if path.startswith(whole):
                return f"{inside}/{path[len(whole) :]}" if inside else path[len(whole) :]
        return None

    # --- processes ---------------------------------------------------------------------------------------------------

    def has(self, thread: int) -> bool:
        try:
            parent = Path(f"/proc/{thread}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()[1]
        except OSError:
            return thread in self._known_threads
        return self._postmaster in (thread, int(parent))

    def by(self, thread: int) -> str:
        known = self._known_threads.get(thread)
        if known is None:
            try:
                title = Path(f"/proc/{thread}/cmdline").read_bytes().decode(errors="replace")
            except OSError:
                return "session"  # it has ended: no other kind of process ends so soon
            kinds = [by for words, by in _BY.items() if f": {words}" in title]
            known = self._known_threads[thread] = kinds[0] if kinds else "session"
        return known

    def processes(self) -> list[int]:
        if self._postmaster is None:
            return []
        children = read_text(Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children"))
        return [self._postmaster, *map(int, children.split())]

    # --- counters ----------------------------------------------------------------------------------------------------

    def counters(self, *, objects: bool) -> Counters:
        # Sessions tell their commits up to a second late.
        commits, temporary_bytes, numbered = self._rows(
            "SELECT sum(xact_commit)::int8, sum(temp_bytes)::int8, txid_snapshot_xmax(txid_current_snapshot())"
            " FROM pg_stat_database"
        )[0]
        working = self._rows(_WORKING)[0][0]
        counts: dict[CountKey, Count] = {}
        times: dict[CountKey, tuple[int, float]] = {}
        for key, count in self._io():
            counts[key] = _added(counts.get(key), count)
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
        """What was read of each table and index: blocks, which are requests unless PostgreSQL asks for several at
        once.
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
        block = int(self._rows("SELECT current_setting('block_size')::int")[0][0])
        for oid, schema, name, part, blocks in rows:
            if blocks and schema != "pg_toast":
                label = self._label(oid, schema, name) + part
                yield (label, "read", "session"), Count(int(blocks), int(blocks) * block)

    def _io(self) -> Iterator[tuple[CountKey, Count]]:
        """What the server counts by kind of process, of the data files together and of the log."""
        if self._major >= 16:
            yield from self._pg_stat_io()
        else:
            row = self._rows(
                "SELECT buffers_checkpoint, buffers_clean, buffers_backend, buffers_backend_fsync,"
                " current_setting('block_size')::int FROM pg_stat_bgwriter"
            )[0]
            block = row[4]
            for by, buffers in (("checkpoint", row[0]), ("background", row[1]), ("session", row[2])):
                yield (ALL_TABLES, "write", by), Count(int(buffers), int(buffers) * block)
        if 14 <= self._major < 18:
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


def _added(before: Count | None, count: Count) -> Count:
    if before is None:
        return count
    seconds = None if before.seconds is None or count.seconds is None else before.seconds + count.seconds
    return Count((before.requests or 0) + (count.requests or 0), before.bytes + count.bytes, seconds)


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _postmaster(data: Path) -> int | None:
    """The server's first process, if it is on this machine and this user may see its folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "comm").read_text("utf-8").strip()
            if name not in ("postgres", "postmaster"):
                continue
            if os.path.samefile(process / "cwd", data):
                parent = (process / "stat").read_text("utf-8").rpartition(")")[2].split()[1]
                if Path(f"/proc/{parent}/comm").read_text("utf-8").strip() != name:
                    return int(process.name)
        except (OSError, IndexError, ValueError):
            continue
    return None


def watched(target: TargetConfig) -> WatchedPostgres:
    """The server, for a capture. Raises PreflightError."""
    return WatchedPostgres(target)
