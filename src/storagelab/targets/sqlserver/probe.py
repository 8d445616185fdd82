"""Lists what is on a SQL Server, and puts something in the way, for the contract suite."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.model.values import Scalar
from storagelab.targets.attaching import key_of
from storagelab.targets.sqlserver import tsql
from storagelab.targets.sqlserver.connecting import DriverError, Session, connect, words_of
from storagelab.targets.sqlserver.layout import exists

INVENTORY = """
SELECT N'database ' + name + N' (' + CAST(database_id AS nvarchar(10)) + N', made ' +
       CONVERT(nvarchar(30), create_date, 126) + N')'
FROM sys.databases WHERE name <> N'tempdb'"""


class SqlServerProbe:
    """Implements `contract.probes.Probe`. The server names the files of another user's database after that database."""

    setting: tuple[str, Scalar] = ("page_verify", "checksum")

    def inventory(self, target: TargetConfig) -> frozenset[str]:
        with _asking(target) as session:
            return frozenset(str(name) for (name,) in session.rows(INVENTORY))

    def obstruct(self, target: TargetConfig, name: str) -> None:
        self._execute(target, f"CREATE DATABASE {tsql.identifier(name)}", name, there=False)

    def clear(self, target: TargetConfig, name: str) -> None:
        self._execute(target, f"DROP DATABASE {tsql.identifier(name)}", name, there=True)

    def _execute(self, target: TargetConfig, statement: str, name: str, *, there: bool) -> None:
        """Run it if the database is there, or is not, as required: making it twice or dropping nothing is an error."""
        with _asking(target) as session:
            if exists(session, name) == there:
                session.execute(statement)


@contextlib.contextmanager
def _asking(target: TargetConfig) -> Iterator[Session]:
    with connect(target, database="master") as session:
        try:
            yield session
        except DriverError as error:
            raise PreflightError(f"the server says: {words_of(error)}", key=key_of(target)) from error
