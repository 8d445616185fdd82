"""The interfaces of a run's parts and of each database system, and steps that are the same for all real servers.

A run has a server, the sessions of a load, and a sampler; `one_run` combines them. Each engine implements `System`.
`Reach` connects sessions and client programs to one server, private or attached.
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
"""The errors that make a run fail, in addition to the driver's errors."""


class Closable(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=Closable)
"""A connection of the engine's driver."""
Columns = Callable[[], Mapping[str, float]]
"""Reads cumulative counters for the time series. The name of a counter ends with its unit."""


class Reach(ABC, Generic[C]):
    """How sessions connect to one server, and facts about it. For a private server: `server`, and `expected`, which has
    the settings as the server's own parser reads them. For an attached server: its `facts`.
    """

    def __init__(
        self, config: Config, site: Site, *, server: Any = None, expected: Mapping[str, str] | None = None,
        facts: Any = None,
    ) -> None:  # fmt: skip
        self.config, self.site, self.server, self.expected, self.facts = config, site, server, expected, facts

    @property
    def settings(self) -> Settings:
        """The settings that the spec asks for."""
        return (self.server or self.config.target).settings

    @abstractmethod
    def connect(self) -> C: ...

    @property
    def for_set_up(self) -> Mapping[str, str]:
        """Settings for the client programs that make tables. They override those of the server or the role."""
        return {}

    @abstractmethod
    def connect_worker(self) -> C:
        """Opens a session of the load, with the settings that the spec asks for."""

    def process(self, own: C) -> int | None:
        """The PID of the server's main process, which is the parent of its other processes. Returns None if this
        machine's kernel can't report on it.
        """
        return None

    @property
    def may_write_out(self) -> bool:
        return self.facts is None or bool(self.facts.may_write_out)

    @abstractmethod
    def check_settings(self, own: C, worker: C) -> list[Check]:
        """Compares the settings that the spec asks for with those that the server shows to a session of the load."""

    def check_log_place(self, own: C) -> list[Check]:
        """Checks whether the log of a private server is in the requested place."""
        return []


class Sessions(ABC, Generic[C]):
    """The sessions of a load in one run. Call the methods in this order: `open`, `gather`, `release`, `wait`, `settle`,
    `done`, `close`.
    """

    @property
    def in_turns(self) -> bool:
        """Whether periods with and without sampling alternate. Requires that the load logs the end of each transaction,
        and that the run is long enough.
        """
        return False

    @property
    @abstractmethod
    def first(self) -> C:
        """A session with the load's settings."""

    @property
    @abstractmethod
    def ids(self) -> list[int]:
        """The IDs of the sessions on the server: process IDs, or the server's own numbers."""

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def gather(self) -> None:
        """Returns when all sessions are ready to begin."""

    @abstractmethod
    def release(self) -> None:
        """Lets the sessions begin. The work that they do from this moment on counts."""

    @abstractmethod
    def wait(self, on_poll: Callable[[], None]) -> list[Loop]:
        """Waits until all sessions have ended. Calls `on_poll` a few times a second. Returns the work of each."""

    def settle(self) -> None:
        """Makes the sessions' counters visible in the server."""

    def so_far(self, reported: int) -> int:
        """The work done so far. `reported` is the work that the sessions have reported to the sampler."""
        return reported

    @abstractmethod
    def done(self, loops: list[Loop], seen: Observation, clocks: Clocks) -> Work:
        """The work of the sessions. Raises RunFailed if it is not the work that the load asks for."""

    @abstractmethod
    def close(self) -> None:
        """Closes the sessions. Never raises, because it is also called after errors."""


class Table(Protocol[C]):
    """The tables of one cell's load. The engine makes them in the cell's layout."""

    def make_folders(self, owner: tuple[int, int] | None = None) -> None: ...

    def make(self, own: C, reach: Any) -> None:
        """Makes the data files and the tables. Fills the tables that must be full when a run begins."""

    def sessions(self, own: C, reach: Any, seed: int) -> Sessions[C]: ...

    def read_back(self, connection: C) -> list[Check]:
        """Checks that the tables exist in the server, and in the right places."""
        ...

    def check_after(self, connection: C) -> list[Check]:
        """Checks the tables after the load."""
        ...


class System(ABC, Generic[C]):
    """What a database system itself does in a cell's run."""

    name: ClassVar[str]
    starter: ClassVar[Starter[Any]]
    private_reach: ClassVar[type[Reach[Any]]]
    attached_reach: ClassVar[type[Reach[Any]]]
    foreign_errors: ClassVar[tuple[type[BaseException], ...]]
    """The errors that make one run fail. It is stored as failed, and the next runs continue. Any other error is a bug.
    """
    counts_this_machine: ClassVar[bool] = True
    """Whether the run uses this machine's drives and CPUs."""
    mounts_from: ClassVar[str]
    """Where the server reports the file systems of its machine."""
    log_tells_of_sessions: ClassVar[bool]
    """Whether the server's log says why a session was lost even if the server continues to run."""
    layout: Table[C]
    facts: Any = None
    """The facts about the attached server, or None before they have been read."""

    def __init__(self, config: Config, site: Site) -> None:
        self.config, self.site = config, site
        self.volumes = site.volume_paths(config)
        self.folders = Folders(site, self.volumes)

    # --- servers -----------------------------------------------------------------------------------------------------

    def reach_attached(self) -> Reach[C]:
        """The connections to the attached server."""
        return self.attached_reach(self.config, self.site, facts=self.facts)

    @abstractmethod
    def meet(self) -> None:
        """Reads the facts about the attached server, drops the remains of earlier runs, and makes the objects that the
        run needs first.
        """

    @abstractmethod
    def drop(self) -> None:
        """Drops the objects that were made on the attached server. Uses a new connection, because the run's connection
        may be lost.
        """

    # --- words -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def message_of(self, error: BaseException) -> str:
        """The server's message, from the driver's error."""

    def is_away(self, error: BaseException) -> bool:
        """Whether the server may be starting. Then the caller tries again."""
        return False

    # --- read from the server ----------------------------------------------------------------------------------------

    @abstractmethod
    def facts_of(self, connection: C) -> dict[str, object]:
        """The facts about the server for a run's environment."""

    def data_folder(self, connection: C) -> Path | None:
        """The data folder of a server on this machine, or None if the server does not report it or this user may not
        read it.
        """
        return None

    def mounts(self, connection: C) -> list[places.Mount]:
        """The file systems of the server's machine, as the server reports them."""
        return []

    def remote_volumes(self, connection: C) -> dict[str, dict[str, object]]:
        """The known facts about remote volumes, which are on the server's machine."""
        return places.facts(self.config, self._remote_mounts(connection))

    def check_remote_volumes(self, connection: C) -> list[Check]:
        return places.checks(self.config, self._remote_mounts(connection), self.mounts_from)

    def _remote_mounts(self, connection: C) -> list[places.Mount]:
        return self.mounts(connection) if places.remote_paths(self.config) else []

    @abstractmethod
    def time_s(self, connection: C) -> float:
        """The time of the clock that the server's loops read, in seconds since the epoch."""

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
        """Reads the server's counters now. The function that it returns reads them again, and gives the differences."""


class Work(NamedTuple):
    """The work of a run, as counted by storagelab's sessions or by the load generator. Either `rows` or `transactions`
    is known. `series` replaces the sampler's series, and also has the generator's columns.
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
    """Brings the machine to the same state before each run. `checkpoint` makes the server write out its
    changed pages.
    """
    if between.checkpoint:
        checkpoint()
        for path in volumes.values():
            host.sync_filesystem(path)
    if between.drop_page_cache:
        host.drop_page_cache()
    if between.pause_s:
        time.sleep(between.pause_s)


def places_of(config: Config, site: Site) -> tuple[object, ...]:
    """A key for the places where a cell's run may leave remains. Cells with the same key use the same places."""
    target = config.target
    return (target.engine, target.dsn, target.dsn_env, *sorted(site.volume_paths(config).values()))


def by_server(configs: Iterable[Config]) -> list[list[Config]]:
    """The attached cells in groups. The cells of a group use the same server."""
    sharing: dict[tuple[str | None, str | None], list[Config]] = {}
    for config in configs:
        sharing.setdefault((config.target.dsn, config.target.dsn_env), []).append(config)
    return list(sharing.values())


# --- loops -----------------------------------------------------------------------------------------------------------
# The loop of one connection on any engine: the start gate, the times of start and end, and how often it reports.


POLL_S = 0.2
"""How often a run checks whether its connections have finished, in seconds."""
GATE_TIMEOUT_S = 60.0
"""The longest time to wait, in seconds, until all connections are at the start gate."""
REPORT_ROWS = 200
"""A connection reports its progress after about this many rows, so that reports cost little even if transactions are
small.
"""


def rows_per_report(workload: InsertLoad) -> int:
    """The number of rows between two progress reports of a connection. It is the smallest number of whole transactions
    with at least REPORT_ROWS rows.
    """
    per_transaction = workload.rows_per_transaction
    return per_transaction * max(1, -(-REPORT_ROWS // per_transaction))
