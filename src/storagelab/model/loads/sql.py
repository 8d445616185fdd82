"""The user's own database and transactions. pgbench runs the transactions on PostgreSQL, and sysbench runs them on
MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BeforeValidator, Field

from storagelab.errors import SpecError
from storagelab.model.engines import taking
from storagelab.model.loads.base import Data, GeneratedLoad, Rule, as_tuple, broken
from storagelab.model.loads.sysbench import NOTHING_SPREAD, whole_seconds
from storagelab.model.values import Described, LeftOut

if TYPE_CHECKING:
    from storagelab.model.config import Config


class WeightedFile(Described):
    """A file with one kind of transaction. Its weight says how often it is chosen relative to the others."""

    file: str = Field(min_length=1)
    r"""A file of SQL, as pgbench runs it; a relative path starts at the spec's folder. On MariaDB, where sysbench
    runs it, the only other lines allowed are `\set NAME random(LEAST, MOST)` and `\set NAME NUMBER`.
    """
    weight: int = Field(1, ge=1, le=10**9)
    """How often the file is chosen relative to the others."""


class Sql(GeneratedLoad):
    """Your own database and your own transactions. pgbench runs the transactions on PostgreSQL, and sysbench runs them
    on MariaDB.
    """

    module, engines = "sql", taking("sysbench")
    rules = (
        Rule("workload.setup", lambda config: not config.workload.setup and config.workload.restore is None,
             "is missing: nothing makes the tables", 'setup = ["schema.sql"], or restore.'),
    )  # fmt: skip
    less_data = "let workload.setup and workload.restore make less"
    own_database = True
    kind: Literal["sql"] = "sql"
    setup: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = Field((), examples=[["schema.sql"]])
    """SQL files that make and fill the tables. psql or mariadb runs them in this order."""
    restore: Annotated[str | None, LeftOut("nothing is restored")] = Field(None, min_length=1)
    """A dump that is restored before `setup` runs. It comes from pg_dump (in its custom, directory or tar format, or as
    SQL) or from mariadb-dump.
    """
    transactions: Annotated[tuple[WeightedFile, ...], BeforeValidator(as_tuple), Field(min_length=1)] = Field(
        examples=[[{"file": "order.sql", "weight": 9}]]
    )
    """The transactions: SQL files in pgbench's form, with weights."""
    protocol: Literal["simple", "extended", "prepared"] = "simple"
    """How queries reach the server. The values are those of pgbench's option `--protocol`. PostgreSQL only."""
    latency_limit_s: Annotated[float | None, LeftOut("none are skipped")] = Field(None, gt=0, lt=1e6)
    """With a rate: if a transaction would begin later than this after its scheduled moment, it is skipped, and counted
    as skipped. PostgreSQL only.
    """

    @property
    def own_files(self) -> tuple[tuple[str, str], ...]:
        files = [("workload.setup", name) for name in self.setup]
        files += [("workload.transactions", one.file) for one in self.transactions]
        return tuple(files + ([("workload.restore", self.restore)] if self.restore is not None else []))

    @property
    def data(self) -> Data:
        return Data(None, "your files make")

    def _own_conflicts(self, config: Config) -> Iterator[SpecError]:
        if "pgbench" not in config.kind.generators:
            yield from whole_seconds(self)
            yield from broken(config, _BY_SYSBENCH)
        yield from broken(config, NOTHING_SPREAD)


_BY_SYSBENCH = tuple(
    Rule(f"workload.{name}", lambda config, name=name: name in config.workload.model_fields_set,
         "is for pgbench, which knows postgres only", "Leave it out: sysbench runs the transactions.")
    for name in ("protocol", "latency_limit_s")
)  # fmt: skip
