"""Connections to one PostgreSQL, private or attached: its address, its sessions, and their settings."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, LiteralString, NamedTuple

import psycopg
from psycopg.pq import Conninfo

from storagelab.errors import PreflightError, RunFailed
from storagelab.loads import generator as programs
from storagelab.loads.generator import Clients
from storagelab.machine.procfs import TaskView
from storagelab.model.config import Config, TargetConfig
from storagelab.model.measurement import Check
from storagelab.model.values import Scalar
from storagelab.servers.attached import (
    dsn_of,
    key_of,
)
from storagelab.servers.interfaces import Reach, tables_of
from storagelab.servers.private import PrivateServer
from storagelab.servers.programs import environment, installation
from storagelab.servers.redact import hidden
from storagelab.servers.steps import check_same
from storagelab.volumes.folders import Site

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


def settings_text(value: Scalar) -> str:
    """A setting's value as PostgreSQL reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


_AUTOMATIC_AT_0 = ("commit_timestamp_buffers", "subtransaction_buffers", "transaction_buffers")
"""At 0, the server chooses the size of these; for other settings -1 means that."""


_NORMALISED = ("client_encoding", "datestyle", "log_timezone", "timezone")
"""Text settings that the server shows in its own case, whatever case was asked for."""


class _Setting(NamedTuple):
    """A setting as the server shows it: `raw` in base units, `shown` in readable ones; `source` says where it was
    set.
    """

    raw: str
    shown: str
    source: str


def settings_checks(connection: Connection, asked: Mapping[str, str], expected: Mapping[str, str]) -> list[Check]:
    """Checks each setting asked for against the server's; `expected` is how the server's parser reads it, in base
    units.
    """
    return _setting_checks(connection, asked, lambda name, setting: _is_as_read(name, setting.raw, expected[name]))


def _is_as_read(name: str, raw: str, expected: str) -> bool:
    if _left_to_server(name, expected):
        return True
    if name.lower() in _NORMALISED:
        return raw.casefold() == expected.casefold()
    return raw == expected


def _left_to_server(name: str, text: str) -> bool:
    return text == "-1" or (text == "0" and name.lower() in _AUTOMATIC_AT_0)


def _setting_checks(
    connection: Connection, asked: Mapping[str, str], confirmed: Callable[[str, _Setting], bool]
) -> list[Check]:
    rows = connection.execute(
        "SELECT lower(name), setting, current_setting(name), source FROM pg_settings WHERE lower(name) = ANY(%s)",
        [[name.lower() for name in asked]],
    ).fetchall()
    found = {name: _Setting(*fields) for name, *fields in rows}
    checks = []
    for name, text in sorted(asked.items()):
        setting = found.get(name.lower())
        got, ok = (
            (setting.shown, confirmed(name, setting)) if setting else ("nothing: the server does not show it", None)
        )
        if setting and ok and _left_to_server(name, text) and setting.raw != text:
            got = f"the server chose {setting.shown}"
        checks.append(Check(name=f"target.settings.{name}", asked=text, got=got, ok=ok, read_from="pg_settings"))
    return checks


USERS_OWN = ("HOME", f"{VARIABLES}*", "KRB5*", "SSL_CERT_*")
"""The user's variables by which the client library finds and trusts a server that already runs: its own, the home
folder with `.pgpass` and certificates, Kerberos tickets, and the authorities that the system trusts.
"""


GENERATOR_NAME = "storagelab generator"
"""The application name by which the server knows a generator's sessions."""


def client_environment(conninfo: str, options: Mapping[str, str], *, private: bool) -> dict[str, str]:
    """The environment in which a client program reaches the server of a connection string, with these settings in
    its sessions. A password is only in the environment, which only this user may read. For a server that already
    runs, the user's own variables add what the string leaves out.
    """
    known = environment(*(() if private else USERS_OWN))
    for option in Conninfo.parse(conninfo.encode()):
        if option.envvar and option.val is not None:
            known[option.envvar.decode()] = option.val.decode()
    known["PGOPTIONS"] = f"{known.get('PGOPTIONS', '')} {options_text(options)}".strip()
    known["PGAPPNAME"] = GENERATOR_NAME
    return known


def _options(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """sysbench takes the server from the client library's variables, except for the port."""
    nothing = ["--pgsql-host=", "--pgsql-user=", "--pgsql-password=", "--pgsql-db="]
    return {"sysbench": ["--db-driver=pgsql", *nothing, f"--pgsql-port={environment.get('PGPORT', '5432')}"]}


class Reaching(Reach[Connection]):
    """How to get to one server. `kernel_view`: whether this machine's kernel can be asked about its sessions."""

    kernel_view: bool
    major: int

    @property
    def for_set_up(self) -> Mapping[str, str]:
        return FOR_SET_UP | since(self.major)

    @abstractmethod
    def _connect(self, application_name: str) -> Connection: ...

    def connect(self, application_name: str = "storagelab") -> Connection:
        connection = self._connect(application_name)
        connection.prepare_threshold = None
        return connection

    @abstractmethod
    def clients(self, settings: Mapping[str, str]) -> Clients:
        """Client programs whose sessions have these settings."""

    def process(self, own: Connection) -> int | None:
        if not self.kernel_view:
            return None
        with contextlib.closing(TaskView(own.info.backend_pid)) as session:
            return session.parent()


class PrivateReach(Reaching):
    """How to get to a private server; `expected` holds the settings as the server's own parser reads them."""

    def __init__(self, config: Config, site: Site, server: PrivateServer[Any], expected: Mapping[str, str]) -> None:
        super().__init__(config, site)
        self._server: Any = server
        self._expected = expected
        self.major = int(server.programs.version.split(".")[0])
        self.kernel_view = Path("/proc/self/schedstat").exists()

    def _connect(self, application_name: str) -> Connection:
        with without_variables():
            return own_session(self._server.conninfo, application_name=application_name)

    def connect_worker(self) -> Connection:
        options: dict[str, Any] = {"autocommit": True, "application_name": "storagelab 0"}
        connection = connect_private(self._server.conninfo, **options)
        connection.prepare_threshold = None
        return connection

    def clients(self, settings: Mapping[str, str]) -> Clients:
        conninfo, folder = self._server.conninfo, self._server.programs.folder
        socket = Path(str(psycopg.conninfo.conninfo_to_dict(conninfo)["host"]))
        environment = client_environment(conninfo, settings, private=True)
        return programs.of_private(
            environment, _options(environment), folder, *installation(folder / "postgres"), socket
        )

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:
        asked = {name: settings_text(value) for name, value in self._server.settings.items()}
        return settings_checks(worker, asked, self._expected)

    def check_log_place(self, own: Connection) -> list[Check]:
        got = os.path.realpath(self._server.data_folder / "pg_wal")
        return [check_same("place of the log", str(self._server.log_folder), got, "pg_wal on the file system")]


class AttachedReach(Reaching):
    """How to get to a server that already runs; `database` is the load's own database there, if it has one."""

    def __init__(self, config: Config, site: Site, facts: Any, database: str = "") -> None:
        super().__init__(config, site)
        self.database, self._facts, self.major = database, facts, facts.major
        self.kernel_view = facts.on_this_machine
        self._asked = {name: settings_text(value) for name, value in config.target.settings.items()}

    @property
    def _conninfo(self) -> str:
        text = conninfo(self.config.target)
        return psycopg.conninfo.make_conninfo(text, dbname=self.database) if self.database else text

    def _connect(self, application_name: str) -> Connection:
        return own_session(self._conninfo, application_name=application_name)

    def connect_worker(self) -> Connection:
        options: dict[str, Any] = {"autocommit": True, "application_name": "storagelab 0"}
        connection: Connection = psycopg.connect(self._conninfo, **options)
        connection.prepare_threshold = None
        # What watches a load is idle until its end.
        for name, value in {"idle_session_timeout": "0", **self._asked}.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        return connection

    def clients(self, settings: Mapping[str, str]) -> Clients:
        clients, home = self._clients(settings), settings["search_path"]
        refuse_elsewhere(clients.environment, self.config.target, home)
        tables_of(self.config)(self.config, self.site.prefix, None).refuse_elsewhere(clients, home)
        return clients

    def _clients(self, settings: Mapping[str, str]) -> Clients:
        environment = client_environment(self._conninfo, {**self._asked, **settings}, private=False)
        return Clients(environment, options=_options(environment))

    def check_login(self) -> None:
        """Raises RunFailed with the words of a program of the load that can't log in."""
        list(tables_of(self.config)(self.config, self.site.prefix, None).places(self._clients({})))

    @property
    def may_write_out(self) -> bool:
        return bool(self._facts.may_checkpoint)

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:
        # Checks each setting asked for on an attached server against a worker's session.
        return _setting_checks(worker, self._asked, lambda _, setting: setting.source == "session")
