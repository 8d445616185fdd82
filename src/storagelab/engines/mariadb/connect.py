"""Connections: a server's address, its form as a DSN, PyMySQL's errors in plain words; and what a running server
allows.

    mysql://USER[:PASSWORD]@HOST[:PORT][/DATABASE][?unix_socket=PATH][&ssl=required]

A password belongs only in the variable that `dsn_env` names, or into MYSQL_PWD; it is never shown.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.connections import Connection as PyMySQLConnection

from storagelab.errors import PreflightError
from storagelab.loads import generator as programs
from storagelab.loads.generator import Clients
from storagelab.model.config import Config, TargetConfig
from storagelab.model.measurement import Check
from storagelab.model.values import Frozen, Scalar
from storagelab.servers.attached import (
    dsn_of,
    key_of,
    quoting,
)
from storagelab.servers.interfaces import Reach, tables_of
from storagelab.servers.private import PrivateServer
from storagelab.servers.programs import environment
from storagelab.servers.redact import hidden
from storagelab.volumes.folders import Site


def setting_name(name: str) -> str:
    """A setting's name as the server shows it: `innodb-page-size` and `innodb_page_size` are one."""
    return name.replace("-", "_").lower()


def settings_text(value: Scalar) -> str:
    """A setting's value as MariaDB reads it."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value)


# --- sessions --------------------------------------------------------------------------------------------------------
#
# What our own sessions, and programs that make and restore tables, rely on: a server, a login or init_connect may set
# each of it to something else. The sessions of a load keep what is set for their login.
LOOKS_ON = "wait_timeout = 31536000, sql_select_limit = 18446744073709551615"
"""A session that looks on a load until its end is not ended meanwhile, and reads all that it asks for."""


_STRICT = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,{}NO_ENGINE_SUBSTITUTION"


_SESSION = {
    "autocommit": "1", "completion_type": "0", "foreign_key_checks": "1", "unique_checks": "1", "sql_safe_updates": "0",
    "max_join_size": "18446744073709551615", "sql_big_selects": "1",
    "sql_auto_is_null": "0", "sql_quote_show_create": "1", "innodb_lock_wait_timeout": "50", "net_read_timeout": "30",
    "net_write_timeout": "60", "default_storage_engine": "InnoDB", "time_zone": "'SYSTEM'",
}  # fmt: skip


_ON_MARIADB = {
    "sql_mode": f"'{_STRICT.format('NO_AUTO_CREATE_USER,')}'", "tx_isolation": "'REPEATABLE-READ'", "tx_read_only": "0",
    "max_statement_time": "0", "idle_transaction_timeout": "0", "idle_write_transaction_timeout": "0",
    "idle_readonly_transaction_timeout": "0", "lock_wait_timeout": "86400", "alter_algorithm": "'DEFAULT'",
    "check_constraint_checks": "1", "auto_increment_increment": "1", "auto_increment_offset": "1",
    "explicit_defaults_for_timestamp": "1", "innodb_strict_mode": "1",
}  # fmt: skip


_ON_MYSQL = {
    "sql_mode": f"'{_STRICT.format('')}'", "transaction_isolation": "'REPEATABLE-READ'", "transaction_read_only": "0",
    "max_execution_time": "0", "lock_wait_timeout": "31536000",
}  # fmt: skip


GUARDED = frozenset({*_SESSION, *_ON_MARIADB, *_ON_MYSQL})


def guarding(*but: str) -> str:
    """The statement that sets all of it, `but` some, on MariaDB or on MySQL, each of which skips what is the
    other's.
    """

    def listed(settings: dict[str, str]) -> str:
        return ", ".join(f"{name} = {text}" for name, text in settings.items() if name not in but)

    own = f"/*M!101100 {listed(_ON_MARIADB)}, */ /*!80000 {listed(_ON_MYSQL)}, */"
    names = "character_set_client = utf8mb4, character_set_connection = utf8mb4, character_set_results = utf8mb4"
    return f"SET SESSION {own} {listed(_SESSION)}, {names}, {LOOKS_ON}"


def setting(settings: Mapping[str, Scalar]) -> str:
    """The statement by which a client sets them for its session; "" for none."""
    parts = []
    for name, value in settings.items():
        text = settings_text(value)
        quoted = text.replace("\\", "\\\\").replace("'", "''")
        parts.append(
            f"`{setting_name(name).replace('`', '``')}` = " + (text if _NUMBER.fullmatch(text) else f"'{quoted}'")
        )
    return f"SET SESSION {', '.join(parts)}" if parts else ""


_NUMBER = re.compile(r"-?\d+(\.\d+)?")


Connection: TypeAlias = PyMySQLConnection


Rows = list[tuple[Any, ...]]


_CONNECT_TIMEOUT_S = 10


_SCHEMES = ("mysql", "mariadb")


_OPTIONS = ("unix_socket", "ssl", "ssl_ca")


_HOW = "write mysql://user@host:port/database, or mysql://user@localhost/?unix_socket=/path/of/the.sock"


_ANNOUNCED_AS = "storagelab"


class Address(Frozen):
    """A server's address and the user. `ssl` is "" to encrypt if the server offers it, "required" to encrypt always,
    and "verified" to check the server's certificate as well.
    """

    user: str
    password: str = ""
    host: str = "localhost"
    port: int = 3306
    database: str | None = None
    unix_socket: str | None = None
    ssl: str = ""
    ssl_ca: str | None = None


def address_of(target: TargetConfig) -> Address:
    """The address in a spec's DSN, or in the variable that it names. Raises PreflightError, without quoting the DSN."""
    return parse_dsn(dsn_of(target, "mysql://user:password@host/"), key_of(target))


def parse_dsn(text: str, key: str) -> Address:
    """The address in a DSN. Raises PreflightError that names the key and shows nothing of the text, which may hold a
    password.
    """
    try:
        parts = urlsplit(text)
        options = parse_qs(parts.query, strict_parsing=True, keep_blank_values=True) if parts.query else {}
        port = parts.port
    except ValueError:
        raise PreflightError("it is not a readable DSN", key=key, hint=_HOW) from None
    if parts.scheme not in _SCHEMES or not parts.username or any(len(values) > 1 for values in options.values()):
        raise PreflightError("it is not a DSN of MariaDB or MySQL", key=key, hint=_HOW)
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        hint = f"after the question mark write any of: {', '.join(_OPTIONS)}"
        raise PreflightError("it has an unknown option", key=key, hint=hint)
    given = {name: values[0] for name, values in options.items()}
    wanted_ssl = given.get("ssl", "verified" if "ssl_ca" in given else "")
    if wanted_ssl not in ("", "required", "verified"):
        raise PreflightError("its option ssl is neither required nor verified", key=key, hint=_HOW)
    return Address(
        user=unquote(parts.username), password=unquote(parts.password or "") or os.environ.get("MYSQL_PWD", ""),
        host=unquote(parts.hostname or "localhost"), port=port or 3306, database=unquote(parts.path[1:]) or None,
        unix_socket=given.get("unix_socket"), ssl=wanted_ssl, ssl_ca=given.get("ssl_ca"),
    )  # fmt: skip


def connect_to(address: Address, first: str = guarding(), *, autocommit: bool | None = True) -> Connection:
    """A connection that begins with the statement `first`, and commits each statement by itself, unless the server is
    to choose that (None). Raises pymysql.MySQLError.
    """
    connection = pymysql.connect(
        user=address.user,
        password=address.password.encode(),  # text would be encoded as Latin-1
        host=address.host,
        port=address.port,
        database=address.database,
        unix_socket=address.unix_socket,
        ssl=_tls(address),
        charset="utf8mb4",
        autocommit=autocommit,
        init_command=first or None,
        connect_timeout=_CONNECT_TIMEOUT_S,
        program_name=_ANNOUNCED_AS,
        defer_connect=True,
    )
    # PyMySQL leaves a socket open if it can't connect, so find out first whether the server can be reached.
    opened = _opened(address)
    try:
        connection.connect(opened)
    except RuntimeError as error:  # the driver lacks the package that some passwords need on an unencrypted line
        if opened is not None:
            opened.close()
        raise pymysql.OperationalError(
            2061, f"{error}; an encrypted connection (?ssl=required) does not need it"
        ) from error
    return connection


def _opened(address: Address) -> socket.socket | None:
    """A socket to a server on TCP; None for a local one, which PyMySQL must open itself to treat it as local."""
    try:
        if address.unix_socket is None:
            return socket.create_connection((address.host, address.port), _CONNECT_TIMEOUT_S)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(address.unix_socket)
    except (OSError, ValueError) as error:  # ValueError: an impossible host
        place = address.unix_socket or "its host and port"
        reason = getattr(error, "strerror", None) or "that is not an address"
        raise pymysql.OperationalError(2003, f"nobody answers at {place}: {reason}") from error
    return None


def _tls(address: Address) -> ssl.SSLContext | None:
    if not address.ssl:
        return None
    context = ssl.create_default_context(cafile=address.ssl_ca)
    if address.ssl == "required":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.contextmanager
def connect(target: TargetConfig) -> Iterator[Connection]:
    """A connection, closed at the end. Raises PreflightError with the server's words, never with the DSN, which may
    hold a password.
    """
    key, address = key_of(target), address_of(target)
    try:
        connection = connect_to(address)
    except (pymysql.MySQLError, OSError, ValueError) as error:  # ValueError: bytes that are not text
        words = hidden(words_of(error), target)
        insecure = "secure transport" in words
        raise PreflightError(
            f"can't connect: {words}",
            key=key,
            hint="the server demands TLS: add ?ssl=required (or ssl=verified) to the DSN"
            if insecure
            else "check host, port, database, user and password, for example with the client mariadb",
        ) from error
    try:
        with quoting(target, pymysql.MySQLError, words_of):
            yield connection
    finally:
        close(connection)


def words_of(error: BaseException) -> str:
    """The server's message without PyMySQL's tuple around it. The error number stays, since people search manuals by
    it.
    """
    if isinstance(error, pymysql.MySQLError) and len(error.args) >= 2:
        return f"{error.args[1]} (error {error.args[0]})"
    return str(error).strip() or type(error).__name__


def ask(connection: Connection, statement: str, values: Any = None) -> Rows:
    """All rows that a statement returns."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


def identifier(name: str) -> str:
    """A name, quoted for SQL."""
    return "`" + name.replace("`", "``") + "`"


def close(connection: Connection | None) -> None:
    """Closes a connection. Never raises, since the server may be gone."""
    if connection is not None:
        with contextlib.suppress(pymysql.MySQLError, OSError):
            connection.close()


def data_folder(connection: Connection) -> Path | None:
    """Where a server of this machine keeps its files, if this user may see them."""
    folder = Path(ask(connection, "SELECT @@datadir")[0][0])
    return folder if folder.is_dir() else None


def set_for_session(connection: Connection, settings: Mapping[str, Scalar]) -> None:
    """Set settings for this session alone; each must exist on the server. Raises pymysql.MySQLError."""
    for name, value in settings.items():
        with connection.cursor() as cursor:
            # The server would refuse a quoted number; and unquoted text might be anything.
            number = isinstance(value, int | float) and not isinstance(value, bool)
            cursor.execute(f"SET SESSION {_name(name)} = %s", [value if number else settings_text(value)])


def _name(name: str) -> str:
    return "`" + setting_name(name).replace("`", "``").replace("%", "%%") + "`"


def _variables(connection: Connection) -> dict[str, str]:
    return {name.lower(): value for name, value in ask(connection, "SHOW SESSION VARIABLES")}


def settings_checks(connection: Connection, asked: Mapping[str, str], expected: Mapping[str, str]) -> list[Check]:
    """Checks each setting asked for against the server's; `expected` is how the server's parser reads it."""
    values = _variables(connection)
    checks = []
    for name, text in sorted(asked.items()):
        got = values.get(setting_name(name))
        ok = None if got is None else _same(got, expected[name])
        shown = "nothing: the server does not show it" if got is None else got
        checks.append(
            Check(name=f"target.settings.{name}", asked=text, got=shown, ok=ok, read_from="SHOW SESSION VARIABLES")
        )
    return checks


def _same(got: str, expected: str) -> bool:
    """Whether two texts are equal despite the parser's spelling: TRUE is ON, a number may have zeros after its
    point.
    """
    if _plain(got) == _plain(expected):
        return True
    try:
        return float(got) == float(expected)
    except ValueError:
        return False


def _plain(text: str) -> str:
    known = {"true": "on", "false": "off", "1": "on", "0": "off", "(no default value)": ""}
    return known.get(text.strip().casefold(), text.strip().casefold())


def _for_client(address: Address, database: str) -> list[str]:
    """The options with which the client reads SQL and stops at the first error. The password is in the environment."""
    place = (
        [f"--socket={address.unix_socket}"]
        if address.unix_socket
        else [f"--host={address.host}", f"--port={address.port}", "--protocol=tcp"]
    )
    tls = {"": [], "required": ["--ssl"], "verified": ["--ssl", "--ssl-verify-server-cert"]}[address.ssl]
    authority = [f"--ssl-ca={address.ssl_ca}"] if address.ssl_ca else []
    return [
        "--no-defaults", "--batch", "--default-character-set=utf8mb4", *place, *tls, *authority,
        f"--user={address.user}", f"--database={database}",
    ]  # fmt: skip


def _for_sysbench(address: Address, database: str) -> list[str]:
    """The options by which sysbench gets to the server. The password is in the environment."""
    place = (
        [f"--mysql-socket={address.unix_socket}"]
        if address.unix_socket
        else [f"--mysql-host={address.host}", f"--mysql-port={address.port}"]
    )
    tls = ["--mysql-ssl=on"] if address.ssl else []
    return ["--db-driver=mysql", *place, f"--mysql-user={address.user}", f"--mysql-db={database}", *tls]


class Reaching(Reach[Connection]):
    """How to get to one server."""

    @property
    def for_set_up(self) -> Mapping[str, str]:
        return {"init_command": guarding()}

    @property
    @abstractmethod
    def address(self) -> Address: ...

    @abstractmethod
    def clients(self, settings: Mapping[str, str]) -> Clients: ...

    @abstractmethod
    def folder(self, own: Connection) -> Path:
        """The folder to which the server's file names are relative."""

    @property
    def shows_files(self) -> bool:
        """Whether the server counts the I/O of each file."""
        return True

    def connect(self) -> Connection:
        return connect_to(self.address)

    def _options(self, database: str, settings: Mapping[str, str]) -> dict[str, list[str]]:
        # The user's own files are read with the spec's settings, such as sql_mode.
        first = [f"--init-command={guarding(*map(setting_name, self.config.target.settings))}"] if settings else []
        return {
            "sysbench": _for_sysbench(self.address, database),
            "mariadb": [*_for_client(self.address, database), *first],
        }

    def _environment(self) -> dict[str, str]:
        """The environment of client programs. Only it holds a password, and only this user may read it."""
        password = self.address.password
        return environment() | ({"MYSQL_PWD": password} if password else {})


class PrivateReach(Reaching):
    """How to get to a private server; `expected` holds the settings as the server's own parser reads them."""

    def __init__(self, config: Config, site: Site, server: PrivateServer[Any], expected: Mapping[str, str]) -> None:
        super().__init__(config, site)
        self._server: Any = server
        self._expected = expected

    @property
    def address(self) -> Address:
        return cast("Address", self._server.address)

    def connect_worker(self) -> Connection:
        return connect_to(self.address, "")

    def clients(self, settings: Mapping[str, str]) -> Clients:
        socket, options = Path(self.address.unix_socket or ""), self._options(self.site.prefix, settings)
        clients = programs.of_private(self._environment(), options, self._server.programs.server.parent, socket.parent)
        return replace(clients, first=settings.get("init_command", ""))

    def folder(self, own: Connection) -> Path:
        return Path(self._server.data_folder)

    def process(self, own: Connection) -> int | None:
        return self._server.pid if Path("/proc/self/schedstat").exists() else None

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:
        return settings_checks(worker, _texts(self._server.settings), self._expected)

    def check_log_place(self, own: Connection) -> list[Check]:
        """Checks the log's folder: the one that the server reports must contain the log, according to the file
        system.
        """
        folder = self._server.log_folder
        there = any(name.startswith("ib_logfile") for name in os.listdir(folder))
        got = str(ask(own, "SELECT @@innodb_log_group_home_dir")[0][0]) if there else "no log file there"
        ok = os.path.realpath(got) == os.path.realpath(folder)
        return [
            Check(name="place of the log", asked=str(folder), got=got, ok=ok, read_from="innodb_log_group_home_dir")
        ]


class AttachedReach(Reaching):
    """How to get to a server that already runs."""

    def __init__(self, config: Config, site: Site, facts: Any) -> None:
        super().__init__(config, site)
        self._facts = facts

    @property
    def address(self) -> Address:
        return address_of(self.config.target)

    def connect_worker(self) -> Connection:
        connection = connect_to(self.address, f"SET SESSION {LOOKS_ON}")
        set_for_session(connection, self.config.target.settings)
        return connection

    def clients(self, settings: Mapping[str, str]) -> Clients:
        clients = self._clients(self.site.prefix, settings)
        tables_of(self.config)(self.config, self.site.prefix, None).refuse_elsewhere(clients, self.site.prefix)
        return clients

    def _clients(self, database: str, settings: Mapping[str, str]) -> Clients:
        first = settings.get("init_command", "") or setting(self.config.target.settings)
        return Clients(self._environment(), options=self._options(database, settings), first=first)

    def check_login(self) -> None:
        """Raises RunFailed with the words of a program of the load that can't log in, or is led to a database."""
        tables_of(self.config)(self.config, self.site.prefix, None).refuse_elsewhere(self._clients("", {}), "")

    def folder(self, own: Connection) -> Path:
        return data_folder(own) or Path()

    @property
    def shows_files(self) -> bool:
        return bool(self._facts.performance_schema)

    def process(self, own: Connection) -> int | None:
        return cast("int | None", self._facts.pid)

    @property
    def may_write_out(self) -> bool:
        return bool(self._facts.may("RELOAD"))

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:
        asked = _texts(self.config.target.settings)
        return settings_checks(worker, asked, asked)


def _texts(settings: Mapping[str, Scalar]) -> dict[str, str]:
    return {name: settings_text(value) for name, value in settings.items()}
