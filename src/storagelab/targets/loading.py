"""One run on a server of storagelab's own, or on one that already runs: set up, loaded, measured, removed.

This is what all real engines share, in the order of a run. The methods without a body are what each engine adds.
"""

from __future__ import annotations

import subprocess
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import host
from storagelab.machine.devices import DeviceCounters
from storagelab.model import prepared
from storagelab.model.config import Config
from storagelab.model.measurement import Check, Measurement
from storagelab.model.plan import Cell
from storagelab.targets import Progress, Site, remote, templates
from storagelab.targets.clocks import Clocks
from storagelab.targets.durability import judged
from storagelab.targets.filling import Filling
from storagelab.targets.folders import Folders
from storagelab.targets.generators.running import Generator
from storagelab.targets.hiding import hidden
from storagelab.targets.lifetime import Lifetime
from storagelab.targets.loops import Loop
from storagelab.targets.machine_counters import MachineCounters
from storagelab.targets.parts import Facts, Sampler, Table, Workers
from storagelab.targets.private import PrivateServer
from storagelab.targets.raw import beside
from storagelab.targets.recording import Seen
from storagelab.targets.starting import Starter
from storagelab.targets.steps import Counters, Done, check_reads, check_watching, prepare_machine, reads_made
from storagelab.version import __version__

OUTSIDE_ERRORS = (PreflightError, OSError, subprocess.SubprocessError)
"""Errors that fail a run, in addition to the driver's own."""
_RECOVERY_S = 20.0
"""How long to wait for an attached server that restarts after a crash."""
_DIES_WITHIN_S = 1.0

C = TypeVar("C")
"""A connection of the engine's driver."""


class LoadingTarget(Lifetime, Generic[C]):
    """A context manager for one run of a cell. Entering raises RunFailed; leaving removes everything that was made."""

    engine: ClassVar[str]
    starter: ClassVar[Starter[Any]]
    counts_this_machine: ClassVar[bool] = True
    """Do this machine's drives and CPUs say something about a run?"""
    mounts_from: ClassVar[str]
    """Where the server reports its file systems."""
    log_tells_of_sessions: ClassVar[bool]
    """Does the server's log say why a session was lost, even if the server lives on?"""

    layout: Table[C]
    server: PrivateServer[Any] | None
    """The private server, once it is made; None for an attached one."""
    facts: Facts | None
    """Facts about an attached server, once it has been asked."""

    def __init__(self, config: Config, site: Site) -> None:
        super().__init__(config)
        self.site = site
        self.volumes = site.volume_paths(config)
        self.folders = Folders(site, self.volumes)
        self.server = self.facts = None
        self.expected: dict[str, str] = {}
        """The settings as a private server's own parser reads them."""
        self._restored: templates.Copy | None = None
        self._connection: C | None = None

    # --- what each engine adds ---------------------------------------------------------------------------------------

    @abstractmethod
    def _meet_server(self) -> None:
        """Ask the attached server for its facts, and drop what an earlier run left on it."""

    @abstractmethod
    def _connect(self) -> C: ...

    @abstractmethod
    def _connect_worker(self) -> C: ...

    @abstractmethod
    def _close(self, connection: C | None) -> None: ...

    @abstractmethod
    def _drop(self) -> None:
        """Drop what was made on the attached server. Uses a connection of its own, since the run's may be lost."""

    def _is_away(self, error: BaseException) -> bool:  # noqa: ARG002 - not every server says so
        """Whether it is worth trying again soon, because the server may be coming up."""
        return False

    @abstractmethod
    def _server_facts(self, connection: C) -> dict[str, object]: ...

    def _data_folder(self) -> Path | None:
        """Where an attached server of this machine keeps its files, if it tells and this user may see them."""
        return None

    def _mounts(self, connection: C) -> list[remote.Mount]:  # noqa: ARG002 - not every server tells
        """The file systems of the server's machine, as far as it reports them."""
        return []

    @abstractmethod
    def _server_time_s(self) -> float:
        """The server's clock, as its loops read it, in seconds since the epoch."""

    @abstractmethod
    def _workers(self, seed: int) -> Workers[C]: ...

    def _generator(self, seed: int) -> Generator[C]:  # noqa: ARG002 - not every engine has generators
        """The run of a load generator."""
        raise RunFailed(f"no generator of this kind works with {self.engine}")

    @abstractmethod
    def _sampler(self, workers: Workers[C], devices: DeviceCounters) -> Sampler: ...

    @abstractmethod
    def _count(self, workers: Workers[C]) -> Callable[[], Counters]:
        """Read the server's counters; the function returned reads them again and gives the difference."""

    def _server_process(self) -> int | None:
        """The server's process, the parent of all its others, where this machine's kernel can be asked."""
        return None

    @abstractmethod
    def _page_bytes(self) -> int:
        """The size of the server's pages."""

    @abstractmethod
    def _write_out(self) -> None:
        """Have the server write out what it holds in memory."""

    def _may_write_out(self) -> bool:
        return True

    @abstractmethod
    def _check_settings(self, workers: Workers[C]) -> list[Check]: ...

    def _check_log_place(self) -> list[Check]:
        """Checks whether a private server's log is where it should be."""
        return []

    @abstractmethod
    def _check_pages(self, rows: int) -> Check:
        """Checks whether the sequential workload made the pages that it promises."""

    # --- set-up and teardown -----------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        if self.config.target.attached:
            self._attach()
            self._connection = self._connect()
        else:
            self.folders.make()
            self.server = self._private_server()
        errors: tuple[type[BaseException], ...] = (RunFailed, *self.foreign_errors)
        with Filling(self._watched_volumes()) as filling:
            try:
                self._set_up_data()
            except errors as error:
                words = hidden(str(error) if isinstance(error, RunFailed) else self._said(error), self.config.target)
                log, folder = (
                    (server.log_tail(lines=10_000), server.data_folder) if (server := self.server) else ("", None)
                )
                full = filling.explain(words, log, self.config, folder)
                if full is None:
                    raise
                raise full from error

    def _set_up_data(self) -> None:
        server = self.server
        if server is None:
            self._make_data()
            return
        if not prepared.wanted(self.config):
            self._prepare(server)
            return
        template = templates.Template(self.config, self.site)
        if not template.exists:
            self._prepare(server)
            connection, self._connection = self._connection, None
            self._close(connection)
            server.shut_down()
            template.keep()
        self._restored = template.restore()
        server.start_again()
        self._connection = self._connect()

    def _prepare(self, server: PrivateServer[Any]) -> None:
        """Start a private server on nothing, and make the data."""
        server.start()
        self.layout.make_folders()
        self._connection = self._connect()
        self._make_data()

    def _make_data(self) -> None:
        self.layout.create(self._own)
        if self.config.generated:
            self._fill(self._own)

    def _fill(self, connection: C) -> None:
        """Make the tables of a generated load. Raises RunFailed."""

    def _private_server(self) -> PrivateServer[Any]:
        config, starter = self.config, self.starter
        assert config.log_volume is not None
        programs, settings = starter.programs(config, self.site), starter.settings(config)
        self.expected = starter.check(programs, settings)
        server: PrivateServer[Any] = starter.server(
            programs, data_folder=self.folders[config.data_volumes[0]] / "server",
            log_folder=self.folders[config.log_volume] / "log", settings=settings, volumes=self.folders.paths,
            waits=config.measure.waits,
        )  # fmt: skip
        return server

    def _attach(self) -> None:
        self._meet_server()
        assert self.facts is not None
        self.folders.remove()  # the run before may have left them because the server was away
        self.folders.make()
        self._make_folders(self.facts.process_owner)

    def _make_folders(self, owner: tuple[int, int] | None) -> None:
        """The folders of data files on an attached server's volumes, for its account `owner`."""
        self.layout.make_folders(owner)

    def _tear_down(self) -> None:
        connection, self._connection = self._connection, None
        self._close(connection)
        if self.server is not None:
            self.server.stop()
        elif self.config.target.attached:
            if self.facts is None:  # never connected: the server may still use an earlier run's folders
                return
            self._drop_from_server()
        self.folders.remove()

    def _drop_from_server(self) -> None:
        """Raises RunFailed if that fails. The folders then stay, because a server whose files vanish may stop for good."""
        deadline = time.monotonic() + _RECOVERY_S
        while True:
            try:
                self._drop()
                return
            except self.foreign_errors as error:
                if not self._is_away(error) or time.monotonic() > deadline:
                    words = hidden(next(iter(self._said(error).splitlines()), ""), self.config.target)
                    raise RunFailed(
                        f"can't drop what was made on the server: {words}; storagelab tries again before the next run"
                    ) from error
            time.sleep(0.2)

    @property
    def _own(self) -> C:
        assert self._connection is not None, "the target is not entered"
        return self._connection

    # --- words -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _said(self, error: BaseException) -> str:
        """The server's message in the driver's error."""

    def _words(self, error: BaseException) -> str:
        return self._with_log(self._said(error))

    def _with_log(self, words: str) -> str:
        """The server's message, and its log's if a connection was lost with it, since the log says why."""
        if self.server is None or "connection" not in words.lower():
            return words
        deadline = time.monotonic() + _DIES_WITHIN_S
        while not self.server.died() and time.monotonic() < deadline:
            time.sleep(0.05)
        if not self.server.died() and not self.log_tells_of_sessions:
            return words
        how = f"it was {self.server.killed}; " if self.server.killed else ""
        died = f"the server died: {how}" if self.server.died() else ""
        return f"{died}{words}\nthe server's log says:\n{self.server.log_of_trouble()}"

    # --- what a run needs --------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, object]:
        """The run's environment, which never includes passwords and connection strings."""
        connection = self._connect_worker()
        try:
            return self._environment(connection)
        finally:
            self._close(connection)

    def _environment(self, connection: C) -> dict[str, object]:
        """As a session of the workload sees it: on an attached server only those have the settings asked for."""
        how, origin = ("private", self.server.programs.origin) if self.server is not None else ("attached", "")
        here = host.describe_host()
        elsewhere = self.facts is not None and not self.facts.on_this_machine
        process = self._server_process() or "self"
        volumes = {name: host.describe_volume(path, process=process) for name, path in self._watched_volumes().items()}
        return {
            **({"host": {}, "client": here} if elsewhere else {"host": here}),
            "volumes": {**volumes, **self._remote_volumes(connection)},
            "server": {"engine": self.engine, "how": how, "origin": origin, **self._server_facts(connection)},
            **({"data": {"state": self._data_state()}} if self.config.generated else {}),
            "storagelab": {"version": __version__},
        }

    def _data_state(self) -> str:
        """How the data came about that a generator found."""
        return "rebuilt" if self._restored is None else f"restored from a template, {self._restored.how}"

    def _remote_volumes(self, connection: C) -> dict[str, dict[str, object]]:
        """What is known of volumes on the server's machine."""
        return remote.facts(self.config, self._remote_mounts(connection))

    def _check_remote_volumes(self) -> list[Check]:
        return remote.checks(self.config, self._remote_mounts(self._own), self.mounts_from)

    def _remote_mounts(self, connection: C) -> Sequence[remote.Mount]:
        return self._mounts(connection) if remote.remote_paths(self.config) else ()

    def _watched_volumes(self) -> Mapping[str, Path]:
        """The spec's volumes; if it has none, where an attached server of this machine keeps its files, if known."""
        if self.config.volumes or self.facts is None or not self.facts.on_this_machine:
            return self.volumes
        folder = self._data_folder()
        return {"server": folder} if folder is not None else {}

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:  # noqa: ARG002
        """Load once and measure. Raises RunFailed with the server's words; the layout can't be used again."""
        try:
            return self._run(seed, progress)
        except RunFailed as error:
            raise RunFailed(hidden(self._with_log(str(error).strip()), self.config.target)) from error
        except self.foreign_errors as error:
            raise RunFailed(hidden(self._words(error), self.config.target)) from error

    def _run(self, seed: int, progress: Progress) -> Measurement:
        workers = self._generator(seed) if self.config.generated else self._workers(seed)
        try:
            workers.open()
            environment = self._environment(workers.first)
            raw, raw_checks = self._raw_io_beside("before", seed)
            prepare_machine(self.config.between_runs, self.volumes, self._write_out)
            devices = DeviceCounters(self._watched_volumes(), process=self._server_process() or "self")
            clocks = Clocks(self._server_time_s)
            workers.gather()
            sampler = self._sampler(workers, devices)
            try:
                sampler.prepare()
                counted, machine = self._count(workers), MachineCounters(devices, self._server_process())
                sampler.baseline()
                sampler.start()
                clocks.begin()
                workers.release()

                def on_poll() -> None:
                    machine.look()
                    self._on_poll(progress, _so_far(workers, sampler))

                loops = workers.wait(on_poll)
                clocks.end()
            finally:
                sampled = sampler.stop()
            machine.end()
            workers.settle()
            counters = counted()
            done = self._done(workers, loops, sampled, clocks)
            counters |= done.counters
            checks = [*done.checks, *self._check_settings(workers)]
        finally:
            workers.close()
        checkpoint_s = self._checkpoint()
        if self.counts_this_machine:
            counters |= machine.counted(with_checkpoint=checkpoint_s is not None)
            checks += machine.checks(done.elapsed_s)
        after, after_checks = self._raw_io_beside("after", seed)
        checks += [*raw_checks, *after_checks]
        return self._measurement(done, sampled, counters | raw | after, checkpoint_s, environment, checks)

    def _raw_io_beside(self, moment: str, seed: int) -> tuple[Counters, list[Check]]:
        """What the volumes take, if it is to be measured at this moment; a check that fails where it can't be."""
        if self.config.measure.raw != moment:
            return {}, []
        try:
            folders = {name: self.folders[name] for name in self.volumes}
            return beside.measure(self.config, folders, self._page_bytes(), seed), []
        except RunFailed as error:
            asked = "four tests on each volume"
            return {}, [Check(name="raw I/O beside the load", asked=asked, got=str(error), ok=False, read_from="fio")]

    def _on_poll(self, progress: Progress, rows: int) -> None:
        # Sessions of a killed server may run to their end before they notice.
        if self.server is not None and self.server.died():
            raise RunFailed("all connections lost their server")
        progress(rows)

    def _checkpoint(self) -> float | None:
        """Seconds to write out the table after the load; None if the login lacks the right to ask for it."""
        if not self._may_write_out():
            return None
        began = time.perf_counter()
        self._write_out()
        return time.perf_counter() - began

    def _done(self, workers: Workers[C], loops: list[Loop], sampled: Seen, clocks: Clocks) -> Done:
        """What the run did."""
        if isinstance(workers, Generator):
            done = workers.done(sampled.series)
            return done._replace(checks=(*clocks.checks(()), *done.checks))
        rows, load = self.layout.count_rows(self._own), self.config.insert_load
        if rows != load.rows:
            raise RunFailed(f"the table holds {rows} rows instead of {load.rows}")
        return Done(
            elapsed_s=max(loop.finished_s for loop in loops) - min(loop.started_s for loop in loops),
            connection_s=tuple(loop.finished_s - loop.started_s for loop in loops),
            checks=(*clocks.checks(loops), *check_reads(load, loops)),
            counters=reads_made(loops), series=sampled.series, rows=rows,
        )  # fmt: skip

    def _measurement(
        self,
        done: Done,
        sampled: Seen,
        counters: Counters,
        checkpoint_s: float | None,
        environment: dict[str, object],
        checks: list[Check],
    ) -> Measurement:
        elapsed_s, busy_s, connections = done.elapsed_s, sum(done.connection_s), len(done.connection_s)
        waits = sampled.waits(elapsed_s, busy_s, connections) if self.config.measure.waits else None
        observer = sampled.observed(elapsed_s)
        return Measurement(
            provenance="measured",
            elapsed_s=elapsed_s,
            rows=done.rows,
            transactions=done.transactions,
            checkpoint_s=checkpoint_s,
            connection_s=done.connection_s,
            latency=done.latency,
            waits=waits,
            waiting_tasks=sampled.waiting_tasks,
            counters=counters,
            series=done.series,
            environment=environment,
            durability=judged(environment),
            checks=(*self._layout_checks(), *checks, *check_watching(sampled.error, observer, elapsed_s)),
            observer=observer,
            setup_s=self.setup_s,
        )

    def _layout_checks(self) -> list[Check]:
        """Checks what the server really made, and where."""
        return [
            *self.layout.read_back(self._own),
            *self._check_remote_volumes(),
            *self._check_log_place(),
            *(self._restored.checks() if self._restored is not None else ()),
            *(
                [self._check_pages(self.config.insert_load.rows)]
                if self.config.workload.kind == "sequential-insert"
                else []
            ),
        ]


def _so_far(workers: Workers[C], sampler: Sampler) -> int:
    """The work done so far: sessions that insert report it to the sampler."""
    return workers.done_so_far if isinstance(workers, Generator) else sampler.progress()
