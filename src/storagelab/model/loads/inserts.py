"""Connections that insert rows into the table of the articles. The loop of each connection runs inside the server."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from storagelab.model.loads.base import DatabaseLoad, Rule, Work


class InsertLoad(DatabaseLoad):
    """Connections that insert rows. The loop of each connection runs inside the server."""

    module = "inserts"
    with_reads: ClassVar[bool] = False
    """Whether connections also read rows between their inserts."""
    rules = (
        Rule("workload.rows_per_transaction",
             lambda config: "rows_per_transaction" in config.workload.model_fields_set
             and config.workload.rows_per_transaction > config.workload.rows_per_connection,
             "{load.rows_per_transaction} is more than the {load.rows_per_connection} rows of a connection",
             "Raise workload.rows_per_connection, or lower this to at most that."),
    )  # fmt: skip
    rows_per_connection: int = Field(20_000, ge=1, le=10**10)
    """The number of rows that each connection inserts."""
    rows_per_transaction: int = Field(1_000, ge=1, le=10**9)
    """The number of rows that a connection inserts between two commits."""

    @property
    def rows(self) -> int:
        """The number of rows that one run inserts, over all connections."""
        return self.connections * self.rows_per_connection

    @property
    def reads_per_row(self) -> float:
        """The number of point reads for each inserted row."""
        return 0.0

    @property
    def commits_in_turn(self) -> int:
        return -(-self.rows_per_connection // self.rows_per_transaction)

    @property
    def inserts(self) -> tuple[str, float] | None:
        return self.kind, self.reads_per_row

    @property
    def work(self) -> Work:
        return Work(amount=self.rows, unit="rows")


class RandomInsert(InsertLoad):
    """Inserts rows of about 180 bytes with random 16-byte keys."""

    kind: Literal["random-insert"] = "random-insert"


class SequentialInsert(InsertLoad):
    """Inserts rows with ascending keys. Each row fills a page of its own."""

    page_a_row = True
    kind: Literal["sequential-insert"] = "sequential-insert"


class Mixed(InsertLoad):
    """Inserts rows with random keys, and makes point reads between the inserts."""

    with_reads = True
    kind: Literal["mixed"] = "mixed"
    read_fraction: float = Field(ge=0, le=0.99, examples=[0.5])
    """The share of point reads among all operations. A connection reads random rows that it inserted itself."""

    @property
    def reads_per_row(self) -> float:
        return self.read_fraction / (1 - self.read_fraction)
