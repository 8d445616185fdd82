"""What the contract suite asks of a SQL Server: what is there, and something in the way."""

from __future__ import annotations

from storagelab.errors import PreflightError
from storagelab.model.config import TargetConfig
from storagelab.model.values import Scalar
from storagelab.targets.sqlserver import tsql
from storagelab.targets.sqlserver.connecting import DriverError, connect, key_of, words
from storagelab.targets.sqlserver.layout import exists

INVENTORY = """
SELECT N'database ' + name + N' (' + CAST(database_id AS nvarchar(10)) + N', made ' +
       CONVERT(nvarchar(30), create_date, 126) + N')'
FROM sys.databases WHERE name <> N'tempdb'"""


class SqlServerProbe:
    """See `contract.probes.Probe`. A database of a stranger has files that the server names after it."""

    setting: tuple[str, Scalar] = ("page_verify", "checksum")

    def inventory(self, target: TargetConfig) -> frozenset[str]:
        session = connect(target, database="master")
        try:
            return frozenset(str(name) for (name,) in session.rows(INVENTORY))
        except DriverError as error:
            raise _said(target, error) from error
        finally:
            session.close()

    def obstruct(self, target: TargetConfig, name: str) -> None:
        self._execute(target, f"CREATE DATABASE {tsql.identifier(name)}", name, there=False)

    def clear(self, target: TargetConfig, name: str) -> None:
        self._execute(target, f"DROP DATABASE {tsql.identifier(name)}", name, there=True)

    def _execute(self, target: TargetConfig, statement: str, name: str, *, there: bool) -> None:
        """If the database is there, or is not, as it should be: making it twice or dropping nothing is an error."""
        session = connect(target, database="master")
        try:
            if exists(session, name) == there:
                session.execute(statement)
        except DriverError as error:
            raise _said(target, error) from error
        finally:
            session.close()


def _said(target: TargetConfig, error: BaseException) -> PreflightError:
    return PreflightError(f"the server says: {words(error)}", key=key_of(target))
