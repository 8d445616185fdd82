"""Connections to one MariaDB or MySQL server, private or attached.

This module holds the server's address, the form of its DSN, plain messages for PyMySQL's errors, the sessions and
client programs of the server, and their settings.

    mysql://USER[:PASSWORD]@HOST[:PORT][/DATABASE][?unix_socket=PATH][&ssl=required]

A password may be only in the environment variable that `dsn_env` names, or in MYSQL_PWD. It is never shown.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, cast
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.connections import Connection as PyMySQLConnection

from storagelab.errors import PreflightError
from storagelab.loads import generator
from storagelab.model.config import TargetConfig
from storagelab.model.measurement import Check
from storagelab.model.values import Frozen, Scalar
from storagelab.servers.attached import dsn_of, hidden, key_of, quoting
from storagelab.servers.checks import read_back
from storagelab.servers.interfaces import Reach
from storagelab.servers.places import tables_of
from storagelab.servers.programs import environment
from storagelab.spec.given_files import text_of

Connection: TypeAlias = PyMySQLConnection
Rows = list[tuple[Any, ...]]


def setting_name(name: str) -> str:
    """A setting's name as the server shows it: `innodb-page-size` becomes `innodb_page_size`."""
    return name.replace("-", "_").lower()


def settings_text(value: Scalar) -> str:
    """A setting's value in the form that MariaDB reads."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    return str(value)


# --- sessions --------------------------------------------------------------------------------------------------------
#
# storagelab's own sessions, and programs that make and restore tables, need these settings. A server, a login or
# init_connect may have changed each of them, so each session sets them first. The sessions of a load keep the settings
# of their login, except settings that would only end their work.


def _listed(settings: Mapping[str, str], but: Collection[str] = ()) -> str:
    return "".join(f"{name} = {text}, " for name, text in settings.items() if name not in but)


def _on_either(mariadb: Mapping[str, str], mysql: Mapping[str, str], but: Collection[str] = ()) -> str:
    """The settings in comments that only MariaDB or only MySQL executes."""
    return f"/*M!101100 {_listed(mariadb, but)}*/ /*!80000 {_listed(mysql, but)}*/ "


_UNENDED_ON_MARIADB = {
    "tx_read_only": "0", "max_statement_time": "0", "idle_transaction_timeout": "0", "lock_wait_timeout": "86400",
    "idle_write_transaction_timeout": "0", "idle_readonly_transaction_timeout": "0",
}  # fmt: skip
_UNENDED_ON_MYSQL = {"transaction_read_only": "0", "max_execution_time": "0", "lock_wait_timeout": "31536000"}
UNENDED = (
    f"SET SESSION {_on_either(_UNENDED_ON_MARIADB, _UNENDED_ON_MYSQL)}wait_timeout = 31536000, "
    "sql_select_limit = 18446744073709551615"
)
"""This statement prevents that the server ends a session or cuts results off. For the sessions of a load, only the
spec can change these settings."""
_STRICT = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,{}NO_ENGINE_SUBSTITUTION"
_SESSION = {
    "autocommit": "1", "completion_type": "0", "foreign_key_checks": "1", "unique_checks": "1", "sql_safe_updates": "0",
    "max_join_size": "18446744073709551615", "sql_big_selects": "1",
    "sql_auto_is_null": "0", "sql_quote_show_create": "1", "innodb_lock_wait_timeout": "50", "net_read_timeout": "30",
    "net_write_timeout": "60", "default_storage_engine": "InnoDB", "time_zone": "'SYSTEM'",
}  # fmt: skip
_ON_MARIADB = {
    "sql_mode": f"'{_STRICT.format('NO_AUTO_CREATE_USER,')}'", "tx_isolation": "'REPEATABLE-READ'",
    "alter_algorithm": "'DEFAULT'", "check_constraint_checks": "1", "auto_increment_increment": "1",
    "auto_increment_offset": "1", "explicit_defaults_for_timestamp": "1", "innodb_strict_mode": "1",
}  # fmt: skip
_ON_MYSQL = {"sql_mode": f"'{_STRICT.format('')}'", "transaction_isolation": "'REPEATABLE-READ'"}
GUARDED = frozenset({*_SESSION, *_ON_MARIADB, *_ON_MYSQL})


def guarding(*but: str) -> str:
    """The statement that sets all settings of storagelab's own sessions, except the settings in `but`."""
    names = "character_set_client = utf8mb4, character_set_connection = utf8mb4, character_set_results = utf8mb4"
    return f"{UNENDED}, {_on_either(_ON_MARIADB, _ON_MYSQL, but)}{_listed(_SESSION, but)}{names}"


def _of_load(settings: Mapping[str, Scalar]) -> str:
    """The first statement of a load's session. It sets these settings."""
    # A text is quoted even if it looks like a number, because the server refuses a quoted text if it needs a number.
    texts = {name: quoted(one) if isinstance(one, str) else settings_text(one) for name, one in settings.items()}
    return ", ".join([UNENDED, *(f"{identifier(setting_name(name))} = {text}" for name, text in texts.items())])


# --- address ---------------------------------------------------------------------------------------------------------


_CONNECT_TIMEOUT_S = 10
_SCHEMES = ("mysql", "mariadb")
_OPTIONS = ("unix_socket", "ssl", "ssl_ca")
_HOW = "write mysql://user@host:port/database, or mysql://user@localhost/?unix_socket=/path/of/the.sock"


class Address(Frozen):
    """A server's address and the user.

    `ssl` is "" to encrypt if the server supports it, "required" to encrypt always, or "verified" to encrypt always and
    to check the server's certificate.
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
    """The address in a spec's DSN, or in the environment variable that the spec names.

    Raises PreflightError if the DSN is not valid. The message does not show the DSN.
    """
    return parse_dsn(dsn_of(target, "mysql://user:password@host/"), key_of(target))


def parse_dsn(text: str, key: str) -> Address:
    """The address in a DSN. Raises PreflightError if the DSN is not valid.

    The error names the key. It does not show the DSN, which may contain a password.
    """
    try:
        parts = urlsplit(text)
        options = parse_qs(parts.query, strict_parsing=True, keep_blank_values=True) if parts.query else {}
        port = parts.port
    except ValueError:
        raise PreflightError("it is not a readable DSN", key=key, hint=_HOW) from None
    if parts.scheme not in _SCHEMES or not parts.username or any(len(values) > 1 for values in options.values()):
        raise PreflightError("it is not a DSN of MariaDB or MySQL", key=key, hint=_HOW)
    if set(options) - set(_OPTIONS):
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
    """A connection whose first statement is `first`. Raises pymysql.MySQLError if the server can't be reached.

    With `autocommit`, the session commits after each statement. If `autocommit` is None, the server's setting applies.
    """
    connection: Connection = pymysql.connect(
        **address.model_dump(include={"user", "host", "port", "database", "unix_socket"}),
        password=address.password.encode(),  # PyMySQL would encode a text as Latin-1
        ssl=_tls(address), charset="utf8mb4", autocommit=autocommit, init_command=first or None,
        connect_timeout=_CONNECT_TIMEOUT_S, program_name="storagelab", defer_connect=True,
    )  # fmt: skip
    # If PyMySQL can't connect, it leaves a socket open. So storagelab first checks that the server can be reached.
    opened = _opened(address)
    try:
        connection.connect(opened)
    except RuntimeError as error:  # some logins without TLS need a package that is missing
        if opened is not None:
            opened.close()
        words = f"{error}; an encrypted connection (?ssl=required) does not need it"
        raise pymysql.OperationalError(2061, words) from error
    return connection


def _opened(address: Address) -> socket.socket | None:
    """A socket to a server on TCP. Returns None for a Unix socket, because PyMySQL must open a Unix socket itself to
    treat it as local.

    Raises pymysql.OperationalError if the server can't be reached.
    """
    try:
        if address.unix_socket is None:
            return socket.create_connection((address.host, address.port), _CONNECT_TIMEOUT_S)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(address.unix_socket)
    except (OSError, ValueError) as error:  # ValueError: the host's name is not valid
        reason = getattr(error, "strerror", None) or "that is not an address"
        raise pymysql.OperationalError(2003, f"nobody answers: {reason}") from error
    return None


def _tls(address: Address) -> ssl.SSLContext | None:
    if not address.ssl:
        return None
    context = ssl.create_default_context(cadata=text_of(Path(address.ssl_ca)) if address.ssl_ca else None)
    if address.ssl == "required":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.contextmanager
def connect(target: TargetConfig) -> Iterator[Connection]:
    """A connection, which is closed at the end. Raises PreflightError with the server's message.

    The error never shows the DSN, which may contain a password.
    """
    key, address = key_of(target), address_of(target)
    try:
        connection = connect_to(address)
    except (pymysql.MySQLError, OSError, ValueError) as error:  # ValueError: bytes are not valid text
        words = hidden(words_of(error), target)
        hint = "check host, port, database, user and password, for example with the client mariadb"
        if "secure transport" in words:
            hint = "the server demands TLS: add ?ssl=required (or ssl=verified) to the DSN"
        to = f"to {address.unix_socket or f'{address.host}, port {address.port}'} as {address.user}"
        raise PreflightError(f"can't connect {hidden(to, target)}: {words}", key=key, hint=hint) from error
    try:
        with quoting(target, pymysql.MySQLError, words_of):
            yield connection
    finally:
        close(connection)


def words_of(error: BaseException) -> str:
    """Returns the server's message without PyMySQL's tuple. The text has the error number, because users search manuals
    for this number.
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


def quoted(value: str) -> str:
    """A text, quoted for SQL. Backslashes are escaped."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def close(connection: Connection | None) -> None:
    """Closes a connection. Never raises an error, because the server may already have ended."""
    if connection is not None:
        with contextlib.suppress(pymysql.MySQLError, OSError):
            connection.close()


def data_folder(connection: Connection) -> Path | None:
    """The data folder of a server on this machine. Returns None if this user can't see the folder."""
    folder = Path(ask(connection, "SELECT @@datadir")[0][0])
    return folder if folder.is_dir() else None


def set_for_session(connection: Connection, settings: Mapping[str, Scalar]) -> None:
    """Sets settings for this session only. Raises pymysql.MySQLError if the server lacks or refuses a setting."""
    ask(connection, _of_load(settings))


def variables(connection: Connection) -> dict[str, str]:
    """The settings of the session, by name. The names are in small letters."""
    return {name.lower(): value for name, value in ask(connection, "SHOW SESSION VARIABLES")}


def settings_checks(
    connection: Connection, asked: Mapping[str, Scalar], expected: Mapping[str, str] | None = None
) -> list[Check]:
    """Compares each requested setting with the server's value.

    `expected` has the values that the server's parser read, by the names in the request.
    """
    values, texts = variables(connection), {name: settings_text(value) for name, value in asked.items()}

    def shown(name: str, text: str) -> tuple[str, bool] | None:
        got, named = values.get(setting_name(name)), Path(text).with_suffix("")
        if setting_name(name) == "log_bin" and got == "ON" and _plain(text) not in (0, 1):
            got = values["log_bin_basename"]  # a name as the value turns the binary log on; only this variable shows it
            return got, Path(got).parts[-len(named.parts) :] == named.parts
        return None if got is None else (got, _plain(got) == _plain(text if expected is None else expected[name]))

    return read_back(texts, shown, "SHOW SESSION VARIABLES")


def _plain(text: str) -> str | float:
    """A value in one spelling, to compare it: TRUE and ON become 1, and the text of a number becomes a number."""
    small = text.strip().casefold()
    small = {"true": "1", "false": "0", "on": "1", "off": "0", "(no default value)": ""}.get(small, small)
    try:
        return float(small)
    except ValueError:
        return small


# --- reach -----------------------------------------------------------------------------------------------------------
#
# How sessions and client programs reach one server.


def _for_client(address: Address, database: str) -> list[str]:
    """The options for the client `mariadb`: it reads SQL and stops at the first error.

    The password is in the environment.
    """
    place = [f"--host={address.host}", f"--port={address.port}", "--protocol=tcp"]
    tls = {"": [], "required": ["--ssl"], "verified": ["--ssl", "--ssl-verify-server-cert"]}[address.ssl]
    return [
        "--no-defaults", "--batch", "--default-character-set=utf8mb4",
        *([f"--socket={address.unix_socket}"] if address.unix_socket else place), *tls,
        *([f"--ssl-ca={address.ssl_ca}"] if address.ssl_ca else []),
        f"--user={address.user}", f"--database={database}",
    ]  # fmt: skip


def _for_sysbench(address: Address, database: str) -> list[str]:
    """The options with which sysbench reaches the server. The password is in the environment."""
    place = [f"--mysql-host={address.host}", f"--mysql-port={address.port}"]
    return [
        "--db-driver=mysql", *([f"--mysql-socket={address.unix_socket}"] if address.unix_socket else place),
        f"--mysql-user={address.user}", f"--mysql-db={database}", *(["--mysql-ssl=on"] if address.ssl else []),
    ]  # fmt: skip


class MariaDBReach(Reach[Connection]):
    """How sessions and client programs reach one server."""

    @property
    def for_set_up(self) -> Mapping[str, str]:
        return {"init_command": guarding()}

    @property
    @abstractmethod
    def address(self) -> Address: ...

    @abstractmethod
    def clients(self, settings: Mapping[str, str]) -> generator.Clients: ...

    @abstractmethod
    def folder(self, own: Connection) -> Path:
        """The folder to which the server's file names are relative."""

    @property
    def shows_files(self) -> bool:
        """Whether the server counts the I/O of each file."""
        return True

    def connect(self) -> Connection:
        return connect_to(self.address)

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:
        return settings_checks(worker, self.settings, self.expected)

    def _options(self, database: str, settings: Mapping[str, str]) -> dict[str, list[str]]:
        # The client reads the user's own files with the settings of the spec, for example sql_mode.
        first = [f"--init-command={guarding(*map(setting_name, self.config.target.settings))}"] if settings else []
        return {
            "sysbench": _for_sysbench(self.address, database),
            "mariadb": [*_for_client(self.address, database), *first],
        }

    def _environment(self) -> dict[str, str]:
        """The environment of client programs. It holds the password, and only this user can read it."""
        password = self.address.password
        return environment() | ({"MYSQL_PWD": password} if password else {})


class PrivateReach(MariaDBReach):
    """How sessions and client programs reach a private server."""

    @property
    def address(self) -> Address:
        return cast("Address", self.server.address)

    def connect_worker(self) -> Connection:
        return connect_to(self.address, "")

    def clients(self, settings: Mapping[str, str]) -> generator.Clients:
        socket, options = Path(self.address.unix_socket or ""), self._options(self.site.prefix, settings)
        clients = generator.of_private(self._environment(), options, self.server.programs.server.parent, socket.parent)
        return replace(clients, first=settings.get("init_command", ""))

    def folder(self, own: Connection) -> Path:
        return Path(self.server.data_folder)

    def process(self, own: Connection) -> int | None:
        return self.server.pid if Path("/proc/self/schedstat").exists() else None

    def check_log_place(self, own: Connection) -> list[Check]:
        """Checks that the server reports the requested folder as the log's folder, and that the log is in it."""
        name, folder = "innodb_log_group_home_dir", self.server.log_folder
        there = any(file.startswith("ib_logfile") for file in os.listdir(folder))
        got = str(ask(own, f"SELECT @@{name}")[0][0]) if there else "no log file there"
        ok = os.path.realpath(got) == os.path.realpath(folder)
        return [Check(name="place of the log", asked=str(folder), got=got, ok=ok, read_from=name)]


class AttachedReach(MariaDBReach):
    """How sessions and client programs reach a server that already runs."""

    @property
    def address(self) -> Address:
        return address_of(self.config.target)

    def connect_worker(self) -> Connection:
        return connect_to(self.address, _of_load(self.config.target.settings))

    def clients(self, settings: Mapping[str, str]) -> generator.Clients:
        clients = self._clients(self.site.prefix, settings)
        self._refuse_elsewhere(clients, self.site.prefix)
        return clients

    def _refuse_elsewhere(self, clients: generator.Clients, database: str) -> None:
        tables_of(self.config)(self.config, self.site.prefix, None).refuse_elsewhere(clients, database)

    def _clients(self, database: str, settings: Mapping[str, str]) -> generator.Clients:
        first = settings.get("init_command") or _of_load(self.config.target.settings)
        return generator.Clients(self._environment(), options=self._options(database, settings), first=first)

    def check_login(self) -> None:
        """Raises RunFailed if a program of the load can't log in, or if its login selects another database.

        If it can't log in, the error has the program's message.
        """
        self._refuse_elsewhere(self._clients("", {}), "")

    def folder(self, own: Connection) -> Path:
        return data_folder(own) or Path()

    @property
    def shows_files(self) -> bool:
        return bool(self.facts.counts_files)

    def process(self, own: Connection) -> int | None:
        return cast("int | None", self.facts.pid)
