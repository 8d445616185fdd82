"""How sessions and client programs get to one PostgreSQL: a private one, or one that already runs."""

from __future__ import annotations

import contextlib
import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from storagelab.machine.procfs import TaskView
from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets import Site
from storagelab.targets.generators import programs
from storagelab.targets.generators.programs import Clients
from storagelab.targets.parts import Reach
from storagelab.targets.postgres import clients, connecting, read_back
from storagelab.targets.postgres.attached import ServerFacts
from storagelab.targets.postgres.connecting import Connection
from storagelab.targets.postgres.server import Server
from storagelab.targets.postgres.settings import private_settings, settings_text
from storagelab.targets.programs import installation
from storagelab.targets.steps import check_same


class Reaching(Reach[Connection]):
    """How to get to one server. `kernel_view`: this machine's kernel can be asked about its sessions."""

    kernel_view: bool

    @abstractmethod
    def _connect(self, application_name: str) -> Connection: ...

    def connect(self, application_name: str = "storagelab") -> Connection:
        connection = self._connect(application_name)
        connection.prepare_threshold = None
        return connection

    @abstractmethod
    def clients(self, settings: Mapping[str, str]) -> Clients:
        """Client programs, whose sessions have these settings."""

    def process(self, own: Connection) -> int | None:
        if not self.kernel_view:
            return None
        with contextlib.closing(TaskView(own.info.backend_pid)) as session:
            return session.parent()


class PrivateReach(Reaching):
    """To a private server; `expected` are the settings as its own parser reads them."""

    def __init__(self, config: Config, site: Site, server: Server, expected: Mapping[str, str]) -> None:
        super().__init__(config, site)
        self._server, self._expected = server, expected
        self.kernel_view = Path("/proc/self/schedstat").exists()

    def _connect(self, application_name: str) -> Connection:
        return connecting.connect_private(self._server.conninfo, autocommit=True, application_name=application_name)

    def connect_worker(self) -> Connection:
        return self.connect("storagelab 0")

    def clients(self, settings: Mapping[str, str]) -> Clients:
        conninfo, folder = self._server.conninfo, self._server.programs.folder
        socket = Path(str(psycopg.conninfo.conninfo_to_dict(conninfo)["host"]))
        environment = clients.reaching(conninfo, settings, private=True)
        return programs.of_private(environment, folder, *installation(folder / "postgres"), socket)

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:  # noqa: ARG002 - they are the server's
        asked = {name: settings_text(value) for name, value in private_settings(self.config).items()}
        return read_back.settings(own, asked, self._expected)

    def check_log_place(self, own: Connection) -> list[Check]:  # noqa: ARG002 - the file system tells
        got = os.path.realpath(self._server.data_folder / "pg_wal")
        return [check_same("place of the log", str(self._server.log_folder), got, "pg_wal on the file system")]


class AttachedReach(Reaching):
    """To a server that already runs; `database` is the load's own there, if it has one."""

    def __init__(self, config: Config, site: Site, facts: ServerFacts, database: str = "") -> None:
        super().__init__(config, site)
        self.database, self._facts = database, facts
        self.kernel_view = facts.on_this_machine
        self._asked = {name: settings_text(value) for name, value in config.target.settings.items()}

    @property
    def _conninfo(self) -> str:
        text = connecting.conninfo(self.config.target)
        return psycopg.conninfo.make_conninfo(text, dbname=self.database) if self.database else text

    def _connect(self, application_name: str) -> Connection:
        options: dict[str, Any] = {"autocommit": True, "application_name": application_name}
        return psycopg.connect(self._conninfo, **options)

    def connect_worker(self) -> Connection:
        connection = self.connect("storagelab 0")
        for name, value in self._asked.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        return connection

    def clients(self, settings: Mapping[str, str]) -> Clients:
        return Clients(clients.reaching(self._conninfo, {**self._asked, **settings}, private=False))

    @property
    def may_write_out(self) -> bool:
        return self._facts.may_checkpoint

    def check_settings(self, own: Connection, worker: Connection) -> list[Check]:  # noqa: ARG002 - they are the session's
        return read_back.session_settings(worker, self._asked)
