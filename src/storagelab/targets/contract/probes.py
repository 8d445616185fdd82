"""What the contract suite must know of an engine beyond the seam, by the engine's name."""

from __future__ import annotations

from typing import Protocol

from storagelab.errors import SpecError
from storagelab.model.config import TargetConfig
from storagelab.model.values import Scalar

ENGINES = {
    "mysql": "mariadb", "mariadb": "mariadb", "postgres": "postgres", "postgresql": "postgres",
    "mssql": "sqlserver", "sqlserver": "sqlserver",
}  # fmt: skip
"""The scheme of a DSN -> the engine."""


class Probe(Protocol):
    """A probe of one engine. `setting` is one that every login may change and that affects no run."""

    setting: tuple[str, Scalar]

    def inventory(self, target: TargetConfig) -> frozenset[str]:
        """Lists what a user could have made where storagelab makes things: kind, name and the server's own id."""
        ...

    def obstruct(self, target: TargetConfig, name: str) -> None:
        """Make something called `name` that is not storagelab's, as another user would."""
        ...

    def clear(self, target: TargetConfig, name: str) -> None:
        """Remove what `obstruct` made."""
        ...


def probe_of(engine: str) -> Probe:
    """The engine's probe. It is imported only now, since the engine's driver may be absent."""
    if engine == "sqlserver":
        from storagelab.targets.sqlserver.probe import SqlServerProbe

        return SqlServerProbe()
    if engine == "mariadb":
        from storagelab.targets.mariadb.probe import MariaDBProbe

        return MariaDBProbe()
    from storagelab.targets.postgres.probe import PostgresProbe

    return PostgresProbe()


def engine_of(dsn: str) -> str:
    """The engine of a DSN, by its scheme; libpq's `host=... dbname=...` is PostgreSQL's. Raises SpecError."""
    scheme, colon, _ = dsn.partition("://")
    if not colon and "=" in dsn:
        return "postgres"
    if scheme.lower() in ENGINES and colon:
        return ENGINES[scheme.lower()]
    # The text may be a password, so it is not shown.
    known = ", ".join(f"{name}://" for name in ENGINES)
    raise SpecError(
        "is not the DSN of an engine that storagelab can attach to",
        key="--target",
        hint=f"It begins with one of {known}; or name an environment variable that holds it.",
    )
