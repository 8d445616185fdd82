"""Connections: a server's address, its form as a DSN, and PyMySQL's errors in plain words.

    mysql://USER[:PASSWORD]@HOST[:PORT][/DATABASE][?unix_socket=PATH][&ssl=required]

A password belongs only into the variable that `dsn_env` names, or into MYSQL_PWD; it is never shown.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.connections import Connection as PyMySQLConnection

from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.model.values import Frozen
from storagelab.targets.attaching import dsn_of, key_of
from storagelab.targets.hiding import hidden

Connection: TypeAlias = PyMySQLConnection
Rows = list[tuple[Any, ...]]

_CONNECT_TIMEOUT_S = 10
_SCHEMES = ("mysql", "mariadb")
_OPTIONS = ("unix_socket", "ssl", "ssl_ca")
_HOW = "write mysql://user@host:port/database, or mysql://user@localhost/?unix_socket=/path/of/the.sock"
_ANNOUNCED_AS = "storagelab"


class Address(Frozen):
    """A server's address and the user. `ssl` is "" to encrypt if the server offers it, "required" to encrypt always, and
    "verified" to check the server's certificate as well."""

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
    """Raises PreflightError that names the key and shows nothing of the text, which may hold a password."""
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
    said = {name: values[0] for name, values in options.items()}
    wanted_ssl = said.get("ssl", "verified" if "ssl_ca" in said else "")
    if wanted_ssl not in ("", "required", "verified"):
        raise PreflightError("its option ssl is neither required nor verified", key=key, hint=_HOW)
    return Address(
        user=unquote(parts.username), password=unquote(parts.password or "") or os.environ.get("MYSQL_PWD", ""),
        host=unquote(parts.hostname or "localhost"), port=port or 3306, database=unquote(parts.path[1:]) or None,
        unix_socket=said.get("unix_socket"), ssl=wanted_ssl, ssl_ca=said.get("ssl_ca"),
    )  # fmt: skip


def connect_to(address: Address, database: str | None = None) -> Connection:
    """A connection that commits each statement by itself. Raises pymysql.MySQLError."""
    connection = pymysql.connect(
        user=address.user,
        password=address.password.encode(),  # text would be encoded as Latin-1
        host=address.host,
        port=address.port,
        database=database or address.database,
        unix_socket=address.unix_socket,
        ssl=_tls(address),
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=_CONNECT_TIMEOUT_S,
        program_name=_ANNOUNCED_AS,
        defer_connect=True,
    )
    # PyMySQL forgets to close a socket that can't connect, so find out first whether the server can be reached.
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
    """A socket to a server on TCP; None for a local one, which PyMySQL must open itself so that it treats it as local."""
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
    """A connection, closed at the end. Raises PreflightError with the server's words; never with the DSN, which may hold a
    password."""
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
        yield connection
    finally:
        close(connection)


def words_of(error: BaseException) -> str:
    """The server's message without PyMySQL's tuple around it. It keeps the number, since manuals are searched by it."""
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
