"""Connections to one PostgreSQL server, private or attached.

This module holds the server's address, plain messages for refused logins, the sessions and client programs of the
server, and their settings.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import sql
from psycopg.pq import Conninfo

from storagelab.errors import PreflightError, RunFailed
from storagelab.loads import generator
from storagelab.machine.processes import TaskView
from storagelab.model.config import TargetConfig
from storagelab.model.measurement import Check
from storagelab.model.values import Scalar
from storagelab.servers.attached import dsn_of, hidden, key_of, quoting
from storagelab.servers.checks import read_back
from storagelab.servers.interfaces import Reach
from storagelab.servers.places import check_same, tables_of
from storagelab.servers.programs import environment, installation

Connection = psycopg.Connection[Any]
_T = TypeVar("_T")
VARIABLES = "PG"
"""The prefix of environment variables that PostgreSQL's programs and its client library read."""
_ENVIRONMENT = threading.Lock()
_CONNECT_TIMEOUT_S = 10
_OWN_PORT = "give the server's own port, not a pooler's"
_TLS = "the server may demand TLS: leave sslmode out of the DSN, or write sslmode=require"
_FILES = ("passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl")
_REFUSALS = {
    "client certificate": "add sslcert=... and sslkey=... to the DSN, or put both files into ~/.postgresql",
    "unsupported startup parameter": f"a pooler answers there: {_OWN_PORT}", "no encryption": _TLS, "SSL off": _TLS,
}  # fmt: skip
"""For a part of the message of a refused login: how the user can solve the problem."""
_UNENDED = {
    "default_transaction_read_only": "off", "statement_timeout": "0", "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0", "idle_session_timeout": "0", "role": "none",
}  # fmt: skip
"""Settings that could end a session's work, or hide the session from storagelab's other sessions. A server, a database
or a role may have changed each of them. For the sessions of a load, only the spec can change them."""
_SINCE = {17: {"transaction_timeout": "0"}}
"""More such settings, by the first version that has them. An older server refuses a login with an unknown setting."""
_FOR_SET_UP = {
    "default_transaction_isolation": "read committed", "default_transaction_deferrable": "off", "row_security": "off",
    "standard_conforming_strings": "on", "default_table_access_method": "heap", "check_function_bodies": "off",
    "default_tablespace": "",
}  # fmt: skip
"""More settings that storagelab's own sessions, and programs that make and restore tables, need. The sessions of a load
keep the settings of their role."""
_OWN_SESSIONS = {
    "search_path": "pg_catalog", "datestyle": "ISO, MDY", "intervalstyle": "postgres",
    "bytea_output": "hex", "extra_float_digits": "1", "client_encoding": "UTF8", "quote_all_identifiers": "off",
    "array_nulls": "on",
}  # fmt: skip
"""More settings for storagelab's own sessions. These sessions use names with a schema."""


def conninfo(target: TargetConfig) -> str:
    """The connection string. Raises PreflightError if the environment variable for it is not set."""
    return dsn_of(target, "postgresql://user:password@host/database")


def connect(target: TargetConfig) -> Connection:
    """A connection. Raises PreflightError with the server's message if it can't connect.

    The error never shows the connection string, which may contain a password.
    """
    key, text = key_of(target), conninfo(target)
    try:
        for name, one in psycopg.conninfo.conninfo_to_dict(text).items():
            if name in _FILES and Path(str(one)).is_fifo():  # without a limit, the client library would wait for ever
                raise PreflightError(f"its {name} is a FIFO", key=key, hint="name a plain file")
        return own_session(text, application_name="storagelab", connect_timeout=_CONNECT_TIMEOUT_S)
    except (psycopg.ProgrammingError, ValueError) as error:  # ValueError: bytes are not valid text
        # libpq's message quotes the string that it can't read, and the string may contain a password.
        hint = "write postgresql://user@host:port/database"
        raise PreflightError("it is not a connection string", key=key, hint=hint) from error
    except psycopg.OperationalError as error:
        hints = (hint for words, hint in _REFUSALS.items() if words in str(error))
        raise PreflightError(
            f"can't connect {hidden(_to(text), target)}: {hidden(str(error).strip(), target)}", key=key,
            hint=next(hints, "check host, port, database, user and password, for example with psql"),
        ) from error  # fmt: skip


@contextlib.contextmanager
def connected(target: TargetConfig) -> Iterator[Connection]:
    """A connection, which is closed at the end. Errors in the context become a PreflightError with the server's
    message.
    """
    with connect(target) as connection, quoting(target, psycopg.Error, words_of):
        yield connection


def _to(conninfo: str) -> str:
    """The address in a connection string, without its password."""
    known = {**os.environ, **_variables_of(conninfo)}
    place = known.get("PGHOST") or known.get("PGHOSTADDR") or "the local socket"
    user = f" as {known['PGUSER']}" if known.get("PGUSER") else ""
    return f"to {place}, port {known.get('PGPORT', '5432')}{user}"


def _variables_of(conninfo: str) -> dict[str, str]:
    """The options of a connection string as environment variables: name -> value."""
    return {
        option.envvar.decode(): option.val.decode()
        for option in Conninfo.parse(conninfo.encode()) if option.envvar and option.val is not None
    }  # fmt: skip


def connect_private(conninfo: str, **options: Any) -> Connection:
    """A connection to a private server. The user's PG* variables can't change it. Raises psycopg.Error.

    A connection string is not enough for this: libpq reads some variables before it, for example PGSERVICE, and then
    connects to another server. It sends other variables to the server in any case, for example PGTZ.
    """
    with without_variables():
        return psycopg.connect(conninfo, **options)


def own_session(conninfo: str, **more: Any) -> Connection:
    """One of storagelab's own sessions. Settings of the server, the database or the role don't change its settings.

    Raises psycopg.Error. The session gets its settings with the login, for two reasons. First, they must be set before
    the first query: on a hot standby whose default isolation level is serializable, the query would fail. Second, a
    pooler must not keep the settings in a session that another client uses next.
    """
    options = _with_options(conninfo, {**_UNENDED, **_FOR_SET_UP, **_OWN_SESSIONS})
    connection: Connection = psycopg.connect(conninfo, options=options, autocommit=True, **more)
    for name, text in _since(connection.info.server_version // 10_000).items():
        connection.execute("SELECT set_config(%s, %s, false)", [name, text])
    return connection


def unended(major: int) -> dict[str, str]:
    """The settings of a load's sessions on a server of this major version. The spec may set other values."""
    return _UNENDED | _since(major)


def _since(major: int) -> dict[str, str]:
    return {name: text for first, settings in _SINCE.items() if major >= first for name, text in settings.items()}


def _with_options(conninfo: str, settings: Mapping[str, str]) -> str:
    given = psycopg.conninfo.conninfo_to_dict(conninfo).get("options") or os.environ.get("PGOPTIONS", "")
    return f"{given} {options_text(settings)}"


def options_text(settings: Mapping[str, str]) -> str:
    """Settings in the form of PGOPTIONS: arguments with blanks between them."""
    return " ".join(f"-c {name}=" + re.sub(r"([\\ ])", r"\\\1", text) for name, text in settings.items())


def refuse_elsewhere(environment: Mapping[str, str], target: TargetConfig, schema: str) -> None:
    """Raises RunFailed unless a client program with these variables uses the right database and `schema`.

    A pooler may ignore the settings in the variables. Then names without a schema would refer to other tables.
    """
    try:
        with without_variables(environment), psycopg.connect("", connect_timeout=_CONNECT_TIMEOUT_S) as connection:
            found = connection.execute("SELECT current_database(), current_schema()").fetchone()
    except psycopg.Error as error:
        raise RunFailed(f"the load's client can't log in: {hidden(words_of(error), target)}") from error
    wanted = environment.get("PGDATABASE", found[0] if found else ""), schema
    if found != wanted:
        raise RunFailed(
            f"the load's client would work in {'.'.join(map(str, found or ()))}, not in {'.'.join(wanted)}: a program "
            f"between the client and the server ignores the client's options; {_OWN_PORT}"
        )


def check_direct(connection: Connection, target: TargetConfig) -> None:
    """Raises PreflightError if a pooler is between storagelab and the server.

    The clients of a pooler share sessions of the server, so the settings of one client would reach others.
    """
    pids = {connection.info.backend_pid, *(value(connection, "SELECT pg_backend_pid()") for _ in range(3))}
    if len(pids) > 1:
        problem = "the process that answers is not the process that accepted the login"
        problem = f"a pooler is between storagelab and the server: {problem}"
        raise PreflightError(problem, key=key_of(target), hint=_OWN_PORT)


@contextlib.contextmanager
def without_variables(instead: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """In this context, the PG* variables of this process are only those in `instead`.

    Another thread that calls this waits until the context ends.
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


def value(
    connection: Connection, statement: LiteralString | sql.Composed, values: Sequence[object] | None = None
) -> Any:
    """The first value of a statement's result."""
    row = connection.execute(statement, values).fetchone()
    assert row is not None
    return row[0]


def newest(by_version: Mapping[int, _T], major: int) -> list[_T]:
    """A list with the entry for a server of this major version. Entries are given by the first version they are for.

    The list is empty if the server is older than all entries.
    """
    fitting = [version for version in by_version if version <= major]
    return [by_version[max(fitting)]] if fitting else []


def data_folder(connection: Connection) -> Path | None:
    """The server's data folder. Returns None if this login may not read its path."""
    try:
        return Path(value(connection, "SELECT current_setting('data_directory')"))
    except psycopg.errors.InsufficientPrivilege:
        return None


def page_bytes(connection: Connection) -> int:
    """The size of the server's pages in bytes."""
    return int(value(connection, "SELECT current_setting('block_size')::int"))


def execute(
    connection: Connection, statement: LiteralString, *parts: str | Sequence[str] | sql.Composable
) -> psycopg.Cursor[Any]:
    """Runs a statement. Each part replaces a `{}`: a text is a name, and several texts are a name with a schema."""
    return connection.execute(composed(statement, *parts))


def composed(statement: LiteralString, *parts: str | Sequence[str] | sql.Composable) -> sql.Composed:
    """The statement that `execute` runs."""
    return sql.SQL(statement).format(*(
        one if isinstance(one, sql.Composable) else sql.Identifier(*([one] if isinstance(one, str) else one))
        for one in parts
    ))  # fmt: skip


def words_of(error: BaseException) -> str:
    """The first line of the server's message, without details and hints."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def settings_text(value: Scalar) -> str:
    """A setting's value in the form that PostgreSQL reads."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


_AUTOMATIC_AT_0 = ("commit_timestamp_buffers", "subtransaction_buffers", "transaction_buffers")
"""If one of these settings is 0, the server chooses its value. For other settings, the value -1 has this meaning."""
_NORMALISED = ("client_encoding", "datestyle", "log_timezone", "timezone")
"""The server may show the values of these settings in other upper and lower case than the spec."""


def settings_checks(
    connection: Connection, asked: Mapping[str, str], expected: Mapping[str, str] | None = None
) -> list[Check]:
    """Compares each requested setting with the server's value.

    `expected` has the values that the server's parser read, in base units. Without `expected`, the check requires that
    the setting was set for the session.
    """
    rows = connection.execute(
        "SELECT lower(name), setting, current_setting(name), source FROM pg_settings WHERE lower(name) = ANY(%s)",
        [[name.lower() for name in asked]],
    ).fetchall()
    found = {name: fields for name, *fields in rows}

    def shown(name: str, text: str) -> tuple[str, bool] | None:
        if name.lower() not in found:
            return None
        raw, readable, source = found[name.lower()]
        wanted = None if expected is None else expected[name]
        if wanted is None:
            ok = source == "session"
        elif name.lower() in _NORMALISED:
            ok = raw.casefold() == wanted.casefold()
        else:
            ok = _left_to_server(name, wanted) or raw == wanted
        chosen = ok and _left_to_server(name, text) and raw != text
        return f"the server chose {readable}" if chosen else readable, ok

    return read_back(asked, shown, "pg_settings")


def _left_to_server(name: str, text: str) -> bool:
    return text == "-1" or (text == "0" and name.lower() in _AUTOMATIC_AT_0)


# --- reach -----------------------------------------------------------------------------------------------------------
#
# How sessions and client programs reach one server.


USERS_OWN = ("HOME", f"{VARIABLES}*", "KRB5*", "SSL_CERT_*")
"""The user's variables that the client library needs for a server that already runs.

They are the library's own variables, the home folder with `.pgpass` and certificates, the Kerberos tickets, and the
certificate authorities that the system trusts.
"""
GENERATOR_NAME = "storagelab generator"
"""The application name of a generator's sessions. storagelab finds the sessions by this name."""


def client_environment(conninfo: str, options: Mapping[str, str], *, private: bool) -> dict[str, str]:
    """The environment with which a client program reaches the server of a connection string.

    The sessions of the program get the settings in `options`. A password is only in the environment, which only this
    user can read. For a server that already runs, the user's own variables are added.
    """
    known = environment(*(() if private else USERS_OWN)) | _variables_of(conninfo)
    known["PGOPTIONS"] = f"{known.get('PGOPTIONS', '')} {options_text(options)}".strip()
    known["PGAPPNAME"] = GENERATOR_NAME
    return known


def _options(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """The options of sysbench. It reads the server's address from the client library's variables, except the port."""
    nothing = ["--pgsql-host=", "--pgsql-user=", "--pgsql-password=", "--pgsql-db="]
    return {"sysbench": ["--db-driver=pgsql", *nothing, f"--pgsql-port={environment.get('PGPORT', '5432')}"]}


_WORKER: dict[str, Any] = {"autocommit": True, "application_name": "storagelab 0", "prepare_threshold": None}


class PostgresReach(Reach[Connection]):
    """How sessions and client programs reach one server."""

    apart: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    """The context in which sessions are opened. For a private server, it removes the user's PG* variables."""

    @property
    @abstractmethod
    def conninfo(self) -> str: ...

    @property
    def major(self) -> int:
        return int(self.server.programs.major if self.server else self.facts.release[0])

    @property
    def kernel_view(self) -> bool:
        """Whether this machine's kernel has information about the server's sessions."""
        return self.facts.on_this_machine if self.facts else Path("/proc/self/schedstat").exists()

    @property
    def _asked(self) -> dict[str, str]:
        return {name: settings_text(value) for name, value in self.settings.items()}

    @property
    def for_set_up(self) -> Mapping[str, str]:
        return unended(self.major) | _FOR_SET_UP

    def connect(self, application_name: str = "storagelab") -> Connection:
        with self.apart():
            return own_session(self.conninfo, application_name=application_name, prepare_threshold=None)

    def connect_worker(self) -> Connection:
        with self.apart():
            return psycopg.connect(self.conninfo, **_WORKER)

    @abstractmethod
    def clients(self, settings: Mapping[str, str]) -> generator.Clients:
        """Client programs whose sessions have these settings."""

    def process(self, own: Connection) -> int | None:
        if not self.kernel_view:
            return None
        with contextlib.closing(TaskView(own.info.backend_pid)) as session:
            return session.parent()

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:
        return settings_checks(worker, self._asked, self.expected)


class PrivateReach(PostgresReach):
    """How sessions and client programs reach a private server."""

    apart = staticmethod(without_variables)

    @property
    def conninfo(self) -> str:
        return str(self.server.conninfo)

    def clients(self, settings: Mapping[str, str]) -> generator.Clients:
        folder = self.server.programs.folder
        socket = Path(str(psycopg.conninfo.conninfo_to_dict(self.conninfo)["host"]))
        known = client_environment(self.conninfo, settings, private=True)
        return generator.of_private(known, _options(known), folder, *installation(folder / "postgres"), socket)

    def check_log_place(self, own: Connection) -> list[Check]:
        got = os.path.realpath(self.server.data_folder / "pg_wal")
        return [check_same("place of the log", str(self.server.log_folder), got, "pg_wal on the file system")]


class AttachedReach(PostgresReach):
    """How sessions and client programs reach a server that already runs.

    If the load has its own database there, `database` is its name.
    """

    database = ""

    @property
    def conninfo(self) -> str:
        text = conninfo(self.config.target)
        return psycopg.conninfo.make_conninfo(text, dbname=self.database) if self.database else text

    def connect_worker(self) -> Connection:
        # The settings are sent with the login, because the server may end an idle session at once.
        options = _with_options(self.conninfo, unended(self.major))
        connection: Connection = psycopg.connect(self.conninfo, options=options, **_WORKER)
        for name, value in self._asked.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        return connection

    @property
    def _tables(self) -> Any:
        return tables_of(self.config)(self.config, self.site.prefix, None)

    def clients(self, settings: Mapping[str, str]) -> generator.Clients:
        clients, home = self._clients(settings), settings["search_path"]
        refuse_elsewhere(clients.environment, self.config.target, home)
        self._tables.refuse_elsewhere(clients, home)
        return clients

    def _clients(self, settings: Mapping[str, str]) -> generator.Clients:
        known = client_environment(self.conninfo, {**unended(self.major), **self._asked, **settings}, private=False)
        return generator.Clients(known, options=_options(known))

    def check_login(self) -> None:
        """Raises RunFailed if a program of the load can't log in. The error has the program's message."""
        list(self._tables.places(self._clients({})))
