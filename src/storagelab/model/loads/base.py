"""What all loads have: the amount of work of a run, what connects them to engines, and their rules.

A load is one file of this folder: its keys, its rules between keys, and its words. An engine has a module of the same name in
its folder `loads`, which makes the load's tables and says who works on them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import Field

from storagelab.errors import SpecError
from storagelab.model.values import Described, LeftOut

if TYPE_CHECKING:
    from storagelab.model.config import Config

Unit = Literal["rows", "requests", "transactions", "ms"]
"""The units of work. A run of fixed length counts its progress in milliseconds."""

_WARM_UP_DURATIONS, _LEAST_LIMIT_S = 5, 60.0
"""A warm-up that is to be found may take this many times the counted part, and at least this time."""


class Work(NamedTuple):
    """An amount of work."""

    amount: int
    unit: Unit


class Data(NamedTuple):
    """How much data a load makes before a run. `units` of it have the size that the engine's module says; None where the
    user's own files make it. `text` says how much, or who makes it."""

    units: float | None
    text: str


def as_tuple(value: object) -> object:
    """A list as a tuple: below a union, pydantic's strict mode forgets that JSON has only lists."""
    return tuple(value) if isinstance(value, list) else value


class Load(Described, ABC):
    """What a run does."""

    kind: str
    engines: ClassVar[tuple[str, ...]] = ()
    """The engines that it is for; empty for every database."""
    module: ClassVar[str]
    """The module in an engine's folder `loads` that makes its tables."""
    generated: ClassVar[bool] = False
    """Whether a load generator sends its transactions."""
    raw_io: ClassVar[bool] = False
    """Whether it sends requests to a volume, without a database."""
    page_a_row: ClassVar[bool] = False
    """Whether each row takes a page of its own."""
    less_data: ClassVar[str] = "lower workload.rows_per_connection"
    """How to make it take less space."""
    of_runs: ClassVar[tuple[str, ...]] = ()
    """Its keys that say what a run does with its data, and nothing about the data."""
    rows_made_per_s: ClassVar[int] = 1
    """How many of the rows that it finds are made in a second."""

    @property
    @abstractmethod
    def work(self) -> Work:
        """The work of one run."""

    @property
    def sessions(self) -> int:
        """The server's sessions that work for it."""
        return 0

    @property
    def rows_made(self) -> int:
        """The rows that are made before a run; 0 where that is not known."""
        return 0

    @property
    def longest_s(self) -> float | None:
        """The time of a run and its warm-up at most, if that is set."""
        return None

    @property
    def warm_up_is_found(self) -> bool:
        """Whether the warm-up lasts until throughput has settled."""
        return False

    @property
    def without_rate(self) -> bool:
        """Whether transactions of a generator begin as soon as a session is free."""
        return False

    @property
    def inserts(self) -> tuple[str, float] | None:
        """What distinguishes loads that insert rows: cells that differ in it do different work."""
        return None

    @abstractmethod
    def conflicts(self, config: Config) -> Iterator[SpecError]:
        """What contradicts itself in a cell with this load."""


L = TypeVar("L", bound=Load)


def of_class(load: Load, wanted: type[L]) -> L:
    """The load of a cell that is known to have one of this class."""
    assert isinstance(load, wanted), f"{load.kind} is no {wanted.__name__}"
    return load


class DatabaseLoad(Load):
    """A load of several connections on a database."""

    connections: int = Field(16, ge=1, le=4096)
    """Sessions that work at the same time."""

    @property
    def sessions(self) -> int:
        return self.connections


class GeneratedLoad(DatabaseLoad):
    """Transactions that a load generator sends, for a set time or in a set number."""

    generated = True
    of_runs = (
        "connections", "threads", "duration_s", "warm_up_s", "warm_up_at_most_s", "transactions_per_connection", "rate",
        "latency_limit_s", "protocol", "scripts", "transactions",
    )  # fmt: skip
    own_database: ClassVar[bool] = False
    """Whether it needs a database of its own on a server that already runs, because it makes whatever it likes."""
    threads: int = Field(1, ge=1, le=1024)
    """Threads of the generator, which share its connections."""
    duration_s: float = Field(60.0, ge=0.001, lt=1e6)
    """Length of the part of a run that counts. A warm-up comes before it."""
    warm_up_s: Annotated[float, Field(ge=0, lt=1e6)] | Literal["auto"] = 0.0
    """Time in which the generator works already, but nothing counts yet. pgbench and sql loads also take `"auto"`:
    until throughput has no trend any more, for at least 10 s. A run that never settles is `unverified`."""
    warm_up_at_most_s: Annotated[
        Annotated[float, Field(ge=10, lt=1e6, examples=[600])] | None,
        LeftOut(f"{_WARM_UP_DURATIONS} x `duration`, at least {_LEAST_LIMIT_S:g} s"),
    ] = None
    """With `warm_up = "auto"`: the run begins to count after this time, settled or not."""
    transactions_per_connection: Annotated[int | None, LeftOut("a set time instead")] = Field(None, ge=1, le=10**10)
    """Transactions of each connection, instead of a set time. All of them count."""
    rate: Annotated[float | None, LeftOut("as fast as it goes")] = Field(None, gt=0, le=1e9)
    """Transactions a second that the generator begins, over all connections, at random moments whether or not earlier
    ones are done. Latency then counts from the moment for which a transaction was scheduled, so that a standstill
    counts. A run that falls behind its rate is `unverified`."""

    @property
    def longest_warm_up_s(self) -> float:
        """How long the warm-up may take; it takes exactly that if it is not to be found."""
        if self.warm_up_s != "auto":
            return self.warm_up_s
        return self.warm_up_at_most_s or max(_WARM_UP_DURATIONS * self.duration_s, _LEAST_LIMIT_S)

    @property
    def longest_s(self) -> float | None:
        return None if self.transactions_per_connection is not None else self.longest_warm_up_s + self.duration_s

    @property
    def warm_up_is_found(self) -> bool:
        return self.warm_up_s == "auto"

    @property
    def without_rate(self) -> bool:
        return self.rate is None

    @property
    @abstractmethod
    def data(self) -> Data:
        """What is made before a run."""

    @property
    def work(self) -> Work:
        if self.transactions_per_connection is not None:
            return Work(amount=self.connections * self.transactions_per_connection, unit="transactions")
        return Work(amount=max(1, round(self.duration_s * 1000)), unit="ms")

    def conflicts(self, config: Config) -> Iterator[SpecError]:
        yield from self._length_conflicts()
        if self.threads > self.connections:
            hint = f"Set threads to at most {self.connections}, or raise connections."
            yield SpecError(
                f"{self.threads} threads can't share {self.connections} connections", key="workload.threads", hint=hint
            )
        if config.target.attached and config.between_runs.data == "template":
            yield from _attached_template_conflicts(config)
        yield from self._own_conflicts(config)
        yield from _layout_conflicts(config)

    def _own_conflicts(self, config: Config) -> Iterator[SpecError]:  # noqa: ARG002 - each load has its own
        """What else contradicts itself with the keys of this kind."""
        yield from ()

    def _length_conflicts(self) -> Iterator[SpecError]:
        """How long a run and its warm-up take."""
        timed = self.model_fields_set & {"duration_s", "warm_up_s", "warm_up_at_most_s"}
        if self.transactions_per_connection is not None and timed:
            yield SpecError(
                "conflicts with workload.transactions_per_connection",
                key=f"workload.{min(timed)}",
                hint="A run has a set time or a set number of transactions: keep one of them.",
            )
        elif self.warm_up_at_most_s is not None and self.warm_up_s != "auto":
            hint = 'Set warm_up = "auto", or leave it out.'
            yield SpecError("is for a warm-up that is to be found", key="workload.warm_up_at_most_s", hint=hint)


def _attached_template_conflicts(config: Config) -> Iterator[SpecError]:
    """Why a server that already runs can't keep a template: its files can't be copied by others while it runs."""
    hint = "Leave it out, and the tables are made again for each run; or leave the DSN out, for a private server."
    if config.target.engine != "postgres":
        problem = (
            "can't be had here: MariaDB has no command that copies a database, as PostgreSQL has, and a server that "
        )
        problem += "already runs can't be shut down to have its files copied"
        yield SpecError(problem, key="between_runs.data", hint=hint)
    elif any(config.volumes[name].remote for name in config.data_volumes if name in config.volumes):
        problem = "needs volumes of this machine: each template has folders of its own, which storagelab makes"
        yield SpecError(problem, key="between_runs.data", hint=hint)


def _layout_conflicts(config: Config) -> Iterator[SpecError]:
    """Where the things of a layout may lie."""
    if config.target.engine == "mariadb":
        for what in config.extra_volumes:
            hint = "Leave it out: InnoDB keeps indexes in the table's own files, which go to the data files."
            yield SpecError("is for PostgreSQL, and target.engine is mariadb", key=f"layout.{what}", hint=hint)
    for what, volume in config.extra_volumes.items():
        if volume in config.volumes and config.volumes[volume].remote:
            hint = "Name a volume of this machine, or leave it out."
            yield SpecError(
                "is a volume of another machine, where only data files can be put", key=f"layout.{what}", hint=hint
            )
