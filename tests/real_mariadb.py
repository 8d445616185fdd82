"""Real MariaDB servers for tests: servers that already run, and a few queries."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from real_servers import free_port, small

from storagelab.engines.mariadb.connect import ask
from storagelab.engines.mariadb.server import Server, find_binaries
from storagelab.errors import PreflightError
from storagelab.model.config import Config

DATABASE = "storagelab_0badcafe"
PASSWORD = "geh'eim@/:?#[ü] 1"


def _there_is_a_server() -> bool:
    try:
        find_binaries(None)
    except PreflightError:
        return False
    return True


needs_mariadb = pytest.mark.skipif(
    not _there_is_a_server(), reason="no MariaDB on this machine (Debian: apt-get install mariadb-server-core)"
)


def mariadb(scratch: Path, **changes: Any) -> Config:
    return small(scratch, engine="mariadb", **changes)


class Elsewhere(Server):
    """A server that already runs, as far as storagelab can tell: on TCP as well, with options of its own."""

    def __init__(self, folder: Path, *options: str, waits: bool = True) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(
            find_binaries(None), data_folder=folder / "server", log_folder=folder / "log", settings={}, waits=waits
        )
        self.port = free_port()
        self._more = options

    def _options(self) -> list[str]:
        return [
            *super()._options(), "--skip-networking=OFF", "--bind-address=127.0.0.1", f"--port={self.port}",
            *self._more,
        ]  # fmt: skip

    def dsn(self, user: str = "root", password: str = "", database: str = "", **options: str) -> str:
        """On TCP; with `unix_socket=""` through the socket."""
        if "unix_socket" in options:
            options["unix_socket"] = self.address.unix_socket or ""
        login = quote(user, safe="") + (":" + quote(password, safe="") if password else "")
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
        return f"mysql://{login}@127.0.0.1:{self.port}/{quote(database, safe='')}" + (f"?{query}" if query else "")

    @property
    def socket_dsn(self) -> str:
        return self.dsn(unix_socket="")

    def said(self, *statements: str) -> list[Any]:
        """The rows of the last statement, run as the server's administrator."""
        connection = self.connect()
        try:
            rows = [list(ask(connection, statement)) for statement in statements]
        finally:
            connection.close()
        return rows[-1]


@contextlib.contextmanager
def running(folder: Path, *options: str, waits: bool = True) -> Iterator[Elsewhere]:
    server = Elsewhere(folder, *options, waits=waits)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
