"""Connections to a PostgreSQL that already runs: its address, its refusals in plain words, and what it allows."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.pq import Conninfo

from storagelab.engines.postgres.settings import OLDEST_MAJOR
from storagelab.errors import PreflightError, RunFailed
from storagelab.model import prepared
from storagelab.model.config import Config, TargetConfig
from storagelab.model.values import Frozen
from storagelab.servers.attached import (
    OWNERSHIP,
    dsn_of,
    enough_connections,
    key_of,
    owner_of,
    process_age_s,
    require,
)
from storagelab.servers.places import Places, remote_name
from storagelab.servers.redact import hidden

Connection = psycopg.Connection[Any]
VARIABLES = "PG"
"""The prefix of environment variables that PostgreSQL's programs and its client library read."""
_ENVIRONMENT = threading.Lock()
_CONNECT_TIMEOUT_S = 10
_OWN_PORT = "give the server's own port, not a pooler's"
FOR_SET_UP = {
    "default_transaction_isolation": "read committed", "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off", "statement_timeout": "0", "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0", "idle_session_timeout": "0", "row_security": "off",
    "standard_conforming_strings": "on", "default_table_access_method": "heap", "check_function_bodies": "off",
}  # fmt: skip
"""What our own sessions, and programs that make and restore tables, rely on: a server, a database or a role may set
each of them to something else. The sessions of a load keep what is set for its role."""
_SINCE = {17: {"transaction_timeout": "0"}}
"""The same, by the first version that knows it; older ones refuse a login with a setting that they don't know."""
_OWN_SESSIONS = {
    "search_path": "pg_catalog", "default_tablespace": "", "datestyle": "ISO, MDY", "intervalstyle": "postgres",
    "bytea_output": "hex", "extra_float_digits": "1", "client_encoding": "UTF8", "quote_all_identifiers": "off",
    "array_nulls": "on",
}  # fmt: skip
"""What else our own sessions rely on, when they read and make things by their whole names."""


def conninfo(target: TargetConfig) -> str:
    """The connection string. Raises PreflightError when the environment variable that should hold it is not set."""
    return dsn_of(target, "postgresql://user:password@host/database")


def connect(target: TargetConfig) -> Connection:
    """A connection. Raises PreflightError with the server's words, never with the connection string, which may hold
    a password.
    """
    key, text = key_of(target), conninfo(target)
    try:
        return own_session(text, application_name="storagelab", connect_timeout=_CONNECT_TIMEOUT_S)
    except (psycopg.ProgrammingError, ValueError) as error:  # ValueError: bytes that are not text
        # libpq quotes the string it can't read, and a password may be in it.
        raise PreflightError(
            "it is not a connection string", key=key, hint="write postgresql://user@host:port/database"
        ) from error
    except psycopg.OperationalError as error:
        pooler = "unsupported startup parameter" in str(error)
        open_line = "no encryption" in str(error) or "SSL off" in str(error)
        raise PreflightError(
            f"can't connect{hidden(_to(text), target)}: {hidden(str(error).strip(), target)}",
            key=key,
            hint=f"a pooler answers there: {_OWN_PORT}"
            if pooler
            else "the server may demand TLS: leave sslmode out of the DSN, or write sslmode=require"
            if open_line
            else "check host, port, database, user and password, for example with psql",
        ) from error


def _to(conninfo: str) -> str:
    """Where a connection string leads, without its password."""
    known = {**os.environ, **{
        option.envvar.decode(): option.val.decode()
        for option in Conninfo.parse(conninfo.encode()) if option.envvar and option.val
    }}  # fmt: skip
    place = known.get("PGHOST") or known.get("PGHOSTADDR") or "the local socket"
    user = f" as {known['PGUSER']}" if known.get("PGUSER") else ""
    return f" to {place}, port {known.get('PGPORT', '5432')}{user}"


def connect_private(conninfo: str, **options: Any) -> Connection:
    """A connection to a private server that the environment can't influence. Raises psycopg.Error.

    A connection string alone can't ensure that: some variables are read before it and lead elsewhere (PGSERVICE),
    others are sent to the server in any case (PGTZ).
    """
    with without_variables():
        return psycopg.connect(conninfo, **options)


def own_session(conninfo: str, **more: Any) -> Connection:
    """A session of our own, without what the server, the database or the role set for it. Raises psycopg.Error.

    Its settings come with the login, so that they hold before the first query, which fails on a hot standby whose
    default is serializable; and so that no pooler keeps them in a session that others get next.
    """
    given = psycopg.conninfo.conninfo_to_dict(conninfo).get("options") or os.environ.get("PGOPTIONS", "")
    options = f"{given} {options_text({**FOR_SET_UP, **_OWN_SESSIONS})}"
    connection: Connection = psycopg.connect(conninfo, options=options, autocommit=True, **more)
    for name, text in since(connection.info.server_version // 10_000).items():
        connection.execute("SELECT set_config(%s, %s, false)", [name, text])
    return connection


def since(major: int) -> dict[str, str]:
    """What only later versions know of `FOR_SET_UP`."""
    return {name: text for first, settings in _SINCE.items() if major >= first for name, text in settings.items()}


def options_text(settings: Mapping[str, str]) -> str:
    """Settings as PGOPTIONS has them: words, which blanks separate."""
    return " ".join(f"-c {name}=" + re.sub(r"([\\ ])", r"\\\1", text) for name, text in settings.items())


def refuse_elsewhere(environment: Mapping[str, str], target: TargetConfig, schema: str) -> None:
    """Raises RunFailed unless a client program with these variables works in this schema of their database: a pooler
    may drop what they ask for, and names without a schema would then be those of somebody else's tables.
    """
    try:
        with without_variables(environment), psycopg.connect("", connect_timeout=_CONNECT_TIMEOUT_S) as connection:
            found = connection.execute("SELECT current_database(), current_schema()").fetchone()
    except psycopg.Error as error:
        raise RunFailed(f"the load's client can't log in: {hidden(words_of(error), target)}") from error
    wanted = environment.get("PGDATABASE", found[0] if found else ""), schema
    if found != wanted:
        raise RunFailed(
            f"the load's client would work in {'.'.join(map(str, found or ()))}, not in {'.'.join(wanted)}: something "
            f"between it and the server drops its options; {_OWN_PORT}"
        )


def check_direct(connection: Connection, target: TargetConfig) -> None:
    """Refuses a pooler, which shares the server's sessions, and so their settings, between its clients. Raises
    PreflightError.
    """
    pids = {connection.info.backend_pid, *(value(connection, "SELECT pg_backend_pid()") for _ in range(3))}
    if len(pids) > 1:
        raise PreflightError(
            "a pooler is between storagelab and the server: the process that answers is not "
            "the one that took the login",
            key=key_of(target), hint=_OWN_PORT,
        )  # fmt: skip


@contextlib.contextmanager
def without_variables(instead: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Removes PG* variables from this process's environment while the context lasts, and sets those of `instead`; other
    callers wait.
    """
    with _ENVIRONMENT:
        kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(VARIABLES)}
        os.environ.update({name: text for name, text in instead.items() if name.startswith(VARIABLES)})
        try:
            yield
        finally:
            for name in [name for name in os.environ if name.startswith(VARIABLES)]:
                del os.environ[name]
            os.environ.update(kept)


def value(connection: Connection, statement: LiteralString) -> Any:
    """The one value that a statement returns."""
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def words_of(error: BaseException) -> str:
    """The first line of the server's message, without details and hints."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


# --- attached --------------------------------------------------------------------------------------------------------
#
# A PostgreSQL that already runs: checks what it allows before anything is made on it.


class ServerFacts(Frozen):
    """What an attached server is and what its login may do. `process_owner` is the (uid, gid) it runs as. It is None
    if the server does not run on this machine (or this is not Linux): then the kernel can't be asked about its
    sessions.
    """

    version: str
    major: int
    superuser: bool
    may_create: bool
    may_make_database: bool
    may_checkpoint: bool
    max_connections: int  # for this login: some are reserved for superusers
    open_connections: int
    buffers_bytes: int
    direct: bool  # its data files bypass the kernel's page cache
    locks: int  # that its lock table surely has room for
    standby: bool  # it follows another server, and takes no writes
    set_for_load: tuple[str, ...]  # "name=value" that its database or role sets
    process_owner: tuple[int, int] | None
    setting_contexts: dict[str, str]

    @property
    def on_this_machine(self) -> bool:
        return self.process_owner is not None


def read_facts(connection: Connection) -> ServerFacts:
    """Ask the server what it is and what this login may do."""
    row = connection.execute(
        """
        SELECT current_setting('server_version'), current_setting('server_version_num')::int / 10000,
               rolsuper, has_database_privilege(current_database(), 'CREATE'), rolsuper OR rolcreatedb,
               current_setting('max_connections')::int
               - CASE WHEN rolsuper THEN 0 ELSE current_setting('superuser_reserved_connections')::int
                      + coalesce(current_setting('reserved_connections', true), '0')::int END,
               2 * current_setting('max_locks_per_transaction')::int
               * (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int),
               (SELECT count(*) FROM pg_stat_activity
                WHERE datid IS NOT NULL AND coalesce(backend_type, 'client backend') = 'client backend'),
               pg_size_bytes(current_setting('shared_buffers')),
               coalesce(current_setting('debug_io_direct', true), '') LIKE '%data%',
               pg_is_in_recovery(),
               ARRAY(SELECT unnest(setconfig) FROM pg_db_role_setting d
                     WHERE (setrole = 0 OR setrole = pg_roles.oid) AND (setdatabase = 0 OR setdatabase =
                           (SELECT oid FROM pg_database WHERE datname = current_database())) ORDER BY 1),
               (SELECT extract(epoch FROM backend_start)::float8 FROM pg_stat_activity WHERE pid = pg_backend_pid())
        FROM pg_roles WHERE rolname = current_user
        """
    ).fetchone()
    assert row is not None
    version, major, superuser, may_create, may_make, max_connections, locks, open_connections, *rest = row
    buffers_bytes, direct, standby, set_for_load, started_s = rest
    contexts = dict(connection.execute("SELECT name, context FROM pg_settings").fetchall())
    return ServerFacts(
        version=version.split()[0], major=major, superuser=superuser, may_create=may_create,
        may_make_database=may_make,
        may_checkpoint=superuser or (major >= 15 and _has_role(connection, "pg_checkpoint")),
        max_connections=max_connections, open_connections=open_connections, locks=locks,
        buffers_bytes=buffers_bytes, direct=direct, standby=standby, set_for_load=tuple(set_for_load),
        process_owner=_owner_on_this_machine(connection.info.backend_pid, started_s), setting_contexts=contexts,
    )  # fmt: skip


def needs_database(config: Config) -> bool:
    """Whether the load needs its own database on the server: if it can make anything there, or if its database is
    copied from another one.
    """
    return (config.generated and config.generated_load.own_database) or prepared.wanted(config)


def make_database(connection: Connection, name: str) -> None:
    """Make a database with storagelab's mark, from the template that nobody uses. Raises psycopg.Error."""
    connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    mark = sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(name), sql.Literal(OWNERSHIP))
    connection.execute(mark)


def check_folders(connection: Connection, layouts: Iterable[Places]) -> None:
    """Checks the folders for tablespaces: neither PostgreSQL nor storagelab can make them on another machine.

    Raises PreflightError with the command by which the operator makes the missing ones.
    """
    wanted = {
        (layout.volume_of(number), layout.folder_of(number)): number
        for layout in layouts for number in layout.data_files if layout.is_remote(number)
    }  # fmt: skip
    missing = [place for place in sorted(wanted) if not _is_folder(connection, place[1])]
    if missing:
        volume, first = missing[0]
        numbers = [wanted[place] for place in missing if place[0] == volume]
        raise PreflightError(
            f"the server sees no folder {first}",
            key=f"volumes.{volume}.path",
            hint="have its operator run there: install -d -m 700 -o postgres "
            f"{shlex.quote(str(first.parent))}/{_brace(min(numbers), max(numbers))} (postgres = the server's account)",
        )


def _brace(first: int, last: int) -> str:
    """A shell pattern for the names from the first to the last; an extra folder does no harm."""
    begin, dash, number = remote_name(first).rpartition("-")
    return begin + dash + (number if first == last else f"{{{number}..{remote_name(last).rpartition('-')[2]}}}")


def _is_folder(connection: Connection, folder: Path) -> bool:
    row = connection.execute("SELECT (pg_stat_file(%s, true)).isdir", [str(folder)]).fetchone()
    return bool(row and row[0])


def _has_role(connection: Connection, role: str) -> bool:
    row = connection.execute("SELECT pg_has_role(current_user, %s, 'USAGE')", [role]).fetchone()
    return bool(row and row[0])


def _owner_on_this_machine(pid: int, backend_start_s: float) -> tuple[int, int] | None:
    """The owner of our own session's process, if it runs on this machine, whose kernel can then be asked about it.

    Its name and start time must match, because a remote server's pid may belong to another process here.
    """
    folder = Path(f"/proc/{pid}")
    age_s = process_age_s(folder, ("postgres", "postmaster"))
    if (
        age_s is None
        or abs(time.time() - age_s - backend_start_s) >= 2.0
        or not os.access(folder / "schedstat", os.R_OK)
    ):
        return None
    return owner_of(folder)


def check_rights(config: Config, facts: ServerFacts) -> None:
    """Checks the login's rights and the server's limits. Raises PreflightError naming what is missing."""
    database, free = needs_database(config), facts.max_connections - facts.open_connections
    needs = [
        (
            facts.major >= OLDEST_MAJOR,
            f"the server is PostgreSQL {facts.version}, which is too old",
            f"storagelab measures PostgreSQL {OLDEST_MAJOR} and later",
        ),
        (
            not facts.standby,
            "the server is a hot standby: it follows another server, and takes no writes",
            "name its primary, or a server of its own; capture also watches a standby",
        ),
        (
            facts.may_create or database,
            "the login lacks the right CREATE on the database, needed for storagelab's own schema",
            "as its owner: GRANT CREATE ON DATABASE ... TO ...",
        ),
        (
            facts.may_make_database or not database,
            "the login lacks the right CREATEDB, needed for the database that storagelab makes for the load",
            "as an administrator: ALTER ROLE ... CREATEDB",
        ),
        (
            facts.superuser or not config.data_volumes,
            "the login lacks the right SUPERUSER, needed for CREATE TABLESPACE, which puts data files on volumes",
            "use a superuser, or leave [volumes] out to measure where the server keeps its files",
        ),
        (
            facts.may_checkpoint or not config.between_runs.checkpoint,
            f"the login lacks the {'role pg_checkpoint' if facts.major >= 15 else 'right SUPERUSER'}, "
            "needed for CHECKPOINT between runs",
            ("GRANT pg_checkpoint TO ..." if facts.major >= 15 else "use a superuser")
            + ", or set between_runs.checkpoint = false",
        ),
        enough_connections(config.database_load.connections, free, "max_connections on the server"),
    ]
    require(config.target, needs)


def check_session_settings(
    connection: Connection, facts: ServerFacts, settings: Mapping[str, str], nearest: Callable[[str], str]
) -> None:
    """Checks that settings can be changed for storagelab's own sessions, the only way on an attached server.

    Tries each one in this session and resets it. Raises PreflightError with the server's words for one that can't be
    set.
    """
    for name, value in settings.items():
        context = facts.setting_contexts.get(name)
        if context is None:
            raise PreflightError("the server has no such setting", key=f"target.settings.{name}", hint=nearest(name))
        if context not in ("user", "superuser") or (context == "superuser" and not facts.superuser):
            raise PreflightError(
                f"it can't be set for a session (its context is {context})",
                key=f"target.settings.{name}",
                hint="set it on the server yourself, or let storagelab start a private server (leave target.dsn out)",
            )
        try:
            with connection.transaction(force_rollback=True):
                connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        except psycopg.Error as error:
            raise PreflightError(
                f"the server refuses it: {words_of(error)}",
                key=f"target.settings.{name}",
                hint=f"PostgreSQL {facts.version} was asked",
            ) from error
