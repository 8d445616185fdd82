"""What a run does: a workload of one kind, and the amount of work in it.

`DatabaseLoad` holds what all database loads share, `InsertLoad` and `GeneratedLoad` what the loads share that insert rows or
that a generator sends; each kind holds the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field

from storagelab.model.values import Frozen, LeftOut

Unit = Literal["rows", "requests", "transactions", "ms"]
"""The units of work. A run of fixed length counts its progress in milliseconds."""


_WARM_UP_DURATIONS, _LEAST_LIMIT_S = 5, 60.0
"""A warm-up that is to be found may take this many times the counted part, and at least this time."""


class Work(NamedTuple):
    """An amount of work."""

    amount: int
    unit: Unit


def _as_tuple(value: object) -> object:
    """A list as a tuple: below a union, pydantic's strict mode forgets that JSON has only lists."""
    return tuple(value) if isinstance(value, list) else value


class DatabaseLoad(Frozen):
    """A load of several connections on a database."""

    generated: ClassVar[bool] = False
    """Whether a load generator sends its transactions."""
    module: ClassVar[str]
    """The module in an engine's folder `loads` that makes its tables."""
    kind: str
    connections: int = Field(16, ge=1, le=4096, description="Sessions that work at the same time.")


class InsertLoad(DatabaseLoad):
    """Connections that insert rows, each in a loop inside the server."""

    module = "inserts"
    page_a_row: ClassVar[bool] = False
    """Whether each row takes a page of its own."""
    with_reads: ClassVar[bool] = False
    """Whether connections read rows between their inserts."""
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
    read_fraction: float = Field(
        ge=0,
        le=0.99,
        description="The share of point reads among all operations. A connection reads random rows that it inserted itself.",
        examples=[0.5],
    )

    @property
    def reads_per_row(self) -> float:
        return self.read_fraction / (1 - self.read_fraction)


class GeneratedLoad(DatabaseLoad):
    """Transactions that a load generator sends, for a set time or in a set number."""

    generated = True
    own_database: ClassVar[bool] = False
    """Whether it needs a database of its own on a server that already runs, because it makes whatever it likes."""
    threads: int = Field(1, ge=1, le=1024, description="Threads of the generator, which share its connections.")
    duration_s: float = Field(
        60.0,
        ge=0.001,
        lt=1e6,
        description="Length of the part of a run that counts. A warm-up comes before it.",
    )
    warm_up_s: Annotated[float, Field(ge=0, lt=1e6)] | Literal["auto"] = Field(
        0.0,
        description="Time in which the generator works already, but nothing counts yet. pgbench and sql loads also take "
        '`"auto"`: until throughput has no trend any more, for at least 10 s. A run that never settles is `unverified`.',
    )
    warm_up_at_most_s: Annotated[
        Annotated[float, Field(ge=10, lt=1e6, examples=[600])] | None, LeftOut("5 x `duration`, at least 60 s")
    ] = Field(None, description='With `warm_up = "auto"`: the run begins to count after this time, settled or not.')
    transactions_per_connection: Annotated[int | None, LeftOut("a set time instead")] = Field(
        None,
        ge=1,
        le=10**10,
        description="Transactions of each connection, instead of a set time. All of them count.",
    )
    rate: Annotated[float | None, LeftOut("as fast as it goes")] = Field(
        None,
        gt=0,
        le=1e9,
        description="Transactions a second that the generator begins, over all connections, at random moments whether or not "
        "earlier ones are done. Latency then counts from the moment for which a transaction was scheduled, so that a "
        "standstill counts. A run that falls behind its rate is `unverified`.",
    )

    @property
    def longest_warm_up_s(self) -> float:
        """How long the warm-up may take; it takes exactly that if it is not to be found."""
        if self.warm_up_s != "auto":
            return self.warm_up_s
        return self.warm_up_at_most_s or max(_WARM_UP_DURATIONS * self.duration_s, _LEAST_LIMIT_S)

    @property
    def work(self) -> Work:
        """The work of one run."""
        if self.transactions_per_connection is not None:
            return Work(amount=self.connections * self.transactions_per_connection, unit="transactions")
        return Work(amount=max(1, round(self.duration_s * 1000)), unit="ms")


class Pgbench(GeneratedLoad):
    """PostgreSQL's own load generator: its TPC-B-like transactions, or scripts of your own on its tables."""

    module = "pgbench"
    kind: Literal["pgbench"] = "pgbench"
    scale: int = Field(
        1, ge=1, le=100_000, description="The size of pgbench's tables: 100,000 accounts, 15 MB, for each."
    )
    scripts: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        ("tpcb-like",),
        description="What transactions do: `tpcb-like`, `simple-update`, `select-only`, or files of pgbench's own language, "
        'each with its weight after @, as in `["select-only@9", "order.sql@1"]`. Relative files start at the spec\'s folder.',
    )
    latency_limit_s: Annotated[float | None, LeftOut("none are skipped")] = Field(
        None,
        gt=0,
        lt=1e6,
        description="With a rate: transactions that would begin later than this after their moment are skipped, and counted.",
    )
    protocol: Literal["simple", "extended", "prepared"] = Field(
        "simple", description="How queries reach the server, as pgbench's option of that name."
    )
    fillfactor: int = Field(
        100, ge=10, le=100, description="Share of a table's page that is filled at first, in per cent."
    )
    partitions: Annotated[int | None, LeftOut("one for each data file; none for one data file")] = Field(
        None, ge=1, le=1024, description="Hash partitions of pgbench_accounts. They go round robin over the data files."
    )


class WeightedFile(Frozen):
    """A file with one kind of transaction, and how often it is picked against the others."""

    file: str = Field(
        min_length=1,
        description="A file of SQL, as pgbench runs it; a relative path starts at the spec's folder. On MariaDB, where "
        "sysbench runs it, only `\\set NAME random(LEAST, MOST)` and `\\set NAME NUMBER` may stand in it besides SQL.",
    )
    weight: int = Field(1, ge=1, le=10**9, description="How often it is picked against the others.")


class Sql(GeneratedLoad):
    """Your own database and your own transactions: on PostgreSQL run by pgbench, on MariaDB by sysbench."""

    module = "sql"
    own_database = True
    kind: Literal["sql"] = "sql"
    setup: Annotated[tuple[str, ...], BeforeValidator(_as_tuple)] = Field(
        (),
        description="Files of SQL that make and fill the tables, run by psql or mariadb in this order.",
        examples=[["schema.sql"]],
    )
    restore: Annotated[str | None, LeftOut("nothing is restored")] = Field(
        None,
        min_length=1,
        description="A dump to restore before `setup`: of pg_dump in its custom, directory or tar format or as SQL, or of "
        "mariadb-dump.",
    )
    transactions: Annotated[tuple[WeightedFile, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = Field(
        description="What transactions do: files of SQL, as pgbench runs them, with weights.",
        examples=[[{"file": "order.sql", "weight": 9}]],
    )
    protocol: Literal["simple", "extended", "prepared"] = Field(
        "simple", description="How queries reach the server, as pgbench's option of that name. PostgreSQL only."
    )
    latency_limit_s: Annotated[float | None, LeftOut("none are skipped")] = Field(
        None,
        gt=0,
        lt=1e6,
        description="With a rate: transactions that would begin later than this after their moment are skipped, and counted. "
        "PostgreSQL only.",
    )


class Sysbench(GeneratedLoad):
    """sysbench: its OLTP transactions, or a Lua script of your own, on PostgreSQL or MariaDB."""

    module = "sysbench"
    kind: Literal["sysbench"] = "sysbench"
    script: str = Field(
        "oltp_read_write",
        min_length=1,
        description="What transactions do: `oltp_read_write`, `oltp_read_only`, `oltp_write_only`, `oltp_point_select`, "
        "`oltp_insert` or another of sysbench's own, or a Lua file. A relative file starts at the spec's folder.",
    )
    tables: int = Field(1, ge=1, le=1024, description="Number of tables.")
    table_size: int = Field(10_000, ge=1, le=10**10, description="Rows of each table.")


class RawIo(Frozen):
    """Requests of one size to one volume, without a database."""

    generated: ClassVar[bool] = False
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


_Member = RandomInsert | SequentialInsert | Mixed | Pgbench | Sysbench | Sql | RawIo
KINDS: dict[str, type[_Member]] = {member.model_fields["kind"].default: member for member in get_args(_Member)}
"""Each kind of workload, by its name in a spec."""


def _with_kind(workload: object) -> object:
    """Adds the default kind, random inserts, to a table that names none."""
    return {"kind": "random-insert", **workload} if isinstance(workload, Mapping) else workload


Workload = Annotated[_Member, Field(discriminator="kind"), BeforeValidator(_with_kind)]
"""A workload, selected by its kind."""
