"""The interfaces of a run's parts and of each database system, and the steps that all real servers share.

A run has a server, the sessions of a load, and a watcher; `one_run` puts them together. `System` is the interface that
each engine implements. `Reach` connects sessions and client programs to one server, private or attached.
"""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from storagelab.errors import PreflightError
from storagelab.machine import host
from storagelab.model.config import BetweenRunsConfig, Config
from storagelab.model.loads.inserts import InsertLoad
from storagelab.model.measurement import Check, Latency, TimeSeries, Turns
from storagelab.servers import places
from storagelab.servers.private import Settings
from storagelab.servers.starting import Starter
from storagelab.volumes.folders import Folders, Site
from storagelab.watching.counters import Clocks, Counters, Loop
from storagelab.watching.sampler import Observation, SessionSampler

OUTSIDE_ERRORS = (PreflightError, OSError, subprocess.SubprocessError)
"""Errors that fail a run, in addition to the driver's."""


class Closable(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=Closable)
"""A connection of the engine's driver."""
Columns = Callable[[], Mapping[str, float]]
"""Reads cumulative counters for the time series, units last in their names."""


class Reach(ABC, Generic[C]):
    """How sessions connect to one server, and its facts. The server is a private `server`, whose own parser reads its
    settings as `expected`, or an attached server, with its `facts`.
    """

    def __init__(
        self, config: Config, site: Site, *, server: Any = None, expected: Mapping[str, str] | None = None,
        facts: Any = None,
    ) -> None:  # fmt: skip
        self.config, self.site, self.server, self.expected, self.facts = config, site, server, expected, facts

    @property
    def settings(self) -> Settings:
        """The settings asked for."""
        return (self.server or self.config.target).settings

    @abstractmethod
    def connect(self) -> C: ...

    @property
    def for_set_up(self) -> Mapping[str, str]:
        """Settings of the client programs that make tables, whatever the server or the role sets."""
        return {}

    @abstractmethod
    def connect_worker(self) -> C:
        """Opens a session of the load, with the settings that the spec asks for."""

    def process(self, own: C) -> int | None:
        """The server's process, the parent of its other processes, if this machine's kernel can be asked about it."""
        return None

    @property
    def may_write_out(self) -> bool:
        return self.facts is None or bool(self.facts.may_write_out)

    @abstractmethod
    def check_settings(self, own: C, worker: C) -> list[Check]:
        """Compares the settings asked for with what the server shows to a session of the load."""

    def check_log_place(self, own: C) -> list[Check]:
        """Checks whether a private server's log is where it should be."""
        return []


class Sessions(ABC, Generic[C]):
    """The sessions of a load in one run. Call in order: `open`, `gather`, `release`, `wait`, `settle`, `done`,
    `close`.
    """

    @property
    def in_turns(self) -> bool:
        """Whether periods with and without sampling alternate: the load logs the end of each transaction, and is long
        enough.
        """
        return False

    @property
    @abstractmethod
    def first(self) -> C:
        """A session that has the load's settings."""

    @property
    @abstractmethod
    def ids(self) -> list[int]:
        """The server's ids of the sessions: process ids, or the server's own numbers."""

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def gather(self) -> None:
        """Returns when all sessions are ready to begin."""

    @abstractmethod
    def release(self) -> None:
        """Opens the gate. From now on, work counts."""

    @abstractmethod
    def wait(self, on_poll: Callable[[], None]) -> list[Loop]:
        """Waits for the end, and calls `on_poll` a few times a second."""

    def settle(self) -> None:
        """Makes each session's counters known to the server."""

    def so_far(self, reported: int) -> int:
        """The work done so far. `reported` is what the sessions have reported to the sampler."""
        return reported

    @abstractmethod
    def done(self, loops: list[Loop], seen: Observation, clocks: Clocks) -> Work:
        """The work of the sessions. Raises RunFailed if it differs from the load."""

    @abstractmethod
    def close(self) -> None:
        """Never raises, since it is also called after errors."""


class Table(Protocol[C]):
    """The tables of one cell's load, made by its engine on the layout."""

    def make_folders(self, owner: tuple[int, int] | None = None) -> None: ...

    def make(self, own: C, reach: Any) -> None:
        """Makes the data files and the tables, and fills the tables that must be full when a run begins."""

    def sessions(self, own: C, reach: Any, seed: int) -> Sessions[C]: ...

    def read_back(self, connection: C) -> list[Check]:
        """Checks the tables and their places in the server."""
        ...

    def check_after(self, connection: C) -> list[Check]:
        """Checks the tables after the load."""
        ...


class System(ABC, Generic[C]):
    """A database system's own part of a cell's run."""

    name: ClassVar[str]
    starter: ClassVar[Starter[Any]]
    private_reach: ClassVar[type[Reach[Any]]]
    attached_reach: ClassVar[type[Reach[Any]]]
    foreign_errors: ClassVar[tuple[type[BaseException], ...]]
    """Errors that make one run fail. The run is stored as failed, and the next runs continue. Any other error is a
    bug."""
    counts_this_machine: ClassVar[bool] = True
    """Whether the run uses this machine's drives and CPUs."""
    mounts_from: ClassVar[str]
    """The place where the server reports its file systems."""
    log_tells_of_sessions: ClassVar[bool]
    """Whether the server's log says why a session was lost, even if the server lives on."""
    layout: Table[C]
    facts: Any = None
    """Facts about the attached server; empty before the server has been asked."""

    def __init__(self, config: Config, site: Site) -> None:
        self.config, self.site = config, site
        self.volumes = site.volume_paths(config)
        self.folders = Folders(site, self.volumes)

    # --- servers -----------------------------------------------------------------------------------------------------

    def reach_attached(self) -> Reach[C]:
        """The way to reach the attached server."""
        return self.attached_reach(self.config, self.site, facts=self.facts)

    @abstractmethod
    def meet(self) -> None:
        """Asks the attached server for its facts, drops the remains of earlier runs, and makes the objects that the run
        needs first.
        """

    @abstractmethod
    def drop(self) -> None:
        """Drops the objects made on the attached server, over a separate connection, because the run's connection may
        be lost."""

    # --- words -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def message_of(self, error: BaseException) -> str:
        """The server's message, from the driver's error."""

    def is_away(self, error: BaseException) -> bool:
        """Whether the server may be starting, so that another attempt makes sense."""
        return False

    # --- asked of the server -----------------------------------------------------------------------------------------

    @abstractmethod
    def facts_of(self, connection: C) -> dict[str, object]:
        """The facts about the server for a run's environment."""

    def data_folder(self, connection: C) -> Path | None:
        """The folder of the files of a server on this machine, if the server tells it and this user may read it."""
        return None

    def mounts(self, connection: C) -> list[places.Mount]:
        """The file systems of the server's machine, as the server reports them."""
        return []

    def remote_volumes(self, connection: C) -> dict[str, dict[str, object]]:
        """The known facts about the volumes on the server's machine."""
        return places.facts(self.config, self._remote_mounts(connection))

    def check_remote_volumes(self, connection: C) -> list[Check]:
        return places.checks(self.config, self._remote_mounts(connection), self.mounts_from)

    def _remote_mounts(self, connection: C) -> list[places.Mount]:
        return self.mounts(connection) if places.remote_paths(self.config) else []

    @abstractmethod
    def time_s(self, connection: C) -> float:
        """The server's clock as its loops read it, in seconds since the epoch."""

    @abstractmethod
    def page_bytes(self, connection: C) -> int:
        """The size of the server's pages."""

    @abstractmethod
    def write_out(self, connection: C) -> None:
        """Makes the server write all changed pages from its memory."""

    # --- watched -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def sampler(self, own: C, reach: Any, sessions: Sessions[C], columns: Columns) -> SessionSampler: ...

    @abstractmethod
    def count(self, own: C, reach: Any, sessions: Sessions[C]) -> Callable[[], Counters]:
        """Reads the server's counters. The returned function reads them again, and returns the difference."""


class Work(NamedTuple):
    """The work of a run, as its own sessions or its generator counted it. Either `rows` or `transactions` is known.
    `series` replaces the sampler's series, with the generator's columns.
    """

    elapsed_s: float
    connection_s: tuple[float, ...]
    checks: tuple[Check, ...]
    counters: Counters
    series: TimeSeries
    rows: int | None = None
    transactions: int | None = None
    latency: Latency | None = None
    turns: Turns | None = None


def prepare_machine(between: BetweenRunsConfig, volumes: Mapping[str, Path], checkpoint: Callable[[], object]) -> None:
    """Brings the machine to the same state before each run. `checkpoint` makes the server write out its dirty pages."""
    if between.checkpoint:
        checkpoint()
        for path in volumes.values():
            host.sync_filesystem(path)
    if between.drop_page_cache:
        host.drop_page_cache()
    if between.pause_s:
        time.sleep(between.pause_s)


def places_of(config: Config, site: Site) -> tuple[object, ...]:
    """A key that differs for cells whose remains may be in different places."""
    target = config.target
    return (target.engine, target.dsn, target.dsn_env, *sorted(site.volume_paths(config).values()))


def by_server(configs: Iterable[Config]) -> list[list[Config]]:
    """The cells by the server that they attach to."""
    sharing: dict[tuple[str | None, str | None], list[Config]] = {}
    for config in configs:
        sharing.setdefault((config.target.dsn, config.target.dsn_env), []).append(config)
    return list(sharing.values())


# --- loops -----------------------------------------------------------------------------------------------------------
# The loop of one connection on any engine: the start gate, the start and end times, and the interval of its reports.


POLL_S = 0.2
"""How often the run checks whether its connections are done."""
GATE_TIMEOUT_S = 60.0
"""The longest time to wait until all connections are at the start gate."""
REPORT_ROWS = 200
"""A connection reports its progress about this often, so that reports cost little next to small transactions."""


def rows_per_report(workload: InsertLoad) -> int:
    """The number of rows between two reports of a connection's progress: whole transactions, at least REPORT_ROWS
    rows.
    """
    per_transaction = workload.rows_per_transaction
    return per_transaction * max(1, -(-REPORT_ROWS // per_transaction))
