"""What a run does: a workload of one kind, and the amount of work in it.

`DatabaseLoad` holds what all database loads share; each kind holds the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field

from storagelab.model.values import Frozen, LeftOut

Unit = Literal["rows", "requests", "transactions", "ms"]
"""The units of work. A run of fixed length counts its progress in milliseconds."""


class Work(NamedTuple):
    """An amount of work."""

    amount: int
    unit: Unit


class DatabaseLoad(Frozen):
    """Connections that insert rows, each in a loop inside the server."""

    kind: str
    connections: int = Field(16, ge=1, le=4096, description="Sessions that insert rows at the same time.")
    rows_per_connection: int = Field(20_000, ge=1, le=10**10, description="Rows that each connection inserts.")
    rows_per_transaction: int = Field(
        1_000, ge=1, le=10**9, description="Rows that a connection inserts between two commits."
    )

    @property
    def rows(self) -> int:
        """Rows that one run inserts, over all connections."""
        return self.connections * self.rows_per_connection

    @property
    def reads_per_row(self) -> float:
        """Point reads for each inserted row."""
        return 0.0

    @property
    def work(self) -> Work:
        """The work of one run."""
        return Work(amount=self.rows, unit="rows")


class RandomInsert(DatabaseLoad):
    """Inserts rows of about 180 bytes with random 16-byte keys."""

    kind: Literal["random-insert"] = "random-insert"


class SequentialInsert(DatabaseLoad):
    """Inserts rows with ascending keys; each row takes a page of its own."""

    kind: Literal["sequential-insert"] = "sequential-insert"


class Mixed(DatabaseLoad):
    """Inserts rows with random keys, with point reads between them."""

    kind: Literal["mixed"] = "mixed"
    read_fraction: float = Field(
        ge=0,
        le=0.99,
        description="The share of point reads among all operations. A connection reads random rows that it inserted itself.",
        examples=[0.5],
    )

    @property
    def reads_per_row(self) -> float:
        return self.read_fraction / (1 - self.read_fraction)


class RawIo(Frozen):
    """Requests of one size to one volume, without a database."""

    kind: Literal["raw-io"] = "raw-io"
    operation: Literal["read", "write", "mixed"] = Field(
        description="What each request does. Mixed: it reads or writes, at random. Simulated drives take no mix."
    )
    read_fraction: Annotated[Annotated[float, Field(ge=0, le=0.99, examples=[0.5])] | None, LeftOut("0.5")] = Field(
        None, description="Mixed requests only: the share of reads."
    )
    pattern: Literal["random", "sequential"] = Field(
        description="Random: anywhere, aligned to blocks. Sequential: one after the other, each thread in a part of its own."
    )
    block_bytes: int = Field(
        ge=512, le=2**30, description="Size of a request, in whole sectors of 512 bytes.", examples=[8192]
    )
    threads: int = Field(1, ge=1, le=1024, description="Threads that send requests.")
    outstanding: int = Field(1, ge=1, le=1024, description="Requests that each thread keeps in progress.")
    duration_s: float = Field(60.0, ge=0.001, lt=1e6, description="Length of a run, including the warm-up.")
    warm_up_s: float = Field(0.0, ge=0, lt=1e6, description="Time at the beginning of a run that is not counted.")

    @property
    def work(self) -> Work:
        """How long one run must last."""
        return Work(amount=max(1, round(self.duration_s * 1000)), unit="ms")


_Member = RandomInsert | SequentialInsert | Mixed | RawIo
KINDS: dict[str, type[_Member]] = {member.model_fields["kind"].default: member for member in get_args(_Member)}
"""Each kind of workload, by its name in a spec."""


def _with_kind(workload: object) -> object:
    """Adds the default kind, random inserts, to a table that names none."""
    return {"kind": "random-insert", **workload} if isinstance(workload, Mapping) else workload


Workload = Annotated[_Member, Field(discriminator="kind"), BeforeValidator(_with_kind)]
"""A workload, selected by its kind."""
