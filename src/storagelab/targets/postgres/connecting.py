"""Connections to a PostgreSQL that already runs: its address, and its refusals in plain words."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg

from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.targets.attaching import dsn_of, key_of
from storagelab.targets.hiding import hidden

Connection = psycopg.Connection[Any]
VARIABLES = "PG"
"""The prefix of environment variables that PostgreSQL's programs and its client library read."""
_ENVIRONMENT = threading.Lock()
_CONNECT_TIMEOUT_S = 10


def conninfo(target: TargetConfig) -> str:
    """The connection string. Raises PreflightError when the environment variable that should hold it is not set."""
    return dsn_of(target, "postgresql://user:password@host/database")


def connect(target: TargetConfig) -> Connection:
    """Raises PreflightError with the server's words; never with the connection string, which may hold a password."""
    key, text = key_of(target), conninfo(target)
    try:
        options = {"autocommit": True, "application_name": "storagelab", "connect_timeout": _CONNECT_TIMEOUT_S}
        return psycopg.connect(text, **options)  # type: ignore[arg-type]
    except (psycopg.ProgrammingError, ValueError) as error:  # ValueError: bytes that are not text
        # libpq quotes the string it can't read, and a password may be in it.
        raise PreflightError(
            "it is not a connection string", key=key, hint="write postgresql://user@host:port/database"
        ) from error
    except psycopg.OperationalError as error:
        open_line = "no encryption" in str(error) or "SSL off" in str(error)
        raise PreflightError(
            f"can't connect: {hidden(str(error).strip(), target)}",
            key=key,
            hint="the server may demand TLS: leave sslmode out of the DSN, or write sslmode=require"
            if open_line
            else "check host, port, database, user and password, for example with psql",
        ) from error


def connect_private(conninfo: str, **options: Any) -> Connection:
    """A connection to a private server that the environment can't influence. Raises psycopg.Error.

    A connection string can't ensure that: some variables lead elsewhere before it is read (PGSERVICE), others are sent to the
    server whatever it says (PGTZ).
    """
    with without_variables():
        return psycopg.connect(conninfo, **options)


@contextlib.contextmanager
def without_variables() -> Iterator[None]:
    """Removes PG* variables from this process's environment for a while; other callers wait."""
    with _ENVIRONMENT:
        kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(VARIABLES)}
        try:
            yield
        finally:
            os.environ.update(kept)


def value(connection: Connection, statement: LiteralString) -> Any:
    """The one value that a statement gives."""
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def words_of(error: BaseException) -> str:
    """The first line of what the server said: its message, without details and hints."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
