"""The way to a server: its DSN, sessions over TDS, and errors in the server's words. No password leaves this module."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.targets.attaching import dsn_of, key_of
from storagelab.targets.hiding import hidden

try:
    import pymssql

    from storagelab.targets.sqlserver.login import try_in_fresh_process
except ImportError as absent:
    raise PreflightError(
        "the driver for SQL Server, pymssql, is not installed",
        key="target.engine",
        hint="pip install 'storagelab[sqlserver]'",
    ) from absent

DriverError = pymssql.Error
Row = tuple[Any, ...]

SCHEMES = ("mssql", "sqlserver")
PASSWORD_VARIABLE = "SQLCMDPASSWORD"
"""The variable in which the server's own command-line tool looks for the password."""
DEFAULT_PORT = 1433
LOGIN_TIMEOUT_S = 10
ENCRYPTION = ("off", "request", "require")
_EXAMPLE = "mssql://user@host:1433/database"
_SOMETHING_SAID = "DB-Lib error message 20018"
_DRIVERS_LINE = re.compile(r"(DB-Lib error message|Net-Lib error during) ")


@dataclass(frozen=True)
class Address:
    """A server and our login there. `instance` is a named instance, which the server's browser service finds."""

    host: str
    port: int
    user: str
    database: str
    instance: str = ""
    encryption: str = "request"
    password: str = field(default="", repr=False)

    @property
    def server(self) -> str:
        return f"{self.host}\\{self.instance}" if self.instance else self.host


def address_of(target: TargetConfig) -> Address:
    """The server that a spec means. Raises PreflightError, which never shows the variable's content."""
    return parse_dsn(dsn_of(target, "mssql://user:password@host/database"), key_of(target))


def parse_dsn(dsn: str, key: str) -> Address:
    """Raises a PreflightError that names the unreadable part but not its content: a password may stand anywhere."""
    try:
        parts = urlsplit(dsn)
        host, port = parts.hostname, parts.port
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError:
        _refuse("it is not a readable connection string", key)
    if parts.scheme not in SCHEMES:
        _refuse("it does not begin with mssql://", key)
    if not host or not parts.username:
        _refuse("it names no host or no user", key)
    unknown = sorted(options.keys() - {"instance", "encrypt"})
    if unknown:
        _refuse("it has an unknown option; known are encrypt and instance", key)
    encryption = options.get("encrypt", "request")
    if encryption not in ENCRYPTION:
        _refuse(f"its option encrypt must be one of {', '.join(ENCRYPTION)}", key)
    return Address(
        host=unquote(host), port=port or DEFAULT_PORT, user=unquote(parts.username),
        password=unquote(parts.password) if parts.password is not None else os.environ.get(PASSWORD_VARIABLE, ""),
        database=unquote(parts.path.removeprefix("/")), instance=options.get("instance", ""), encryption=encryption,
    )  # fmt: skip


def _refuse(problem: str, key: str) -> NoReturn:
    raise PreflightError(
        problem,
        key=key,
        hint=f"write {_EXAMPLE}, with special characters as %XX; the password belongs in the variable that dsn_env "
        f"names, or in {PASSWORD_VARIABLE}",
    ) from None


class Session:
    """One session on a server, with each statement in a transaction of its own. For one thread at a time."""

    def __init__(self, dsn: Address, application: str) -> None:
        """Raises DriverError."""
        arguments: dict[str, Any] = {
            "server": dsn.server, "port": str(dsn.port), "user": dsn.user, "password": dsn.password,
            "database": dsn.database, "login_timeout": LOGIN_TIMEOUT_S, "appname": application, "autocommit": True,
            "encryption": dsn.encryption,
        }  # fmt: skip
        try:
            self._connection = pymssql.connect(**arguments)
        except DriverError as error:
            if not _lost_the_servers_words(error):
                raise
            raise pymssql.OperationalError(*(try_in_fresh_process(arguments) or error.args)) from None
        self.spid = int(self.value("SELECT @@SPID"))

    def table(self, statement: str) -> tuple[list[str], list[Row]]:
        """Column names, in lower case, and rows of a statement's last result."""
        names, rows = list[str](), list[Row]()
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            while True:
                if cursor.description is not None:
                    names = [str(column[0]).lower() for column in cursor.description]
                    rows = [tuple(row) for row in cursor.fetchall()]
                if not cursor.nextset():
                    return names, rows

    def rows(self, statement: str) -> list[Row]:
        return self.table(statement)[1]

    def records(self, statement: str) -> list[dict[str, Any]]:
        """Rows as `column -> value`, for views that have more columns in later versions."""
        names, rows = self.table(statement)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def value(self, statement: str) -> Any:
        """A statement's single value; None if it gives no row."""
        rows = self.rows(statement)
        return rows[0][0] if rows else None

    def execute(self, statement: str) -> None:
        self.table(statement)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the session. Never raises, not even for a lost one."""
        with contextlib.suppress(DriverError):
            self._connection.close()


def connect(target: TargetConfig, application: str = "storagelab", database: str | None = None) -> Session:
    """Raises PreflightError with the server's words; never with the DSN, which may hold a password."""
    dsn = address_of(target)
    try:
        return Session(replace(dsn, database=database) if database is not None else dsn, application)
    except (DriverError, ValueError) as error:  # ValueError: bytes that are not text
        raise PreflightError(
            f"can't connect: {hidden(words_of(error), target)}",
            key=key_of(target),
            hint="check host, port, database, user and password, for example with sqlcmd",
        ) from error


def words_of(error: BaseException) -> str:
    """The server's message after its number: `Msg 2627: Violation of PRIMARY KEY...`; without one, the driver's message.

    The driver adds its own lines to the server's, and repeats some.
    """
    number, said = _number_and_text(error)
    lines = [line.strip() for line in said.splitlines()]
    first = next((line for line in lines if line and not _DRIVERS_LINE.match(line)), "")
    message = _DRIVERS_LINE.split(first)[0].strip() or " ".join(dict.fromkeys(filter(None, lines)))
    return f"Msg {number}: {message}" if number else message or type(error).__name__


def _lost_the_servers_words(error: BaseException) -> bool:
    """Whether the driver reports a message of the server without its text."""
    return _number_and_text(error)[1].startswith(_SOMETHING_SAID)


def _number_and_text(error: BaseException) -> tuple[int | None, str]:
    arguments = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], tuple) else error.args
    number = next((value for value in arguments if isinstance(value, int)), None)
    texts = (value for value in arguments if isinstance(value, str | bytes))
    said = next((value.decode(errors="replace") if isinstance(value, bytes) else value for value in texts), "")
    return number, said or str(error)


def allow_sessions(count: int) -> None:
    """Raise the driver's limit on sessions per process, which is 25 by default."""
    if pymssql.get_max_connections() < count:
        pymssql.set_max_connections(count)
