"""SQL Server as a target: one cell's layout on a server that runs already, set up, loaded, measured, removed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

import storagelab
from storagelab.errors import PreflightError, RunFailed
from storagelab.machine import host
from storagelab.model.config import Config
from storagelab.model.measurement import Check, Measurement
from storagelab.model.plan import Cell
from storagelab.model.waits import CountedWaits
from storagelab.targets import Progress, Site
from storagelab.targets.clocks import Clocks
from storagelab.targets.durability import judged
from storagelab.targets.hiding import hidden
from storagelab.targets.lifetime import Lifetime
from storagelab.targets.loops import Loop
from storagelab.targets.sqlserver import attached, counters, read_back, tsql
from storagelab.targets.sqlserver.connection import (
    DriverError,
    Session,
    allow_sessions,
    connect,
    dsn_of,
    key_of,
    words,
)
from storagelab.targets.sqlserver.facts import MAJOR_2019
from storagelab.targets.sqlserver.layout import Layout, drop
from storagelab.targets.sqlserver.sampler import Sampler, Watched
from storagelab.targets.sqlserver.workload import NOW_US, Workers
from storagelab.targets.steps import check_reads, check_watching, difference, reads_made

_OWN_SESSIONS = 8
_END_ALL = "ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE"


class _Reading(NamedTuple):
    """All that the server counts, at one moment."""

    workers: counters.Waits
    server: counters.Waits
    cpu_s: float
    files: counters.Counters
    rates: counters.Counters


class SqlServerTarget(Lifetime):
    """A context manager for one run of a cell. Entering raises RunFailed; leaving removes everything that was made."""

    foreign_errors = (DriverError, PreflightError, OSError)

    def __init__(self, config: Config, site: Site) -> None:
        super().__init__(config)
        self.site = site
        self.key = key_of(config.target)
        self._facts: attached.ServerFacts | None = None
        self._layout: Layout | None = None
        self._session: Session | None = None
        self._may_exist = False

    # --- set-up and teardown -----------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        allow_sessions(self.config.workload.connections + _OWN_SESSIONS)
        self._session = connect(self.config.target)
        self._facts = attached.read_facts(self._session)
        self._layout = Layout(self.config, self.site.prefix, self._facts)
        drop(self._session, self.site.prefix, self.key)  # if the run before this one could not
        self._may_exist = True
        self._layout.create(self._session)

    def _tear_down(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
        if not self._may_exist:
            return
        try:
            session = connect(self.config.target, database="master")  # a new one, as the run's may be lost
            try:
                drop(session, self.site.prefix, self.key)
            finally:
                session.close()
        except (DriverError, PreflightError) as error:
            raise RunFailed(
                f"what was made on the server could not be dropped: {hidden(self._words(error), self.config.target)}; "
                "that is tried again before the next run"
            ) from error

    def _words(self, error: BaseException) -> str:
        return words(error) if isinstance(error, DriverError) else str(error).strip()

    # --- connections -------------------------------------------------------------------------------------------------

    def _connect_worker(self) -> Session:
        return Session(replace(dsn_of(self.config.target), database=self.site.prefix), "storagelab worker")

    def _connect_sampler(self) -> Session:
        return Session(replace(dsn_of(self.config.target), database=self.site.prefix), "storagelab sampler")

    def _end_all(self) -> None:
        """End whatever works in storagelab's database: sessions of this run that did not come back."""
        session = connect(self.config.target, database="master")
        try:
            session.execute(_END_ALL.format(name=tsql.identifier(self.site.prefix)))
        finally:
            session.close()

    @property
    def _own(self) -> Session:
        assert self._session is not None, "the target is not entered"
        return self._session

    @property
    def layout(self) -> Layout:
        assert self._layout is not None, "the target is not entered"
        return self._layout

    @property
    def facts(self) -> attached.ServerFacts:
        assert self._facts is not None, "the target is not entered"
        return self._facts

    # --- what a run needs --------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, object]:
        """The environment of a run. Passwords and connection strings are never part of it."""
        return {
            "host": {},
            "client": host.describe_host(),
            "volumes": self._volume_facts(),
            "server": {
                "engine": "sqlserver", "how": "attached", "origin": "",
                **read_back.server_facts(self._own, self.facts, self.site.prefix),
            },
            "storagelab": {"version": storagelab.__version__},
        }  # fmt: skip

    def _volume_facts(self) -> dict[str, dict[str, Any]]:
        """What the operator says of each volume, and what the server adds."""
        told = {str(record["name"]): record for record in self._volume_records()}
        facts: dict[str, dict[str, Any]] = {}
        for file in [*self.layout.data_files, self.layout.log_file]:
            if file.volume is None or file.volume in facts:
                continue
            record = told.get(file.name, {})
            facts[file.volume] = {
                "path": self.config.volumes[file.volume].path, "remote": True,
                "device": record.get("volume_mount_point"), "filesystem": record.get("file_system_type"),
                "size_bytes": record.get("total_bytes"), "free_bytes": record.get("available_bytes"),
            }  # fmt: skip
        return facts

    def _volume_records(self) -> list[dict[str, Any]]:
        """Nothing where the server does not tell."""
        try:
            return self._own.records(read_back.VOLUMES)
        except DriverError:
            return []

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:  # noqa: ARG002
        """Load once and measure. Raises RunFailed with the server's words; the layout can't be used again."""
        try:
            return self._run(seed, progress)
        except (RunFailed, *self.foreign_errors) as error:
            raise RunFailed(hidden(self._words(error), self.config.target)) from error

    def _run(self, seed: int, progress: Progress) -> Measurement:
        workers = Workers(self._connect_worker, self.config.workload, self.site.prefix, seed)
        try:
            workers.open()
            environment = self.describe()
            files = read_back.read_files(self._own)
            self._prepare()
            sampler, clocks = self._sampler(workers), Clocks(self._server_time_s)
            try:
                sampler.prepare()
                workers.gather(self._own)
                before = self._read(workers)
                sampler.start()
                clocks.begin()
                workers.release(self._own)
                loops = workers.wait(lambda: progress(sampler.progress()))
                clocks.end()
            finally:
                watched = sampler.stop()
            after = self._read(workers)
        finally:
            workers.close(self._end_all)
        doubts = clocks.checks(loops)
        checkpoint_s = self._checkpoint()
        growth = read_back.growth(files, read_back.read_files(self._own))
        checks = [
            *doubts, *self._checks(), growth, *check_reads(self.config.workload, loops),
        ]  # fmt: skip
        return self._measurement(loops, before, after, watched, environment, checks, checkpoint_s)

    def _server_time_s(self) -> float:
        """The server's clock as its loops tell it, in seconds since the epoch."""
        return float(self._own.value(NOW_US)) / 1e6

    def _prepare(self) -> None:
        """So that no run inherits from the one before."""
        if self.config.between_runs.checkpoint:
            self._own.execute("CHECKPOINT")
        if self.config.between_runs.pause_s:
            time.sleep(self.config.between_runs.pause_s)

    def _sampler(self, workers: Workers) -> Sampler:
        files = self.layout.data_files
        return Sampler(
            connect=self._connect_sampler,
            sessions=workers.sessions,
            database=self.site.prefix,
            numbers={file.name: file.number for file in files},
            volume_of_file={
                file.name: file.volume for file in [*files, self.layout.primary_file, self.layout.log_file]
                if file.volume is not None
            },
            hz=self.config.measure.sample_hz,
            sample_waits=self.config.measure.waits,
            page_info=self.facts.major >= MAJOR_2019,
        )  # fmt: skip

    def _read(self, workers: Workers) -> _Reading:
        return _Reading(
            workers=counters.read_session_waits(self._own, workers.sessions),
            server=counters.read_server_waits(self._own),
            cpu_s=counters.read_cpu_s(self._own, workers.sessions),
            files=counters.read_files(self._own, self.site.prefix),
            rates=counters.read_rates(self._own, self.site.prefix),
        )

    def _checkpoint(self) -> float:
        began = time.perf_counter()
        self._own.execute("CHECKPOINT")
        return time.perf_counter() - began

    def _checks(self) -> list[Check]:
        checks = [
            *read_back.placement(self.layout, read_back.read_files(self._own)),
            *read_back.volumes(self.config, self.layout, self._volume_records()),
            *read_back.settings(self._own, self.config, self.site.prefix),
            read_back.table(self._own),
        ]
        if self.config.workload.kind == "sequential-insert":
            checks.append(read_back.one_row_a_page(self._own, self.config.workload.rows))
        return checks

    def _measurement(
        self,
        loops: list[Loop],
        before: _Reading,
        after: _Reading,
        watched: Watched,
        environment: dict[str, object],
        checks: list[Check],
        checkpoint_s: float,
    ) -> Measurement:
        elapsed_s = max(loop.finished_s for loop in loops) - min(loop.started_s for loop in loops)
        checks = [*checks, *check_watching(watched.error, watched.observer, elapsed_s)]
        connection_s = tuple(loop.finished_s - loop.started_s for loop in loops)
        rows, wanted = int(self._own.value(read_back.COUNT)), self.config.workload.rows
        if rows != wanted:
            raise RunFailed(f"the table holds {rows} rows, {wanted} were to be inserted")
        waits = None
        if self.config.measure.waits:
            waited = counters.counted_waits(counters.waits_between(before.workers, after.workers))
            waits = CountedWaits(
                connections=len(loops), elapsed_s=elapsed_s, busy_s=sum(connection_s), rows=waited,
                cpu_s=max(0.0, after.cpu_s - before.cpu_s),
            )  # fmt: skip
        server_waits = counters.server_waits_group(counters.waits_between(before.server, after.server))
        return Measurement(
            provenance="measured", elapsed_s=elapsed_s, rows=rows, checkpoint_s=checkpoint_s,
            connection_s=connection_s, waits=waits, waiting_tasks=watched.waiting_tasks,
            counters={
                **reads_made(loops), **difference(before.files, after.files), **difference(before.rates, after.rates),
                "waits of the whole server": server_waits,
            },
            series=watched.series, environment=environment, durability=judged(environment), checks=tuple(checks),
            observer=watched.observer, setup_s=self.setup_s,
        )  # fmt: skip


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """Drop what a killed run of this experiment left on the cell's server; says what.

    Raises PreflightError when that can't be done, or something of such a name is not storagelab's.
    """
    session = connect(config.target, database="master")
    try:
        return drop(session, site.prefix, key_of(config.target))
    except DriverError as error:
        raise PreflightError(
            f"what an earlier run left on the server can't be dropped: {hidden(words(error), config.target)}",
            key=key_of(config.target),
            hint=f"drop the database {site.prefix} by hand",
        ) from error
    finally:
        session.close()
