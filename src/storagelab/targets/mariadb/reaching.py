"""How sessions and client programs get to one MariaDB: a private one, or one that already runs."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.model.values import Scalar
from storagelab.targets import Site
from storagelab.targets.generators import programs
from storagelab.targets.generators.programs import Clients
from storagelab.targets.mariadb import attached, read_back
from storagelab.targets.mariadb.connecting import Address, Connection, address_of, ask, connect_to
from storagelab.targets.mariadb.server import Server
from storagelab.targets.mariadb.settings import private_settings, settings_text
from storagelab.targets.parts import Reach
from storagelab.targets.programs import environment


class Reaching(Reach[Connection]):
    """How to get to one server."""

    @property
    @abstractmethod
    def address(self) -> Address: ...

    @abstractmethod
    def clients(self) -> Clients: ...

    @abstractmethod
    def folder(self, own: Connection) -> Path:
        """The folder from which the server names its files."""

    @property
    def shows_files(self) -> bool:
        """Whether the server counts the I/O of each file."""
        return True

    def connect(self) -> Connection:
        return connect_to(self.address)

    def _environment(self) -> dict[str, str]:
        """The environment of client programs: it alone holds a password, and only this user may read it."""
        password = self.address.password
        return environment() | ({"MYSQL_PWD": password} if password else {})


class PrivateReach(Reaching):
    """To a private server; `expected` are the settings as its own parser reads them."""

    def __init__(self, config: Config, site: Site, server: Server, expected: Mapping[str, str]) -> None:
        super().__init__(config, site)
        self._server, self._expected = server, expected

    @property
    def address(self) -> Address:
        return self._server.address

    def connect_worker(self) -> Connection:
        return self.connect()

    def clients(self) -> Clients:
        socket = Path(self.address.unix_socket or "")
        return programs.of_private(self._environment(), self._server.programs.server.parent, socket.parent)

    def folder(self, own: Connection) -> Path:  # noqa: ARG002 - storagelab made it
        return self._server.data_folder

    def process(self, own: Connection) -> int | None:  # noqa: ARG002 - storagelab started it
        return self._server.pid if Path("/proc/self/schedstat").exists() else None

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:  # noqa: ARG002 - a session's own count
        return read_back.settings(worker, _texts(private_settings(self.config)), self._expected)

    def check_log_place(self, own: Connection) -> list[Check]:
        """Checks the log's folder: the one that the server reports, with the log in it according to the file system."""
        folder = self._server.log_folder
        there = any(name.startswith("ib_logfile") for name in os.listdir(folder))
        got = str(ask(own, "SELECT @@innodb_log_group_home_dir")[0][0]) if there else "no log file there"
        ok = os.path.realpath(got) == os.path.realpath(folder)
        return [
            Check(name="place of the log", asked=str(folder), got=got, ok=ok, read_from="innodb_log_group_home_dir")
        ]


class AttachedReach(Reaching):
    """To a server that already runs."""

    def __init__(self, config: Config, site: Site, facts: attached.ServerFacts) -> None:
        super().__init__(config, site)
        self._facts = facts

    @property
    def address(self) -> Address:
        return address_of(self.config.target)

    def connect_worker(self) -> Connection:
        connection = self.connect()
        attached.set_for_session(connection, self.config.target.settings)
        return connection

    def clients(self) -> Clients:
        return Clients(self._environment())

    def folder(self, own: Connection) -> Path:
        return attached.data_folder(own) or Path()

    @property
    def shows_files(self) -> bool:
        return self._facts.performance_schema

    def process(self, own: Connection) -> int | None:  # noqa: ARG002 - known
        return self._facts.pid

    @property
    def may_write_out(self) -> bool:
        return self._facts.may("RELOAD")

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:  # noqa: ARG002 - they are the session's
        asked = _texts(self.config.target.settings)
        return read_back.settings(worker, asked, asked)


def _texts(settings: Mapping[str, Scalar]) -> dict[str, str]:
    return {name: settings_text(value) for name, value in settings.items()}
