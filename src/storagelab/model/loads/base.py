"""The common parts of all loads: a run's amount of work, the interface to engines, and the rules.

Each load is one file in this folder, with its keys, the rules between them, and its texts. If an engine can run the
load, its folder `loads` has a module of the same name. This module makes the load's tables and provides its
sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import Field

from storagelab.errors import SpecError, shown
from storagelab.model.objects import INDEXES, TEMPORARY
from storagelab.model.values import Described, LeftOut

if TYPE_CHECKING:
    from storagelab.model.config import Config

Unit = Literal["rows", "requests", "transactions", "ms"]
"""The units of work. If a run has a fixed length, its progress is counted in milliseconds."""

_WARM_UP_DURATIONS, _LEAST_LIMIT_S = 5, 60.0
"""The two parts of the default limit of an automatic warm-up: a multiple of the measured part's length, and a minimum
in seconds."""


@dataclass(frozen=True)
class Work:
    """An amount of work."""

    amount: int
    unit: Unit


class Data(NamedTuple):
    """The data that a load makes before a run. `units` is the amount; the engine's module contains the size of one
    unit. `units` is None if the user's own files make the data. `text` describes the data.
    """

    units: float | None
    text: str


def as_tuple(value: object) -> object:
    """Makes a tuple of a list. Below a union, pydantic's strict mode does not accept JSON's lists as tuples."""
    return tuple(value) if isinstance(value, list) else value


class Rule(NamedTuple):
    """A rule that refuses a contradiction between keys. If `is_broken` returns true, the error names `key`, with this
    `problem` and `hint`. In a key, * stands for each volume's name, and `is_broken` then also receives the volume.
    Texts may contain fields of the {config} and of its {load}, the volume's {name}, and the name of the spec's first
    {drive}.
    """

    key: str
    is_broken: Callable[..., bool]
    problem: str
    hint: str = "Leave it out."

    def error(self, config: Config, name: str = "") -> SpecError:
        drive = shown(next(iter(config.drives), ""))
        about = {"config": config, "load": config.workload, "name": name, "drive": drive}
        return SpecError(self.problem.format(**about), key=self.key.replace("*", name), hint=self.hint.format(**about))


def broken(config: Config, rules: Sequence[Rule]) -> Iterator[SpecError]:
    """Yields an error for each rule that a cell breaks."""
    for rule in rules:
        if "*" in rule.key:
            named = config.volumes.items()
            yield from (rule.error(config, name) for name, volume in named if rule.is_broken(config, volume))
        elif rule.is_broken(config):
            yield rule.error(config)


class Load(Described, ABC):
    """The load of a run."""

    kind: str
    engines: ClassVar[tuple[str, ...]] = ()
    """The engines that can run the load. If this is empty, every database can run it."""
    module: ClassVar[str]
    """The name of the module in an engine's folder `loads` that makes the load's tables."""
    generated: ClassVar[bool] = False
    """Whether a load generator sends the transactions."""
    raw_io: ClassVar[bool] = False
    """Whether the load sends requests to a volume, without a database."""
    page_a_row: ClassVar[bool] = False
    """Whether each row fills a page of its own."""
    less_data: ClassVar[str] = "lower workload.rows_per_connection"
    """A hint for users: how the load can take less space."""
    of_runs: ClassVar[tuple[str, ...]] = ()
    """Keys that affect how runs use the data, but not the data themselves."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    """The rules against contradictions among the load's own keys."""
    rows_made_per_s: ClassVar[int] = 1
    """The number of rows that are made per second before a run. It is 1 if no rows are made."""

    @property
    @abstractmethod
    def work(self) -> Work:
        """The work of one run."""

    @property
    def sessions(self) -> int:
        """The number of the server's sessions that work for the load."""
        return 0

    @property
    def rows_made(self) -> int:
        """The number of rows that are made before a run. 0 if it is unknown."""
        return 0

    @property
    def longest_s(self) -> float | None:
        """The longest time of a run including its warm-up, in seconds. None if the spec does not limit it."""
        return None

    @property
    def warm_up_is_found(self) -> bool:
        """Whether the warm-up is automatic: it lasts until throughput is stable."""
        return False

    @property
    def paced(self) -> bool:
        """Whether each request has its own start time. Such cells are compared by latency and not by the time
        of a run.
        """
        return False

    @property
    def reads_only(self) -> bool:
        """Whether it is certain that the load's transactions write nothing."""
        return False

    @property
    def commits_in_turn(self) -> int:
        """The number of commits of writes that each connection makes one after another. 0 if the spec does not
        set it.
        """
        return 0

    @property
    def without_rate(self) -> bool:
        """Whether a generator's transactions begin as soon as a session is free, and not at a set rate."""
        return False

    @property
    def inserts(self) -> tuple[str, float] | None:
        """For loads that insert rows, a key that identifies the kind of work: cells with different keys do different
        work. None for other loads.
        """
        return None

    @property
    def writes_drives(self) -> bool:
        """Whether the load would overwrite the content of a device that has no file system."""
        return False

    @property
    def only_operation(self) -> str | None:
        """The operation ("read" or "write") if all requests have one operation and one size. Otherwise None."""
        return None

    @property
    def own_files(self) -> tuple[tuple[str, str], ...]:
        """The user's files that the load reads. Each entry has the key that names the file, and the file's path."""
        return ()

    def conflicts(self, config: Config) -> Iterator[SpecError]:
        """Yields the contradictions in a cell with this load."""
        yield from broken(config, self.rules)


L = TypeVar("L", bound=Load)


def of_class(load: Load, wanted: type[L]) -> L:
    """Returns the load, which must be of the class `wanted`."""
    assert isinstance(load, wanted), f"{load.kind} is no {wanted.__name__}"
    return load


class DatabaseLoad(Load):
    """A load that uses several connections to a database."""

    connections: int = Field(16, ge=1, le=4096)
    """The number of sessions that work at the same time."""

    @property
    def sessions(self) -> int:
        return self.connections


class GeneratedLoad(DatabaseLoad):
    """Transactions that a load generator sends, either for a set time or in a set number."""

    generated = True
    of_runs = (
        "connections", "threads", "duration_s", "warm_up_s", "warm_up_at_most_s", "transactions_per_connection", "rate",
        "latency_limit_s", "protocol", "scripts", "transactions",
    )  # fmt: skip
    own_database: ClassVar[bool] = False
    """Whether the load needs a database of its own on a server that already runs, because the user's files may create
    any objects."""
    threads: int = Field(1, ge=1, le=1024)
    """The number of the generator's threads, which share its connections."""
    duration_s: float = Field(60.0, ge=0.001, lt=1e6)
    """The length of the measured part of a run, which follows the warm-up. With `warm_up = "auto"` on PostgreSQL, the
    measured part contains whole cycles of the server's checkpoints. So it may be longer, or up to a tenth shorter.
    """
    warm_up_s: Annotated[float, Field(ge=0, lt=1e6)] | Literal["auto"] = 0.0
    """The time in which the generator works before the measurement. pgbench and sql loads also take `"auto"`: the
    warm-up then lasts at least 10 s, until throughput has no trend. If the server makes checkpoints, it also lasts
    until a checkpoint begins. If throughput never becomes stable, the run is `unverified`.
    """
    warm_up_at_most_s: Annotated[
        Annotated[float, Field(ge=10, lt=1e6, examples=[600])] | None,
        LeftOut(f"{_WARM_UP_DURATIONS} x `duration`, at least {_LEAST_LIMIT_S:g} s"),
    ] = None
    """With `warm_up = "auto"`: the longest warm-up. After this time, the measurement begins even if throughput is not
    stable. After this time and `duration`, it ends even without whole checkpoint cycles.
    """
    transactions_per_connection: Annotated[int | None, LeftOut("a set time instead")] = Field(None, ge=1, le=10**10)
    """The number of transactions of each connection, instead of a set time. All of them count."""
    rate: Annotated[float | None, LeftOut("as fast as it goes")] = Field(None, gt=0, le=1e9)
    """The number of transactions per second over all connections. They begin at random moments, even if earlier ones
    have not ended. Latency is counted from the moment for which a transaction was scheduled, so a standstill counts,
    too. A run that falls behind its rate is `unverified`.
    """

    @property
    def longest_warm_up_s(self) -> float:
        """The longest time of the warm-up in seconds. If the warm-up is not automatic, it takes exactly this time."""
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
    def commits_in_turn(self) -> int:
        return 0 if self.reads_only else self.transactions_per_connection or 0

    @property
    def without_rate(self) -> bool:
        return self.rate is None

    @property
    @abstractmethod
    def data(self) -> Data:
        """The data that are made before a run."""

    @property
    def work(self) -> Work:
        if self.transactions_per_connection is not None:
            return Work(amount=self.connections * self.transactions_per_connection, unit="transactions")
        return Work(amount=max(1, round(self.duration_s * 1000)), unit="ms")

    def conflicts(self, config: Config) -> Iterator[SpecError]:
        yield from broken(config, _OF_GENERATORS)
        yield from broken(config, self.rules)
        yield from self._own_conflicts(config)
        yield from _layout_conflicts(config)

    def _own_conflicts(self, config: Config) -> Iterator[SpecError]:  # noqa: ARG002 - each load has its own
        """Yields further contradictions among the keys of this kind."""
        yield from ()


def _keeps_template(config: Config) -> bool:
    return config.target.attached and config.between_runs.data == "template"


_OF_GENERATORS = (
    *(Rule(f"workload.{key}",
           lambda config, key=key:
               key in config.workload.model_fields_set and config.workload.transactions_per_connection,
           "conflicts with workload.transactions_per_connection",
           "A run has a set time or a set number of transactions: keep one of them.")
      for key in ("duration_s", "warm_up_at_most_s", "warm_up_s")),
    Rule("workload.warm_up_at_most_s",
         lambda config: config.workload.warm_up_at_most_s is not None and config.workload.warm_up_s != "auto",
         "is for a warm-up that is to be found", 'Set warm_up = "auto", or leave it out.'),
    Rule("workload.threads", lambda config: config.workload.threads > config.workload.connections,
         "{load.threads} threads can't share {load.connections} connections",
         "Set threads to at most {load.connections}, or raise connections."),
    # A server that already runs can't keep a template, because its files can't be copied while it runs.
    Rule("between_runs.data", lambda config: _keeps_template(config) and not config.kind.copies_databases,
         "is not possible here: the server has no command that copies a database, and a server that "
         "already runs can't be shut down to copy its files",
         "Leave it out, and the tables are made again for each run; or leave the DSN out, for a private server."),
    Rule("between_runs.data",
         lambda config: _keeps_template(config) and any(
             config.volumes[name].remote for name in config.data_volumes if name in config.volumes),
         "needs volumes on this machine: storagelab makes folders for each template",
         "Leave it out, and the tables are made again for each run; or leave the DSN out, for a private server."),
)  # fmt: skip


def _layout_conflicts(config: Config) -> Iterator[SpecError]:
    """Refuses places that are impossible for parts of a layout."""
    for key, what, volume in config.placed_keys:
        if not what.strip():
            yield SpecError("names no object", key=key, hint='Write a name: objects = { "public.orders" = "fast" }.')
        if what == INDEXES and not config.kind.indexes_apart:
            hint = f"Leave it out: {config.kind.title} keeps indexes in the table's own files; place the table."
            yield SpecError(f"is not for {config.kind.title}", key=key, hint=hint)
        if what == TEMPORARY and config.kind.temporary_fixed and config.target.attached:
            hint = "Leave it out, or leave the DSN out, for a private server."
            problem = f"can't be changed on a {config.kind.title} that already runs: it sets tmpdir when it starts"
            yield SpecError(problem, key=key, hint=hint)
        if volume in config.volumes and config.volumes[volume].remote:
            problem = "is a volume of another machine, where only data files can be put"
            yield SpecError(problem, key=key, hint="Name a volume of this machine, or leave it out.")
