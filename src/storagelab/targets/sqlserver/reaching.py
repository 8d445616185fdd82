"""How sessions get to a SQL Server that already runs."""

from __future__ import annotations

from dataclasses import replace

from storagelab.model.config import Config
from storagelab.model.measurement import Check
from storagelab.targets.parts import Reach
from storagelab.targets.sqlserver.connecting import Session, address_of, connect


class Reaching(Reach[Session]):
    """`database` is storagelab's own."""

    def __init__(self, config: Config, database: str) -> None:
        self._config, self._database = config, database

    def connect(self) -> Session:
        return connect(self._config.target)

    def connect_worker(self) -> Session:
        return self.connect_to_own("storagelab worker")

    def connect_to_own(self, application: str) -> Session:
        return Session(replace(address_of(self._config.target), database=self._database), application)

    def check_settings(self, own: Session, worker: Session) -> list[Check]:  # noqa: ARG002 - they are the database's
        from storagelab.targets.sqlserver import read_back  # it stands on what this module offers

        return read_back.settings(own, self._config, self._database)
