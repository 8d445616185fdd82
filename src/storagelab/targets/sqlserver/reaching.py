"""How sessions get to a SQL Server that already runs."""

from __future__ import annotations

from dataclasses import replace

from storagelab.model.measurement import Check
from storagelab.targets.parts import Reach
from storagelab.targets.sqlserver.connecting import Session, address_of, connect


class Reaching(Reach[Session]):
    """Sessions of a load work in storagelab's own database."""

    def connect(self) -> Session:
        return connect(self.config.target)

    def connect_worker(self) -> Session:
        return self.connect_to_own("storagelab worker")

    def connect_to_own(self, application: str) -> Session:
        return Session(replace(address_of(self.config.target), database=self.site.prefix), application)

    def check_settings(self, own: Session, worker: Session) -> list[Check]:  # noqa: ARG002 - they are the database's
        from storagelab.targets.sqlserver import read_back  # it stands on what this module offers

        return read_back.settings(own, self.config, self.site.prefix)
