"""PostgreSQL as an engine: its part of a run, its part of the contract suite, and its `ENGINE` for `run.engine`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from storagelab.engines.postgres import connect as db
from storagelab.engines.postgres.capture import found, watched
from storagelab.engines.postgres.layout import (
    FromTemplateDatabase,
    Layout,
    TemplateDatabase,
    make_database,
    moving,
    needs_database,
)
from storagelab.engines.postgres.preflight import check, durability, read_facts
from storagelab.engines.postgres.sampler import Sampler
from storagelab.engines.postgres.server import STARTER, privilege, stop_orphan
from storagelab.machine.disks import parse_mounts
from storagelab.machine.doctor import Ability, ability
from storagelab.machine.rights import unprivileged
from storagelab.model.config import Config, TargetConfig
from storagelab.model.plan import wants_template
from storagelab.model.values import Scalar
from storagelab.run.engine import Engine
from storagelab.run.one_run import OneRun
from storagelab.servers import places
from storagelab.servers.attached import Decoys, dropping_leftovers
from storagelab.servers.interfaces import OUTSIDE_ERRORS, Columns, Sessions, System
from storagelab.stopping import uninterrupted
from storagelab.volumes.folders import Site
from storagelab.watching.counters import Counters, counting

# --- system ----------------------------------------------------------------------------------------------------------
#
# What PostgreSQL adds to the steps of a run. All engines share these steps.


class Postgres(System[db.Connection]):
    """PostgreSQL's own part of a cell's run.

    If the cell has a template, the run's database is copied from the database `kept`.
    """

    name, starter = "postgres", STARTER
    private_reach, attached_reach = db.PrivateReach, db.AttachedReach
    foreign_errors = (psycopg.Error, *OUTSIDE_ERRORS)
    mounts_from = "/proc/self/mountinfo by pg_read_file"
    log_tells_of_sessions = True
    layout: Any

    def __init__(self, config: Config, site: Site, kept: TemplateDatabase | None = None) -> None:
        super().__init__(config, site)
        self._kept, self._database = kept, ""
        folders, spaces = (self.folders, None) if kept is None else (kept.folders, kept.prefix)
        self.layout = places.tables_of(config)(config, site.prefix, folders, spaces)

    def reach_attached(self) -> db.AttachedReach:
        reach = db.AttachedReach(self.config, self.site, facts=self.facts)
        reach.database = self._database
        return reach

    def meet(self) -> None:
        with db.connect(self.config.target) as connection:
            self.facts = read_facts(connection)
            self.layout.drop(connection, templates=False)
            if needs_database(self.config) and not (self._kept is not None and self._kept.exists(connection)):
                make_database(connection, self.site.prefix)
                self._database = self.site.prefix

    def drop(self) -> None:
        with db.connect(self.config.target) as connection:
            self.layout.drop(connection, templates=False)
            if self._kept is not None:
                self._kept.remove_unfinished(connection)

    def message_of(self, error: BaseException) -> str:
        return str(error).strip() or type(error).__name__

    def is_away(self, error: BaseException) -> bool:
        return "the database system is" in str(error)

    # --- asked of the server -----------------------------------------------------------------------------------------

    def facts_of(self, connection: db.Connection) -> dict[str, object]:
        return server_facts(connection)

    def data_folder(self, connection: db.Connection) -> Path | None:
        """The data folder of a server on this machine. Returns None if the login or this user may not read its path."""
        folder = db.data_folder(connection)
        with contextlib.suppress(OSError):
            return folder if folder is not None and folder.is_dir() else None
        return None

    def mounts(self, connection: db.Connection) -> list[places.Mount]:
        """The file systems of the server's machine.

        The list is empty if the machine does not run Linux or if this login may not read the machine's files.
        """
        try:
            text = str(db.value(connection, "SELECT pg_read_file('/proc/self/mountinfo', 0, 16777216)") or "")
        except psycopg.Error:
            return []
        return [places.Mount(found.mount_point, found.source, found.filesystem) for found in parse_mounts(text)]

    def time_s(self, connection: db.Connection) -> float:
        return float(db.value(connection, "SELECT extract(epoch FROM clock_timestamp())::float8"))

    def page_bytes(self, connection: db.Connection) -> int:
        return db.page_bytes(connection)

    def write_out(self, connection: db.Connection) -> None:
        connection.execute("CHECKPOINT")

    # --- watched -----------------------------------------------------------------------------------------------------

    def sampler(
        self, own: db.Connection, reach: db.PostgresReach, sessions: Sessions[db.Connection], columns: Columns
    ) -> Sampler:
        return Sampler(
            lambda: reach.connect("storagelab sampler"), sessions.ids, self.config.measure,
            kernel_view=reach.kernel_view, relations=self.layout.relations(own), probe=columns,
            of_generator=self.config.generated, in_turns=sessions.in_turns,
        )  # fmt: skip

    def count(
        self, own: db.Connection, reach: db.PostgresReach, sessions: Sessions[db.Connection]
    ) -> Callable[[], Counters]:
        return counting(lambda: read_counters(own, own.info.server_version // 10_000))


def opened(config: Config, site: Site) -> OneRun[db.Connection]:
    """The run of a cell."""
    if not (config.target.attached and wants_template(config)):
        return OneRun(Postgres(config, site))
    kept = TemplateDatabase(config, site)
    system = Postgres(config, site, kept)
    return OneRun(system, FromTemplateDatabase(system, kept))


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """Drops what a killed run left on an attached server, and returns the dropped names.

    Raises PreflightError if this fails.
    """
    left = dropping_leftovers(config.target, psycopg.Error, db.words_of, f"the schema {site.prefix}")
    with db.connect(config.target) as connection, left:
        return Layout(config, site.prefix, None).drop(connection)


def abilities() -> tuple[Ability, ...]:
    """Whether this machine has the programs, and whether it can run them without root's rights. PostgreSQL refuses to
    run as root.
    """
    return (STARTER.ability(), ability("running it without root's rights", unprivileged, lambda found: found.how))


# --- read back -------------------------------------------------------------------------------------------------------
# The server's version, settings and counters, as the server reports them.


_ALWAYS_SHOWN = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size", "wal_level",
    "wal_compression", "io_method", "checkpoint_timeout", "data_checksums", "block_size", "autovacuum",
)  # fmt: skip
_NEVER_SHOWN = (
    # The operator may have written secrets into these commands and names.
    "primary_conninfo", "primary_slot_name", "ssl_passphrase_command", "archive_command", "archive_cleanup_command",
    "restore_command", "recovery_end_command", "cluster_name", "application_name", "synchronous_standby_names",
    "event_source", "bonjour_name", "recovery_target_name", "log_line_prefix", "krb_server_keyfile",
    "unix_socket_directories",  # differs in each run, but does not matter
)  # fmt: skip


def server_facts(connection: db.Connection) -> dict[str, object]:
    """The server's version, each setting that differs from its built-in default, and the durability settings."""
    rows = connection.execute(
        """
        SELECT name, current_setting(name) FROM pg_settings
        WHERE (setting IS DISTINCT FROM boot_val OR name = ANY(%s)) AND NOT name = ANY(%s) AND strpos(name, '.') = 0
          AND category !~ 'File Locations' ORDER BY name
        """,
        [list(_ALWAYS_SHOWN), list(_NEVER_SHOWN)],
    ).fetchall()
    version = db.value(connection, "SELECT current_setting('server_version')")
    return {"version": version, "version_text": db.value(connection, "SELECT version()"), "settings": dict(rows)}


_CHECKPOINTER = {
    14: "SELECT 'checkpoints', to_jsonb(t) FROM pg_stat_bgwriter t",
    17: "SELECT 'checkpoints', to_jsonb(t) FROM pg_stat_checkpointer t",
}
_IO = {
    16: "SELECT 'io ' || backend_type || '/' || object || '/' || context, "
    "to_jsonb(t) - '{backend_type,object,context,op_bytes}'::text[] FROM pg_stat_io t"
}
_EVERY_VERSION = (
    "SELECT 'wal', to_jsonb(t) FROM pg_stat_wal t",
    "SELECT 'database', to_jsonb(t) - '{datid,numbackends}'::text[] FROM pg_stat_database t "
    "WHERE datname = current_database()",
)


def read_counters(connection: db.Connection, major: int) -> Counters:
    """Cumulative counters, `group -> name -> value`.

    They are from pg_stat_io (PostgreSQL 16 and later), pg_stat_wal, pg_stat_database and the checkpointer's view. Times
    are in milliseconds, with the names `*_time_ms`.
    """
    groups: Counters = {}
    for statement in (*_EVERY_VERSION, *db.newest(_CHECKPOINTER, major), *db.newest(_IO, major)):
        for group, fields in connection.execute(statement).fetchall():
            groups[group] = {
                (f"{name}_ms" if name.endswith("_time") else name): float(value)
                for name, value in fields.items()
                if isinstance(value, int | float) and not isinstance(value, bool)
            }
    return groups


# --- probe -----------------------------------------------------------------------------------------------------------
# For the contract suite: lists the objects on a PostgreSQL server, and makes objects that block storagelab.


_INVENTORY = """
SELECT 'schema ' || nspname || ' (' || oid || ')' FROM pg_namespace
WHERE nspname !~ '^pg_(toast|temp)' AND nspname NOT IN ('pg_catalog', 'information_schema')
UNION ALL
SELECT 'tablespace ' || spcname || ' (' || oid || ')' FROM pg_tablespace
UNION ALL
SELECT 'database ' || datname || ' (' || oid || ')' FROM pg_database
UNION ALL
SELECT 'relation ' || n.nspname || '.' || c.relname || ' (' || c.oid || ', ' || c.relfilenode || ')'
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname !~ '^pg_(toast|temp)' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"""
_MAKE_DECOYS = """
CREATE TABLE public.pgbench_branches AS SELECT 1 AS bid, 0 AS bbalance, '' AS filler;
CREATE TABLE public.pgbench_tellers AS SELECT 1 AS tid, 1 AS bid, 0 AS tbalance, '' AS filler;
CREATE TABLE public.pgbench_accounts AS SELECT 1 AS aid, 1 AS bid, 0 AS abalance, '' AS filler;
CREATE TABLE public.pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler text)"""
_READ_DECOYS = " UNION ALL ".join(
    f"SELECT tableoid, ctid::text, xmin::text FROM public.pgbench_{name}"
    for name in ("branches", "tellers", "accounts", "history")
)


class PostgresProbe:
    """Implements `contract.probes.Probe`. Each relation is listed with its file, so a rewritten relation is noticed."""

    setting: tuple[str, Scalar] = ("work_mem", "5MB")

    def inventory(self, target: TargetConfig) -> frozenset[str]:
        return frozenset(name for (name,) in self._asked(target, sql.SQL(_INVENTORY)))

    def obstruct(self, target: TargetConfig, name: str) -> None:
        self._asked(target, db.composed("CREATE SCHEMA {}", name))

    def clear(self, target: TargetConfig, name: str) -> None:
        # There is no CASCADE, because others may have put objects into the schema, which was made empty.
        self._asked(target, db.composed("DROP SCHEMA IF EXISTS {}", name))

    @contextlib.contextmanager
    def decoys(self, target: TargetConfig, name: str) -> Iterator[Decoys]:
        inside = TargetConfig(engine="postgres", dsn=make_conninfo(db.conninfo(target), dbname=name))
        self._asked(target, db.composed("CREATE DATABASE {} TEMPLATE template0", name))
        try:
            self._asked(inside, sql.SQL(_MAKE_DECOYS))
            yield inside, {"kind": "pgbench"}, lambda: self._asked(inside, sql.SQL(_READ_DECOYS))
        finally:
            with uninterrupted():
                self._asked(target, db.composed("DROP DATABASE IF EXISTS {} WITH (FORCE)", name))

    def _asked(self, target: TargetConfig, statement: sql.SQL | sql.Composed) -> list[Any]:
        with db.connected(target) as connection:
            asked = connection.execute(statement)
            return asked.fetchall() if asked.description else []


ENGINE = Engine(
    check=check, open=opened, kinds=STARTER.kinds, stop_orphan=stop_orphan, drop_leftovers=drop_leftovers,
    abilities=abilities, durability=durability, privilege=privilege, probe=PostgresProbe, found=found, watched=watched,
    moving=moving,
)  # fmt: skip
