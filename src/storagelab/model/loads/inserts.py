"""Connections that insert rows into the articles' table, each in a loop inside the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from storagelab.errors import SpecError
from storagelab.model.loads.base import DatabaseLoad, Work

if TYPE_CHECKING:
    from storagelab.model.config import Config


class InsertLoad(DatabaseLoad):
    """Connections that insert rows, each in a loop inside the server."""

    module = "inserts"
    with_reads: ClassVar[bool] = False
    """Whether connections read rows between their inserts."""
    rows_per_connection: int = Field(20_000, ge=1, le=10**10)
    """Rows that each connection inserts."""
    rows_per_transaction: int = Field(1_000, ge=1, le=10**9)
    """Rows that a connection inserts between two commits."""

    @property
    def rows(self) -> int:
        """Rows that one run inserts, over all connections."""
        return self.connections * self.rows_per_connection

    @property
    def reads_per_row(self) -> float:
        """Point reads for each inserted row."""
        return 0.0

    @property
    def inserts(self) -> tuple[str, float] | None:
        return self.kind, self.reads_per_row

    @property
    def work(self) -> Work:
        return Work(amount=self.rows, unit="rows")

    def conflicts(self, config: Config) -> Iterator[SpecError]:  # noqa: ARG002 - they are its own
        said = "rows_per_transaction" in self.model_fields_set
        if said and self.rows_per_transaction > self.rows_per_connection:
            yield SpecError(
                f"{self.rows_per_transaction} is more than the {self.rows_per_connection} rows of a connection",
                key="workload.rows_per_transaction",
                hint="Raise workload.rows_per_connection, or lower this to at most that.",
            )


class RandomInsert(InsertLoad):
    """Inserts rows of about 180 bytes with random 16-byte keys."""

    kind: Literal["random-insert"] = "random-insert"


class SequentialInsert(InsertLoad):
    """Inserts rows with ascending keys; each row takes a page of its own."""

    page_a_row = True
    kind: Literal["sequential-insert"] = "sequential-insert"


class Mixed(InsertLoad):
    """Inserts rows with random keys, with point reads between them."""

    with_reads = True
    kind: Literal["mixed"] = "mixed"
    read_fraction: float = Field(ge=0, le=0.99, examples=[0.5])
    """The share of point reads among all operations. A connection reads random rows that it inserted itself."""

    @property
    def reads_per_row(self) -> float:
        return self.read_fraction / (1 - self.read_fraction)
