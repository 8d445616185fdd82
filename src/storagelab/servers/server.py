"""The server of one run: a private server, a private server with a template's data, or an attached server.

`open` connects to it or prepares to start it, `prepare` makes the run's data, `close` removes everything that was made.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic

from storagelab.errors import RunFailed
from storagelab.machine.processes import until
from storagelab.model.objects import TEMPORARY
from storagelab.model.plan import wants_template
from storagelab.servers.attached import hidden
from storagelab.servers.interfaces import C, Reach, System
from storagelab.servers.private import PrivateServer
from storagelab.servers.templates import Restoration, Template

_RECOVERY_S = 20.0
"""How long to wait, in seconds, for an attached server that restarts after a crash."""
_DIES_WITHIN_S = 1.0


class Server(ABC, Generic[C]):
    """The server of one run, and storagelab's own connection to it."""

    how: ClassVar[str]
    origin = ""
    """Where the server's programs were found, if storagelab started the server."""
    elsewhere = False
    """Whether the server runs on another machine."""
    restored: Restoration | None = None
    """The copy of a template, if the run began with one."""
    reach: Reach[C]

    def __init__(self, system: System[C]) -> None:
        self.system = system
        self._own: C | None = None

    @property
    def own(self) -> C:
        assert self._own is not None, "the server is not open"
        return self._own

    @abstractmethod
    def open(self) -> None: ...

    def prepare(self) -> None:
        self.system.layout.make(self.own, self.reach)

    @abstractmethod
    def close(self) -> None:
        """Closes the connection and the server, even if they were only partly set up. Raises RunFailed if something
        could not be removed.
        """

    def _connect(self) -> None:
        self._own = self.reach.connect()

    def _disconnect(self) -> None:
        connection, self._own = self._own, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the server may have ended
                connection.close()

    def volumes(self) -> Mapping[str, Path]:
        """The volumes whose drives are observed."""
        return self.system.volumes

    def refuse_if_dead(self) -> None:
        """Raises RunFailed if the server has ended, because some sessions may not have noticed that."""

    def with_log(self, words: str) -> str:
        """The message, and the server's log if a connection was lost, because the log says why."""
        return words

    def whole_log(self) -> tuple[str, Path | None]:
        """The text of the server's log, and the server's data folder. "" and None if storagelab can't read them."""
        return "", None


class Private(Server[C]):
    """A server that storagelab makes for the run, with a new database."""

    how = "private"
    process: PrivateServer[Any] | None = None

    def open(self) -> None:
        self.system.folders.make()
        self.process = self._made()
        system = self.system
        self.reach = system.private_reach(system.config, system.site, server=self.process, expected=self._expected)

    def _made(self) -> PrivateServer[Any]:
        config, starter, folders = self.system.config, self.system.starter, self.system.folders
        assert config.log_volume is not None
        programs, settings = starter.programs(config, self.system.site), starter.settings(config)
        self.origin, self._expected = programs.origin, starter.check(programs, settings)
        temporary = config.placed.get(TEMPORARY)
        server: PrivateServer[Any] = starter.server(
            programs, data_folder=folders[config.data_volumes[0]] / "server",
            log_folder=folders[config.log_volume] / "log", settings=settings, volumes=folders.paths,
            temporary_folder=None if temporary is None else folders[temporary] / TEMPORARY, waits=config.measure.waits,
        )  # fmt: skip
        return server

    @property
    def running(self) -> PrivateServer[Any]:
        assert self.process is not None, "the server is not open"
        return self.process

    def prepare(self) -> None:
        self.running.start()
        self.system.layout.make_folders()
        self._connect()
        super().prepare()

    def close(self) -> None:
        with contextlib.ExitStack() as steps:  # all steps are made, even if one of them fails
            steps.callback(self.system.folders.remove)
            if self.process is not None:
                steps.callback(self.process.stop)
            steps.callback(self._disconnect)

    def refuse_if_dead(self) -> None:
        if self.running.died():
            raise RunFailed("the server has ended, so all connections are lost")

    def with_log(self, words: str) -> str:
        server = self.process
        if server is None or "connection" not in words.lower():
            return words
        if not until(server.died, _DIES_WITHIN_S) and not self.system.log_tells_of_sessions:
            return words
        how = f"it was {server.killed}; " if server.killed else ""
        died = f"the server died: {how}" if server.died() else ""
        return f"{died}{words}\nthe server's log says:\n{server.log_of_trouble()}"

    def whole_log(self) -> tuple[str, Path | None]:
        return self.running.log_tail(lines=10_000), self.running.data_folder


class FromTemplate(Private[C]):
    """A private server that begins with a copy of a template's files."""

    def prepare(self) -> None:
        template = Template(self.system.config, self.system.site)
        if not template.exists:
            super().prepare()
            self._disconnect()
            self.running.shut_down()
            template.keep()
        self.restored = template.restore()
        self.running.start_again()
        self._connect()


class AttachedServer(Server[C]):
    """A server that already runs on this machine or on another machine."""

    how = "attached"

    def open(self) -> None:
        self.system.meet()
        facts = self.system.facts
        self.elsewhere = not facts.on_this_machine
        self.reach = self.system.reach_attached()
        self.system.folders.remove()  # the previous run leaves them if it could not reach the server
        self.system.folders.make()
        self._make_folders(facts.process_owner)
        self._connect()

    def _make_folders(self, owner: tuple[int, int] | None) -> None:
        """Makes the folders of data files on the server's volumes. They belong to the server's account `owner`."""
        self.system.layout.make_folders(owner)

    def close(self) -> None:
        self._disconnect()
        if self.system.facts is None:  # it was never connected: the server may still use an earlier run's folders
            return
        self._drop()
        self.system.folders.remove()

    def _drop(self) -> None:
        """Drops what was made on the server. Raises RunFailed if that fails. Then the folders stay, because a server
        that loses its files may never start again.
        """
        system, deadline = self.system, time.monotonic() + _RECOVERY_S
        while True:
            try:
                return system.drop()
            except system.foreign_errors as error:
                if not system.is_away(error) or time.monotonic() > deadline:
                    words = hidden(next(iter(system.message_of(error).splitlines()), ""), system.config.target)
                    raise RunFailed(
                        f"can't drop what was made on the server: {words}; storagelab tries again before the next run"
                    ) from error
            time.sleep(0.2)

    def volumes(self) -> Mapping[str, Path]:
        """The spec's volumes. If the spec has none, and the server runs on this machine, returns the server's data
        folder if it is known.
        """
        if self.system.config.volumes or self.elsewhere:
            return self.system.volumes
        folder = self.system.data_folder(self.own)
        return {"server": folder} if folder is not None else {}


def server_of(system: System[C]) -> Server[C]:
    """The kind of server that the cell needs."""
    if system.config.target.attached:
        return AttachedServer(system)
    return FromTemplate(system) if wants_template(system.config) else Private(system)
