"""A running server of each engine, with the same interface for queries and logins.

def test_...(server, scratch):          once for each engine; the server is left as it was found
    config = cell(server, scratch)      a small cell that attaches to it
    refused(config, scratch)            why it can't be measured
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import real_mariadb
from real_mariadb import PASSWORD, Elsewhere, needs_mariadb
from real_servers import connect, open_folder, plan_of, site_at, small

from storagelab.engines.postgres.server import Server
from storagelab.errors import PreflightError
from storagelab.model.config import Config, TargetConfig
from storagelab.model.target import Preflight
from storagelab.run.engine import engine_in, preflight

SCHEMA = "storagelab_0badcafe"
"""What storagelab makes on a server for the experiment of the tests: a schema, or a database."""
TCP_PASSWORD = "tr0ub4dor-and-3"
MARIADB = pytest.param("mariadb", marks=needs_mariadb)
ENGINES = ["postgres", MARIADB]
each_engine = pytest.mark.parametrize("engine", ENGINES)
on_mariadb = pytest.mark.parametrize("shared", [MARIADB], indirect=True)


class RunningPostgres:
    """The shared PostgreSQL."""

    engine = "postgres"
    rights = ("CREATE ON DATABASE postgres", "pg_checkpoint")

    def __init__(self, server: Server) -> None:
        self.process, self.dsn, self.data_folder = server, server.conninfo, server.data_folder

    def said(self, *statements: str) -> list[Any]:
        """The rows of the last statement, run as the server's administrator."""
        with connect(self.process) as connection:
            *_, last = [connection.execute(statement) for statement in statements]
            return last.fetchall() if last.description else []

    def make_login(self, name: str, *rights: str) -> str:
        quoted = PASSWORD.replace("'", "''")
        self.said(f"CREATE ROLE {name} LOGIN PASSWORD '{quoted}'", *(f"GRANT {one} TO {name}" for one in rights))
        return psycopg.conninfo.make_conninfo(self.dsn, user=name, password=PASSWORD)

    def drop_login(self, name: str) -> None:
        self.said(f"DROP OWNED BY {name}", f"DROP ROLE {name}")

    def left(self) -> list[Any]:
        return self.said(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'storagelab%' UNION ALL "
            "SELECT spcname FROM pg_tablespace WHERE spcname LIKE 'storagelab%'"
        )


class RunningMariaDB:
    """A MariaDB on which names may be in double quotes."""

    engine = "mariadb"
    rights = (
        "CREATE, DROP, INSERT, SELECT, CREATE ROUTINE, EXECUTE, LOCK TABLES ON `storagelab\\_0badcafe`.*",
        "PROCESS, FILE, RELOAD ON *.*", "SELECT ON performance_schema.*",
    )  # fmt: skip

    def __init__(self, server: Elsewhere) -> None:
        self.process, self.dsn, self.data_folder = server, server.socket_dsn, server.data_folder
        self.said = server.said

    def make_login(self, name: str, *rights: str) -> str:
        password = PASSWORD.replace("\\", "\\\\").replace("'", "''")
        grants = [f"GRANT {one} TO {name}@'%'" for one in rights]
        self.said(f"CREATE USER {name}@'%' IDENTIFIED BY '{password}'", *grants)
        return self.process.dsn(name, PASSWORD)

    def drop_login(self, name: str) -> None:
        self.said(f"DROP USER {name}@'%'")

    def left(self) -> list[Any]:
        return self.said("SHOW DATABASES LIKE 'storagelab%'")


RunningServer = RunningPostgres | RunningMariaDB


def cell(server: RunningServer, scratch: Path, **changes: Any) -> Config:
    """A small cell that attaches to the server, by its administrator's DSN unless `changes` name another."""
    dsn = {} if {"dsn", "dsn_env"} & changes.keys() else {"dsn": server.dsn}
    return small(scratch, engine=server.engine, **dsn, **changes)


@contextlib.contextmanager
def running(engine: str, shared_server: Server) -> Iterator[RunningServer]:
    """The server that the tests of a module share."""
    if engine == "postgres":
        yield RunningPostgres(shared_server)
        return
    options = "--sql-mode=ANSI_QUOTES,STRICT_ALL_TABLES"
    with open_folder() as folder, real_mariadb.running(folder / "s", options) as server:
        yield RunningMariaDB(server)


def inventory(server: RunningServer) -> frozenset[str]:
    """All that is on the server, as the contract suite lists it."""
    return engine_in(server.engine).probe().inventory(TargetConfig(engine=server.engine, dsn=server.dsn))


def opens(dsn: str) -> bool:
    """Whether a PostgreSQL takes a login."""
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


def checked(config: Config, scratch: Path, *more: Config) -> Preflight:
    return preflight(plan_of(config, *more), site_at(scratch))


def refused(config: Config, scratch: Path) -> PreflightError:
    with pytest.raises(PreflightError) as caught:
        checked(config, scratch)
    assert PASSWORD not in str(caught.value)
    return caught.value
