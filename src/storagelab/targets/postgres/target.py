"""PostgreSQL as a target: one cell's layout on a private or an attached server, set up, loaded, measured, removed."""

from __future__ import annotations

import os
import subprocess
import time
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

import storagelab
from storagelab import cpu_time, host
from storagelab.devices import DeviceCounters
from storagelab.devices import difference as device_difference
from storagelab.errors import PreflightError, RunFailed
from storagelab.model import Cell, Check, Config, Measurement
from storagelab.procfs import TaskView
from storagelab.targets import Progress, Site
from storagelab.targets.folders import Folders
from storagelab.targets.loops import Loop, rows_per_report
from storagelab.targets.postgres import attached, read_back
from storagelab.targets.postgres.binaries import binaries_for
from storagelab.targets.postgres.counters import read_counters
from storagelab.targets.postgres.layout import Layout
from storagelab.targets.postgres.sampler import Sampled, Sampler
from storagelab.targets.postgres.server import Server, check_settings
from storagelab.targets.postgres.settings import private_settings, settings_text
from storagelab.targets.postgres.workload import Workers
from storagelab.targets.steps import check_reads, check_watching, difference, first_line, prepare_machine, reads_made
from storagelab.targets.uninterrupted import uninterrupted
from storagelab.values import Scalar

Connection = psycopg.Connection[Any]

_FOREIGN_ERRORS = (psycopg.Error, PreflightError, OSError, subprocess.SubprocessError)
"""What one run may break with, so that it is stored as failed and the next ones go on; anything else is a bug."""
_RECOVERY_S = 20.0
"""How long an attached server that comes up again after a crash is waited for."""


class PostgresTarget:
    """A context manager for one cell. Entering raises RunFailed; leaving removes everything that was made."""

    def __init__(self, config: Config, site: Site) -> None:
        self.config, self.site = config, site
        self.volumes = site.volume_paths(config)
        self.folders = Folders(site, self.volumes)
        self.layout = Layout(config, site.prefix, self.folders if self.volumes else None)
        self.server: Server | None = None
        self._facts: attached.ServerFacts | None = None
        self._conninfo = ""
        self._connection: Connection | None = None
        self._expected: dict[str, str] = {}
        self.setup_s = 0.0

    # --- set-up and teardown -----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        began = time.perf_counter()
        try:
            if self.config.target.attached:
                self._attach()
            else:
                self.folders.make()
                self._start_private_server()
            self._connection = self._connect("storagelab")
            self.layout.create(self._connection)
        except _FOREIGN_ERRORS as error:
            reason = f"the layout could not be set up: {self._with_log(error)}"
            self.__exit__(type(error), error, None)
            raise RunFailed(reason) from error
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self.setup_s = time.perf_counter() - began
        return self

    def _start_private_server(self) -> None:
        binaries = binaries_for(self.config, self.site)
        settings = private_settings(self.config)
        self._expected = check_settings(binaries, settings)
        assert self.config.log_volume is not None
        self.server = Server(
            binaries,
            data_folder=self.folders[self.config.data_volumes[0]] / "server",
            log_folder=self.folders[self.config.log_volume] / "log",
            settings=settings,
        )
        self.server.start()
        self._conninfo = self.server.conninfo
        self.layout.make_folders()

    def _attach(self) -> None:
        self._conninfo = attached.conninfo(self.config.target)
        with attached.connect(self.config.target) as connection:
            self._facts = attached.read_facts(connection)
            self.layout.drop(connection)
        self.folders.remove()  # if the run before this one could not remove them, as the server was away
        self.folders.make()
        self.layout.make_folders(self._facts.process_owner)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Raises RunFailed if not all could be removed, unless there is an error already: the first reason wins."""
        with uninterrupted():
            try:
                self._tear_down()
            except RunFailed:
                if kind is None:
                    raise

    def _tear_down(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if self.server is not None:
            self.server.stop()
        elif self.config.target.attached:
            if self._facts is None:  # never got there: an earlier run's folders may still be in the server's use
                return
            self._drop_from_server()
        self.folders.remove()

    def _drop_from_server(self) -> None:
        """On a connection of its own, as the run's may be lost.

        Raises RunFailed if that can't be done; the folders then stay, because a server whose files vanish under it may
        stop for good.
        """
        deadline = time.monotonic() + _RECOVERY_S
        while True:
            try:
                with attached.connect(self.config.target) as connection:
                    self.layout.drop(connection)
                return
            except (psycopg.Error, PreflightError) as error:
                if "the database system is" not in str(error) or time.monotonic() > deadline:
                    raise RunFailed(
                        f"what was made on the server could not be dropped: {first_line(error)}; "
                        "that is tried again before the next run"
                    ) from error
            time.sleep(0.2)

    # --- connections -------------------------------------------------------------------------------------------------

    def _connect(self, application_name: str) -> Connection:
        connection = psycopg.connect(self._conninfo, autocommit=True, application_name=application_name)
        connection.prepare_threshold = None
        return connection

    def _connect_worker(self) -> Connection:
        connection = self._connect("storagelab 0")
        if self.server is None:
            for name, value in self.config.target.settings.items():
                connection.execute("SELECT set_config(%s, %s, false)", [name, settings_text(value)])
        return connection

    @property
    def _own(self) -> Connection:
        assert self._connection is not None, "the target is not entered"
        return self._connection

    @property
    def _major(self) -> int:
        return self._own.info.server_version // 10_000

    @property
    def _kernel_view(self) -> bool:
        """Can this machine's kernel be asked about the server's sessions?"""
        if self._facts is not None:
            return self._facts.on_this_machine
        return Path("/proc/self/schedstat").exists()

    # --- what a run needs --------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, object]:
        """The environment of a run. Passwords and connection strings are never part of it."""
        with self._connect_worker() as connection:
            return self._environment(connection)

    def _environment(self, connection: Connection) -> dict[str, object]:
        """As one of the workload's sessions sees it: on an attached server only those have the settings asked for."""
        how = "private" if self.server is not None else "attached"
        origin = self.server.binaries.origin if self.server is not None else ""
        here = host.describe_host()
        remote = self._facts is not None and not self._facts.on_this_machine
        return {
            **({"host": {}, "client": here} if remote else {"host": here}),
            "volumes": {name: host.describe_volume(path) for name, path in self._watched_volumes().items()},
            "server": {"engine": "postgres", "how": how, "origin": origin, **read_back.server_facts(connection)},
            "storagelab": {"version": storagelab.__version__},
        }

    def _watched_volumes(self) -> dict[str, Path]:
        """The spec's volumes; without any, where an attached server of this machine keeps its files, if it tells."""
        if self.volumes or self._facts is None or not self._facts.on_this_machine:
            return self.volumes
        folder = attached.data_folder(self._own)
        return {"server": folder} if folder is not None else {}

    def run(self, cell: Cell, repetition: int, seed: int, progress: Progress) -> Measurement:  # noqa: ARG002
        """Load once and measure. Raises RunFailed with the server's words; the layout can't be used again."""
        try:
            return self._run(seed, progress)
        except (RunFailed, *_FOREIGN_ERRORS) as error:
            raise RunFailed(self._with_log(error)) from error

    def _with_log(self, error: BaseException) -> str:
        """The error's words, and those of the server's log if a connection was lost with it: it says why."""
        words = str(error).strip()
        if self.server is None or "connection" not in words:
            return words
        deadline = time.monotonic() + 1.0
        while not self.server.died() and time.monotonic() < deadline:
            time.sleep(0.05)
        died = "the server died: " if self.server.died() else ""
        return f"{died}{words}\nthe server's log says:\n{self.server.log_of_trouble()}"

    def _run(self, seed: int, progress: Progress) -> Measurement:
        workers = Workers(self._connect_worker, self.config.workload, self.site.prefix, self._gate, seed)
        try:
            workers.open()
            environment = self._environment(workers.first)
            prepare_machine(self.config.between_runs, self.volumes, lambda: self._own.execute("CHECKPOINT"))
            devices = DeviceCounters(self._watched_volumes())
            sampler = self._sampler(workers, devices)
            try:
                sampler.prepare()
                workers.gather(self._own)
                counters_before, devices_before = read_counters(self._own, self._major), devices.read()
                cpu_before = self._read_cpu_time()
                sampler.baseline()
                sampler.start()
                workers.release(self._own)
                loops = workers.wait(lambda: self._on_poll(progress, sampler.progress()))
            finally:
                sampled = sampler.stop()
            devices_after, cpu_after = devices.read(), self._read_cpu_time()
            workers.flush_statistics()
            counters = difference(counters_before, read_counters(self._own, self._major)) | reads_made(loops)
            settings_checks = [*self._check_settings(workers), *check_reads(self.config.workload, loops)]
        finally:
            workers.close()
        counters["volumes"] = device_difference(devices_before, devices_after)
        counters["cpu"] = cpu_time.difference(cpu_before, cpu_after)
        checkpoint_s = self._checkpoint()
        if checkpoint_s is not None:
            counters["volumes, final checkpoint"] = device_difference(devices_after, devices.read())
        return self._measurement(loops, sampled, counters, checkpoint_s, environment, settings_checks)

    def _on_poll(self, progress: Progress, rows: int) -> None:
        # Sessions of a server that was killed would go on to their end, and only then notice.
        if self.server is not None and self.server.died():
            raise RunFailed("all connections lost their server")
        progress(rows)

    def _read_cpu_time(self) -> dict[str, float]:
        """CPU seconds so far, the server's own processes told from others where this machine's kernel knows them."""
        parent = TaskView(self._own.info.backend_pid).parent() if self._kernel_view else None
        return cpu_time.read_cpu_time(parent)

    @property
    def _gate(self) -> int:
        """The advisory lock's key: this experiment's own."""
        return zlib.crc32(self.site.prefix.encode())

    def _sampler(self, workers: Workers, devices: DeviceCounters) -> Sampler:
        return Sampler(
            connect=lambda: self._connect("storagelab sampler"),
            pids=workers.pids,
            hz=self.config.measure.sample_hz,
            sample_waits=self.config.measure.waits,
            kernel_view=self._kernel_view,
            relations=self.layout.relations(self._own),
            probe=devices.read,
            rows_per_report=rows_per_report(self.config.workload),
        )

    def _checkpoint(self) -> float | None:
        """Seconds of the checkpoint after the load; None where the login may not ask for one."""
        began = time.perf_counter()
        try:
            self._own.execute("CHECKPOINT")
        except psycopg.errors.InsufficientPrivilege:
            return None
        return time.perf_counter() - began

    def _check_settings(self, workers: Workers) -> list[Check]:
        asked = {name: settings_text(value) for name, value in self._asked_settings().items()}
        if self.server is not None:
            return read_back.settings(self._own, asked, self._expected)
        return read_back.session_settings(workers.first, asked)

    def _asked_settings(self) -> dict[str, Scalar]:
        return private_settings(self.config) if self.server is not None else self.config.target.settings

    def _measurement(
        self,
        loops: list[Loop],
        sampled: Sampled,
        counters: dict[str, dict[str, float]],
        checkpoint_s: float | None,
        environment: dict[str, object],
        settings_checks: list[Check],
    ) -> Measurement:
        elapsed_s = max(loop.finished_s for loop in loops) - min(loop.started_s for loop in loops)
        connection_s = tuple(loop.finished_s - loop.started_s for loop in loops)
        wanted = self.config.workload.rows
        rows = self.layout.count_rows(self._own)
        if rows != wanted:
            raise RunFailed(f"the table holds {rows} rows, {wanted} were to be inserted")
        waits = None
        if self.config.measure.waits:
            waits = sampled.waits(elapsed_s, sum(connection_s), len(loops))
        return Measurement(
            provenance="measured",
            elapsed_s=elapsed_s,
            rows=rows,
            checkpoint_s=checkpoint_s,
            connection_s=connection_s,
            waits=waits,
            waiting_tasks=sampled.waiting_tasks,
            counters=counters,
            series=sampled.series,
            environment=environment,
            checks=(
                *self.layout.read_back(self._own),
                *self._check_log_place(),
                *settings_checks,
                *self._check_pages(rows),
                *check_watching(sampled.error),
            ),
            observer=sampled.observer,
            setup_s=self.setup_s,
        )

    def _check_log_place(self) -> list[Check]:
        if self.server is None:
            return []
        asked, got = str(self.server.log_folder), os.path.realpath(self.server.data_folder / "pg_wal")
        return [
            Check(name="place of the log", asked=asked, got=got, ok=asked == got, read_from="pg_wal on the file system")
        ]

    def _check_pages(self, rows: int) -> list[Check]:
        if self.config.workload.kind != "sequential-insert":
            return []
        return [read_back.one_row_a_page(self._own, self.layout, rows)]


def drop_leftovers(config: Config, site: Site) -> list[str]:
    """What a killed run left on an attached server is dropped; says what. Raises PreflightError when it can't be."""
    with attached.connect(config.target) as connection:
        try:
            return Layout(config, site.prefix, None).drop(connection)
        except psycopg.Error as error:
            raise PreflightError(
                f"what an earlier run left on the server can't be dropped: {first_line(error)}",
                key="target.dsn",
                hint=f"drop the schema {site.prefix} by hand, as its owner",
            ) from error
